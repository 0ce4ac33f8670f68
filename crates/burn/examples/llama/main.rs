//! Continues a prompt with the Llama models given, of any format, and with the plain safetensors that the library decodes
//! each of them to: `cargo run --example llama -- MODEL...`, without arguments a tiny model in six formats.

mod model;
#[path = "../../tests/tiny/mod.rs"]
mod tiny;

use std::error::Error;
use std::path::PathBuf;

use anamnesis_burn::CheckpointStore;
use burn_core::tensor::Device;
use burn_store::{ModuleSnapshot, ModuleStore, PyTorchToBurnAdapter, SafetensorsStore};
use model::{Config, Llama};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let mut models: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if models.is_empty() {
        let plain = tiny::write_plain(directory.path());
        models.push(plain.clone());
        models.extend(["gptq-4bit", "awq-4bit", "fp8", "bnb-nf4", "q8_0"].map(|target| tiny::quantise(&plain, target)));
    }
    for model in models {
        let mut store = CheckpointStore::open(&model)?;
        let text = match store.config() {
            Some(config) => config.to_owned(),
            None => std::fs::read_to_string(model.join("config.json"))?,
        };
        let config = Config::parse(&text).ok_or("not a configuration of a Llama")?;
        let found = tokens(&mut store, &config)?;
        let bytes = SafetensorsStore::from_bytes(Some(tiny::decoded(&model)));
        let plain = tokens(&mut bytes.with_from_adapter(PyTorchToBurnAdapter), &config)?;
        println!("{:12} {found:?}", model.file_name().unwrap_or_default().to_string_lossy());
        println!("{:12} {plain:?}", "  decoded");
        if found != plain {
            return Err("the tokens differ".into());
        }
    }
    Ok(())
}

/// The eight tokens that follow the first.
fn tokens<S: ModuleStore>(store: &mut S, config: &Config) -> Result<Vec<usize>, Box<dyn Error>> {
    let device = Device::default();
    let mut model = Llama::new(config, &device);
    model.load_from(store).map_err(|error| error.to_string())?;
    Ok(model.continued(8, &device))
}
