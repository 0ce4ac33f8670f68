//! The configuration is applied or refused, never ignored: unreadable documents, values of the wrong type, and members
//! that change the meaning of codes.

use crate::support::{Contents, Folder, Model, Noise, assert_mentions, parse_reason, refused, remember};
use anamnesis::{
    AnamnesisError, Checkpoint, Fault, GptqFormat, OpenOptions, TargetDtype, parse, parse_bytes, parse_with_options,
};
use serde_json::{Value, json};

/// 1.0 in E4M3.
const ONE: u8 = 0x38;

fn fp8(model: Model, name: &str, shape: &[usize]) -> Model {
    model.tensor(name, "F8_E4M3", shape, &vec![ONE; shape.iter().product()])
}

/// A weight of ones with a scale of two.
fn scaled() -> Model {
    fp8(Model::new(), "a.weight", &[2, 4]).floats("a.weight_scale", &[1], &[2.0])
}

/// 32 inputs in two groups, 8 outputs, four bits; codes of 9, scales of one, every zero point stored as `zero`.
fn gptq(zero: u8) -> Model {
    Model::new()
        .tensor("a.qweight", "I32", &[4, 8], &[0x99; 128])
        .tensor("a.qzeros", "I32", &[2, 1], &[zero * 0x11; 8])
        .tensor("a.scales", "F16", &[2, 8], &[0x00, 0x3c].repeat(16))
}

fn gptq_config(more: Value) -> Value {
    let mut config = json!({"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": false});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"quantization_config": config})
}

fn unsupported(error: AnamnesisError) -> (String, String) {
    match error {
        AnamnesisError::Unsupported { format, detail } => (format, detail),
        other => panic!("expected an unsupported format, got {other:?}"),
    }
}

// Documents

#[test]
fn an_unreadable_document_is_refused_and_the_model_still_inspectable() {
    for name in ["config.json", "hf_quant_config.json", "quantize_config.json", "quant_config.json", "params.json"] {
        let folder = Folder::staged(&scaled().bytes(), None);
        std::fs::create_dir(folder.path(name)).unwrap();
        let Err(AnamnesisError::Io(error)) = folder.remember(TargetDtype::BF16) else {
            panic!("{name} was passed over")
        };
        assert_mentions(&error.to_string(), &[name, "directory"]);
        assert_mentions(&parse(folder.model()).unwrap().inspect().problems[0], &[name]);
    }
}

#[cfg(unix)]
#[test]
fn a_dangling_link_and_a_pipe_are_not_configurations() {
    let folder = Folder::staged(&scaled().bytes(), None);
    std::os::unix::fs::symlink("../blobs/gone", folder.path("config.json")).unwrap();
    assert_mentions(&folder.refused().to_string(), &["config.json", "link"]);
    std::fs::remove_file(folder.path("config.json")).unwrap();
    // Opening it would block.
    let made = std::process::Command::new("mkfifo").arg(folder.path("config.json")).status();
    if made.is_ok_and(|status| status.success()) {
        assert_mentions(&folder.refused().to_string(), &["config.json", "not a regular file"]);
    }
}

#[test]
fn a_document_that_is_no_object_or_no_text_is_refused() {
    for text in [&b"[1]"[..], b"null", b"\"x\"", b"{\"a\": \"\xff\"}", b"{\"quantization_config\": \"fp8\"}"] {
        let folder = Folder::staged(&scaled().bytes(), None);
        folder.write("config.json", text);
        assert_mentions(&parse_reason(folder.refused()), &["config.json"]);
    }
}

#[test]
fn descriptions_in_nested_objects_apply() {
    let inner = json!({"quant_method": "fp8", "weight_block_size": [64, 64]});
    for config in [
        json!({"thinker_config": {"text_config": {"quantization_config": inner}}}),
        json!({"decoder": {"compression_config": inner}}),
        json!({"parts": [{"quantization": inner}]}),
    ] {
        let model = fp8(Model::new(), "a.weight", &[256, 256]).floats("a.weight_scale_inv", &[2, 2], &[1.0; 4]);
        assert_mentions(&parse_reason(refused(&model, Some(&config))), &["\"a.weight_scale_inv\"", "[4, 4]"]);
    }
}

#[test]
fn documents_of_quantisation_only_apply() {
    for name in ["quantize_config.json", "quant_config.json", "quantization_config.json"] {
        let folder = Folder::staged(&gptq(7).bytes(), None);
        folder.write(name, json!({"bits": 8, "group_size": 16}).to_string());
        assert_mentions(&parse_reason(folder.refused()), &["its shapes mean 4 bits", name, "says 8"]);
    }
}

