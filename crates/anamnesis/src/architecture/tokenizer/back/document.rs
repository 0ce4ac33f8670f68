//! Writes `tokenizer.json` incrementally, because its lists are long.

use serde_json::{Value, json};

use super::vocabulary::{StoredVocabulary, Token};
use crate::architecture::tokenizer::token_type::CONTROL;
use crate::byte_level;

/// The content of the file.
pub(super) struct Document<'m> {
    pub(super) added: Vec<Token<'m>>,
    pub(super) normalizer: Value,
    pub(super) pre_tokenizer: Value,
    pub(super) post_processor: Value,
    pub(super) decoder: Value,
    /// The settings of the model apart from its lists.
    pub(super) unknown: Option<&'m str>,
    pub(super) byte_fallback: bool,
    pub(super) ignore_merges: bool,
    pub(super) vocab: Vec<Token<'m>>,
    pub(super) merges: Vec<(&'m str, &'m str)>,
}

impl Document<'_> {
    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut text = br#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":["#.to_vec();
        for (place, token) in self.added.iter().enumerate() {
            comma(place, &mut text);
            value(&listed(token), &mut text);
        }
        text.push(b']');
        for (key, part) in [
            ("normalizer", &self.normalizer),
            ("pre_tokenizer", &self.pre_tokenizer),
            ("post_processor", &self.post_processor),
            ("decoder", &self.decoder),
        ] {
            text.extend(format!(",\"{key}\":").bytes());
            value(part, &mut text);
        }
        text.extend(br#","model":{"type":"BPE","dropout":null,"unk_token":"#);
        value(&self.unknown.map_or(Value::Null, Value::from), &mut text);
        let settings = format!(
            r#","continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":{},"byte_fallback":{},"ignore_merges":{},"vocab":{{"#,
            self.byte_fallback, self.byte_fallback, self.ignore_merges
        );
        text.extend(settings.bytes());
        for (place, token) in self.vocab.iter().enumerate() {
            comma(place, &mut text);
            string(token.text, &mut text);
            text.extend(format!(":{}", token.id).bytes());
        }
        text.extend(br#"},"merges":["#);
        for (place, (left, right)) in self.merges.iter().enumerate() {
            comma(place, &mut text);
            text.push(b'[');
            string(left, &mut text);
            text.push(b',');
            string(right, &mut text);
            text.push(b']');
        }
        text.extend(b"]}}\n");
        text
    }
}

/// The entry of an added token in the list.
fn listed(token: &Token<'_>) -> Value {
    let mut entry = added_token_json(token);
    if let Some(object) = entry.as_object_mut() {
        object.insert("id".to_owned(), Value::from(token.id));
    }
    entry
}

/// The options of an added token.
pub(super) fn added_token_json(token: &Token<'_>) -> Value {
    // A token whose text changes when decoded is matched after normalisation.
    let reads_otherwise = byte_level::bytes(token.text).is_some_and(|bytes| bytes != token.text.as_bytes());
    json!({
        "content": token.text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": reads_otherwise,
        "special": token.kind == CONTROL,
    })
}

/// The template post-processor that adds BOS and EOS around a text.
pub(super) fn template(stored: &StoredVocabulary<'_>, bos: bool, eos: bool) -> Option<Value> {
    let item = |(_, text): (usize, &str), place: u32| json!({"SpecialToken": {"id": text, "type_id": place}});
    let sequence = |name: &str, place: u32| json!({"Sequence": {"id": name, "type_id": place}});
    let bos = stored.role("bos").filter(|_| bos);
    let eos = stored.role("eos").filter(|_| eos);
    if bos.is_none() && eos.is_none() {
        return None;
    }
    let around = |name: &str, place: u32| {
        let before = bos.map(|token| item(token, place));
        let after = eos.map(|token| item(token, place));
        before.into_iter().chain([sequence(name, place)]).chain(after).collect::<Vec<Value>>()
    };
    let (single, pair): (_, Vec<Value>) = (around("A", 0), around("A", 0).into_iter().chain(around("B", 1)).collect());
    let token = |(id, text): (usize, &str)| (text.to_owned(), json!({"id": text, "ids": [id], "tokens": [text]}));
    let special: serde_json::Map<String, Value> = bos.into_iter().chain(eos).map(token).collect();
    Some(json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}))
}

fn comma(place: usize, into: &mut Vec<u8>) {
    if place > 0 {
        into.push(b',');
    }
}

fn string(text: &str, into: &mut Vec<u8>) {
    value(&Value::from(text), into);
}

fn value(value: &Value, into: &mut Vec<u8>) {
    into.extend(value.to_string().bytes());
}
