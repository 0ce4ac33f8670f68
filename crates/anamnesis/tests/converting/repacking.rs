//! Weights whose codes and scales exist as GGUF blocks are repacked in both directions without being decoded.

use crate::support::{Contents, Folder, Model, fixture};
use anamnesis::{
    BlockType, Checkpoint, ConvertOptions, ConvertStats, ConvertTarget, DirectoryOptions, Dtype, ParseLimits,
};
use serde_json::Value;

/// A fixture as a model, and converted to GGUF.
fn converted(case: &str, options: &ConvertOptions) -> (Checkpoint, Checkpoint, usize) {
    let config = std::fs::read(fixture(&format!("{case}.config.json"))).ok();
    let config = config.map(|text| serde_json::from_slice::<Value>(&text).unwrap());
    let folder = Folder::staged(&std::fs::read(fixture(&format!("{case}.safetensors"))).unwrap(), config.as_ref());
    let limits = ParseLimits::default();
    let before = Checkpoint::open(folder.model(), &limits).unwrap();
    let plan = before.plan_convert(ConvertTarget::Gguf, options).unwrap();
    let repacked = plan.stats().repacked;
    let (bytes, _) = plan.to_bytes(|_| {}).unwrap_or_else(|error| panic!("{case}: {error}"));
    (before, Checkpoint::from_bytes(bytes, &limits).unwrap(), repacked)
}

/// The values of a weight, with positive zeros: ggml blocks have no negative zero.
fn values(checkpoint: &Checkpoint, name: &str) -> Vec<f32> {
    checkpoint.decode::<f32>(name).unwrap().into_iter().map(|value| if value == 0.0 { 0.0 } else { value }).collect()
}

/// The matrix of each expert, transposed.
fn transposed(values: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    let matrix = |matrix: &[f32]| -> Vec<f32> {
        (0..cols).flat_map(|col| (0..rows).map(move |row| row * cols + col)).map(|at| matrix[at]).collect()
    };
    values.chunks_exact(rows * cols).flat_map(matrix).collect()
}

#[test]
fn mxfp4_blocks_keep_every_value() {
    for case in ["compressed_tensors/mxfp4_group", "mxfp4/deepseek_v4"] {
        let (before, after, repacked) = converted(case, &ConvertOptions::new());
        assert!(repacked > 0, "{case}");
        for weight in before.weights() {
            let stored = after.tensors().into_iter().find(|tensor| tensor.name == weight.name).unwrap();
            if stored.dtype == Dtype::Block(BlockType::MXFP4) {
                assert_eq!(values(&before, &weight.name), values(&after, &weight.name), "{case} {}", weight.name);
            }
        }
    }
}

#[test]
fn repacked_experts_are_not_transposed() {
    let (before, after, repacked) = converted("mxfp4/gpt_oss", &ConvertOptions::new());
    assert!(repacked > 0);
    for weight in before.weights() {
        let shape = weight.shape.clone().unwrap();
        let [.., rows, cols] = shape[..] else { panic!("{shape:?}") };
        let stored = after.tensors().into_iter().find(|tensor| tensor.name == weight.name).unwrap();
        assert_eq!(stored.shape[shape.len() - 2..], [cols, rows]);
        assert_eq!(
            transposed(&values(&before, &weight.name), rows, cols),
            values(&after, &weight.name),
            "{}",
            weight.name
        );
    }
}

#[test]
fn global_scales_become_companion_tensors_of_blocks() {
    for (case, is_exact) in [("modelopt/nvfp4_wide", false), ("compressed_tensors/nvfp4_global_vector", false)] {
        let (before, after, repacked) = converted(case, &ConvertOptions::new());
        if repacked == 0 {
            continue;
        }
        for weight in before.weights() {
            let (exact, found) = (values(&before, &weight.name), values(&after, &weight.name));
            for (exact, found) in exact.iter().zip(&found) {
                // The order of multiplications differs, so the last bit may.
                let apart = (exact - found).abs();
                assert!(apart <= exact.abs() * 2.5e-7, "{case}: {found} is not {exact}, {is_exact}");
            }
        }
    }
}

#[test]
fn an_explicit_output_type_decodes_instead_of_repacking() {
    let options = ConvertOptions::new().with_output_dtype(Dtype::F32);
    let (_, after, repacked) = converted("compressed_tensors/mxfp4_group", &options);
    assert_eq!(repacked, 0);
    assert!(after.tensors().iter().all(|tensor| !matches!(tensor.dtype, Dtype::Block(_))));
}

