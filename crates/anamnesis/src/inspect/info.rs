//! The summary of a safetensors checkpoint.

use std::collections::HashMap;
use std::fmt;

use super::{comma_list, format_bytes};
use crate::catalog::{Catalog, Dtype, TargetDtype};
use crate::scheme::{Claimed, ClaimedTensor, Coding, QuantScheme, TensorRole};

/// Counts and sizes of a checkpoint, and the schemes it uses.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub struct InspectInfo {
    /// The scheme of most quantised values.
    pub format: QuantScheme,
    /// Quantised weights.
    pub quantized: usize,
    /// Scale tensors.
    pub scales: usize,
    /// Tensors kept as they are.
    pub passthrough: usize,
    /// Types of the scales, in the order they occur.
    pub scale_dtypes: Vec<Dtype>,
    /// Types of the tensors kept as they are, in the order they occur.
    pub passthrough_dtypes: Vec<Dtype>,
    /// Zero-point tensors.
    pub zeropoints: usize,
    /// Group-index tensors.
    pub group_indices: usize,
    /// Look-up tables.
    pub quant_maps: usize,
    /// Nested scale tensors.
    pub nested_scales: usize,
    /// All stored tensors.
    pub tensor_count: usize,
    /// Bytes of all stored tensors.
    pub current_size: u64,
    /// Bytes of all tensors once decoded; those that are not decoded count as they are stored, see
    /// [`decoded_size`](Self::decoded_size).
    pub dequantized_size: u64,
    /// Weights among the quantised that are recognised and not decoded.
    pub undecoded: usize,
    /// The type assumed for decoded weights.
    pub output_dtype: TargetDtype,
    /// Each scheme in detail with its number of weights, the most frequent first.
    pub schemes: Vec<(String, usize)>,
    /// The same as data, once for everything that decided it.
    pub codings: Vec<SchemeSummary>,
    /// Why the checkpoint could not be decoded; empty where it can.
    pub problems: Vec<String>,
}

impl InspectInfo {
    pub(crate) fn of_claimed(catalog: &Catalog, claimed: &Claimed, output_dtype: TargetDtype) -> Self {
        let mut info = Self::of_rows(claimed.dominant_scheme(catalog), claimed.rows(catalog), output_dtype);
        info.codings = codings(claimed);
        info.schemes = texts(&info.codings);
        info.problems = claimed.problems.iter().map(ToString::to_string).collect();
        info
    }

    pub(crate) fn of_rows(
        format: QuantScheme,
        rows: impl IntoIterator<Item = ClaimedTensor>,
        output_dtype: TargetDtype,
    ) -> Self {
        let mut info = Self {
            format,
            quantized: 0,
            scales: 0,
            passthrough: 0,
            scale_dtypes: Vec::new(),
            passthrough_dtypes: Vec::new(),
            zeropoints: 0,
            group_indices: 0,
            quant_maps: 0,
            nested_scales: 0,
            tensor_count: 0,
            current_size: 0,
            dequantized_size: 0,
            undecoded: 0,
            output_dtype,
            schemes: Vec::new(),
            codings: Vec::new(),
            problems: Vec::new(),
        };
        for row in rows {
            info.tensor_count += 1;
            info.current_size = info.current_size.saturating_add(row.bytes);
            let decoded = match (row.role, row.values) {
                (TensorRole::Quantized, Some(values)) => values.saturating_mul(output_dtype.byte_size() as u64),
                (TensorRole::Quantized | TensorRole::Passthrough, _) => row.bytes,
                _ => 0,
            };
            info.undecoded += usize::from(row.role == TensorRole::Quantized && row.values.is_none());
            info.dequantized_size = info.dequantized_size.saturating_add(decoded);
            *match row.role {
                TensorRole::Quantized => &mut info.quantized,
                TensorRole::Scale => &mut info.scales,
                TensorRole::Passthrough => &mut info.passthrough,
                TensorRole::ZeroPoint => &mut info.zeropoints,
                TensorRole::GroupIndex => &mut info.group_indices,
                TensorRole::QuantMap => &mut info.quant_maps,
                TensorRole::NestedScale => &mut info.nested_scales,
                TensorRole::QuantState => continue,
            } += 1;
            let dtypes = match row.role {
                TensorRole::Scale => &mut info.scale_dtypes,
                TensorRole::Passthrough => &mut info.passthrough_dtypes,
                _ => continue,
            };
            if !dtypes.contains(&row.dtype) {
                dtypes.push(row.dtype);
            }
        }
        info
    }

