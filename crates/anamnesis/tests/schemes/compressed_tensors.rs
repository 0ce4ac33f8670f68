//! compressed-tensors checkpoints with contradictory or missing parts are refused by name; every form that the library
//! reads is supported.

use crate::support;
use crate::support::{Contents, Folder, Model, assert_mentions, parse_reason, refused, remember};
use anamnesis::{AnamnesisError, ConvertOptions, ConvertTarget, convert};
use serde_json::{Value, json};

/// The bytes of integers.
fn i64s(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn i32s(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The parts of a weight of 2 rows and 16 columns in groups of 8: every code is 9, one above the middle, and every
/// scale 2.
fn parts() -> Vec<(&'static str, &'static str, Vec<usize>, Vec<u8>)> {
    vec![
        ("a.weight_packed", "I32", vec![2, 2], vec![0x99; 16]),
        ("a.weight_scale", "F32", vec![2, 2], support::le_bytes(&[2.0; 4])),
        ("a.weight_shape", "I64", vec![2], i64s(&[2, 16])),
    ]
}

fn built(parts: &[(&'static str, &'static str, Vec<usize>, Vec<u8>)]) -> Model {
    parts.iter().fold(Model::new(), |model, (name, dtype, shape, bytes)| model.tensor(name, dtype, shape, bytes))
}

/// The weight in another module.
fn with_module(module: &str) -> Model {
    parts().into_iter().fold(Model::new(), |model, (name, dtype, shape, bytes)| {
        model.tensor(&name.replacen('a', module, 1), dtype, &shape, &bytes)
    })
}

/// The weight with one part replaced or added.
fn with(name: &'static str, dtype: &'static str, shape: &[usize], bytes: Vec<u8>) -> Model {
    let mut parts = parts();
    parts.retain(|part| part.0 != name);
    parts.push((name, dtype, shape.to_vec(), bytes));
    built(&parts)
}

fn weights() -> Value {
    json!({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 8, "symmetric": true})
}

/// A configuration with these members instead of those of the weights.
fn config(more: Value) -> Value {
    let mut weights = weights();
    weights.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    of_groups(json!({"group_0": {"targets": ["Linear"], "weights": weights}}), json!({"format": "pack-quantized"}))
}

fn of_groups(groups: Value, more: Value) -> Value {
    let mut config = json!({"quant_method": "compressed-tensors", "version": "0.20.0", "config_groups": groups});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"quantization_config": config})
}

fn plain() -> Value {
    config(json!({}))
}

/// Asserts that a model is refused with an error that mentions these words.
#[track_caller]
fn assert_refused(model: &Model, config: &Value, words: &[&str]) {
    assert_mentions(&refused(model, Some(config)).to_string(), words);
}

fn values(model: &Model, config: &Value) -> Vec<f32> {
    remember(model, Some(config)).floats("a.weight")
}

#[test]
fn a_weight_is_decoded_as_configured() {
    assert_eq!(values(&built(&parts()), &plain()), [2.0; 32]);
    let i32_shape = with("a.weight_shape", "I32", &[2], i32s(&[2, 16]));
    assert_eq!(values(&i32_shape, &plain()), [2.0; 32]);
}

