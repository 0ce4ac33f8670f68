//! Non-finite scales propagate as in the libraries; shapes, groups and zero points that do not match are refused by
//! name, in every scheme.

use crate::support::{Model, assert_mentions, refused, remember};
use serde_json::{Value, json};

fn config(section: Value) -> Option<Value> {
    Some(json!({"quantization_config": section}))
}

fn f16(bits: u16, count: usize) -> Vec<u8> {
    bits.to_le_bytes().repeat(count)
}

/// 16 inputs by 64 outputs of Marlin, every code 9, which is 1.
fn marlin(scale: u16) -> Model {
    Model::new().tensor("a.B", "I32", &[1, 128], &[0x99; 512]).tensor("a.s", "F16", &[1, 64], &f16(scale, 64))
}

/// Two rows of 32 four-bit floats, every code 2, which is 1.
fn bytes_of(dtype: &str, scale: (&str, &str), exponent: u8) -> Model {
    Model::new().tensor("a.weight", dtype, &[2, 16], &[0x22; 32]).tensor(scale.0, scale.1, &[2, 1], &[exponent; 2])
}

/// Eight inputs of eight outputs in one group of GPTQ, every code 9 and every zero point 8.
fn gptq(scale: u16) -> Model {
    Model::new().tensor("a.qweight", "I32", &[1, 8], &[0x99; 32]).tensor("a.qzeros", "I32", &[1, 1], &[0x77; 4]).tensor(
        "a.scales",
        "F16",
        &[1, 8],
        &f16(scale, 8),
    )
}

/// Two rows of eight bytes of Quark, every code 1 and every zero point 0.
fn quark_int8(scale: f32) -> Model {
    Model::new().tensor("a.weight", "I8", &[2, 8], &[1; 16]).tensor("a.weight_zero_point", "I8", &[2], &[0; 2]).floats(
        "a.weight_scale",
        &[2],
        &[scale; 2],
    )
}

/// One row of 64 four-bit codes with a bias of zero, every code 1.
fn affine(biases: &str, scale: f32) -> Model {
    Model::new().tensor("a.weight", "U32", &[1, 8], &[0x11; 32]).floats("a.scales", &[1, 1], &[scale]).floats(
        biases,
        &[1, 1],
        &[0.0],
    )
}

/// Two rows of 16 codes of ModelOpt, every code 1.
fn int4(scale: f32) -> Model {
    Model::new().tensor("a.weight", "U8", &[1, 16], &[0x11; 16]).floats("a.weight_scale", &[2, 1], &[scale; 2])
}

fn marlin_config() -> Option<Value> {
    config(json!({"quant_method": "gptq", "bits": 4, "group_size": -1, "checkpoint_format": "marlin"}))
}

fn gptq_config() -> Option<Value> {
    config(json!({"quant_method": "gptq", "bits": 4, "group_size": 8, "checkpoint_format": "gptq"}))
}

fn quark(weight: Value) -> Option<Value> {
    config(json!({"quant_method": "quark", "global_quant_config": {"weight": weight}}))
}

fn metal(group: i64) -> Option<Value> {
    config(json!({"quant_method": "metal", "bits": 4, "group_size": group}))
}

fn mlx(group: i64) -> Option<Value> {
    Some(json!({"quantization": {"bits": 4, "group_size": group}}))
}

