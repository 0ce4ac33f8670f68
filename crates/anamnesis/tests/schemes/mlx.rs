//! MLX weights that are incomplete, ambiguous or contradict their configuration are refused by name.

use crate::support::{Folder, Model, assert_mentions, floats, parse_reason, refused, remember};
use anamnesis::{Checkpoint, Evidence, ParseLimits, QuantScheme};
use serde_json::{Value, json};

/// Two rows of 64 four-bit codes, all of them 1, in one group each.
fn four_bit() -> Model {
    words(Model::new(), "a", &[2, 8]).floats("a.scales", &[2, 1], &[2.0, 3.0]).floats("a.biases", &[2, 1], &[0.5, -1.0])
}

fn words(model: Model, module: &str, shape: &[usize]) -> Model {
    let bytes = vec![0x11; 4 * shape.iter().product::<usize>()];
    model.tensor(&format!("{module}.weight"), "U32", shape, &bytes)
}

fn config(quantization: Value) -> Value {
    json!({"quantization": quantization})
}

fn affine(bits: u8, group: u64) -> Value {
    config(json!({"bits": bits, "group_size": group}))
}

#[test]
fn a_configuration_in_either_place_decides() {
    for key in ["quantization", "quantization_config"] {
        let output = remember(&four_bit(), Some(&json!({key: {"bits": 4, "group_size": 64}})));
        assert_eq!(output.tensors["a.weight"].shape, [2, 64]);
        assert_eq!(floats(&output.tensors["a.weight"].data)[63..65], [2.5, 2.0]);
    }
    let eight = remember(&four_bit(), Some(&affine(8, 32)));
    assert_eq!(floats(&eight.tensors["a.weight"].data)[31..33], [34.5, 50.0]);
}

#[test]
fn the_evidence_of_a_scheme_is_reported() {
    let folder = Folder::staged(&four_bit().bytes(), Some(&affine(4, 64)));
    let checkpoint = Checkpoint::open(folder.model(), &ParseLimits::default()).unwrap();
    let weight = &checkpoint.weights()[0];
    assert_eq!(weight.family, QuantScheme::Named("MLX"));
    assert_eq!(
        (weight.coding.format.as_str(), weight.coding.bits, weight.coding.group_size),
        ("affine", Some(4), Some(64))
    );
    assert_eq!(weight.coding.evidence, Evidence::Configuration("config.json: quantization.bits".to_owned()));
}

#[test]
fn shapes_that_may_be_several_modes_are_refused_without_a_configuration() {
    let reason = parse_reason(refused(&four_bit(), None));
    assert_mentions(&reason, &["\"a.weight\"", "4-bit, groups of 64", "8-bit, groups of 32", "no configuration"]);
}

#[test]
fn shapes_that_the_configuration_contradicts_are_refused() {
    for (bits, group) in [(4, 32), (4, 128), (3, 64), (2, 64), (8, 64)] {
        let reason = parse_reason(refused(&four_bit(), Some(&affine(bits, group))));
        assert_mentions(&reason, &["\"a.weight\"", &format!("{bits}-bit, groups of {group}"), "config.json"]);
    }
}

#[test]
fn modes_bits_and_groups_that_mlx_does_not_support_are_refused() {
    for (quantization, word) in [
        (json!({"bits": 7, "group_size": 64}), "bits is 7"),
        (json!({"bits": 4, "group_size": 48}), "group_size is 48"),
        (json!({"bits": 4, "group_size": 0}), "group_size is 0"),
        (json!({"bits": 4, "group_size": 64, "mode": "fp16"}), "\"fp16\""),
        (json!({"bits": 4, "group_size": 64, "mode": "mxfp4"}), "group_size is 64"),
        (json!({"bits": 4, "group_size": 32, "mode": "mxfp4"}), "mxfp4"),
    ] {
        assert_mentions(&parse_reason(refused(&four_bit(), Some(&config(quantization)))), &["\"a.weight\"", word]);
    }
}

#[test]
fn a_configuration_of_another_tool_is_refused() {
    let gptq = json!({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 64}});
    assert_mentions(&parse_reason(refused(&four_bit(), Some(&gptq))), &["\"a.weight\"", "gptq"]);
}

#[test]
fn a_packed_module_that_a_rule_excludes_is_refused() {
    let rule = config(json!({"bits": 4, "group_size": 64, "a": false}));
    assert_mentions(&parse_reason(refused(&four_bit(), Some(&rule))), &["\"a.weight\"", "excludes it"]);
}

#[test]
fn a_rule_does_not_inherit_mode_or_group_size() {
    // Neither mode nor group size are inherited.
    let quantization = json!({"bits": 4, "group_size": 32, "mode": "mxfp4", "a": {"bits": 4}});
    assert_eq!(remember(&four_bit(), Some(&config(quantization))).tensors["a.weight"].shape, [2, 64]);
    let empty = json!({"bits": 4, "group_size": 32, "a": {}});
    assert_mentions(&refused(&four_bit(), Some(&config(empty))).to_string(), &["none of bits, group_size"]);
}

