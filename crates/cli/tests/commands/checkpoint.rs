//! A builder of small checkpoint directories.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::folder::Folder;

/// A stored tensor.
#[derive(Clone)]
pub struct Tensor {
    pub name: String,
    dtype: &'static str,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Tensor {
    /// Values that differ by index and seed, none of them zero.
    pub fn fp8(name: &str, shape: [usize; 2], seed: usize) -> Self {
        let code = |place: usize| (place.wrapping_mul(31).wrapping_add(seed * 97) % 120 + 1) as u8;
        let bytes = (0..shape[0] * shape[1]).map(code).collect();
        Self { name: name.to_owned(), dtype: "F8_E4M3", shape: shape.to_vec(), bytes }
    }

    pub fn f32(name: &str, shape: [usize; 2], value: f32) -> Self {
        let bytes = value.to_le_bytes().repeat(shape[0] * shape[1]);
        Self { name: name.to_owned(), dtype: "F32", shape: shape.to_vec(), bytes }
    }

    pub fn bf16(name: &str, length: usize) -> Self {
        Self { name: name.to_owned(), dtype: "BF16", shape: vec![length], bytes: [0x80, 0x3f].repeat(length) }
    }
}

/// The bytes of a safetensors file.
pub fn safetensors(tensors: &[Tensor]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for Tensor { name, dtype, shape, bytes } in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        header.insert(name.clone(), json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, data.len()] }));
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

pub const CONFIG: &str = r#"{
  "architectures": ["TinyForCausalLM"],
  "quantization_config": {
    "quant_method": "fp8",
    "weight_block_size": [128, 128]
  },
  "rope_theta": 1e4,
  "torch_dtype": "float8_e4m3fn"
}
"#;
pub const CLEAN_CONFIG: &str = r#"{
  "architectures": ["TinyForCausalLM"],
  "rope_theta": 1e4,
  "torch_dtype": "bfloat16"
}
"#;
pub const TOKENIZER: &str = r#"{"version": "1.0", "added_tokens": []}"#;
pub const INDEX: &str = "model.safetensors.index.json";
/// The name of the directory.
pub const NAME: &str = "Tiny-3.1-FP8";
/// How many quantised weights there are.
pub const WEIGHTS: usize = 6;
/// A shard size that gives one shard per weight.
pub const SMALL: &str = "--shard-size 2KB";

fn weight_name(layer: usize) -> String {
    format!("model.layers.{layer}.mlp.weight")
}

/// Weights in the first shard, their scales and a plain tensor in the second.
pub fn shards() -> [Vec<Tensor>; 2] {
    let weight = |layer| Tensor::fp8(&weight_name(layer), [130, 7], layer);
    let scale = |layer| Tensor::f32(&format!("{}_scale_inv", weight_name(layer)), [2, 1], 0.5 + layer as f32);
    let mut second: Vec<_> = (0..WEIGHTS).map(scale).collect();
    second.push(Tensor::bf16("model.norm.weight", 16));
    [(0..WEIGHTS).map(weight).collect(), second]
}

pub fn shard_name(number: usize, count: usize) -> String {
    format!("model-{number:05}-of-{count:05}.safetensors")
}

/// The index over shards.
pub fn index(shards: &[Vec<Tensor>]) -> Value {
    let mut map = BTreeMap::new();
    let mut total = 0;
    for (number, tensors) in (1..).zip(shards) {
        for tensor in tensors {
            map.insert(tensor.name.clone(), shard_name(number, shards.len()));
            total += tensor.bytes.len();
        }
    }
    json!({ "metadata": { "total_size": total }, "weight_map": map })
}

/// Writes shards with their index and the usual sidecar files.
pub fn write(directory: &Path, shards: &[Vec<Tensor>]) {
    fs::create_dir_all(directory).unwrap();
    for (number, tensors) in (1..).zip(shards) {
        fs::write(directory.join(shard_name(number, shards.len())), safetensors(tensors)).unwrap();
    }
    fs::write(directory.join(INDEX), index(shards).to_string()).unwrap();
    fs::write(directory.join("config.json"), CONFIG).unwrap();
    fs::write(directory.join("tokenizer.json"), TOKENIZER).unwrap();
}

/// A folder with the checkpoint in it.
pub fn folder() -> Folder {
    let folder = Folder::empty();
    write(&folder.path(NAME), &shards());
    folder
}

/// Every file of a directory with its bytes.
pub fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// Compares directories without printing their bytes.
#[track_caller]
pub fn assert_same_files(found: &Path, wanted: &Path) {
    let (found, wanted) = (files(found), files(wanted));
    assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for (name, bytes) in &wanted {
        assert!(found[name] == *bytes, "{name} differs");
    }
}
