//! Decodes a quantised model with anamnesis and loads the result into candle tensors.
//!
//! ```sh
//! cargo run --release -- model-fp8.safetensors
//! ```
//!
//! Without an argument, it decodes the tiny model of `amn demo`.

use std::error::Error;
use std::path::{Path, PathBuf};

use anamnesis::{Checkpoint, ParseLimits, RememberOptions, Selection, TargetDtype};
use candle_core::{DType, Device, Tensor};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/cli/src/demo/model-fp8.safetensors");

/// Number of values printed per tensor.
const SHOWN: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let input = std::env::args_os().nth(1).map_or_else(|| PathBuf::from(DEMO), PathBuf::from);
    for (name, tensor) in load(&input)? {
        println!("{name}: {:?} {:?}", tensor.dtype(), tensor.dims());
        let values = tensor.flatten_all()?.to_dtype(DType::F32)?;
        let shown = values.narrow(0, 0, values.elem_count().min(SHOWN))?.to_vec1::<f32>()?;
        println!("  {shown:?} ...");
    }
    Ok(())
}

/// Loads every tensor of a model, with quantised weights decoded to BF16. Nothing is written to disk.
fn load(input: &Path) -> Result<Vec<(String, Tensor)>, Box<dyn Error>> {
    let checkpoint = Checkpoint::open(input, &ParseLimits::default())?;
    let plan = checkpoint.plan_selected(TargetDtype::BF16, &Selection::new())?;
    let bytes = plan.to_bytes(&RememberOptions::new())?;
    let mut tensors: Vec<_> = candle_core::safetensors::load_buffer(&bytes, &Device::Cpu)?.into_iter().collect();
    tensors.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(tensors)
}
