//! A folder with small models of every kind, with the names used in the guides.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::checkpoint::{self, NAME};
use crate::folder::{Folder, MODEL};

/// Fixtures of the library tests, and their names here.
const FIXTURES: [(&str, &str); 12] = [
    ("gguf/several_types.gguf", "model.gguf"),
    ("npz/dtypes_stored.npz", "arrays.npz"),
    ("npz/version_1.npy", "array.npy"),
    ("pth/checkpoint.pth", "checkpoint.pth"),
    ("pth/whole_module.pth", "untrusted.pth"),
    ("gptq/int4_g16_asym_v1.safetensors", "Tiny-GPTQ/model.safetensors"),
    ("gptq/int4_g16_asym_v1.config.json", "Tiny-GPTQ/config.json"),
    ("bnb/nf4_nested_b64_bfloat16.safetensors", "Tiny-NF4/model.safetensors"),
    ("architectures/llama3/config.json", "Tiny-Llama/config.json"),
    ("architectures/llama3/model.safetensors", "Tiny-Llama/model.safetensors"),
    ("architectures/llama3/tokenizer.json", "Tiny-Llama/tokenizer.json"),
    ("architectures/llama3/tokenizer_config.json", "Tiny-Llama/tokenizer_config.json"),
];

/// `model-fp8.safetensors` with its `config.json`, `plain.safetensors`, `model.gguf`, `arrays.npz`, `array.npy`,
/// `checkpoint.pth`, `untrusted.pth`, which refers to code, and the directories `Tiny-3.1-FP8`, `Tiny-GPTQ`,
/// `Tiny-NF4` and `Tiny-Llama`.
pub fn folder() -> Folder {
    let folder = Folder::with_model();
    checkpoint::write(&folder.path(NAME), &checkpoint::shards());
    for (fixture, name) in FIXTURES {
        let to = folder.path(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(fixtures().join(fixture), to).unwrap();
    }
    fs::write(folder.path("plain.safetensors"), plain()).unwrap();
    fs::write(folder.path("notes.txt"), "these are no tensors, and long enough to be taken for a header").unwrap();
    fs::write(folder.path("empty.safetensors"), "").unwrap();
    assert!(folder.path(MODEL).is_file());
    folder
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../anamnesis/tests/fixtures")
}

/// An embedding, two linear layers and a norm, in F32.
fn plain() -> Vec<u8> {
    let tensors: [(&str, &[usize]); 4] = [
        ("model.embed_tokens.weight", &[4, 64]),
        ("model.layers.0.mlp.down_proj.weight", &[8, 64]),
        ("model.layers.1.mlp.down_proj.weight", &[8, 64]),
        ("model.norm.weight", &[16]),
    ];
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, shape) in tensors {
        let start = data.len();
        let values = shape.iter().product::<usize>();
        // Multiples of 1/64, so that no rounding depends on the machine.
        data.extend((0..values).flat_map(|index| ((index * 37 % 101) as f32 / 64.0 - 0.75).to_le_bytes()));
        header.insert(name.into(), json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] }));
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}