fn modelopt(group: i64) -> Option<Value> {
    config(json!({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": group}))
}

fn per_row() -> Option<Value> {
    quark(json!({"dtype": "int8", "qscheme": "per_channel", "ch_axis": 0}))
}

#[test]
fn nonfinite_scales_propagate_as_in_the_libraries() {
    const INFINITE: u16 = 0x7C00;
    const NAN: u16 = 0x7E00;
    let fp4 = quark(json!({"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}));
    let (infinite, nan) = (f32::INFINITY, f32::NAN);
    let own = ("a.scale", "F8_E8M0");
    let beside = ("a.weight_scale", "U8");
    for (what, model, config, value) in [
        ("Marlin", marlin(INFINITE), marlin_config(), infinite),
        ("Marlin", marlin(NAN), marlin_config(), nan),
        ("GPTQ", gptq(INFINITE), gptq_config(), infinite),
        ("GPTQ", gptq(NAN), gptq_config(), nan),
        ("Quark int8", quark_int8(infinite), per_row(), infinite),
        ("Quark int8", quark_int8(nan), per_row(), nan),
        ("metal", affine("a.qbiases", infinite), metal(64), infinite),
        ("metal", affine("a.qbiases", nan), metal(64), nan),
        ("MLX", affine("a.biases", infinite), mlx(64), infinite),
        ("ModelOpt", int4(infinite), modelopt(16), infinite),
        ("ModelOpt", int4(nan), modelopt(16), nan),
        // 255 is NaN as an E8M0, and infinity as a bare exponent.
        ("DeepSeek", bytes_of("I8", own, 0xFF), None, nan),
        ("Quark MXFP4", bytes_of("U8", beside, 0xFF), fp4, infinite),
    ] {
        let found = remember(&model, config.as_ref()).floats("a.weight");
        let is_value = |found: &f32| found.to_bits() == value.to_bits() || (found.is_nan() && value.is_nan());
        assert!(!found.is_empty() && found.iter().all(is_value), "{what}: {:?}, wanted {value}", &found[..2]);
    }
}

#[test]
fn groups_that_do_not_divide_and_companions_that_do_not_fit_are_refused_by_name() {
    let zeros = |shape: &[usize], bytes: usize| {
        Model::new()
            .tensor("a.weight", "I8", &[2, 8], &[1; 16])
            .tensor("a.weight_zero_point", "I8", shape, &vec![0; bytes])
            .floats("a.weight_scale", &[2], &[1.0; 2])
    };
    let configured = |group: i64| {
        config(json!({"quant_method": "gptq", "bits": 4, "group_size": group, "checkpoint_format": "marlin"}))
    };
    let marlin = || marlin(0x3C00);
    for (what, model, config, words) in [
        ("Marlin", marlin(), configured(5), ["\"a.B\"", "groups of 5"]),
        ("Marlin", marlin(), configured(0), ["\"a.B\"", "groups of 0"]),
        (
            "GPTQ",
            gptq(0x3C00),
            config(json!({"quant_method": "gptq", "bits": 4, "group_size": 3})),
            ["\"a.qweight\"", "of 3"],
        ),
        ("metal", affine("a.qbiases", 1.0), metal(24), ["\"a.weight\"", "groups of 24"]),
        ("metal", affine("a.qbiases", 1.0), metal(0), ["\"a.weight\"", "groups of 0"]),
        ("metal", affine("a.biases", 1.0), metal(64), ["\"a.weight\"", "a.qbiases"]),
        ("MLX", affine("a.qbiases", 1.0), mlx(64), ["\"a.weight\"", "a.biases"]),
        ("MLX", affine("a.biases", 1.0), mlx(128), ["\"a.weight\"", "groups of 128"]),
        ("ModelOpt", int4(1.0), modelopt(12), ["\"a.weight\"", "12 codes a scale"]),
        ("Quark", zeros(&[1], 1), per_row(), ["\"a.weight\"", "[1]"]),
        ("Quark", zeros(&[2, 1], 2), per_row(), ["\"a.weight\"", "[2, 1]"]),
        ("Quark", zeros(&[], 1), per_row(), ["\"a.weight\"", "[]"]),
        (
            "Quark",
            quark_int8(1.0),
            quark(json!({"dtype": "int8", "qscheme": "per_tensor"})),
            ["\"a.weight\"", "qscheme"],
        ),
        (
            "Quark",
            quark_int8(1.0),
            quark(json!({"dtype": "int8", "qscheme": "per_channel", "ch_axis": 1})),
            ["\"a.weight\"", "ch_axis"],
        ),
    ] {
        let error = refused(&model, config.as_ref()).to_string();
        assert_mentions(&error, &words);
        assert!(!error.is_empty(), "{what}");
    }
}
