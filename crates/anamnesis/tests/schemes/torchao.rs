//! Flattened torchao tensors with contradictory descriptions or parts, and unsupported types, are refused.

use crate::support;
use crate::support::{Contents, Folder, Model, assert_mentions, fixture, refused, remember};
use serde_json::{Value, json};

const WEIGHT: &str = "model.layers.0.mlp.down_proj.weight";

/// A fixture with another description.
fn described(case: &str, change: impl Fn(&mut Value)) -> Model {
    let contents = Contents::read(fixture(&format!("torchao/{case}.safetensors")));
    let add = |model: Model, (name, tensor): (&String, &support::Tensor)| {
        model.tensor(name, &tensor.dtype, &tensor.shape, &tensor.data)
    };
    let model = contents.tensors.iter().fold(Model::new(), add);
    let mut description: Value = serde_json::from_str(&contents.metadata.unwrap()[WEIGHT]).unwrap();
    change(&mut description);
    model.metadata(WEIGHT, &description.to_string())
}

#[test]
fn a_description_that_does_not_fit_its_parts_is_refused() {
    let dtype = |name: &str| json!({"_type": "torch.dtype", "_data": name});
    for (case, key, value) in [
        ("float8_row_bf16", "block_size", json!([2, 40])),
        ("float8_row_bf16", "block_size", json!("x")),
        ("float8_row_bf16", "dtype", json!(null)),
        ("float8_row_bf16", "dtype", dtype("int8")),
        ("int4_groups", "block_size", json!([1, 8])),
        ("int4_groups", "target_dtype", dtype("uint4")),
        ("mx_e4m3", "elem_dtype", dtype("float8_e5m2")),
        ("mx_e4m3", "block_size", json!(16)),
        ("mx_e4m3", "block_size", json!(0)),
        ("mx_e4m3", "orig_dtype", dtype("float16")),
        ("mx_e4m3", "is_swizzled_scales", json!(true)),
        ("mx_e4m3_swizzled", "is_swizzled_scales", json!(false)),
        ("mx_e4m3_swizzled", "is_swizzled_scales", json!("yes")),
        ("nvfp4", "block_size", json!(32)),
        ("nvfp4_swizzled", "is_swizzled_scales", json!(null)),
    ] {
        let model = described(case, |description| description["_data"][key] = value.clone());
        let error = refused(&model, None).to_string();
        assert_mentions(&error, &["down_proj"]);
    }
}

#[test]
fn types_that_are_not_decoded_are_refused_by_their_names() {
    for kind in ["Int4Tensor", "Int4PlainInt32Tensor", "Int4TilePackedTo4dTensor", "AffineQuantizedTensor"] {
        let model = described("int8_row", |description| description["_type"] = json!(kind));
        assert_mentions(&refused(&model, None).to_string(), &["torchao", WEIGHT, kind]);
    }
}

#[test]
fn parts_that_are_missing_or_not_described_are_refused() {
    let lost = described("int8_row", |description| description["_tensor_data_names"] = json!(["qdata", "scale"]));
    assert_mentions(&refused(&lost, None).to_string(), &["_weight_zero_point", "does not list it"]);
    let more = ["qdata", "scale", "zero_point", "act_pre_scale"];
    let more = described("int8_row", |description| description["_tensor_data_names"] = json!(more));
    assert_mentions(&refused(&more, None).to_string(), &["there is no", "_weight_act_pre_scale"]);
    let smoothed = more.tensor("model.layers.0.mlp.down_proj._weight_act_pre_scale", "BF16", &[1], &[0; 2]);
    assert_mentions(&refused(&smoothed, None).to_string(), &["Int8Tensor", "_weight_act_pre_scale"]);
}

#[test]
fn a_decoded_file_that_still_describes_its_tensors_is_plain() {
    let model = described("int8_row", |_| {});
    let decoded = remember(&model, None);
    let names: Vec<_> = decoded.tensors.keys().map(String::as_str).collect();
    assert_eq!(names, ["model.layers.0.mlp.down_proj.bias", WEIGHT]);
    let metadata = decoded.metadata.clone().unwrap();
    let empty = metadata.iter().fold(Model::new(), |model, (key, value)| model.metadata(key, value));
    let again = decoded
        .tensors
        .iter()
        .fold(empty, |model, (name, tensor)| model.tensor(name, &tensor.dtype, &tensor.shape, &tensor.data));
    assert_eq!(remember(&again, None).tensors, decoded.tensors);
}

#[test]
fn parts_in_several_shards_are_found_and_described_by_any_of_them() {
    let contents = Contents::read(fixture("torchao/int8_row.safetensors"));
    let folder = Folder::new();
    let mut map = serde_json::Map::new();
    let count = contents.tensors.len();
    for (index, (name, tensor)) in contents.tensors.iter().enumerate() {
        let file = format!("model-{:05}-of-{count:05}.safetensors", index + 1);
        let mut model = Model::new().tensor(name, &tensor.dtype, &tensor.shape, &tensor.data);
        if index + 1 == count {
            model = model.metadata(WEIGHT, &contents.metadata.as_ref().unwrap()[WEIGHT]);
        }
        folder.write(&file, model.bytes());
        map.insert(name.clone(), json!(file));
    }
    folder.write("model.safetensors.index.json", json!({"weight_map": map}).to_string());
    let checkpoint = anamnesis::Checkpoint::open(folder.path(""), &anamnesis::ParseLimits::default()).unwrap();
    let expected = Contents::read(fixture("torchao/int8_row.expected.safetensors"));
    assert_eq!(checkpoint.decode::<f32>(WEIGHT).unwrap(), expected.floats(&format!("{WEIGHT}.f32")));
}

#[test]
fn codes_of_another_type_than_configured_are_refused() {
    let model = described("float8_row_bf16", |_| {});
    let dtype = |name: &str| json!({"_type": "torch.dtype", "_data": name});
    let done = |kind: &str, data: Value| json!({"default": {"_type": kind, "_version": 2, "_data": data}});
    let of = |quant_type: Value| json!({"quantization_config": {"quant_method": "torchao", "quant_type": quant_type}});
    for quant_type in [
        json!("float8_weight_only"),
        done("Float8WeightOnlyConfig", json!({"weight_dtype": dtype("float8_e4m3fn")})),
        done("Float8WeightOnlyConfig", json!({})),
        json!({"fqn_to_config": {"a": {"_type": "Float8WeightOnlyConfig", "_data": {"weight_dtype": dtype("float8_e5m2")}},
            "b": {"_type": "Float8WeightOnlyConfig", "_data": {"weight_dtype": dtype("float8_e4m3fn")}}}}),
    ] {
        remember(&model, Some(&of(quant_type)));
    }
    let other = done("Float8WeightOnlyConfig", json!({"weight_dtype": dtype("float8_e5m2")}));
    assert_mentions(
        &refused(&model, Some(&of(other))).to_string(),
        &["_weight_qdata", "F8_E4M3", "F8_E5M2", "quant_type"],
    );
}