    /// Bytes of all tensors once decoded; `None` where some are not, so that nobody knows.
    #[must_use]
    pub const fn decoded_size(&self) -> Option<u64> {
        if self.undecoded == 0 { Some(self.dequantized_size) } else { None }
    }

    /// Bytes that decoding gives back.
    #[must_use]
    pub const fn lethe_took(&self) -> u64 {
        self.dequantized_size.saturating_sub(self.current_size)
    }

    /// The scheme of most quantised values in words, with the float format and the blocks that the checkpoint has.
    #[must_use]
    pub fn scheme_name(&self) -> String {
        let of_scheme = || self.codings.iter().filter(|summary| summary.scheme == self.format);
        // One value where all weights of the scheme agree.
        let mut formats = of_scheme().map(|summary| summary.coding.format.as_str());
        let format = formats.next().filter(|first| formats.all(|other| other == *first));
        let mut blocks = of_scheme().map(|summary| summary.coding.block_shape);
        let block = blocks.next().filter(|first| blocks.all(|other| other == *first)).flatten();
        let known = self.format.to_string();
        let is_fp8 =
            matches!(self.format, QuantScheme::FineGrainedFp8 | QuantScheme::PerChannelFp8 | QuantScheme::PerTensorFp8);
        if !is_fp8 || of_scheme().next().is_none() {
            return known;
        }
        let known = match format {
            Some(format) => known.replace("E4M3", format),
            None => known.replace(" (E4M3)", ""),
        };
        match block {
            Some((rows, columns)) => known.replace("128x128", &format!("{rows}x{columns}")),
            None => known.replace("128x128 blocks", "blocks of several sizes"),
        }
    }

    /// The types of the tensors once decoded: those of the plain tensors where nothing is quantised.
    #[must_use]
    pub fn decoded_types(&self) -> String {
        match self.quantized {
            0 if !self.passthrough_dtypes.is_empty() => comma_list(&self.passthrough_dtypes),
            _ => self.output_dtype.to_string(),
        }
    }

    /// The summary in lines, with sizes written as `size` does; `Display` has those of [`format_bytes`].
    pub fn with_sizes(&self, size: fn(u64) -> String) -> impl fmt::Display {
        WithSizes { info: self, size }
    }

    /// Whether the known line tells the whole truth about the schemes.
    fn scheme_line_is_exact(&self) -> bool {
        let exact = match self.format {
            QuantScheme::FineGrainedFp8 => "FP8 E4M3, 128x128 blocks",
            QuantScheme::PerChannelFp8 => "FP8 E4M3, one scale per row",
            QuantScheme::PerTensorFp8 => "FP8 E4M3, one scale per tensor",
            _ => return self.schemes.len() < 2,
        };
        self.schemes.iter().all(|(text, _)| text == exact)
    }
}

impl fmt::Display for InspectInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, format_bytes)
    }
}

/// The summary with another way to write sizes.
struct WithSizes<'a> {
    info: &'a InspectInfo,
    size: fn(u64) -> String,
}

impl fmt::Display for WithSizes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.write(f, self.size)
    }
}

