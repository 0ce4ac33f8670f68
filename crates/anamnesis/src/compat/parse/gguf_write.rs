//! Writing GGUF files.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::io::{Seek, Write};
use std::path::Path;

use super::gguf::{GgufMetadataValue, GgufType};
use crate::compat::in_memory::InMemory;
use crate::container::Layout;
use crate::container::gguf::{Endian, Keys, NewTensor, lay_out};
use crate::error::Result;

/// A tensor to be written, already encoded if its type is a block type.
#[derive(Debug, Clone, Copy)]
pub struct GgufWriteTensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its shape in file order: the fastest-varying dimension first.
    pub shape: &'a [usize],
    /// Its element type.
    pub dtype: GgufType,
    /// Its bytes, little endian.
    pub data: &'a [u8],
}

/// Writes a GGUF file, version 3: metadata sorted by key, tensors in the given order. The file appears complete or not
/// at all. `general.alignment` is 32 unless `metadata` has it.
///
/// ```
/// use std::collections::HashMap;
/// use anamnesis::{GgufMetadataValue, GgufType, GgufWriteTensor, parse_gguf_bytes, write_gguf_to_writer};
/// let name = GgufMetadataValue::String("tiny".to_owned());
/// let metadata = HashMap::from([("general.name".to_owned(), name)]);
/// let tensor = GgufWriteTensor { name: "a", shape: &[2], dtype: GgufType::I8, data: &[1, 2] };
/// let mut file = std::io::Cursor::new(Vec::new());
/// write_gguf_to_writer(&mut file, &[tensor], &metadata)?;
/// let parsed = parse_gguf_bytes(file.into_inner())?;
/// assert_eq!(parsed.tensors().next().unwrap().data[..], [1, 2]);
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Parse` if a shape is empty or disagrees with its data, or a name occurs twice; `Unsupported` for an alignment that
/// is not a `U32` power of two, `LimitExceeded` if a limit of the format is exceeded, `Io` if the file cannot be
/// written. All of this is checked before the first byte is written.
pub fn write_gguf<S: BuildHasher>(
    path: impl AsRef<Path>,
    tensors: &[GgufWriteTensor<'_>],
    metadata: &HashMap<String, GgufMetadataValue, S>,
) -> Result<()> {
    let layout = layout_of(tensors, metadata)?;
    InMemory::new(layout, |put| tensors.iter().try_for_each(|tensor| put(tensor.data))).write(path.as_ref())
}

/// [`write_gguf`] to any writer, from its current position.
///
/// # Errors
/// As [`write_gguf`].
pub fn write_gguf_to_writer<W: Write + Seek, S: BuildHasher>(
    mut writer: W,
    tensors: &[GgufWriteTensor<'_>],
    metadata: &HashMap<String, GgufMetadataValue, S>,
) -> Result<()> {
    let layout = layout_of(tensors, metadata)?;
    writer.write_all(layout.front())?;
    let mut end = layout.front().len() as u64;
    for (tensor, &offset) in tensors.iter().zip(&layout.offsets) {
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), offset - end), &mut writer)?;
        writer.write_all(tensor.data)?;
        end = offset + tensor.data.len() as u64;
    }
    Ok(writer.flush()?)
}

fn layout_of<S: BuildHasher>(
    tensors: &[GgufWriteTensor<'_>],
    metadata: &HashMap<String, GgufMetadataValue, S>,
) -> Result<Layout> {
    let tensors: Vec<_> = tensors
        .iter()
        .map(|&GgufWriteTensor { name, shape, dtype, data }| NewTensor { name, shape, dtype, bytes: data.len() as u64 })
        .collect();
    lay_out(&tensors, metadata.iter().map(|(key, value)| (key.as_str(), value)), Keys::Sorted, Endian::Little)
}
