//! Parameters and caches of models, as transformers counts them (`reference/check_inspect.py`).

use std::fs;
use std::path::Path;

use anamnesis::{AttentionKind, Checkpoint, OpenOptions, OverviewWarning, ParseLimits, UnknownCache};
use serde_json::{Map, Value, json};

/// A safetensors file with tensors of these types and shapes, all zero.
fn zeros(tensors: &Map<String, Value>) -> Vec<u8> {
    let mut header = Map::new();
    let mut end = 0;
    for (name, described) in tensors {
        let described = described.as_array().unwrap();
        let bytes = match described[0].as_str().unwrap() {
            "F32" => 4,
            "BF16" | "F16" => 2,
            "I64" => 8,
            other => panic!("{other}"),
        };
        let values: u64 = described[1..].iter().map(|size| size.as_u64().unwrap()).product();
        let start = end;
        end += values * bytes;
        let entry = json!({ "dtype": described[0], "shape": described[1..], "data_offsets": [start, end] });
        header.insert(name.clone(), entry);
    }
    let header = Value::Object(header).to_string();
    let mut file = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    file.resize(file.len() + end as usize, 0);
    file
}

fn opened(tensors: &Value, config: &Value) -> Checkpoint {
    let mut options = OpenOptions::new();
    options.config = Some(config.to_string().as_str().into());
    Checkpoint::from_bytes_with(zeros(tensors.as_object().unwrap()), &options).unwrap()
}

#[test]
fn parameters_and_caches_are_those_of_transformers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/inspect/models.json");
    let models: Map<String, Value> = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut kinds = Vec::new();
    for (name, model) in &models {
        let checkpoint = opened(&model["tensors"], &model["config"]);
        let overview = checkpoint.overview();
        assert_eq!(overview.parameters.total, model["parameters"].as_u64(), "{name}");
        let tokens = model["tokens"].as_u64().unwrap();
        let bytes = overview.cache.as_ref().ok().map(|cache| cache.bytes_at(tokens));
        assert_eq!(bytes, model["cache"].as_u64(), "{name}: {:?}", overview.cache);
        assert_eq!(overview.warnings, [], "{name}");
        kinds.extend(overview.cache.iter().flat_map(|cache| &cache.layers).map(|layers| (layers.kind, layers.window)));
    }
    for kind in [AttentionKind::Full, AttentionKind::Grouped, AttentionKind::Latent, AttentionKind::Recurrent] {
        assert!(kinds.contains(&(kind, None)), "{kind:?}");
    }
    assert!(kinds.contains(&(AttentionKind::Grouped, Some(16))));
}

fn llama(layers: u64) -> (Value, Value) {
    let mut tensors = Map::new();
    tensors.insert("model.embed_tokens.weight".into(), json!(["BF16", 10, 8]));
    for layer in 0..layers {
        for (module, rows) in [("q_proj", 8), ("k_proj", 4), ("v_proj", 4), ("o_proj", 8)] {
            let name = format!("model.layers.{layer}.self_attn.{module}.weight");
            tensors.insert(name, json!(["BF16", rows, 8]));
        }
    }
    let config = json!({ "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8,
        "num_hidden_layers": layers, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 10,
        "torch_dtype": "bfloat16" });
    (Value::Object(tensors), config)
}

#[test]
fn a_tied_head_that_is_stored_counts_once() {
    let (mut tensors, mut config) = llama(1);
    tensors["lm_head.weight"] = json!(["BF16", 10, 8]);
    let untied = opened(&tensors, &config).overview().parameters;
    assert_eq!((untied.total, untied.tied), (Some(80 + 80 + 8 * 24), 0));
    config["tie_word_embeddings"] = true.into();
    let tied = opened(&tensors, &config).overview().parameters;
    assert_eq!((tied.total, tied.tied, tied.stored), (Some(80 + 8 * 24), 80, Some(80 + 80 + 8 * 24)));
}

#[test]
fn layers_after_the_last_and_buffers_are_no_parameters() {
    let (mut tensors, mut config) = llama(2);
    tensors["model.layers.1.mlp.gate.e_score_correction_bias"] = json!(["F32", 4]);
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = json!(["F32", 2]);
    tensors["mtp.layers.0.eh_proj.weight"] = json!(["BF16", 8, 16]);
    let whole = opened(&tensors, &config).overview().parameters;
    assert_eq!((whole.total, whole.buffers, whole.not_loaded), (Some(80 + 2 * 192), 6, 128));
    config["num_hidden_layers"] = 1.into();
    let checkpoint = opened(&tensors, &config);
    let overview = checkpoint.overview();
    assert_eq!((overview.parameters.total, overview.parameters.not_loaded), (Some(80 + 192), 128 + 192 + 4));
    assert_eq!(overview.cache.unwrap().token_bytes(), 16);
}

#[test]
fn configurations_that_contradict_the_tensors_are_warned_about() {
    let (tensors, mut config) = llama(2);
    config["num_hidden_layers"] = 3.into();
    config["vocab_size"] = 11.into();
    let checkpoint = opened(&tensors, &config);
    let wanted = [
        OverviewWarning::MissingLayers { declared: 3, found: 2 },
        OverviewWarning::SmallEmbedding { vocabulary: 11, rows: 10 },
    ];
    assert_eq!(checkpoint.overview().warnings, wanted);
}

#[test]
fn a_cache_is_unknown_rather_than_guessed() {
    let (mut tensors, config) = llama(1);
    let checkpoint = Checkpoint::from_bytes(zeros(tensors.as_object().unwrap()), &ParseLimits::default()).unwrap();
    let overview = checkpoint.overview();
    assert_eq!((overview.model, overview.cache), (None, Err(UnknownCache::NoConfiguration)));
    assert_eq!(overview.parameters.total, Some(80 + 192));

    tensors["model.layers.0.time_mix.decay"] = json!(["BF16", 8]);
    assert_eq!(opened(&tensors, &config).overview().cache, Err(UnknownCache::UnknownLayer { layer: 0 }));

    for (key, value, wanted) in [
        ("is_encoder_decoder", json!(true), UnknownCache::EncoderDecoder),
        ("model_type", json!("eurobert"), UnknownCache::Encoder),
    ] {
        let (tensors, mut config) = llama(1);
        config[key] = value;
        assert_eq!(opened(&tensors, &config).overview().cache, Err(wanted));
    }
}

#[test]
fn hostile_configurations_neither_fail_nor_overflow() {
    let (tensors, _) = llama(1);
    let huge = u64::MAX;
    for config in [
        json!({ "model_type": "llama", "num_hidden_layers": huge, "num_attention_heads": huge, "head_dim": huge,
            "sliding_window": huge, "num_kv_shared_layers": huge, "num_experts": huge, "num_experts_per_tok": huge }),
        json!({ "model_type": "llama", "num_hidden_layers": -1, "num_attention_heads": 0, "hidden_size": 0,
            "layer_types": [1, null, {}], "sliding_window": "x", "vocab_size": [huge, 1.5] }),
        json!({ "model_type": 7, "architectures": [[]], "text_config": [] }),
        json!({ "model_type": "gemma2", "sliding_window": 1, "sliding_window_pattern": 0 }),
    ] {
        let checkpoint = opened(&tensors, &config);
        let overview = checkpoint.overview();
        let _ = overview.cache.map(|cache| cache.bytes_at(u64::MAX));
    }
}
