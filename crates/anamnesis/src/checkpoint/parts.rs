//! Files with a part of a model: the parts of a split GGUF model, which have their number and count in their metadata
//! and must all exist; and single shards of a distributed checkpoint, which have a piece of every tensor under the whole
//! tensor's name and are refused.

use serde_json::{Map, Value};

use super::distributed::SHARDING;
use super::names::{DISTRIBUTED, is_distributed_shard};
use crate::catalog::{Catalog, MetadataValue, SplitPart, Unreadable};
use crate::container::Format;
use crate::error::{AnamnesisError, Result, quoted};

/// Records in the catalog that a file is a shard of a distributed checkpoint. The metadata entry alone is not
/// sufficient: the only file of a model saved by a single process has it too, with offsets of zero. The first of
/// several shards differs from that only by its file name.
pub(super) fn note_shard(catalog: &mut Catalog, file: &str) {
    let entry =
        catalog.metadata.as_ref().and_then(|metadata| metadata.get(SHARDING)).and_then(MetadataValue::as_string);
    let Some(text) = entry else { return };
    let why = match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(tensors) => match tensors.iter().find(|(_, place)| !is_at_the_start(place)) {
            Some((name, _)) => format!("by {SHARDING}, this file holds a piece of tensor {}", quoted(name)),
            None if is_distributed_shard(file) => {
                format!("by its name and {SHARDING}, {} holds a piece of each tensor", quoted(file))
            }
            None => return,
        },
        Err(error) => format!("{SHARDING}, which has the offsets of the pieces, cannot be read: {error}"),
    };
    let why = format!("{why}; the other shards are needed too");
    catalog.unreadable.push(Unreadable { format: DISTRIBUTED, why });
}

/// Whether a piece begins at offset 0 in every dimension.
fn is_at_the_start(place: &Value) -> bool {
    let offsets = place.get("saved_offsets").and_then(Value::as_array);
    offsets.is_some_and(|offsets| offsets.iter().all(|offset| offset.as_u64() == Some(0)))
}

/// Refuses one part of a split model that was opened by itself.
pub(super) fn check_alone(catalog: &Catalog, format: Format) -> Result<()> {
    let Some(SplitPart { index, count, .. }) = catalog.part else { return Ok(()) };
    let (number, ending) = (index + 1, format.extensions().first().unwrap_or(&""));
    Err(AnamnesisError::parse(format!(
        "this file is part {number} of {count}; the parts are found by their names, which must end in \
         -{number:05}-of-{count:05}.{ending}"
    )))
}

/// Checks part numbers and counts in the metadata of a set's files against the set.
pub(super) fn check_set(catalogs: &[Catalog], files: &[String]) -> Result<()> {
    let stored: usize = catalogs.iter().map(Catalog::len).sum();
    for (place, (catalog, file)) in catalogs.iter().zip(files).enumerate() {
        let Some(SplitPart { index, count, tensors }) = catalog.part else { continue };
        let refuse = |why: String| Err(AnamnesisError::parse(format!("{}: {why}", quoted(file))));
        if count as usize != files.len() {
            return refuse(format!("it is one of {count} parts (split.count), {} are here", files.len()));
        }
        if index as usize != place {
            return refuse(format!("it is part {} of {count} (split.no), its file name has {}", index + 1, place + 1));
        }
        if let Some(tensors) = tensors.filter(|&tensors| tensors as usize != stored) {
            let why = format!("all parts have {tensors} tensors together (split.tensors.count), {stored} are here");
            return refuse(why);
        }
    }
    Ok(())
}
