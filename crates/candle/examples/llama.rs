//! Continues a prompt with the Llama models given, of any format, and with the plain safetensors that the library decodes
//! each of them to: `cargo run --example llama -- MODEL...`, without arguments a tiny model in six formats.

#[path = "../tests/tiny/mod.rs"]
mod tiny;

use std::error::Error;
use std::path::{Path, PathBuf};

use anamnesis_candle::CheckpointBackend;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let mut models: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if models.is_empty() {
        let plain = tiny::write_plain(directory.path());
        models.push(plain.clone());
        models.extend(["gptq-4bit", "awq-4bit", "fp8", "bnb-nf4", "q8_0"].map(|target| tiny::quantise(&plain, target)));
    }
    for model in models {
        let backend = CheckpointBackend::open(&model)?;
        let config = match backend.tensors().config() {
            Some(config) => config.to_owned(),
            None => std::fs::read_to_string(model.join("config.json"))?,
        };
        let found = tokens(backend.var_builder(DType::F32, &Device::Cpu), &config)?;
        let bytes = tiny::decoded(&model);
        let plain = tokens(VarBuilder::from_buffered_safetensors(bytes, DType::F32, &Device::Cpu)?, &config)?;
        println!("{:12} {found:?}", name(&model));
        println!("{:12} {plain:?}", "  decoded");
        if found != plain {
            return Err("the tokens differ".into());
        }
    }
    Ok(())
}

fn name(model: &Path) -> String {
    model.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The eight tokens that follow the first.
fn tokens(weights: VarBuilder<'_>, config: &str) -> Result<Vec<u32>, Box<dyn Error>> {
    let config: LlamaConfig = serde_json::from_str(config)?;
    let config = config.into_config(false);
    let mut cache = Cache::new(true, DType::F32, &config, &Device::Cpu)?;
    let model = Llama::load(weights, &config)?;
    let mut tokens = vec![config.bos_token_id.unwrap_or(1)];
    for position in 0..8 {
        let input = Tensor::new(&tokens[position..], &Device::Cpu)?.unsqueeze(0)?;
        let logits = model.forward(&input, position, &mut cache)?.flatten_all()?.to_vec1::<f32>()?;
        let best = logits.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
        tokens.push(best.map_or(0, |(token, _)| token as u32));
    }
    Ok(tokens.split_off(1))
}
