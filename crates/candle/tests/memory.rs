//! Loading takes the memory of the model and of the tiles that are being decoded.

use std::path::Path;

use anamnesis::{Checkpoint, ConvertOptions, ConvertTarget, Dtype, MemoryTensor, MemoryTensors, OpenOptions};
use anamnesis_candle::CheckpointBackend;
use candle_core::{DType, Device, Tensor};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const SIDE: usize = 1024;
const WEIGHTS: usize = 4;

fn name(index: usize) -> String {
    format!("layers.{index}.weight")
}

/// Writes square weights as NF4.
fn write(path: &Path) {
    let weight = |index: usize| {
        let value = |place: usize| ((place * 7 + index) % 255) as f32 / 255.0 - 0.5;
        let data: Vec<u8> = (0..SIDE * SIDE).flat_map(|place| value(place).to_le_bytes()).collect();
        MemoryTensor { name: name(index), dtype: Dtype::F32, shape: vec![SIDE, SIDE], data }
    };
    let tensors = MemoryTensors::new((0..WEIGHTS).map(weight).collect(), &[].into()).unwrap();
    let checkpoint = Checkpoint::from_positioned(tensors, &OpenOptions::new()).unwrap();
    checkpoint.plan_convert(ConvertTarget::BnbNf4, &ConvertOptions::new()).unwrap().write(path, |_| {}).unwrap();
}

#[test]
fn a_model_takes_its_values_and_a_tile() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.safetensors");
    write(&path);
    for (dtype, each) in [(DType::F32, 4), (DType::BF16, 2)] {
        let profiler = dhat::Profiler::builder().testing().build();
        let weights = CheckpointBackend::open(&path).unwrap().var_builder(dtype, &Device::Cpu);
        let model: Vec<Tensor> = (0..WEIGHTS).map(|index| weights.get((SIDE, SIDE), &name(index)).unwrap()).collect();
        let (most, values) = (dhat::HeapStats::get().max_bytes, each * SIDE * SIDE * WEIGHTS);
        assert!(model.iter().all(|tensor| tensor.dtype() == dtype));
        println!("{dtype:?}: {most} bytes at most for {values} bytes of values");
        assert!((values..values + values / WEIGHTS / 2).contains(&most), "{dtype:?}: {most} bytes for {values}");
        drop(profiler);
    }
}
