//! The vocabulary of `tekken.json` (Mistral): byte strings with ranks after a block of special tokens, without merges.

use std::collections::HashMap;
use std::fmt;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::added::bounded;
use super::mistral_version::{Version, community_template};
use super::request::VocabularyRequest;
use super::token_type::{CONTROL, NORMAL};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::byte_level;
use crate::catalog::MetadataArray;
use crate::error::{AnamnesisError, Result, quoted};

/// The name of the file.
pub(super) const FILE: &str = "tekken.json";

/// The special tokens of files that list none.
const SPECIAL: [&str; 20] = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];

/// Writes the vocabulary of the file.
pub(super) fn write(text: &[u8], request: &VocabularyRequest<'_>, metadata: &mut MetadataBuilder) -> Result<()> {
    let version = write_vocabulary(text, request, metadata)?;
    match community_template(&version) {
        Some(template) => metadata.text("tokenizer.chat_template", template),
        None => {
            let version = version.name.as_deref().unwrap_or("unknown");
            metadata.note(format!("no chat template is written: {FILE} of version {version} contains none"));
        }
    }
    Ok(())
}

/// Writes the tokens of the file, and returns its version.
pub(super) fn write_vocabulary(
    text: &[u8],
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<Version> {
    let file: File =
        serde_json::from_slice(text).map_err(|error| AnamnesisError::parse(error.to_string()).within(FILE))?;
    written(&file, request, metadata).map_err(|error| error.within(FILE))?;
    let name = file.config.get("version").and_then(Value::as_str).map(str::to_owned);
    Ok(Version { name, is_tekken: true })
}

fn written(file: &File, request: &VocabularyRequest<'_>, metadata: &mut MetadataBuilder) -> Result<()> {
    let refused = |why: String| AnamnesisError::parse(why);
    let number = |key: &str| {
        let found = file.config.get(key).and_then(Value::as_u64);
        found.ok_or_else(|| refused(format!("config has no number {}", quoted(key))))
    };
    let special = file.special(bounded(number("default_num_special_tokens")?)?)?;
    let size = bounded(number("default_vocab_size")?)?;
    if let Some(embedded) = request.vocab_size.filter(|embedded| size as u64 > *embedded) {
        return Err(refused(format!("{size} tokens, {embedded} are in the embedding")));
    }
    let inner = size.checked_sub(special.len()).and_then(|inner| file.vocab.get(..inner)).ok_or_else(|| {
        refused(format!(
            "{size} tokens are needed, the file has {} and {} special ones",
            file.vocab.len(),
            special.len()
        ))
    })?;
    let ranks = ranks(inner)?;
    let id_of = |token: &str| {
        let place = special.iter().position(|known| known == token).and_then(|place| u32::try_from(place).ok());
        place.ok_or_else(|| refused(format!("there is no special token {}", quoted(token))))
    };
    metadata.text("tokenizer.ggml.model", "gpt2");
    metadata.text("tokenizer.ggml.pre", request.pre.unwrap_or("tekken"));
    metadata.array("tokenizer.ggml.merges", MetadataArray::String(merges(inner, &ranks)?));
    for (key, token) in [("bos", "<s>"), ("eos", "</s>"), ("unknown", "<unk>"), ("padding", "<pad>")] {
        metadata.number(format!("tokenizer.ggml.{key}_token_id"), id_of(token)?);
    }
    let mut kinds = vec![CONTROL; special.len()];
    kinds.resize(size, NORMAL);
    let tokens = special.into_iter().chain(inner.iter().map(|token| shown(token))).collect();
    metadata.array("tokenizer.ggml.tokens", MetadataArray::String(tokens));
    // Integers: the file has no scores.
    metadata.array("tokenizer.ggml.scores", MetadataArray::I32(vec![0; size]));
    metadata.array("tokenizer.ggml.token_type", MetadataArray::I32(kinds));
    metadata.number(format!("{}.vocab_size", request.architecture), u32::try_from(size).unwrap_or(u32::MAX));
    metadata.truth("tokenizer.ggml.add_bos_token", true);
    metadata.truth("tokenizer.ggml.add_eos_token", false);
    Ok(())
}

/// The rank of each token, which is its index.
fn ranks(vocab: &[Vec<u8>]) -> Result<HashMap<&[u8], u32>> {
    let mut ranks = HashMap::with_capacity(vocab.len());
    for (rank, token) in (0_u32..).zip(vocab) {
        if ranks.insert(token.as_slice(), rank).is_some() {
            return Err(AnamnesisError::parse(format!("token {} appears twice", quoted(&shown(token)))));
        }
    }
    Ok(ranks)
}

/// All pairs of tokens that concatenate to a token, lower ranks first.
fn merges(vocab: &[Vec<u8>], ranks: &HashMap<&[u8], u32>) -> Result<Vec<String>> {
    let mut merges = Vec::new();
    for (rank, token) in vocab.iter().enumerate().skip(256) {
        let both = |place: usize| {
            let (left, right) = token.split_at_checked(place)?;
            Some((*ranks.get(left)?, *ranks.get(right)?, left, right))
        };
        let mut ways: Vec<_> = (1..token.len()).filter_map(both).collect();
        if ways.is_empty() {
            return Err(AnamnesisError::parse(format!(
                "token {rank}, {}, is not the concatenation of two other tokens",
                quoted(&shown(token))
            )));
        }
        ways.sort_by_key(|(left, right, ..)| (*left, *right));
        merges.extend(ways.into_iter().map(|(_, _, left, right)| format!("{} {}", shown(left), shown(right))));
    }
    Ok(merges)
}

/// Bytes in the byte-level alphabet.
pub(super) fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| byte_level::character(byte)).collect()
}