#[test]
fn a_shape_that_does_not_fit_the_words_and_scales_is_refused() {
    for shape in [[2, 15], [2, 17], [2, 8], [2, 32], [3, 16], [16, 2], [-2, 16], [2, -16], [2, 0], [2, i64::MAX]] {
        let model = with("a.weight_shape", "I64", &[2], i64s(&shape));
        assert_refused(&model, &plain(), &["\"a.weight_packed\"", "weight_shape"]);
    }
    // Rows with one scale may end anywhere in their last word, but nowhere else.
    let rows = config(json!({"strategy": "channel", "group_size": null}));
    let of_columns = |columns: i64| {
        let mut parts = parts();
        // The bits after the last code are zero.
        let code = |nibble: i64| if nibble < columns || columns < 9 { 9 } else { 0 };
        let row: Vec<_> = (0..8).map(|byte| code(2 * byte) | code(2 * byte + 1) << 4).collect();
        parts[0].3 = [row.clone(), row].concat();
        parts[1] = ("a.weight_scale", "F32", vec![2, 1], support::le_bytes(&[2.0; 2]));
        parts[2] = ("a.weight_shape", "I64", vec![2], i64s(&[2, columns]));
        built(&parts)
    };
    for columns in 9..=16 {
        assert_eq!(values(&of_columns(columns), &rows), vec![2.0; 2 * columns as usize]);
    }
    let mut filled = parts();
    filled[1] = ("a.weight_scale", "F32", vec![2, 1], support::le_bytes(&[2.0; 2]));
    filled[2] = ("a.weight_shape", "I64", vec![2], i64s(&[2, 15]));
    assert_refused(&built(&filled), &rows, &["\"a.weight", "padding bits of 4-bit codes are set"]);
    for columns in [8, 17, 1, 0, -1] {
        assert_refused(&of_columns(columns), &rows, &["\"a.weight_packed\"", "weight_shape"]);
    }
    for (dtype, shape, bytes) in [
        ("I64", &[3][..], i64s(&[1, 2, 16])),
        ("I64", &[1], i64s(&[32])),
        ("I64", &[2, 1], i64s(&[2, 16])),
        ("I16", &[2], vec![2, 0, 16, 0]),
        ("F32", &[2], support::le_bytes(&[2.0, 16.0])),
    ] {
        assert_refused(&with("a.weight_shape", dtype, shape, bytes), &plain(), &["\"a.weight_shape\"", dtype]);
    }
}

#[test]
fn a_missing_or_surplus_part_is_named() {
    for missing in ["a.weight_scale", "a.weight_shape"] {
        let rest: Vec<_> = parts().into_iter().filter(|part| part.0 != missing).collect();
        assert_refused(&built(&rest), &plain(), &["\"a.weight_packed\"", "has no", missing]);
    }
    let asymmetric = config(json!({"symmetric": false}));
    assert_refused(&built(&parts()), &asymmetric, &["not symmetric", "\"a.weight_zero_point\""]);
    let ordered = config(json!({"actorder": "group"}));
    let mut old = ordered.clone();
    old["quantization_config"]["version"] = json!("0.11.0");
    assert_refused(&built(&parts()), &old, &["config_groups.group_0", "has no \"a.weight_g_idx\""]);
    // The version that packs without gaps has no index.
    assert_eq!(values(&built(&parts()), &ordered), [2.0; 32]);
    let global = with("a.weight_global_scale", "F32", &[1], support::le_bytes(&[1.0]));
    assert_refused(&global, &plain(), &["\"a.weight_packed\"", "\"a.weight_global_scale\"", "pack-quantized"]);
}

#[test]
fn parts_of_another_type_or_shape_are_refused() {
    for (name, dtype, shape, bytes) in [
        ("a.weight_packed", "I64", &[2, 1][..], vec![0x99; 16]),
        ("a.weight_packed", "U32", &[2, 2], vec![0x99; 16]),
        ("a.weight_packed", "U8", &[2, 8], vec![0x99; 16]),
        ("a.weight_packed", "I32", &[4], vec![0x99; 16]),
        ("a.weight_packed", "I32", &[2, 3], vec![0x99; 24]),
        ("a.weight_scale", "F64", &[2, 2], vec![0; 32]),
        ("a.weight_scale", "F8_E4M3", &[2, 2], vec![0x38; 4]),
        ("a.weight_scale", "F32", &[2, 1], vec![0; 8]),
        ("a.weight_scale", "F32", &[4], vec![0; 16]),
        ("a.weight_scale", "F32", &[2, 4], vec![0; 32]),
        ("a.weight_g_idx", "I64", &[16], vec![0; 128]),
        ("a.weight_g_idx", "I32", &[8], vec![0; 32]),
    ] {
        assert_refused(&with(name, dtype, shape, bytes), &plain(), &["\"a.weight_packed\""]);
    }
}

#[test]
fn zero_points_that_do_not_fit_are_refused() {
    let asymmetric = config(json!({"symmetric": false}));
    // Both rows in one word; those that are packed are 8 like the codes' middle, less one.
    let packed = |shape: &[usize], bytes| with("a.weight_zero_point", "I32", shape, bytes);
    assert_eq!(values(&packed(&[1, 2], vec![0x77; 8]), &asymmetric), [4.0; 32]);
    let as_bytes = with("a.weight_zero_point", "I8", &[2, 2], vec![0xFF; 4]);
    assert_eq!(values(&as_bytes, &asymmetric), [4.0; 32]);
    for (shape, bytes) in
        [(&[2, 2][..], vec![0; 16]), (&[1, 1], vec![0; 4]), (&[2], vec![0; 8]), (&[1, 2, 1], vec![0; 8])]
    {
        assert_refused(&packed(shape, bytes), &asymmetric, &["\"a.weight_packed\""]);
    }
    let other_type = with("a.weight_zero_point", "U8", &[2, 2], vec![0; 4]);
    assert_refused(&other_type, &asymmetric, &["\"a.weight_zero_point\"", "U8", "I8"]);
    assert_refused(&packed(&[1, 2], vec![0x77; 8]), &plain(), &["\"a.weight_zero_point\"", "I8"]);
}