#[test]
fn random_damage_to_a_configuration_gives_a_result_or_a_typed_error() {
    let sound = json!({"text_config": {"quantization_config": {"quant_method": "compressed-tensors", "bits": 4,
        "group_size": 16, "desc_act": false, "checkpoint_format": "gptq", "ignore": ["lm_head", "re:.*gate"],
        "weight_block_size": [1, 4], "config_groups": {"g": {"targets": ["Linear", "re:a.*"], "weights": {"num_bits": 8,
        "type": "float", "strategy": "block", "block_structure": "2x4"}}}, "dynamic": {"-:b": {}, "+:a": {"bits": 4}},
        "extra_config": {"a": {"bits": 4}}, "quantized_layers": {"a": {"quant_algo": "FP8"}}}}});
    let sound = sound.to_string().into_bytes();
    let model = gptq(7).bytes();
    for seed in 0..3000 {
        let mut noise = Noise(seed);
        let mut text = sound.clone();
        for _ in 0..=noise.below(3) {
            let place = noise.below(text.len());
            match noise.below(3) {
                0 => text[place] = noise.pick(b"{}[]\",:0-9.enullt \\re*?"),
                1 => drop(text.remove(place)),
                _ => text.insert(place, noise.pick(b"{}[]\",:0\\(")),
            }
        }
        let Ok(text) = String::from_utf8(text) else { continue };
        let options = OpenOptions::new().with_config(text);
        let checkpoint =
            Checkpoint::from_bytes_with(model.clone(), &options).unwrap_or_else(|error| panic!("{seed}: {error}"));
        let _ = checkpoint.inspect(&Default::default());
        let _ = checkpoint.plan(TargetDtype::F32);
    }
}

// Values

#[test]
fn values_of_the_wrong_type_are_refused() {
    for (key, value) in [
        ("bits", json!("4")),
        ("bits", json!(4.5)),
        ("group_size", json!("16")),
        ("group_size", json!(null)),
        ("group_size", json!([16, 16])),
        ("desc_act", json!("true")),
        ("desc_act", json!(1)),
        ("sym", json!("yes")),
        ("checkpoint_format", json!(2)),
    ] {
        let error = refused(&gptq(7), Some(&gptq_config(json!({key: value}))));
        assert_mentions(&error.to_string(), &["config.json", key, "needed"]);
    }
}

#[test]
fn transformed_and_sparse_weights_are_refused_by_name() {
    for (key, value) in [
        ("transform_config", json!({"config_groups": {"R1": {"type": "hadamard"}}})),
        ("sparsity_config", json!({"format": "sparse-new", "sparsity_structure": "2:4"})),
    ] {
        let config = json!({"quantization_config": {"quant_method": "compressed-tensors", key: value}});
        let (format, detail) = unsupported(refused(&scaled(), Some(&config)));
        assert_eq!(format, key);
        assert_mentions(&detail, &["config.json: quantization_config"]);
    }
    let harmless = json!({"quantization_config": {"quant_method": "compressed-tensors", "transform_config": {},
        "sparsity_config": {"format": "dense"}, "kv_cache_scheme": {"num_bits": 8, "type": "float"}}});
    assert_eq!(remember(&scaled(), Some(&harmless)).floats("a.weight"), [2.0; 8]);
}

// FP8

#[test]
fn a_weight_with_an_unknown_companion_is_not_decoded_without_it() {
    for companion in [
        "a.weight_scale_2",
        "a.weight_global_scale",
        "a.weight_zero_point",
        "a.weight_g_idx",
        "a.weight.bitmask",
        "a.bitmask",
        "a.pre_quant_scale",
    ] {
        for model in [scaled(), fp8(Model::new(), "a.weight", &[2, 4])] {
            let (_, detail) = unsupported(refused(&model.floats(companion, &[1], &[1.0]), None));
            assert_mentions(&detail, &["\"a.weight\"", companion]);
        }
    }
    let sparse = fp8(Model::new(), "a.weight.compressed", &[4]).tensor("a.weight.bitmask", "U8", &[1], &[15]);
    assert_mentions(&refused(&sparse, None).to_string(), &["a.weight.compressed", "a.weight.shape"]);
    // Elsewhere they do not belong to this weight.
    let other = scaled().floats("b.pre_quant_scale", &[1], &[1.0]);
    assert_eq!(remember(&other, None).floats("a.weight"), [2.0; 8]);
}

