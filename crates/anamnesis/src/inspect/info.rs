//! The summary of a safetensors checkpoint.

use std::collections::HashMap;
use std::fmt;

use super::{comma_list, format_bytes};
use crate::catalog::{Catalog, Dtype, TargetDtype};
use crate::scheme::{Claimed, ClaimedTensor, Coding, QuantScheme, TensorRole};

/// Counts, sizes and schemes of a checkpoint.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub struct InspectInfo {
    /// The scheme of most quantised values.
    pub format: QuantScheme,
    /// Number of quantised weights.
    pub quantized: usize,
    /// Number of scale tensors.
    pub scales: usize,
    /// Number of tensors that are not quantised.
    pub passthrough: usize,
    /// Types of the scales, in order of first occurrence.
    pub scale_dtypes: Vec<Dtype>,
    /// Types of the tensors that are not quantised, in order of first occurrence.
    pub passthrough_dtypes: Vec<Dtype>,
    /// Number of zero-point tensors.
    pub zeropoints: usize,
    /// Number of group-index tensors.
    pub group_indices: usize,
    /// Number of lookup tables.
    pub quant_maps: usize,
    /// Number of nested scale tensors.
    pub nested_scales: usize,
    /// Number of stored tensors.
    pub tensor_count: usize,
    /// Bytes of all stored tensors.
    pub current_size: u64,
    /// Bytes of all tensors after decoding; tensors that cannot be decoded count as stored, see
    /// [`decoded_size`](Self::decoded_size).
    pub dequantized_size: u64,
    /// Number of quantised weights that are recognised but cannot be decoded.
    pub undecoded: usize,
    /// The output type of decoded weights.
    pub output_dtype: TargetDtype,
    /// Descriptions of the schemes with their numbers of weights, the most frequent first.
    pub schemes: Vec<(String, usize)>,
    /// The same as data, one entry per coding.
    pub codings: Vec<SchemeSummary>,
    /// Why the checkpoint cannot be decoded; empty if it can.
    pub problems: Vec<String>,
}

impl InspectInfo {
    pub(crate) fn of_claimed(catalog: &Catalog, claimed: &Claimed, output_dtype: TargetDtype) -> Self {
        let mut info = Self::of_rows(claimed.dominant_scheme(catalog), claimed.rows(catalog), output_dtype);
        info.codings = codings(claimed);
        info.schemes = distinct_descriptions(&info.codings);
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

    /// Bytes of all tensors after decoding; `None` if some cannot be decoded.
    #[must_use]
    pub const fn decoded_size(&self) -> Option<u64> {
        if self.undecoded == 0 { Some(self.dequantized_size) } else { None }
    }

    /// Bytes that quantisation saved.
    #[must_use]
    pub const fn lethe_took(&self) -> u64 {
        self.dequantized_size.saturating_sub(self.current_size)
    }

    /// The scheme of most quantised values as text, with its float format and block size.
    #[must_use]
    pub fn scheme_name(&self) -> String {
        let of_scheme = || self.codings.iter().filter(|summary| summary.scheme == self.format);
        // A value that all weights of the scheme share.
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

    /// The types of the decoded tensors: those of the plain tensors if nothing is quantised.
    #[must_use]
    pub fn decoded_types(&self) -> String {
        match self.quantized {
            0 if !self.passthrough_dtypes.is_empty() => comma_list(&self.passthrough_dtypes),
            _ => self.output_dtype.to_string(),
        }
    }

    /// The summary as text, with sizes formatted by `size`; `Display` uses [`format_bytes`].
    pub fn with_sizes(&self, size: fn(u64) -> String) -> impl fmt::Display {
        WithSizes { info: self, size }
    }

    /// Whether the published scheme line describes all schemes exactly.
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

/// A summary with a size formatter.
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

/// A coding of weights.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemeSummary {
    /// Its description.
    pub description: String,
    /// The family.
    pub scheme: QuantScheme,
    /// The codes.
    pub coding: Coding,
    /// Number of weights with this coding.
    pub weights: usize,
}

/// All codings, the most frequent first.
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

/// The distinct descriptions.
fn distinct_descriptions(codings: &[SchemeSummary]) -> Vec<(String, usize)> {
    let mut distinct_descriptions: Vec<(String, usize)> = Vec::new();
    let mut known = HashMap::new();
    for summary in codings {
        let index = *known.entry(&summary.description).or_insert(distinct_descriptions.len());
        match distinct_descriptions.get_mut(index) {
            Some((_, weights)) => *weights += summary.weights,
            None => distinct_descriptions.push((summary.description.clone(), summary.weights)),
        }
    }
    distinct_descriptions.sort_by_key(|(_, weights)| std::cmp::Reverse(*weights));
    distinct_descriptions
}

/// Maximum number of problems to print.
const PROBLEMS_SHOWN: usize = 5;

/// Fields that all inspection types share.
pub trait InspectSummary: sealed::Sealed {
    /// Number of stored tensors.
    fn tensor_count(&self) -> usize;
    /// Bytes of all stored tensors.
    fn current_size(&self) -> u64;
    /// Bytes of all tensors after decoding.
    fn dequantized_size(&self) -> u64;
    /// The output type of decoded weights.
    fn output_dtype(&self) -> TargetDtype;
    /// How many bytes larger the decoded tensors are.
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
