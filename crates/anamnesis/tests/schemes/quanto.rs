//! quanto weights whose parts contradict each other or the configuration are refused; a bias determines their shape.

use crate::support::{Model, assert_mentions, refused, remember};
use serde_json::json;

fn half(count: usize) -> Vec<u8> {
    [0x80, 0x3f].repeat(count)
}

/// A packed weight of 8 groups of 32, with scales of one and shifts of one.
fn packed(stored: usize) -> Model {
    Model::new()
        .tensor("a.weight._data._data", "U8", &[stored, 32], &vec![0x21; stored * 32])
        .tensor("a.weight._scale", "BF16", &[8, 1], &half(8))
        .tensor("a.weight._shift", "BF16", &[8, 1], &half(8))
}

#[test]
fn the_bias_determines_the_number_of_rows() {
    for (length, shape) in [(8, [8, 32]), (4, [4, 64]), (1, [1, 256])] {
        let model = packed(4).tensor("a.bias", "BF16", &[length], &half(length));
        let weight = &remember(&model, None).tensors["a.weight"];
        assert_eq!(weight.shape, shape);
    }
    assert_eq!(remember(&packed(4), None).tensors["a.weight"].shape, [8, 32]);
    let model = packed(4).tensor("a.bias", "BF16", &[3], &half(3));
    assert_mentions(&refused(&model, None).to_string(), &["a.weight._data._data", "a.bias", "[3]"]);
}

#[test]
fn rows_of_bytes_that_hold_no_whole_codes_are_refused() {
    for stored in [1, 3, 5, 8] {
        assert_mentions(&refused(&packed(stored), None).to_string(), &["a.weight._data._data", "8 rows"]);
    }
}

#[test]
fn a_configuration_of_another_type_is_refused() {
    for (stored, declared) in [(4, "qint2"), (4, "int8"), (2, "qint4"), (4, "float8"), (4, "x")] {
        let config = json!({"quantization_config": {"quant_method": "quanto", "weights": declared}});
        assert_mentions(&refused(&packed(stored), Some(&config)).to_string(), &["a.weight._data._data", declared]);
    }
    let config = json!({"quantization_config": {"quant_method": "hqq"}});
    assert_mentions(&refused(&packed(4), Some(&config)).to_string(), &["a.weight._data._data", "hqq"]);
}

#[test]
fn two_and_four_bit_codes_are_distinguished_by_the_configuration_only() {
    let model = Model::new()
        .tensor("a.weight._data._data", "U8", &[1, 3], &[0x21, 0x43, 0x65])
        .tensor("a.weight._scale", "BF16", &[2, 1], &half(2))
        .tensor("a.weight._shift", "I8", &[2, 1], &[1, 2]);
    assert_mentions(&refused(&model, None).to_string(), &["a.weight._data._data", "two or four"]);
    let config = |declared: &str| json!({"quantization_config": {"quant_method": "quanto", "weights": declared}});
    for (declared, values) in [("int4", [0., 2., 4., 0., 2., 4.]), ("qint2", [0., 2., 0., -2., -2., -1.])] {
        assert_eq!(remember(&model, Some(&config(declared))).floats("a.weight"), values, "{declared}");
    }
}

#[test]
fn parts_that_are_missing_or_too_many_are_refused() {
    let data = ("a.weight._data", "I8", &[2, 3][..], &[1; 6]);
    let model = || Model::new().tensor(data.0, data.1, data.2, data.3);
    assert_mentions(&refused(&model(), None).to_string(), &["a.weight._data", "a.weight._scale"]);
    let scaled = || model().tensor("a.weight._scale", "BF16", &[2, 1], &half(2));
    assert_eq!(remember(&scaled(), None).floats("a.weight"), [1.0; 6]);
    let shifted = scaled().tensor("a.weight._shift", "BF16", &[2, 1], &half(2));
    assert_mentions(&refused(&shifted, None).to_string(), &["a.weight._data", "a.weight._shift"]);
    let flat = model().tensor("a.weight._scale", "BF16", &[2], &half(2));
    assert_mentions(&refused(&flat, None).to_string(), &["a.weight._scale", "[2]"]);
}
