//! Models with layers other than `Linear`, compared with transformers and bitsandbytes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::{Contents, Folder, Model, assert_mentions, difference, fixture};
use anamnesis::{
    AnamnesisError, Checkpoint, ConvertOptions, ConvertTarget, DirectoryOptions, ParseLimits, TargetDtype,
};
use serde_json::{Value, json};

/// Models, their quantisation in transformers, and the layers that their classes exclude.
const MODELS: [(&str, &str, &[&str]); 4] = [
    ("gpt2", "nf4", &["lm_head"]),
    ("gpt2", "int8", &["lm_head"]),
    (
        "t5",
        "nf4",
        &["decoder.block.0.layer.2.DenseReluDense.wo", "encoder.block.0.layer.1.DenseReluDense.wo", "lm_head"],
    ),
    ("clip", "nf4", &["text_projection", "lm_head"]),
];

fn model(path: &str) -> PathBuf {
    fixture(&format!("bnb_models/{path}"))
}

fn plan_as(input: &Path, to: &str, options: &ConvertOptions) -> anamnesis::Result<anamnesis::DirectoryPlan> {
    let checkpoint = Checkpoint::open(input, &ParseLimits::default()).unwrap();
    checkpoint.plan_convert_directory(ConvertTarget::parse(to).unwrap(), options, &DirectoryOptions::new())
}

/// Converts a directory.
fn convert(input: &Path, to: &str, output: &Path) {
    let options = ConvertOptions::new();
    let plan = plan_as(input, to, &options).unwrap_or_else(|error| panic!("{to}: {error}"));
    plan.write(output, &options.run, |_| {}).unwrap();
}

fn configuration(directory: &Path) -> Value {
    let config: Value = serde_json::from_slice(&std::fs::read(directory.join("config.json")).unwrap()).unwrap();
    config["quantization_config"].clone()
}

fn contents(directory: &Path) -> Contents {
    Contents::read(directory.join("model.safetensors"))
}

#[test]
fn the_layers_and_layouts_are_those_of_transformers() {
    let folder = Folder::new();
    for (name, kind, kept) in MODELS {
        let output = folder.path(&format!("{name}-{kind}"));
        convert(&model(&format!("{name}/source")), &format!("bnb-{kind}"), &output);
        let (made, wanted) = (contents(&output), contents(&model(&format!("{name}/{kind}"))));
        let names = |contents: &Contents| contents.names().iter().map(|name| (*name).to_owned()).collect();
        let (made_names, wanted_names): (BTreeSet<String>, BTreeSet<String>) = (names(&made), names(&wanted));
        assert_eq!(made_names, wanted_names, "{name} {kind}");
        for (tensor, wanted) in &wanted.tensors {
            // A JSON text whose members are in another order.
            if tensor.contains("quant_state") {
                continue;
            }
            // Layers that classes keep in F32 are stored in their original type here, and as F32 there.
            if wanted.dtype == "F32" && made.tensors[tensor].dtype == "BF16" {
                assert!(tensor.ends_with("wo.weight"), "{name} {kind} {tensor}");
                continue;
            }
            assert_eq!(difference(wanted, &made.tensors[tensor]), None, "{name} {kind} {tensor}");
        }
        assert_eq!(configuration(&output)["llm_int8_skip_modules"], json!(kept), "{name} {kind}");
    }
}

#[test]
fn weights_quantised_by_transformers_decode_to_the_layout_of_the_class() {
    let folder = Folder::new();
    for (name, kind, _) in MODELS {
        let source = contents(&model(&format!("{name}/source")));
        let input = model(&format!("{name}/{kind}"));
        let output = folder.path(&format!("{name}-{kind}"));
        let checkpoint = Checkpoint::open(&input, &ParseLimits::default()).unwrap();
        let plan = checkpoint.plan_directory(TargetDtype::BF16, &DirectoryOptions::new()).unwrap();
        plan.write(&output, &ConvertOptions::new().run, |_| {}).unwrap();
        let decoded = contents(&output);
        let wanted = Contents::read(input.join("decoded.safetensors.expected"));
        assert!(wanted.tensors.len() > 3);
        for (tensor, wanted) in &wanted.tensors {
            assert_eq!(difference(wanted, &decoded.tensors[tensor]), None, "{name} {kind} {tensor}");
        }
        for (tensor, was) in &source.tensors {
            assert_eq!(decoded.tensors[tensor].shape, was.shape, "{name} {kind} {tensor}");
        }
    }
}

