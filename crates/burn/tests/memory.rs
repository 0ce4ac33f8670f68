//! Loading takes the memory of the model and of the tile that is being transposed.

use std::path::Path;

use anamnesis::{Checkpoint, ConvertOptions, ConvertTarget, Dtype, MemoryTensor, MemoryTensors, OpenOptions};
use anamnesis_burn::CheckpointStore;
use burn_core as burn;
use burn_core::module::Module;
use burn_core::tensor::Device;
use burn_nn::{Linear, LinearConfig};
use burn_store::{ModuleSnapshot, PyTorchToBurnAdapter};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const ROWS: usize = 1024;
// The last tile has fewer rows than the others.
const COLUMNS: usize = 1088;
const WEIGHTS: usize = 4;

fn name(index: usize) -> String {
    format!("layers.{index}.weight")
}

/// Writes weights as NF4.
fn write(path: &Path) {
    let weight = |index: usize| {
        let value = |place: usize| ((place * 7 + index) % 255) as f32 / 255.0 - 0.5;
        let data: Vec<u8> = (0..ROWS * COLUMNS).flat_map(|place| value(place).to_le_bytes()).collect();
        MemoryTensor { name: name(index), dtype: Dtype::F32, shape: vec![ROWS, COLUMNS], data }
    };
    let tensors = MemoryTensors::new((0..WEIGHTS).map(weight).collect(), &[].into()).unwrap();
    let checkpoint = Checkpoint::from_positioned(tensors, &OpenOptions::new()).unwrap();
    checkpoint.plan_convert(ConvertTarget::BnbNf4, &ConvertOptions::new()).unwrap().write(path, |_| {}).unwrap();
}

#[derive(Module, Debug)]
struct Layers {
    layers: Vec<Linear>,
}

/// A model with the values of a store.
fn loaded(mut store: CheckpointStore) -> Layers {
    let device = Device::default();
    let layer = |_| LinearConfig::new(COLUMNS, ROWS).with_bias(false).init(&device);
    let mut model = Layers { layers: (0..WEIGHTS).map(layer).collect() };
    let result = model.load_from(&mut store).unwrap();
    assert_eq!((result.applied.len(), result.missing.len()), (WEIGHTS, 0), "{result:?}");
    model
}

#[test]
fn a_model_takes_its_values_and_a_tile() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.safetensors");
    write(&path);
    let profiler = dhat::Profiler::builder().testing().build();
    let model = loaded(CheckpointStore::open(&path).unwrap());
    let (most, values) = (dhat::HeapStats::get().max_bytes, 4 * ROWS * COLUMNS * WEIGHTS);
    println!("{most} bytes at most for {values} bytes of values");
    assert!((values..values + values / WEIGHTS / 2).contains(&most), "{most} bytes for {values}");
    drop(profiler);
    let other = loaded(CheckpointStore::open(&path).unwrap().with_adapter(PyTorchToBurnAdapter));
    for (layer, other) in model.layers.iter().zip(&other.layers) {
        assert!(layer.weight.val().into_data().as_bytes() == other.weight.val().into_data().as_bytes());
    }
}
