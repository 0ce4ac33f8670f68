//! The known pre-tokenizers: their declarations in `tokenizer.json` and their names in llama.cpp.

use serde_json::{Value, json};

use super::split::words;
use super::text::TEXT;
use crate::architecture::tokenizer::document::Document;
use crate::architecture::tokenizer::post_processor::surrounding_ids;
use crate::architecture::tokenizer::request::VocabularyRequest;
use crate::architecture::tokenizer::rules::PreTokenizer;

const ALL: [PreTokenizer; 9] = [
    PreTokenizer::Llama3,
    PreTokenizer::Qwen2,
    PreTokenizer::Gpt2,
    PreTokenizer::Digits,
    PreTokenizer::DeepSeek3,
    PreTokenizer::DeepSeekCoder,
    PreTokenizer::Gpt4o,
    PreTokenizer::Tekken,
    PreTokenizer::Falcon,
];

impl PreTokenizer {
    /// Its declaration in `tokenizer.json`.
    fn declaration(self) -> Value {
        let bytes = |regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex});
        let split = |expression: &str| json!({"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": false});
        let digits = |single: bool| json!({"type": "Digits", "individual_digits": single});
        let contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
        let cl100k = |numbers: &str| {
            format!(
                r"{contractions}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{numbers}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            )
        };
        let o200k = |contractions: &str, numbers: &str| {
            let (upper, lower) = (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]");
            let word = r"[^\r\n\p{L}\p{N}]?";
            format!(
                r"{word}{upper}*{lower}+{contractions}|{word}{upper}+{lower}*{contractions}|{numbers}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            )
        };
        let steps = match self {
            Self::Declared(name) => return declared(name).unwrap_or_default(),
            Self::Llama3 => vec![split(&cl100k(r"\p{N}{1,3}")), bytes(false)],
            Self::Qwen2 => vec![split(&cl100k(r"\p{N}")), bytes(false)],
            Self::Gpt2 => return bytes(true),
            Self::Digits => vec![digits(true), bytes(true)],
            Self::DeepSeek3 => vec![
                split(r"\p{N}{1,3}"),
                split("[一-龥\u{3040}-ゟ゠-ヿ]+"),
                split(concat!(
                    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
                    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
                )),
                bytes(false),
            ],
            Self::DeepSeekCoder => vec![
                split(r"[\r\n]"),
                split(r"\s?\p{L}+"),
                split(r"\s?\p{P}+"),
                split("[一-龥\u{800}-一가-\u{d7ff}]+"),
                digits(true),
                bytes(false),
            ],
            Self::Gpt4o => vec![split(&o200k(&format!("{contractions}?"), r"\p{N}{1,3}")), bytes(false)],
            Self::Tekken => vec![split(&o200k("", r"\p{N}")), bytes(false)],
            Self::Falcon => vec![
                json!({"type": "Punctuation", "behavior": "Contiguous"}),
                bytes(true),
                digits(false),
                split("[0-9][0-9][0-9]"),
            ],
        };
        json!({"type": "Sequence", "pretokenizers": steps})
    }

    /// The pre-tokenizer of a name of llama.cpp.
    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "llama3" | "llama-v3" | "llama-bpe" | "smaug-bpe" | "dbrx" | "glm4" | "chatglm-bpe" | "falcon-h1"
            | "falcon3" | "pixtral" | "lfm2" => Self::Llama3,
            "qwen2" | "deepseek-r1-qwen" | "megrez" | "stablelm2" | "hunyuan" | "solar-open" | "grok-2" | "kormo"
            | "exaone4" => Self::Qwen2,
            "gpt-2" | "phi-2" | "olmo" | "mpt" | "default" | "jais" | "trillion" => Self::Gpt2,
            "starcoder" | "refact" | "command-r" | "smollm" | "codeshell" | "exaone" | "minerva-7b" | "mellum"
            | "mellum2" => Self::Digits,
            "deepseek-v3" | "joyai-llm" | "hunyuan-dense" | "hy_v4" => Self::DeepSeek3,
            "deepseek-coder" => Self::DeepSeekCoder,
            "gpt-4o" | "llama4" | "kanana2" | "minimax-m2" | "talkie" => Self::Gpt4o,
            "tekken" => Self::Tekken,
            "falcon" => Self::Falcon,
            "bailingmoe2" => Self::Declared("bailingmoe"),
            "tiny_aya" => Self::Declared("cohere2moe"),
            _ => return None,
        })
    }
}

