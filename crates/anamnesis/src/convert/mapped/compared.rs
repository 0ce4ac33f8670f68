//! A checkpoint under the names and in the order of values of a GGUF file, for a comparison with one.

use crate::architecture::Mapped;
use crate::architecture::reshape::{Built, as_values};
use crate::architecture::sidecars::Directory;
use crate::catalog::{Catalog, Selection, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::convert::inputs::{ClaimedCatalog, SelectedTensors};
use crate::convert::options::ConvertOptions;
use crate::convert::outputs::find;
use crate::convert::target::ConvertTarget;
use crate::error::Result;
use crate::pipeline::{Origin, Values};

use super::{Model, keys};

/// A tensor of a checkpoint as GGUF has it.
pub(crate) struct GgufValues {
    /// Its name in GGUF.
    pub name: String,
    pub shape: Vec<usize>,
    pub values: Values,
    /// The names of the tensors of the checkpoint that it is made of; empty if it is derived from the configuration.
    pub sources: Vec<String>,
}

impl Checkpoint {
    /// Every tensor under its name in GGUF, decoded to `dtype`, and the names of tensors that GGUF does not have; `None`
    /// if the checkpoint names no known architecture.
    pub(crate) fn as_gguf(&self, dtype: TargetDtype) -> Result<Option<(Vec<GgufValues>, Vec<String>)>> {
        self.model_for(ConvertTarget::Gguf, &ConvertOptions::new())?.map(|model| model.gguf_values(dtype)).transpose()
    }
}

impl Model<'_> {
    fn gguf_values(&self, dtype: TargetDtype) -> Result<(Vec<GgufValues>, Vec<String>)> {
        let input = ClaimedCatalog::of(self.checkpoint);
        let selected = input.select(&Selection::new(), None)?.by_file_and_name(input.catalog);
        let mut config = self.architecture.config(&self.raw)?;
        config.measured = self.measured(&selected, config.layers().unwrap_or(0))?;
        if self.architecture.cuts_to_vocabulary() {
            let files = Directory::new(&self.directory, &self.checkpoint.limits);
            config.vocabulary = keys::tokens(&self.vocabulary(&files, &config, &ConvertOptions::new())?);
        }
        let mapping = self.architecture.map(&selected.named(), &config, false)?;
        let mut tensors = Vec::with_capacity(mapping.tensors.len());
        for mapped in mapping.tensors {
            let indices = mapped.tree.tensors();
            let mut sources: Vec<String> = indices.iter().map(|&index| selected.tensors[index].name.clone()).collect();
            sources.dedup();
            let values = values_of(&mapped, &selected, input.catalog, dtype)?;
            tensors.push(GgufValues { name: mapped.name, shape: mapped.shape, values, sources });
        }
        Ok((tensors, mapping.left_out))
    }
}

/// The values of a mapped tensor, decoded from the tensors it is made of.
pub(super) fn values_of(
    mapped: &Mapped,
    selected: &SelectedTensors,
    catalog: &Catalog,
    dtype: TargetDtype,
) -> Result<Values> {
    let leaf = |index: &usize| Ok((*index, selected.tensors[*index].leaf(catalog)?));
    let leaves = mapped.tree.tensors().iter().map(leaf).collect::<Result<_>>()?;
    let Built { decoder, elements, parts } = as_values(&mapped.tree, &|index| find(&leaves, index));
    Ok(Values { decoder, parts, sources: Vec::new(), dtype, elements, origin: Origin::Quantised })
}
