//! The default special tokens of the tokenizer classes of transformers.

use serde_json::Value;

use super::request::VocabularyRequest;
use super::rules::TokenizerClass;
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

/// Fills in the defaults of the class that loads the vocabulary.
pub(super) fn with_defaults(settings: &Settings, request: &VocabularyRequest<'_>, is_byte_level: bool) -> Settings {
    let mut filled = settings.clone();
    for (role, content) in defaults(settings.class(), request, is_byte_level) {
        // An explicit null removes a default.
        filled.0.entry(format!("{role}_token")).or_insert_with(|| Value::from(*content));
    }
    filled
}

fn defaults(declared: Option<&str>, request: &VocabularyRequest<'_>, is_byte_level: bool) -> Defaults {
    let model_type = request.config.get("model_type").and_then(Value::as_str);
    let registered = request.rules.classes.iter().find(|(known, _)| Some(*known) == model_type);
    let class = match registered {
        Some((_, TokenizerClass::Always(class))) => Some(*class),
        Some((_, TokenizerClass::Registered(class))) => declared.or(Some(*class)),
        Some((_, TokenizerClass::NoDefaults)) => return &[],
        None => declared,
    };
    match class {
        Some("Qwen2Tokenizer") => QWEN2,
        Some("GPT2Tokenizer") => GPT2,
        Some("GPTNeoXTokenizer") => GPT_NEOX,
        Some("CohereTokenizer") => COHERE,
        Some("GemmaTokenizer") => GEMMA,
        // This class has no defaults for byte-level vocabularies.
        Some("LlamaTokenizer") if !is_byte_level => LLAMA,
        _ => &[],
    }
}
