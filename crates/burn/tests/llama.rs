//! A module of burn computes the same from this store as from plain safetensors.

#[path = "../examples/llama/model.rs"]
mod model;
mod tiny;

use std::path::Path;

use anamnesis_burn::{CheckpointStore, StoreError};
use burn_core::tensor::Device;
use burn_nn::LinearConfig;
use burn_store::{ModuleSnapshot, ModuleStore, PyTorchToBurnAdapter, SafetensorsStore};
use model::{Config, Llama};

/// The logits of a model that a store loads, and the tokens with which it continues a text.
fn computed<S: ModuleStore>(store: &mut S) -> (Vec<u32>, Vec<usize>) {
    let device = Device::default();
    let mut model = Llama::new(&tiny_config(), &device);
    let result = model.load_from(store).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((result.applied.len(), result.missing.len(), result.errors.len()), (12, 0, 0), "{result:?}");
    let logits = model.forward(&[28, 3, 17, 9, 30, 1, 12, 5], &device);
    (logits.into_iter().map(f32::to_bits).collect(), model.continued(4, &device))
}

fn tiny_config() -> Config {
    Config::parse(&tiny::config()).unwrap()
}

fn plain(model: &Path) -> (Vec<u32>, Vec<usize>) {
    let path = model.with_extension("decoded.safetensors");
    std::fs::write(&path, tiny::decoded(model)).unwrap();
    computed(&mut SafetensorsStore::from_file(path).with_from_adapter(PyTorchToBurnAdapter))
}

#[test]
fn logits_are_those_of_plain_safetensors_for_every_format() {
    let directory = tempfile::tempdir().unwrap();
    let source = tiny::write_plain(directory.path());
    let mut seen = Vec::new();
    for target in ["gptq-4bit", "awq-4bit", "fp8", "bnb-nf4", "w8a16", "mlx-4bit", "gguf", "q8_0"] {
        let model = tiny::quantise(&source, target);
        let found = computed(&mut CheckpointStore::open(&model).unwrap());
        assert!(found.0.iter().all(|bits| f32::from_bits(*bits).is_finite()), "{target}");
        assert_eq!(found, plain(&model), "{target}");
        seen.push(found);
    }
    let unquantised = computed(&mut CheckpointStore::open(&source).unwrap());
    assert_eq!(seen[6], unquantised, "a GGUF file of BF16 has the values of its source");
    assert!(seen.iter().filter(|found| found.0 != unquantised.0).count() >= 6, "the others have lost precision");
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
    assert!(matches!(store.collect_from(&Llama::new(&tiny_config(), &device)), Err(StoreError::ReadOnly)));
    let mut other = LinearConfig::new(3, 5).init(&device);
    assert!(matches!(other.load_from(&mut store), Err(StoreError::Apply(_))));
}
