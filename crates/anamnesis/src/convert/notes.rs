//! Plan notes: remarks on the output of a conversion beyond its statistics, as data.

use std::collections::BTreeMap;
use std::fmt;

use super::finished::FallbackType;
use crate::catalog::{Dtype, Selection};
use crate::container::OutputTensor;
use crate::error::quoted;
use crate::pipeline::Planned;
use crate::scheme::Leftover;

/// A remark on the output of a conversion. `Display` formats it as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanNote {
    /// Tensors that look like parts of quantised weights, but are copied as plain data.
    Unclaimed {
        /// Their number.
        count: usize,
    },
    /// One of those tensors.
    UnclaimedTensor {
        /// Its name.
        name: String,
        /// The name, and why it looks like part of a quantised weight.
        text: String,
    },
    /// Weights with a fallback type, because their row length is not a multiple of the block length of
    /// the intended type.
    OtherType {
        /// The fallback type.
        made: Dtype,
        /// The intended type.
        wanted: Dtype,
        /// Their names.
        tensors: Vec<String>,
    },
    /// Quantised weights that are decoded and quantised again.
    Requantised {
        /// Their number.
        count: usize,
    },
    /// Scalars that are written with the shape `[1]`, since the container has no scalars.
    ScalarsReshaped {
        /// Their number.
        count: usize,
    },
    /// Metadata entries of the input that are not in the output.
    MetadataDropped {
        /// Their number.
        count: usize,
    },
    /// Tensors of the input that the selection leaves out.
    LeftOut {
        /// Their number.
        count: usize,
    },
    /// Weights that are renamed so that loaders find their scales.
    Renamed {
        /// Their number.
        count: usize,
        /// The input name of the first of them.
        before: String,
        /// Its output name.
        after: String,
    },
    /// Tensors whose name is too long or whose rank is too high for llama.cpp.
    BeyondLlamaCpp {
        /// Their number.
        count: usize,
    },
    /// A GGUF file without `general.architecture`, which llama.cpp does not load.
    NoArchitecture,
    /// A single file of a scheme whose loaders need a `config.json` in the same directory.
    NeedsConfiguration,
    /// A directory without the `config.json` that would describe the quantisation.
    NoConfiguration,
    /// Sidecars of the input that are not part of the output.
    SidecarsLeftOut {
        /// Their number.
        count: usize,
    },
    /// A remark specific to one scheme or architecture, as a sentence.
    Other(String),
}

impl From<String> for PlanNote {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

impl fmt::Display for PlanNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counted = |count: &usize, one: &str, many: &str| match count {
            1 => f.write_str(one),
            count => write!(f, "{count} {many}"),
        };
        match self {
            Self::Unclaimed { count } => counted(
                count,
                "one tensor that no scheme claims is plain data in the output",
                "tensors that no scheme claims are plain data in the output",
            ),
            Self::Requantised { count } => counted(
                count,
                "one weight is already quantized: it is decoded and quantized again, which adds to its error",
                "weights are already quantized: they are decoded and quantized again, which adds to their errors",
            ),
            Self::ScalarsReshaped { count } => counted(
                count,
                "a scalar tensor is written with the shape [1]",
                "scalar tensors are written with the shape [1]",
            ),
            Self::MetadataDropped { count } => counted(
                count,
                "one metadata entry of the input is not kept",
                "metadata entries of the input are not kept",
            ),
            Self::LeftOut { count } => counted(
                count,
                "one tensor of the input is left out by the selection",
                "tensors of the input are left out by the selection",
            ),
            Self::SidecarsLeftOut { count } => counted(
                count,
                "one sidecar file of the input is not part of the output",
                "sidecar files of the input are not part of the output",
            ),
            Self::OtherType { made, wanted, tensors } => {
                let names: Vec<_> = tensors.iter().take(NAMED_IN_NOTE).map(|name| quoted(name)).collect();
                let more = tensors.len().saturating_sub(NAMED_IN_NOTE);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let names = names.join(", ");
                write!(f, "{made} instead of {wanted}, whose block length does not divide the row length: {names}{more}")
            }
            Self::Renamed { count, before, after } => {
                let (before, after) = (quoted(before), quoted(after));
                match count {
                    1 => write!(f, "{before} is written as {after}, by which loaders find its scales"),
                    many => write!(
                        f,
                        "{many} weights get names by which loaders find their scales: {before} is written as {after}"
                    ),
                }
            }
            Self::BeyondLlamaCpp { count } => {
                f.write_str("llama.cpp reads names of up to 63 bytes and 4 dimensions; ")?;
                match count {
                    1 => f.write_str("one tensor has more"),
                    count => write!(f, "{count} tensors have more"),
                }
            }
            Self::NoArchitecture => {
                f.write_str("llama.cpp will not load the output: it has no general.architecture")
            }
            Self::NeedsConfiguration => f.write_str(
                "loaders need a config.json that describes the quantisation in the same directory; a directory output has one",
            ),
            Self::NoConfiguration => f.write_str("there is no config.json that could describe the quantisation"),
            Self::UnclaimedTensor { text, .. } | Self::Other(text) => f.write_str(text),
        }
    }
}

