//! The order of rows in the heads of attention.

use super::reshaped::Reshaped;
use crate::architecture::config::Config;
use crate::architecture::size::Size;
use crate::architecture::tree::{Formula, Step, Tree};
use crate::error::{AnamnesisError, Result, quoted};

/// The rows of each head that RoPE rotates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RotatedRows {
    pub head: Size,
    /// None, if the rows keep their order.
    pub rotated: Size,
}

/// Value heads in groups, one group per key head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TiledHeads {
    /// The rows before the value heads.
    pub skipped: Size,
    pub key_heads: Size,
    pub value_heads: Size,
    /// The rows of a head; its columns, if `is_columns`.
    pub width: Size,
    pub is_columns: bool,
}

impl TiledHeads {
    /// Groups of value heads to alternating ones, or back.
    pub(super) fn swapped(&self, tensor: Reshaped, config: &Config, is_back: bool) -> Result<Reshaped> {
        let (keys, values) = ((self.key_heads.of)(config)?, (self.value_heads.of)(config)?);
        if keys == 0 || values == 0 || keys == values {
            return Ok(tensor);
        }
        let (width, skipped) = ((self.width.of)(config)?, (self.skipped.of)(config)?);
        let size = match self.is_columns {
            true => tensor.shape.last().map_or(0, |&cols| cols as u64),
            false => tensor.rows().saturating_sub(skipped),
        };
        if !values.is_multiple_of(keys) || values.checked_mul(width) != Some(size) {
            let sizes = [self.value_heads, self.key_heads, self.width, self.skipped];
            let names: Vec<&str> = sizes.iter().map(|size| size.hf).filter(|names| !names.is_empty()).collect();
            let why = format!("{size} values are not {values} heads of {width} for {keys} keys ({})", names.join(", "));
            return Err(AnamnesisError::parse(why));
        }
        let (outer, inner) = if is_back { (values / keys, keys) } else { (keys, values / keys) };
        if self.is_columns {
            return Ok(tensor.after(Step::Swap { row: width, outer, inner }));
        }
        let step = Step::Swap { row: width * tensor.whole_row(), outer, inner };
        let tree = match skipped {
            0 => tensor.tree.clone().after(step),
            _ => Tree::Stacked(vec![tensor.cut(0, skipped), tensor.cut(skipped, size).after(step)]),
        };
        let rows = tensor.rows();
        Ok(tensor.with_rows(tree, rows))
    }
}

impl RotatedRows {
    /// Pairs to halves, or back.
    pub(super) fn changed(&self, tensor: Reshaped, config: &Config, is_back: bool) -> Result<Reshaped> {
        let (head, rotated) = ((self.head.of)(config)?, (self.rotated.of)(config)?);
        let (rows, row) = (tensor.rows(), tensor.whole_row());
        if rotated == 0 {
            return Ok(tensor);
        }
        if head == 0 || !rows.is_multiple_of(head) || rotated > head || !rotated.is_multiple_of(2) {
            let why = format!("{rows} rows are no heads of {head} with {rotated} rotated ({})", self.rotated.hf);
            return Err(AnamnesisError::parse(why));
        }
        let part = |start, count| tensor.tree.clone().after(Step::Part { row, per: head, start, count });
        let step = match is_back {
            true => Step::Pair { row, rows: rotated },
            false => Step::Unpair { row, rows: rotated },
        };
        let mut trees = vec![(part(0, rotated).after(step), rotated * row)];
        if head > rotated {
            trees.push((part(rotated, head - rotated), (head - rotated) * row));
        }
        Ok(tensor.with_rows(Tree::Interleaved(trees), rows))
    }
}

/// The number of rows of a head: even, for the pairs of RoPE.
pub(super) fn rows_of_head(shape: &[usize], config: &Config, key: &str) -> Result<u64> {
    let heads = config.divisor(key)?;
    let rows = shape.first().map_or(0, |&rows| rows as u64);
    let per_head = rows / heads;
    if !rows.is_multiple_of(heads) || !per_head.is_multiple_of(2) || per_head == 0 {
        let why = format!("{rows} rows are no pairs in {heads} heads ({})", quoted(key));
        return Err(AnamnesisError::parse(why));
    }
    Ok(per_head)
}

