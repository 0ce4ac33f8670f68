//! Tests of descriptions as the quantisation tools write them.

use serde_json::{Value, json};

use super::*;

fn read(documents: &[(&str, &str)]) -> QuantConfig {
    QuantConfig::read(documents.iter().map(|(name, text)| (*name, text.as_bytes())))
}

/// A `config.json` with this description.
fn config(description: &Value) -> QuantConfig {
    read(&[("config.json", &json!({"quantization_config": description}).to_string())])
}

fn problems(config: &QuantConfig) -> Vec<String> {
    config.problems().map(|problem| problem.to_string()).collect()
}

fn ignores(config: &QuantConfig, module: &str) -> bool {
    config.module(module).exclusion().is_some()
}

#[test]
fn the_description_is_found_in_every_known_document() {
    let inner = json!({"quant_method": "fp8", "weight_block_size": [128, 128]});
    for document in [
        json!({"quantization_config": inner}),
        json!({"text_config": {"quantization_config": inner}}),
        json!({"thinker_config": {"text_config": {"quantization_config": inner}}}),
        json!({"decoder": {"layers": [{"compression_config": inner}]}}),
        json!({"quantization": inner}),
    ] {
        let config = read(&[("config.json", &document.to_string())]);
        assert_eq!((config.method(), problems(&config).len()), (Some("fp8"), 0));
        assert!(config.module("a").args().pair(&["weight_block_size"]).unwrap() == Some((128, 128)));
    }
    assert!(!read(&[("config.json", r#"{"quantization_config": null}"#)]).is_present());
    for wrong in [r#"{"quantization_config": 3}"#, "[1, 2]", "3", "{"] {
        let config = read(&[("config.json", wrong)]);
        assert!(!config.is_present() && problems(&config).len() == 1, "{wrong}");
    }
}

#[test]
fn each_list_is_read_in_the_dialect_of_its_library() {
    let lists = [
        (json!({"ignore": ["lm_head", "re:.*gate$"]}), ["lm_head", "a.gate"], ["model.lm_head", "lm_head.x"]),
        (json!({"exclude_modules": ["lm_head", "*.gate"]}), ["lm_head.x", "a.gate"], ["model.lm_head", "gate"]),
        (json!({"modules_to_not_convert": ["lm_head"]}), ["model.lm_head", "lm_head.x"], ["lm_heads", "lm"]),
        (json!({"llm_int8_skip_modules": ["lm_head"]}), ["model.lm_head", "lm_head.x"], ["lm_heads", "lm"]),
        (
            json!({"ignored_layers": ["model.layers.3.mlp"]}),
            ["model.layers.3.mlp", "model.layers.3.mlp.up"],
            ["model.layers.30.mlp", "model.layers.3"],
        ),
    ];
    for (document, ignored, kept) in lists {
        let config = config(&document);
        assert!(ignored.iter().all(|module| ignores(&config, module)), "{ignored:?}");
        assert!(!kept.iter().any(|module| ignores(&config, module)), "{kept:?}");
        assert!(config.ignore_problem().is_none() && problems(&config).is_empty());
    }
    assert!(!ignores(&QuantConfig::default(), ""));
}

#[test]
fn an_exclusion_names_its_list_and_entry() {
    let config = config(&json!({"ignore": ["a", "re:.*lm_head"], "modules_to_not_convert": ["b"]}));
    let exclusion = |module: &str| config.module(module).exclusion().unwrap().to_string();
    assert_eq!(exclusion("lm_head"), r#"config.json: quantization_config.ignore excludes it by "re:.*lm_head""#);
    assert_eq!(exclusion("b"), r#"config.json: quantization_config.modules_to_not_convert excludes it by "b""#);
}

#[test]
fn modelopt_writes_wildcards_under_either_name() {
    for document in [
        json!({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.layers.0*"]}),
        json!({"quant_algo": "FP8", "ignore": ["model.layers.0*"]}),
        json!({"quant_algo": "FP8", "exclude_modules": ["model.layers.0*"]}),
    ] {
        assert!(ignores(&config(&document), "model.layers.0.mlp"));
    }
}

#[test]
fn an_invalid_entry_is_reported_and_the_others_apply() {
    let config = config(&json!({"ignore": ["re:(", "lm_head", "re:(?!x)"]}));
    assert!(ignores(&config, "lm_head"));
    let problem = config.ignore_problem().unwrap().to_string();
    assert!(problem.starts_with("ignore: the entry \"re:(\" cannot be read"), "{problem}");
}

#[test]
fn lists_beyond_the_limit_are_truncated_and_reported() {
    let names: Vec<_> = (0..=1 << 16).map(|number| format!("a.{number}")).collect();
    let expressions: Vec<_> = (0..=1 << 10).map(|number| format!("re:a.{number}$")).collect();
    for entries in [names, expressions] {
        let config = config(&json!({"ignore": entries}));
        assert!(ignores(&config, "a.0") && !ignores(&config, "b"));
        assert!(config.ignore_problem().is_some());
    }
}

// Values

#[test]
fn a_value_of_another_type_is_a_problem_that_names_place_found_and_allowed() {
    let cases = [
        (json!({"bits": "4"}), r#"quantization_config.bits is "4", a number is needed"#),
        (json!({"desc_act": "true"}), r#"quantization_config.desc_act is "true", true or false is needed"#),
        (json!({"weight_block_size": 128}), "weight_block_size is 128, a pair of positive integers is needed"),
        (json!({"group_size": "128"}), r#"group_size is "128", an integer or a pair of integers is needed"#),
        (json!({"ignore": "lm_head"}), r#"ignore is "lm_head", a list of names is needed"#),
        (json!({"ignore": ["lm_head", 3]}), r#"ignore is ["lm_head",3], a list of names is needed"#),
        (json!({"config_groups": []}), "config_groups is [], an object is needed"),
        (
            json!({"config_groups": {"g": {"targets": "Linear"}}}),
            r#"config_groups.g.targets is "Linear", a list of names is needed"#,
        ),
        (
            json!({"config_groups": {"g": {"weights": {"num_bits": 8.5}}}}),
            "config_groups.g.weights.num_bits is 8.5, an integer is needed",
        ),
        (json!({"dynamic": {"+:a": {"bits": "8"}}}), r#"dynamic.+:a.bits is "8", a number is needed"#),
        (json!({"quantized_layers": {"a": 3}}), "quantized_layers.a is 3, an object is needed"),
    ];
    for (description, wanted) in cases {
        let found = problems(&config(&description));
        assert!(found.len() == 1 && found[0].contains(wanted) && found[0].contains("config.json: "), "{found:?}");
    }
}

#[test]
fn null_members_count_as_absent_and_unknown_ones_are_ignored() {
    let description = json!({"quant_method": "x", "bits": null, "group_size": null, "ignore": null, "format": null,
        "config_groups": null, "weight_block_size": null, "transform_config": null, "unheard_of": {"bits": "4"},
        "weights": "int8", "version": 2});
    let config = config(&description);
    assert_eq!(problems(&config), [""; 0]);
    let module = config.module("a");
    assert!(module.args().integer(&["group_size"]).unwrap().is_none());
    let error = module.args().needed_integer(&["group_size"]).unwrap_err().to_string();
    assert!(error.contains("quantization_config.group_size is null, an integer is needed"), "{error}");
}

#[test]
fn typed_members_are_read_or_refused() {
    let config = config(&json!({"bits": 4, "w_bit": 3, "sym": true, "fmt": "e4m3", "size": 4.5, "block": "16x32"}));
    let args = config.args();
    let bits = args.integer(&["w_bit", "bits"]).unwrap().unwrap();
    assert_eq!((bits.value, bits.place.document()), (3, "config.json"));
    assert_eq!(args.integer(&["q", "bits"]).unwrap().unwrap().value, 4);
    assert_eq!(args.flag(&["sym"]).unwrap(), Some(true));
    assert_eq!(args.text(&["fmt"]).unwrap(), Some("e4m3"));
    assert_eq!(args.number(&["size"]).unwrap(), Some(4.5));
    assert_eq!(args.pair(&["block"]).unwrap(), Some((16, 32)));
    assert!(args.integer(&["size"]).is_err() && args.flag(&["bits"]).is_err() && args.pair(&["bits"]).is_err());
    assert!(args.text(&["absent"]).unwrap().is_none());
}

#[test]
fn a_duplicate_member_is_a_problem() {
    let text = r#"{"quantization_config": {"bits": 4, "sym": true, "bits": 8}}"#;
    assert_eq!(
        problems(&read(&[("config.json", text)])),
        ["parse error: config.json: quantization_config.bits appears twice"]
    );
}

// Contradictions and refusals

#[test]
fn descriptions_that_contradict_each_other_are_a_problem() {
    let bits = |bits: u32| json!({"quantization_config": {"quant_method": "gptq", "bits": bits}}).to_string();
    let own = |bits: u32| json!({"bits": bits, "group_size": 128}).to_string();
    assert!(problems(&read(&[("config.json", &bits(4)), ("quantize_config.json", &own(4))])).is_empty());
    let found = problems(&read(&[("config.json", &bits(4)), ("quantize_config.json", &own(8))]));
    assert_eq!(found, ["parse error: config.json: bits is 4, but 8 in quantize_config.json"]);
    let nested = json!({"quantization_config": {"bits": 4}, "text_config": {"quantization_config": {"bits": 8}}});
    let found = problems(&read(&[("config.json", &nested.to_string())]));
    let wanted = "config.json: quantization_config: bits is 4, but 8 in config.json: text_config.quantization_config";
    assert_eq!(found, [format!("parse error: {wanted}")]);
}

#[test]
fn transformed_or_sparse_weights_are_refused_by_name() {
    let transform = json!({"config_groups": {"u": {"type": "hadamard", "apply": []}}});
    for (key, value) in [
        ("transform_config", transform),
        ("sparsity_config", json!({"format": "sparse-of-tomorrow"})),
        ("moe_sparsity_config", json!({"method": "prune", "num_experts": [null, 8]})),
        ("rotation_config", json!({"hadamard_type": "quarot"})),
    ] {
        let config = config(&json!({"quant_method": "compressed-tensors", key: value}));
        let Some(AnamnesisError::Unsupported { format, detail }) = config.problems().next() else { panic!("{key}") };
        assert_eq!(format, key);
        assert!(detail.contains("config.json: quantization_config"), "{detail}");
    }
    for format in ["dense", "sparse-bitmask", "sparse-24-bitmask"] {
        let known = json!({"quant_method": "compressed-tensors", "sparsity_config": {"format": format}});
        assert!(problems(&config(&known)).is_empty(), "{format}");
    }
    let harmless = json!({"transform_config": {"config_groups": {}}, "sparsity_config": {"format": "dense"},
        "moe_sparsity_config": null, "rotation_config": {}, "kv_cache_scheme": {"num_bits": 8}});
    assert!(problems(&config(&harmless)).is_empty());
}

// Rules

fn bits_of(config: &QuantConfig, module: &str) -> Option<i64> {
    config.module(module).args().integer(&["bits"]).unwrap().map(|bits| bits.value)
}

#[test]
fn the_first_matching_rule_of_gptqmodel_applies() {
    let text = r#"{"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {
        "-:.*\\.gate$": {}, "+:z\\.1\\.": {"bits": 8, "group_size": 32}, "z.*": {"bits": 2}, "a.*": {"bits": 3}}}}"#;
    let config = read(&[("config.json", text)]);
    assert_eq!(bits_of(&config, "z.1.up"), Some(8));
    assert_eq!(bits_of(&config, "z.2.up"), Some(2));
    assert_eq!(bits_of(&config, "a.1"), Some(3));
    assert_eq!(bits_of(&config, "b.a.1"), Some(4));
    let skipped = config.module("z.1.gate");
    let left = skipped.exclusion().unwrap();
    assert!(left.is_rule && left.entry.starts_with("-:"), "{left}");
    let group = config.module("z.1.up").args().integer(&["group_size"]).unwrap().unwrap();
    assert_eq!(group.place.to_string(), r"config.json: quantization_config.dynamic.+:z\.1\.");
}

#[test]
fn an_invalid_rule_leaves_every_module_undecided() {
    let config = config(&json!({"bits": 4, "quant_method": "gptq", "dynamic": {"-:^(?!.*mlp)": {}}}));
    assert!(config.module("a").undecided().unwrap().contains("dynamic"));
}

#[test]
fn names_take_precedence_over_expressions_in_auto_round() {
    let text = r#"{"quantization_config": {"quant_method": "auto-round", "bits": 4, "extra_config": {
        ".*experts.*": {"bits": 2}, ".*": {"bits": 3}, "a.experts.0": {"bits": 8}, "lm_head": {"bits": 16}}}}"#;
    let config = read(&[("config.json", text)]);
    let modules = ["a.experts.0", "a.experts.1", "b", "lm_head"];
    assert_eq!(modules.map(|module| bits_of(&config, module)), [Some(8), Some(2), Some(3), Some(16)]);
}

#[test]
fn layers_of_modelopt_have_their_own_algorithm() {
    let config = config(&json!({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {
        "model.layers.0.q": {"quant_algo": "FP8"}, "model.layers.0.mlp": {"quant_algo": "NVFP4", "group_size": 16}}}));
    let algorithm = |module: &str| config.module(module).args().text(&["quant_algo"]).unwrap().map(str::to_owned);
    assert_eq!(algorithm("model.layers.0.q").unwrap(), "FP8");
    assert_eq!(algorithm("model.layers.0.mlp.experts.3.up").unwrap(), "NVFP4");
    assert_eq!(algorithm("model.layers.1.q").unwrap(), "MIXED_PRECISION");
}

#[test]
fn the_algorithm_of_the_innermost_module_counts() {
    let config = config(&json!({
        "quant_algo": "NVFP4",
        "quantized_layers": { "a.b": { "quant_algo": "W4A16_NVFP4" }, "a.b.c": { "quant_algo": "FP8" } },
    }));
    for (module, algorithm) in
        [("a.b", "W4A16_NVFP4"), ("a.b.d.e", "W4A16_NVFP4"), ("a.b.c", "FP8"), ("a", "NVFP4"), ("a.bc", "NVFP4")]
    {
        assert_eq!(config.algorithm(module), Some(algorithm), "{module}");
    }
    assert_eq!(QuantConfig::default().algorithm("a.b"), None);
}

#[test]
fn mlx_overrides_are_members_of_the_description_itself() {
    let quantization = json!({"group_size": 64, "bits": 4, "mode": "affine", "model.embed": {"bits": 8, "group_size": 32},
        "lm_head": false, "model.norm": true});
    let document = json!({"quantization": quantization, "quantization_config": quantization});
    let config = read(&[("config.json", &document.to_string())]);
    assert!(problems(&config).is_empty(), "{:?}", problems(&config));
    assert_eq!(
        ["model.embed", "model.layers.0", "model.norm"].map(|module| bits_of(&config, module)),
        [Some(8), Some(4), Some(4)]
    );
    assert!(ignores(&config, "lm_head") && !ignores(&config, "model.embed"));
    assert_eq!(
        config.module("model.embed").evidence().unwrap(),
        "config.json: quantization.model.embed: bits 8, group_size 32"
    );
}

#[test]
fn only_the_named_modules_of_a_block_are_quantised() {
    let config = config(&json!({"quant_method": "gptq", "bits": 4,
        "modules_in_block_to_quantize": [["self_attn.q_proj", "self_attn.k_proj"], ["mlp.up_proj"]]}));
    assert!(!ignores(&config, "model.layers.0.self_attn.k_proj"));
    let module = config.module("model.layers.0.mlp.gate");
    assert!(module.exclusion().unwrap().to_string().ends_with("modules_in_block_to_quantize does not include it"));
}

// Groups

/// The strategies of the groups for a module.
fn strategies(config: &QuantConfig, module: &str) -> Vec<String> {
    let module = config.module(module);
    let groups = module.groups().map_or(&[][..], |(_, groups)| groups).iter();
    groups.filter_map(|group| group.text(&["strategy"]).unwrap().map(str::to_owned)).collect()
}

#[test]
fn a_name_takes_precedence_over_an_expression_and_both_over_a_class() {
    let group = |strategy: &str, targets: Value| json!({"targets": targets, "weights": {"strategy": strategy}});
    let config = config(&json!({"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {
        "group_0": group("class", json!(["Linear"])),
        "group_1": group("expression", json!(["re:.*experts.*"])),
        "group_2": group("name", json!(["a.experts.0", "a.q"])),
        "group_3": group("second", json!(["re:.*experts\\.7$"])),
        "group_4": group("unused", json!(["z", "re:y"]))}}));
    assert_eq!(strategies(&config, "a.experts.0"), ["name"]);
    assert_eq!(strategies(&config, "a.experts.1"), ["expression"]);
    assert_eq!(strategies(&config, "a.up"), ["class"]);
    // Two groups match this module in the same way.
    assert_eq!(strategies(&config, "a.experts.7"), ["expression", "second"]);
    assert_eq!(config.module("a.q").groups().unwrap().0, Target::Name);
    assert!(ignores(&config, "lm_head"));
    let unused = config.unused_groups(&["a.q", "a.experts.7", "lm_head"]);
    assert_eq!(unused, ["config.json: quantization_config.config_groups.group_4 matches no module of this checkpoint"]);
    assert_eq!(
        config.module("a.q").evidence().unwrap(),
        "config.json: quantization_config.config_groups.group_2.weights: strategy \"name\""
    );
}

#[test]
fn missing_weight_arguments_come_from_the_group_then_the_description() {
    let group = |format: Value| json!({"targets": ["Linear"], "format": format, "weights": {"num_bits": 4}});
    for (own, wanted) in [(json!("pack-quantized"), "pack-quantized"), (json!(null), "mixed-precision")] {
        let config = config(&json!({"format": "mixed-precision", "config_groups": {"g": group(own)}}));
        let module = config.module("a");
        let (_, groups) = module.groups().unwrap();
        assert_eq!(groups[0].text(&["format"]).unwrap(), Some(wanted));
        assert_eq!(groups[0].integer(&["num_bits"]).unwrap().unwrap().value, 4);
    }
}

#[test]
fn a_module_that_no_group_matches_has_none() {
    let config = config(&json!({"config_groups": {"g": {"targets": ["re:.*experts"], "weights": {"num_bits": 4}}}}));
    assert!(config.module("a.q").groups().is_none());
    assert!(config.module("a.q").evidence().unwrap().contains("config_groups has no group for it"));
}

#[test]
fn matching_many_modules_against_many_entries_is_fast() {
    // Compared one by one this takes minutes.
    let name = |number: usize| format!("model.layers.{}.mlp.experts.{}.up_proj", number % 61, number / 61);
    let names: Vec<_> = (0..20_000).map(|number| name(2 * number)).collect();
    let rules: serde_json::Map<_, _> = names.iter().map(|name| (name.clone(), json!({"quant_algo": "FP8"}))).collect();
    let config = config(&json!({"quant_algo": "FP8", "ignore": names, "quantized_layers": rules,
        "config_groups": {"g": {"targets": names}}}));
    assert!(problems(&config).is_empty());
    let left = (0..20_000).filter(|&number| ignores(&config, &name(number))).count();
    assert_eq!(left, 10_000);
}

// Given by the caller

#[test]
fn a_configuration_given_by_the_caller_may_be_a_bare_description() {
    for text in
        [r#"{"quant_method": "gptq", "bits": 4}"#, r#"{"quantization_config": {"quant_method": "gptq", "bits": 4}}"#]
    {
        let config = QuantConfig::read_given("the configuration", text.as_bytes());
        assert_eq!((config.method(), bits_of(&config, "a")), (Some("gptq"), Some(4)));
    }
    assert!(!QuantConfig::read_given("x", br#"{"hidden_size": 4}"#).is_present());
    let problem = problems(&QuantConfig::read_given("x.json", b"[]")).join("");
    assert_eq!(problem, "parse error: x.json is not a JSON object");
}

#[test]
fn evidence_lists_places_groups_and_rules() {
    let config = config(&json!({"quant_method": "compressed-tensors", "format": "float-quantized", "version": "0.11",
        "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "group_size": null}}},
        "quantized_layers": {"a": {}, "b": {}}}));
    assert_eq!(
        config.evidence(),
        [
            r#"config.json: quant_method "compressed-tensors", format "float-quantized", version "0.11""#,
            r#"config.json: config_groups.g: num_bits 8, type "float""#,
            "config.json: quantized_layers: 2 overrides of modules",
        ]
    );
}
