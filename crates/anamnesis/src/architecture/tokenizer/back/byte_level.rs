//! The `tokenizer.json` of a byte-level vocabulary.

use serde_json::{Value, json};

use super::document::{Document, template};
use super::vocabulary::{StoredVocabulary, Token};
use crate::architecture::tokenizer::pre;

/// The document; `None` if the pre-tokenizer is unknown.
pub(super) fn document<'m>(stored: &StoredVocabulary<'m>, notes: &mut Vec<String>) -> Option<Document<'m>> {
    let name = stored.text("tokenizer.ggml.pre").unwrap_or("default");
    let Some(pre_tokenizer) = pre::declaration(name) else {
        notes.push(format!("the vocabulary is not restored: the pre-tokenizer \"{name}\" is unknown"));
        return None;
    };
    let mut merges = Vec::with_capacity(stored.merges.len());
    for merge in stored.merges {
        // A part may begin with a space.
        let place = merge.char_indices().skip(1).find(|(_, letter)| *letter == ' ').map(|(place, _)| place);
        let parts = place.and_then(|place| Some((merge.get(..place)?, merge.get(place + 1..)?)));
        merges.extend(parts.filter(|(_, right)| !right.is_empty()));
    }
    if merges.len() < stored.merges.len() {
        notes.push(format!("{} merges that are not pairs are dropped", stored.merges.len() - merges.len()));
    }
    let ignores = matches!(
        name,
        "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "pixtral" | "lfm2" | "glm4" | "tekken"
    );
    let begins =
        matches!(name, "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "pixtral" | "lfm2" | "tekken");
    let is_composed = matches!(name, "qwen2" | "deepseek-r1-qwen" | "olmo" | "mpt" | "command-r");
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true});
    let bos = stored.truth("add_bos_token").unwrap_or(begins);
    let around = template(stored, bos, stored.truth("add_eos_token").unwrap_or(false));
    Some(Document {
        vocab: stored.model_tokens(),
        added: stored.iter().filter(Token::is_added).collect(),
        normalizer: if is_composed { json!({"type": "NFC"}) } else { Value::Null },
        pre_tokenizer,
        post_processor: match around {
            Some(template) => json!({"type": "Sequence", "processors": [bytes, template]}),
            None => bytes,
        },
        decoder: json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
        unknown: None,
        byte_fallback: false,
        ignore_merges: ignores,
        merges,
    })
}
