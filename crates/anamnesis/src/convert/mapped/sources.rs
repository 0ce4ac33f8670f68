//! The tensors of a checkpoint as an architecture sees them: decoded weights and plain numbers, by file and name.

use std::sync::Arc;

use crate::architecture::reshape::Leaf;
use crate::catalog::{Catalog, Dtype, TensorId, dtype::elements};
use crate::checkpoint::Checkpoint;
use crate::convert::drafts::Quantise;
use crate::convert::options::ConvertOptions;
use crate::error::{AnamnesisError, Request, Result};
use crate::scheme::{PlainDecoder, Prepared, TensorRole, TileDecoder};

/// A tensor of the checkpoint.
pub(super) struct Source {
    /// What it is taken for.
    pub name: String,
    /// Its name in the checkpoint.
    pub stored_name: String,
    pub shape: Vec<usize>,
    file: u32,
    pub parts: Vec<TensorId>,
    /// `None` where it has no numbers.
    decoder: Option<Arc<dyn TileDecoder>>,
    /// The type of what is stored as ordinary numbers.
    pub stored: Option<Dtype>,
}

impl Source {
    /// What it is made of; a tensor without numbers is refused.
    pub(super) fn leaf(&self, catalog: &Catalog) -> Result<Leaf> {
        let decoder = self.decoder.clone().ok_or_else(|| {
            let dtype = self.stored.map_or_else(String::new, |dtype| dtype.to_string());
            AnamnesisError::unsupported(dtype, "it has no numbers that a model could use").in_tensor(&self.stored_name)
        })?;
        let parts = self.parts.iter().map(|&id| catalog.get(id).extent).collect();
        Ok(Leaf { decoder, elements: elements(&self.shape).unwrap_or(0), parts, stored: self.stored })
    }
}

/// What the selection takes, by file and name, and how many tensors it leaves.
pub(super) fn sources(
    checkpoint: &Checkpoint,
    options: &ConvertOptions,
    quantise: Option<&Quantise<'_>>,
) -> Result<(Vec<Source>, usize)> {
    let (catalog, claimed, selection) = (&checkpoint.catalog, checkpoint.claimed(), &options.selection);
    let plain = catalog.iter().zip(&claimed.roles).filter(|(_, role)| **role == TensorRole::Passthrough);
    let plain: Vec<_> = plain.map(|(tensor, _)| tensor).collect();
    let names = claimed.weights.iter().map(|weight| weight.name.as_str());
    let names: Vec<&str> = names.chain(plain.iter().map(|(_, tensor)| tensor.name.as_str())).collect();
    selection.check_used(&names)?;
    if let Some(quantise) = quantise {
        quantise.chosen.check_used(&names)?;
    }
    let file = |id: &TensorId| catalog.get(*id).extent.file;
    let mut sources = Vec::with_capacity(names.len());
    for weight in claimed.weights.iter().filter(|weight| selection.takes(&weight.name)) {
        let Prepared { shape, decoder, .. } = checkpoint.prepare(weight)?;
        sources.push(Source {
            name: selection.renamed(&weight.name),
            stored_name: weight.name.clone(),
            shape,
            file: weight.parts.first().map_or(0, file),
            parts: weight.parts.clone(),
            decoder: Some(decoder),
            stored: None,
        });
    }
    for (id, tensor) in plain.into_iter().filter(|(_, tensor)| selection.takes(&tensor.name)) {
        let decoder = PlainDecoder::of(tensor.dtype);
        sources.push(Source {
            name: selection.renamed(&tensor.name),
            stored_name: tensor.name.clone(),
            shape: tensor.shape.clone(),
            file: tensor.extent.file,
            parts: vec![id],
            decoder: decoder.map(|decoder| Arc::new(decoder) as Arc<dyn TileDecoder>),
            stored: Some(tensor.dtype),
        });
    }
    if sources.is_empty() && catalog.len() > 0 {
        return Err(Request::NothingSelected.into());
    }
    let left_out = names.len() - sources.len();
    sources.sort_by(|a, b| (a.file, &a.name).cmp(&(b.file, &b.name)));
    Ok((sources, left_out))
}