#[test]
fn transposed_layers_round_trip_through_gptq() {
    let (folder, source) = (Folder::new(), model("gpt2/source"));
    let options = ConvertOptions::new();
    let grouped = {
        let mut options = ConvertOptions::new();
        options.quantise.groups.size = Some(anamnesis::GroupSize::Values(32));
        options
    };
    let quantised = folder.path("gptq");
    plan_as(&source, "gptq-8bit-asym", &grouped).unwrap().write(&quantised, &options.run, |_| {}).unwrap();
    let attention = &contents(&quantised).tensors["transformer.h.0.attn.c_attn.qweight"];
    // Words of four codes along the inputs, by outputs.
    assert_eq!(attention.shape, [64 / 4, 192]);
    let plain = folder.path("plain");
    let checkpoint = Checkpoint::open(&quantised, &ParseLimits::default()).unwrap();
    let plan = checkpoint.plan_directory(TargetDtype::F32, &DirectoryOptions::new()).unwrap();
    plan.write(&plain, &options.run, |_| {}).unwrap();
    let (decoded, source) = (contents(&plain), contents(&source));
    for name in ["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"] {
        let name = format!("transformer.h.0.{name}.weight");
        assert_eq!(decoded.tensors[&name].shape, source.tensors[&name].shape, "{name}");
        let was = source.tensors[&name].data.chunks_exact(2);
        let was = was.map(|bytes| f32::from_bits(u32::from(u16::from_le_bytes([bytes[0], bytes[1]])) << 16));
        let farthest = was.zip(decoded.floats(&name)).map(|(was, is)| (was - is).abs()).fold(0.0, f32::max);
        assert!(farthest < 0.01, "{name}: {farthest}");
    }
}

#[test]
fn targets_for_linear_layers_only_quantise_nothing_in_gpt2() {
    for to in ["w4a16", "fp8-channel", "awq-4bit", "quanto-int8", "hqq-4bit"] {
        let plan = plan_as(&model("gpt2/source"), to, &ConvertOptions::new()).unwrap();
        assert_eq!(plan.stats().quantized, 0, "{to}");
        let transposed = plan.kept().iter().filter(|(_, why)| why.reason().contains("Conv1D")).count();
        assert_eq!(transposed, 4, "{to}");
    }
}

#[test]
fn a_layer_whose_weight_is_used_directly_is_not_quantised_and_listed() {
    let matrix = [0.5; 128 * 128];
    let model = Model::new()
        .floats("head.attention.in_proj_weight", &[384, 128], &[0.5; 384 * 128])
        .floats("head.attention.out_proj.weight", &[128, 128], &matrix)
        .floats("layers.0.attention.out_proj.weight", &[128, 128], &matrix);
    for (to, list) in
        [("w4a16", "ignore"), ("bnb-nf4", "llm_int8_skip_modules"), ("awq-4bit", "modules_to_not_convert")]
    {
        let folder = Folder::staged(&model.bytes(), Some(&json!({ "model_type": "siglip_vision_model" })));
        let output = folder.path("out");
        convert(folder.model().parent().unwrap(), to, &output);
        let left = configuration(&output)[list].clone();
        assert_eq!(left, json!(["head.attention.out_proj", "lm_head"]), "{to}");
    }
}

