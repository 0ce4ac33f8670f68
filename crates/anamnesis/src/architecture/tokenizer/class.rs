//! Tokens that the classes of transformers bring along where a model's files name none.

use serde_json::{Map, Value};

use super::settings::Settings;

/// The special tokens of a class: role and content.
type Defaults = &'static [(&'static str, &'static str)];

const END_OF_TEXT: &str = "<|endoftext|>";
const QWEN2: Defaults = &[("eos", END_OF_TEXT), ("unk", END_OF_TEXT), ("pad", END_OF_TEXT)];
const GPT2: Defaults = &[("bos", END_OF_TEXT), ("eos", END_OF_TEXT), ("unk", END_OF_TEXT)];
const GPT_NEOX: Defaults = &[("bos", END_OF_TEXT), ("eos", END_OF_TEXT), ("unk", END_OF_TEXT), ("pad", "<|padding|>")];
const LLAMA: Defaults = &[("bos", "<s>"), ("eos", "</s>"), ("unk", "<unk>")];
const COHERE: Defaults = &[
    ("bos", "<BOS_TOKEN>"),
    ("eos", "<|END_OF_TURN_TOKEN|>"),
    ("unk", "<UNK>"),
    ("sep", "<SEP>"),
    ("pad", "<PAD>"),
    ("cls", "<CLS>"),
    ("mask", "<MASK_TOKEN>"),
];
const GEMMA: Defaults = &[("bos", "<bos>"), ("eos", "<eos>"), ("unk", "<unk>"), ("pad", "<pad>"), ("mask", "<mask>")];

/// Fills in what the class that loads the vocabulary has as defaults.
pub(super) fn with_defaults(settings: &Settings, config: &Map<String, Value>, is_byte_level: bool) -> Settings {
    let mut filled = settings.clone();
    for (role, content) in defaults(settings.class(), config, is_byte_level) {
        // One that is null has been taken away on purpose.
        filled.0.entry(format!("{role}_token")).or_insert_with(|| Value::from(*content));
    }
    filled
}

fn defaults(declared: Option<&str>, config: &Map<String, Value>, is_byte_level: bool) -> Defaults {
    let registered = match config.get("model_type").and_then(Value::as_str).unwrap_or_default() {
        // Whatever its files say.
        "qwen2" => return QWEN2,
        kind if kind.starts_with("qwen2") || kind.starts_with("qwen3") => Some("Qwen2Tokenizer"),
        kind if kind.starts_with("gemma") => Some("GemmaTokenizer"),
        "cohere" | "cohere2" => Some("CohereTokenizer"),
        "starcoder2" | "phi" => Some("GPT2Tokenizer"),
        "mamba" | "mamba2" | "falcon_mamba" | "olmo" | "olmoe" => Some("GPTNeoXTokenizer"),
        // Their vocabularies are read as they stand.
        kind if kind.starts_with("glm") || kind.starts_with("granite") => return &[],
        "olmo2" | "olmo3" | "phi3" | "mistral" | "mistral3" | "mixtral" => return &[],
        _ => None,
    };
    match declared.or(registered) {
        Some("Qwen2Tokenizer") => QWEN2,
        Some("GPT2Tokenizer") => GPT2,
        Some("GPTNeoXTokenizer") => GPT_NEOX,
        Some("CohereTokenizer") => COHERE,
        Some("GemmaTokenizer") => GEMMA,
        // Of a byte-level vocabulary the class has nothing to say.
        Some("LlamaTokenizer") if !is_byte_level => LLAMA,
        _ => &[],
    }
}
