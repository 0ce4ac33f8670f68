//! Decodes a quantised model with anamnesis and multiplies with its weights in candle.
//!
//! ```sh
//! cargo run --release -- model-fp8.safetensors
//! ```
//!
//! Without an argument it takes the tiny model that `amn demo` uses.

use std::error::Error;
use std::path::{Path, PathBuf};

use anamnesis::{Checkpoint, ParseLimits, RememberOptions, Selection, TargetDtype};
use candle_core::{D, DType, Device, Tensor};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/cli/src/demo/model-fp8.safetensors");

fn main() -> Result<(), Box<dyn Error>> {
    let input = std::env::args_os().nth(1).map_or_else(|| PathBuf::from(DEMO), PathBuf::from);
    for (name, tensor) in load(&input)? {
        println!("{name}: {:?} {:?}", tensor.dtype(), tensor.dims());
        if let [_, columns] = tensor.dims() {
            // What a linear layer makes of a vector of ones.
            let ones = Tensor::ones((1, *columns), DType::F32, &Device::Cpu)?;
            let output = ones.matmul(&tensor.to_dtype(DType::F32)?.t()?)?;
            println!("  times ones: mean {:.6}", output.mean(D::Minus1)?.squeeze(0)?.to_scalar::<f32>()?);
        }
    }
    Ok(())
}

/// Every tensor of a model, its quantised weights decoded to BF16. Nothing is written to disk.
fn load(input: &Path) -> Result<Vec<(String, Tensor)>, Box<dyn Error>> {
    let checkpoint = Checkpoint::open(input, &ParseLimits::default())?;
    let plan = checkpoint.plan_selected(TargetDtype::BF16, &Selection::new())?;
    let bytes = plan.to_bytes(&RememberOptions::new())?;
    let mut tensors: Vec<_> = candle_core::safetensors::load_buffer(&bytes, &Device::Cpu)?.into_iter().collect();
    tensors.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(tensors)
}
