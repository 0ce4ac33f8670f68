//! MXFP4 experts that are incomplete or contradict their configuration or scales are refused by name.

use crate::support::{Model, assert_mentions, parse_reason, refused, remember};
use serde_json::{Value, json};

/// One expert of two outputs and 32 inputs, of which the first output is all 1.0 and the second all 2.0.
fn blocks(shape: &[usize]) -> Model {
    Model::new().tensor("e.down_proj_blocks", "U8", shape, &[[0x22; 16], [0x44; 16]].concat())
}

fn gpt_oss() -> Model {
    blocks(&[1, 2, 1, 16]).tensor("e.down_proj_scales", "U8", &[1, 2, 1], &[127, 128])
}

/// Two rows of 32 codes, all of them 2, which is 1.0.
fn codes() -> Model {
    Model::new().tensor("a.weight", "I8", &[2, 16], &[0x22; 32])
}

fn deepseek() -> Model {
    codes().tensor("a.scale", "F8_E8M0", &[2, 1], &[127, 128])
}

fn config(quantization: Value) -> Value {
    json!({"quantization_config": quantization})
}

#[test]
fn experts_of_gpt_oss_are_transposed() {
    for config in [None, Some(config(json!({"quant_method": "mxfp4"})))] {
        let output = remember(&gpt_oss(), config.as_ref());
        assert_eq!((output.names(), &output.tensors["e.down_proj"].shape[..]), (vec!["e.down_proj"], &[1, 32, 2][..]));
        assert_eq!(output.floats("e.down_proj")[..4], [1.0, 4.0, 1.0, 4.0]);
    }
}

#[test]
fn a_configuration_that_contradicts_the_blocks_is_refused() {
    let gptq = config(json!({"quant_method": "gptq", "bits": 4}));
    assert_mentions(&parse_reason(refused(&gpt_oss(), Some(&gptq))), &["\"e.down_proj_blocks\"", "\"gptq\""]);
    let left = config(json!({"quant_method": "mxfp4", "modules_to_not_convert": ["e"]}));
    assert_mentions(&parse_reason(refused(&gpt_oss(), Some(&left))), &["\"e.down_proj_blocks\"", "excludes it"]);
}

#[test]
fn blocks_and_scales_that_do_not_match_are_refused() {
    let scale = |model: Model, dtype: &str, shape: &[usize], bytes: &[u8]| {
        model.tensor("e.down_proj_scales", dtype, shape, bytes)
    };
    for (model, words) in [
        (scale(blocks(&[1, 2, 1, 16]), "U8", &[1, 1, 2], &[127; 2]), ["[1, 2, 1, 16]", "[1, 1, 2]"]),
        (scale(blocks(&[1, 2, 1, 16]), "U8", &[2, 1], &[127; 2]), ["[1, 2, 1, 16]", "[2, 1]"]),
        (scale(blocks(&[1, 2, 2, 8]), "U8", &[1, 2, 2], &[127; 4]), ["[1, 2, 2, 8]", "[1, 2, 2]"]),
        (scale(blocks(&[2, 1, 16]), "U8", &[2, 1], &[127; 2]), ["[2, 1, 16]", "[2, 1]"]),
        (scale(blocks(&[1, 2, 1, 16]), "I8", &[1, 2, 1], &[127; 2]), ["\"e.down_proj_scales\" is I8", "U8"]),
        (scale(blocks(&[1, 2, 1, 16]), "F8_E8M0", &[1, 2, 1], &[127; 2]), ["\"e.down_proj_scales\" is F8_E8M0", "U8"]),
    ] {
        let reason = parse_reason(refused(&model, None));
        assert_mentions(&reason, &words);
        assert_mentions(&reason, &["\"e.down_proj_blocks\""]);
    }
    assert_mentions(&parse_reason(refused(&blocks(&[1, 2, 1, 16]), None)), &["\"e.down_proj_blocks\""]);
}

#[test]
fn blocks_next_to_their_decoded_tensor_are_refused() {
    let model = gpt_oss().floats("e.down_proj", &[1], &[1.0]);
    assert_mentions(
        &parse_reason(refused(&model, None)),
        &["\"e.down_proj_blocks\"", "\"e.down_proj\"", "which is stored too"],
    );
}

#[test]
fn signed_bytes_under_powers_of_two_are_four_bit_floats() {
    for config in [None, Some(config(json!({"quant_method": "fp8", "weight_block_size": [128, 128]})))] {
        let output = remember(&deepseek(), config.as_ref());
        assert_eq!(output.tensors["a.weight"].shape, [2, 32]);
        assert_eq!(output.floats("a.weight")[31..33], [1.0, 2.0]);
    }
}

#[test]
fn signed_bytes_that_the_configuration_contradicts_are_refused() {
    for (quantization, word) in [
        (json!({"quant_method": "fp8", "expert_dtype": "fp8"}), "\"fp8\""),
        (json!({"quant_method": "gptq"}), "\"gptq\""),
        (json!({"quant_method": "fp8", "modules_to_not_convert": ["a"]}), "excludes it"),
    ] {
        assert_mentions(&parse_reason(refused(&deepseek(), Some(&config(quantization)))), &["\"a.weight\"", word]);
    }
    // Float scales also occur with integers, unless the configuration defines the bytes.
    let floats = codes().floats("a.weight_scale_inv", &[2, 1], &[1.0, 3.0]);
    assert_mentions(&refused(&floats, None).to_string(), &["\"a.weight\""]);
    let configured = config(json!({"quant_method": "fp8", "expert_dtype": "fp4"}));
    assert_eq!(remember(&floats, Some(&configured)).floats("a.weight")[31..33], [1.0, 3.0]);
}

#[test]
fn weights_of_quark_are_recognised_by_their_configuration() {
    let quark = config(json!({"quant_method": "quark", "export": {"pack_method": "reorder"}}));
    let model = |shape: &[usize], scales: &[u8]| {
        Model::new().tensor("a.weight", "U8", &[2, 16], &[0x82; 32]).tensor("a.weight_scale", "U8", shape, scales)
    };
    let output = remember(&model(&[2, 1], &[127, 126]), Some(&quark)).floats("a.weight");
    assert_eq!(
        output[30..34].iter().map(|value| value.to_bits()).collect::<Vec<_>>(),
        [0x3F80_0000, 0x8000_0000, 0x3F00_0000, 0x8000_0000]
    );
    // With six bits per code, a scale has 24 bytes.
    assert_mentions(&parse_reason(refused(&model(&[2, 2], &[127; 4]), Some(&quark))), &["\"a.weight\"", "[2, 2]"]);
    assert_mentions(&refused(&model(&[2, 1], &[127; 2]), None).to_string(), &["\"a.weight\""]);
}

#[test]
fn signed_bytes_and_scales_that_do_not_match_are_refused() {
    for (shape, bytes) in [(&[1, 2][..], 2), (&[2], 2), (&[2, 2], 4), (&[1, 1], 1), (&[2, 1, 1], 2)] {
        let model = codes().tensor("a.scale", "F8_E8M0", shape, &vec![127; bytes]);
        let reason = parse_reason(refused(&model, None));
        assert_mentions(&reason, &["\"a.weight\"", "\"a.scale\"", &format!("{shape:?}")]);
    }
}
