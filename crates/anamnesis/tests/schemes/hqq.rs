//! HQQ weights whose state entries contradict their codes are refused.

use crate::support::{Contents, Folder, Model, Tensor, assert_mentions, fixture};
use serde_json::{Value, json};

const MODULE: &str = "model.layers.0.self_attn.q_proj";

/// A fixture with some of its entries replaced.
fn changed(case: &str, entries: &[(&str, Tensor)]) -> Vec<u8> {
    let mut contents = Contents::read(fixture(&format!("hqq/{case}.safetensors")));
    for (name, tensor) in entries {
        contents.tensors.insert(format!("{MODULE}.{name}"), tensor.clone());
    }
    let add = |model: Model, (name, tensor): (&String, &Tensor)| {
        model.tensor(name, &tensor.dtype, &tensor.shape, &tensor.data)
    };
    contents.tensors.iter().fold(Model::new(), add).bytes()
}

fn number(value: i32) -> Tensor {
    Tensor { dtype: "I32".into(), shape: vec![], data: value.to_le_bytes().to_vec() }
}

fn flag(value: u8) -> Tensor {
    Tensor { dtype: "U8".into(), shape: vec![], data: vec![value] }
}

fn shape(sizes: &[i64]) -> Tensor {
    let data = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
    Tensor { dtype: "I64".into(), shape: vec![sizes.len()], data }
}

fn text(text: &str) -> Tensor {
    Tensor { dtype: "U8".into(), shape: vec![text.len()], data: text.as_bytes().to_vec() }
}

#[track_caller]
fn refused(case: &str, entries: &[(&str, Tensor)], config: Option<&Value>) -> String {
    Folder::staged(&changed(case, entries), config).refused().to_string()
}

#[test]
fn entries_that_do_not_fit_the_codes_are_refused() {
    for (case, entry, value) in [
        ("int4_axis1", "axis", number(0)),
        ("int4_axis0", "axis", number(1)),
        ("int4_axis1", "axis", number(2)),
        ("int4_axis1", "nbits", number(3)),
        ("int4_axis1", "nbits", number(-4)),
        ("int4_axis1", "group_size", number(32)),
        ("int4_axis1", "group_size", number(0)),
        ("int4_axis1", "group_size", number(i32::MIN)),
        ("int4_axis1", "packing", text("2bit_u8")),
        ("int4_axis1", "packing", text("5bit_u8")),
        ("int4_axis1", "packing", text("\u{7f}")),
        ("int4_axis1", "view_as_float", flag(1)),
        ("int4_axis1", "view_as_float", flag(7)),
        ("int4_view_as_float", "view_as_float", flag(0)),
        ("int3_axis1", "packing", text("4bit_u8")),
        ("int4_axis1", "shape", shape(&[24, 33])),
        ("int4_axis1", "shape", shape(&[-24, -32])),
        ("int4_axis1", "shape", shape(&[i64::MAX, i64::MAX])),
        ("int4_axis1", "shape", shape(&[768])),
        ("int4_axis1", "shape", shape(&[0, 0])),
    ] {
        let error = refused(case, &[(entry, value)], None);
        assert_mentions(&error, &[MODULE]);
    }
}

#[test]
fn scales_that_are_stored_in_another_way_are_refused_by_name() {
    for (entry, value) in [("quant_scale", 1), ("quant_zero", 1), ("offload_meta", 1), ("channel_wise", 0)] {
        let error = refused("int4_axis1", &[(entry, flag(value))], None);
        assert_mentions(&error, &["HQQ", entry]);
    }
    for part in ["zero_scale", "scale_q", "meta_zero.nbits"] {
        let error = refused("int4_axis1", &[(part, number(1))], None);
        assert_mentions(&error, &["HQQ", part]);
    }
}

#[test]
fn a_contradicting_configuration_is_refused() {
    let flat = |bits, group, axis| json!({"quant_method": "hqq", "nbits": bits, "group_size": group, "axis": axis});
    for config in [flat(8, 16, 1), flat(4, 32, 1), flat(4, 16, 0)] {
        let config = json!({"quantization_config": config});
        assert_mentions(&refused("int4_axis1", &[], Some(&config)), &["W_q", "config.json"]);
    }
    let other = json!({"quantization_config": {"quant_method": "gptq", "bits": 4}});
    assert_mentions(&refused("int4_axis1", &[], Some(&other)), &["W_q", "gptq"]);
}
