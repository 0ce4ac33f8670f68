//! Tensors whose rows consist of parts in groups.

use super::reshaped::Reshaped;
use crate::architecture::config::Config;
use crate::architecture::size::Size;
use crate::architecture::tree::{Step, Tree};
use crate::error::{AnamnesisError, Result};

/// Some of the parts that the rows of every group consist of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Parts {
    /// The number of groups.
    pub groups: Size,
    /// The rows of each part in a group.
    pub parts: &'static [Size],
    /// The first part that is taken, and their number.
    pub first: usize,
    pub count: usize,
}

impl Parts {
    pub(super) fn sizes(&self, config: &Config) -> Result<Vec<u64>> {
        self.parts.iter().map(|size| (size.of)(config)).collect()
    }

    /// The keys of its sizes, for messages.
    pub(super) fn keys(&self) -> String {
        let keys = self.parts.iter().chain([&self.groups]).map(|size| size.hf).filter(|keys| !keys.is_empty());
        keys.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    }

    /// The selected parts of a tensor.
    pub(super) fn taken(&self, tensor: Reshaped, config: &Config) -> Result<Reshaped> {
        let (groups, sizes) = ((self.groups.of)(config)?, self.sizes(config)?);
        let per = sizes.iter().fold(0u64, |sum, size| sum.saturating_add(*size));
        let rows = tensor.rows();
        if per == 0 || groups.checked_mul(per) != Some(rows) {
            let why = format!("{rows} rows are not {groups} groups of {sizes:?} rows ({})", self.keys());
            return Err(AnamnesisError::parse(why));
        }
        let (mut trees, mut taken) = (Vec::new(), 0);
        let mut start = 0;
        for (index, &size) in sizes.iter().enumerate() {
            if (self.first..self.first + self.count).contains(&index) {
                let step = Step::Part { row: tensor.whole_row(), per, start, count: size };
                trees.push(tensor.tree.clone().after(step));
                taken += size * groups;
            }
            start += size;
        }
        let tree = match (trees.len(), trees.pop()) {
            (1, Some(only)) => only,
            (_, last) => Tree::Stacked(trees.into_iter().chain(last).collect()),
        };
        Ok(tensor.with_rows(tree, taken))
    }

    /// The tensor that all parts were taken of.
    pub(super) fn put_back(&self, tensor: Reshaped, config: &Config) -> Result<Reshaped> {
        let (groups, sizes) = ((self.groups.of)(config)?, self.sizes(config)?);
        if self.first != 0 || self.count != sizes.len() {
            return Err(AnamnesisError::parse("other parts of it are missing"));
        }
        let (row, mut start, mut trees) = (tensor.whole_row(), 0u64, Vec::new());
        for size in sizes {
            let rows = groups.saturating_mul(size);
            trees.push((tensor.cut(start, rows), size.saturating_mul(row)));
            start = start.saturating_add(rows);
        }
        if start != tensor.rows() {
            let why = format!("{} rows are not {start} ({})", tensor.rows(), self.keys());
            return Err(AnamnesisError::parse(why));
        }
        let rows = tensor.rows();
        Ok(tensor.with_rows(Tree::Interleaved(trees), rows))
    }
}
