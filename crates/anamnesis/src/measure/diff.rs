//! The difference between two checkpoints: names, shapes and types, and how far apart the decoded values are.
//!
//! Tensors are compared by their names after decoding. If one of the checkpoints is a GGUF file and the other names a
//! known architecture, the other is compared under the names of GGUF, with the changes that a conversion makes to its
//! values: rows in another order, tensors merged or split, weights with an added constant.
//!
//! Both values of a pair are decoded to the same type, F32 by default. Sums are made in the order of `stats`.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::blocks::MeasuringSink;
use super::differences::{Differences, MeasureDifferences};
use super::paired::{SharedSource, paired};
use super::tensors::{DecodedInput, InputContent, measured};
use super::wide::WideTensor;
use crate::cancel::CancelToken;
use crate::catalog::{Dtype, StoredTensor, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::container::Format;
use crate::convert::GgufValues;
use crate::error::{AnamnesisError, Result};
use crate::pipeline::{self, Plan, Progress, RememberOptions, Values};

/// Bytes read at a time of tensors that are compared as stored.
const PIECE_BYTES: u64 = 1 << 20;

/// Options of [`Checkpoint::diff`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DiffOptions {
    /// How to run: threads, CPU level, cancellation.
    pub run: RememberOptions,
    /// The type that all values are decoded to; F32 by default. With BF16, a quantised weight equals its decoded form in
    /// a file of BF16.
    pub dtype: Option<TargetDtype>,
    /// Whether names are compared as they are, even if a known architecture has other names in GGUF.
    pub keep_names: bool,
}

impl DiffOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how to run.
    #[must_use]
    pub fn with_run(mut self, run: RememberOptions) -> Self {
        self.run = run;
        self
    }

    /// Sets the type that all values are decoded to.
    #[must_use]
    pub const fn with_dtype(mut self, dtype: TargetDtype) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// Sets whether names are compared as they are.
    #[must_use]
    pub const fn with_keep_names(mut self, keep_names: bool) -> Self {
        self.keep_names = keep_names;
        self
    }
}

/// The difference between two checkpoints.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelDiff {
    /// The names that only the first has, sorted.
    pub only_in_first: Vec<String>,
    /// The names that only the second has, sorted.
    pub only_in_second: Vec<String>,
    /// Every tensor that both have, the worst first: those that cannot be compared, then by signal-to-noise ratio.
    pub tensors: Vec<TensorDiff>,
    /// Why the names of a known architecture could not be matched, if so.
    pub unmapped: Option<String>,
}

impl ModelDiff {
    /// Whether both have the same tensors with the same bits after decoding.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.has_same_names() && self.tensors.iter().all(TensorDiff::is_equal)
    }

    /// Whether both have the same tensors, and no value differs by more than `tolerance`.
    #[must_use]
    pub fn is_within(&self, tolerance: f64) -> bool {
        self.has_same_names() && self.tensors.iter().all(|tensor| tensor.is_within(tolerance))
    }

    fn has_same_names(&self) -> bool {
        self.only_in_first.is_empty() && self.only_in_second.is_empty()
    }
}

/// The difference between two tensors.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TensorDiff {
    /// Its name in the first checkpoint.
    pub name: String,
    /// Its name in the second checkpoint, if that is another one.
    pub name_in_second: Option<String>,
    /// The type or scheme in each.
    pub types: [String; 2],
    /// How they differ.
    pub outcome: DiffOutcome,
}

/// How two tensors differ.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum DiffOutcome {
    /// Their shapes differ, so that values are not compared.
    Shapes([Vec<usize>; 2]),
    /// Their types differ, and one of them is not decoded to floats.
    Types,
    /// Their values were compared.
    Values(ValueDiff),
}

/// The difference between the values of two tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ValueDiff {
    /// Number of values.
    pub values: u64,
    /// Number of values whose bits differ.
    pub different: u64,
    /// Number of these of which one is NaN or infinite, unless both are NaN. Values that are not finite are not part of
    /// the figures below.
    pub incomparable: u64,
    /// Largest absolute difference.
    pub max_absolute: f64,
    /// Mean absolute difference.
    pub mean_absolute: f64,
    /// Signal-to-noise ratio in decibels, with the first tensor as the signal; infinite if there is no difference.
    pub sqnr: f64,
    /// Cosine similarity.
    pub cosine: f64,
}

