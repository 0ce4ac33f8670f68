//! Quark weights that contradict their configuration are refused by name.

use crate::support::{Model, assert_mentions, refused, remember};
use serde_json::{Value, json};

fn config(weight: Value) -> Value {
    json!({"quantization_config": {"quant_method": "quark", "global_quant_config": {"weight": weight}}})
}

/// Two rows of 32 codes, all of them 2, which is 1.0.
fn mxfp4() -> Model {
    Model::new().tensor("a.weight", "U8", &[2, 16], &[0x22; 32]).tensor("a.weight_scale", "U8", &[2, 1], &[127, 128])
}

/// Two inputs of eight outputs, every code 0xF.
fn words() -> Model {
    Model::new()
        .tensor("a.weight", "I32", &[2, 1], &[0xFF; 8])
        .tensor("a.weight_zero_point", "I32", &[1, 1], &[0x22; 4])
        .floats("a.weight_scale", &[1, 8], &[0.5; 8])
}

#[test]
fn the_configuration_distinguishes_signed_and_unsigned_codes() {
    for (dtype, value) in [("uint4", 6.5), ("int4", -1.5)] {
        let configured = config(json!({"dtype": dtype, "qscheme": "per_group", "group_size": 2, "ch_axis": 1}));
        let output = remember(&words(), Some(&configured));
        assert_eq!(output.tensors["a.weight"].shape, [8, 2]);
        assert_eq!(output.floats("a.weight"), [value; 16], "{dtype}");
    }
}

#[test]
fn four_bit_floats_are_read_under_powers_of_two_alone() {
    let configured = |more: Value| {
        let mut weight = json!({"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"});
        weight.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config(weight)
    };
    assert_eq!(remember(&mxfp4(), Some(&configured(json!({})))).floats("a.weight")[31..33], [1.0, 2.0]);
    for (more, word) in [
        (json!({"scale_format": "e5m3"}), "scale_format"),
        (json!({"group_size": 16}), "groups of 16"),
        (json!({"dtype": "fp6_e2m3"}), "fp6_e2m3"),
        (json!({"qscheme": "per_tensor"}), "qscheme"),
        (json!({"ch_axis": 0}), "ch_axis"),
    ] {
        assert_mentions(&refused(&mxfp4(), Some(&configured(more))).to_string(), &["\"a.weight\"", word]);
    }
}

#[test]
fn codes_of_unknown_sign_or_order_are_refused() {
    let quark = |more: Value| {
        let mut section = json!({"quant_method": "quark"});
        section.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"quantization_config": section})
    };
    let uint4 = json!({"weight": {"dtype": "uint4", "qscheme": "per_group", "group_size": 2}});
    let int4 = json!({"weight": {"dtype": "int4", "qscheme": "per_group", "group_size": 2}});
    for (more, words_said) in [
        (json!({}), "uint4 or int4"),
        (json!({"global_quant_config": uint4, "export": {"pack_method": "order"}}), "pack_method"),
        (json!({"global_quant_config": uint4, "layer_quant_config": {"*.a": int4}}), "either may apply"),
        (
            json!({"global_quant_config": {"weight": {"dtype": "uint4", "qscheme": "per_group", "group_size": 1}}}),
            "groups of 1",
        ),
        (json!({"global_quant_config": {"weight": {"dtype": "int8"}}}), "int8"),
    ] {
        assert_mentions(&refused(&words(), Some(&quark(more))).to_string(), &["\"a.weight\"", words_said]);
    }
}

#[test]
fn eight_bit_floats_of_another_format_than_is_described_are_refused() {
    let model = Model::new().tensor("a.weight", "F8_E5M2", &[2, 2], &[0; 4]).floats("a.weight_scale", &[], &[1.0]);
    let error = refused(&model, Some(&config(json!({"dtype": "fp8_e4m3"})))).to_string();
    assert_mentions(&error, &["\"a.weight\"", "F8_E5M2", "fp8_e4m3"]);
}
