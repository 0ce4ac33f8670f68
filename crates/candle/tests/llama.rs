//! candle's own Llama computes the same from this backend as from plain safetensors.

mod tiny;

use std::path::Path;

use anamnesis::{Checkpoint, ParseLimits};
use anamnesis_candle::{Blocks, CheckpointBackend};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_nn::var_builder::{Shard, SimpleBackend};
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};

/// The bits of all logits of a prompt.
fn logits(weights: VarBuilder<'_>) -> Vec<u32> {
    let config: LlamaConfig = serde_json::from_str(&tiny::config()).unwrap();
    let (config, device) = (config.into_config(false), Device::Cpu);
    let mut cache = Cache::new(false, DType::F32, &config, &device).unwrap();
    let model = Llama::load(weights, &config).unwrap();
    let prompt = Tensor::new(&[[28u32, 3, 17, 9, 30, 1, 12, 5]], &device).unwrap();
    let logits = model.forward(&prompt, 0, &mut cache).unwrap();
    logits.flatten_all().unwrap().to_vec1::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

fn backend(path: &Path) -> CheckpointBackend {
    CheckpointBackend::open(path).unwrap()
}

#[test]
fn logits_are_those_of_plain_safetensors_for_every_format() {
    let directory = tempfile::tempdir().unwrap();
    let plain = tiny::write_plain(directory.path());
    let mut seen = Vec::new();
    for target in ["gptq-4bit", "awq-4bit", "fp8", "bnb-nf4", "w8a16", "mlx-4bit", "gguf", "q8_0", "q4_k_m"] {
        let model = tiny::quantise(&plain, target);
        let bytes = tiny::decoded(&model);
        let wanted = VarBuilder::from_buffered_safetensors(bytes, DType::F32, &Device::Cpu).unwrap();
        let wanted = logits(wanted);
        assert!(wanted.iter().all(|bits| f32::from_bits(*bits).is_finite()), "{target}");
        assert_eq!(logits(backend(&model).var_builder(DType::F32, &Device::Cpu)), wanted, "{target}");
        seen.push(wanted);
    }
    let unquantised = logits(backend(&plain).var_builder(DType::F32, &Device::Cpu));
    assert_eq!(seen[6], unquantised, "a GGUF file of BF16 has the values of its source");
    assert!(seen.iter().filter(|logits| **logits != unquantised).count() >= 7, "the others have lost precision");
}

#[test]
fn shares_of_ranks_make_up_the_whole() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny::quantise(&tiny::write_plain(directory.path()), "bnb-nf4");
    let (name, device) = ("model.layers.0.mlp.up_proj.weight", Device::Cpu);
    let whole = backend(&model).get_unchecked(name, DType::BF16, &device).unwrap();
    for dim in 0..2 {
        let weights = backend(&model).sharded().var_builder(DType::BF16, &device);
        let share = |rank| weights.get_with_hints((256, 256), name, Shard { dim, rank, world_size: 4 }).unwrap();
        let joined = Tensor::cat(&[share(0), share(1), share(2), share(3)], dim).unwrap();
        let bits =
            |tensor: &Tensor| tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(bits(&joined), bits(&whole), "dimension {dim}");
    }
    let uneven = Shard { dim: 0, rank: 0, world_size: 3 };
    assert!(
        backend(&model).sharded().var_builder(DType::BF16, &device).get_with_hints((256, 256), name, uneven).is_err()
    );
}

#[test]
fn tensors_of_other_shapes_and_names_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let plain = tiny::write_plain(directory.path());
    let weights = backend(&plain).var_builder(DType::F32, &Device::Cpu);
    assert!(weights.contains_tensor("model.norm.weight") && !weights.contains_tensor("model.norm"));
    assert!(weights.get(255, "model.norm.weight").unwrap_err().to_string().contains("model.norm.weight"));
    assert!(weights.get(256, "model.norm").unwrap_err().to_string().contains("model.norm"));
    assert_eq!(weights.get(256, "model.norm.weight").unwrap().dtype(), DType::F32);
    let other = backend(&plain).get_unchecked("model.norm.weight", DType::F64, &Device::Cpu).unwrap();
    assert_eq!(other.dtype(), DType::F64);
}

#[test]
fn blocks_are_kept_where_candle_has_their_type() {
    let directory = tempfile::tempdir().unwrap();
    let plain = tiny::write_plain(directory.path());
    let name = "blk.0.ffn_up.weight";
    for (target, is_kept) in [("q8_0", true), ("q4_k_m", true), ("iq4_nl", false)] {
        let checkpoint = Checkpoint::open(tiny::quantise(&plain, target), &ParseLimits::default()).unwrap();
        let values: Vec<f32> = checkpoint.decode(name).unwrap();
        let quantized = CheckpointBackend::new(checkpoint).quantized(name, &Device::Cpu).unwrap();
        assert_eq!(quantized.blocks == Blocks::Kept, is_kept, "{target}: {:?}", quantized.blocks);
        let found = quantized.tensor.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let largest = found.iter().zip(&values).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(largest <= if is_kept { 1e-6 } else { 2e-3 }, "{target}: {largest}");
    }
}