impl TensorDiff {
    /// Whether all bits are equal.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.values().is_some_and(|values| values.different == 0)
    }

    /// Whether no value differs by more than `tolerance`.
    #[must_use]
    pub fn is_within(&self, tolerance: f64) -> bool {
        self.values().is_some_and(|values| values.incomparable == 0 && values.max_absolute <= tolerance)
    }

    /// The differences of its values, if they were compared.
    #[must_use]
    pub const fn values(&self) -> Option<&ValueDiff> {
        match &self.outcome {
            DiffOutcome::Values(values) => Some(values),
            DiffOutcome::Shapes(_) | DiffOutcome::Types => None,
        }
    }

    /// The worst first.
    fn by_severity(&self, other: &Self) -> Ordering {
        let rank = |diff: &Self| match &diff.outcome {
            DiffOutcome::Shapes(_) => (0, f64::NEG_INFINITY),
            DiffOutcome::Types => (1, f64::NEG_INFINITY),
            DiffOutcome::Values(values) if values.incomparable > 0 => (2, values.sqnr),
            DiffOutcome::Values(values) if values.different > 0 => (3, values.sqnr),
            DiffOutcome::Values(values) => (4, values.sqnr),
        };
        let ((a, sqnr), (b, other_sqnr)) = (rank(self), rank(other));
        a.cmp(&b).then(sqnr.total_cmp(&other_sqnr)).then_with(|| self.name.cmp(&other.name))
    }
}

impl ValueDiff {
    fn new(values: u64, sums: &Differences) -> Self {
        let count = sums.distance.values;
        Self {
            values,
            different: sums.unequal,
            incomparable: sums.incomparable,
            max_absolute: sums.largest,
            mean_absolute: if count == 0 { 0.0 } else { sums.distance.absolute / count as f64 },
            sqnr: sums.distance.sqnr(),
            cosine: sums.distance.cosine(),
        }
    }
}

impl Checkpoint {
    /// Compares two checkpoints of any formats. Nothing is written, memory does not depend on their size, and results
    /// do not depend on the number of threads.
    ///
    /// ```no_run
    /// use anamnesis::{Checkpoint, DiffOptions, ParseLimits};
    /// let original = Checkpoint::open("Llama-3.2-1B", &ParseLimits::default())?;
    /// let quantised = Checkpoint::open("Llama-3.2-1B-Q4_K_M.gguf", &ParseLimits::default())?;
    /// for tensor in original.diff(&quantised, &DiffOptions::new(), |_| {})?.tensors {
    ///     println!("{}: {:?}", tensor.name, tensor.values());
    /// }
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`plan`](Self::plan) if one of them cannot be decoded, `Io` if a file cannot be read, `Cancelled` if the run
    /// is cancelled.
    pub fn diff(&self, second: &Self, options: &DiffOptions, mut watch: impl FnMut(&Progress)) -> Result<ModelDiff> {
        let dtype = options.dtype.unwrap_or(TargetDtype::F32);
        let mut diff = ModelDiff::default();
        let sides = Sides::new([self, second], dtype, options.keep_names, &mut diff)?;
        let cancel = options.run.cancel_token();
        let mut jobs = Vec::new();
        for pair in sides.pairs(&mut diff) {
            let [a, b] = &pair.tensors;
            let (name, name_in_second) = (a.shown.clone(), Some(b.shown.clone()).filter(|name| *name != a.shown));
            let types = [a.type_name.clone(), b.type_name.clone()];
            let mut tensor = TensorDiff { name, name_in_second, types, outcome: DiffOutcome::Types };
            let is_same_shape = a.shape == b.shape || pair.is_mapped && is_alike(&a.shape, &b.shape);
            let [a, b] = pair.tensors;
            if !is_same_shape {
                tensor.outcome = DiffOutcome::Shapes([a.shape, b.shape]);
                diff.tensors.push(tensor);
                continue;
            }
            match (a, b) {
                // Types that F32 does not hold are compared as stored.
                (Compared { stored: Some(a), .. }, Compared { stored: Some(b), .. }) if a.dtype == b.dtype => {
                    let sums = stored_differences([(self, a), (second, b)], &cancel)?;
                    tensor.outcome = DiffOutcome::Values(ValueDiff::new(a.elements(), &sums));
                    diff.tensors.push(tensor);
                }
                (Compared { values: Some(a), .. }, Compared { values: Some(b), .. }) => {
                    let elements = a.elements;
                    let values = paired(a, b, self.sources.len(), dtype)?;
                    let job = measured(&tensor.name, values.clone(), values.elements);
                    jobs.push((job, (tensor, elements)));
                }
                _ => diff.tensors.push(tensor),
            }
        }
        jobs.sort_by_key(|(job, _)| job.source());
        let (planned, tensors): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        let plan = Plan::without_file(planned);
        let sources = SharedSource::joined([&self.sources, &second.sources]);
        let sink = MeasuringSink::new(MeasureDifferences, &plan, options.run.cpu_level().level());
        pipeline::run(&plan, &sources, &sink, &options.run, &mut watch)?;
        for ((mut tensor, elements), sums) in tensors.into_iter().zip(sink.finish().1) {
            tensor.outcome = DiffOutcome::Values(ValueDiff::new(elements, &sums));
            diff.tensors.push(tensor);
        }
        diff.tensors.sort_by(TensorDiff::by_severity);
        diff.only_in_first.sort();
        diff.only_in_second.sort();
        Ok(diff)
    }
}