#[test]
fn an_index_of_uneven_groups_or_groups_that_are_not_there_is_refused() {
    let index = |groups: &[i32]| with("a.weight_g_idx", "I32", &[16], i32s(groups));
    let alternating: Vec<i32> = (0..16).map(|column| column % 2).collect();
    assert_eq!(values(&index(&alternating), &plain()), [2.0; 32]);
    // An index that was never set is ignored.
    assert_eq!(values(&index(&[-1; 16]), &plain()), [2.0; 32]);
    let mut uneven = alternating.clone();
    uneven[0] = 1;
    assert_refused(&index(&uneven), &plain(), &["7 columns into group 0"]);
    for wrong in [2, -2, i32::MAX] {
        let mut outside = alternating.clone();
        outside[3] = wrong;
        assert_refused(&index(&outside), &plain(), &["column 3", &wrong.to_string(), "there are 2"]);
    }
}

#[test]
fn arguments_that_contradict_what_is_stored_are_refused() {
    for more in [
        json!({"num_bits": 8}),
        json!({"num_bits": 5}),
        json!({"num_bits": 0}),
        json!({"num_bits": 16}),
        json!({"num_bits": null}),
        json!({"type": "float"}),
        json!({"type": "nf"}),
        json!({"strategy": "tensor"}),
        json!({"strategy": "tensor", "group_size": null}),
        json!({"strategy": "channel", "group_size": null}),
        json!({"strategy": "token", "group_size": null}),
        json!({"strategy": "block", "group_size": null}),
        json!({"strategy": "block", "group_size": null, "block_structure": [8, 8]}),
        json!({"group_size": 16}),
        json!({"group_size": 7}),
        json!({"group_size": 0}),
        json!({"group_size": i64::MAX}),
        json!({"group_size": -1}),
    ] {
        assert_refused(&built(&parts()), &config(more), &["\"a.weight_packed\""]);
    }
    // Without a strategy, the group size determines it.
    assert_eq!(values(&built(&parts()), &config(json!({"strategy": null}))), [2.0; 32]);
}

#[test]
fn formats_that_are_not_decoded_are_refused_by_their_names() {
    for format in ["sparse-24-bitmask", "sparse-bitmask", "something-new"] {
        let mut config = plain();
        config["quantization_config"]["format"] = json!(format);
        match refused(&built(&parts()), Some(&config)) {
            AnamnesisError::Unsupported { format: found, detail } => {
                assert_eq!(found, format);
                assert_mentions(&detail, &["\"a.weight_packed\"", "config.json"]);
            }
            other => panic!("{format}: {other:?}"),
        }
    }
    let mut config = plain();
    config["quantization_config"]["format"] = json!("marlin-24");
    assert_refused(&built(&parts()), &config, &["\"a.weight_packed\"", "\"a.weight_shape\"", "marlin-24"]);
    for format in ["int-quantized", "float-quantized", "nvfp4-pack-quantized", "mxfp6-pack-quantized", "dense"] {
        let mut config = plain();
        config["quantization_config"]["format"] = json!(format);
        assert_refused(&built(&parts()), &config, &["\"a.weight_packed\"", format, "stored as pack-quantized"]);
    }
}

