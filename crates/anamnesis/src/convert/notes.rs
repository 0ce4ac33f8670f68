//! What a conversion tells people beside its numbers.

use std::collections::BTreeMap;

use super::drafts::Instead;
use crate::catalog::Selection;
use crate::container::OutputTensor;
use crate::error::quoted;
use crate::pipeline::Planned;
use crate::scheme::Leftover;

/// What is copied although it looks like a part of a quantised weight: how many tensors, then each.
pub(super) fn of_unclaimed(unclaimed: &[Leftover], selection: &Selection) -> Vec<String> {
    let copied: Vec<_> = unclaimed.iter().filter(|tensor| selection.takes(&tensor.name)).collect();
    let count = match copied.len() {
        0 => None,
        1 => Some("one tensor that no scheme claims is plain data in the output".to_owned()),
        many => Some(format!("{many} tensors that no scheme claims are plain data in the output")),
    };
    count.into_iter().chain(copied.iter().map(|tensor| tensor.to_string())).collect()
}

/// Weights named in a note; the rest are counted.
const NAMED_IN_NOTE: usize = 3;

/// Which weights are of another type than they should be, by both types.
pub(super) fn of_other_types(instead: &[Instead]) -> Vec<String> {
    let mut by_types: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for Instead { name, wanted, made } in instead {
        by_types.entry((made.to_string(), wanted.to_string())).or_default().push(name);
    }
    let note = |((made, wanted), names): ((String, String), Vec<&str>)| {
        let mut listed = names.iter().take(NAMED_IN_NOTE).map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        if names.len() > NAMED_IN_NOTE {
            listed += &format!(" and {} more", names.len() - NAMED_IN_NOTE);
        }
        format!("{made} instead of {wanted}, whose blocks do not divide the rows: {listed}")
    };
    by_types.into_iter().map(note).collect()
}

/// How many weights lose twice, scalars get a shape, entries are dropped and tensors left out.
pub(super) fn of_counts(requantised: usize, reshaped: usize, dropped: usize, left_out: usize) -> Vec<String> {
    let counted = |count: usize, one: &str, many: &str| match count {
        0 => None,
        1 => Some(one.to_owned()),
        count => Some(format!("{count} {many}")),
    };
    let notes = [
        counted(
            requantised,
            "one weight was quantized already: it is decoded first, and loses twice",
            "weights were quantized already: they are decoded first, and lose twice",
        ),
        counted(
            reshaped,
            "a scalar tensor is written with the shape [1]",
            "scalar tensors are written with the shape [1]",
        ),
        counted(dropped, "one metadata entry of the input is not kept", "metadata entries of the input are not kept"),
        counted(
            left_out,
            "one tensor of the input is left out by the selection",
            "tensors of the input are left out by the selection",
        ),
    ];
    notes.into_iter().flatten().collect()
}

/// Weights whose names had to change.
pub(super) fn of_new_names(renamed: &[[String; 2]]) -> Option<String> {
    let [before, after] = renamed.first()?;
    let (before, after) = (quoted(before), quoted(after));
    Some(match renamed.len() {
        1 => format!("{before} is written as {after}, by which loaders find its scales"),
        many => format!("{many} weights get names by which loaders find their scales: {before} is written as {after}"),
    })
}

/// Tensors that GGUF can hold and llama.cpp cannot read.
pub(super) fn beyond_llama_cpp(planned: &[Planned]) -> Option<String> {
    let outputs = planned.iter().flat_map(|planned| &planned.outputs);
    let beyond = |output: &&OutputTensor| output.name.len() > 63 || output.shape.len() > 4;
    let count = outputs.filter(beyond).count();
    let more = if count == 1 { "one tensor has more".to_owned() } else { format!("{count} tensors have more") };
    (count > 0).then(|| format!("llama.cpp reads names of up to 63 bytes and 4 dimensions; {more}"))
}
