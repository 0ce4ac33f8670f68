//! Every method that transformers knows is decoded or refused by name; packed weights are never copied.

use crate::support::{Folder, Model, assert_mentions, refused, remember};
use anamnesis::TargetDtype;
use serde_json::json;

/// `quant_method` of transformers and related tools.
const METHODS: [&str; 40] = [
    "aqlm",
    "auto-round",
    "awq",
    "bitblas",
    "bitnet",
    "bitsandbytes",
    "bitsandbytes_4bit",
    "bitsandbytes_8bit",
    "compressed-tensors",
    "eetq",
    "exl2",
    "exl3",
    "fbgemm_fp8",
    "fouroversix",
    "fp8",
    "fp_quant",
    "gemma",
    "gguf",
    "gptq",
    "higgs",
    "hqq",
    "intel/auto-round",
    "marlin",
    "metal",
    "modelopt",
    "mxfp4",
    "mxfp8",
    "nvfp4",
    "paroquant",
    "qqq",
    "quanto",
    "quark",
    "quip",
    "quip_sharp",
    "sinq",
    "spqr",
    "tequila",
    "torchao",
    "vptq",
    "x",
];

/// Incomplete parts of packed weights, as various tools name and type them.
fn packed() -> Vec<(&'static str, Model)> {
    let m = || Model::new().floats("model.norm.weight", &[2], &[1.0, 2.0]);
    vec![
        ("a.weight", m().tensor("a.weight", "U8", &[4, 8], &[1; 32])),
        ("a.weight", m().tensor("a.weight", "I8", &[4, 8], &[1; 32]).floats("a.weight_scales", &[8], &[1.0; 8])),
        ("a.weight", m().tensor("a.weight", "I16", &[4, 8], &[1; 64]).floats("a.tables", &[8], &[1.0; 8])),
        ("a.qweight", m().tensor("a.qweight", "U8", &[4, 8], &[1; 32]).tensor("a.scales", "U8", &[4, 1], &[1; 4])),
        (
            "a.indices",
            m().tensor("a.indices", "I32", &[1, 4, 8], &[1; 128]).floats("a.centroids.weight", &[2], &[1.0; 2]),
        ),
        ("a.dense_weights", m().tensor("a.dense_weights", "I64", &[4, 8], &[1; 256])),
        ("a.codes", m().tensor("a.codes", "I16", &[4, 8, 1], &[1; 64]).floats("a.codebooks", &[2], &[1.0; 2])),
        ("a.q_weight", m().tensor("a.q_weight", "I32", &[4, 8], &[1; 128])),
        ("a.B", m().tensor("a.B", "I32", &[4, 8], &[1; 128]).floats("a.s", &[8], &[1.0; 8])),
        ("a.W_q", m().tensor("a.W_q", "U8", &[4, 8], &[1; 32])),
    ]
}

/// Names that models use for other data, and the methods that use them for codes.
const COMMON: [(&str, &str); 2] = [("a.dense_weights", "spqr"), ("a.indices", "vptq")];

#[test]
fn whatever_a_method_packs_is_refused_by_name_and_never_copied() {
    let mut copied = Vec::new();
    for method in METHODS {
        let config = json!({"quantization_config": {"quant_method": method}});
        for (codes, model) in packed() {
            if COMMON.iter().any(|(name, owner)| *name == codes && *owner != method) {
                continue;
            }
            match Folder::staged(&model.bytes(), Some(&config)).remember(TargetDtype::F32) {
                Ok(_) => copied.push((method, codes)),
                Err(error) => assert_mentions(&error.to_string(), &["\"a."]),
            }
        }
    }
    assert!(copied.is_empty(), "{copied:?}");
}

#[test]
fn unsupported_methods_are_named_with_a_reason() {
    let model = Model::new().tensor("a.weight", "U8", &[4, 8], &[1; 32]).floats("b.weight", &[1], &[1.0]);
    for (method, format) in [
        ("bitblas", "BitBLAS"),
        ("fp_quant", "FP-Quant"),
        ("higgs", "HIGGS"),
        ("paroquant", "ParoQuant"),
        ("qqq", "QQQ"),
        ("quip", "QuIP#"),
        ("spqr", "SpQR"),
    ] {
        let config = json!({"quantization_config": {"quant_method": method}});
        let error = refused(&model, Some(&config)).to_string();
        assert_mentions(&error, &[format, "\"a.weight\"", "config.json", "not decoded: "]);
    }
}

