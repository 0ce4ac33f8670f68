//! Models of whisper.cpp, `ggml-*.bin`: hyperparameters, mel filters, vocabulary, tensors. All numbers are
//! little-endian.
//!
//! | part | content |
//! |---|---|
//! | head | u32 magic `ggml`, eleven i32 hyperparameters, the last of them the file type and 1000 times the version of block layouts |
//! | filters | i32 mel bands, i32 frequencies, F32 weights |
//! | vocabulary | i32 count; per token: u32 length, bytes |
//! | tensors | to the end of the file: i32 rank, i32 name length, i32 type, i32 dimensions (fastest-varying first), name, data |
//!
//! Hyperparameters, filters and vocabulary are metadata; tokens, which need not be UTF-8, are written in the byte-level
//! alphabet of GPT-2 like in GGUF. Other models of ggml start with the same magic: a file is one of whisper.cpp if the
//! bands of its filters are those of its hyperparameters. The format is defined by `whisper_model_load` of whisper.cpp
//! and its `models/convert-pt-to-ggml.py`.

mod header;

use crate::catalog::{Catalog, Metadata, MetadataValue, Note};
use crate::container::cursor::Cursor;
use crate::container::identity::{About, Format};
use crate::container::interface::{Container, Evidence, Opened};
use crate::container::layout::{Layout, OutputTensor};
use crate::container::options::OpenOptions;
use crate::error::{AnamnesisError, Result};
use crate::io::Source;
use crate::limits::Budget;

use header::{Front, Keep, missing, read_front, read_tensors};

/// The format of whisper.cpp.
pub(crate) struct Whisper;

pub(super) const ABOUT: About = About {
    format: Format::Whisper,
    name: "whisper.cpp",
    file: "a model of whisper.cpp",
    extensions: &["bin"],
    // `.bin` is shared by several formats.
    shared_extensions: &["bin"],
    writes: false,
    parts_are_one_file: false,
    container: &Whisper,
};

impl Container for Whisper {
    fn recognises(&self, head: &[u8]) -> Evidence {
        if header::is_whisper(head) { Evidence::Certain } else { Evidence::No }
    }

    fn open(&self, source: Box<dyn Source>, file: u32, _options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
        let (front, mut catalog) = read(&*source, file, budget)?;
        catalog.unread_metadata = front.entry_count();
        catalog.facts = Some(front.facts());
        catalog.notes = missing(&front, &catalog).map(Note::new).into_iter().collect();
        Ok(Opened { source, catalog })
    }

    fn lay_out(&self, _: &[OutputTensor], _: Option<&Metadata>) -> Result<Layout> {
        Err(AnamnesisError::unsupported("whisper.cpp", "models of whisper.cpp are read, not written"))
    }

    fn damage(&self, source: &dyn Source, budget: &mut Budget) -> Result<Vec<String>> {
        let (front, catalog) = read(source, 0, budget)?;
        Ok(missing(&front, &catalog).into_iter().collect())
    }

    fn metadata(&self, source: &dyn Source, budget: &mut Budget) -> Result<Vec<(String, MetadataValue)>> {
        Ok(read_front(&mut Cursor::over_source(source), Keep::All, budget)?.entries())
    }
}

fn read(source: &dyn Source, file: u32, budget: &mut Budget) -> Result<(Front, Catalog)> {
    let mut cursor = Cursor::over_source(source);
    let front = read_front(&mut cursor, Keep::Hyperparameters, budget)?;
    let (tensors, unreadable) = read_tensors(&mut cursor, file, &front, budget)?;
    let mut catalog = Catalog::new(tensors, None)?;
    catalog.unreadable = unreadable;
    Ok((front, catalog))
}
