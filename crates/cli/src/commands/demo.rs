//! `demo`: runs other commands on a tiny model and checks every decoded value.

use std::path::Path;

use anamnesis::error::printable;
use anamnesis::{AnamnesisError, CpuLevel};
use clap::Parser;
use serde_json::json;

use crate::args::Cli;
use crate::exit::Failure;
use crate::ui::Printer;

/// All 256 FP8 codes, twice, with two scales.
const MODEL: &[u8] = include_bytes!("../demo/model-fp8.safetensors");
const CONFIG: &[u8] = include_bytes!("../demo/config.json");
/// The same weights decoded by transformers; the suffix `.f32` of a name is the type.
const EXPECTED: &[u8] = include_bytes!("../demo/expected.safetensors");
const EXPECTED_ENDING: &str = ".f32";
const F32_BYTES: usize = 4;

const STEPS: [&str; 3] = [
    "amn parse model-fp8.safetensors --list",
    "amn inspect model-fp8.safetensors --to f32",
    "amn remember model-fp8.safetensors --to f32",
];
const OUTPUT: &str = "model-f32.safetensors";

pub(super) fn run(cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    let folder = tempfile::Builder::new().prefix("amn-demo-").tempdir().map_err(AnamnesisError::Io)?.keep();
    let written = [("model-fp8.safetensors", MODEL), ("config.json", CONFIG)];
    for (name, content) in written {
        std::fs::write(folder.join(name), content).map_err(AnamnesisError::Io)?;
    }
    // The steps below use relative paths, as a user would type them.
    std::env::set_current_dir(&folder).map_err(AnamnesisError::Io)?;
    let place = printable(&folder.to_string_lossy(), 4096);
    printer.text(format_args!("A tiny FP8 model, in a fresh folder:\n\n$ cd {place}"))?;
    let silent = Printer::silent();
    for step in STEPS {
        printer.text(format_args!("\n$ {step}"))?;
        // Steps are constants that parse; an error is printed all the same.
        let cli = Cli::try_parse_from(step.split(' '))
            .map_err(|error| AnamnesisError::Io(std::io::Error::other(error.to_string())))?;
        super::run_command(&cli.command, Some(cpu), if printer.is_json() { &silent } else { printer })?;
    }
    let (matching, values) = compare(Path::new(OUTPUT))?;
    if matching != values || values == 0 {
        return Err(Failure::Mismatch { matching, values });
    }
    printer.text(format_args!(
        "\n{matching} of {values} values match what Hugging Face transformers computes, bit for bit.\n\n\
         The folder stays, to try more in it:\n  \
         amn remember {place}/model-fp8.safetensors --dry-run\n  \
         amn inspect YOUR-MODEL.safetensors"
    ))?;
    printer.document("demo", json!({ "folder": folder.to_string_lossy(), "matching": matching, "values": values }))
}

/// The number of output values that match bit for bit, and the total.
fn compare(output: &Path) -> Result<(usize, usize), Failure> {
    let expected = anamnesis::parse_bytes(EXPECTED.to_vec())?;
    let output = anamnesis::parse(output)?;
    let (mut matching, mut values) = (0, 0);
    for tensor in &expected.header.tensors {
        let Some(name) = tensor.name.strip_suffix(EXPECTED_ENDING) else { continue };
        let wanted = expected.checkpoint().tensor_data(&tensor.name)?.unwrap_or_default();
        let found = output.checkpoint().tensor_data(name)?.unwrap_or_default();
        values += wanted.len() / F32_BYTES;
        let pairs = wanted.chunks_exact(F32_BYTES).zip(found.chunks_exact(F32_BYTES));
        matching += pairs.filter(|(wanted, found)| wanted == found).count();
    }
    Ok((matching, values))
}