/// A tensor of one side.
struct Compared<'a> {
    /// The name it is matched by.
    key: String,
    /// Its name in its checkpoint.
    shown: String,
    shape: Vec<usize>,
    type_name: String,
    /// Its values; `None` if it is not decoded to floats.
    values: Option<Values>,
    /// The stored tensor, if F32 does not represent its values exactly.
    stored: Option<&'a StoredTensor>,
}

/// The tensors of both sides.
struct Sides<'a> {
    tensors: [Vec<Compared<'a>>; 2],
    is_mapped: bool,
}

/// Two tensors to be compared.
struct Pair<'a> {
    tensors: [Compared<'a>; 2],
    is_mapped: bool,
}

impl<'a> Sides<'a> {
    fn new(
        checkpoints: [&'a Checkpoint; 2],
        dtype: TargetDtype,
        keep_names: bool,
        diff: &mut ModelDiff,
    ) -> Result<Self> {
        let [first, second] = checkpoints;
        let inputs = [first.decoded_inputs(dtype)?, second.decoded_inputs(dtype)?];
        let is_gguf = checkpoints.map(|checkpoint| checkpoint.format() == Format::Gguf);
        let mapped = match is_gguf {
            _ if keep_names => None,
            [true, false] => Some((1, second)),
            [false, true] => Some((0, first)),
            _ => None,
        };
        let [a, b] = inputs;
        let mut tensors = [first.compared(a), second.compared(b)];
        let Some((side, checkpoint)) = mapped else { return Ok(Self { tensors, is_mapped: false }) };
        match checkpoint.as_gguf(dtype) {
            Ok(Some((values, left_out))) => {
                let only = if side == 0 { &mut diff.only_in_first } else { &mut diff.only_in_second };
                only.extend(left_out);
                let types: HashMap<String, String> =
                    tensors[side].drain(..).map(|tensor| (tensor.shown, tensor.type_name)).collect();
                tensors[side] = values.into_iter().map(|values| as_compared(values, &types)).collect();
                Ok(Self { tensors, is_mapped: true })
            }
            Ok(None) => Ok(Self { tensors, is_mapped: false }),
            Err(error @ (AnamnesisError::Io(_) | AnamnesisError::Cancelled)) => Err(error),
            Err(error) => {
                diff.unmapped = Some(error.to_string());
                Ok(Self { tensors, is_mapped: false })
            }
        }
    }

    /// The tensors that both sides have; the names of others go to `diff`.
    fn pairs(self, diff: &mut ModelDiff) -> Vec<Pair<'a>> {
        let Self { tensors: [first, second], is_mapped } = self;
        let mut second: HashMap<String, Compared<'a>> =
            second.into_iter().map(|tensor| (tensor.key.clone(), tensor)).collect();
        let mut pairs = Vec::new();
        for tensor in first {
            match second.remove(&tensor.key) {
                Some(other) => pairs.push(Pair { tensors: [tensor, other], is_mapped }),
                None => diff.only_in_first.push(tensor.shown),
            }
        }
        diff.only_in_second.extend(second.into_values().map(|tensor| tensor.shown));
        pairs
    }
}

