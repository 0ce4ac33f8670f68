//! Planning layer by layer: which matrices are quantised, and the check that all of them can be.

use super::linear;
use super::quantiser::{Candidate, Decision, Keeping, Task};
use crate::error::{AnamnesisError, Request, Result, quoted};
use crate::scheme::coder::TileEncoder;

/// The longest row that is encoded. A row is buffered whole, because its scale depends on all its values.
const MAX_ROW_VALUES: u64 = 1 << 24;

/// Calls `make` for every matrix that is not kept for one of the reasons in `keeps`, after checking that the rows of
/// all of them divide into groups of `group` values.
pub(crate) fn plan_layers(
    task: &Task<'_>,
    target: &str,
    keeps: &[Keeping],
    group: u64,
    make: impl Fn(&Candidate<'_>) -> Result<Decision>,
) -> Result<Vec<Decision>> {
    plan(task, target, keeps, group, &make)
}

/// [`plan_layers`] with a trait object, so that it is compiled once for all schemes.
fn plan(
    task: &Task<'_>,
    target: &str,
    keeps: &[Keeping],
    group: u64,
    make: &dyn Fn(&Candidate<'_>) -> Result<Decision>,
) -> Result<Vec<Decision>> {
    let decided: Vec<_> = task.tensors.iter().map(|tensor| linear::decide_by(tensor, task.rules, keeps)).collect();
    let taken = || task.tensors.iter().zip(&decided).filter(|(_, decided)| decided.is_ok()).map(|(tensor, _)| tensor);
    let misfits = taken().filter(|tensor| !tensor.row().is_multiple_of(group.max(1)));
    let tensors: Vec<_> = misfits.map(|tensor| (tensor.name.to_owned(), tensor.row())).collect();
    if !tensors.is_empty() {
        return Err(Request::Indivisible { target: target.to_owned(), group, tensors }.into());
    }
    if let Some(long) = taken().find(|tensor| tensor.row() > MAX_ROW_VALUES) {
        let (name, row) = (quoted(long.name), long.row());
        let message = format!("tensor {name} has rows of {row} values, {MAX_ROW_VALUES} are allowed");
        return Err(AnamnesisError::limit("MAX_ROW_VALUES", message));
    }
    task.tensors
        .iter()
        .zip(decided)
        .map(|(tensor, decided)| match decided {
            Ok(()) => make(tensor),
            Err(keeping) => Ok(Decision::Keep(keeping)),
        })
        .collect()
}

/// The decision to encode a tensor.
pub(crate) fn encode(encoder: impl TileEncoder + 'static) -> Result<Decision> {
    Ok(Decision::Encode(Box::new(encoder)))
}