/// The declarations of pre-tokenizers that one family of models has, with their names in llama.cpp.
static DECLARED: &str = include_str!("declared.json");

/// The entries of [`DECLARED`].
fn all_declared() -> Vec<(String, Value)> {
    serde_json::from_str(DECLARED).unwrap_or_default()
}

fn declared(name: &str) -> Option<Value> {
    all_declared().into_iter().find_map(|(known, declaration)| (known == name).then_some(declaration))
}

/// The steps of a declaration, without options that do not change how a text is split.
fn steps(declaration: &Value) -> Vec<Value> {
    let inner = declaration.get("pretokenizers").and_then(Value::as_array);
    let steps = inner.map_or_else(|| std::slice::from_ref(declaration), Vec::as_slice);
    let essential = |step: &Value| {
        let mut step = step.clone();
        if let Some(step) = step.as_object_mut() {
            step.remove("trim_offsets");
        }
        step
    };
    steps.iter().map(essential).collect()
}

/// The name of a pre-tokenizer whose declaration only one family of models has.
fn name_of_declared(declaration: &Value, request: &VocabularyRequest<'_>) -> Option<&'static str> {
    let steps_of_document = steps(declaration);
    let (name, _) = all_declared().into_iter().find(|(_, known)| steps(known) == steps_of_document)?;
    let own = request.rules.pre.iter().find(|(kind, _)| matches!(kind, PreTokenizer::Declared(of) if *of == name));
    own.map(|(_, name)| *name).or_else(|| super::digests::known(&name))
}

/// The declaration of a named pre-tokenizer in `tokenizer.json`.
pub(in crate::architecture::tokenizer) fn declaration(name: &str) -> Option<Value> {
    PreTokenizer::of_name(name).map(PreTokenizer::declaration).or_else(|| declared(name))
}

/// The name of a declared pre-tokenizer, by how it splits the fixed text and by the architecture.
pub(super) fn name(document: &Document, request: &VocabularyRequest<'_>) -> Option<&'static str> {
    if let Some(name) = name_of_declared(&document.pre_tokenizer, request) {
        return Some(name);
    }
    let cut = words(&document.pre_tokenizer, TEXT)?;
    let kind = ALL.into_iter().find(|kind| words(&kind.declaration(), TEXT).as_ref() == Some(&cut))?;
    let begins = surrounding_ids(document).is_some_and(|(before, _)| !before.is_empty());
    let is_composed = document.normalizer.to_string().contains("\"NFC\"");
    if let Some((_, name)) = request.rules.pre.iter().find(|(named, _)| *named == kind) {
        return Some(name);
    }
    Some(match kind {
        PreTokenizer::Llama3 if begins => "llama-bpe",
        PreTokenizer::Llama3 => "smaug-bpe",
        PreTokenizer::Qwen2 => "qwen2",
        PreTokenizer::Gpt2 if is_composed => "olmo",
        PreTokenizer::Gpt2 => "gpt-2",
        PreTokenizer::Digits => "starcoder",
        PreTokenizer::DeepSeek3 => "deepseek-v3",
        PreTokenizer::DeepSeekCoder => "deepseek-coder",
        PreTokenizer::Gpt4o => "gpt-4o",
        PreTokenizer::Tekken => "tekken",
        PreTokenizer::Falcon => "falcon",
        PreTokenizer::Declared(name) => name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declaration_splits_the_text_differently() {
        let cuts: Vec<Vec<String>> = ALL.iter().map(|kind| words(&kind.declaration(), TEXT).unwrap()).collect();
        for (place, cut) in cuts.iter().enumerate() {
            assert!(!cuts[..place].contains(cut), "{:?}", ALL[place]);
        }
    }
}
