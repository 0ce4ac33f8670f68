//! Distributed checkpoints of PyTorch: a directory with `.metadata`, or one of safetensors shards that have pieces of
//! tensors.
//!
//! In safetensors, every rank writes `shard-RANK-model-NUMBER-of-COUNT.safetensors`, with the offsets of its pieces in the
//! metadata. The shapes of whole tensors are not recorded: they are the ends of the last pieces. Neither is the number of
//! ranks, so that missing last shards cannot be noticed.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::files::is_file;
use super::located::{Located, Set, file_names};
use super::names::{DISTRIBUTED, METADATA_FILE, distributed_shard, is_distributed_shard};
use crate::catalog::{Catalog, Dtype, Extent, MetadataValue, Note, StoredTensor};
use crate::container::pieces::{Assembled, Piece};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::{ArrangedSource, JoinedSource, Source, file_inside};
use crate::limits::Budget;

/// The metadata entry with the offsets of a file's pieces: JSON, from the name of a tensor to `{"saved_offsets": [..]}`.
pub(super) const SHARDING: &str = "DCP_SHARDING_INFO";

/// The checkpoint of a directory with files of chunks.
pub(super) fn locate(directory: &Path) -> Result<Located> {
    if !is_file(&directory.join(METADATA_FILE))? {
        let missing = quoted(METADATA_FILE);
        let why = format!("{} has no file {missing}, which describes the others", directory.display());
        return Err(AnamnesisError::unsupported(DISTRIBUTED, why));
    }
    Ok(Located::Set(Set::new(directory, vec![METADATA_FILE.to_owned()])))
}

/// The shards of a directory. Those of one rank alone are not a checkpoint, as far as their names show.
pub(super) fn shards(directory: &Path) -> Result<Located> {
    let mut files = file_names(directory)?;
    files.retain(|name| is_distributed_shard(name));
    check_numbers(&files).map_err(|error| error.in_file(directory))?;
    for name in &files {
        file_inside(directory, name)?;
    }
    match &files[..] {
        [single] => Ok(Located::File(directory.join(single))),
        _ => Ok(Located::Set(Set::new(directory, files))),
    }
}

/// Refuses shards with gaps in their numbers.
fn check_numbers(files: &[String]) -> Result<()> {
    let mut numbers: Vec<[u32; 3]> = files.iter().filter_map(|name| distributed_shard(name)).collect();
    numbers.sort_unstable();
    let missing = |rank: u32, number: u32| {
        let why = format!("the shard {number} of rank {rank} is missing or there twice");
        Err(AnamnesisError::unsupported(DISTRIBUTED, why))
    };
    let mut wanted = (1, 1);
    for [rank, number, count] in numbers {
        if (rank, number) != wanted || number > count {
            return missing(wanted.0, wanted.1);
        }
        wanted = if number == count { (rank + 1, 1) } else { (rank, number + 1) };
    }
    if wanted.1 == 1 { Ok(()) } else { missing(wanted.0, wanted.1) }
}

/// The pieces of a tensor.
struct Pieces {
    dtype: Dtype,
    pieces: Vec<Piece>,
}

/// Puts the pieces of all files together: one source with whole tensors.
pub(super) fn assemble(
    sources: Vec<Box<dyn Source>>,
    catalogs: Vec<Catalog>,
    files: &[String],
    budget: &mut Budget,
) -> Result<(Vec<Box<dyn Source>>, Catalog)> {
    let mut joined: Option<JoinedSource> = None;
    let mut tensors: BTreeMap<String, Pieces> = BTreeMap::new();
    let mut metadata = None;
    for ((source, catalog), name) in sources.into_iter().zip(catalogs).zip(files) {
        let start = match &mut joined {
            Some(joined) => joined.add(source)?,
            None => {
                joined = Some(JoinedSource::new(source));
                0
            }
        };
        add_pieces(&catalog, start, budget, &mut tensors).map_err(|error| error.within(quoted(name)))?;
        metadata = metadata.or(catalog.metadata);
    }
    let joined = joined.ok_or_else(|| AnamnesisError::internal("a set without files"))?;
    let mut source = ArrangedSource::new(Box::new(joined));
    let mut stored = Vec::with_capacity(tensors.len());
    for (name, pieces) in tensors {
        stored.push(whole(&mut source, &name, pieces).map_err(|error| error.in_tensor(&name))?);
    }
    // The offsets are those of the pieces, not of the whole tensors.
    if let Some(metadata) = &mut metadata {
        metadata.remove(SHARDING);
    }
    let mut catalog = Catalog::new(stored, metadata)?;
    catalog.notes.push(Note::new(format!(
        "put together from {} shards; how many were written is not recorded, so the last ones could be missing",
        files.len()
    )));
    Ok((vec![Box::new(source)], catalog))
}

