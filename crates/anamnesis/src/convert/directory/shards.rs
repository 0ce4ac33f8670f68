//! Distributing tensors over weight files.

use std::collections::BTreeMap;

use super::{DirectoryOptions, Shard};
use crate::catalog::Metadata;
use crate::container::safetensors::Safetensors;
use crate::convert::split::cut;
use crate::error::Result;
use crate::pipeline::{Plan, Planned};

/// Cuts the tensors, in the order of the input, into files of at most the wanted size (or of one larger tensor).
pub(super) fn lay_out(
    mut planned: Vec<Planned>,
    options: &DirectoryOptions,
    metadata: Option<&Metadata>,
) -> Result<Vec<Shard>> {
    planned.sort_by_key(Planned::source);
    let files = cut(planned, options.shard_bytes, None);
    let count = files.len();
    let shard = |(index, tensors): (usize, Vec<Planned>)| {
        let name = match count {
            1 => "model.safetensors".to_owned(),
            _ => format!("model-{:05}-of-{count:05}.safetensors", index + 1),
        };
        Ok(Shard { name, plan: Plan::new(tensors, &Safetensors, metadata)? })
    };
    files.into_iter().enumerate().map(shard).collect()
}

/// The index over several shards; a single file needs none.
pub(super) fn index_text(shards: &[Shard]) -> Result<Option<Vec<u8>>> {
    if shards.len() < 2 {
        return Ok(None);
    }
    let mut weight_map = BTreeMap::new();
    let mut total = 0;
    for shard in shards {
        for (_, placed) in shard.plan.tensors() {
            weight_map.insert(placed.output.name.as_str(), shard.name.as_str());
            total += placed.output.bytes;
        }
    }
    index_document(&weight_map, total).map(Some)
}

/// The text of a new index, its names in order.
fn index_document(weight_map: &BTreeMap<&str, &str>, total_size: u64) -> Result<Vec<u8>> {
    let document = serde_json::json!({ "metadata": { "total_size": total_size }, "weight_map": weight_map });
    let mut text = serde_json::to_vec_pretty(&document).map_err(std::io::Error::from)?;
    text.push(b'\n');
    Ok(text)
}
