//! The selected tensors of an input: quantised weights and plain data.

use std::collections::HashMap;
use std::sync::Arc;

use super::quantise::Quantise;
use crate::architecture::Named;
use crate::architecture::reshape::Leaf;
use crate::catalog::{Catalog, Dtype, Selection, TensorId, dtype::elements};
use crate::checkpoint::{Checkpoint, prepare};
use crate::error::{AnamnesisError, Request, Result};
use crate::io::Source;
use crate::scheme::{Claimed, PlainDecoder, Prepared, TensorRole, TileDecoder};

/// A catalog with its files, after the schemes have claimed their weights.
#[derive(Clone, Copy)]
pub(crate) struct ClaimedCatalog<'a> {
    pub catalog: &'a Catalog,
    pub sources: &'a [Box<dyn Source>],
    pub claimed: &'a Claimed,
}

/// A quantised weight or a tensor of plain data.
pub(super) struct InputTensor {
    /// Its name in the input.
    pub name: String,
    /// The name that the selection gives it.
    pub new_name: String,
    pub shape: Vec<usize>,
    pub parts: Vec<TensorId>,
    /// `None` if its type has no numeric values.
    pub decoder: Option<Arc<dyn TileDecoder>>,
    /// The type of plain data; `None` for a quantised weight.
    pub stored: Option<Dtype>,
}

/// The tensors that match a selection.
pub(super) struct SelectedTensors {
    /// Weights first, then plain data, each in catalog order.
    pub tensors: Vec<InputTensor>,
    /// Number of tensors that the selection leaves out.
    pub left_out: usize,
}

impl SelectedTensors {
    /// No tensors.
    pub(super) const fn none() -> Self {
        Self { tensors: Vec::new(), left_out: 0 }
    }
}

impl<'a> ClaimedCatalog<'a> {
    pub(super) fn of(checkpoint: &'a Checkpoint) -> Self {
        Self { catalog: &checkpoint.catalog, sources: &checkpoint.sources, claimed: checkpoint.claimed() }
    }

    /// The tensors to convert. Failed claims and patterns without a match are errors; small companions are
    /// read and checked.
    pub(super) fn select(self, selection: &Selection, quantise: Option<&Quantise<'_>>) -> Result<SelectedTensors> {
        let Self { catalog, sources, claimed } = self;
        if let Some(problem) = claimed.problems.first() {
            return Err(problem.duplicate());
        }
        let plain = catalog.iter().zip(&claimed.roles).filter(|(_, role)| **role == TensorRole::Passthrough);
        let plain: Vec<_> = plain.map(|(tensor, _)| tensor).collect();
        let names = claimed.weights.iter().map(|weight| weight.name.as_str());
        let names: Vec<&str> = names.chain(plain.iter().map(|(_, tensor)| tensor.name.as_str())).collect();
        selection.check_used(&names)?;
        if let Some(quantise) = quantise {
            quantise.chosen.check_used(&names)?;
        }
        let mut tensors = Vec::with_capacity(names.len());
        for weight in claimed.weights.iter().filter(|weight| selection.takes(&weight.name)) {
            let Prepared { shape, decoder, .. } = prepare(catalog, sources, weight)?;
            tensors.push(InputTensor {
                name: weight.name.clone(),
                new_name: selection.renamed(&weight.name),
                shape,
                parts: weight.parts.clone(),
                decoder: Some(decoder),
                stored: None,
            });
        }
        // One decoder for all tensors of a type.
        let mut decoders: HashMap<Dtype, Option<Arc<dyn TileDecoder>>> = HashMap::new();
        let plain_decoder = |dtype| PlainDecoder::of(dtype).map(|decoder| Arc::new(decoder) as Arc<dyn TileDecoder>);
        for (id, tensor) in plain.into_iter().filter(|(_, tensor)| selection.takes(&tensor.name)) {
            let decoder = decoders.entry(tensor.dtype).or_insert_with(|| plain_decoder(tensor.dtype));
            tensors.push(InputTensor {
                name: tensor.name.clone(),
                new_name: selection.renamed(&tensor.name),
                shape: tensor.shape.clone(),
                parts: vec![id],
                decoder: decoder.clone(),
                stored: Some(tensor.dtype),
            });
        }
        if tensors.is_empty() && catalog.len() > 0 {
            return Err(Request::NothingSelected.into());
        }
        let left_out = names.len() - tensors.len();
        Ok(SelectedTensors { tensors, left_out })
    }
}

impl SelectedTensors {
    /// Sorts the tensors by file and name, the order in which architectures expect them.
    pub(super) fn by_file_and_name(mut self, catalog: &Catalog) -> Self {
        let file = |tensor: &InputTensor| tensor.parts.first().map_or(0, |&id| catalog.get(id).extent.file);
        self.tensors.sort_by(|a, b| (file(a), &a.new_name).cmp(&(file(b), &b.new_name)));
        self
    }

    /// Sorts the tensors by their places in the files, the order of an adapter.
    pub(super) fn in_stored_order(mut self) -> Self {
        self.tensors.sort_by_key(|tensor| tensor.parts.first().copied().map(TensorId::index));
        self
    }

    /// Names and shapes, which architectures map.
    pub(super) fn named(&self) -> Vec<Named<'_>> {
        self.tensors.iter().map(|tensor| Named { name: &tensor.new_name, shape: &tensor.shape }).collect()
    }
}

impl InputTensor {
    /// The tensor as a leaf of a mapping; a tensor without numeric values is an error.
    pub(super) fn leaf(&self, catalog: &Catalog) -> Result<Leaf> {
        let decoder = self.decoder.clone().ok_or_else(|| {
            let dtype = self.stored.map_or_else(String::new, |dtype| dtype.to_string());
            AnamnesisError::unsupported(dtype, "values of this type cannot be decoded").in_tensor(&self.name)
        })?;
        let parts = self.parts.iter().map(|&id| catalog.get(id).extent).collect();
        Ok(Leaf { decoder, elements: elements(&self.shape).unwrap_or(0), parts, stored: self.stored })
    }
}