#[test]
fn a_scale_with_another_value_in_a_block_is_refused() {
    let limits = ParseLimits::default();
    let case = "modelopt/mxfp4";
    let config: Value =
        serde_json::from_slice(&std::fs::read(fixture(&format!("{case}.config.json"))).unwrap()).unwrap();
    let folder = Folder::staged(&std::fs::read(fixture(&format!("{case}.safetensors"))).unwrap(), Some(&config));
    let plan = Checkpoint::open(folder.model(), &limits)
        .unwrap()
        .plan_convert(ConvertTarget::Gguf, &ConvertOptions::new())
        .unwrap();
    assert!(plan.stats().repacked > 0);
    let error = plan.to_bytes(|_| {}).unwrap_err().to_string();
    assert!(error.contains("0xff"), "{error}");
}

const WEIGHT: &str = "model.layers.0.mlp.up_proj.weight";

/// A checkpoint of two matrices quantised to this target, in the folder.
fn quantised(folder: &Folder, target: &str) -> Checkpoint {
    let source = folder.path("source");
    std::fs::create_dir_all(&source).unwrap();
    let value = |index: usize| ((index * 7919 % 1009) as f32 - 504.0) / (700 + index / 64 * 31) as f32;
    let values: Vec<f32> = (0..48 * 128).map(value).collect();
    let down = "model.layers.0.mlp.down_proj.weight";
    let model = Model::new().floats(WEIGHT, &[48, 128], &values).floats(down, &[96, 64], &values);
    std::fs::write(source.join("model.safetensors"), model.bytes()).unwrap();
    std::fs::write(source.join("config.json"), "{}").unwrap();
    let (limits, options, output) = (ParseLimits::default(), ConvertOptions::new(), folder.path(target));
    let plan = Checkpoint::open(source, &limits)
        .unwrap()
        .plan_convert_directory(ConvertTarget::parse(target).unwrap(), &options, &DirectoryOptions::new())
        .unwrap();
    plan.write(&output, &options.run, |_| {}).unwrap();
    Checkpoint::open(output, &limits).unwrap()
}

fn as_bytes(checkpoint: &Checkpoint, target: &str, options: &ConvertOptions) -> (Vec<u8>, ConvertStats) {
    let plan = checkpoint.plan_convert(ConvertTarget::parse(target).unwrap(), options).unwrap();
    (plan.to_bytes(|_| {}).unwrap().0, plan.stats())
}

/// The same as GGUF, with its names.
fn in_gguf(checkpoint: &Checkpoint) -> Checkpoint {
    let (bytes, stats) = as_bytes(checkpoint, "gguf", &ConvertOptions::new().with_keep_names(true));
    assert_eq!((stats.repacked, stats.dequantized), (2, 0));
    Checkpoint::from_bytes(bytes, &ParseLimits::default()).unwrap()
}

#[test]
fn blocks_repack_to_the_original_codes_and_scales() {
    for target in ["mxfp4", "mlx-mxfp4", "nvfp4", "modelopt-nvfp4", "mlx-nvfp4"] {
        let folder = Folder::new();
        let before = quantised(&folder, target);
        let (bytes, stats) = as_bytes(&in_gguf(&before), target, &ConvertOptions::new());
        assert_eq!((stats.repacked, stats.dequantized, stats.quantized), (2, 0, 0), "{target}");
        let (found, wanted) = (Contents::of(&bytes), Contents::read(folder.path(target).join("model.safetensors")));
        assert_eq!(found.names(), wanted.names(), "{target}");
        for name in wanted.names() {
            // The reciprocal of a reciprocal may be the adjacent number.
            if name.ends_with("global_scale") {
                let (found, wanted) = (found.floats(name), wanted.floats(name));
                assert!((found[0] - wanted[0]).abs() <= wanted[0] * 1.2e-7, "{found:?} {wanted:?}");
            } else {
                assert_eq!(found.tensors[name], wanted.tensors[name], "{target}: {name}");
            }
        }
    }
}

