//! ModelOpt four-bit weights that are incomplete, contradict their configuration, or have further parts, are refused by
//! name.

use crate::support::{Folder, Model, assert_mentions, parse_reason, refused, remember};
use anamnesis::{AnamnesisError, QuantScheme, parse_bytes};
use serde_json::{Value, json};

/// 1.0 in E4M3.
const ONE: u8 = 0x38;

/// Two rows of 32 codes, all of them 2, which is 1.0.
fn codes() -> Model {
    Model::new().tensor("a.weight", "U8", &[2, 16], &[0x22; 32])
}

fn scales(model: Model) -> Model {
    model.tensor("a.weight_scale", "F8_E4M3", &[2, 2], &[ONE; 4])
}

fn nvfp4() -> Model {
    scales(codes()).floats("a.weight_scale_2", &[], &[0.5])
}

fn config(quantization: Value) -> Value {
    let mut config = json!({"quant_method": "modelopt"});
    config.as_object_mut().unwrap().extend(quantization.as_object().unwrap().clone());
    json!({"quantization_config": config})
}

#[track_caller]
fn unsupported(error: AnamnesisError) -> String {
    match error {
        AnamnesisError::Unsupported { format, detail } => format!("{format}: {detail}"),
        other => panic!("{other}"),
    }
}

#[test]
fn names_and_types_are_enough_without_a_configuration() {
    let output = remember(&nvfp4(), None);
    assert_eq!((output.names(), output.floats("a.weight")), (vec!["a.weight"], vec![0.5; 64]));
    assert_eq!(parse_bytes(nvfp4().bytes()).unwrap().header.scheme, QuantScheme::Nvfp4);
}

