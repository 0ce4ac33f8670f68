//! Tensors that several tensors of a checkpoint are computed of.

use super::reshaped::{Reshaped, misfit};
use crate::architecture::config::Config;
use crate::architecture::size::Size;
use crate::architecture::tree::{Formula, Linear, Tree};
use crate::error::{AnamnesisError, Result};

/// Several tensors of any shapes, and what is computed of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Combined {
    /// Their number.
    pub count: [Size; 1],
    pub of: fn(&[Reshaped], &Config) -> Result<Reshaped>,
}

impl PartialEq for Combined {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && std::ptr::fn_addr_eq(self.of, other.of)
    }
}

/// The tensors that a combination is of.
pub(crate) fn all_of<const N: usize>(parts: &[Reshaped]) -> Result<[&Reshaped; N]> {
    let parts: Vec<&Reshaped> = parts.iter().collect();
    <[&Reshaped; N]>::try_from(parts)
        .map_err(|parts| AnamnesisError::parse(format!("it is made of {} tensors, {N} are needed", parts.len())))
}

impl Reshaped {
    /// A linear layer on every row.
    pub(crate) fn linear(&self, matrix: &Self, bias: &Self) -> Result<Self> {
        match (&self.shape[..], &matrix.shape[..], &bias.shape[..]) {
            (&[rows, width], &[outputs, inputs], &[biases]) if width == inputs && outputs == biases && width > 0 => {
                let (of_rows, of_matrix, of_bias) = (self.tree.clone(), matrix.tree.clone(), bias.tree.clone());
                let (inputs, of_outputs) = (inputs as u64, outputs as u64);
                let layer = Linear { rows: of_rows, matrix: of_matrix, bias: of_bias, inputs, outputs: of_outputs };
                Ok(Self { tree: Tree::Linear(Box::new(layer)), shape: vec![rows, outputs] })
            }
            (rows, matrix, bias) => Err(misfit(matrix, &format!("one for rows of {rows:?} and a bias of {bias:?}"))),
        }
    }

    /// x / (1 + exp(-x))
    pub(crate) fn silu(self) -> Self {
        let length = self.shape.iter().fold(1u64, |count, &size| count.saturating_mul(size as u64));
        self.each(Formula::Silu(length))
    }

    /// The rows of another tensor after its own.
    pub(crate) fn followed_by(&self, other: &Self) -> Result<Self> {
        if self.shape.get(1..) != other.shape.get(1..) {
            return Err(misfit(&other.shape, &format!("rows like those of {:?}", self.shape)));
        }
        let tree = Tree::Stacked(vec![self.tree.clone(), other.tree.clone()]);
        Ok(self.with_rows(tree, self.rows().saturating_add(other.rows())))
    }
}
