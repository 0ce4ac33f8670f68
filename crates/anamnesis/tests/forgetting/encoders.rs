//! Quantising to safetensors targets: the bytes of each library, and directories that decode to the measured error.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{Contents, Folder, Model, Noise, assert_mentions, difference, fixture, floats, le_bytes, rounded};
use anamnesis::convert::convert_bytes;
use anamnesis::{
    AnamnesisError, Checkpoint, ConvertOptions, ConvertTarget, CpuLevel, DirectoryOptions, GroupOptions, ParseLimits,
    Request, SidecarFate, TargetDtype,
};
use serde_json::{Value, json};

const LAYER: &str = "model.layers.0.mlp.down_proj";

/// The safetensors targets tested here.
fn dialects() -> impl Iterator<Item = ConvertTarget> {
    ConvertTarget::all().filter(|target| {
        target.is_quantized() && target.extension() == "safetensors" && !target.name().starts_with("bnb-")
    })
}

/// Those that quantise matrices.
fn targets() -> Vec<(ConvertTarget, ConvertOptions)> {
    let of_matrices = dialects().filter(|target| target.name() != "gpt-oss");
    of_matrices.map(|target| (target, ConvertOptions::new())).collect()
}

/// Whether a target needs no configuration: each tensor has its type, or its marker.
fn is_cast(target: ConvertTarget) -> bool {
    ["fp8-cast", "fp8-e5m2"].contains(&target.name()) || target.name().starts_with("comfy-")
}

fn with_group(mut options: ConvertOptions, size: &str) -> ConvertOptions {
    options.quantise.groups = GroupOptions::new().with_size(size.parse().unwrap());
    options
}

#[test]
fn weights_are_those_of_their_library() {
    let mut cases: BTreeMap<String, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    for entry in std::fs::read_dir(fixture("encode")).unwrap() {
        let path = entry.unwrap().path();
        let Contents { mut tensors, metadata } = Contents::read(&path);
        let metadata = metadata.unwrap();
        let source = tensors.remove("source").unwrap();
        let name = metadata.get("layer").cloned().unwrap_or_else(|| format!("{LAYER}.weight"));
        let model = Model::new().tensor(&name, &source.dtype, &source.shape, &source.data);
        let target = ConvertTarget::parse(&metadata["target"]).unwrap();
        for level in CpuLevel::available() {
            let mut options = ConvertOptions::new().with_cpu_level(level).with_threads(1);
            if let Some(size) = metadata.get("group_size") {
                options = with_group(options, size);
            }
            let case = format!("{} at {level}", path.file_stem().unwrap().display());
            let got = match convert_bytes(&model.bytes(), target, &options) {
                Ok((bytes, _)) => Contents::of(&bytes).tensors,
                Err(error) => {
                    failures.push(format!("{case}: {error}"));
                    continue;
                }
            };
            if got.keys().ne(tensors.keys()) {
                failures.push(format!("{case}: {:?} instead of {:?}", got.keys(), tensors.keys()));
                continue;
            }
            for (name, want) in &tensors {
                let found = &got[name];
                if (&want.dtype, &want.shape) != (&found.dtype, &found.shape) {
                    failures.push(format!("{case}: {}", difference(want, found).unwrap()));
                } else if want.data != found.data {
                    let differing = want.data.iter().zip(&found.data).filter(|(a, b)| a != b).count();
                    let first = want.data.iter().zip(&found.data).position(|(a, b)| a != b).unwrap();
                    let end = (first + 8).min(want.data.len());
                    failures.push(format!(
                        "{case}: {name} differs in {differing} of {} bytes, from {first} on {:x?} instead of {:x?}",
                        want.data.len(),
                        &found.data[first..end],
                        &want.data[first..end]
                    ));
                }
            }
        }
        *cases.entry(target.name().to_owned()).or_default() += 1;
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    for target in dialects() {
        assert!(cases.get(target.name()).is_some_and(|&cases| cases > 0), "{target} has no fixture");
    }
}

/// A model of a few layers, including weights that no target or only some quantise.
fn model(seed: u64) -> Model {
    println!("seed {seed}");
    let mut noise = Noise(seed);
    let mut model = Model::new().metadata("format", "pt");
    for (name, shape) in [
        ("model.embed_tokens.weight", vec![300, 256]),
        ("model.layers.0.self_attn.q_proj.weight", vec![384, 256]),
        ("model.layers.0.mlp.down_proj.weight", vec![256, 512]),
        ("model.layers.0.mlp.gate.weight", vec![8, 256]),
        ("model.layers.0.input_layernorm.weight", vec![256]),
        ("model.vision_tower.fc.weight", vec![128, 128]),
        ("lm_head.weight", vec![300, 256]),
    ] {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|_| noise.scale() * noise.scale() / 500.0).collect();
        model = model.tensor(name, "BF16", &shape, &rounded(&values, TargetDtype::BF16));
    }
    model
}