/// The parts of the file that are used.
#[derive(Default)]
struct File {
    config: Map<String, Value>,
    vocab: Vec<Vec<u8>>,
    special_tokens: Option<Vec<Map<String, Value>>>,
}

impl File {
    /// The special tokens, padded to `number`.
    fn special(&self, number: usize) -> Result<Vec<String>> {
        let mut special: Vec<String> = match &self.special_tokens {
            None => SPECIAL.map(str::to_owned).to_vec(),
            Some(listed) => {
                let texts =
                    listed.iter().map(|token| token.get("token_str").and_then(Value::as_str).map(str::to_owned));
                let texts: Option<Vec<String>> = texts.collect();
                texts.ok_or_else(|| AnamnesisError::parse("a special token has no text"))?
            }
        };
        if special.len() > number {
            let reason = format!("{} special tokens are listed, {number} are declared", special.len());
            return Err(AnamnesisError::parse(reason));
        }
        special.extend((special.len()..number).map(|id| format!("<SPECIAL_{id}>")));
        let mut known = std::collections::HashSet::new();
        match special.iter().find(|token| !known.insert(token.as_str())) {
            Some(twice) => Err(AnamnesisError::parse(format!("special token {} appears twice", quoted(twice)))),
            None => Ok(special),
        }
    }
}

impl<'de> Deserialize<'de> for File {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(FileVisitor)
    }
}

struct FileVisitor;

impl<'de> Visitor<'de> for FileVisitor {
    type Value = File;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a config and a vocab")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<File, A::Error> {
        let mut file = File::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "config" => file.config = map.next_value()?,
                "special_tokens" => file.special_tokens = map.next_value()?,
                "vocab" => {
                    for (place, Token { rank, bytes }) in map.next_value::<Vec<Token>>()?.into_iter().enumerate() {
                        if rank != place as u64 {
                            return Err(A::Error::custom(format!("token {place} has rank {rank}")));
                        }
                        file.vocab.push(bytes);
                    }
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(file)
    }
}

struct Token {
    rank: u64,
    bytes: Vec<u8>,
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(TokenVisitor)
    }
}

struct TokenVisitor;

impl<'de> Visitor<'de> for TokenVisitor {
    type Value = Token;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token with its rank and its bytes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Token, A::Error> {
        let (mut rank, mut bytes) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "rank" => rank = Some(map.next_value::<u64>()?),
                "token_bytes" => {
                    let text: String = map.next_value()?;
                    bytes = Some(
                        BASE64_STANDARD
                            .decode(text.as_bytes())
                            .map_err(|_| A::Error::custom("the bytes of a token are not base64"))?,
                    );
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let (rank, bytes) = rank.zip(bytes).ok_or_else(|| A::Error::custom("a token has no rank or no bytes"))?;
        Ok(Token { rank, bytes })
    }
}
