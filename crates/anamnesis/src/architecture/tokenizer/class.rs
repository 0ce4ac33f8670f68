//! Tokens that the classes of transformers bring along where a model's files name none.

use serde_json::Value;

use super::rules::TokenizerClass;
use super::settings::Settings;
use super::wanted::Wanted;

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
pub(super) fn with_defaults(settings: &Settings, wanted: &Wanted<'_>, is_byte_level: bool) -> Settings {
    let mut filled = settings.clone();
    for (role, content) in defaults(settings.class(), wanted, is_byte_level) {
        // One that is null has been taken away on purpose.
        filled.0.entry(format!("{role}_token")).or_insert_with(|| Value::from(*content));
    }
    filled
}

fn defaults(declared: Option<&str>, wanted: &Wanted<'_>, is_byte_level: bool) -> Defaults {
    let model_type = wanted.config.get("model_type").and_then(Value::as_str);
    let registered = wanted.rules.classes.iter().find(|(known, _)| Some(*known) == model_type);
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
        // Of a byte-level vocabulary the class has nothing to say.
        Some("LlamaTokenizer") if !is_byte_level => LLAMA,
        _ => &[],
    }
}
