use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

fn edit(text: &str) -> ConfigEdit {
    without_quantisation(text.as_bytes(), Some(TargetDtype::BF16)).unwrap()
}

/// Checks the result of an edit with LF, with CRLF, and nested in another object.
fn check(before: &str, after: &str) {
    let edited = |text: &str| String::from_utf8(edit(text).text).unwrap();
    assert_eq!(edited(before), after);
    let crlf = |text: &str| text.replace('\n', "\r\n");
    assert_eq!(edited(&crlf(before)), crlf(after));
    if before.contains("dtype") {
        let nested = |text: &str| format!(r#"{{"dtype": "bfloat16", "text_config": {text}, "z": [{text}]}}"#);
        assert_eq!(edited(&nested(before)), nested(after));
    }
}

#[test]
fn a_member_is_removed_at_any_position_in_one_line() {
    check(r#"{"quantization_config": {"a": [1]}, "dtype": "auto", "b": 2}"#, r#"{"dtype": "bfloat16", "b": 2}"#);
    check(r#"{"dtype": "auto", "quantization_config": {"a": [1]}, "b": 2}"#, r#"{"dtype": "bfloat16", "b": 2}"#);
    check(r#"{"dtype": "auto", "b": 2, "quantization_config": {"a": [1]}}"#, r#"{"dtype": "bfloat16", "b": 2}"#);
    check(r#"{"dtype":"auto","quantization_config":{},"b":2}"#, r#"{"dtype":"bfloat16","b":2}"#);
    check(r#"{ "dtype" : "auto" , "quantization_config" : null , "b" : 2 }"#, r#"{ "dtype" : "bfloat16" , "b" : 2 }"#);
}

#[test]
fn a_member_is_removed_at_any_position_in_an_indented_document() {
    let after = "{\n  \"dtype\": \"bfloat16\",\n  \"b\": 2\n}\n";
    let removed = "\"quantization_config\": {\n    \"bits\": 4\n  }";
    check(&format!("{{\n  {removed},\n  \"dtype\": \"float16\",\n  \"b\": 2\n}}\n"), after);
    check(&format!("{{\n  \"dtype\": \"float16\",\n  {removed},\n  \"b\": 2\n}}\n"), after);
    check(&format!("{{\n  \"dtype\": \"float16\",\n  \"b\": 2,\n  {removed}\n}}\n"), after);
    check(&format!("{{\n  {removed},\n  \"dtype\": \"float16\",\n  {removed},\n  {removed},\n  \"b\": 2\n}}\n"), after);
    check(&format!("{{\n  {removed},\n  {removed},\n  \"dtype\": \"float16\",\n  \"b\": 2,\n  {removed}\n}}\n"), after);
}

#[test]
fn commas_at_the_start_of_lines_stay_there() {
    check(
        "{ \"dtype\": \"auto\"\n, \"quantization_config\": {}\n, \"b\": 2\n}",
        "{ \"dtype\": \"bfloat16\"\n, \"b\": 2\n}",
    );
}

#[test]
fn an_object_that_loses_everything_stays_as_an_empty_one() {
    check(
        "{\n  \"dtype\": \"auto\",\n  \"text_config\": {\n    \"quantization_config\": {}\n  }\n}",
        "{\n  \"dtype\": \"bfloat16\",\n  \"text_config\": {}\n}",
    );
}

#[test]
fn a_missing_dtype_is_added_in_the_documents_own_style() {
    check("{}", r#"{"torch_dtype": "bfloat16"}"#);
    check(r#"{"a":1}"#, r#"{"a":1,"torch_dtype":"bfloat16"}"#);
    check(r#"{"a": 1}"#, r#"{"a": 1, "torch_dtype": "bfloat16"}"#);
    check(r#"{"a": 1,"b": 2}"#, r#"{"a": 1,"b": 2,"torch_dtype": "bfloat16"}"#);
    check("{\n\t\"a\": 1\n}\n", "{\n\t\"a\": 1,\n\t\"torch_dtype\": \"bfloat16\"\n}\n");
    check(
        "{\n  \"a\": {\"x\": 1},\n  \"b\": 2\n}",
        "{\n  \"a\": {\"x\": 1},\n  \"b\": 2,\n  \"torch_dtype\": \"bfloat16\"\n}",
    );
    check("{\n  \"a\": 1,\n  \"quantization_config\": {}\n}", "{\n  \"a\": 1,\n  \"torch_dtype\": \"bfloat16\"\n}");
    check("{\n  \"quantization_config\": {},\n  \"a\": 1\n}", "{\n  \"a\": 1,\n  \"torch_dtype\": \"bfloat16\"\n}");
    check("{\n  \"quantization_config\": {}\n}", "{\n  \"torch_dtype\": \"bfloat16\"\n}");
    check(r#"{"quantization_config":{},"compression_config":{}}"#, r#"{"torch_dtype":"bfloat16"}"#);
}

#[test]
fn a_nested_dtype_does_not_count_as_the_documents() {
    let edit = edit(r#"{"text_config": {"torch_dtype": "float16"}}"#);
    let after = r#"{"text_config": {"torch_dtype": "bfloat16"}, "torch_dtype": "bfloat16"}"#;
    assert_eq!(String::from_utf8(edit.text).unwrap(), after);
}

#[test]
fn only_texts_that_name_a_float_type_are_changed() {
    for (target, name) in
        [(TargetDtype::BF16, "bfloat16"), (TargetDtype::F16, "float16"), (TargetDtype::F32, "float32")]
    {
        for stored in ["bfloat16", "float16", "float32", "auto", "torch.float16", "float8_e4m3fn"] {
            let edit =
                without_quantisation(format!(r#"{{"torch_dtype": "{stored}"}}"#).as_bytes(), Some(target)).unwrap();
            assert_eq!(edit.text, format!(r#"{{"torch_dtype": "{name}"}}"#).as_bytes());
            assert_eq!(edit.changed.is_empty(), stored == name);
        }
    }
    for kept in ["\"int8\"", "null", "{\"dtype\": 3}", "[\"float16\"]", "\"\"", "\"FLOAT16\"", "1e3"] {
        let text = format!(r#"{{"torch_dtype": {kept}}}"#);
        assert_eq!(edit(&text).text, text.as_bytes());
    }
}

#[test]
fn quantization_is_removed_only_if_it_is_an_object() {
    check(r#"{"dtype": "auto", "quantization": {"bits": 4}}"#, r#"{"dtype": "bfloat16"}"#);
    for kept in ["\"awq\"", "null", "[{}]", "4"] {
        let text = format!(r#"{{"dtype": "bfloat16", "quantization": {kept}}}"#);
        assert_eq!(edit(&text).text, text.as_bytes());
    }
}

#[test]
fn names_inside_texts_and_removed_objects_are_left_alone() {
    let text =
        r#"{"dtype": "bfloat16", "a": "\"quantization_config\": {}, ", "b\\": "}\\\"", "c": ["dtype", "float16"]}"#;
    assert_eq!(edit(text).text, text.as_bytes());
    let edit = edit(r#"{"dtype": "bfloat16", "quantization_config": {"dtype": "float16", "quantization_config": {}}}"#);
    assert_eq!(edit.text, br#"{"dtype": "bfloat16"}"#);
    assert_eq!((edit.removed, edit.changed), (vec!["quantization_config".to_owned()], vec![]));
}

#[test]
fn keys_written_with_escapes_are_understood() {
    let edit = edit(r#"{"d\u0074ype": "flo\u0061t16", "quantization\u005fconfig": {}, "é\n": 1}"#);
    assert_eq!(String::from_utf8(edit.text).unwrap(), r#"{"d\u0074ype": "bfloat16", "é\n": 1}"#);
}

#[test]
fn every_occurrence_of_a_key_is_treated() {
    check(
        r#"{"dtype": "auto", "quantization_config": {}, "dtype": "float32", "quantization_config": 1, "a": 1, "a": 2}"#,
        r#"{"dtype": "bfloat16", "dtype": "bfloat16", "a": 1, "a": 2}"#,
    );
}

#[test]
fn the_report_names_what_was_done_by_its_path() {
    let text = r#"{"text_config": {"quantization_config": {}, "dtype": "auto", "x": [0, {"dtype": "float16"}]},
        "compression_config": 1, "a\u001b\n": {"dtype": "auto"}}"#;
    let edit = edit(text);
    assert_eq!(edit.removed, ["text_config.quantization_config", "compression_config"]);
    let changed = ["text_config.dtype", "text_config.x[1].dtype", "a\\u{1b}\\u{a}.dtype", "torch_dtype"];
    assert_eq!(edit.changed, changed);
}

#[test]
fn a_report_about_a_hostile_document_stays_short() {
    let text = format!(r#"{{"{}": {{{}"x": 1}}}}"#, "k".repeat(1 << 20), r#""dtype": "auto", "#.repeat(1000));
    let edit = edit(&text);
    assert_eq!(edit.changed.len(), 1001);
    assert!(edit.changed.iter().all(|path| path.len() < 1000));
}

#[test]
fn a_text_that_is_not_a_json_object_is_refused() {
    for text in ["", "{", "[]", "\"a\"", "{\"a\": 1,}", "{} {}", "{\"a\": nan}", "\u{feff}{}", "{\"a\": \"\\ud800\"}"] {
        let result = without_quantisation(text.as_bytes(), Some(TargetDtype::BF16));
        assert!(matches!(result, Err(AnamnesisError::Parse { .. })), "{text}");
    }
    assert!(without_quantisation(b"{\"a\": \"\xff\"}", Some(TargetDtype::BF16)).is_err());
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |depth: usize| format!("{{\"a\":{}1{}}}", open.repeat(depth), close.repeat(depth));
        assert!(without_quantisation(nested(100_000).as_bytes(), Some(TargetDtype::BF16)).is_err());
        // The scanner reaches the maximum depth of a document.
        for depth in 100..130 {
            let is_valid = serde_json::from_str::<Value>(&nested(depth)).is_ok();
            assert_eq!(
                without_quantisation(nested(depth).as_bytes(), Some(TargetDtype::BF16)).is_ok(),
                is_valid,
                "{depth}"
            );
        }
    }
}

#[test]
fn a_real_configuration_loses_its_quantisation_and_nothing_else() {
    let edit = edit(DEEPSEEK_LIKE);
    let start = DEEPSEEK_LIKE.find("  \"quantization_config\"").unwrap();
    let end = DEEPSEEK_LIKE.find("  \"rms_norm_eps\"").unwrap();
    let expected = format!("{}{}", &DEEPSEEK_LIKE[..start], &DEEPSEEK_LIKE[end..]);
    let expected = expected.replace("\"torch_dtype\": \"float16\"", "\"torch_dtype\": \"bfloat16\"");
    assert_eq!(String::from_utf8(edit.text).unwrap(), expected);
    assert_eq!(edit.removed, ["quantization_config"]);
    assert_eq!(edit.changed, ["torch_dtype"]);
}

/// The same edit on the parsed form.
fn edit_value(value: &mut Value, is_document: bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| edit_value(item, false)),
        Value::Object(members) => {
            members.retain(|key, value| match key.as_str() {
                "quantization_config" | "compression_config" => false,
                "quantization" => !value.is_object(),
                _ => true,
            });
            for key in ["torch_dtype", "dtype"] {
                if let Some(Value::String(text)) = members.get_mut(key)
                    && (matches!(text.trim_start_matches("torch."), "bfloat16" | "float16" | "float32" | "auto")
                        || text.starts_with("float8_"))
                {
                    *text = "bfloat16".to_owned();
                }
            }
            if is_document && !members.contains_key("torch_dtype") && !members.contains_key("dtype") {
                members.insert("torch_dtype".to_owned(), "bfloat16".into());
            }
            members.values_mut().for_each(|member| edit_value(member, false));
        }
        _ => {}
    }
}

/// Serialises a document with white space taken from `spaces` in turn.
fn write(value: &Value, spaces: &mut dyn Iterator<Item = &'static str>, out: &mut String) {
    let mut space = |out: &mut String| out.push_str(spaces.next().unwrap_or(""));
    match value {
        Value::Array(items) => {
            out.push('[');
            space(out);
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                out.push_str(spaces.next().unwrap_or(""));
                write(item, spaces, out);
                out.push_str(spaces.next().unwrap_or(""));
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            space(out);
            for (place, (key, member)) in members.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                out.push_str(spaces.next().unwrap_or(""));
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push_str(spaces.next().unwrap_or(""));
                out.push(':');
                out.push_str(spaces.next().unwrap_or(""));
                write(member, spaces, out);
                out.push_str(spaces.next().unwrap_or(""));
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn documents() -> impl Strategy<Value = Value> {
    let texts = prop_oneof![
        prop::sample::select(vec!["auto", "float16", "torch.bfloat16", "float8_e4m3fn", "int8", "bfloat16"])
            .prop_map(str::to_owned),
        ".{0,4}",
    ];
    let keys = prop_oneof![
        3 => prop::sample::select(vec![
            "quantization_config", "compression_config", "quantization", "dtype", "torch_dtype", "text_config", "a",
        ]).prop_map(str::to_owned),
        1 => ".{0,3}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        texts.prop_map(Value::from)
    ];
    let members = move |value: BoxedStrategy<Value>| {
        prop::collection::vec((keys.clone(), value), 0..6)
            .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>()))
    };
    let value = leaf.prop_recursive(4, 40, 6, {
        let members = members.clone();
        move |inner| {
            let items = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
            prop_oneof![items, members(inner.boxed())]
        }
    });
    members(value.boxed())
}

proptest! {
    #[test]
    fn the_edited_text_parses_to_the_edited_value(
        document in documents(),
        spaces in prop::collection::vec(prop::sample::select(vec!["", "", " ", "\n  ", "\r\n\t", "  "]), 1..20),
    ) {
        let mut text = String::new();
        write(&document, &mut spaces.iter().copied().cycle(), &mut text);
        let mut expected = document;
        edit_value(&mut expected, true);
        let first = edit(&text);
        let parsed: Value = serde_json::from_slice(&first.text).unwrap();
        prop_assert_eq!(parsed, expected, "{}", text);
        let text = String::from_utf8(first.text).unwrap();
        let second = edit(&text);
        prop_assert_eq!(second, ConfigEdit { text: text.into_bytes(), removed: vec![], changed: vec![] });
    }

    #[test]
    fn no_bytes_make_it_panic(text in prop::collection::vec(prop::sample::select(b"{}[]\",:\\ 1a\n".to_vec()), 0..40)) {
        let _ = without_quantisation(&text, Some(TargetDtype::F32));
    }
}

const DEEPSEEK_LIKE: &str = r#"{
  "architectures": [
    "DeepseekV3ForCausalLM"
  ],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "auto_map": {
    "AutoConfig": "configuration_deepseek.DeepseekV3Config",
    "AutoModel": "modeling_deepseek.DeepseekV3Model",
    "AutoModelForCausalLM": "modeling_deepseek.DeepseekV3ForCausalLM"
  },
  "bos_token_id": 0,
  "eos_token_id": 1,
  "ep_size": 1,
  "first_k_dense_replace": 3,
  "hidden_act": "silu",
  "hidden_size": 7168,
  "initializer_range": 0.02,
  "intermediate_size": 18432,
  "kv_lora_rank": 512,
  "max_position_embeddings": 163840,
  "model_type": "deepseek_v3",
  "moe_intermediate_size": 2048,
  "moe_layer_freq": 1,
  "n_group": 8,
  "n_routed_experts": 256,
  "n_shared_experts": 1,
  "norm_topk_prob": true,
  "num_attention_heads": 128,
  "num_experts_per_tok": 8,
  "num_hidden_layers": 61,
  "num_key_value_heads": 128,
  "num_nextn_predict_layers": 1,
  "q_lora_rank": 1536,
  "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64,
  "quantization_config": {
    "activation_scheme": "dynamic",
    "fmt": "e4m3",
    "quant_method": "fp8",
    "weight_block_size": [
      128,
      128
    ]
  },
  "rms_norm_eps": 1e-06,
  "rope_scaling": {
    "beta_fast": 32,
    "beta_slow": 1,
    "factor": 40,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096,
    "type": "yarn"
  },
  "rope_theta": 10000,
  "routed_scaling_factor": 2.5,
  "scoring_func": "sigmoid",
  "seq_aux": true,
  "tie_word_embeddings": false,
  "topk_group": 4,
  "topk_method": "noaux_tc",
  "torch_dtype": "float16",
  "transformers_version": "4.33.1",
  "use_cache": true,
  "v_head_dim": 128,
  "vocab_size": 129280
}
"#;

#[test]
fn another_quantisation_takes_the_place_of_the_old_one() {
    let quantisation = serde_json::json!({"quant_method": "bitsandbytes", "load_in_4bit": true});
    let edited = |text: &str| {
        let edit = with_quantisation(text.as_bytes(), None, &[("quantization_config", quantisation.clone())]).unwrap();
        assert!(edit.removed.is_empty(), "{:?}", edit.removed);
        String::from_utf8(edit.text).unwrap()
    };
    let old = "{\n  \"dtype\": \"float16\",\n  \"quantization_config\": {\"bits\": 4},\n  \"z\": 1\n}\n";
    let new = "{\n  \"dtype\": \"float16\",\n  \"z\": 1,\n  \"quantization_config\": {\n    \"load_in_4bit\": true,\n    \
               \"quant_method\": \"bitsandbytes\"\n  }\n}\n";
    assert_eq!(edited(old), new);
    for text in ["{}", "{ }", r#"{"a": 1}"#, "{\n}", "{\"quantization_config\": {}}", "{\n  \"a\": {\n  }\n}"] {
        let parsed: Value = serde_json::from_str(&edited(text)).unwrap();
        assert_eq!(parsed["quantization_config"], quantisation, "{text}");
    }
}
