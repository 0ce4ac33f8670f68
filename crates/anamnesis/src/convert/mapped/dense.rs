//! The dense modules of sentence-transformers, which are files of their own, as tensors of GGUF.

use super::Model;
use super::measure::decoded;
use crate::architecture::Mapped;
use crate::architecture::sentence_transformers::{DenseModule, DenseModules};
use crate::architecture::sidecars::Directory;
use crate::architecture::tree::Tree;
use crate::catalog::Selection;
use crate::checkpoint::{Checkpoint, is_file};
use crate::convert::inputs::ClaimedCatalog;
use crate::error::{AnamnesisError, Request, Result};

/// The tensor of a dense module, and the most values it may have.
const DENSE: &str = "linear.weight";
const MOST_OF_MODULE: u64 = 1 << 26;

impl Model<'_> {
    /// The dense modules behind the model, each with its weight. Modules without a file are left out.
    pub(super) fn dense_modules(&self, files: &Directory, are_requested: bool) -> Result<Vec<(DenseModule, Mapped)>> {
        let kind = self.architecture.dense_modules();
        if are_requested && kind == DenseModules::None {
            let (what, why) = ("a file with dense modules", "llama.cpp has none for this architecture");
            return Err(Request::Contradiction { what: what.to_owned(), why: why.to_owned() }.into());
        }
        let mut found = Vec::new();
        for mut module in kind.of(files, are_requested)? {
            let path = self.directory.join(&module.folder).join("model.safetensors");
            if !is_file(&path)? {
                continue;
            }
            let file = Checkpoint::open(&path, &self.checkpoint.limits)?;
            let selected = ClaimedCatalog::of(&file).select(&Selection::new(), None)?;
            let Some(weight) = selected.tensors.iter().find(|tensor| tensor.name == DENSE) else {
                return Err(AnamnesisError::parse("it is missing").in_tensor(DENSE).in_file(&path));
            };
            let values = decoded(&file, weight, MOST_OF_MODULE).map_err(|error| error.in_file(&path))?;
            let shape = weight.shape.clone();
            module.rows = shape.first().map_or(0, |&rows| rows as u64);
            if let Some([inputs, outputs]) = module.features
                && shape[..] != [outputs as usize, inputs as usize]
            {
                let why = format!("its shape is {shape:?}, config.json says [{outputs}, {inputs}]");
                return Err(AnamnesisError::parse(why).in_tensor(DENSE).in_file(&path));
            }
            let name = format!("{}.weight", module.name);
            found.push((module, Mapped { name, shape, tree: Tree::Constant(values) }));
        }
        Ok(found)
    }
}
