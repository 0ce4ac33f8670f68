//! Claiming is fail-closed: missing, duplicate or contradictory tensors are refused by name, and a refusal leaves no
//! output.

use crate::support::{Contents, Folder, Model, assert_mentions, limit_tag, parse_reason, refused, remember};
use anamnesis::{AnamnesisError, QuantScheme, TargetDtype, parse, parse_bytes};
use serde_json::{Value, json};

/// 1.0 and 2.0 in E4M3.
const ONE: u8 = 0x38;
const TWO: u8 = 0x40;

fn fp8(model: Model, name: &str, shape: &[usize]) -> Model {
    model.tensor(name, "F8_E4M3", shape, &vec![ONE; shape.iter().product()])
}

fn fp8_config(block: &[usize]) -> Value {
    json!({"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": block}})
}

fn ct_config(strategy: &str) -> Value {
    json!({"quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {
        "group_0": {"weights": {"type": "float", "num_bits": 8, "strategy": strategy}}}}})
}

// Missing scales

#[test]
fn a_weight_without_a_scale_among_scaled_ones_is_refused() {
    let model = fp8(fp8(Model::new(), "a.weight", &[2, 2]), "b.weight", &[2, 2]).floats("a.weight_scale", &[1], &[2.0]);
    let reason = parse_reason(refused(&model, None));
    assert_mentions(&reason, &["\"b.weight\"", "\"b.weight_scale_inv\"", "\"b.weight_scale\"", "other weights"]);
}

#[test]
fn a_weight_without_a_scale_in_a_configured_model_is_refused() {
    let reason = parse_reason(refused(&fp8(Model::new(), "a.weight", &[2, 2]), Some(&fp8_config(&[128, 128]))));
    assert_mentions(&reason, &["\"a.weight\"", "config.json", "\"fp8\""]);
}

#[test]
fn a_model_without_any_scale_or_configuration_is_a_plain_cast() {
    let model = Model::new().tensor("a.weight", "F8_E4M3", &[1, 2], &[ONE, TWO]);
    assert_eq!(remember(&model, None).floats("a.weight"), [1.0, 2.0]);
}

#[test]
fn a_configuration_without_quantisation_leaves_a_plain_cast_plain() {
    let model = Model::new().tensor("a.weight", "F8_E4M3", &[1, 2], &[ONE, TWO]);
    let config = json!({"architectures": ["X"], "quantization_config": null});
    assert_eq!(remember(&model, Some(&config)).floats("a.weight"), [1.0, 2.0]);
}

#[test]
fn an_ignore_list_allows_a_weight_without_a_scale() {
    for list in ["modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"] {
        let mut config = fp8_config(&[128, 128]);
        config["quantization_config"][list] = json!(["lm_head"]);
        let model = fp8(Model::new(), "lm_head.weight", &[1, 2]).floats("a.weight_scale_inv", &[1, 1], &[3.0]);
        let output = remember(&fp8(model, "a.weight", &[1, 2]), Some(&config));
        assert_eq!(output.floats("lm_head.weight"), [1.0, 1.0], "{list}");
        assert_eq!(output.floats("a.weight"), [3.0, 3.0], "{list}");
    }
}

#[test]
fn a_scale_with_an_unknown_name_is_not_ignored() {
    for name in ["a.weight_scale_2", "a.weight_block_scale", "a.scale_of_weight"] {
        let model = fp8(Model::new(), "a.weight", &[2, 2]).floats(name, &[1], &[2.0]);
        assert_mentions(&refused(&model, None).to_string(), &["\"a.weight\"", name]);
    }
}

// Scales that do not match

#[test]
fn any_scale_like_sibling_of_an_unscaled_weight_is_not_ignored() {
    for scale in
        ["a.scales", "a.weight.scale", "a.w_scale", "a.weight_quantizer._amax", "a.weight._scale", "a.fp8_scale"]
    {
        let model = fp8(Model::new(), "a.weight", &[2, 2]).floats(scale, &[1], &[2.0]);
        let reason = parse_reason(refused(&model, None));
        assert_mentions(&reason, &["\"a.weight\"", &format!("{scale:?} in its module is not understood")]);
    }
    // Elsewhere it does not belong to this weight.
    for scale in ["b.scale", "a.norm.scale", "logit_scale", "b.output_scale"] {
        let model = fp8(Model::new(), "a.weight", &[1, 2]).floats(scale, &[1], &[2.0]);
        assert_eq!(remember(&model, None).floats("a.weight"), [1.0, 1.0], "{scale}");
    }
}

