//! The word list of RWKV: a line per token with its id, its text or bytes as Python writes them, and its length.

use super::added::bounded;
use super::request::VocabularyRequest;
use super::sources::Sources;
use super::special::SpecialTokens;
use super::token_type::{CONTROL, NORMAL, UNUSED, padding};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::catalog::MetadataArray;
use crate::error::{AnamnesisError, ModelPart, Result, quoted};

const FILE: &str = "rwkv_vocab_v20230424.txt";

/// The number of tokens by default.
const SIZE: u64 = 65_536;
/// The chat template of models without one.
const TEMPLATE: &str = include_str!("templates/rwkv_world.jinja");
/// The token that ends a turn: two line breaks.
const END_OF_TURN: u32 = 261;

pub(super) fn write(
    sources: &Sources<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let Some(text) = sources.files.read(FILE)? else {
        let detail = format!("there is no {FILE}, which has the vocabulary");
        return Err(AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail));
    };
    let text = String::from_utf8(text).map_err(|_| AnamnesisError::parse(format!("{FILE} is not UTF-8")))?;
    let size = bounded(request.vocab_size.unwrap_or(SIZE))?;
    let (mut tokens, mut kinds) = (vec!["<s>".to_owned()], vec![CONTROL]);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let faulty = || AnamnesisError::parse(format!("{FILE}: line {} is no token", number + 1));
        let line = line.strip_suffix('\n').unwrap_or(line);
        let (_, rest) = line.split_once(' ').ok_or_else(faulty)?;
        let (literal, length) = rest.rsplit_once(' ').ok_or_else(faulty)?;
        let token = literal_bytes(literal).ok_or_else(faulty)?;
        if length.trim().parse::<usize>().ok() != Some(token.len()) {
            let reason =
                format!("{FILE}: line {}: {} has {} bytes, not {length}", number + 1, quoted(literal), token.len());
            return Err(AnamnesisError::parse(reason));
        }
        bounded(tokens.len() as u64)?;
        tokens.push(shown(&token));
        kinds.push(NORMAL);
    }
    if tokens.len() > size {
        let reason = format!("{FILE} has {} tokens, {size} are in the embedding (vocab_size)", tokens.len());
        return Err(AnamnesisError::parse(reason));
    }
    tokens.extend((tokens.len()..size).map(padding));
    kinds.resize(size, UNUSED);
    metadata.text("tokenizer.ggml.model", "rwkv");
    metadata.array("tokenizer.ggml.tokens", MetadataArray::String(tokens));
    metadata.array("tokenizer.ggml.token_type", MetadataArray::I32(kinds));
    let mut special = SpecialTokens::read(sources.document.as_ref(), &sources.settings, request.config, None)?;
    special.chat_template = sources.chat_template(metadata)?;
    let has_template = special.chat_template.is_some();
    special.set("eot", END_OF_TURN);
    special.replace("bos", 0);
    special.replace("eos", 0);
    special.write(metadata)?;
    if !has_template {
        metadata.text("tokenizer.chat_template", TEMPLATE);
    }
    Ok(())
}

/// The bytes of a Python literal of text or bytes.
fn literal_bytes(literal: &str) -> Option<Vec<u8>> {
    let (is_bytes, rest) = match literal.strip_prefix('b') {
        Some(rest) => (true, rest),
        None => (false, literal),
    };
    let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    let inner = rest.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut bytes = Vec::new();
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        let code = match character {
            '\\' => escaped(&mut characters)?,
            _ => character.into(),
        };
        match is_bytes {
            true => bytes.push(u8::try_from(code).ok()?),
            false => bytes.extend(char::from_u32(code)?.to_string().as_bytes()),
        }
    }
    Some(bytes)
}

/// The code of an escape sequence, after its backslash.
fn escaped(characters: &mut std::str::Chars<'_>) -> Option<u32> {
    let digits = match characters.next()? {
        'n' => return Some(0x0a),
        'r' => return Some(0x0d),
        't' => return Some(0x09),
        'a' => return Some(0x07),
        'b' => return Some(0x08),
        'f' => return Some(0x0c),
        'v' => return Some(0x0b),
        '0' => return Some(0),
        same @ ('\\' | '\'' | '"') => return Some(same.into()),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => return None,
    };
    let text: String = characters.by_ref().take(digits).collect();
    (text.len() == digits).then(|| u32::from_str_radix(&text, 16).ok())?
}

/// Bytes as Python shows them.
fn shown(bytes: &[u8]) -> String {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { b'"' } else { b'\'' };
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            _ if byte == quote => {
                text.push('\\');
                text.push(char::from(byte));
            }
            0x20..=0x7e => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{literal_bytes, shown};

    #[test]
    fn literals_are_read_and_shown_as_python_does() {
        for (literal, bytes, text) in [
            ("'a'", &b"a"[..], "a"),
            ("'\\n\\n'", b"\n\n", "\\n\\n"),
            ("b'\\xff'", b"\xff", "\\xff"),
            ("\"'\"", b"'", "'"),
            ("'\u{e9}'", b"\xc3\xa9", "\\xc3\\xa9"),
        ] {
            assert_eq!(literal_bytes(literal).as_deref(), Some(bytes), "{literal}");
            assert_eq!(shown(bytes), text);
        }
        assert!(["'a", "a'", "'\\xg0'", "b'\u{e9}\u{1234}'"].iter().all(|literal| literal_bytes(literal).is_none()));
    }
}
