//! Distributing tensors over weight files.

use std::collections::BTreeMap;

use super::{DirectoryOptions, Shard};
use crate::catalog::Metadata;
use crate::container::safetensors::Safetensors;
use crate::convert::split::cut;
use crate::error::Result;
use crate::pipeline::{Plan, Planned};

/// Splits the tensors, in input order, into files of at most the shard size; a larger tensor gets a file of its own.
pub(super) fn lay_out(
    mut planned: Vec<Planned>,
    options: &DirectoryOptions,
    metadata: Option<&Metadata>,
    base: &str,
) -> Result<Vec<Shard>> {
    planned.sort_by_key(Planned::source);
    let files = cut(planned, options.shard_bytes, None);
    let count = files.len();
    let shard = |(index, tensors): (usize, Vec<Planned>)| {
        let name = match count {
            1 => format!("{base}.safetensors"),
            _ => format!("{base}-{:05}-of-{count:05}.safetensors", index + 1),
        };
        Ok(Shard { name, plan: Plan::new(tensors, &Safetensors, metadata)? })
    };
    files.into_iter().enumerate().map(shard).collect()
}

/// The default base name of weight files.
pub(super) const BASE: &str = "model";

/// Other base names that loaders look for: diffusers, PEFT adapters, Mistral's own format.
const OTHER_BASES: [&str; 4] = ["diffusion_pytorch_model", "adapter_model", "pytorch_lora_weights", "consolidated"];

/// The base name of the output's weight files, derived from the first input file without a variant such as `fp16`,
/// which would not be true of the output.
pub(super) fn base_of(input: &str) -> &'static str {
    let is_input =
        |base: &&&str| input.strip_prefix(**base).is_some_and(|rest| rest.starts_with('.') || rest.starts_with('-'));
    OTHER_BASES.iter().find(is_input).filter(|_| input.ends_with(".safetensors")).copied().unwrap_or(BASE)
}

/// The name of the index over weight files of this base name.
pub(super) fn index_name(base: &str) -> String {
    format!("{base}.safetensors.index.json")
}

/// Whether a file is a weight file of this base name, or the index over them.
pub(super) fn is_weight_of(base: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(base) else { return false };
    if [".safetensors", ".safetensors.index.json"].contains(&rest) {
        return true;
    }
    let numbers = rest.strip_prefix('-').and_then(|rest| rest.strip_suffix(".safetensors"));
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.and_then(|numbers| numbers.split_once("-of-")).is_some_and(|(a, b)| is_number(a) && is_number(b))
}

/// The index over several shards; `None` for a single file.
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

/// The text of an index, with its tensor names sorted.
fn index_document(weight_map: &BTreeMap<&str, &str>, total_size: u64) -> Result<Vec<u8>> {
    let document = serde_json::json!({ "metadata": { "total_size": total_size }, "weight_map": weight_map });
    let mut text = serde_json::to_vec_pretty(&document).map_err(std::io::Error::from)?;
    text.push(b'\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_keep_the_names_that_loaders_look_for() {
        let cases = [
            ("model-00001-of-00002.safetensors", "model"),
            ("adapter_model.safetensors", "adapter_model"),
            ("diffusion_pytorch_model-00001-of-00003.safetensors", "diffusion_pytorch_model"),
            ("diffusion_pytorch_model.fp16.safetensors", "diffusion_pytorch_model"),
            ("consolidated.safetensors", "consolidated"),
            ("adapter_model.bin", "model"),
            ("adapter_models.safetensors", "model"),
            ("anything-fp8.safetensors", "model"),
        ];
        for (input, base) in cases {
            assert_eq!(base_of(input), base, "{input}");
        }
    }

    #[test]
    fn weights_of_other_base_names_are_not_matched() {
        for name in ["model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"] {
            assert!(is_weight_of("model", name), "{name}");
        }
        for name in ["model-1-of-2.safetensors", "model_2.safetensors", "model.bin", "adapter_model.safetensors"] {
            assert!(!is_weight_of("model", name), "{name}");
        }
    }
}