fn written(input: &Path, output: &Path, target: ConvertTarget, options: &ConvertOptions) -> BTreeMap<String, [f64; 2]> {
    let checkpoint = Checkpoint::open(input, &ParseLimits::default()).unwrap();
    let plan = checkpoint.plan_convert_directory(target, options, &DirectoryOptions::new()).unwrap();
    let report = plan.write(output, &options.run, |_| {}).unwrap();
    let errors = report.errors.into_iter();
    errors.map(|error| (error.name, [error.mean_absolute, error.mean_squared])).collect()
}

#[test]
fn directories_decode_to_what_was_measured_whatever_the_threads() {
    let input = Folder::staged(&model(15).bytes(), Some(&json!({ "model_type": "llama" })));
    let plain = Contents::read(input.model()).tensors;
    for (target, options) in targets() {
        let output = Folder::new();
        let (one, four) = (output.path("one"), output.path("four"));
        let options = options.with_measure(true);
        let errors = written(input.model().parent().unwrap(), &one, target, &options.clone().with_threads(1));
        let again = written(input.model().parent().unwrap(), &four, target, &options.with_threads(4));
        assert_eq!(errors, again, "{target}");
        let read = |folder: &Path| std::fs::read(folder.join("model.safetensors")).unwrap();
        assert!(read(&one) == read(&four), "{target}: other bytes with four threads");
        let config: Value = serde_json::from_slice(&std::fs::read(one.join("config.json")).unwrap()).unwrap();
        let is_told = config["quantization_config"].is_object() || config["quantization"].is_object();
        assert_eq!(is_told, !is_cast(target), "{target}");
        let decoded = output.path("decoded.safetensors");
        let parsed = anamnesis::parse(one.join("model.safetensors")).unwrap();
        parsed.remember(&decoded, TargetDtype::F32).unwrap_or_else(|error| panic!("{target}: {error}"));
        let decoded = Contents::read(decoded).tensors;
        let mut quantised = 0;
        for (name, tensor) in &plain {
            let found = decoded.get(name).unwrap_or_else(|| panic!("{target} has no {name}"));
            assert_eq!(found.shape, tensor.shape, "{target} {name}");
            let before = tensor.data.chunks(2).map(|bytes| half::bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32());
            if found.dtype == "BF16" {
                assert!(found.data == tensor.data, "{target} {name}");
                continue;
            }
            quantised += 1;
            let (mut absolute, mut squared) = (0.0, 0.0);
            for (before, after) in before.zip(floats(&found.data)) {
                let difference = f64::from(before) - f64::from(after);
                absolute += difference.abs();
                squared += difference * difference;
            }
            let values = found.data.len() as f64 / 4.0;
            let module = name.strip_suffix(".weight").unwrap();
            let measured = errors.iter().find(|(error, _)| error.starts_with(module)).unwrap().1;
            for (found, measured) in [absolute / values, squared / values].into_iter().zip(measured) {
                assert!((found - measured).abs() <= 1e-9 * found, "{target} {name}: {found} is not {measured}");
            }
        }
        let embeds = decoded["model.embed_tokens.weight"].dtype == "F32";
        // BitsAndBytes targets do not skip routers and towers.
        let usual = if is_cast(target) { 4 } else { 2 };
        assert!(quantised >= usual && (quantised == usual || embeds), "{target}: {quantised}");
    }
}

#[test]
fn rows_that_do_not_divide_are_refused_by_name_before_anything_is_written() {
    let model = Model::new().floats("a.weight", &[32, 100], &[0.5; 3200]).floats("b.weight", &[32, 128], &[0.5; 4096]);
    for (target, options) in targets() {
        let result = convert_bytes(&model.bytes(), target, &options);
        match result {
            Err(AnamnesisError::Request(Request::Indivisible { tensors, .. })) => {
                assert_eq!(tensors, [("a.weight".to_owned(), 100)], "{target}");
            }
            Err(error) => panic!("{target}: {error}"),
            // One scale per row or tensor, blocks that may overhang, or not quantised.
            Ok((_, stats)) => {
                let quantised = match target.name() {
                    "fp8" | "eetq" => 0,
                    name if name.starts_with("mlx-") => 1,
                    _ => 2,
                };
                assert_eq!(stats.quantized, quantised, "{target}");
            }
        }
        let kept = options.with_kept("a.weight").unwrap();
        convert_bytes(&model.bytes(), target, &kept).unwrap_or_else(|error| panic!("{target}: {error}"));
    }
}