/// The rows of a head of this size: even, and a divisor of all rows.
pub(super) fn rows_of_size(shape: &[usize], config: &Config, head: Size) -> Result<u64> {
    let (rows, size) = (shape.first().map_or(0, |&rows| rows as u64), (head.of)(config)?);
    match size > 0 && size.is_multiple_of(2) && rows.is_multiple_of(size) {
        true => Ok(size),
        false => Err(AnamnesisError::parse(format!("{rows} rows are no pairs in heads of {size} ({})", head.hf))),
    }
}

/// The rows of the first heads in pairs, or in halves again; those after them stay.
pub(super) fn paired_first(
    tensor: &Reshaped,
    config: &Config,
    count: Size,
    head: Size,
    is_back: bool,
) -> Result<Reshaped> {
    let (rows, first, size) = (tensor.rows(), (count.of)(config)?, (head.of)(config)?);
    if size == 0 || !size.is_multiple_of(2) || !first.is_multiple_of(size) || first >= rows {
        let why = format!("{first} of {rows} rows are no pairs in heads of {size} ({}, {})", count.hf, head.hf);
        return Err(AnamnesisError::parse(why));
    }
    let row = tensor.whole_row();
    let step = if is_back { Step::Unpair { row, rows: size } } else { Step::Pair { row, rows: size } };
    let trees = vec![tensor.cut(0, first).after(step), tensor.cut(first, rows - first)];
    Ok(tensor.with_rows(Tree::Stacked(trees), rows))
}

/// The second half of each head's rows, negated.
pub(super) fn negated(tensor: Reshaped, config: &Config, head: Size) -> Result<Reshaped> {
    let size = rows_of_size(&tensor.shape, config, head)?;
    let factors = vec![(size / 2, 1.0), (u64::MAX, -1.0)];
    let row = tensor.whole_row();
    Ok(tensor.each(Formula::Times { row, period: size, factors }))
}

/// The rows of a head, if this many heads have them in all.
fn rows_per_head(rows: u64, config: &Config, heads: Size) -> Result<u64> {
    let count = (heads.of)(config)?;
    match rows.checked_div(count).filter(|_| rows.is_multiple_of(count)) {
        Some(size @ 1..) => Ok(size),
        _ => Err(AnamnesisError::parse(format!("{rows} rows are not those of {count} heads ({})", heads.hf))),
    }
}

/// In the queries and keys of a fused tensor, the even pairs of each head's rows before the odd ones, or back.
pub(super) fn halved_pairs(tensor: &Reshaped, config: &Config, heads: Size, is_back: bool) -> Result<Reshaped> {
    let (rows, row) = (tensor.rows(), 2 * tensor.whole_row());
    let size = rows_per_head(rows / 3, config, heads)?;
    if !rows.is_multiple_of(3) || !size.is_multiple_of(4) {
        let why = format!("{rows} rows are no queries, keys and values in heads of pairs for two axes ({})", heads.hf);
        return Err(AnamnesisError::parse(why));
    }
    let step = match is_back {
        true => Step::Pair { row, rows: size / 2 },
        false => Step::Unpair { row, rows: size / 2 },
    };
    let (rotated, values) = (tensor.cut(0, rows / 3 * 2).after(step), tensor.cut(rows / 3 * 2, rows / 3));
    Ok(tensor.with_rows(Tree::Stacked(vec![rotated, values]), rows))
}

/// The size of heads whose rows three axes share in llama.cpp.
const HEAD_OF_AXES: u64 = 80;

/// The halves of three axes in each head, joined or apart again.
pub(super) fn axes_joined(tensor: &Reshaped, config: &Config, heads: Size, is_back: bool) -> Result<Reshaped> {
    let (rows, row) = (tensor.rows(), tensor.whole_row());
    let size = rows_per_head(rows, config, heads)?;
    if size != HEAD_OF_AXES {
        let why = format!("heads of {size} rows, {HEAD_OF_AXES} are needed for three axes ({})", heads.hf);
        return Err(AnamnesisError::parse(why));
    }
    let half = size / 6;
    let (outer, inner) = if is_back { (3, 2) } else { (2, 3) };
    let part = |start, count| tensor.tree.clone().after(Step::Part { row, per: size, start, count });
    let rotated = part(0, 6 * half).after(Step::Swap { row: half * row, outer, inner });
    let trees = vec![(rotated, 6 * half * row), (part(6 * half, size - 6 * half), (size - 6 * half) * row)];
    Ok(tensor.with_rows(Tree::Interleaved(trees), rows))
}
