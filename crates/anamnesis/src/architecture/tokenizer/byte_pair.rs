//! Byte-level BPE vocabularies: the tokens and merges of `tokenizer.json`.

use serde_json::Value;

use super::added::{Vocabulary, bounded};
use super::request::VocabularyRequest;
use super::sources::Sources;
use super::special::SpecialTokens;
use super::token_type::{CONTROL, NORMAL, UNUSED, USER_DEFINED, byte_of, looks_special, padding};
use super::{class, pre, roles};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::byte_level;
use crate::catalog::MetadataArray;
use crate::error::{AnamnesisError, ModelPart, Result, quoted};

/// Writes the tokens, their types and the merges of a byte-level vocabulary.
pub(super) fn write(
    sources: &mut Sources<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let Some(mut document) = sources.document.take() else {
        let detail =
            format!("there is no tokenizer.json, which has the vocabulary of {}", quoted(request.architecture));
        return Err(AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail));
    };
    if let Some(kind) = document.model.kind.as_deref().filter(|kind| *kind != "BPE") {
        let detail = format!("tokenizer.json has a model of type {}, BPE is needed", quoted(kind));
        return Err(AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail));
    }
    if document.model.merges.is_empty() {
        document.model.merges = sources.merges()?;
    }
    let settings = class::with_defaults(&sources.settings, request, true);
    let vocabulary = Vocabulary::new(&document, &settings)?;
    vocabulary.check_merges(&document)?;
    let (texts, kinds) = tokens(&vocabulary, &document.decoder, request)?;
    metadata.text("tokenizer.ggml.model", "gpt2");
    let name = pre::name(&document, &vocabulary, request, metadata)?;
    metadata.text("tokenizer.ggml.pre", name);
    let mut special = SpecialTokens::read(Some(&document), &sources.settings, request.config, None)?;
    special.chat_template = sources.chat_template(metadata)?;
    roles::assign(&mut special, &vocabulary, request.rules.roles)?;
    drop(vocabulary);
    let tokens = collect_tokens(texts, std::mem::take(&mut document.model.vocab));
    metadata.array("tokenizer.ggml.tokens", MetadataArray::String(tokens));
    metadata.array("tokenizer.ggml.token_type", MetadataArray::I32(kinds));
    let merges: Vec<String> = std::mem::take(&mut document.model.merges).into_iter().map(|merge| merge.0).collect();
    if merges.is_empty() {
        metadata.note("the vocabulary has no merges; llama.cpp does not load it without");
    }
    metadata.array("tokenizer.ggml.merges", MetadataArray::String(merges));
    special.write(metadata)
}

/// The text of a token.
enum Text {
    /// The text in the vocabulary of the model.
    OfModel,
    Own(String),
}

/// The texts of tokens by id. Those of the model are moved, not copied: large vocabularies have a quarter of a million.
fn collect_tokens(texts: Vec<Text>, model: Vec<(String, u32)>) -> Vec<String> {
    let is_own: Vec<bool> = texts.iter().map(|text| matches!(text, Text::Own(_))).collect();
    let own = texts.into_iter().map(|text| match text {
        Text::OfModel => String::new(),
        Text::Own(text) => text,
    });
    let mut tokens: Vec<String> = own.collect();
    for (mut text, id) in model {
        if let (Some(false), Some(token)) = (is_own.get(id as usize), tokens.get_mut(id as usize)) {
            text.shrink_to_fit();
            *token = text;
        }
    }
    tokens
}

/// The texts and types of tokens by id.
fn tokens(
    vocabulary: &Vocabulary<'_>,
    decoder: &Value,
    request: &VocabularyRequest<'_>,
) -> Result<(Vec<Text>, Vec<i32>)> {
    let size = bounded(request.size().unwrap_or_else(|| vocabulary.len() as u64))?;
    let (mut tokens, mut kinds) = (Vec::with_capacity(size), Vec::with_capacity(size));
    for (id, entry) in vocabulary.by_id(size)?.into_iter().enumerate() {
        let (token, kind) = match entry {
            None => (Text::Own(padding(id)), UNUSED),
            Some((_, None)) => (Text::OfModel, NORMAL),
            Some((token, Some(added))) if request.rules.declared_types => {
                (Text::Own(token.to_owned()), if added.special { CONTROL } else { USER_DEFINED })
            }
            Some((token, Some(added))) => {
                let token = if added.normalized { token.to_owned() } else { decoded(decoder, token) };
                let is_control = request.rules.control_tokens.contains(&token.as_str());
                match added.special || is_control || looks_special(&token) {
                    true => (Text::Own(token), CONTROL),
                    false => (Text::Own(token.replace('\u{2581}', " ")), USER_DEFINED),
                }
            }
        };
        tokens.push(token);
        kinds.push(kind);
    }
    Ok((tokens, kinds))
}

/// The text of a token after decoding.
fn decoded(decoder: &Value, token: &str) -> String {
    match decoder.get("type").and_then(Value::as_str) {
        Some("ByteLevel") => match byte_level::bytes(token) {
            Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            None => token.to_owned(),
        },
        Some("ByteFallback") => match byte_of(token) {
            Some(byte) => String::from_utf8_lossy(&[byte]).into_owned(),
            None => token.to_owned(),
        },
        Some("Replace") => {
            let pattern = decoder.get("pattern").and_then(|pattern| pattern.get("String")).and_then(Value::as_str);
            let content = decoder.get("content").and_then(Value::as_str);
            pattern.zip(content).map_or_else(|| token.to_owned(), |(pattern, content)| token.replace(pattern, content))
        }
        Some("Strip") => {
            let content = decoder.get("content").and_then(Value::as_str).unwrap_or(" ");
            let times = |key: &str| decoder.get(key).and_then(Value::as_u64).unwrap_or(0);
            let left = (0..times("start")).try_fold(token, |token, _| token.strip_prefix(content).ok_or(token));
            let left = left.unwrap_or_else(|rest| rest);
            let right = (0..times("stop")).try_fold(left, |token, _| token.strip_suffix(content).ok_or(token));
            right.unwrap_or_else(|rest| rest).to_owned()
        }
        Some("Sequence") => {
            let steps = decoder.get("decoders").and_then(Value::as_array);
            steps.into_iter().flatten().fold(token.to_owned(), |token, inner| decoded(inner, &token))
        }
        _ => token.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn a_token_in_the_byte_alphabet_reads_as_its_bytes() {
        let decoder = serde_json::json!({"type": "ByteLevel"});
        for (token, expected) in
            [("<|a|>", "<|a|>"), ("\u{120}x", " x"), ("  ", "  "), ("é", "\u{fffd}"), ("\u{2581}", "\u{2581}")]
        {
            assert_eq!(decoded(&decoder, token), expected);
        }
    }

    #[test]
    fn the_decoder_of_sentencepiece_puts_spaces_back() {
        let decoder = serde_json::json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]});
        for (token, expected) in [("\u{2581}\u{2581}a", " a"), ("<0x0A>", "\n"), ("b", "b")] {
            assert_eq!(decoded(&decoder, token), expected);
        }
    }
}
