//! A module of burn computes the same from this store as from plain safetensors.

#[path = "../../candle/tests/tiny/mod.rs"]
mod tiny;

// The derived code names the crate `burn`.
use burn_core as burn;

use std::path::Path;

use anamnesis_burn::{CheckpointStore, StoreError};
use burn_core::module::{Module, Param};
use burn_core::tensor::activation::{silu, softmax};
use burn_core::tensor::{Device, Int, Tensor};
use burn_nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn_store::{ModuleSnapshot, ModuleStore, PyTorchToBurnAdapter, SafetensorsStore};

#[derive(Module, Debug)]
struct Llama {
    model: Decoder,
    lm_head: Linear,
}

#[derive(Module, Debug)]
struct Decoder {
    embed_tokens: Embedding,
    layers: Vec<Layer>,
    norm: Norm,
}

#[derive(Module, Debug)]
struct Layer {
    self_attn: Attention,
    mlp: FeedForward,
    input_layernorm: Norm,
    post_attention_layernorm: Norm,
}

#[derive(Module, Debug)]
struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
}

#[derive(Module, Debug)]
struct FeedForward {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
}

impl Norm {
    fn new(device: &Device) -> Self {
        Self { weight: Param::from_tensor(Tensor::ones([256], device)) }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let mean = (x.clone() * x.clone()).mean_dim(2);
        x / (mean + 1e-5).sqrt() * self.weight.val().reshape([1, 1, 256])
    }
}

impl Llama {
    fn new(device: &Device) -> Self {
        let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).with_bias(false).init(device);
        let layer = Layer {
            self_attn: Attention {
                q_proj: linear(256, 256),
                k_proj: linear(256, 128),
                v_proj: linear(256, 128),
                o_proj: linear(256, 256),
            },
            mlp: FeedForward { gate_proj: linear(256, 256), up_proj: linear(256, 256), down_proj: linear(256, 256) },
            input_layernorm: Norm::new(device),
            post_attention_layernorm: Norm::new(device),
        };
        let embed_tokens = EmbeddingConfig::new(32, 256).init(device);
        let model = Decoder { embed_tokens, layers: vec![layer], norm: Norm::new(device) };
        Self { model, lm_head: linear(256, 32) }
    }

    /// The bits of all logits; every position sees all others, as one head, without rotation.
    fn logits(&self, device: &Device) -> Vec<u32> {
        let tokens = Tensor::<2, Int>::from_data([[28, 3, 17, 9, 30, 1, 12, 5]], device);
        let mut x = self.model.embed_tokens.forward(tokens);
        for Layer { self_attn, mlp, input_layernorm, post_attention_layernorm } in &self.model.layers {
            let y = input_layernorm.forward(x.clone());
            let twice = |half: Tensor<3>| Tensor::cat(vec![half.clone(), half], 2);
            let (keys, values) = (self_attn.k_proj.forward(y.clone()), self_attn.v_proj.forward(y.clone()));
            let scores = self_attn.q_proj.forward(y).matmul(twice(keys).transpose()) / 16.0;
            x = x + self_attn.o_proj.forward(softmax(scores, 2).matmul(twice(values)));
            let y = post_attention_layernorm.forward(x.clone());
            let gated = silu(mlp.gate_proj.forward(y.clone())) * mlp.up_proj.forward(y);
            x = x + mlp.down_proj.forward(gated);
        }
        let logits = self.lm_head.forward(self.model.norm.forward(x)).into_data();
        logits.try_to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
    }
}

/// The logits of a model that a store loads.
fn logits<S: ModuleStore>(store: &mut S) -> Vec<u32> {
    let device = Device::default();
    let mut model = Llama::new(&device);
    let result = model.load_from(store).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((result.applied.len(), result.missing.len(), result.errors.len()), (12, 0, 0), "{result:?}");
    model.logits(&device)
}

fn plain(model: &Path) -> Vec<u32> {
    let path = model.with_extension("decoded.safetensors");
    std::fs::write(&path, tiny::decoded(model)).unwrap();
    logits(&mut SafetensorsStore::from_file(path).with_from_adapter(PyTorchToBurnAdapter))
}

#[test]
fn logits_are_those_of_plain_safetensors_for_every_format() {
    let directory = tempfile::tempdir().unwrap();
    let source = tiny::write_plain(directory.path());
    let mut seen = Vec::new();
    for target in ["gptq-4bit", "awq-4bit", "fp8", "bnb-nf4", "w8a16", "mlx-4bit", "gguf", "q8_0"] {
        let model = tiny::quantise(&source, target);
        let found = logits(&mut CheckpointStore::open(&model).unwrap());
        assert!(found.iter().all(|bits| f32::from_bits(*bits).is_finite()), "{target}");
        assert_eq!(found, plain(&model), "{target}");
        seen.push(found);
    }
    let unquantised = logits(&mut CheckpointStore::open(&source).unwrap());
    assert_eq!(seen[6], unquantised, "a GGUF file of BF16 has the values of its source");
    assert!(seen.iter().filter(|logits| **logits != unquantised).count() >= 6, "the others have lost precision");
}

#[test]
fn tensors_are_lazy_and_stores_are_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny::quantise(&tiny::write_plain(directory.path()), "bnb-nf4");
    let mut store = CheckpointStore::open(model).unwrap();
    assert_eq!(store.keys().unwrap().len(), 12);
    let tensor = store.get_tensor("model.layers.0.mlp.up_proj.weight").unwrap().unwrap();
    assert_eq!((tensor.byte_len(), tensor.to_bytes().unwrap().len()), (4 * 256 * 256, 4 * 256 * 256));
    assert!(store.get_tensor("model").unwrap().is_none());
    let device = Device::default();
    assert!(matches!(store.collect_from(&Llama::new(&device)), Err(StoreError::ReadOnly)));
    let mut other = LinearConfig::new(3, 5).init(&device);
    assert!(matches!(other.load_from(&mut store), Err(StoreError::Apply(_))));
}
