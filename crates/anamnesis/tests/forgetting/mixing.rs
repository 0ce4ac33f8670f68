//! Mixed targets: compared without output, mixed by rules, and fitted to a size.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{Contents, Folder, Model, Noise, assert_mentions, rounded};
use anamnesis::{
    AnamnesisError, BlockOptions, BlockType, Checkpoint, ConvertOptions, ConvertTarget, DirectoryOptions, Fit,
    ParseLimits, Request, TargetDtype,
};
use serde_json::{Value, json};

const QUERY: &str = "model.layers.0.self_attn.q_proj.weight";
const DOWN: &str = "model.layers.0.mlp.down_proj.weight";
const NAMES: [(&str, [usize; 2]); 4] =
    [("model.embed_tokens.weight", [96, 256]), (QUERY, [384, 256]), (DOWN, [256, 512]), ("lm_head.weight", [96, 256])];

/// A model of two layers, an embedding and a head.
fn model(seed: u64) -> Folder {
    println!("seed {seed}");
    let mut noise = Noise(seed);
    let mut model = Model::new().metadata("format", "pt");
    for (name, shape) in NAMES {
        let values: Vec<f32> = (0..shape[0] * shape[1]).map(|_| noise.scale() * noise.scale() / 500.0).collect();
        model = model.tensor(name, "BF16", &shape, &rounded(&values, TargetDtype::BF16));
    }
    Folder::staged(&model.bytes(), Some(&json!({ "model_type": "llama" })))
}

fn open(path: impl AsRef<Path>) -> Checkpoint {
    Checkpoint::open(path.as_ref(), &ParseLimits::default()).unwrap()
}

fn target(name: &str) -> ConvertTarget {
    ConvertTarget::parse(name).unwrap()
}

fn directory(folder: &Folder) -> Checkpoint {
    open(folder.model().parent().unwrap())
}

/// The decoded tensors and the configuration of a directory.
fn decoded(folder: &Path) -> (BTreeMap<String, Vec<u8>>, Value) {
    let config = serde_json::from_slice(&std::fs::read(folder.join("config.json")).unwrap()).unwrap();
    let output = folder.join("decoded.safetensors");
    let parsed = anamnesis::parse(folder.join("model.safetensors")).unwrap();
    parsed.remember(&output, TargetDtype::F32).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let tensors = Contents::read(&output).tensors.into_iter().map(|(name, tensor)| (name, tensor.data)).collect();
    (tensors, config)
}

fn write(input: &Folder, output: &Path, to: &str, options: &ConvertOptions) {
    let plan = directory(input).plan_convert_directory(target(to), options, &DirectoryOptions::new());
    plan.unwrap_or_else(|error| panic!("{to}: {error}")).write(output, &options.run, |_| {}).unwrap();
}

#[test]
fn a_comparison_has_the_sizes_and_errors_of_what_would_be_written() {
    let input = model(1);
    let options = ConvertOptions::new().with_measure(true);
    for checkpoint in [directory(&input), open(input.model())] {
        let targets = ["fp8-channel", "nvfp4", "q4_k_m", "bnb-nf4", "mlx-4bit"].map(target);
        let is_directory = checkpoint.directory().is_some();
        let cut = DirectoryOptions::new();
        let before = std::fs::read_dir(input.path("")).unwrap().count();
        let mut last = (0, 0);
        let rows = checkpoint.compare(&targets, &options, &cut, |now| last = (now.bytes, now.total_bytes)).unwrap();
        assert_eq!(std::fs::read_dir(input.path("")).unwrap().count(), before, "something was written");
        assert!(last.0 == last.1 && last.0 > 0, "{last:?}");
        for row in rows {
            let measured = match row.outcome {
                Ok(measured) => measured,
                Err(error) if is_directory && row.target == target("q4_k_m") => {
                    assert_mentions(&error.to_string(), &["llama"]);
                    continue;
                }
                Err(error) => panic!("{}: {error}", row.target),
            };
            let folder = Folder::new();
            let (bytes, errors) = if is_directory && row.target.extension() == "safetensors" {
                let plan = checkpoint.plan_convert_directory(row.target, &options, &cut).unwrap();
                let report = plan.write(folder.path("out"), &options.run, |_| {}).unwrap();
                (std::fs::metadata(folder.path("out/model.safetensors")).unwrap().len(), report.errors)
            } else {
                let report = checkpoint.plan_convert(row.target, &options).unwrap().write(folder.path("out"), |_| {});
                (std::fs::metadata(folder.path("out")).unwrap().len(), report.unwrap().errors)
            };
            assert_eq!(measured.bytes, bytes, "{}", row.target);
            let found: Vec<_> = measured.weights.iter().map(|weight| weight.error.clone()).collect();
            assert_eq!(found, errors, "{}", row.target);
            let values: f64 = errors.iter().map(|error| error.values as f64).sum();
            let mean = errors.iter().map(|error| error.mean_squared * error.values as f64).sum::<f64>() / values;
            let overall = measured.overall.unwrap();
            assert!((overall.mean_squared - mean).abs() <= 1e-12 * mean, "{}: {overall:?}", row.target);
        }
    }
}

