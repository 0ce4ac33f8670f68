//! One file per verb.

mod demo;
mod inspect;
mod output_path;
mod parse;
mod remember;

use std::path::Path;

use anamnesis::{AnamnesisError, InspectInfo, ParsedModel, TensorRole};
use serde_json::{Value, json};

use crate::args::{Cli, Command};
use crate::exit::Failure;
use crate::ui::{Printer, json::texts};

/// Does what was typed.
pub(crate) fn run(cli: &Cli, printer: &Printer) -> Result<(), Failure> {
    match &cli.command {
        Command::Parse(args) => parse::run(args, printer),
        Command::Inspect(args) => inspect::run(args, printer),
        Command::Remember(args) => remember::run(args, printer),
        Command::Demo => demo::run(printer),
    }
}

/// Opens the input of every command.
fn open(path: &Path) -> Result<ParsedModel, Failure> {
    if path.to_string_lossy().starts_with("ollama:") && !path.exists() {
        return Err(Failure::from(AnamnesisError::Unsupported {
            format: "ollama:".to_owned(),
            detail: "names of Ollama models are not resolved yet, pass the path of the file".to_owned(),
        }));
    }
    anamnesis::parse(path).map_err(|error| match error {
        // Files of other kinds begin with something that reads as an enormous header.
        AnamnesisError::LimitExceeded { limit: "MAX_SAFETENSORS_HEADER_BYTES", .. } => {
            let advice = format!("{} does not look like a safetensors file", path.display());
            Failure::Refused { error, advice: Some(advice) }
        }
        error => error.into(),
    })
}

/// A role by the word that both people and programs read.
fn role_name(role: TensorRole) -> &'static str {
    match role {
        TensorRole::Quantized => "quantized",
        TensorRole::Scale => "scale",
        TensorRole::Passthrough => "passthrough",
        TensorRole::ZeroPoint => "zero_point",
        TensorRole::GroupIndex => "group_index",
        TensorRole::QuantMap => "quant_map",
        TensorRole::NestedScale => "nested_scale",
        TensorRole::QuantState => "quant_state",
        _ => "other",
    }
}

/// What `parse` and `inspect` both tell programs.
fn counts(path: &Path, info: &InspectInfo) -> Value {
    json!({
        "path": path.to_string_lossy(),
        "scheme": info.format.to_string(),
        "tensor_count": info.tensor_count,
        "quantized": info.quantized,
        "scales": info.scales,
        "scale_dtypes": texts(&info.scale_dtypes),
        "zero_points": info.zeropoints,
        "group_indices": info.group_indices,
        "quant_maps": info.quant_maps,
        "nested_scales": info.nested_scales,
        "passthrough": info.passthrough,
        "passthrough_dtypes": texts(&info.passthrough_dtypes),
        "bytes": info.current_size,
    })
}