#[test]
fn a_layer_whose_weight_is_read_without_a_call_is_kept_and_listed() {
    let matrix = [0.5; 128 * 128];
    let model = Model::new().floats("backbone.layers.0.mixer.dt_proj.weight", &[128, 128], &matrix).floats(
        "backbone.layers.0.mixer.in_proj.weight",
        &[128, 128],
        &matrix,
    );
    for (to, list) in
        [("w4a16", "ignore"), ("bnb-int8", "llm_int8_skip_modules"), ("awq-4bit", "modules_to_not_convert")]
    {
        let folder = Folder::staged(&model.bytes(), Some(&json!({ "model_type": "mamba" })));
        let output = folder.path("out");
        convert(folder.model().parent().unwrap(), to, &output);
        let left = configuration(&output)[list].clone();
        assert_eq!(left, json!(["backbone.layers.0.mixer.dt_proj", "lm_head"]), "{to}");
    }
}

#[test]
fn a_directory_of_experts_names_the_loaders_that_do_not_read_them() {
    let experts = Model::new().floats("model.layers.0.mlp.experts.0.up_proj.weight", &[128, 128], &[0.5; 128 * 128]);
    let layers = Model::new().floats("model.layers.0.mlp.up_proj.weight", &[128, 128], &[0.5; 128 * 128]);
    for (to, is_read) in [("w4a16", true), ("w4a16-asym", false), ("w8a8", false), ("awq-4bit", false)] {
        for (model, is_read) in [(&experts, is_read), (&layers, true)] {
            let folder = Folder::staged(&model.bytes(), Some(&json!({ "model_type": "qwen3_moe" })));
            let plan = plan_as(folder.model().parent().unwrap(), to, &ConvertOptions::new());
            let Ok(plan) = plan else { panic!("{to}: {}", plan.err().unwrap()) };
            let notes: Vec<_> = plan.notes().iter().map(ToString::to_string).collect();
            let note = notes.iter().find(|note| note.starts_with("loaded by ")).unwrap();
            assert_eq!(!note.contains("not by transformers"), is_read, "{to}: {note}");
        }
    }
}

#[test]
fn selecting_a_layer_that_its_loader_does_not_replace_is_an_error() {
    let wish = ConvertOptions::new().with_quantized("*.wo.weight").unwrap();
    let error = plan_as(&model("t5/source"), "bnb-nf4", &wish).err().unwrap();
    assert!(matches!(error, AnamnesisError::Request(_)), "{error:?}");
    assert_mentions(&error.to_string(), &["wo.weight", "F32"]);
}

#[test]
fn a_directory_names_its_loader_and_stops_other_libraries() {
    let folder = Folder::new();
    for to in ["quanto-int8", "quanto-float8", "hqq-4bit"] {
        let output = folder.path(to);
        let plan = plan_as(&model("clip/source"), to, &ConvertOptions::new());
        let options = ConvertOptions::new();
        let Ok(plan) = plan else { panic!("{to}: {}", plan.err().unwrap()) };
        assert!(plan.notes().iter().any(|note| note.to_string().starts_with("loaded by ")), "{to}: {:?}", plan.notes());
        plan.write(&output, &options.run, |_| {}).unwrap();
        // transformers 5 knows these methods and does not read their tensors: `int8` and `skip_modules` would make it go on.
        let config = configuration(&output);
        assert!(!["int8", "float8", "int4", "int2"].contains(&config["weights"].as_str().unwrap_or("")), "{config}");
        assert_eq!(config.get("skip_modules"), None, "{config}");
    }
}

#[test]
fn a_type_that_the_loader_cannot_run_is_refused() {
    let folder = Folder::new();
    let source = folder.path("f32");
    let checkpoint = Checkpoint::open(model("t5/source"), &ParseLimits::default()).unwrap();
    let options = ConvertOptions::new().with_output_dtype(TargetDtype::F32.dtype()).with_cast(anamnesis::Cast::All);
    let plan = checkpoint.plan_convert_directory(ConvertTarget::Safetensors, &options, &DirectoryOptions::new());
    plan.unwrap().write(&source, &options.run, |_| {}).unwrap();
    for to in ["nvfp4", "mxfp4", "mxfp8"] {
        let error = plan_as(&source, to, &ConvertOptions::new()).err().unwrap();
        assert_mentions(&error.to_string(), &[to, "F32", "BF16"]);
        assert!(plan_as(&model("t5/source"), to, &ConvertOptions::new()).is_ok(), "{to}");
    }
}