#[test]
fn an_impossible_target_is_reported_and_the_others_are_compared() {
    let model = Model::new().floats("a.weight", &[32, 96], &[0.5; 32 * 96]);
    let checkpoint = Checkpoint::from_bytes(model.bytes(), &ParseLimits::default()).unwrap();
    let targets = ["w4a16", "fp8-channel"].map(target);
    let rows = checkpoint.compare(&targets, &ConvertOptions::new(), &DirectoryOptions::new(), |_| {}).unwrap();
    assert_mentions(&rows[0].outcome.as_ref().unwrap_err().to_string(), &["w4a16", "a.weight", "128"]);
    assert_eq!(rows[1].outcome.as_ref().unwrap().stats.quantized, 1);
}

#[test]
fn weights_of_a_mix_decode_like_those_of_single_targets() {
    let input = model(2);
    for (usual, other) in [
        ("w4a16", "w8a16"),
        ("w4a16", "w4a16-asym"),
        ("w4a16-asym", "fp8-channel"),
        ("fp8-channel", "fp8-block"),
        ("nvfp4", "fp8-tensor"),
        ("mxfp4", "mxfp8"),
        ("w8a8", "nvfp4"),
        ("mlx-4bit", "mlx-8bit"),
        ("mlx-4bit", "mlx-mxfp4"),
        ("mlx-nvfp4", "mlx-6bit"),
        ("gptq-4bit", "gptq-8bit"),
        ("gptq-2bit-asym", "gptq-3bit"),
        ("gptq-4bit-v2", "gptq-8bit-v2-asym"),
        ("modelopt-nvfp4", "modelopt-fp8"),
        ("modelopt-mxfp8", "modelopt-nvfp4"),
    ] {
        let folder = Folder::new();
        let [pure, of_other, mixed] = ["pure", "other", "mixed"].map(|name| folder.path(name));
        let plain = ConvertOptions::new();
        write(&input, &pure, usual, &plain);
        write(&input, &of_other, other, &plain);
        write(&input, &mixed, usual, &plain.clone().with_rule("*.mlp.*", other).unwrap());
        let [(pure, _), (of_other, _), (mixed, config)] = [&pure, &of_other, &mixed].map(|path| decoded(path));
        for (name, values) in &mixed {
            let want = if name == DOWN { &of_other } else { &pure };
            assert!(want[name] == *values, "{usual} with {other}: {name}");
        }
        assert_ne!(pure[DOWN], mixed[DOWN], "{usual} with {other}");
        let module = DOWN.trim_end_matches(".weight");
        let text = config.to_string();
        assert!(text.contains(module) || text.contains(&module.replace('.', "\\\\.")), "{usual} with {other}: {text}");
    }
}

#[test]
fn weights_kept_by_a_rule_stay_plain_in_every_family() {
    let input = model(3);
    for to in ["w4a16", "fp8", "bnb-nf4", "awq-4bit", "gptq-4bit", "modelopt-fp8", "mlx-4bit"] {
        let folder = Folder::new();
        let output = folder.path("out");
        write(&input, &output, to, &ConvertOptions::new().with_rule("*q_proj*", "keep").unwrap());
        let found = Contents::read(output.join("model.safetensors")).tensors;
        assert_eq!(found[QUERY].dtype, "BF16", "{to}");
        assert!(!found.contains_key(DOWN) || found[DOWN].dtype != "BF16", "{to}");
        decoded(&output);
    }
}

#[test]
fn a_rule_quantises_weights_that_are_kept_by_default() {
    let input = model(4);
    let folder = Folder::new();
    let output = folder.path("out");
    write(&input, &output, "w4a16", &ConvertOptions::new().with_rule("lm_head.weight", "w8a16").unwrap());
    let (_, config) = decoded(&output);
    let config = &config["quantization_config"];
    assert_eq!(config["ignore"], json!([]));
    assert_eq!(config["config_groups"]["group_1"]["targets"], json!(["lm_head"]));
    assert_eq!(config["format"], "pack-quantized");
}

#[test]
fn mixes_that_a_configuration_cannot_describe_are_refused_before_anything_is_written() {
    let input = model(5);
    for (usual, other) in [
        ("bnb-nf4", "bnb-int8"),
        ("fp8", "fp8-channel"),
        ("awq-4bit", "gptq-4bit"),
        ("gptq-4bit", "gptq-8bit-v2"),
        ("w4a16", "mlx-4bit"),
        ("q4_k_m", "w4a16"),
    ] {
        let options = ConvertOptions::new().with_rule("*.mlp.*", other).unwrap();
        let error = open(input.model()).plan_convert(target(usual), &options).err().unwrap();
        assert!(matches!(error, AnamnesisError::Request(Request::Contradiction { .. })), "{usual}: {error}");
        assert_mentions(&error.to_string(), &[usual, other, "*.mlp.*"]);
    }
    let options = ConvertOptions::new().with_rule("*.nothing.*", "w8a16").unwrap();
    let error = open(input.model()).plan_convert(target("w4a16"), &options).err().unwrap();
    assert!(matches!(error, AnamnesisError::Request(Request::UnusedPattern { .. })), "{error}");
    let error = open(input.model()).plan_convert(ConvertTarget::Safetensors, &options).err().unwrap();
    assert_mentions(&error.to_string(), &["*.nothing.*", "safetensors"]);
}