#[test]
fn a_scale_of_the_wrong_shape_is_refused_with_both_shapes() {
    for (shape, count) in [(&[3][..], 3), (&[2, 3], 6), (&[3, 2], 6), (&[0], 0), (&[1, 1, 1], 1), (&[300], 300)] {
        let model = fp8(Model::new(), "a.weight", &[257, 300]).floats("a.weight_scale_inv", shape, &vec![1.0; count]);
        let reason = parse_reason(refused(&model, None));
        assert_mentions(&reason, &["\"a.weight_scale_inv\"", &format!("{shape:?}"), "[257, 300]"]);
    }
}

#[test]
fn a_scale_that_contradicts_the_configured_blocks_is_refused() {
    let model = fp8(Model::new(), "a.weight", &[256, 256]).floats("a.weight_scale_inv", &[2, 2], &[1.0; 4]);
    assert_eq!(remember(&model, Some(&fp8_config(&[128, 128]))).floats("a.weight").len(), 65_536);
    for block in [[64, 64], [256, 256], [1, 128], [128, 64]] {
        let reason = parse_reason(refused(&model, Some(&fp8_config(&block))));
        assert_mentions(&reason, &["\"a.weight_scale_inv\"", "[2, 2]", "[256, 256]", "config.json"]);
    }
}

#[test]
fn a_configured_block_size_that_is_no_pair_is_refused() {
    let model = fp8(Model::new(), "a.weight", &[256, 256]).floats("a.weight_scale_inv", &[2, 2], &[1.0; 4]);
    for block in [json!("x"), json!([0, 0]), json!([128]), json!([128, -1]), json!(128)] {
        let config = json!({"quantization_config": {"quant_method": "fp8", "weight_block_size": block}});
        let reason = parse_reason(refused(&model, Some(&config)));
        assert_mentions(&reason, &["config.json: quantization_config.weight_block_size is ", "a pair of positive"]);
    }
}

#[test]
fn a_scale_that_contradicts_the_configured_strategy_is_refused() {
    let model = fp8(Model::new(), "a.weight", &[4, 3]).floats("a.weight_scale", &[4, 1], &[1.0; 4]);
    assert_eq!(remember(&model, Some(&ct_config("channel"))).floats("a.weight").len(), 12);
    let reason = parse_reason(refused(&model, Some(&ct_config("tensor"))));
    assert_mentions(&reason, &["\"a.weight_scale\"", "[4, 1]", "config.json"]);
}

#[test]
fn a_configured_format_that_contradicts_the_dtype_is_refused() {
    let model =
        Model::new().tensor("a.weight", "F8_E5M2", &[1, 1], &[0x3c]).floats("a.weight_scale_inv", &[1, 1], &[1.0]);
    let reason = parse_reason(refused(&model, Some(&fp8_config(&[128, 128]))));
    assert_mentions(&reason, &["\"a.weight\"", "F8_E5M2", "e4m3", "config.json"]);
}