impl InspectInfo {
    fn write(&self, f: &mut fmt::Formatter<'_>, size: fn(u64) -> String) -> fmt::Result {
        writeln!(f, "Format:      {}", self.scheme_name())?;
        if !self.scheme_line_is_exact() {
            for (index, (text, count)) in self.schemes.iter().enumerate() {
                writeln!(f, "{:<13}{count} × {text}", if index == 0 { "Schemes:" } else { "" })?;
            }
        }
        write!(f, "Quantized:   {} tensors (weights)", self.quantized)?;
        if self.scales > 0 {
            write!(f, " + {} scale tensors ({})", self.scales, comma_list(&self.scale_dtypes))?;
        }
        writeln!(f, "\nPassthrough: {} tensors (norms, embeddings)", self.passthrough)?;
        let optional = [
            ("Zero-points:", self.zeropoints, ""),
            ("Group index:", self.group_indices, " (activation-order)"),
            ("Quant maps:", self.quant_maps, " (lookup tables)"),
            ("Nested:", self.nested_scales, " (double-quant absmax)"),
        ];
        for (label, count, note) in optional.into_iter().filter(|(_, count, _)| *count > 0) {
            writeln!(f, "{label:<13}{count} tensors{note}")?;
        }
        let current = size(self.current_size);
        let decoded = self.decoded_size().map_or_else(|| "unknown".to_owned(), size);
        write!(f, "Size:        {current} ({}) -> {decoded} ({})", self.format.short_name(), self.decoded_types())?;
        if self.format != QuantScheme::Unquantized && self.undecoded == 0 {
            write!(f, "\nLethe took:  ~{} of precision", size(self.lethe_took()))?;
        }
        for (index, problem) in self.problems.iter().take(PROBLEMS_SHOWN).enumerate() {
            write!(f, "\n{:<13}{problem}", if index == 0 { "Problems:" } else { "" })?;
        }
        if self.problems.len() > PROBLEMS_SHOWN {
            write!(f, "\n{:<13}and {} more", "", self.problems.len() - PROBLEMS_SHOWN)?;
        }
        Ok(())
    }
}

/// One way in which weights are quantised, and what decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemeSummary {
    /// In words.
    pub description: String,
    /// The family.
    pub scheme: QuantScheme,
    /// The codes.
    pub coding: Coding,
    /// Weights that are quantised so.
    pub weights: usize,
}

/// Each scheme in detail, the most frequent first.
fn codings(claimed: &Claimed) -> Vec<SchemeSummary> {
    let mut codings: Vec<SchemeSummary> = Vec::new();
    let mut known = HashMap::new();
    for weight in &claimed.weights {
        let (description, coding, scheme) = (weight.recipe.describe(), weight.coding.clone(), weight.scheme);
        let index = *known.entry((description.clone(), coding.clone())).or_insert(codings.len());
        match codings.get_mut(index) {
            Some(summary) => summary.weights += 1,
            None => codings.push(SchemeSummary { description, scheme, coding, weights: 1 }),
        }
    }
    codings.sort_by_key(|summary| std::cmp::Reverse(summary.weights));
    codings
}

/// The descriptions, each once.
fn texts(codings: &[SchemeSummary]) -> Vec<(String, usize)> {
    let mut texts: Vec<(String, usize)> = Vec::new();
    let mut known = HashMap::new();
    for summary in codings {
        let index = *known.entry(&summary.description).or_insert(texts.len());
        match texts.get_mut(index) {
            Some((_, weights)) => *weights += summary.weights,
            None => texts.push((summary.description.clone(), summary.weights)),
        }
    }
    texts.sort_by_key(|(_, weights)| std::cmp::Reverse(*weights));
    texts
}

/// Problems that are printed; the rest are counted.
const PROBLEMS_SHOWN: usize = 5;

/// What all inspections have in common.
pub trait InspectSummary: sealed::Sealed {
    /// Stored tensors.
    fn tensor_count(&self) -> usize;
    /// Bytes of all stored tensors.
    fn current_size(&self) -> u64;
    /// Bytes of all tensors once decoded.
    fn dequantized_size(&self) -> u64;
    /// The type assumed for decoded weights.
    fn output_dtype(&self) -> TargetDtype;
    /// How many bytes more the decoded tensors take.
    fn expansion(&self) -> u64 {
        self.dequantized_size().saturating_sub(self.current_size())
    }
}

impl InspectSummary for InspectInfo {
    fn tensor_count(&self) -> usize {
        self.tensor_count
    }

    fn current_size(&self) -> u64 {
        self.current_size
    }

    fn dequantized_size(&self) -> u64 {
        self.dequantized_size
    }

    fn output_dtype(&self) -> TargetDtype {
        self.output_dtype
    }
}

pub(crate) mod sealed {
    pub trait Sealed {}
    impl Sealed for super::InspectInfo {}
}