/// Bytes of a piece.
const PIECE_BYTES: u64 = 128;

fn add_pieces(
    catalog: &Catalog,
    start: u64,
    budget: &mut Budget,
    tensors: &mut BTreeMap<String, Pieces>,
) -> Result<()> {
    let entry = catalog.metadata.as_ref().and_then(|metadata| metadata.get(SHARDING));
    let text = entry.and_then(MetadataValue::as_string);
    let text = text.ok_or_else(|| AnamnesisError::unsupported(DISTRIBUTED, format!("it has no {SHARDING}")))?;
    budget.working_set(text.len() as u64, SHARDING)?;
    let offsets: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| AnamnesisError::unsupported(DISTRIBUTED, format!("{SHARDING} cannot be read: {error}")))?;
    for (_, tensor) in catalog.iter() {
        budget.working_set(PIECE_BYTES + tensor.name.len() as u64, "the pieces")?;
        let listed = offsets.get(&tensor.name).and_then(|entry| entry.get("saved_offsets")?.as_array());
        let listed = listed.and_then(|listed| listed.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>());
        let listed = listed.filter(|listed| listed.len() == tensor.shape.len());
        let listed = listed.ok_or_else(|| {
            let why = format!("{SHARDING} has no valid offsets of tensor {}", quoted(&tensor.name));
            AnamnesisError::unsupported(DISTRIBUTED, why)
        })?;
        let pieces =
            tensors.entry(tensor.name.clone()).or_insert_with(|| Pieces { dtype: tensor.dtype, pieces: Vec::new() });
        if pieces.dtype != tensor.dtype {
            let why = format!("a piece is {}, another {}", tensor.dtype, pieces.dtype);
            return Err(AnamnesisError::parse(why).in_tensor(&tensor.name));
        }
        let sizes = tensor.shape.iter().map(|dim| *dim as u64).collect();
        pieces.pieces.push(Piece { offsets: listed, sizes, at: start + tensor.extent.offset });
    }
    Ok(())
}

/// The tensor that pieces make up.
fn whole(source: &mut ArrangedSource, name: &str, Pieces { dtype, mut pieces }: Pieces) -> Result<StoredTensor> {
    let rank = pieces.iter().map(|piece| piece.sizes.len()).max().unwrap_or_default();
    let mut dims = vec![0u64; rank];
    for piece in &pieces {
        if piece.sizes.len() != rank {
            return Err(AnamnesisError::parse("its pieces have different numbers of dimensions"));
        }
        for (dim, (offset, size)) in dims.iter_mut().zip(piece.offsets.iter().zip(&piece.sizes)) {
            let end = offset.checked_add(*size).ok_or_else(|| AnamnesisError::parse("the end of a piece overflows"))?;
            *dim = (*dim).max(end);
        }
    }
    pieces.retain(|piece| !piece.sizes.contains(&0));
    let too_large = || AnamnesisError::parse(format!("a tensor of shape {dims:?} is too large"));
    let shape = dims.iter().map(|dim| usize::try_from(*dim).map_err(|_| too_large()));
    let shape = shape.collect::<Result<Vec<usize>>>()?;
    let elements = crate::catalog::dtype::elements(&shape).ok_or_else(too_large)?;
    let bytes = dtype.byte_len(elements).ok_or_else(too_large)?;
    let whole = match &pieces[..] {
        [piece] if piece.sizes == dims => Some(piece.at),
        _ => None,
    };
    if whole.is_none() && dtype.byte_len(1).is_none() {
        return Err(AnamnesisError::unsupported(DISTRIBUTED, format!("pieces of type {dtype}")));
    }
    let assembled = Assembled::new(&dims, dtype.byte_size() as u64, pieces)?;
    let offset = match whole {
        Some(offset) => offset,
        None if elements == 0 => 0,
        None => source.add(Box::new(assembled))?,
    };
    Ok(StoredTensor { name: name.to_owned(), dtype, shape, extent: Extent { file: 0, offset, bytes } })
}
