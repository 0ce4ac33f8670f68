//! `config.json` and `generation_config.json` from GGUF metadata.

use serde_json::{Map, Value, json};

use crate::architecture::gguf::{self, Gguf};
use crate::architecture::key::{LAYER_KEYS, ValueSource};
use crate::architecture::key_names::USUAL_KEYS;
use crate::architecture::kind::{Architecture, Class, Head};
use crate::error::Result;

/// llama.cpp's default of `rope.freq_base`.
const ROPE_THETA: f64 = 10_000.0;

/// Other keys for biases of queries, keys and values.
const QKV_BIASES: [&str; 2] = ["use_qkv_bias", "qkv_bias"];

/// The keys for norms of queries and keys; some models have norms without weights.
const QK_NORMS: [&str; 2] = ["use_qk_norm", "qk_layernorm"];

/// The configuration of the model in a file, of a given class or of that which the file is of.
pub(super) fn restored(
    architecture: &'static Architecture,
    class: Option<&'static Class>,
    file: &Gguf<'_>,
) -> Result<Map<String, Value>> {
    let mut config = Map::new();
    for key in architecture.keys.iter().flat_map(|keys| keys.iter()) {
        let (names, value) = match &key.from {
            ValueSource::Count(names) | ValueSource::CountOr(names, _) => {
                (*names, file.count(key.gguf).map(Value::from))
            }
            ValueSource::CountOrList(names) => (*names, file.count_or_list(key.gguf)),
            ValueSource::Needed(name) => (std::slice::from_ref(name), file.count(key.gguf).map(Value::from)),
            ValueSource::Layers => (LAYER_KEYS, file.count(key.gguf).map(Value::from)),
            ValueSource::Real(names) | ValueSource::RealOr(names, _) => (*names, file.real(key.gguf).map(gguf::json)),
            ValueSource::NeededReal(name) => (std::slice::from_ref(name), file.real(key.gguf).map(gguf::json)),
            ValueSource::Flag(name) | ValueSource::FlagOr(name, _) => {
                (std::slice::from_ref(name), file.flag(key.gguf).map(Value::from))
            }
            _ => continue,
        };
        let is_known = |name: &&&'static str| architecture.has_default(name);
        let is_usual = |name: &&&'static str| USUAL_KEYS.contains(*name);
        let usual = names.iter().find(is_known).or_else(|| names.iter().find(is_usual)).or(names.first());
        // A second key for the same hyperparameter comes later; `keys::check` compares them.
        if let (Some(name), Some(value)) = (usual, value) {
            insert(&mut config, name, value);
        }
    }
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    if let Some(&[rows, ..]) = file.shapes.get("token_embd.weight") {
        set("vocab_size", json!(rows));
    }
    set("tie_word_embeddings", json!(!file.has("output.weight") && architecture.head != Head::Always));
    set("torch_dtype", json!(file.dtype));
    set("hidden_act", json!("silu"));
    set("use_cache", json!(true));
    if file.has_in_layers(&["attn_q.weight", "attn_kv_a_mqa.weight"]) {
        let biases = ["attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_kv_a_mqa.bias"];
        let is_biased = file.has_in_layers(&biases);
        set("attention_bias", json!(is_biased));
        for key in QKV_BIASES.into_iter().filter(|key| architecture.has_default(key)) {
            set(key, json!(is_biased));
        }
        let is_normed = file.has_in_layers(&["attn_q_norm.weight"]);
        for key in QK_NORMS.into_iter().filter(|key| is_normed && architecture.has_default(key)) {
            set(key, json!(true));
        }
    }
    for kind in ["bos", "eos", "padding"] {
        if let Some(id) = file.number(&format!("tokenizer.ggml.{kind}_token_id")) {
            set(&format!("{}_token_id", kind.trim_end_matches("ding")), json!(id));
        }
    }
    if file.has_in_layers(&["ffn_up.weight"]) {
        set("mlp_bias", json!(file.has_in_layers(&["ffn_gate.bias", "ffn_up.bias", "ffn_down.bias"])));
    }
    match file.real("rope.freq_base") {
        Some(theta) => _ = set("rope_theta", gguf::json(theta)),
        None if architecture.has_key("rope.freq_base") => _ = set("rope_theta", gguf::json(ROPE_THETA)),
        None => {}
    }
    let heads = file.count("attention.head_count").filter(|_| architecture.has_key("attention.head_count_kv"));
    if let (None, Some(heads)) = (file.count("attention.head_count_kv"), heads) {
        set("num_key_value_heads", json!(heads));
    }
    if let Some(theta) = file.real("rope.freq_base_swa") {
        set("rope_local_base_freq", gguf::json(theta));
    }
    if let Some(scaling) = scaling(file) {
        set("rope_scaling", scaling);
    }
    let own = match architecture.restore {
        Some(restore) => restore(file, &mut config)?,
        None => 0,
    };
    if let Some(class) = class.or(architecture.classes.get(own)).or(architecture.classes.first()) {
        config.insert("architectures".to_owned(), json!([class.name]));
        config.insert("model_type".to_owned(), json!(class.model_type));
    }
    config.sort_keys();
    Ok(config)
}

/// Sets a key that is not set. Dots separate the keys of objects and those in them.
fn insert(config: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        None => _ = config.entry(name.to_owned()).or_insert(value),
        Some((outer, inner)) => {
            if let Value::Object(object) = config.entry(outer.to_owned()).or_insert_with(|| json!({})) {
                insert(object, inner, value);
            }
        }
    }
}

/// `rope_scaling`, if the file has linear scaling or YaRN.
fn scaling(file: &Gguf<'_>) -> Option<Value> {
    let kind = file.string("rope.scaling.type").filter(|kind| matches!(*kind, "linear" | "yarn"))?;
    let mut scaling = Map::new();
    scaling.insert("rope_type".to_owned(), json!(kind));
    for (key, name) in [
        ("factor", "factor"),
        ("yarn_ext_factor", "extrapolation_factor"),
        ("yarn_attn_factor", "attention_factor"),
        ("yarn_beta_fast", "beta_fast"),
        ("yarn_beta_slow", "beta_slow"),
    ] {
        if let Some(value) = file.real(&format!("rope.scaling.{key}")) {
            scaling.insert(name.to_owned(), gguf::json(value));
        }
    }
    if let Some(length) = file.count("rope.scaling.original_context_length") {
        scaling.insert("original_max_position_embeddings".to_owned(), json!(length));
    }
    Some(Value::Object(scaling))
}

/// The generation parameters, if the file has any.
pub(super) fn generation(file: &Gguf<'_>) -> Option<Map<String, Value>> {
    let mut generation = Map::new();
    for (key, name) in
        [("temp", "temperature"), ("top_p", "top_p"), ("min_p", "min_p"), ("penalty_repeat", "repetition_penalty")]
    {
        if let Some(value) = file.any_real(&format!("general.sampling.{key}")) {
            generation.insert(name.to_owned(), gguf::json(value));
        }
    }
    if let Some(value) = file.number("general.sampling.top_k") {
        generation.insert("top_k".to_owned(), json!(value));
    }
    if !generation.is_empty() {
        generation.insert("do_sample".to_owned(), json!(true));
    }
    for kind in ["bos", "eos", "padding"] {
        if let Some(id) = file.number(&format!("tokenizer.ggml.{kind}_token_id")) {
            generation.insert(format!("{}_token_id", kind.trim_end_matches("ding")), json!(id));
        }
    }
    (!generation.is_empty()).then_some(generation)
}
