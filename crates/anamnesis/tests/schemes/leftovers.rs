//! Unclaimed tensors are plain data unless they look like part of a quantised weight: then they are refused by name, or
//! copied and listed if allowed.

use crate::support::gguf::Gguf;
use crate::support::{Contents, Folder, Model, assert_mentions, parse_reason, refused, remember};
use anamnesis::{
    Checkpoint, ConvertOptions, ConvertTarget, OpenOptions, PlanNote, RememberOptions, Selection, TargetDtype,
};
use serde_json::{Value, json};

/// A GPTQ weight with all of its parts.
fn gptq() -> Model {
    Model::new().tensor("a.qweight", "I32", &[4, 32], &[1; 512]).tensor("a.qzeros", "I32", &[1, 4], &[1; 16]).tensor(
        "a.scales",
        "F16",
        &[1, 32],
        &[0x3c; 64],
    )
}

/// An FP8 weight with its scale.
fn fp8() -> Model {
    Model::new().tensor("a.weight", "F8_E4M3", &[2, 2], &[0x38; 4]).floats("a.weight_scale", &[1], &[1.0])
}

fn gptq_config() -> Value {
    json!({"quantization_config": {
        "quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": false, "checkpoint_format": "gptq"}})
}

fn fp8_config() -> Value {
    json!({"quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}})
}

/// Adds zeros of a type.
fn with(model: Model, name: &str, dtype: &str, shape: &[usize]) -> Model {
    let width = match dtype {
        "I64" | "U64" | "F64" => 8,
        "I32" | "U32" | "F32" => 4,
        "I16" | "U16" | "F16" | "BF16" => 2,
        _ => 1,
    };
    model.tensor(name, dtype, shape, &vec![0; shape.iter().product::<usize>() * width])
}

/// Buffers that models store with their weights.
const BUFFERS: [(&str, &str, &[usize]); 14] = [
    ("bert.embeddings.position_ids", "I64", &[1, 512]),
    ("bert.embeddings.token_type_ids", "I64", &[1, 512]),
    ("visual.relative_position_index", "I64", &[49, 49]),
    ("visual.relative_position_index_32", "I32", &[49, 49]),
    ("h.0.attn.bias", "U8", &[1, 1, 8, 8]),
    ("h.0.attn.mask", "BOOL", &[8, 8]),
    ("h.0.attn.masked_bias", "F32", &[]),
    ("bn1.num_batches_tracked", "I64", &[]),
    ("layers.0.ffn.gate.tid2eid", "I32", &[16, 6]),
    ("mixer.A_log", "F32", &[4]),
    ("norm.scale", "BF16", &[4]),
    ("logit_scale", "F32", &[]),
    ("lstm.weight_ih_l0", "F32", &[4, 4]),
    ("conv.weight_g", "F32", &[4, 1]),
];

#[test]
fn known_buffers_are_plain_in_any_checkpoint() {
    for (name, dtype, shape) in BUFFERS {
        for (model, config, weight) in [
            (Model::new(), None, None),
            (gptq(), Some(gptq_config()), Some("a.weight")),
            (fp8(), None, Some("a.weight")),
        ] {
            let model = with(model, name, dtype, shape);
            let output = remember(&model, config.as_ref());
            assert_eq!(output.tensors[name], Contents::of(&model.bytes()).tensors[name], "{name}");
            assert_eq!(output.tensors.len(), 1 + usize::from(weight.is_some()), "{:?}", output.names());
        }
    }
}

#[test]
fn without_other_signs_of_quantisation_integers_are_plain() {
    for (name, dtype) in
        [("embedding.weight", "I32"), ("table.weight", "U8"), ("a.codes", "I16"), ("x", "U16"), ("a.scales", "F16")]
    {
        let model = with(Model::new(), name, dtype, &[4, 8]);
        assert_eq!(remember(&model, None), Contents::of(&model.bytes()), "{name}");
    }
}

#[test]
fn a_part_whose_weight_is_missing_is_refused_with_both_names() {
    for (part, dtype, weight) in [
        ("b.qzeros", "I32", "b.qweight"),
        ("b.g_idx", "I32", "b.qweight"),
        ("b.weight_scale", "F32", "b.weight"),
        ("b.weight_zero_point", "I8", "b.weight_packed"),
        ("b.weight_shape", "I64", "b.weight_packed"),
        ("b.weight.absmax", "F32", "b.weight"),
        ("b.weight.quant_map", "F32", "b.weight"),
        ("b.weight_format", "U8", "b.weight"),
    ] {
        let reason = parse_reason(refused(&with(Model::new(), part, dtype, &[2]), None));
        assert_mentions(&reason, &[&format!("{part:?}"), &format!("{weight:?}")]);
    }
}

#[test]
fn packed_weights_of_an_unexpected_type_are_refused() {
    for dtype in ["I16", "I64", "F32", "U8", "BOOL"] {
        let model = with(Model::new(), "a.qweight", dtype, &[4, 32]);
        let model = with(with(model, "a.qzeros", "I32", &[1, 4]), "a.scales", "F16", &[1, 32]);
        assert_mentions(&refused(&model, None).to_string(), &["a.qweight", dtype]);
    }
    for (codes, dtype, scale) in [
        ("a.weight", "BOOL", "a.weight_scale"),
        ("a.weight", "F32", "a.weight_scale"),
        ("a.weight", "F32", "a.weight_scale_inv"),
        ("a.weight", "I16", "a.SCB"),
        ("a.weight_packed", "U16", "a.weight_scale"),
        ("a._weight_qdata", "F32", "a._weight_scale"),
        ("a.weight._data", "I16", "a.weight._scale"),
    ] {
        let model = with(with(Model::new(), codes, dtype, &[2, 2]), scale, "F32", &[1]);
        let error = refused(&model, None).to_string();
        assert!(error.contains(codes) || error.contains(scale), "{codes} {dtype}: {error}");
    }
}

#[test]
fn common_names_are_refused_in_a_quantised_checkpoint() {
    let lone = with(Model::new(), "b.scales", "F16", &[2, 4]);
    assert_eq!(remember(&lone, None).names(), ["b.scales"]);
    for config in [gptq_config(), json!({"quantization": {"group_size": 64, "bits": 4}})] {
        assert_mentions(&parse_reason(refused(&lone, Some(&config))), &["\"b.scales\"", "\"b.qweight\""]);
    }
    assert_mentions(&parse_reason(refused(&with(gptq(), "b.scales", "F16", &[2, 4]), None)), &["\"b.scales\""]);
    let pair = with(with(Model::new(), "b.scales", "F16", &[2, 4]), "b.biases", "F16", &[2, 4]);
    assert_mentions(&parse_reason(refused(&pair, None)), &["\"b.biases\"", "\"b.weight\""]);
    let packed = with(Model::new(), "e.down_proj_scales", "U8", &[2, 4, 1]);
    assert_mentions(&parse_reason(refused(&packed, None)), &["\"e.down_proj_scales\"", "\"e.down_proj_blocks\""]);
}

#[test]
fn unknown_siblings_of_a_quantised_weight_are_refused() {
    for name in ["a.g_idx2", "a.foo", "a.scales_x", "a.scales.x", "a.SCALES", "a_scales", "a.qweight.x", "a.qzeros "] {
        let reason = parse_reason(refused(&with(gptq(), name, "F16", &[1, 32]), None));
        assert_mentions(&reason, &[&format!("{name:?}")]);
    }
    for (name, dtype, shape) in [("a.bias", "I32", &[32][..]), ("a.bias", "F16", &[1, 32]), ("a.bias", "F16", &[31])] {
        assert_mentions(
            &parse_reason(refused(&with(gptq(), name, dtype, shape), None)),
            &["\"a.bias\"", "\"a.qweight\""],
        );
    }
    for (name, dtype, shape) in [
        ("a.bias", "F16", &[32][..]),
        ("a.lora_A.weight", "F16", &[4, 8]),
        ("ab.foo", "F16", &[1]),
        ("b.bias", "F16", &[3]),
    ] {
        let output = remember(&with(gptq(), name, dtype, shape), Some(&gptq_config()));
        assert!(output.tensors.contains_key(name), "{name}");
    }
}

#[test]
fn integers_among_the_weights_of_a_quantised_checkpoint_are_refused() {
    for (name, dtype) in [("b.weight", "U8"), ("b.weight", "I64"), ("b.down_proj", "I8"), ("b.WEIGHT", "U32")] {
        let reason = parse_reason(refused(&with(Model::new(), name, dtype, &[4, 8]), Some(&fp8_config())));
        assert_mentions(&reason, &[&format!("{name:?}"), dtype, "config.json", "\"fp8\""]);
        let reason = parse_reason(refused(&with(gptq(), name, dtype, &[4, 8]), None));
        assert_mentions(&reason, &[&format!("{name:?}"), "\"a.weight\" is quantised"]);
    }
    let mut config = fp8_config();
    config["quantization_config"]["modules_to_not_convert"] = json!(["b"]);
    assert_eq!(remember(&with(Model::new(), "b.weight", "U8", &[4, 8]), Some(&config)).names(), ["b.weight"]);
}

#[test]
fn a_group_index_that_was_promised_must_be_there() {
    let mut config = gptq_config();
    config["quantization_config"]["desc_act"] = json!(true);
    config["quantization_config"]["group_size"] = json!(16);
    let model = Model::new()
        .tensor("a.qweight", "I32", &[4, 32], &[1; 512])
        .tensor("a.qzeros", "I32", &[2, 4], &[1; 32])
        .tensor("a.scales", "F16", &[2, 32], &[0x3c; 128]);
    assert_mentions(&parse_reason(refused(&model, Some(&config))), &["\"a.qweight\"", "g_idx", "desc_act"]);
    config["quantization_config"]["desc_act"] = json!(false);
    assert_eq!(remember(&model, Some(&config)).names(), ["a.weight"]);
}

#[test]
fn an_invalid_configuration_is_not_treated_as_absent() {
    for section in [json!(7), json!("gptq"), json!([{"quant_method": "gptq"}])] {
        let reason = parse_reason(refused(&gptq(), Some(&json!({"quantization_config": section}))));
        assert_mentions(&reason, &["config.json", "quantization_config", "an object"]);
    }
    let mut config = gptq_config();
    config["quantization_config"]["checkpoint_format"] = json!(2);
    assert_mentions(&parse_reason(refused(&gptq(), Some(&config))), &["config.json", "checkpoint_format", "2"]);
    let folder = Folder::staged(&gptq().bytes(), None);
    std::fs::create_dir(folder.path("config.json")).unwrap();
    assert_mentions(&folder.refused().to_string(), &["config.json", "directory"]);
}

#[test]
fn leftovers_are_copied_and_listed_if_allowed() {
    let model = with(with(gptq(), "b.qzeros", "I32", &[2, 4]), "a.foo", "F16", &[3]);
    let folder = Folder::staged(&model.bytes(), Some(&gptq_config()));
    assert!(Checkpoint::open(folder.model(), &Default::default()).unwrap().plan(TargetDtype::F32).is_err());
    let options = OpenOptions::new().with_allow_unclaimed(true);
    let checkpoint = Checkpoint::open_with(folder.model(), &options).unwrap();
    let output = checkpoint.plan(TargetDtype::F32).unwrap().to_bytes(&RememberOptions::new()).unwrap();
    let (input, output) = (Contents::of(&model.bytes()), Contents::of(&output));
    assert_eq!(output.names(), ["a.foo", "a.weight", "b.qzeros"]);
    for name in ["a.foo", "b.qzeros"] {
        assert_eq!(output.tensors[name], input.tensors[name]);
    }
    let plan = checkpoint.plan_convert(ConvertTarget::Safetensors, &ConvertOptions::new()).unwrap();
    let (count, listed) = plan.notes().split_first().unwrap();
    assert_eq!(*count, PlanNote::Unclaimed { count: 2 });
    assert_eq!(count.to_string(), "2 tensors that no scheme claims are plain data in the output");
    for listed in [checkpoint.oddities(), listed.iter().map(ToString::to_string).collect()] {
        assert_eq!(listed.len(), 2, "{listed:?}");
        assert_mentions(&listed.join("\n"), &["\"a.foo\"", "\"b.qzeros\""]);
    }
    assert_eq!(checkpoint.unclaimed(), checkpoint.leftovers());
    // Deselected tensors are not copied.
    let chosen = ConvertOptions::new().with_selection(Selection::new().with_exclude("a.foo").unwrap());
    let plan = checkpoint.plan_convert(ConvertTarget::Safetensors, &chosen).unwrap();
    assert_mentions(&plan.notes()[0].to_string(), &["one tensor that no scheme claims"]);
    assert!(plan.notes().iter().all(|note| !note.to_string().contains("a.foo")), "{:?}", plan.notes());
    // A malformed weight of a known scheme is still refused.
    let broken = Folder::staged(&with(Model::new(), "a.qweight", "I32", &[4, 32]).bytes(), None);
    assert!(Checkpoint::open_with(broken.model(), &options).unwrap().plan(TargetDtype::F32).is_err());
}

#[test]
fn unused_bytes_of_a_gguf_file_are_refused() {
    let opened = |offset: u64, bytes: usize| {
        let file = Gguf::default().tensor("a", &[4], 0, 0).tensor("b", &[4], 0, offset).data(bytes);
        Checkpoint::from_bytes(file.bytes(), &Default::default())
    };
    for bytes in [48, 64] {
        assert!(opened(32, bytes).unwrap().plan(TargetDtype::F32).is_ok());
    }
    for (offset, bytes) in [(64, 80), (32, 65)] {
        let reason = parse_reason(opened(offset, bytes).err().unwrap());
        assert!(reason.contains("\"b\"") || reason.contains("after the last tensor"), "{reason}");
    }
}

#[test]
fn an_unknown_scale_of_nvfp4_blocks_is_refused() {
    let file =
        |scale: &str| Gguf::default().tensor("a.weight", &[64], 40, 0).tensor(scale, &[1], 0, 64).data(68).bytes();
    for (scale, is_known) in [("a.scale", true), ("a.input_scale", true), ("b.scale", true), ("a.scales", false)] {
        let checkpoint = Checkpoint::from_bytes(file(scale), &Default::default()).unwrap();
        assert_eq!(checkpoint.plan(TargetDtype::F32).is_ok(), is_known, "{scale}");
    }
}

#[test]
fn a_scale_is_not_a_weight_regardless_of_its_type() {
    // The scales of NVFP4 are eight-bit floats themselves.
    for name in ["a.weight_scale", "a.weight_scale_inv", "a.scale_weight"] {
        let error = refused(&with(Model::new(), name, "F8_E4M3", &[4, 4]), None);
        assert_mentions(&parse_reason(error), &[name]);
    }
}

#[test]
fn an_unscaled_weight_does_not_have_parts() {
    for name in ["a.weight.absmax", "a.weight_foo", "a.weight.foo"] {
        for dtype in ["F8_E8M0", "F32", "U8"] {
            let model = with(with(Model::new(), "a.weight", "F8_E4M3", &[4, 4]), name, dtype, &[2, 2]);
            assert_mentions(&refused(&model, None).to_string(), &["a.weight"]);
        }
    }
}

#[test]
fn integer_weights_with_a_possible_scale_are_refused() {
    let weight = || with(Model::new(), "a.weight", "I8", &[4, 4]);
    for (name, shape) in [
        ("a.weight_scale.", &[4, 1][..]),
        ("a.weight_scal", &[4, 1]),
        ("a.foo", &[4, 1]),
        ("a.weight_scale.foo", &[4, 1]),
        ("a.bias", &[4, 1]),
    ] {
        let error = refused(&with(weight(), name, "BF16", shape), None);
        assert_mentions(&parse_reason(error), &["a."]);
    }
    // Alone or with a bias, it is plain data.
    assert_eq!(remember(&weight(), None).tensors["a.weight"].dtype, "I8");
    assert_eq!(remember(&with(weight(), "a.bias", "BF16", &[4]), None).names(), ["a.bias", "a.weight"]);
}

#[test]
fn scales_of_a_cache_without_anything_they_belong_to_are_refused() {
    let lone = with(Model::new(), "a.k_proj.k_scale", "F32", &[]);
    let config = fp8_config();
    assert_mentions(&parse_reason(refused(&lone, Some(&config))), &["a.k_proj.k_scale"]);
    // Next to unquantised weights they belong to a cache.
    let beside = with(lone.clone(), "a.k_proj.weight", "BF16", &[4, 4]);
    assert_eq!(remember(&beside, Some(&config)).names(), ["a.k_proj.k_scale", "a.k_proj.weight"]);
    assert_eq!(remember(&lone, None).names(), ["a.k_proj.k_scale"]);
}

#[test]
fn codes_and_scales_under_unusual_names_are_refused() {
    let bytes = || with(Model::new(), "a.weight", "U8", &[1, 8]);
    for (model, name) in [
        // Words of a table, with an underscore instead of a dot in the name.
        (with(gptq(), "model.embed_tokens_weight", "U32", &[7, 8]), "model.embed_tokens_weight"),
        // Parts that have lost the name of their weight.
        (with(gptq(), "_data", "I8", &[1, 33]), "_data"),
        // A vector of scales next to bytes or eight-bit floats is not a bias, although it is named so.
        (bytes().floats("a.biases", &[1], &[0.5]), "a.biases"),
        (bytes().floats("a.foo", &[1], &[0.5]), "a.foo"),
        (with(Model::new(), "a.weight", "F8_E4M3", &[1, 8]).floats("a.biases", &[1], &[0.5]), "a.biases"),
    ] {
        let config = model.bytes().windows(7).any(|bytes| bytes == b"qweight").then(gptq_config);
        assert_mentions(&refused(&model, config.as_ref()).to_string(), &[name]);
    }
}

#[test]
fn a_lone_scale_of_marlin_24_is_refused() {
    let config = json!({"quantization_config": {"quant_method": "compressed-tensors", "format": "marlin-24"}});
    for name in ["a.scale_packed", "scale_packed", "a_scale_packed", "a.Scale_Packed"] {
        for config in [None, Some(&config)] {
            assert_mentions(&parse_reason(refused(&with(Model::new(), name, "F16", &[3, 64]), config)), &[name]);
        }
    }
}

#[test]
fn a_scale_of_activations_whose_weight_is_gone_is_refused_where_a_configuration_says_so() {
    let modelopt = json!({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}});
    let scale = Model::new().floats("a.q_proj.input_scale", &[], &[0.5]);
    for model in [scale.clone(), with(scale, "a.q_proj.bias", "BF16", &[5])] {
        for config in [modelopt.clone(), fp8_config()] {
            let reason = parse_reason(refused(&model, Some(&config)));
            assert_mentions(&reason, &["\"a.q_proj.input_scale\""]);
        }
        assert_eq!(remember(&model, None).floats("a.q_proj.input_scale"), [0.5]);
    }
}

#[test]
fn a_bare_scale_whose_weight_is_gone_is_refused_beside_a_bias_too() {
    let hqq =
        json!({"quantization_config": {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}}});
    let scale = with(Model::new(), "a.q_proj.scale", "BF16", &[16, 1]);
    for model in [scale.clone(), with(scale.clone(), "a.q_proj.bias", "BF16", &[8])] {
        assert_mentions(&parse_reason(refused(&model, Some(&hqq))), &["\"a.q_proj.scale\""]);
    }
    // A norm has a vector, and a module with more than that is known for what it is.
    let norm = with(with(Model::new(), "a.norm.scale", "BF16", &[8]), "a.norm.bias", "BF16", &[8]);
    assert_eq!(remember(&norm, Some(&hqq)).names(), ["a.norm.bias", "a.norm.scale"]);
}