#[test]
fn equal_codes_and_scales_are_repacked_between_schemes() {
    for (from, to) in [
        ("mxfp4", "mlx-mxfp4"),
        ("mlx-mxfp4", "mxfp4"),
        ("modelopt-nvfp4", "nvfp4"),
        ("nvfp4", "modelopt-nvfp4"),
        ("mlx-nvfp4", "modelopt-nvfp4"),
    ] {
        let folder = Folder::new();
        let before = quantised(&folder, from);
        let output = folder.path("out");
        let options = ConvertOptions::new();
        let plan = before
            .plan_convert_directory(ConvertTarget::parse(to).unwrap(), &options, &DirectoryOptions::new())
            .unwrap();
        assert_eq!((plan.stats().repacked, plan.stats().dequantized), (2, 0), "{from} to {to}");
        plan.write(&output, &options.run, |_| {}).unwrap();
        let after = Checkpoint::open(output, &ParseLimits::default()).unwrap();
        for (before, after) in values(&before, WEIGHT).into_iter().zip(values(&after, WEIGHT)) {
            assert!((before - after).abs() <= before.abs() * 2.5e-7, "{from} to {to}: {after} is not {before}");
        }
    }
}

#[test]
fn incompatible_codes_and_decoded_weights_are_quantised_again() {
    let folder = Folder::new();
    let gguf = in_gguf(&quantised(&folder, "mxfp4"));
    for (target, options) in [
        ("nvfp4", ConvertOptions::new()),
        ("w4a16", {
            let mut options = ConvertOptions::new();
            options.quantise.groups.size = Some("32".parse().unwrap());
            options
        }),
        ("mxfp4", ConvertOptions::new().with_output_dtype(Dtype::F32)),
    ] {
        let (_, stats) = as_bytes(&gguf, target, &options);
        assert_eq!((stats.repacked, stats.quantized), (0, 2), "{target}");
    }
    // A global scale cannot be stored where there is none.
    let (_, stats) = as_bytes(&in_gguf(&quantised(&Folder::new(), "nvfp4")), "mlx-nvfp4", &ConvertOptions::new());
    assert_eq!((stats.repacked, stats.quantized), (0, 2));
}

#[test]
fn a_block_scale_that_is_nan_in_the_target_is_refused() {
    let folder = Folder::new();
    let (mut bytes, _) = as_bytes(&quantised(&folder, "mxfp4"), "gguf", &ConvertOptions::new().with_keep_names(true));
    // Blocks are at the end of the file; the last has 17 bytes, the scale first.
    let scale = bytes.len() - 17;
    bytes[scale] = 0xFF;
    let gguf = Checkpoint::from_bytes(bytes, &ParseLimits::default()).unwrap();
    let plan = gguf.plan_convert(ConvertTarget::parse("mxfp4").unwrap(), &ConvertOptions::new()).unwrap();
    let error = plan.to_bytes(|_| {}).unwrap_err().to_string();
    assert!(error.contains("0xff"), "{error}");
}

#[test]
fn experts_of_gpt_oss_round_trip_as_blocks_and_scales() {
    let folder = Folder::new();
    let file = fixture("architectures/gpt_oss_mxfp4.expected.gguf");
    let file = Checkpoint::open(file, &ParseLimits::default()).unwrap();
    let directory = |options: &ConvertOptions, name: &str| {
        let plan = file.plan_convert_directory(ConvertTarget::Hf, options, &DirectoryOptions::new()).unwrap();
        plan.write(folder.path(name), &options.run, |_| {}).unwrap();
        let config = std::fs::read(folder.path(name).join("config.json")).unwrap();
        let config: Value = serde_json::from_slice(&config).unwrap();
        (plan.stats(), config, Contents::read(folder.path(name).join("model.safetensors")))
    };
    let (stats, config, found) = directory(&ConvertOptions::new(), "packed");
    let wanted = Contents::read(fixture("architectures/gpt_oss_mxfp4/model.safetensors"));
    assert_eq!(found.tensors, wanted.tensors);
    assert_eq!(config["quantization_config"]["quant_method"], "mxfp4");
    assert!(stats.repacked > 0 && stats.dequantized == 0);
    // An explicit type is decoded to, and the configuration has no quantisation.
    let (stats, config, found) = directory(&ConvertOptions::new().with_output_dtype(Dtype::BF16), "decoded");
    assert!(config.get("quantization_config").is_none() && stats.repacked == 0);
    assert!(found.names().iter().all(|name| !name.ends_with("_blocks")));
}
