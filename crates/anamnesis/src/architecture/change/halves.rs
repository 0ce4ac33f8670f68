//! Tensors that are split into two halves, and joined again.

use super::reshaped::{Reshaped, misfit};
use crate::architecture::config::Config;
use crate::architecture::tree::{Step, Tree};
use crate::error::{AnamnesisError, Result};

/// How a tensor is split into two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halves {
    /// The first half of the rows of every matrix, then the second.
    Rows,
    /// The even rows of every matrix, then the odd ones.
    AlternateRows,
    /// The values of every row in even places, then those in odd ones.
    AlternateValues,
    /// The rows of keys in every head of `kv_b_proj` (multi-head latent attention), then those of values.
    KeysAndValues,
    /// The same, with the keys that count heads, their rows of keys and their rows of values.
    KeysAndValuesBy([&'static str; 3]),
}

impl Halves {
    /// One half of a tensor.
    pub(super) fn split(self, is_second: bool, tensor: Reshaped, config: &Config) -> Result<Reshaped> {
        let (row, first) = (tensor.row(), u64::from(is_second));
        match self {
            Self::Rows => {
                let (stack, rows, cols) = tensor.matrices()?;
                let count = halved(rows)?;
                let shape = [stack, &[count, cols]].concat();
                let part = Step::Part { row, per: rows as u64, start: first * count as u64, count: count as u64 };
                Ok(tensor.after(part).with_shape(shape))
            }
            Self::AlternateRows => {
                let (stack, rows, cols) = tensor.matrices()?;
                let shape = [stack, &[halved(rows)?, cols]].concat();
                Ok(tensor.after(Step::Every { row, step: 2, first }).with_shape(shape))
            }
            Self::AlternateValues => {
                let [stack @ .., values] = &tensor.shape[..] else { return Err(misfit(&tensor.shape, "a list")) };
                let shape = [stack, &[halved(*values)?]].concat();
                Ok(tensor.after(Step::Every { row: 1, step: 2, first }).with_shape(shape))
            }
            Self::KeysAndValues => Self::KeysAndValuesBy(["num_attention_heads", "qk_nope_head_dim", "v_head_dim"])
                .split(is_second, tensor, config),
            Self::KeysAndValuesBy([heads_key, keys_key, values_key]) => {
                let (heads, keys) = (config.divisor(heads_key)?, config.needed(keys_key)?);
                let values = config.needed(values_key)?;
                let &[rows, rank] = &tensor.shape[..] else { return Err(misfit(&tensor.shape, "a matrix")) };
                let per = keys + values;
                if per == 0 || heads.checked_mul(per) != Some(rows as u64) {
                    let why = format!(
                        "{rows} rows are not {keys} of keys and {values} of values in {heads} heads ({keys_key}, {values_key}, {heads_key})"
                    );
                    return Err(AnamnesisError::parse(why));
                }
                let (start, count) = if is_second { (keys, values) } else { (0, keys) };
                let shape = vec![heads as usize, count as usize, rank];
                Ok(tensor.after(Step::Part { row, per, start, count }).with_shape(shape))
            }
        }
    }

    /// The tensor that was split into two halves; `None` if their shapes do not match.
    pub(super) fn joined(self, first: Reshaped, second: Reshaped) -> Option<Reshaped> {
        let same = (first.shape == second.shape).then_some(&first.shape[..]);
        // The number of values from each half in turn.
        let (each, shape) = match self {
            Self::Rows => {
                let [stack @ .., rows, cols] = same? else { return None };
                ([rows * cols; 2], [stack, &[2 * rows, *cols]].concat())
            }
            Self::AlternateRows => {
                let [stack @ .., rows, cols] = same? else { return None };
                ([*cols; 2], [stack, &[2 * rows, *cols]].concat())
            }
            Self::AlternateValues => {
                let [stack @ .., values] = same? else { return None };
                ([1; 2], [stack, &[2 * values]].concat())
            }
            Self::KeysAndValues | Self::KeysAndValuesBy(_) => match (&first.shape[..], &second.shape[..]) {
                ([heads, keys, rank], [others, values, width]) if heads == others && rank == width => {
                    ([keys * rank, values * rank], vec![heads * (keys + values), *rank])
                }
                _ => return None,
            },
        };
        let tree = Tree::Interleaved(vec![(first.tree, each[0] as u64), (second.tree, each[1] as u64)]);
        Some(Reshaped { tree, shape })
    }
}

fn halved(count: usize) -> Result<usize> {
    match count % 2 {
        0 => Ok(count / 2),
        _ => Err(AnamnesisError::parse(format!("{count} rows cannot be halved"))),
    }
}