#[test]
fn contradicting_descriptions_are_refused() {
    let both = json!({"quantization": {"bits": 4, "group_size": 64},
        "quantization_config": {"bits": 4, "group_size": 64, "mode": "mxfp4"}});
    let one =
        json!({"quantization": {"bits": 4, "group_size": 64}, "quantization_config": {"bits": 8, "group_size": 64}});
    assert_mentions(&parse_reason(refused(&four_bit(), Some(&one))), &["bits is 4", "but 8"]);
    // A mode in one of two descriptions applies to both.
    assert_mentions(&parse_reason(refused(&four_bit(), Some(&both))), &["group_size is 64", "mxfp4"]);
}

#[test]
fn companions_that_are_missing_or_do_not_fit_are_refused() {
    let weight = || words(Model::new(), "a", &[2, 8]);
    let scales = || weight().floats("a.scales", &[2, 1], &[1.0; 2]);
    let halves = |model: Model, name: &str, shape: &[usize]| model.tensor(name, "F16", shape, &[0; 4]);
    for (model, words) in [
        (scales(), ["\"a.biases\"", "no"]),
        (weight().floats("a.biases", &[2, 1], &[1.0; 2]), ["\"a.scales\"", "no"]),
        (halves(scales(), "a.biases", &[2, 1]), ["\"a.biases\" F16", "does not fit"]),
        (scales().floats("a.biases", &[1, 2], &[1.0; 2]), ["\"a.biases\"", "does not fit"]),
        (scales().floats("a.biases", &[2], &[1.0; 2]), ["\"a.biases\"", "does not fit"]),
        (
            weight().floats("a.scales", &[1, 2], &[1.0; 2]).floats("a.biases", &[1, 2], &[1.0; 2]),
            ["[1, 2]", "go together"],
        ),
        (weight().floats("a.scales", &[2], &[1.0; 2]).floats("a.biases", &[2], &[1.0; 2]), ["[2]", "go together"]),
        (
            weight().tensor("a.scales", "U8", &[2, 1], &[1; 2]).floats("a.biases", &[2, 1], &[1.0; 2]),
            ["\"a.scales\" is U8", "F32"],
        ),
    ] {
        let reason = parse_reason(refused(&model, Some(&affine(4, 64))));
        assert_mentions(&reason, &words);
        assert_mentions(&reason, &["\"a.weight\""]);
    }
}

#[test]
fn floats_have_no_biases() {
    let model = words(Model::new(), "a", &[2, 4]).tensor("a.scales", "U8", &[2, 1], &[127; 2]);
    let output = remember(&model, None);
    assert_eq!(output.floats("a.weight"), [0.5; 64]);
    let reason = parse_reason(refused(&model.tensor("a.biases", "U8", &[2, 1], &[0; 2]), None));
    assert_mentions(&reason, &["\"a.biases\"", "mxfp4", "no biases"]);
}

#[test]
fn codes_without_their_scales_are_not_plain_data() {
    let folder = Folder::new();
    folder.write("model-00001-of-00002.safetensors", words(Model::new(), "a", &[2, 8]).bytes());
    let path = folder.path("model-00001-of-00002.safetensors");
    let error =
        anamnesis::parse(path).and_then(|model| model.remember(folder.path("out"), anamnesis::TargetDtype::F32));
    assert_mentions(&error.unwrap_err().to_string(), &["\"a.weight\"", "\"a.scales\""]);
}

#[test]
fn module_selection_members_of_other_methods_are_refused() {
    let rule = json!({"a": {"bits": 8, "group_size": 32}});
    let rules = [
        ("dynamic", json!({"+:a": {"bits": 8, "group_size": 32}})),
        ("extra_config", rule.clone()),
        ("quantized_layers", rule),
        ("ignore", json!(["b"])),
        ("modules_to_not_convert", json!(["b"])),
    ];
    for (key, value) in rules {
        for place in ["quantization", "quantization_config"] {
            let config = json!({place: {"bits": 4, "group_size": 64, key: value}});
            let reason = parse_reason(refused(&four_bit(), Some(&config)));
            assert_mentions(&reason, &["config.json", &format!("{place}.{key}"), "MLX"]);
        }
        let other = json!({"quantization": {"bits": 4, "group_size": 64},
            "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 64, key: value}});
        assert_mentions(&parse_reason(refused(&four_bit(), Some(&other))), &[&format!("quantization_config.{key}")]);
    }
}

#[test]
fn an_override_in_one_of_two_descriptions_is_refused() {
    let plain = json!({"bits": 4, "group_size": 64});
    for rule in [json!({"bits": 8, "group_size": 32}), json!(false)] {
        let with = json!({"bits": 4, "group_size": 64, "a": rule});
        for (first, second) in [(&plain, &with), (&with, &plain)] {
            let config = json!({"quantization": first, "quantization_config": second});
            assert_mentions(&parse_reason(refused(&four_bit(), Some(&config))), &["config.json", "single modules"]);
        }
    }
    let with = json!({"bits": 4, "group_size": 64, "a": {"bits": 8, "group_size": 32}});
    let both = remember(&four_bit(), Some(&json!({"quantization": with, "quantization_config": with})));
    assert_eq!(floats(&both.tensors["a.weight"].data)[31..33], [34.5, 50.0]);
}