#[test]
fn the_configuration_is_read_wherever_modelopt_puts_it() {
    let folder = Folder::staged(&nvfp4().bytes(), None);
    let quantization = json!({"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]});
    folder.write("hf_quant_config.json", json!({"producer": {}, "quantization": quantization}).to_string());
    assert_eq!(folder.remember(anamnesis::TargetDtype::F32).unwrap().floats("a.weight"), [0.5; 64]);
    let excluded = json!({"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["a"]});
    folder.write("hf_quant_config.json", json!({"quantization": excluded}).to_string());
    assert_mentions(&parse_reason(Folder::refused(&folder)), &["\"a.weight\"", "excludes it"]);
}

#[test]
fn an_algorithm_that_does_not_match_the_weight_is_refused() {
    for (algorithm, word) in [
        ("FP8", "\"FP8\""),
        ("W8A16", "\"W8A16\""),
        ("MIXED_PRECISION", "its own algorithm is missing"),
        ("W4A8_MXFP4_FP8", "not a scale type of MXFP4"),
    ] {
        let reason = parse_reason(refused(&nvfp4(), Some(&config(json!({"quant_algo": algorithm})))));
        assert_mentions(&reason, &["\"a.weight\"", word]);
    }
    let gptq = json!({"quantization_config": {"quant_method": "gptq", "bits": 4}});
    assert_mentions(&parse_reason(refused(&nvfp4(), Some(&gptq))), &["\"a.weight\"", "\"gptq\""]);
}

#[test]
fn groups_of_another_size_are_refused() {
    for (group, is_right) in [(16, true), (32, false), (8, false), (0, false), (-1, false)] {
        let config = config(json!({"quant_algo": "NVFP4", "group_size": group}));
        match is_right {
            true => assert_eq!(remember(&nvfp4(), Some(&config)).floats("a.weight"), [0.5; 64]),
            false => assert_mentions(&parse_reason(refused(&nvfp4(), Some(&config))), &["\"a.weight\""]),
        }
    }
    let of_32 = codes().tensor("a.weight_scale", "F8_E4M3", &[2, 1], &[ONE; 2]).floats("a.weight_scale_2", &[], &[1.0]);
    assert_mentions(&parse_reason(refused(&of_32, None)), &["\"a.weight_scale\"", "[2, 1]", "16 a scale"]);
    let configured = config(json!({"quant_algo": "NVFP4", "group_size": 32}));
    assert_eq!(remember(&of_32, Some(&configured)).floats("a.weight"), [1.0; 64]);
}

#[test]
fn per_layer_rules_take_precedence() {
    let layers = |algorithm: &str| {
        config(
            json!({"quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": algorithm, "group_size": 16}}}),
        )
    };
    assert_eq!(remember(&nvfp4(), Some(&layers("W4A16_NVFP4"))).floats("a.weight"), [0.5; 64]);
    assert_mentions(&parse_reason(refused(&nvfp4(), Some(&layers("FP8")))), &["\"a.weight\"", "\"FP8\""]);
}

#[test]
fn a_group_for_other_codes_is_refused() {
    let groups = |weights: Value| {
        config(json!({"quant_algo": "NVFP4", "config_groups": {"group_0": {"weights": weights, "targets": ["a"]}}}))
    };
    let right = groups(json!({"num_bits": 4, "type": "float", "group_size": 16}));
    assert_eq!(remember(&nvfp4(), Some(&right)).floats("a.weight"), [0.5; 64]);
    for weights in [json!({"num_bits": 8, "type": "float"}), json!({"num_bits": 4, "type": "int"})] {
        assert_mentions(&parse_reason(refused(&nvfp4(), Some(&groups(weights)))), &["\"a.weight\"", "four-bit floats"]);
    }
}

#[test]
fn companions_that_are_missing_or_do_not_fit_are_refused() {
    let half = Model::tensor;
    for (model, words) in [
        (scales(codes()), ["\"a.weight_scale_2\"", "no"]),
        (codes().floats("a.weight_scale_2", &[], &[1.0]), ["\"a.weight_scale\"", "no"]),
        (scales(codes()).floats("a.weight_scale_2", &[2], &[1.0; 2]), ["\"a.weight_scale_2\"", "[2]"]),
        (half(scales(codes()), "a.weight_scale_2", "F16", &[], &[0; 2]), ["\"a.weight_scale_2\"", "F16"]),
        (
            codes().tensor("a.weight_scale", "U8", &[2, 2], &[ONE; 4]).floats("a.weight_scale_2", &[], &[1.0]),
            ["\"a.weight_scale\"", "U8"],
        ),
        (
            codes().tensor("a.weight_scale", "F8_E4M3", &[4], &[ONE; 4]).floats("a.weight_scale_2", &[], &[1.0]),
            ["\"a.weight_scale\"", "[4]"],
        ),
        (
            codes().tensor("a.weight_scale", "F8_E4M3", &[1, 2], &[ONE; 2]).floats("a.weight_scale_2", &[], &[1.0]),
            ["\"a.weight_scale\"", "[1, 2]"],
        ),
    ] {
        let reason = parse_reason(refused(&model, Some(&config(json!({"quant_algo": "NVFP4"})))));
        assert_mentions(&reason, &words);
        assert_mentions(&reason, &["\"a.weight\""]);
    }
}

#[test]
fn weights_that_are_more_than_codes_and_scales_are_refused_by_name() {
    for (name, word) in
        [("a.pre_quant_scale", "scaled inputs"), ("a.svdquant_lora_a", "low-rank"), ("a.svdquant_lora_b", "low-rank")]
    {
        let model = nvfp4().floats(name, &[32], &[1.0; 32]);
        assert_mentions(&unsupported(refused(&model, None)), &[word, name, "\"a.weight\""]);
    }
    let error = refused(&nvfp4().metadata("quantization_config", "{}"), None);
    assert_mentions(&unsupported(error), &["order of a kernel", "quantization_config", "\"a.weight\""]);
    let layers = r#"{"layers": {"a": {"format": "nvfp4"}}}"#;
    let error = refused(&nvfp4().metadata("_quantization_metadata", layers), None);
    assert_mentions(&error.to_string(), &["[128, 4] is needed", "\"a.weight_scale\"", "\"a.weight\""]);
    for algorithm in ["W4A8_AWQ", "NVFP4_SVD"] {
        let model = codes().floats("a.weight_scale", &[4, 2], &[1.0; 8]);
        let error = refused(&model, Some(&config(json!({"quant_algo": algorithm}))));
        assert_mentions(&unsupported(error), &[algorithm, "\"a.weight\""]);
    }
}

#[test]
fn experts_are_stacked_in_either_direction_and_single_matrices_in_one() {
    let parts = |name: &str, shape: &[usize], scale: &[usize]| {
        let bytes = |shape: &[usize]| shape.iter().product::<usize>();
        Model::new()
            .tensor(name, "U8", shape, &vec![0x42; bytes(shape)])
            .tensor(&format!("{name}_weight_scale"), "F8_E4M3", scale, &vec![ONE; bytes(scale)])
            .floats(&format!("{name}_weight_scale_2"), &[2], &[1.0, 2.0])
    };
    let straight = remember(&parts("e.down_proj", &[2, 3, 8], &[2, 3, 1]), None);
    assert_eq!(straight.tensors["e.down_proj"].shape, [2, 3, 16]);
    assert_eq!(straight.floats("e.down_proj")[47..50], [2.0, 2.0, 4.0]);
    let of_one = Model::new()
        .tensor("e.down_proj", "U8", &[2, 3, 8], &[0x42; 48])
        .tensor("e.down_proj_weight_scale", "F8_E4M3", &[2, 3, 1], &[ONE; 6])
        .floats("e.down_proj_weight_scale_2", &[1], &[1.0]);
    assert_mentions(&parse_reason(refused(&of_one, None)), &["[1]", "one for each of 2 matrices"]);
    let turned = remember(&parts("e.down_proj", &[2, 8, 3], &[2, 1, 3]), None);
    assert_eq!(turned.tensors["e.down_proj"].shape, [2, 16, 3]);
    assert_eq!(turned.floats("e.down_proj")[45..52], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 4.0]);
    let single =
        codes().tensor("a.weight_scale", "F8_E4M3", &[16, 2], &[ONE; 32]).floats("a.weight_scale_2", &[], &[1.0]);
    assert_mentions(&parse_reason(refused(&single, None)), &["\"a.weight_scale\"", "[16, 2]"]);
}
