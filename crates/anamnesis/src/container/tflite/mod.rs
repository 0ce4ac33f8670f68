//! TensorFlow Lite models: a FlatBuffer of subgraphs, whose constant tensors have buffers.
//!
//! | table | fields that are read |
//! |---|---|
//! | model | 0 version, 2 subgraphs, 3 description, 4 buffers |
//! | subgraph | 0 tensors, 4 name |
//! | tensor | 0 shape, 1 type, 2 buffer, 3 name, 4 quantization, 6 sparsity, 10 external buffer |
//! | buffer | 0 data; 1 offset and 2 size of data behind the FlatBuffer, in files over 2 GB |
//! | quantization | 2 scales, 3 zero points (I64), 4 and 5 other parameters, 6 dimension of the scales |
//!
//! A tensor with data is a constant. Its scales and zero points are stored tensors too, named after it, and the catalog
//! records that they belong together. INT4 is read as I8. A name that occurs more than once is preceded by that of its
//! subgraph. Strings, sparse tensors and blockwise scales are refused. The format is specified in `schema.fbs` of
//! TensorFlow Lite.

mod element;
mod flatbuffer;
mod names;
mod tensor;

use crate::catalog::{Catalog, Facts, Metadata, Note, Subject, Unreadable};
use crate::container::identity::{About, Format};
use crate::container::interface::{Container, Evidence, Opened};
use crate::container::layout::{Layout, OutputTensor};
use crate::container::options::OpenOptions;
use crate::container::pages::Pages;
use crate::error::{AnamnesisError, Result};
use crate::io::{ArrangedSource, Source};
use crate::limits::Budget;

use flatbuffer::Table;
use tensor::{Constant, constants};

/// The format of TensorFlow Lite.
pub(crate) struct TfLite;

const NAME: &str = "TensorFlow Lite";
/// The file identifier and its offset.
const IDENTIFIER: &[u8] = b"TFL3";
const IDENTIFIER_OFFSET: usize = 4;
/// Maximum bytes of the description that are shown.
const MAX_DESCRIPTION_BYTES: u64 = 4096;

pub(super) const ABOUT: About = About {
    format: Format::TfLite,
    name: NAME,
    file: "a TensorFlow Lite model",
    extensions: &["tflite"],
    shared_extensions: &[],
    writes: false,
    parts_are_one_file: false,
    container: &TfLite,
};

impl Container for TfLite {
    fn recognises(&self, head: &[u8]) -> Evidence {
        match head.get(IDENTIFIER_OFFSET..).is_some_and(|rest| rest.starts_with(IDENTIFIER)) {
            true => Evidence::Certain,
            false => Evidence::No,
        }
    }

    fn open(&self, source: Box<dyn Source>, file: u32, options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
        let pages = Pages::new(&*source);
        if pages.array::<4>(IDENTIFIER_OFFSET as u64)? != *IDENTIFIER {
            return Err(AnamnesisError::parse("a TensorFlow Lite model has TFL3 at byte 4"));
        }
        let model = Table::root(&pages)?;
        let facts = facts(&model)?;
        let (constants, refused) = constants(&pages, &model, budget)?;
        drop(pages);
        let mut arranged = ArrangedSource::new(source);
        let (mut tensors, mut scaled) = (Vec::with_capacity(constants.len()), Vec::new());
        for constant in constants {
            let Constant { tensor, nibbles, scale } = constant;
            let mut tensor = tensor;
            tensor.extent.file = file;
            if let Some(nibbles) = nibbles {
                tensor.extent.offset = arranged.add(Box::new(nibbles))?;
            }
            tensors.push(tensor);
            if let Some((codes, parts)) = scale {
                scaled.push(codes);
                tensors.extend(parts.into_iter().map(|mut part| {
                    part.extent.file = file;
                    part
                }));
            }
        }
        let mut catalog = Catalog::new(tensors, None)?;
        catalog.scaled = Some(scaled);
        catalog.types_are_final = true;
        catalog.facts = Some(facts);
        match options.skip_unsupported {
            true => catalog.notes = refused.into_iter().map(|why| Note::new(format!("left out: {why}"))).collect(),
            false => {
                catalog.unreadable = refused.into_iter().map(|why| Unreadable { format: NAME, why }).collect();
            }
        }
        Ok(Opened { source: Box::new(arranged), catalog })
    }

    fn lay_out(&self, _: &[OutputTensor], _: Option<&Metadata>) -> Result<Layout> {
        Err(AnamnesisError::unsupported(NAME, "models of TensorFlow Lite are read, not written"))
    }
}

fn facts(model: &Table<'_, '_>) -> Result<Facts> {
    let version = model.u32(0)?.unwrap_or_default();
    let subgraphs = model.vector(2, 4)?.count;
    let facts = Facts::new("TensorFlow Lite model");
    let facts = match model.text(3, MAX_DESCRIPTION_BYTES)?.trim() {
        "" => facts,
        text => facts.with(Subject::Model, "Description", text.escape_debug().to_string()),
    };
    let facts = facts.with(Subject::Layout, "Version", version.to_string());
    Ok(facts.with(Subject::Layout, "Subgraphs", subgraphs.to_string()))
}
