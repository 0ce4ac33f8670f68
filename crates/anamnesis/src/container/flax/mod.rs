//! Flax parameters: one MessagePack map, whose leaves are arrays. Names are the keys of all levels, joined by dots.
//!
//! | leaf | content |
//! |---|---|
//! | extension 1, an array; 3, a NumPy scalar | MessagePack array: shape, name of the type, bytes in C order, little-endian |
//! | extension 2 | a complex number of Python |
//! | a map with `__msgpack_chunked_array__` | `shape` and `chunks`, maps from numbers as text to sizes and to flat arrays |
//!
//! Numbers, texts and the like are no tensors and are left out with a note. Four-bit integers, which take a byte each,
//! are read as I8 and U8. The format is defined by `flax.serialization`.

mod array;
mod reader;
mod value;

use crate::catalog::{Catalog, Facts, Metadata, Note, StoredTensor, Unreadable};
use crate::container::cursor::Cursor;
use crate::container::identity::{About, Format};
use crate::container::interface::{Container, Evidence, Opened};
use crate::container::layout::{Layout, OutputTensor};
use crate::container::options::OpenOptions;
use crate::error::{AnamnesisError, Result};
use crate::io::{ArrangedSource, Source};
use crate::limits::Budget;

/// The format of Flax.
pub(crate) struct Flax;

const NAME: &str = "Flax";

pub(super) const ABOUT: About = About {
    format: Format::Flax,
    name: NAME,
    file: "a file of Flax parameters",
    extensions: &["msgpack"],
    shared_extensions: &[],
    writes: false,
    parts_are_one_file: false,
    container: &Flax,
};

impl Container for Flax {
    fn recognises(&self, head: &[u8]) -> Evidence {
        if value::begins_map(head) { Evidence::Probable } else { Evidence::No }
    }

    fn open(&self, source: Box<dyn Source>, file: u32, options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
        let tree = reader::read(&mut Cursor::over_source(&*source), budget)?;
        let mut arranged = ArrangedSource::new(source);
        let mut tensors: Vec<StoredTensor> = Vec::with_capacity(tree.arrays.len());
        for (name, array) in tree.arrays {
            tensors.push(array.arrange(name, file, &mut arranged)?);
        }
        let mut catalog = Catalog::new(tensors, None)?;
        catalog.holds_plain_arrays = true;
        catalog.types_are_final = true;
        catalog.facts = Some(Facts::new("Flax parameters"));
        if let Some(note) = omitted(tree.other_leaves, &tree.other_names) {
            catalog.notes.push(note);
        }
        match options.skip_unsupported {
            true => catalog.notes.extend(tree.refused.into_iter().map(|why| Note::new(format!("left out: {why}")))),
            false => {
                catalog.unreadable = tree.refused.into_iter().map(|why| Unreadable { format: NAME, why }).collect();
            }
        }
        Ok(Opened { source: Box::new(arranged), catalog })
    }

    fn lay_out(&self, _: &[OutputTensor], _: Option<&Metadata>) -> Result<Layout> {
        Err(AnamnesisError::unsupported(NAME, "files of Flax are read, not written"))
    }
}

/// A note on leaves that are no arrays.
fn omitted(count: usize, names: &[String]) -> Option<Note> {
    let more = match count.saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let listed = names.join(", ");
    (count > 0).then(|| Note::new(format!("values that are not arrays were left out: {listed}{more}")))
}