#[test]
fn rotated_weights_that_are_stored_as_floats_are_refused() {
    let config = json!({"quantization_config": {"quant_method": "fp_quant", "pseudoquantization": true}});
    let model = Model::new().floats("a.dqweight", &[2, 2], &[1.0; 4]);
    assert_mentions(&refused(&model, Some(&config)).to_string(), &["FP-Quant", "\"a.dqweight\"", "rotated"]);
}

#[test]
fn a_model_without_packed_weights_is_copied_regardless_of_its_configuration() {
    let model = Model::new().floats("a.weight", &[2, 2], &[1.0, 2.0, 3.0, 4.0]).tensor(
        "a.position_ids",
        "I64",
        &[1, 2],
        &[0; 16],
    );
    for method in ["aqlm", "exl3", "gemma", "bitnet"] {
        let config = json!({"quantization_config": {"quant_method": method}});
        assert_eq!(remember(&model, Some(&config)).floats("a.weight"), [1.0, 2.0, 3.0, 4.0], "{method}");
    }
}

#[test]
fn ternary_weights_need_their_scale_and_a_layer_that_is_known() {
    let model = || Model::new().tensor("a.weight", "U8", &[1, 2], &[0b10_01_00_10, 0b00_01_10_01]);
    let scaled = || model().floats("a.weight_scale", &[1], &[2.0]);
    let config = |more: serde_json::Value| {
        let mut section = json!({"quant_method": "bitnet"});
        section.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"quantization_config": section})
    };
    let decode = |more| remember(&scaled(), Some(&config(more))).floats("a.weight");
    assert_eq!(decode(json!({})), [0.5, 0.0, -0.5, 0.5, 0.0, 0.0, 0.5, -0.5]);
    assert_eq!(decode(json!({"linear_class": "autobitlinear"})), [2.0, 0.0, -2.0, 2.0, 0.0, 0.0, 2.0, -2.0]);
    for (more, word) in [
        (json!({"linear_class": "x"}), "linear_class"),
        (json!({"quantization_mode": "online"}), "quantization_mode"),
        (json!({"use_rms_norm": true}), "use_rms_norm"),
        (json!({"linear_class": 7}), "linear_class"),
    ] {
        assert_mentions(&refused(&scaled(), Some(&config(more))).to_string(), &["a.weight", word]);
    }
    assert_mentions(&refused(&model(), Some(&config(json!({})))).to_string(), &["a.weight", "a.weight_scale"]);
    let two = model().floats("a.weight_scale", &[2], &[2.0; 2]);
    assert_mentions(&refused(&two, Some(&config(json!({})))).to_string(), &["a.weight_scale", "[2]"]);
}

#[test]
fn formats_without_an_oracle_are_refused_by_name_without_a_configuration_too() {
    let bytes = |name: &str, dtype: &str| Model::new().tensor(name, dtype, &[4, 8], &[1; 32]);
    let long = |name: &str| Model::new().tensor(name, "I64", &[2, 2], &[1; 32]);
    for (format, model) in [
        ("Nunchaku", bytes("a.qweight", "I8").floats("a.wscales", &[2], &[1.0; 2])),
        ("FP-Quant", bytes("a.qweight", "U8").floats("a.forward_hadamard_matrix", &[2, 2], &[1.0; 4])),
        (
            "FP-Quant",
            Model::new().floats("a.dqweight", &[2, 2], &[1.0; 4]).floats("a.forward_hadamard_matrix", &[1], &[1.0]),
        ),
        ("HIGGS", Model::new().tensor("a.weight", "I16", &[2, 2], &[1; 8]).floats("a.tables", &[2], &[1.0; 2])),
        ("SpQR", long("a.dense_weights").tensor("a.row_offsets", "I32", &[2], &[1; 8])),
    ] {
        assert_mentions(&refused(&model, None).to_string(), &[format, "\"a."]);
    }
}

#[test]
fn codes_of_eetq_that_are_not_tiles_are_refused() {
    for codes in ["a.weight", "a.qweight"] {
        let model = Model::new().tensor(codes, "I8", &[2, 2], &[1; 4]).tensor(
            "a.weight_scales",
            "F16",
            &[2],
            &[0, 0x3c, 0, 0x3c],
        );
        assert_mentions(&refused(&model, None).to_string(), &[codes, "\"a.weight_scales\"", "[2, 2]"]);
    }
}