#[test]
fn nonfinite_values_are_refused_by_name_or_replaced_if_allowed() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = vec![0.25; 128 * 128];
        values[300] = bad;
        values[301] = -1.5;
        let model = Model::new().tensor("a.weight", "F32", &[128, 128], &le_bytes(&values));
        for (target, options) in targets() {
            let error = convert_bytes(&model.bytes(), target, &options).unwrap_err();
            assert_mentions(&error.to_string(), &["a.weight", "300"]);
            convert_bytes(&model.bytes(), target, &options.with_allow_nonfinite(true)).unwrap();
        }
    }
}

#[test]
fn weights_of_zeros_and_of_the_smallest_numbers_decode_to_numbers() {
    for (tiny, dtypes) in [
        (0.0, &[TargetDtype::BF16][..]),
        (f32::from_bits(1), &[TargetDtype::F32]),
        (f32::MIN_POSITIVE, &[TargetDtype::F32, TargetDtype::BF16]),
        (1e-30, &[TargetDtype::BF16]),
    ] {
        let values: Vec<f32> = (0..128 * 128).map(|index| if index % 3 == 0 { -tiny } else { tiny }).collect();
        for &dtype in dtypes {
            let bytes = rounded(&values, dtype);
            let model = Model::new().tensor("a.weight", &dtype.to_string(), &[128, 128], &bytes);
            for (target, options) in targets() {
                let folder = Folder::staged(&model.bytes(), Some(&json!({})));
                let output = folder.path("out");
                written(folder.model().parent().unwrap(), &output, target, &options);
                let decoded = folder.path("decoded.safetensors");
                anamnesis::parse(output.join("model.safetensors"))
                    .unwrap()
                    .remember(&decoded, TargetDtype::F32)
                    .unwrap();
                let decoded = Contents::read(decoded).floats("a.weight");
                let limit = 2.0 * tiny.abs().max(1e-30);
                let bad = decoded.iter().find(|value| !value.is_finite() || value.abs() > limit);
                assert_eq!(bad, None, "{target} of {tiny} as {dtype}");
            }
        }
    }
}

#[test]
fn matrices_that_do_not_fill_words_are_refused_by_name() {
    let model = Model::new().floats("a.weight", &[20, 128], &[0.5; 20 * 128]);
    for target in ["gptq-3bit", "gptq-4bit", "gptq-2bit-v2", "awq-4bit"] {
        let target = ConvertTarget::parse(target).unwrap();
        let error = convert_bytes(&model.bytes(), target, &ConvertOptions::new()).unwrap_err().to_string();
        assert_mentions(&error, &[target.name(), "a.weight", "[20, 128]", "32-bit words"]);
    }
}

#[test]
fn weights_are_rounded_to_f16_where_the_library_stores_f16() {
    let mut values = vec![1.0; 32 * 128];
    values[77] = 1e6;
    let model = Model::new().floats("a.weight", &[32, 128], &values);
    let target = ConvertTarget::parse("awq-4bit").unwrap();
    let error = convert_bytes(&model.bytes(), target, &ConvertOptions::new()).unwrap_err().to_string();
    assert_mentions(&error, &["a.weight", "value 77 is 1e6", "AWQ", "as inf"]);
}

/// A stack of experts of gpt-oss, with other tensors.
fn experts(seed: u64, shape: [usize; 3]) -> Model {
    println!("seed {seed}");
    let mut noise = Noise(seed);
    let mut floats = |count: usize| -> Vec<f32> { (0..count).map(|_| noise.scale() * noise.scale() / 500.0).collect() };
    let [count, inputs, outputs] = shape;
    let name = |part: &str| format!("model.layers.0.mlp.{part}");
    let stack = rounded(&floats(count * inputs * outputs), TargetDtype::BF16);
    Model::new()
        .tensor(&name("experts.gate_up_proj"), "BF16", &shape, &stack)
        .floats(&name("experts.gate_up_proj_bias"), &[count, outputs], &floats(count * outputs))
        .floats(&name("router.weight"), &[count, inputs], &floats(count * inputs))
}

#[test]
fn experts_become_blocks_and_decode_to_what_was_measured_whatever_the_threads() {
    let input = Folder::staged(&experts(16, [2, 512, 2100]).bytes(), Some(&json!({ "model_type": "gpt_oss" })));
    let target = ConvertTarget::parse("gpt-oss").unwrap();
    let output = Folder::new();
    let (one, four) = (output.path("one"), output.path("four"));
    let options = ConvertOptions::new().with_measure(true);
    let staged = input.model();
    let folder = staged.parent().unwrap();
    let errors = written(folder, &one, target, &options.clone().with_threads(1));
    assert_eq!(errors, written(folder, &four, target, &options.with_threads(4)));
    let read = |folder: &Path| std::fs::read(folder.join("model.safetensors")).unwrap();
    assert!(read(&one) == read(&four), "other bytes with four threads");
    let made = Contents::read(one.join("model.safetensors")).tensors;
    assert_eq!(made["model.layers.0.mlp.experts.gate_up_proj_blocks"].shape, [2, 2100, 16, 16]);
    assert_eq!(made.len(), 4);
    let decoded = output.path("decoded.safetensors");
    anamnesis::parse(one.join("model.safetensors")).unwrap().remember(&decoded, TargetDtype::F32).unwrap();
    let name = "model.layers.0.mlp.experts.gate_up_proj";
    let before = Contents::read(input.model()).tensors.remove(name).unwrap();
    let after = Contents::read(decoded).floats(name);
    let before = before.data.chunks(2).map(|bytes| half::bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32());
    let sum: f64 = before.zip(&after).map(|(before, after)| (f64::from(before) - f64::from(*after)).abs()).sum();
    let (mean, measured) = (sum / after.len() as f64, errors[name][0]);
    assert!((mean - measured).abs() <= 1e-9 * mean, "{mean} is not {measured}");
}

