//! The language model in the configuration of a multimodal model: its class and its members.

use serde_json::{Map, Value};

/// Objects with the configuration of a multimodal model's language model.
const NESTED: [&str; 5] = ["text_config", "llm_config", "lm_config", "language_config", "lfm"];

/// Classes that keep their own rules, whatever class the configuration of their language model names.
const OUTER: [&str; 4] = [
    "StepVLForConditionalGeneration",
    "Sarashina2VisionForCausalLM",
    "Exaone4_5_ForConditionalGeneration",
    "Step3p7ForConditionalGeneration",
];

/// The configurations of a multimodal model's language model.
pub(crate) fn nested(raw: &Map<String, Value>) -> impl Iterator<Item = &Map<String, Value>> {
    let thinker = raw.get("thinker_config").and_then(|thinker| thinker.get("text_config"));
    NESTED.iter().filter_map(|key| raw.get(*key)).chain(thinker).filter_map(Value::as_object)
}

/// Whether a model's language model is its talker.
fn is_talker(raw: &Map<String, Value>) -> bool {
    class_of(raw) == Some("Qwen3TTSForConditionalGeneration")
}

/// The name of the class that a configuration is for.
pub(crate) fn class_of(raw: &Map<String, Value>) -> Option<&str> {
    let named = |map: &'_ Map<String, Value>| Some(map.get("architectures")?.as_array()?.first()?.as_str()?.to_owned());
    let is_outer = named(raw).is_some_and(|class| OUTER.contains(&class.as_str()));
    let nested = nested(raw).next().filter(|_| !is_outer);
    let place = nested.filter(|map| named(map).is_some()).unwrap_or(raw);
    place.get("architectures")?.as_array()?.first()?.as_str()
}

/// The members of a configuration, with those of a multimodal model's language model in their place.
pub(crate) fn flattened(raw: &Map<String, Value>) -> Map<String, Value> {
    let mut values = raw.clone();
    for nested in nested(raw) {
        values.extend(nested.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    // The talker of a model that speaks is its language model, which begins with the tokens of texts.
    if let Some(talker) = raw.get("talker_config").and_then(Value::as_object).filter(|_| is_talker(raw)) {
        values.extend(talker.iter().map(|(key, value)| (key.clone(), value.clone())));
        let tokens = talker.get("text_vocab_size").cloned().unwrap_or_default();
        values.insert("vocab_size".to_owned(), tokens);
    }
    // The layer of a draft model.
    if let Some(layer) = raw.get("transformer_layer_config").and_then(Value::as_object) {
        values.extend(layer.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    // Descriptions of all layers have their kinds, too.
    if let Some(blocks) = values.get("block_configs").and_then(Value::as_array)
        && let Some(kinds) = blocks.iter().map(|block| block.get("block_type").cloned()).collect::<Option<Vec<_>>>()
    {
        values.insert("layers_block_type".to_owned(), Value::from(kinds));
    }
    // A list of the kinds of layers also counts them.
    if let Some(kinds) = values.get("layers_block_type").and_then(Value::as_array) {
        let layers = Value::from(kinds.len());
        values.insert("num_hidden_layers".to_owned(), layers);
    }
    // The switch of a model with adapters counts as a layer, and has no tensors.
    if let (Some(layers), true) = (
        values.get("num_hidden_layers").and_then(Value::as_u64),
        values.contains_key("adapter_token_ids") && values.contains_key("adapter_substitute_token_ids"),
    ) {
        values.insert("num_hidden_layers".to_owned(), Value::from(layers.saturating_sub(1)));
    }
    // A multimodal model may say of the whole that the embedding is the head.
    let tied = "tie_word_embeddings";
    if raw.get(tied).and_then(Value::as_bool) == Some(true) {
        values.insert(tied.to_owned(), Value::from(true));
    }
    values
}
