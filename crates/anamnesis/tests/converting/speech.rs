//! Models that speak: what contradicts their configuration is refused by name.

use anamnesis::{Checkpoint, ConvertOptions, ConvertTarget, ParseLimits};
use serde_json::{Value, json};

use crate::support::{Contents, Folder, Model, fixture};

/// The refusal of a copy of a case with another configuration, without a tensor, and with a further file.
fn refused(case: &str, change: impl FnOnce(&mut Value), without: &str, file: &str) -> String {
    let source = fixture("one_way").join(case);
    let contents = Contents::read(source.join("model.safetensors"));
    let tensors = contents.tensors.into_iter().filter(|(name, _)| name != without);
    let model = tensors
        .fold(Model::new(), |model, (name, tensor)| model.tensor(&name, &tensor.dtype, &tensor.shape, &tensor.data));
    let folder = Folder::staged(&model.bytes(), None);
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        folder.write(name, std::fs::read(source.join(name)).unwrap());
    }
    let mut config: Value = serde_json::from_slice(&std::fs::read(source.join("config.json")).unwrap()).unwrap();
    change(&mut config);
    folder.write("config.json", config.to_string());
    if !file.is_empty() {
        folder.write(file, b"");
    }
    let opened = Checkpoint::open(folder.path(""), &ParseLimits::default()).unwrap();
    opened.plan_convert(ConvertTarget::Gguf, &ConvertOptions::new()).err().unwrap().to_string()
}

#[test]
fn a_talker_that_contradicts_its_configuration_is_refused() {
    for (key, value, part) in [
        ("hidden_act", json!("gelu"), "silu"),
        ("hidden_act", Value::Null, "hidden_act"),
        ("vocab_size", json!(1u64 << 31), "talker_config.vocab_size"),
        ("vocab_size", Value::Null, "talker_config.vocab_size"),
        ("text_vocab_size", json!(261), "talker_config.text_vocab_size"),
        ("text_vocab_size", Value::Null, "talker_config.text_vocab_size"),
        ("text_hidden_size_id", json!(40), "talker_config.text_hidden_size_id"),
        ("codec_bos_id", json!(-1), "talker_config.codec_bos_id"),
        ("codec_bos_id", json!(true), "talker_config.codec_bos_id"),
        ("codec_bos_id", json!(31), "<|codec_bos|>"),
        ("codec_language_id", json!({"english": "a"}), "talker_config.codec_language_id.english"),
        ("codec_eos_token_id", json!(40), "talker_config.codec_eos_token_id"),
        ("codec_eos_token_id", Value::Null, "talker_config.codec_eos_token_id"),
    ] {
        let error = refused("qwen3tts", |config| config["talker_config"][key] = value.clone(), "", "");
        assert!(error.contains(part), "{key} {value}: {error}");
    }
    for tensor in ["text_projection.linear_fc2.bias", "model.codec_embedding.weight", "codec_head.weight"] {
        let tensor = format!("talker.{tensor}");
        let error = refused("qwen3tts", |_| {}, &tensor, "");
        assert!(error.contains(&tensor), "{tensor}: {error}");
    }
    let error = refused("qwen3tts", |_| {}, "", "tokenizer.model");
    assert!(error.contains("tokenizer.model"), "{error}");
}
