//! The `quantization_config` that compressed-tensors writes for quantised weights.

use serde_json::{Map, Value, json};

use super::METHOD;
use super::preset::{Codes, Preset};
use super::spec::Strategy;
use crate::scheme::quantise::QuantisedModel;

/// The version of compressed-tensors whose arithmetic and packing is followed.
const VERSION: &str = "0.20.0";

/// The `format` of a model whose groups have different formats.
const MIXED: &str = "mixed-precision";

/// The `quantization_config` of a model: a group for the class `Linear`, and one for each other preset that lists its
/// modules by name. A name takes precedence over a class.
pub(super) fn quantization_config(
    preset: &Preset,
    others: &[(&Preset, Vec<&str>)],
    model: &QuantisedModel<'_>,
) -> Value {
    let mut groups = Map::new();
    let mut add = |preset: &Preset, targets: &[&str]| {
        let name = format!("group_{}", groups.len());
        groups.insert(name, group(preset, targets, model));
    };
    if others.is_empty() || model.modules_of_main_encoding().next().is_some() {
        add(preset, &["Linear"]);
    }
    for (other, modules) in others {
        add(other, modules);
    }
    let mut formats = groups.values().map(|group| &group["format"]);
    let first = formats.next().cloned().unwrap_or_default();
    let format = if formats.all(|format| *format == first) { first } else { json!(MIXED) };
    json!({
        "config_groups": groups,
        "format": format,
        "global_compression_ratio": null,
        "ignore": model.kept_modules(),
        "kv_cache_scheme": null,
        "quant_method": METHOD,
        "quantization_status": "compressed",
        "version": VERSION,
    })
}

fn group(preset: &Preset, targets: &[&str], model: &QuantisedModel<'_>) -> Value {
    // An impossible strategy was refused while planning.
    let strategy = preset.strategy(model.options).unwrap_or(preset.strategy);
    json!({
        "format": format(preset.codes),
        "input_activations": activations(preset, strategy),
        "output_activations": null,
        "targets": targets,
        "weights": weights(preset, strategy),
    })
}

const fn format(codes: Codes) -> &'static str {
    match codes {
        Codes::Float => "float-quantized",
        Codes::Int8 => "int-quantized",
        Codes::Packed { .. } => "pack-quantized",
        Codes::Mxfp4 => "mxfp4-pack-quantized",
        Codes::Mxfp8 => "mxfp8-quantized",
        Codes::Nvfp4 => "nvfp4-pack-quantized",
    }
}

fn weights(preset: &Preset, strategy: Strategy) -> Value {
    let (bits, kind, symmetric, scale) = match preset.codes {
        Codes::Float => (8, "float", true, None),
        Codes::Int8 => (8, "int", true, None),
        Codes::Packed { bits, symmetric } => (bits, "int", symmetric, None),
        Codes::Mxfp4 => (4, "float", true, Some("torch.uint8")),
        Codes::Mxfp8 => (8, "float", true, Some("torch.uint8")),
        Codes::Nvfp4 => (4, "float", true, Some("torch.float8_e4m3fn")),
    };
    let (name, group) = match strategy {
        Strategy::Tensor => ("tensor", None),
        Strategy::Channel => ("channel", None),
        Strategy::Group(values) if preset.codes == Codes::Nvfp4 => ("tensor_group", Some(values)),
        Strategy::Group(values) => ("group", Some(values)),
        Strategy::Block(..) => ("block", None),
    };
    let mut weights = json!({
        "dynamic": false,
        "group_size": group,
        "num_bits": bits,
        "strategy": name,
        "symmetric": symmetric,
        "type": kind,
    });
    if let Strategy::Block(rows, cols) = strategy {
        weights["block_structure"] = json!([rows, cols]);
    }
    if let Some(scale) = scale {
        weights["scale_dtype"] = json!(scale);
    }
    weights
}

/// How activations are quantised at run time.
fn activations(preset: &Preset, strategy: Strategy) -> Value {
    if !preset.activations {
        return Value::Null;
    }
    let (name, group) = match strategy {
        Strategy::Block(_, cols) => ("group", Some(cols)),
        _ => ("token", None),
    };
    json!({
        "dynamic": true,
        "group_size": group,
        "num_bits": 8,
        "strategy": name,
        "symmetric": true,
        "type": if preset.codes == Codes::Int8 { "int" } else { "float" },
    })
}