#[test]
fn a_rule_for_blocks_is_a_type_for_the_tensor() {
    let mut noise = Noise(6);
    let values: Vec<f32> = (0..64 * 256).map(|_| noise.scale() / 100.0).collect();
    let model = ["blk.0.attn_q.weight", "blk.0.attn_v.weight", "blk.0.ffn_down.weight"];
    let model = model.iter().fold(Model::new(), |model, name| model.floats(name, &[64, 256], &values));
    let checkpoint = Checkpoint::from_bytes(model.bytes(), &ParseLimits::default()).unwrap();
    let bytes = |options: &ConvertOptions| {
        let (bytes, report) = checkpoint.plan_convert(target("q4_k_m"), options).unwrap().to_bytes(|_| {}).unwrap();
        (bytes, report.stats.by_rules)
    };
    let mut by_type = ConvertOptions::new();
    by_type.quantise.blocks = BlockOptions::new().with_tensor_type("attn_q", BlockType::Q8_0);
    let by_rule = ConvertOptions::new().with_rule("*.attn_q.*", "q8_0").unwrap();
    let (want, _) = bytes(&by_type);
    let (found, count) = bytes(&by_rule);
    assert!(found == want && count == 1);
    assert!(found != bytes(&ConvertOptions::new()).0);
}

#[test]
fn a_mix_fits_and_loses_less_the_more_room_there_is() {
    let input = model(7);
    for (family, checkpoint) in [
        ("k-quants", open(input.model())),
        ("mlx", directory(&input)),
        ("gptq-2bit,gptq-4bit,gptq-8bit", directory(&input)),
        ("w4a16,w8a16,fp8-channel", directory(&input)),
    ] {
        let targets = Fit::family(family).unwrap();
        let (options, cut) = (ConvertOptions::new(), DirectoryOptions::new());
        let fit = |bytes: u64| checkpoint.fit(bytes, &targets, &options, &cut, |_| {});
        let least = match fit(1) {
            Err(AnamnesisError::Request(Request::DoesNotFit { bytes: 1, least })) => least,
            other => panic!("{family}: {other:?}"),
        };
        let mut last = f64::INFINITY;
        let mut kinds = 0;
        for bytes in [least, least + 20_000, least + 26_000, least + 60_000, least * 8] {
            let fit = fit(bytes).unwrap_or_else(|error| panic!("{family} in {bytes}: {error}"));
            assert!(fit.bytes <= bytes, "{family}: {} is more than {bytes}", fit.bytes);
            let folder = Folder::new();
            let written = folder.path("out");
            let plan_options = &fit.options;
            let size = match checkpoint.directory().is_some() {
                true => {
                    let plan = checkpoint.plan_convert_directory(fit.target, plan_options, &cut).unwrap();
                    plan.write(&written, &plan_options.run, |_| {}).unwrap();
                    decoded(&written);
                    std::fs::metadata(written.join("model.safetensors")).unwrap().len()
                }
                false => {
                    checkpoint.plan_convert(fit.target, plan_options).unwrap().write(&written, |_| {}).unwrap();
                    std::fs::metadata(&written).unwrap().len()
                }
            };
            assert_eq!(size, fit.bytes, "{family}");
            let lost = fit.weights.iter().map(|weight| 10f64.powf(-weight.error.sqnr / 10.0)).sum::<f64>();
            assert!(lost <= last, "{family}: {lost} is more than {last}");
            last = lost;
            let mut targets: Vec<_> =
                fit.weights.iter().filter_map(|weight| weight.target).map(ConvertTarget::name).collect();
            targets.sort_unstable();
            targets.dedup();
            kinds = kinds.max(targets.len());
        }
        assert!(kinds > 1, "{family} was never mixed");
        assert!(fit(least - 1).is_err(), "{family}");
    }
}

#[test]
fn explicit_rules_are_excluded_from_fitting() {
    let input = model(8);
    let checkpoint = directory(&input);
    let options = ConvertOptions::new().with_rule("*.q_proj.*", "mlx-6bit").unwrap();
    let targets = Fit::family("mlx-4bit,mlx-8bit").unwrap();
    let fit = checkpoint.fit(10_000_000, &targets, &options, &DirectoryOptions::new(), |_| {});
    // Rules are for targets of the family or those that can be mixed with it.
    let fit = fit.unwrap();
    let chosen: Vec<_> = fit.weights.iter().map(|weight| (weight.error.name.as_str(), weight.target)).collect();
    assert!(chosen.contains(&(QUERY, None)) && chosen.contains(&(DOWN, Some(target("mlx-8bit")))), "{chosen:?}");
    let folder = Folder::new();
    let output = folder.path("out");
    write(&input, &output, fit.target.name(), &fit.options);
    let (_, config) = decoded(&output);
    assert_eq!(config["quantization"][QUERY.trim_end_matches(".weight")]["bits"], 6);
}
