//! `tokenizer.json`, deserialised directly into lists: the largest have hundreds of thousands of merges.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::byte_level::SPACE;
use crate::error::{AnamnesisError, Result};

/// The parts of the file that are used.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) model: Model,
    pub(super) added_tokens: Vec<AddedToken>,
    pub(super) normalizer: Value,
    pub(super) pre_tokenizer: Value,
    pub(super) post_processor: Value,
    pub(super) decoder: Value,
}

/// The `model` member.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) kind: Option<String>,
    /// Tokens and their ids in file order.
    pub(super) vocab: Vec<(String, u32)>,
    /// The scores of the pieces of a unigram model, by id; otherwise empty.
    pub(super) scores: Vec<f32>,
    pub(super) unk_id: Option<u32>,
    pub(super) merges: Vec<Merge>,
    pub(super) byte_fallback: Option<bool>,
    pub(super) ignore_merges: bool,
}

/// Two parts separated by a space; a space inside a part is written in the byte-level alphabet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Merge(pub(super) String);

impl Merge {
    /// The two parts, if there are exactly two.
    pub(super) fn parts(&self) -> Option<(&str, &str)> {
        let (left, right) = self.0.split_once(' ')?;
        (!left.is_empty() && !right.is_empty() && !right.contains(' ')).then_some((left, right))
    }
}

/// An added token, which is matched before the text is normalised or split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddedToken {
    pub(super) id: Option<u32>,
    pub(super) content: String,
    pub(super) special: bool,
    pub(super) normalized: bool,
    pub(super) single_word: bool,
    pub(super) lstrip: bool,
    pub(super) rstrip: bool,
}

impl AddedToken {
    /// Reads the object of an added token.
    pub(super) fn from_object(object: &Map<String, Value>) -> Option<Self> {
        let truth = |key: &str| object.get(key).and_then(Value::as_bool);
        let special = truth("special").unwrap_or(false);
        Some(Self {
            id: object.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok()),
            content: object.get("content")?.as_str()?.to_owned(),
            special,
            normalized: truth("normalized").unwrap_or(!special),
            single_word: truth("single_word").unwrap_or(false),
            lstrip: truth("lstrip").unwrap_or(false),
            rstrip: truth("rstrip").unwrap_or(false),
        })
    }

    /// A token that a setting names by its content only.
    pub(super) fn special(content: &str) -> Self {
        Self {
            id: None,
            content: content.to_owned(),
            special: true,
            normalized: false,
            single_word: false,
            lstrip: false,
            rstrip: false,
        }
    }
}

/// Whether the large lists of vocabulary and merges are read; they are skipped if another file has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lists {
    Read,
    Skip,
}

impl Document {
    pub(super) fn read(text: &[u8], lists: Lists) -> Result<Self> {
        let refused = |error| AnamnesisError::parse(format!("tokenizer.json: {error}"));
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        let document = deserializer.deserialize_map(DocumentVisitor(lists)).map_err(refused)?;
        deserializer.end().map_err(refused)?;
        Ok(document)
    }
}

struct DocumentVisitor(Lists);

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a model")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Document, A::Error> {
        let mut document = Document::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "model" => document.model = map.next_value_seed(ModelSeed(self.0))?,
                "added_tokens" => document.added_tokens = map.next_value_seed(AddedSeed)?,
                "normalizer" => document.normalizer = map.next_value()?,
                "pre_tokenizer" => document.pre_tokenizer = map.next_value()?,
                "post_processor" => document.post_processor = map.next_value()?,
                "decoder" => document.decoder = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(document)
    }
}

struct ModelSeed(Lists);

impl<'de> DeserializeSeed<'de> for ModelSeed {
    type Value = Model;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Model, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ModelSeed {
    type Value = Model;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a model with a vocabulary")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Model, A::Error> {
        let mut model = Model::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "type" => model.kind = map.next_value()?,
                "vocab" | "merges" if self.0 == Lists::Skip => drop(map.next_value::<IgnoredAny>()?),
                "vocab" => (model.vocab, model.scores) = map.next_value_seed(VocabSeed)?,
                "unk_id" => model.unk_id = map.next_value()?,
                "merges" => model.merges = map.next_value_seed(MergesSeed)?,
                "byte_fallback" => model.byte_fallback = map.next_value()?,
                "ignore_merges" => model.ignore_merges = map.next_value::<Option<bool>>()?.unwrap_or(false),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(model)
    }
}

/// An object of tokens and ids, or a list of pieces with scores, as in unigram models.
struct VocabSeed;

/// Tokens with their ids, and scores by id.
type Scored = (Vec<(String, u32)>, Vec<f32>);

impl<'de> DeserializeSeed<'de> for VocabSeed {
    type Value = Scored;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for VocabSeed {
    type Value = Scored;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tokens with their ids")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        let mut vocab = Vec::new();
        while let Some(entry) = map.next_entry::<String, u32>()? {
            vocab.push(entry);
        }
        Ok((vocab, Vec::new()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Self::Value, A::Error> {
        let (mut vocab, mut scores) = (Vec::new(), Vec::new());
        while let Some((piece, score)) = seq.next_element::<(String, f64)>()? {
            let id = u32::try_from(vocab.len()).map_err(|_| A::Error::custom("there are too many pieces"))?;
            vocab.push((piece, id));
            scores.push(score as f32);
        }
        Ok((vocab, scores))
    }
}

struct MergesSeed;

impl<'de> DeserializeSeed<'de> for MergesSeed {
    type Value = Vec<Merge>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for MergesSeed {
    type Value = Vec<Merge>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of merges")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Self::Value, A::Error> {
        let (mut merges, mut pairs) = (Vec::new(), None);
        while let Some((merge, is_pair)) = seq.next_element_seed(MergeSeed)? {
            if *pairs.get_or_insert(is_pair) != is_pair {
                return Err(A::Error::custom("merges are both strings and pairs, either is needed"));
            }
            merges.push(merge);
        }
        Ok(merges)
    }
}

/// A merge, and whether it is written as a pair.
struct MergeSeed;

impl<'de> DeserializeSeed<'de> for MergeSeed {
    type Value = (Merge, bool);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MergeSeed {
    type Value = (Merge, bool);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a merge: a text with two parts, or a pair of texts")
    }

    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<Self::Value, E> {
        Ok((Merge(text.to_owned()), false))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Self::Value, A::Error> {
        let missing = || A::Error::custom("a merge has fewer than two parts");
        let mut joined: String = seq.next_element::<String>()?.ok_or_else(missing)?.replace(' ', SPACE);
        let right: String = seq.next_element()?.ok_or_else(missing)?;
        if seq.next_element::<IgnoredAny>()?.is_some() {
            return Err(A::Error::custom("a merge has more than two parts"));
        }
        joined.push(' ');
        joined.push_str(&right.replace(' ', SPACE));
        joined.shrink_to_fit();
        Ok((Merge(joined), true))
    }
}

struct AddedSeed;

impl<'de> DeserializeSeed<'de> for AddedSeed {
    type Value = Vec<AddedToken>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for AddedSeed {
    type Value = Vec<AddedToken>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of added tokens")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Self::Value, A::Error> {
        let mut tokens = Vec::new();
        while let Some(object) = seq.next_element::<Map<String, Value>>()? {
            let token = AddedToken::from_object(&object).filter(|token| token.id.is_some());
            tokens.push(token.ok_or_else(|| A::Error::custom("an added token has no content or no id"))?);
        }
        Ok(tokens)
    }
}