/// Maximum number of weights named in a note; the rest are counted.
const NAMED_IN_NOTE: usize = 3;

/// Notes on tensors that are copied although they look like parts of quantised weights: their number,
/// then one note each.
pub(super) fn of_unclaimed(unclaimed: &[Leftover], selection: &Selection) -> Vec<PlanNote> {
    let copied: Vec<_> = unclaimed.iter().filter(|tensor| selection.takes(&tensor.name)).collect();
    let count = (!copied.is_empty()).then_some(PlanNote::Unclaimed { count: copied.len() });
    let each = |tensor: &&Leftover| PlanNote::UnclaimedTensor { name: tensor.name.clone(), text: tensor.to_string() };
    count.into_iter().chain(copied.iter().map(each)).collect()
}

/// Notes on weights with a fallback type, grouped by intended type and fallback.
pub(super) fn of_fallback_types(fallbacks: &[FallbackType]) -> Vec<PlanNote> {
    let mut by_types: BTreeMap<(String, String), (Dtype, Dtype, Vec<String>)> = BTreeMap::new();
    for FallbackType { name, wanted, made } in fallbacks {
        let types = (made.to_string(), wanted.to_string());
        by_types.entry(types).or_insert_with(|| (*made, *wanted, Vec::new())).2.push(name.clone());
    }
    let note = |(made, wanted, tensors)| PlanNote::OtherType { made, wanted, tensors };
    by_types.into_values().map(note).collect()
}

/// Notes on numbers of weights quantised again, scalars reshaped, metadata entries dropped and tensors left out.
pub(super) fn of_counts(requantised: usize, reshaped: usize, dropped: usize, left_out: usize) -> Vec<PlanNote> {
    let notes = [
        (requantised, PlanNote::Requantised { count: requantised }),
        (reshaped, PlanNote::ScalarsReshaped { count: reshaped }),
        (dropped, PlanNote::MetadataDropped { count: dropped }),
        (left_out, PlanNote::LeftOut { count: left_out }),
    ];
    notes.into_iter().filter(|(count, _)| *count > 0).map(|(_, note)| note).collect()
}

/// A note on weights that had to be renamed.
pub(super) fn of_new_names(renamed: &[[String; 2]]) -> Option<PlanNote> {
    let [before, after] = renamed.first()?;
    Some(PlanNote::Renamed { count: renamed.len(), before: before.clone(), after: after.clone() })
}

/// A note on tensors that GGUF can hold but llama.cpp cannot read.
pub(super) fn beyond_llama_cpp(planned: &[Planned]) -> Option<PlanNote> {
    let outputs = planned.iter().flat_map(|planned| &planned.outputs);
    let beyond = |output: &&OutputTensor| output.name.len() > 63 || output.shape.len() > 4;
    let count = outputs.filter(beyond).count();
    (count > 0).then_some(PlanNote::BeyondLlamaCpp { count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singular_and_plural_differ() {
        assert_eq!(PlanNote::LeftOut { count: 1 }.to_string(), "one tensor of the input is left out by the selection");
        assert_eq!(PlanNote::LeftOut { count: 3 }.to_string(), "3 tensors of the input are left out by the selection");
        let tensors = ["a", "b\u{1b}", "c", "d"].map(str::to_owned).to_vec();
        let note = PlanNote::OtherType { made: Dtype::F16, wanted: Dtype::BF16, tensors };
        assert!(note.to_string().ends_with("\"a\", \"b\\u{1b}\", \"c\" and 1 more"), "{note}");
    }
}
