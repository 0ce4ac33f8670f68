//! Compares the mixes with the types that llama-quantize chooses for models of real depth.

use std::collections::BTreeMap;

use serde_json::Value;

use super::mix::{Chooser, Mix, Model, fitting, is_quantised};
use super::quantiser::{ENCODINGS, in_order};

/// A model: its hyperparameters, and the names and ranks of its tensors.
struct Known {
    model: Model,
    tensors: Vec<(String, usize)>,
}

struct Shape {
    has_output: bool,
    is_joined: bool,
    has_gate: bool,
    is_latent: bool,
    has_shared: bool,
}

const USUAL: Shape = Shape { has_output: true, is_joined: false, has_gate: true, is_latent: false, has_shared: false };

fn known(architecture: &str, layers: u64, sharing: u64, experts: u64, shape: &Shape) -> Known {
    let model = Model { architecture: architecture.to_owned(), layers, experts, heads: 8, kv_heads: 8 / sharing };
    let mut tensors = vec![("token_embd.weight".to_owned(), 2), ("output_norm.weight".to_owned(), 1)];
    if shape.has_output {
        tensors.push(("output.weight".to_owned(), 2));
    }
    for layer in 0..layers {
        let mut add = |name: &str, rank| tensors.push((format!("blk.{layer}.{name}.weight"), rank));
        add("attn_norm", 1);
        add("ffn_norm", 1);
        add("attn_output", 2);
        if shape.is_latent {
            ["attn_q_a", "attn_q_b", "attn_kv_a_mqa"].into_iter().for_each(|name| add(name, 2));
            ["attn_k_b", "attn_v_b"].into_iter().for_each(|name| add(name, 3));
        } else if shape.is_joined {
            add("attn_qkv", 2);
        } else {
            ["attn_q", "attn_k", "attn_v"].into_iter().for_each(|name| add(name, 2));
        }
        if experts > 0 && !(shape.is_latent && layer == 0) {
            add("ffn_gate_inp", 2);
            ["ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"].into_iter().for_each(|name| add(name, 3));
            if shape.has_shared {
                ["ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"].into_iter().for_each(|name| add(name, 2));
            }
        } else {
            ["ffn_gate", "ffn_up", "ffn_down"]
                .into_iter()
                .filter(|name| shape.has_gate || *name != "ffn_gate")
                .for_each(|name| add(name, 2));
        }
    }
    Known { model, tensors }
}

fn models() -> Vec<(&'static str, Known)> {
    let tied = Shape { has_output: false, ..USUAL };
    let joined = Shape { is_joined: true, has_gate: false, ..USUAL };
    let latent = Shape { is_latent: true, has_shared: true, ..USUAL };
    vec![
        ("llama 32 layers, gqa 4", known("llama", 32, 4, 0, &USUAL)),
        ("llama 32 layers, gqa 1", known("llama", 32, 1, 0, &USUAL)),
        ("llama 80 layers, gqa 8", known("llama", 80, 8, 0, &USUAL)),
        ("llama 16 layers, gqa 4, tied", known("llama", 16, 4, 0, &tied)),
        ("llama 32 layers, gqa 4, 8 experts", known("llama", 32, 4, 8, &USUAL)),
        ("qwen2 28 layers, gqa 2, tied", known("qwen2", 28, 2, 0, &tied)),
        ("qwen3moe 48 layers, gqa 8, 128 experts", known("qwen3moe", 48, 8, 128, &USUAL)),
        ("gemma2 26 layers, gqa 2, tied", known("gemma2", 26, 2, 0, &tied)),
        ("phi3 32 layers, qkv", known("phi3", 32, 1, 0, &joined)),
        ("deepseek2 27 layers, 64 experts", known("deepseek2", 27, 8, 64, &latent)),
        ("falcon 32 layers, qkv", known("falcon", 32, 8, 0, &joined)),
        ("gpt-oss 24 layers, gqa 8, 32 experts", known("gpt-oss", 24, 8, 32, &USUAL)),
    ]
}

/// The expected types of tensors by name and layer: `{"attn_v.weight": {"q6_K": [0, 1], "q4_K": [2]}}`.
fn expected(column: &Value, layers: u64) -> BTreeMap<String, String> {
    let mut types = BTreeMap::new();
    for (name, of_name) in column.as_object().unwrap() {
        let mut put = |layer: Option<u64>, block: &str| {
            let name = layer.map_or_else(|| name.clone(), |layer| format!("blk.{layer}.{name}"));
            types.insert(name, block.to_ascii_uppercase());
        };
        match of_name {
            Value::String(block) => {
                (0..layers).for_each(|layer| put(Some(layer), block));
                put(None, block);
            }
            of_name => {
                for (block, layers) in of_name.as_object().unwrap() {
                    layers.as_array().unwrap().iter().for_each(|layer| put(layer.as_u64(), block));
                }
            }
        }
    }
    types
}

#[test]
fn every_mix_chooses_the_types_of_llama_cpp() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/mixes/types.json");
    let all: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let (mut checked, mut faults) = (0, Vec::new());
    for (name, Known { model, mut tensors }) in models() {
        tensors.sort_by(|(a, _), (b, _)| in_order(a).cmp(&in_order(b)));
        for (mix_name, columns) in all[name].as_object().unwrap() {
            // Plain floats are not a mix.
            let Some(mix) = Mix::named(mix_name) else {
                assert!(matches!(mix_name.as_str(), "f32" | "f16" | "bf16"), "{mix_name}");
                continue;
            };
            for has_importance in [false, true] {
                let columns = columns.as_array().unwrap();
                let expected = expected(columns.get(usize::from(has_importance)).unwrap_or(&columns[0]), model.layers);
                let touched = tensors.iter().filter(|(name, rank)| is_quantised(name, *rank));
                let names = touched.clone().map(|(name, _)| name.as_str());
                let mut chooser = Chooser::new(mix, &model, names, has_importance);
                for (tensor, rank) in touched {
                    let block = fitting(chooser.next(tensor, *rank, true), 256).unwrap();
                    checked += 1;
                    if expected.get(tensor).is_none_or(|expected| expected != block.name()) {
                        faults.push(format!("{name}, {mix_name}, {has_importance}: {tensor} is {block}"));
                    }
                }
            }
        }
    }
    assert!(checked > 150_000, "only {checked}");
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults[..faults.len().min(20)].join("\n"));
}

#[test]
fn every_mix_has_its_number_and_short_name() {
    let mut numbers: Vec<_> = ENCODINGS
        .iter()
        .map(|encoding| {
            let mix = Mix::named(encoding.names[0]).unwrap();
            assert_eq!(encoding.about, format!("mostly {} blocks, mixed as llama.cpp does", mix.block().name()));
            assert_eq!(encoding.short.to_ascii_lowercase(), encoding.names[0]);
            mix.file_type()
        })
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), ENCODINGS.len());
}
