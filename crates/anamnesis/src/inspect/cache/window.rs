//! Which layers attend to a sliding window only, and which share the keys and values of another layer.
//!
//! `layer_types` lists the kinds of layers. Configurations without it follow the rules of their classes.

use serde_json::Value;

use crate::catalog::{MetadataArray, MetadataValue};
use crate::inspect::settings::Settings;

/// The windows of a model's layers.
#[derive(Debug)]
pub(super) struct Windows {
    /// The window of layers that have one.
    window: Option<u64>,
    /// The chunk of layers with chunked attention.
    chunk: Option<u64>,
    rule: Rule,
    /// Layers from here on use the keys and values of earlier ones.
    first_shared: u64,
}

/// Which layers have the window.
#[derive(Debug, PartialEq, Eq)]
enum Rule {
    None,
    All,
    /// Every layer but each n-th.
    ButEach(u64),
    /// Layers from this one on.
    From(u64),
    /// By layer: a window, a chunk, or everything.
    Listed(Vec<LayerType>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LayerType {
    Full,
    Sliding,
    Chunked,
}

/// Types of models where each n-th layer has no window, unless the configuration says otherwise.
const ALTERNATING: [(&str, u64); 9] = [
    ("gemma2", 2),
    ("gpt_oss", 2),
    ("gpt-oss", 2),
    ("gemma3", 6),
    ("gemma3_text", 6),
    ("gemma3n", 5),
    ("gemma3n_text", 5),
    ("cohere2", 4),
    ("exaone4", 4),
];

/// Architectures of GGUF files whose window llama.cpp does not use.
const WITHOUT_WINDOW: [&str; 5] = ["llama", "phi3", "qwen2", "qwen3", "starcoder2"];

impl Windows {
    pub(super) fn of(settings: &Settings, layers: u64) -> Self {
        let window = settings.count(&["sliding_window"], "attention.sliding_window").filter(|window| *window > 0);
        // Both directions share the window.
        let window = match settings.flag("use_bidirectional_attention") {
            Some(true) if settings.model_type() == Some("gemma3_text") => window.map(|window| window / 2 + 1),
            _ => window,
        };
        let chunk = settings.count(&["attention_chunk_size"], "attention.chunk_size").filter(|chunk| *chunk > 0);
        let shared = settings.count(&["num_kv_shared_layers"], "attention.shared_kv_layers").unwrap_or(0);
        let rule = if settings.is_gguf() { rule_of_gguf(settings) } else { rule_of_config(settings, chunk, layers) };
        Self { window, chunk, rule, first_shared: layers.saturating_sub(shared) }
    }

    /// The tokens that a layer attends to, if they are limited.
    pub(super) fn of_layer(&self, index: u64) -> Option<u64> {
        let kind = match &self.rule {
            Rule::None => LayerType::Full,
            Rule::All if self.window.is_none() => LayerType::Chunked,
            Rule::All => LayerType::Sliding,
            Rule::ButEach(each) if (index + 1).checked_rem(*each) == Some(0) => LayerType::Full,
            Rule::ButEach(_) => LayerType::Sliding,
            Rule::From(first) if index < *first => LayerType::Full,
            Rule::From(_) => LayerType::Sliding,
            Rule::Listed(types) => {
                usize::try_from(index).ok().and_then(|index| types.get(index)).copied().unwrap_or(LayerType::Full)
            }
        };
        match kind {
            LayerType::Full => None,
            LayerType::Sliding => self.window,
            LayerType::Chunked => self.chunk,
        }
    }

    /// Whether a layer keeps nothing itself.
    pub(super) fn is_shared(&self, index: u64) -> bool {
        index >= self.first_shared
    }
}

fn rule_of_config(settings: &Settings, chunk: Option<u64>, layers: u64) -> Rule {
    if let Some(types) = settings.member("layer_types").and_then(Value::as_array) {
        let of = |kind: &Value| match kind.as_str() {
            Some("sliding_attention" | "hybrid_sliding") => LayerType::Sliding,
            Some("chunked_attention") => LayerType::Chunked,
            _ => LayerType::Full,
        };
        return Rule::Listed(types.iter().map(of).collect());
    }
    let has_window = settings.count(&["sliding_window"], "").is_some_and(|window| window > 0);
    let pattern = settings.count(&["sliding_window_pattern", "_sliding_window_pattern"], "").filter(|each| *each > 0);
    let known = settings.model_type().and_then(|name| ALTERNATING.iter().find(|(known, _)| *known == name));
    match settings.flag("use_sliding_window") {
        Some(false) => return Rule::None,
        Some(true) if settings.member("max_window_layers").is_some() => {
            return Rule::From(settings.count(&["max_window_layers"], "").unwrap_or(layers));
        }
        _ => {}
    }
    match pattern.or(known.map(|(_, each)| *each)) {
        _ if !has_window && chunk.is_some() => {
            let each = settings.count(&["no_rope_layer_interval"], "").filter(|each| *each > 0).unwrap_or(4);
            let of = |index: u64| if (index + 1).is_multiple_of(each) { LayerType::Full } else { LayerType::Chunked };
            Rule::Listed((0..layers).map(of).collect())
        }
        _ if !has_window => Rule::None,
        Some(each) => Rule::ButEach(each),
        None => Rule::All,
    }
}

fn rule_of_gguf(settings: &Settings) -> Rule {
    let is_sliding = |flag: &bool| if *flag { LayerType::Sliding } else { LayerType::Full };
    match settings.metadata("attention.sliding_window_pattern") {
        Some(MetadataValue::Array(items)) => match &**items {
            MetadataArray::Bool(flags) => return Rule::Listed(flags.iter().map(is_sliding).collect()),
            _ => return Rule::None,
        },
        Some(MetadataValue::U32(each @ 1..)) => return Rule::ButEach(u64::from(*each)),
        _ => {}
    }
    let Some(name) = settings.model_type() else { return Rule::None };
    match ALTERNATING.iter().find(|(known, _)| *known == name) {
        Some((_, each)) => Rule::ButEach(*each),
        None if WITHOUT_WINDOW.contains(&name) => Rule::None,
        None => Rule::All,
    }
}