impl Checkpoint {
    fn compared<'a>(&'a self, inputs: Vec<DecodedInput<'a>>) -> Vec<Compared<'a>> {
        let compared = |input: DecodedInput<'a>| {
            let (values, stored, type_name) = match input.content {
                InputContent::Values(values, None) => (Some(values), None, self.type_of_weight(input.name)),
                InputContent::Values(values, Some(tensor)) => {
                    let is_wide = tensor.dtype == Dtype::F64;
                    (Some(values), Some(tensor).filter(|_| is_wide), tensor.dtype.to_string())
                }
                InputContent::Stored(tensor) => (None, Some(tensor), tensor.dtype.to_string()),
            };
            let (key, shown) = (input.name.to_owned(), input.name.to_owned());
            Compared { key, shown, shape: input.shape, type_name, values, stored }
        };
        inputs.into_iter().map(compared).collect()
    }

    /// The type of a quantised weight: that of its blocks, or its scheme.
    fn type_of_weight(&self, name: &str) -> String {
        let Some(weight) = self.claimed().weight(name) else { return String::new() };
        match weight.parts.first().map(|&id| self.catalog.get(id).dtype) {
            Some(dtype @ Dtype::Block(_)) => dtype.to_string(),
            _ => weight.recipe.describe(),
        }
    }
}

/// A tensor of a checkpoint under its name in GGUF.
fn as_compared<'a>(values: GgufValues, types: &HashMap<String, String>) -> Compared<'a> {
    let GgufValues { name, shape, values, sources } = values;
    let mut names: Vec<&str> = sources.iter().filter_map(|source| types.get(source)).map(String::as_str).collect();
    names.dedup();
    let shown = match &sources[..] {
        [] => name.clone(),
        [only] => only.clone(),
        [first, .., last] => format!("{first} … {last}"),
    };
    let type_name = if names.is_empty() { "constant".to_owned() } else { names.join(", ") };
    Compared { key: name, shown, shape, type_name, values: Some(values), stored: None }
}

/// Whether shapes differ only by dimensions of length one, which GGUF drops and adds.
fn is_alike(first: &[usize], second: &[usize]) -> bool {
    let long = |shape: &[usize]| shape.iter().copied().filter(|&length| length != 1).collect::<Vec<_>>();
    long(first) == long(second)
}

/// The differences of two tensors with the same type and shape that are not decoded.
fn stored_differences(tensors: [(&Checkpoint, &StoredTensor); 2], cancel: &CancelToken) -> Result<Differences> {
    let [(checkpoint, first), (other, second)] = tensors;
    if first.dtype == Dtype::F64 {
        let wide = WideTensor { checkpoint, tensor: first };
        return wide.differences(WideTensor { checkpoint: other, tensor: second }, cancel);
    }
    let each = usize::max(first.dtype.byte_size(), 1);
    let bytes = first.extent.bytes;
    let piece = PIECE_BYTES / each as u64 * each as u64;
    let mut buffers = [Vec::new(), Vec::new()];
    let (mut at, mut unequal) = (0, 0);
    while at < bytes {
        cancel.check()?;
        let length = piece.min(bytes - at) as usize;
        for (buffer, (checkpoint, tensor)) in buffers.iter_mut().zip(tensors) {
            buffer.resize(length, 0);
            checkpoint.sources[tensor.extent.file as usize].read_at(tensor.extent.offset + at, buffer)?;
        }
        let [a, b] = &buffers;
        unequal += a.chunks(each).zip(b.chunks(each)).filter(|(a, b)| a != b).count() as u64;
        at += length as u64;
    }
    // Numbers that are not floats have no distance here: they are equal or not.
    Ok(Differences { unequal, incomparable: unequal, ..Differences::default() })
}