fn groups(groups: Value) -> Value {
    json!({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": groups}})
}

#[test]
fn each_weight_has_the_arrangement_of_its_own_group() {
    let group = |targets: Value, strategy: &str| json!({"targets": targets, "weights": {"type": "float", "num_bits": 8, "strategy": strategy}});
    let model = |rows: usize| {
        let model = fp8(Model::new(), "a.weight", &[2, 4]).floats("a.weight_scale", &[1], &[2.0]);
        fp8(model, "b.weight", &[2, 4]).floats("b.weight_scale", &[rows, 1], &vec![3.0; rows])
    };
    let config = groups(json!({"g0": group(json!(["Linear"]), "tensor"), "g1": group(json!(["re:b"]), "channel")}));
    assert_eq!(remember(&model(2), Some(&config)).floats("b.weight"), [3.0; 8]);
    assert_mentions(&parse_reason(refused(&model(1), Some(&config))), &["\"b.weight_scale\"", "config.json"]);
    let unreadable =
        groups(json!({"g0": group(json!(["Linear"]), "tensor"), "g1": group(json!(["re:(?!a)"]), "channel")}));
    assert_eq!(remember(&model(2), Some(&unreadable)).floats("b.weight"), [3.0; 8]);
    let twice = groups(json!({"g0": group(json!(["a", "b"]), "tensor"), "g1": group(json!(["b"]), "channel")}));
    assert_mentions(&parse_reason(refused(&model(2), Some(&twice))), &["\"b.weight\"", "g0", "g1", "both apply to it"]);
}

#[test]
fn a_group_of_other_weights_and_groups_that_do_not_divide_are_refused() {
    let integers = groups(json!({"g": {"targets": ["a"], "weights": {"type": "int", "num_bits": 4}}}));
    assert_mentions(&parse_reason(refused(&scaled(), Some(&integers))), &["\"a.weight\"", "config_groups.g"]);
    let weights = json!({"type": "float", "num_bits": 8, "strategy": "group", "group_size": 3});
    let ragged = groups(json!({"g": {"targets": ["Linear"], "weights": weights}}));
    let model = fp8(Model::new(), "a.weight", &[2, 4]).floats("a.weight_scale", &[2, 2], &[1.0; 4]);
    assert_mentions(&parse_reason(refused(&model, Some(&ragged))), &["groups of 3", "4 columns"]);
}

#[test]
fn a_group_that_matches_no_module_is_reported() {
    let group = |target: &str| json!({"targets": [target], "weights": {"type": "float", "num_bits": 8}});
    let config = groups(json!({"g0": group("Linear"), "g1": group("re:.*experts.*")}));
    let folder = Folder::staged(&scaled().bytes(), Some(&config));
    let checkpoint = Checkpoint::open(folder.path(""), &Default::default()).unwrap();
    let oddities = checkpoint.oddities();
    assert!(oddities.len() == 1 && oddities[0].contains("config_groups.g1 matches no module"), "{oddities:?}");
}

// GPTQ and AWQ

#[test]
fn per_module_rules_apply() {
    let rule = |rule: &str, args: Value| gptq_config(json!({"checkpoint_format": "gptq", "dynamic": {rule: args}}));
    assert_eq!(remember(&gptq(7), Some(&rule("+:b", json!({"bits": 8})))).floats("a.weight")[0], 1.0);
    for (rule, words) in [
        (rule("+:a", json!({"bits": 8})), ["its shapes mean 4 bits", "says 8"]),
        (rule("+:a", json!({"group_size": 32})), ["groups of 32", "the scales have 2"]),
        (rule("-:a", json!({})), ["it is packed", "excludes it by \"-:a\""]),
    ] {
        assert_mentions(&parse_reason(refused(&gptq(7), Some(&rule))), &words);
    }
    // This rule is not supported: the shapes decide.
    let unreadable = rule("-:(?!a)", json!({}));
    assert_eq!(remember(&gptq(7), Some(&unreadable)).floats("a.weight")[0], 1.0);
}

#[test]
fn activation_order_without_an_index_is_refused() {
    let error = parse_reason(refused(&gptq(7), Some(&gptq_config(json!({"desc_act": true})))));
    assert_mentions(&error, &["\"a.qweight\"", "desc_act is true", "\"a.g_idx\""]);
    let metadata = gptq(7).metadata("gptq_bits", "4").metadata("gptq_desc_act", "True");
    assert_mentions(&parse_reason(refused(&metadata, None)), &["__metadata__", "desc_act"]);
    // Static groups are in order regardless of the order of quantising; one group fits any order.
    let in_order = gptq_config(json!({"desc_act": true, "static_groups": true}));
    assert_eq!(remember(&gptq(7), Some(&in_order)).floats("a.weight")[0], 1.0);
    let index: Vec<u8> = (0..32i32).flat_map(|input| (input % 2).to_le_bytes()).collect();
    let indexed = gptq(7).tensor("a.g_idx", "I32", &[32], &index);
    assert_eq!(remember(&indexed, Some(&gptq_config(json!({"desc_act": true})))).floats("a.weight")[0], 1.0);
}

#[test]
fn words_of_another_width_are_not_copied_as_integers() {
    for dtype in ["I8", "I16", "I64"] {
        let bytes = match dtype {
            "I8" => 32,
            "I16" => 64,
            _ => 256,
        };
        let model = Model::new().tensor("a.qweight", dtype, &[4, 8], &vec![0; bytes]);
        assert_mentions(&refused(&model, None).to_string(), &["\"a.qweight\"", dtype]);
    }
}

#[test]
fn groups_of_awq_are_all_alike() {
    let model = |groups: usize| {
        Model::new()
            .tensor("a.qweight", "I32", &[24, 1], &[0x99; 96])
            .tensor("a.qzeros", "I32", &[groups, 1], &vec![0x88; 4 * groups])
            .tensor("a.scales", "F16", &[groups, 8], &[0x00, 0x3c].repeat(8 * groups))
    };
    let config = |size: usize| json!({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": size}});
    assert_eq!(remember(&model(3), Some(&config(8))).floats("a.weight"), [1.0; 192]);
    assert_mentions(
        &parse_reason(refused(&model(2), Some(&config(16)))),
        &["2 groups of 16", "24 inputs", "config.json"],
    );
}

// AutoRound

#[test]
fn the_packing_format_of_auto_round_determines_the_zero_point_format() {
    let value = |key: &str, packing: &str, zero: u8| {
        let config = json!({"quantization_config": {"quant_method": "auto-round", "bits": 4, "group_size": 16,
            "sym": false, key: packing}});
        remember(&gptq(zero), Some(&config)).floats("a.weight")[0]
    };
    for packing in ["auto_round:auto_gptq", "auto_round:gptq", "auto_round:auto_gptq:exllamav2", "gptq:exllamav2"] {
        assert_eq!((value("packing_format", packing, 4), value("backend", packing, 4)), (4.0, 4.0), "{packing}");
    }
    for packing in ["auto_round", "auto_round:exllamav2", "auto_round:gptqmodel", "autoround:exllamav2"] {
        assert_eq!((value("packing_format", packing, 4), value("backend", packing, 4)), (5.0, 5.0), "{packing}");
    }
    assert_eq!(value("backend", "auto", 4), 4.0);
}

#[test]
fn unsupported_packings_of_auto_round_are_refused_by_name() {
    let config = |more: Value| {
        let mut config = json!({"quant_method": "intel/auto-round", "bits": 4, "group_size": 16});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"quantization_config": config})
    };
    let (format, _) = unsupported(refused(&gptq(7), Some(&config(json!({"packing_format": "mlx"})))));
    assert_eq!(format, "mlx");
    let (format, _) = unsupported(refused(&gptq(7), Some(&config(json!({"act_bits": 8})))));
    assert_mentions(&format, &["act_bits 8"]);
    // An AWQ layout that the shapes contradict.
    let awq = config(json!({"packing_format": "auto_round:auto_awq"}));
    assert_mentions(&parse_reason(refused(&gptq(7), Some(&awq))), &["\"a.qweight\"", "do not go together"]);
}

#[test]
fn a_format_of_gptq_that_is_not_known_is_refused_by_name_whatever_else_is_said() {
    let auto_round = |format: &str| {
        json!({"quantization_config": {"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq", "bits": 4,
            "group_size": 16, "checkpoint_format": format}})
    };
    for format in ["gptq_v3", "bitblas", "x", ""] {
        for config in [gptq_config(json!({"checkpoint_format": format})), auto_round(format)] {
            let (found, detail) = unsupported(refused(&gptq(7), Some(&config)));
            assert_eq!(found, format);
            assert_mentions(&detail, &["gptq_v2", "gptq_p"]);
        }
    }
}

// What nothing tells, and what the caller says

#[test]
fn asymmetric_zero_points_of_an_unknown_format_are_refused() {
    for config in [None, Some(json!({"hidden_size": 8}))] {
        let error = refused(&gptq(4), config.as_ref());
        assert_eq!(error.fault(), Fault::File);
        let AnamnesisError::Undecided { tensor, what, choices } = &error else { panic!("{error:?}") };
        assert_eq!((tensor.as_str(), *what, choices.as_slice()), ("a.qweight", "the GPTQ format", &["v1", "v2"][..]));
        assert_mentions(&error.to_string(), &["\"a.qweight\"", "the GPTQ format", "v1 or v2"]);
    }
    // Symmetric zero points reveal it themselves, and so does a tool that writes one format only.
    assert_eq!(remember(&gptq(7), None).floats("a.weight")[0], 1.0);
    assert_eq!(remember(&gptq(8), None).floats("a.weight")[0], 1.0);
    assert_eq!(remember(&gptq(4), Some(&gptq_config(json!({})))).floats("a.weight")[0], 4.0);
    assert_eq!(remember(&gptq(4).metadata("gptq_bits", "4"), None).floats("a.weight")[0], 4.0);
}

/// The first value of a checkpoint.
fn first(checkpoint: &Checkpoint) -> f32 {
    let bytes = checkpoint.plan(TargetDtype::F32).unwrap().to_bytes(&Default::default()).unwrap();
    Contents::of(&bytes).floats("a.weight")[0]
}

#[test]
fn the_caller_can_set_the_gptq_format() {
    let folder = Folder::staged(&gptq(4).bytes(), None);
    for (format, value) in [(GptqFormat::V1, 4.0), (GptqFormat::V2, 5.0)] {
        let options = OpenOptions::new().with_gptq_format(format);
        assert_eq!(first(&Checkpoint::open_with(folder.model(), &options).unwrap()), value);
        assert_eq!(first(&Checkpoint::open_with(folder.path(""), &options).unwrap()), value);
        assert_eq!(first(&Checkpoint::from_bytes_with(gptq(4).bytes(), &options).unwrap()), value);
        let reader = std::io::Cursor::new(gptq(4).bytes());
        assert_eq!(first(&Checkpoint::from_reader_with(reader, &options).unwrap()), value);
        let parsed =
            [parse_with_options(folder.model(), &options), parse(folder.model()).unwrap().with_gptq_format(format)];
        for model in parsed
            .map(Result::unwrap)
            .into_iter()
            .chain([parse_bytes(gptq(4).bytes()).unwrap().with_gptq_format(format).unwrap()])
        {
            let bytes = model.remember_to_bytes(TargetDtype::F32).unwrap();
            assert_eq!(Contents::of(&bytes).floats("a.weight")[0], value);
        }
    }
    assert!("v3".parse::<GptqFormat>().is_err());
    assert_eq!("V2".parse::<GptqFormat>().unwrap().to_string(), "v2");
}

#[test]
fn the_caller_can_give_a_configuration_in_place_of_the_one_beside_the_weights() {
    let text = gptq_config(json!({"checkpoint_format": "gptq_v2"})).to_string();
    let folder = Folder::staged(&gptq(4).bytes(), Some(&json!({"quantization_config": {"bits": "nonsense"}})));
    let given = folder.write("given.json", &text);
    for options in [OpenOptions::new().with_config(text.clone()), OpenOptions::new().with_config(given)] {
        assert_eq!(first(&Checkpoint::open_with(folder.model(), &options).unwrap()), 5.0);
        assert_eq!(first(&Checkpoint::from_bytes_with(gptq(4).bytes(), &options).unwrap()), 5.0);
    }
    let missing = OpenOptions::new().with_config(folder.path("missing.json"));
    let Err(AnamnesisError::Io(error)) = Checkpoint::open_with(folder.model(), &missing) else { panic!("opened") };
    assert_mentions(&error.to_string(), &["missing.json"]);
    let wrong = OpenOptions::new().with_config("[1]");
    let checkpoint = Checkpoint::from_bytes_with(gptq(4).bytes(), &wrong).unwrap();
    assert_mentions(&checkpoint.inspect(&Default::default()).problems[0], &["the configuration is not a JSON object"]);
    assert!(parse_bytes(gptq(4).bytes()).unwrap().remember_to_bytes(TargetDtype::F32).is_err());
}