#[test]
fn a_format_implied_by_the_configuration_applies() {
    let fnuz = Model::new().tensor("a.weight", "F8_E4M3FNUZ", &[1, 1], &[ONE]).floats("a.weight_scale", &[1], &[1.0]);
    let e5m2 = Model::new().tensor("a.weight", "F8_E5M2", &[1, 1], &[0x3c]).floats("a.weight_scale", &[1], &[1.0]);
    let modelopt = json!({"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}});
    for (model, config) in [
        (&fnuz, json!({"quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}})),
        (&fnuz, ct_config("tensor")),
        (&e5m2, ct_config("tensor")),
        (&e5m2, modelopt),
    ] {
        assert_mentions(&parse_reason(refused(model, Some(&config))), &["\"a.weight\"", "e4m3", "config.json"]);
    }
    let mut integers = ct_config("tensor");
    integers["quantization_config"]["config_groups"]["group_0"]["weights"]["type"] = json!("int");
    let model = fp8(Model::new(), "a.weight", &[1, 1]).floats("a.weight_scale", &[1], &[1.0]);
    assert_mentions(&parse_reason(refused(&model, Some(&integers))), &["\"a.weight\"", "eight-bit floats"]);
}

#[test]
fn e8m0_tensors_are_not_quantised_weights() {
    let model = Model::new().tensor("a.weight", "F8_E8M0", &[1, 2], &[127; 2]).floats("a.weight_scale", &[1], &[2.0]);
    assert_mentions(&parse_reason(refused(&model, None)), &["\"a.weight\"", "powers of two"]);
}

#[test]
fn a_weight_with_two_scales_is_refused_with_both_names() {
    let model = fp8(Model::new(), "a.weight", &[2, 2]);
    let model = model.floats("a.weight_scale", &[1], &[1.0]).floats("a.weight_scale_inv", &[1], &[1.0]);
    assert_mentions(
        &parse_reason(refused(&model, None)),
        &["\"a.weight\"", "a.weight_scale\"", "a.weight_scale_inv\""],
    );
}

#[test]
fn a_scale_of_an_invalid_type_is_refused() {
    for (dtype, bytes) in [("I32", 4), ("F64", 8), ("BOOL", 1), ("I8", 1)] {
        let model = fp8(Model::new(), "a.weight", &[2, 2]).tensor("a.weight_scale", dtype, &[1], &vec![0; bytes]);
        assert_mentions(&refused(&model, None).to_string(), &["a.weight_scale", dtype]);
    }
}

#[test]
fn a_scale_without_its_weight_is_refused() {
    let model = Model::new().floats("a.weight_scale_inv", &[1, 1], &[1.0]).tensor("b", "U8", &[1], b"b");
    assert_mentions(&parse_reason(refused(&model, None)), &["\"a.weight_scale_inv\"", "no weight", "\"a.weight\""]);
    let model = Model::new().floats("a.weight_scale", &[1, 1], &[1.0]);
    assert_mentions(
        &parse_reason(refused(&model, Some(&ct_config("tensor")))),
        &["\"a.weight_scale\"", "\"a.weight\""],
    );
}

// Other files

#[test]
fn a_scale_in_another_shard_is_looked_up_in_the_index() {
    let folder = Folder::new();
    folder.write("model-00001-of-00002.safetensors", fp8(Model::new(), "a.weight", &[2, 2]).bytes());
    let index = json!({"weight_map": {
        "a.weight": "model-00001-of-00002.safetensors", "a.weight_scale_inv": "model-00002-of-00002.safetensors"}});
    folder.write("model.safetensors.index.json", index.to_string());
    let before = folder.names();
    let model = parse(folder.path("model-00001-of-00002.safetensors")).unwrap();
    let reason = parse_reason(model.remember(folder.path("out"), TargetDtype::BF16).unwrap_err());
    assert_mentions(&reason, &["\"a.weight\"", "model-00002-of-00002.safetensors"]);
    assert_eq!(folder.names(), before);
}

#[test]
fn a_weight_in_another_shard_than_its_scale_is_looked_up_in_the_index() {
    let scale = Model::new().floats("a.weight_scale_inv", &[1, 1], &[1.0]);
    let folder = Folder::staged(&scale.bytes(), None);
    let index = json!({"weight_map": {
        "a.weight": "../../etc/passwd", "a.weight_scale_inv": "model.safetensors"}});
    folder.write("model.safetensors.index.json", index.to_string());
    assert_mentions(&parse_reason(folder.refused()), &["\"a.weight_scale_inv\"", "../../etc/passwd"]);
}

#[test]
fn a_weight_without_its_scale_beside_an_index_that_cannot_be_read_is_refused() {
    let folder = Folder::staged(&fp8(Model::new(), "a.weight", &[2, 2]).bytes(), None);
    folder.write("model.safetensors.index.json", "version https://git-lfs.github.com/spec/v1\n");
    assert_mentions(&parse_reason(folder.refused()), &["\"a.weight\"", "model.safetensors.index.json is not an index"]);
}

#[test]
fn a_numbered_shard_without_an_index_is_not_treated_as_complete() {
    let folder = Folder::new();
    let shard = folder.write("model-00001-of-00002.safetensors", fp8(Model::new(), "a.weight", &[2, 2]).bytes());
    let reason = parse_reason(parse(shard).unwrap().remember(folder.path("out"), TargetDtype::BF16).unwrap_err());
    assert_mentions(&reason, &["\"a.weight\"", "one shard of a set"]);
    assert_eq!(folder.names(), ["model-00001-of-00002.safetensors"]);
}

#[test]
fn a_complete_shard_is_decoded_beside_its_index() {
    let model = fp8(Model::new(), "a.weight", &[1, 2]).floats("a.weight_scale_inv", &[1, 1], &[4.0]);
    let folder = Folder::staged(&model.bytes(), None);
    let index = json!({"weight_map": {"a.weight": "model.safetensors", "a.weight_scale_inv": "model.safetensors",
        "b.weight": "model-00002-of-00002.safetensors"}});
    folder.write("model.safetensors.index.json", index.to_string());
    assert_eq!(folder.remember(TargetDtype::F32).unwrap().floats("a.weight"), [4.0, 4.0]);
}

#[test]
fn a_configuration_that_is_not_json_is_refused_and_still_inspectable() {
    for text in ["{", "", "not json", "{\"quantization_config\": {}} x", "\u{feff}{}", &"[".repeat(100_000)] {
        let folder = Folder::staged(&fp8(Model::new(), "a.weight", &[2, 2]).bytes(), None);
        folder.write("config.json", text);
        assert_mentions(&parse_reason(folder.refused()), &["config.json", "not valid JSON"]);
        assert_mentions(&parse(folder.model()).unwrap().inspect().problems[0], &["config.json"]);
    }
}

#[test]
fn a_configuration_of_unreasonable_size_is_refused_before_it_is_read() {
    let folder = Folder::staged(&fp8(Model::new(), "a.weight", &[2, 2]).bytes(), None);
    // A sparse file: it has a size but no data blocks.
    std::fs::File::create(folder.path("config.json")).unwrap().set_len(1 << 40).unwrap();
    let error = parse(folder.model()).err().unwrap();
    assert_mentions(&error.to_string(), &["config.json", &(1u64 << 40).to_string()]);
    limit_tag(error);
}

#[test]
fn a_configuration_of_strange_values_never_panics() {
    let strange =
        [json!(null), json!(-1), json!(1e300), json!("x"), json!([]), json!([0, 0]), json!([-1, 1.5]), json!({})];
    let paths = ["quant_method", "fmt", "weight_block_size", "config_groups", "ignore", "quant_algo"];
    let model = fp8(Model::new(), "a.weight", &[2, 2]).floats("a.weight_scale_inv", &[1, 1], &[1.0]).bytes();
    let folder = Folder::staged(&model, None);
    for value in &strange {
        for path in paths {
            folder.write("config.json", json!({"quantization_config": {path: value}}).to_string());
            let _ = folder.remember(TargetDtype::BF16);
            let weights = json!({"type": "float", "num_bits": 8, "strategy": value, "block_structure": value});
            let config = json!({"quantization_config": {"config_groups": {"g": {"weights": weights}, "h": value}}});
            folder.write("config.json", config.to_string());
            let _ = folder.remember(TargetDtype::BF16);
        }
        folder.write("config.json", value.to_string());
        assert_eq!(folder.remember(TargetDtype::BF16).is_ok(), value.is_object(), "{value}");
    }
    let huge = fp8_config(&[usize::MAX, usize::MAX]);
    folder.write("config.json", huge.to_string());
    assert!(folder.remember(TargetDtype::BF16).is_ok(), "one block covers everything");
}

// Plain data

#[test]
fn tensors_that_merely_end_in_scale_are_data() {
    let model = Model::new()
        .floats("logit_scale", &[], &[2.5])
        .floats("model.visual.logit_scale", &[1], &[1.5])
        .floats("norm.scale", &[2], &[1.0, 2.0])
        .floats("a.weight_scale", &[1], &[3.0])
        .tensor("a.weight", "F8_E4M3", &[1, 1], &[ONE]);
    let output = remember(&model, None);
    assert_eq!(output.names(), ["a.weight", "logit_scale", "model.visual.logit_scale", "norm.scale"]);
    assert_eq!(output.floats("logit_scale"), [2.5]);
}

#[test]
fn bytes_named_like_a_weight_are_data_without_companions() {
    let model = Model::new().tensor("x.weight", "U8", &[3], b"abc").tensor("y.weight", "I8", &[1, 2], b"de");
    assert_eq!(remember(&model, None), Contents::of(&model.bytes()));
    let header = parse_bytes(model.bytes()).unwrap().header;
    assert_eq!((header.scheme, header.quantized_count()), (QuantScheme::Unquantized, 0));
}

#[test]
fn activation_scales_go_with_a_quantised_weight_only() {
    for name in ["input_scale", "k_scale", "v_scale", "output_scale"] {
        let scale = Model::new().floats(&format!("a.{name}"), &[], &[1.0]);
        let quantised = fp8(scale.clone(), "a.weight", &[1, 1]).floats("a.weight_scale", &[], &[1.0]);
        assert_eq!(remember(&quantised, None).names(), ["a.weight"]);
        let plain = scale.floats("a.weight", &[1, 1], &[1.0]);
        assert_eq!(remember(&plain, None).names(), [&format!("a.{name}"), "a.weight"]);
    }
}

#[test]
fn an_unquantised_model_is_copied_regardless_of_the_configuration() {
    let model = Model::new().metadata("format", "pt").floats("a.weight", &[2], &[1.0, 2.0]);
    assert_eq!(remember(&model, Some(&fp8_config(&[128, 128]))), Contents::of(&model.bytes()));
}

// Packed formats

/// Packed weights of various tools: the tensors, and the one with the codes.
fn packed() -> Vec<(&'static str, Model, &'static str)> {
    let m = Model::new;
    let half = |count: usize| vec![0x3c; 2 * count];
    vec![
        (
            "GPTQ",
            m().tensor("a.qweight", "I32", &[4, 32], &[1; 512]).tensor("a.scales", "F16", &[1, 32], &half(32)).tensor(
                "a.qzeros",
                "I32",
                &[1, 4],
                &[0x77; 16],
            ),
            "a.qweight",
        ),
        ("GPTQ without companions", m().tensor("a.qweight", "I32", &[4, 32], &[1; 512]), "a.qweight"),
        (
            "AWQ",
            m().tensor("a.qweight", "I32", &[32, 4], &[1; 512]).tensor("a.scales", "F16", &[1, 32], &half(32)).tensor(
                "a.qzeros",
                "I32",
                &[1, 4],
                &[1; 16],
            ),
            "a.qweight",
        ),
        (
            "NVFP4 ModelOpt",
            m().tensor("a.weight", "U8", &[2, 8], &[1; 16]).floats("a.weight_scale_2", &[], &[1.0]).tensor(
                "a.weight_scale",
                "F8_E4M3",
                &[2, 1],
                &[ONE; 2],
            ),
            "a.weight",
        ),
        (
            "NVFP4 compressed-tensors",
            m().tensor("a.weight_packed", "U8", &[2, 8], &[1; 16])
                .tensor("a.weight_scale", "F8_E4M3", &[2, 1], &[ONE; 2])
                .floats("a.weight_global_scale", &[1], &[1.0]),
            "a.weight_packed",
        ),
        (
            "MXFP4 gpt-oss",
            m().tensor("e.gate_up_proj_blocks", "U8", &[1, 2, 1, 16], &[1; 32]).tensor(
                "e.gate_up_proj_scales",
                "U8",
                &[1, 2, 1],
                &[127; 2],
            ),
            "e.gate_up_proj_blocks",
        ),
        (
            "compressed-tensors pack",
            m().tensor("a.weight_packed", "I32", &[2, 4], &[1; 32])
                .tensor("a.weight_scale", "BF16", &[2, 1], &half(2))
                .tensor("a.weight_shape", "I64", &[2], &[0; 16]),
            "a.weight_packed",
        ),
        (
            "compressed-tensors int",
            m().tensor("a.weight", "I8", &[2, 4], &[1; 8]).tensor("a.weight_scale", "BF16", &[2, 1], &half(2)),
            "a.weight",
        ),
        (
            "BnB NF4",
            m().tensor("a.weight", "U8", &[32, 1], &[1; 32]).floats("a.weight.absmax", &[1], &[1.0]).floats(
                "a.weight.quant_map",
                &[16],
                &[0.5; 16],
            ),
            "a.weight",
        ),
        ("BnB INT8", m().tensor("a.weight", "I8", &[2, 4], &[1; 8]).floats("a.SCB", &[2], &[1.0; 2]), "a.weight"),
        (
            "MLX",
            m().tensor("a.weight", "U32", &[2, 8], &[1; 64]).tensor("a.scales", "BF16", &[2, 1], &half(2)).tensor(
                "a.biases",
                "BF16",
                &[2, 1],
                &half(2),
            ),
            "a.weight",
        ),
        (
            "DeepSeek-V4",
            m().tensor("a.weight", "I8", &[2, 16], &[1; 32]).tensor("a.scale", "F8_E8M0", &[2, 1], &[127; 2]),
            "a.weight",
        ),
        (
            "HQQ",
            m().tensor("a.W_q", "U8", &[2, 8], &[1; 16]).tensor("a.scale", "BF16", &[4, 1], &half(4)).tensor(
                "a.zero",
                "BF16",
                &[4, 1],
                &half(4),
            ),
            "a.W_q",
        ),
        (
            "quanto",
            m().tensor("a.weight._data", "I8", &[2, 4], &[1; 8]).tensor("a.weight._scale", "BF16", &[2, 1], &half(2)),
            "a.weight._data",
        ),
        (
            "quanto",
            m().tensor("a.weight._data._data", "U8", &[2, 4], &[1; 8]).tensor(
                "a.weight._scale",
                "BF16",
                &[2, 1],
                &half(2),
            ),
            "a.weight._data._data",
        ),
        ("QuIP#", m().tensor("a.Qidxs", "I16", &[2, 4], &[1; 16]).tensor("a.SU", "F16", &[4], &half(4)), "a.Qidxs"),
        ("Marlin", m().tensor("a.B", "I32", &[1, 2], &[1; 8]).tensor("a.s", "F16", &[2], &half(2)), "a.B"),
        (
            "torchao",
            m().tensor("a._weight_qdata", "I8", &[2, 4], &[1; 8]).tensor("a._weight_scale", "BF16", &[2], &half(2)),
            "a._weight_qdata",
        ),
        (
            "EXL3",
            m().tensor("a.trellis", "I16", &[1, 1, 8], &[1; 16]).tensor("a.suh", "F16", &[4], &half(4)),
            "a.trellis",
        ),
        (
            "EXL2",
            m().tensor("a.q_weight", "I32", &[2, 2], &[1; 16]).tensor("a.q_scale", "I32", &[1, 1], &[1; 4]),
            "a.q_weight",
        ),
        (
            "AQLM",
            m().tensor("a.codes", "I8", &[2, 2, 1], &[1; 4]).tensor("a.codebooks", "F16", &[1, 2, 1, 8], &half(16)),
            "a.codes",
        ),
    ]
}

#[test]
fn packed_weights_are_never_copied_as_integers() {
    for (format, model, codes) in packed() {
        let folder = Folder::staged(&model.bytes(), None);
        match folder.remember(TargetDtype::BF16) {
            Ok(output) => {
                let integers = output.tensors.values().filter(|tensor| !tensor.dtype.starts_with(['F', 'B']));
                assert_eq!(integers.count(), 0, "{format}: {:?}", output.names());
            }
            Err(error @ (AnamnesisError::Unsupported { .. } | AnamnesisError::Parse { .. })) => {
                let names: Vec<_> = Contents::of(&model.bytes()).tensors.into_keys().collect();
                let text = error.to_string();
                assert!(names.iter().any(|name| text.contains(name.as_str())), "{format}, {codes}: {text}");
                assert_eq!(folder.names(), ["model.safetensors"], "{format}");
            }
            Err(other) => panic!("{format}: {other:?}"),
        }
    }
}

#[test]
fn packed_weights_whose_companions_are_in_another_shard_are_refused() {
    for (_, model, codes) in packed() {
        let tensor = Contents::of(&model.bytes()).tensors[codes].clone();
        let alone = Model::new().tensor(codes, &tensor.dtype, &tensor.shape, &tensor.data);
        let folder = Folder::staged(&alone.bytes(), None);
        let elsewhere = |name: &String| if name == codes { "model.safetensors" } else { "other.safetensors" };
        let names: Vec<_> = Contents::of(&model.bytes()).tensors.into_keys().collect();
        let map: serde_json::Map<_, _> = names.iter().map(|name| (name.clone(), json!(elsewhere(name)))).collect();
        folder.write("model.safetensors.index.json", json!({"weight_map": map}).to_string());
        assert_mentions(&folder.refused().to_string(), &[codes]);
    }
}

#[test]
fn integer_weights_without_a_scale_in_a_configured_model_are_refused() {
    let model = Model::new().tensor("a.weight", "I8", &[2, 4], &[1; 8]).floats("b.weight", &[1], &[1.0]);
    let config = json!({"quantization_config": {"quant_method": "compressed-tensors", "format": "int-quantized"}});
    assert_mentions(&refused(&model, Some(&config)).to_string(), &["\"a.weight\"", "I8", "compressed-tensors"]);
    let ignored = json!({"quantization_config": {"quant_method": "compressed-tensors", "ignore": ["a"]}});
    assert_eq!(remember(&model, Some(&ignored)), Contents::of(&model.bytes()));
}

#[test]
fn packed_weights_count_as_quantised_when_inspected() {
    for (format, model, codes) in packed() {
        let header = parse_bytes(model.bytes()).unwrap().header;
        let quantised: Vec<_> = header.quantized_tensors().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(quantised, [codes], "{format}");
    }
}

// Dialects distinguished by shapes

#[test]
fn e5m2_has_its_own_codes() {
    let model =
        Model::new().tensor("a.weight", "F8_E5M2", &[1, 3], &[0x3c, 0x40, 0x7c]).floats("a.weight_scale", &[1], &[2.0]);
    assert_eq!(remember(&model, None).floats("a.weight"), [2.0, 4.0, f32::INFINITY]);
}

#[test]
fn a_vector_of_scales_is_one_per_row() {
    let model = fp8(Model::new(), "a.weight", &[3, 2]).floats("a.weight_scale", &[3], &[1.0, 2.0, 3.0]);
    assert_eq!(remember(&model, None).floats("a.weight"), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
    assert_eq!(parse_bytes(model.bytes()).unwrap().header.scheme, QuantScheme::PerChannelFp8);
}

#[test]
fn a_vector_of_any_other_length_is_refused() {
    for length in [2, 4, 6] {
        let scales = vec![1.0; length];
        let model = fp8(Model::new(), "a.weight", &[3, 2]).floats("a.weight_scale", &[length], &scales);
        assert_mentions(
            &parse_reason(refused(&model, None)),
            &["\"a.weight_scale\"", &format!("[{length}]"), "[3, 2]"],
        );
    }
}

#[test]
fn a_grid_of_one_column_is_a_grid() {
    let model = fp8(Model::new(), "a.weight", &[130, 1]).floats("a.weight_scale_inv", &[2, 1], &[2.0, 4.0]);
    let values = remember(&model, None).floats("a.weight");
    assert_eq!((values[127], values[128], values[129]), (2.0, 4.0, 4.0));
    assert_eq!(parse_bytes(model.bytes()).unwrap().header.scheme, QuantScheme::FineGrainedFp8);
}

#[test]
fn arrangements_and_formats_may_differ_from_tensor_to_tensor() {
    let model = fp8(Model::new(), "block.weight", &[129, 1]).floats("block.weight_scale_inv", &[2, 1], &[2.0, 3.0]);
    let model = fp8(model, "row.weight", &[2, 1]).floats("row.weight_scale", &[2, 1], &[5.0, 7.0]);
    let model = fp8(model, "tensor.weight", &[1, 2]).floats("tensor.weight_scale", &[], &[11.0]);
    let model = model.tensor("e5.weight", "F8_E5M2", &[1, 1], &[0x3c]).floats("e5.weight_scale", &[1], &[13.0]);
    let output = remember(&model, None);
    assert_eq!(output.floats("block.weight")[127..], [2.0, 3.0]);
    assert_eq!(output.floats("row.weight"), [5.0, 7.0]);
    assert_eq!(output.floats("tensor.weight"), [11.0, 11.0]);
    assert_eq!(output.floats("e5.weight"), [13.0]);
    let info = parse_bytes(model.bytes()).unwrap().inspect();
    assert_eq!((info.format, info.schemes.len()), (QuantScheme::FineGrainedFp8, 4));
}

// Special scales

/// The first value of a weight of 1.0 under this scale.
fn one_times(dtype: &str, scale: &[u8]) -> f32 {
    let model = fp8(Model::new(), "a.weight", &[1, 1]).tensor("a.weight_scale", dtype, &[1], scale);
    remember(&model, None).floats("a.weight")[0]
}

#[test]
fn special_scales_are_multiplied_unchanged() {
    for scale in [0.0, -0.0, f32::INFINITY, -1.5, f32::MIN_POSITIVE / 4.0, f32::MAX] {
        assert_eq!(one_times("F32", &scale.to_le_bytes()).to_bits(), f32::to_bits(scale), "{scale}");
    }
    assert!(one_times("F32", &f32::NAN.to_le_bytes()).is_nan());
    let zero_times_infinity =
        Model::new().tensor("a.weight", "F8_E4M3", &[1, 1], &[0]).floats("a.weight_scale", &[1], &[f32::INFINITY]);
    assert!(remember(&zero_times_infinity, None).floats("a.weight")[0].is_nan());
}

#[test]
fn power_of_two_scales_end_in_nan_or_infinity_as_their_types_do() {
    assert_eq!(one_times("F8_E8M0", &[127]), 1.0);
    assert_eq!(one_times("F8_E8M0", &[0]), f32::from_bits(0x0040_0000));
    assert_eq!(one_times("F8_E8M0", &[254]), f32::from_bits(0x7f00_0000));
    assert!(one_times("F8_E8M0", &[255]).is_nan());
    assert_eq!(one_times("U8", &[127]), 1.0);
    assert_eq!(one_times("U8", &[255]), f32::INFINITY);
}

// Evidence of a missing scale

#[test]
fn a_weight_without_a_scale_beside_a_scale_of_its_activations_is_refused() {
    for end in
        ["input_scale", "activation_scale", "input_scale_ub", "output_scale", "scale_input", "qscale_act", "k_scale"]
    {
        let model = fp8(Model::new(), "a.weight", &[2, 2]).floats(&format!("a.{end}"), &[], &[2.0]);
        assert_mentions(
            &parse_reason(refused(&model, None)),
            &["\"a.weight\"", "has no scale", &format!("\"a.{end}\"")],
        );
    }
    let elsewhere = fp8(Model::new(), "a.weight", &[2, 2]).floats("b.input_scale", &[], &[2.0]);
    assert_mentions(&parse_reason(refused(&elsewhere, None)), &["\"a.weight\"", "\"b.input_scale\""]);
}

#[test]
fn scaled_weights_of_two_families_of_formats_are_refused() {
    let model = fp8(Model::new(), "a.weight", &[2, 2]).floats("a.weight_scale", &[], &[2.0]);
    let model = model.tensor("b.weight", "F8_E4M3FNUZ", &[2, 2], &[0; 4]).floats("b.weight_scale", &[], &[2.0]);
    let words = ["\"b.weight\" is F8_E4M3FNUZ", "\"a.weight\" is F8_E4M3"];
    assert_mentions(&parse_reason(refused(&model, None)), &words);
}

#[test]
fn a_scale_without_its_weight_is_refused_if_another_weight_or_the_configuration_identifies_it() {
    let twin = fp8(Model::new(), "a.weight", &[2, 2]).floats("a.scale", &[1, 1], &[2.0]);
    let lone = Model::new().floats("b.scale", &[1, 1], &[2.0]);
    for (model, config) in [
        (twin.clone().floats("b.scale", &[1, 1], &[2.0]), None),
        (lone.clone(), Some(fp8_config(&[128, 128]))),
        (twin.floats("b.scale", &[1, 1], &[2.0]), Some(fp8_config(&[128, 128]))),
    ] {
        let reason = parse_reason(refused(&model, config.as_ref()));
        assert_mentions(&reason, &["\"b.scale\"", "\"b.weight\""]);
    }
    assert_eq!(remember(&lone, None).floats("b.scale"), [2.0]);
    // A norm, next to weights whose scales are matrices.
    let norm =
        fp8(Model::new(), "a.weight", &[2, 2]).floats("a.scale", &[1, 1], &[2.0]).floats("n.scale", &[2], &[1.0; 2]);
    assert_eq!(remember(&norm, Some(&fp8_config(&[128, 128]))).floats("n.scale"), [1.0; 2]);
}

#[test]
fn a_four_bit_weight_needs_its_quant_state() {
    let weight = |model: Model, module: &str| {
        let model = model.tensor(&format!("{module}.weight"), "U8", &[32, 1], &[0x21; 32]);
        let model = model.floats(&format!("{module}.weight.absmax"), &[1], &[1.0]);
        model.floats(&format!("{module}.weight.quant_map"), &[16], &[0.5; 16])
    };
    let bare = weight(Model::new(), "a");
    assert_eq!(remember(&bare, None).floats("a.weight").len(), 64);
    let config = json!({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true}});
    assert_mentions(&parse_reason(refused(&bare, Some(&config))), &["\"a.weight\"", "no quant_state", "config.json"]);
    let state =
        br#"{"quant_type": "nf4", "blocksize": 64, "shape": [8, 8], "dtype": "bfloat16", "nested_blocksize": 0}"#;
    let twin = weight(bare, "b").tensor("b.weight.quant_state.bitsandbytes__nf4", "U8", &[state.len()], state);
    assert_mentions(&parse_reason(refused(&twin, None)), &["\"a.weight\"", "no quant_state", "other weights"]);
    // A nested block size of zero is ignored if nothing is nested.
    let sound = weight(Model::new(), "b").tensor("b.weight.quant_state.bitsandbytes__nf4", "U8", &[state.len()], state);
    assert_eq!(remember(&sound, None).tensors["b.weight"].shape, [8, 8]);
}

// JSON as Python writes it

#[test]
fn nan_and_infinity_in_a_configuration_are_read_and_kept() {
    let model = fp8(Model::new(), "a.weight", &[2, 2]).floats("a.weight_scale_inv", &[1, 1], &[2.0]);
    let text = r#"{"time_step_limit": [0.0, Infinity], "low": -Infinity, "x": NaN,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}"#;
    let folder = Folder::new();
    folder.write("model.safetensors", model.bytes());
    folder.write("config.json", text);
    assert_eq!(folder.remember(TargetDtype::F32).unwrap().floats("a.weight"), [2.0; 4]);
    let checkpoint = anamnesis::Checkpoint::open(folder.path("."), &Default::default()).unwrap();
    let output = folder.path("out");
    checkpoint
        .plan_directory(TargetDtype::BF16, &Default::default())
        .unwrap()
        .write(&output, &Default::default(), |_| {})
        .unwrap();
    let config = std::fs::read_to_string(output.join("config.json")).unwrap();
    assert_mentions(&config, &["[0.0, Infinity]", "\"low\": -Infinity", "\"x\": NaN"]);
    assert!(!config.contains("quantization_config"), "{config}");
    // A number that is used must be finite.
    folder.write("config.json", text.replace("[128, 128]", "[128, Infinity]"));
    assert_mentions(&parse_reason(folder.refused()), &["weight_block_size", "needed"]);
}

#[test]
fn a_limit_of_exactly_the_tensor_bytes_is_enough() {
    let model = fp8(Model::new(), "a.weight", &[64, 64]).floats("a.weight_scale_inv", &[1, 1], &[2.0]);
    let folder = Folder::staged(&model.bytes(), None);
    let open = |bytes: u64| {
        let limits = anamnesis::ParseLimits::default().with_max_total_bytes(bytes);
        let checkpoint = anamnesis::Checkpoint::open(folder.model(), &limits)?;
        let size = checkpoint.inspect(&Default::default()).dequantized_size;
        let output = checkpoint.plan(TargetDtype::BF16)?.to_bytes(&Default::default())?;
        Ok::<_, AnamnesisError>((size, output.len() as u64))
    };
    let (size, written) = open(u64::MAX).unwrap();
    assert!(written > size);
    assert_eq!(open(size).unwrap(), (size, written));
    assert_eq!(limit_tag(open(size - 1).unwrap_err()), "max_total_bytes");
}