#[test]
fn expert_rows_that_blocks_do_not_divide_are_refused_by_name() {
    let target = ConvertTarget::parse("gpt-oss").unwrap();
    let error = convert_bytes(&experts(17, [2, 48, 8]).bytes(), target, &ConvertOptions::new()).unwrap_err();
    assert_mentions(&error.to_string(), &["gpt-oss", "experts.gate_up_proj", "48", "32"]);
}

#[test]
fn a_cast_refuses_overflow_to_infinity_and_saturates_e4m3() {
    let mut values = vec![1.0; 64];
    values[7] = 61440.0;
    let model = Model::new().floats("a.weight", &[8, 8], &values);
    let target = |name: &str| ConvertTarget::parse(name).unwrap();
    let error = convert_bytes(&model.bytes(), target("fp8-e5m2"), &ConvertOptions::new()).unwrap_err();
    assert_mentions(&error.to_string(), &["a.weight", "value 7", "57344"]);
    let (bytes, _) = convert_bytes(&model.bytes(), target("fp8-cast"), &ConvertOptions::new()).unwrap();
    assert_eq!(Contents::of(&bytes).tensors["a.weight"].data[7], 0x7E);
}

#[test]
fn sidecar_files_of_loaders_are_written_and_removed_on_decoding() {
    let input = Folder::staged(&model(18).bytes(), Some(&json!({ "model_type": "llama" })));
    let staged = input.model();
    std::fs::write(input.path("hf_quant_config.json"), r#"{"quantization": {}}"#).unwrap();
    let query = "model.layers.0.self_attn.q_proj";
    for (target, rule, file, wanted) in [
        (
            "modelopt-nvfp4",
            None,
            "hf_quant_config.json",
            json!({
                "producer": { "name": "modelopt", "version": "0.47.0" },
                "quantization": {
                    "quant_algo": "W4A16_NVFP4",
                    "kv_cache_quant_algo": null,
                    "group_size": 16,
                    "exclude_modules": ["lm_head", "model.layers.0.mlp.gate", "model.vision_tower.fc"],
                },
            }),
        ),
        (
            "modelopt-nvfp4",
            Some("modelopt-fp8"),
            "hf_quant_config.json",
            json!({
                "producer": { "name": "modelopt", "version": "0.47.0" },
                "quantization": {
                    "quant_algo": "MIXED_PRECISION",
                    "kv_cache_quant_algo": null,
                    "exclude_modules": ["lm_head", "model.layers.0.mlp.gate", "model.vision_tower.fc"],
                    "quantized_layers": {
                        query: { "quant_algo": "FP8" },
                        LAYER: { "quant_algo": "W4A16_NVFP4", "group_size": 16 },
                    },
                },
            }),
        ),
        (
            "quanto-int8",
            None,
            "quanto_qmap.json",
            json!({
                query: { "activations": "none", "weights": "qint8" },
                LAYER: { "activations": "none", "weights": "qint8" },
            }),
        ),
    ] {
        let output = Folder::new();
        let made = output.path("made");
        let options = match rule {
            Some(other) => ConvertOptions::new().with_rule("*.q_proj.*", other).unwrap(),
            None => ConvertOptions::new(),
        };
        written(staged.parent().unwrap(), &made, ConvertTarget::parse(target).unwrap(), &options);
        let found: Value = serde_json::from_slice(&std::fs::read(made.join(file)).unwrap()).unwrap();
        assert_eq!(found, wanted, "{target}");
        let checkpoint = Checkpoint::open(&made, &ParseLimits::default()).unwrap();
        let plan = checkpoint.plan_directory(TargetDtype::BF16, &DirectoryOptions::new()).unwrap();
        let fate = plan.sidecars().iter().find(|sidecar| sidecar.name == file).map(|sidecar| &sidecar.fate);
        assert!(matches!(fate, Some(SidecarFate::Dropped(_))), "{target}: {fate:?}");
    }
}
