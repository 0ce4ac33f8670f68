//! Marlin tiles that are incomplete, contradict their configuration, or are not supported by Marlin, are refused by
//! name.

use crate::support;
use crate::support::{Contents, Model, assert_mentions, fixture, refused, remember};
use serde_json::{Value, json};

/// 16 inputs by 64 outputs, every code 9, which is 1.
fn codes(model: Model) -> Model {
    model.tensor("a.B", "I32", &[1, 128], &[0x99; 512])
}

fn marlin() -> Model {
    codes(Model::new()).tensor("a.s", "F16", &[1, 64], &[0, 0x3C].repeat(64))
}

fn config(more: Value) -> Value {
    let mut section = json!({"quant_method": "gptq", "bits": 4, "group_size": -1, "checkpoint_format": "marlin"});
    section.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"quantization_config": section})
}

#[test]
fn tiles_are_recognised_by_configuration_or_else_by_name() {
    for config in [None, Some(config(json!({}))), Some(config(json!({"quant_method": "marlin"})))] {
        let output = remember(&marlin(), config.as_ref());
        assert_eq!((output.names(), &output.tensors["a.weight"].shape[..]), (vec!["a.weight"], &[64, 16][..]));
        assert!(output.floats("a.weight").iter().all(|value| *value == 1.0));
    }
}

#[test]
fn configurations_that_marlin_does_not_support_are_refused() {
    for (more, words) in [
        (json!({"bits": 8}), ["8 bits", "\"a.B\""]),
        (json!({"sym": false}), ["zero points", "sym"]),
        (json!({"desc_act": true}), ["activation order", "desc_act"]),
        (json!({"group_size": 8}), ["groups of 8", "\"a.B\""]),
        (json!({"checkpoint_format": "gptq"}), ["config.json does not say so", "\"a.B\""]),
        (json!({"quant_method": "awq"}), ["config.json does not say so", "\"a.B\""]),
        (json!({"modules_in_block_to_quantize": [["b"]]}), ["it is packed, but", "\"a.B\""]),
    ] {
        assert_mentions(&refused(&marlin(), Some(&config(more))).to_string(), &words);
    }
}

#[test]
fn tiles_and_scales_that_do_not_match_are_refused() {
    let scales =
        |dtype: &str, shape: &[usize], size: usize| codes(Model::new()).tensor("a.s", dtype, shape, &vec![0; size]);
    for (model, words) in [
        (codes(Model::new()), ["\"a.B\"", "it has no \"a.s\""]),
        (scales("BF16", &[1, 64], 128), ["\"a.s\" is BF16", "F16"]),
        (scales("F16", &[1, 32], 64), ["[1, 128]", "[1, 32]"]),
        (scales("F16", &[64], 128), ["[1, 128]", "[64]"]),
        (scales("F16", &[3, 64], 384), ["[1, 128]", "[3, 64]"]),
        (marlin().tensor("a.g_idx", "I32", &[16], &[0; 64]), ["\"a.g_idx\"", "do not have"]),
        (marlin().floats("a.weight", &[1], &[1.0]), ["\"a.weight\"", "which is stored too"]),
        (marlin().floats("b.s", &[1], &[1.0]), ["\"b.s\"", "part of a Marlin weight"]),
    ] {
        assert_mentions(&refused(&model, Some(&config(json!({})))).to_string(), &words);
    }
}

#[test]
fn the_sparse_form_is_refused_by_its_name() {
    let model = Model::new()
        .tensor("a.B_24", "I32", &[1, 128], &[0; 512])
        .tensor("a.B_meta", "I16", &[2, 64], &[0; 256])
        .tensor("a.s", "F16", &[1, 64], &[0; 128]);
    assert_mentions(&refused(&model, None).to_string(), &["Marlin 2:4", "\"a.B_24\""]);
}

#[test]
fn gptq_marlin_and_awq_marlin_mean_the_layout_before_repacking() {
    for (case, method) in [("gptq/int4_g16_sym_v1", "gptq_marlin"), ("awq/gemm_g32", "awq_marlin")] {
        let read = |end: &str| std::fs::read(fixture(&format!("{case}{end}"))).unwrap();
        let mut config: Value = serde_json::from_slice(&read(".config.json")).unwrap();
        config["quantization_config"]["quant_method"] = json!(method);
        let output = support::Folder::staged(&read(".safetensors"), Some(&config));
        let output = output.remember(anamnesis::TargetDtype::F32).unwrap();
        let expected = Contents::of(&read(".expected.safetensors"));
        let name = output.names().into_iter().find(|name| name.ends_with("weight")).unwrap().to_owned();
        assert_eq!(output.tensors[&name], expected.tensors[&format!("{name}.f32")], "{method}");
    }
}