#[test]
fn sparse_weights_are_expanded_by_their_masks() {
    let sparse = |mask: u8, values: usize, shape: [i64; 2]| {
        let halves: Vec<u8> = (0..values).flat_map(|_| [0x80, 0x3f]).collect();
        Model::new()
            .tensor("a.compressed", "BF16", &[values], &halves)
            .tensor("a.bitmask", "U8", &[1, 1], &[mask])
            .tensor("a.shape", "I64", &[2], &i64s(&shape))
            .tensor("a.row_offsets", "I64", &[1], &i64s(&[0]))
    };
    let decoded = remember(&sparse(0b0010_0101, 3, [1, 6]), None);
    assert_eq!(decoded.floats("a.weight"), [1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    for (model, word) in [
        (sparse(0b0010_0101, 4, [1, 6]), "3 places for 4 values"),
        (sparse(0b1000_0101, 3, [1, 6]), "3 places for 3 values"),
        (sparse(0b0010_0101, 3, [1, 9]), "[1, 9]"),
        (sparse(0b0010_0101, 3, [2, 6]), "[2, 6]"),
    ] {
        assert_mentions(&refused(&model, None).to_string(), &["tensor \"a.", word]);
    }
    let pairs = |mask: u8| {
        Model::new()
            .tensor("a.compressed", "F8_E4M3", &[1, 2], &[0x38, 0x38])
            .tensor("a.bitmask", "U8", &[1, 1], &[mask])
            .tensor("a.shape", "I64", &[2, 1], &i64s(&[1, 4]))
            .floats("a.weight_scale", &[1], &[2.0])
    };
    assert_eq!(remember(&pairs(0b1010), None).floats("a.weight"), [0.0, 2.0, 0.0, 2.0]);
    assert_mentions(&refused(&pairs(0b0001_1000), None).to_string(), &["\"a.weight\"", "2 places"]);
}

#[test]
fn without_a_configuration_only_unambiguous_types_are_decoded() {
    let error = refused(&built(&parts()), None).to_string();
    assert_mentions(&error, &["\"a.weight_packed\"", "no configuration says"]);
    let model = nvfp4("F8_E4M3", &[1], "F32");
    assert_eq!(remember(&model, None).floats("a.weight"), [0.5; 32]);
    for other in [json!({"quant_method": "gptq", "bits": 4}), json!({"quant_method": "fp8"})] {
        let config = json!({"quantization_config": other});
        assert_refused(&model, &config, &["\"a.weight_packed\"", "quantised by"]);
    }
    let groups = of_groups(json!({"g": {"targets": ["re:b.*"], "weights": weights()}}), json!({}));
    assert_refused(&built(&parts()), &groups, &["\"a.weight_packed\"", "no group of weights for it"]);
    let unreadable = of_groups(json!({"g": {"targets": ["re:(?!b)"], "weights": weights()}}), json!({}));
    assert_refused(&built(&parts()), &unreadable, &["\"a.weight_packed\"", "cannot be determined", "(?!b)"]);
}

/// Rows of codes 2, which is 1.0, with scales of 1 and a global scale of 2.
fn nvfp4(scale: &str, global: &[usize], global_type: &str) -> Model {
    let global_bytes = if global_type == "F32" { support::le_bytes(&[2.0]) } else { vec![0x00, 0x40] };
    Model::new()
        .tensor("a.weight_packed", "U8", &[2, 8], &[0x22; 16])
        .tensor("a.weight_scale", scale, &[2, 1], &[0x38; 2])
        .tensor("a.weight_global_scale", global_type, global, &global_bytes)
}

fn nvfp4_config(more: Value) -> Value {
    let mut weights = json!({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16});
    weights.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    of_groups(json!({"g": {"targets": ["Linear"], "weights": weights}}), json!({"format": "nvfp4-pack-quantized"}))
}

#[test]
fn four_bit_floats_are_checked_against_their_configuration() {
    for shape in [&[][..], &[1]] {
        assert_eq!(values(&nvfp4("F8_E4M3", shape, "F32"), &nvfp4_config(json!({}))), [0.5; 32]);
    }
    for (model, words) in [
        (nvfp4("F8_E4M3", &[1, 1], "F32"), ["\"a.weight_global_scale\"", "one F32"]),
        (nvfp4("F8_E4M3", &[1], "BF16"), ["\"a.weight_global_scale\"", "BF16"]),
        (nvfp4("F8_E5M2", &[1], "F32"), ["\"a.weight_scale\"", "F8_E5M2"]),
        (nvfp4("U8", &[1], "F32"), ["\"a.weight_packed\"", "mxfp4-pack-quantized"]),
    ] {
        assert_refused(&model, &nvfp4_config(json!({})), &words);
    }
    for more in [
        json!({"num_bits": 8}),
        json!({"type": "int"}),
        json!({"group_size": 32}),
        json!({"group_size": 8}),
        json!({"symmetric": false}),
        json!({"strategy": "channel", "group_size": null}),
    ] {
        assert_refused(&nvfp4("F8_E4M3", &[1], "F32"), &nvfp4_config(more), &["\"a.weight_packed\""]);
    }
    let alone = Model::new().tensor("a.weight_packed", "U8", &[2, 8], &[0x22; 16]).tensor(
        "a.weight_scale",
        "F8_E4M3",
        &[2, 1],
        &[0x38; 2],
    );
    for config in [None, Some(nvfp4_config(json!({})))] {
        let error = refused(&alone, config.as_ref()).to_string();
        assert_mentions(&error, &["\"a.weight_packed\"", "has no \"a.weight_global_scale\""]);
    }
}

#[test]
fn groups_for_one_module_must_agree() {
    let group = |target: &str, bits: usize| {
        let mut weights = weights();
        weights["num_bits"] = json!(bits);
        json!({"targets": [target], "weights": weights})
    };
    let of = |first: Value, second: Value| of_groups(json!({"g0": first, "g1": second}), json!({}));
    // A name takes precedence over an expression, and both over a class.
    for (first, second) in [("a", "re:a"), ("a", "Linear"), ("re:.*", "Linear")] {
        assert_eq!(values(&built(&parts()), &of(group(first, 4), group(second, 8))), [2.0; 32], "{first}");
        assert_refused(&built(&parts()), &of(group(first, 8), group(second, 4)), &["\"a.weight_packed\""]);
    }
    let twice = of(group("re:a", 4), group("re:.*", 8));
    assert_refused(&built(&parts()), &twice, &["\"a.weight_packed\"", "g0", "g1", "both apply to it"]);
    assert_eq!(values(&built(&parts()), &of(group("re:a", 4), group("re:.*", 4))), [2.0; 32]);
    // No file records the class of a module: the group that matches the shapes is used.
    assert_eq!(values(&built(&parts()), &of(group("Embedding", 8), group("Linear", 4))), [2.0; 32]);
    let activations = json!({"targets": ["Attention"], "weights": null, "input_activations": {"num_bits": 8}});
    assert_eq!(values(&built(&parts()), &of(activations, group("Linear", 4))), [2.0; 32]);
}

#[test]
fn a_format_for_each_group_is_the_format_of_its_weights() {
    let group = |format: &str| json!({"g": {"targets": ["Linear"], "weights": weights(), "format": format}});
    let mixed = |format: &str| of_groups(group(format), json!({"format": "mixed-precision"}));
    assert_eq!(values(&built(&parts()), &mixed("pack-quantized")), [2.0; 32]);
    assert_refused(&built(&parts()), &mixed("int-quantized"), &["\"a.weight_packed\"", "int-quantized"]);
    let untold =
        of_groups(json!({"g": {"targets": ["Linear"], "weights": weights()}}), json!({"format": "mixed-precision"}));
    assert_eq!(values(&built(&parts()), &untold), [2.0; 32]);
}

#[test]
fn ambiguous_padding_of_packed_words_is_refused() {
    // 16 codes of 3 bits take two words either way.
    let model = Model::new()
        .tensor("a.weight_packed", "I32", &[1, 2], &[0; 8])
        .floats("a.weight_scale", &[1, 1], &[1.0])
        .tensor("a.weight_shape", "I64", &[2], &i64s(&[1, 16]));
    let of_version = |version: Value| {
        let mut config = config(json!({"num_bits": 3, "strategy": "channel", "group_size": null}));
        config["quantization_config"]["version"] = version;
        config
    };
    for version in ["0.20.0", "0.11.0", "1.2", "0.9.4.dev1"] {
        assert_eq!(values(&model, &of_version(json!(version))), [-4.0; 16], "{version}");
    }
    for version in [json!("0.15.0"), Value::Null, json!("")] {
        assert_refused(&model, &of_version(version), &["\"a.weight_packed\"", "gaps between them or not"]);
    }
}

#[test]
fn bytes_are_weights_only_with_a_compressed_tensors_configuration() {
    let model = |scale: &[usize]| {
        let count = scale.iter().product();
        Model::new().tensor("a.weight", "I8", &[2, 4], &[0xFE; 8]).floats("a.weight_scale", scale, &vec![0.5; count])
    };
    let config = |more: Value| {
        let mut weights = json!({"num_bits": 8, "type": "int", "strategy": "channel"});
        weights.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        of_groups(json!({"g": {"targets": ["Linear"], "weights": weights}}), json!({"format": "int-quantized"}))
    };
    assert_eq!(values(&model(&[2, 1]), &config(json!({}))), [-1.0; 8]);
    assert_eq!(values(&model(&[1]), &config(json!({"strategy": "tensor"}))), [-1.0; 8]);
    for (shape, more) in [
        (&[2][..], json!({})),
        (&[1], json!({})),
        (&[2, 2], json!({})),
        (&[2, 1], json!({"strategy": "tensor"})),
        (&[2, 1], json!({"strategy": "group", "group_size": 2})),
        (&[2, 2], json!({"strategy": "group", "group_size": 3})),
        (&[2, 1], json!({"strategy": "block", "block_structure": [1, 2]})),
        (&[2, 1], json!({"symmetric": false})),
        (&[2, 1], json!({"type": "float"})),
    ] {
        assert_refused(&model(shape), &config(more), &["\"a.weight\""]);
    }
    assert_mentions(&refused(&model(&[2, 1]), None).to_string(), &["integer weights with scales", "\"a.weight\""]);
}

#[test]
fn activation_scales_are_dropped_with_their_weights() {
    let model = built(&parts())
        .floats("a.input_scale", &[1], &[1.0])
        .floats("a.input_global_scale", &[1], &[1.0])
        .tensor("a.input_zero_point", "I8", &[1], &[3])
        .floats("a.output_scale", &[], &[1.0])
        .floats("a.bias", &[2], &[1.0, 2.0]);
    assert_eq!(remember(&model, Some(&plain())).names(), ["a.bias", "a.weight"]);
    // A scale per head of the module that contains the weights.
    let heads = with_module("m.a").floats("m.k_scale", &[4, 1, 1], &[1.0; 4]).floats("m.v_scale", &[4], &[1.0; 4]);
    assert_eq!(remember(&heads, Some(&plain())).names(), ["m.a.weight"]);
    let elsewhere = built(&parts()).floats("b.input_global_scale", &[1], &[1.0]);
    assert_refused(&elsewhere, &plain(), &["\"b.input_global_scale\""]);
}

#[test]
fn a_weight_whose_parts_are_in_another_file_is_refused_with_its_place() {
    let folder = Folder::staged(&built(&parts()[..1]).bytes(), Some(&plain()));
    let map = json!({"a.weight_packed": "model.safetensors", "a.weight_scale": "other.safetensors",
        "a.weight_shape": "other.safetensors"});
    folder.write("model.safetensors.index.json", json!({"weight_map": map}).to_string());
    assert_mentions(&folder.refused().to_string(), &["\"a.weight_packed\"", "other.safetensors"]);
}

#[test]
fn a_decoded_directory_has_no_quantization_config() {
    let mut config = plain();
    config["model_type"] = json!("llama");
    let folder = Folder::staged(&built(&parts()).bytes(), Some(&config));
    let place = Folder::new();
    let output = place.path("out");
    convert(&folder.path(""), ConvertTarget::Safetensors, &output, &ConvertOptions::new()).unwrap();
    let written: Value = serde_json::from_slice(&std::fs::read(output.join("config.json")).unwrap()).unwrap();
    assert_eq!(written["model_type"], "llama");
    assert!(written.get("quantization_config").is_none(), "{written}");
    assert_eq!(Contents::read(output.join("model.safetensors")).names(), ["a.weight"]);
}

#[test]
fn six_bit_floats_without_a_configuration_are_refused_by_their_name() {
    let model = |bytes: usize, scales: usize| {
        Model::new().tensor("a.weight_packed", "U8", &[2, bytes], &vec![0; 2 * bytes]).tensor(
            "a.weight_scale",
            "U8",
            &[2, scales],
            &vec![127; 2 * scales],
        )
    };
    for scales in [1, 3, 4] {
        match refused(&model(24 * scales, scales), None) {
            AnamnesisError::Unsupported { format, detail } => {
                assert_eq!(format, "mxfp6-pack-quantized");
                assert_mentions(&detail, &["\"a.weight_packed\"", "six bits"]);
            }
            other => panic!("{other:?}"),
        }
    }
    // Four bits are decoded, and other sizes fit neither.
    assert_eq!(remember(&model(16, 1), None).floats("a.weight").len(), 64);
    assert_mentions(&parse_reason(refused(&model(40, 2), None)), &["\"a.weight_packed\""]);
}
