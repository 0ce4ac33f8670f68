//! The SentencePiece model `tokenizer.model`: pieces with scores and types.

use std::collections::HashSet;

use serde_json::Value;

use super::added::bounded;
use super::request::VocabularyRequest;
use super::sources::{PIECES, Sources};
use super::special::SpecialTokens;
use super::token_type::{BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, looks_special, padding};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::catalog::MetadataArray;
use crate::container::protobuf::{Field, Fields};
use crate::error::{AnamnesisError, Result, quoted};

/// The score of ids without a piece, and of tokens added to the pieces.
const PADDING_SCORE: f32 = -10000.0;
pub(super) const ADDED_SCORE: f32 = -1000.0;

/// A piece of the model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) score: f32,
    /// The type in the model; GGUF stores user-defined pieces as normal.
    pub(super) kind: i32,
}

/// The pieces of a model, in the order of their ids.
pub(super) fn pieces(model: &[u8]) -> Result<Vec<Piece>> {
    let mut fields = Fields::new(model);
    let mut pieces = Vec::new();
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Bytes(message)) => {
                let id = pieces.len();
                bounded(id as u64)?;
                pieces.push(piece(message).map_err(|error| error.within(format_args!("piece {id}")))?);
            }
            (1, _) => return Err(AnamnesisError::parse("the pieces are not messages")),
            _ => {}
        }
    }
    let mut known = HashSet::with_capacity(pieces.len());
    if let Some((id, twice)) = pieces.iter().enumerate().find(|(_, piece)| !known.insert(piece.text.as_str())) {
        return Err(AnamnesisError::parse(format!("piece {id}, {}, appears twice", quoted(&twice.text))));
    }
    match pieces.iter().filter(|piece| piece.kind == UNKNOWN).count() {
        1 => Ok(pieces),
        unknown => {
            Err(AnamnesisError::parse(format!("{unknown} of {} pieces are of type unknown, 1 is needed", pieces.len())))
        }
    }
}

fn piece(message: &[u8]) -> Result<Piece> {
    let mut fields = Fields::new(message);
    let (mut text, mut score, mut kind) = (None, 0.0, NORMAL);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Bytes(bytes)) => text = Some(bytes),
            (2, Field::Fixed32(bytes)) => score = f32::from_le_bytes(bytes),
            (3, Field::Varint(number)) => {
                let known = i32::try_from(number).ok().filter(|kind| (NORMAL..=BYTE).contains(kind));
                kind = known.ok_or_else(|| AnamnesisError::parse(format!("its type is {number}, 1 to 6 are known")))?;
            }
            (1..=3, _) => {
                return Err(AnamnesisError::parse(format!("field {number} has the wrong type")));
            }
            _ => {}
        }
    }
    let text = text.filter(|text| !text.is_empty()).ok_or_else(|| AnamnesisError::parse("it has no text"))?;
    let text = std::str::from_utf8(text).map_err(|_| AnamnesisError::parse("it is not UTF-8"))?;
    Ok(Piece { text: text.to_owned(), score, kind })
}

/// The tokens of GGUF with their scores and types, which several files may replace.
pub(super) struct Tokens {
    pub(super) tokens: Vec<String>,
    pub(super) scores: Vec<f32>,
    pub(super) kinds: Vec<i32>,
}

impl Tokens {
    /// The pieces, with padding up to `size`; pieces beyond it are dropped.
    pub(super) fn new(pieces: Vec<Piece>, size: Option<u64>) -> Result<Self> {
        let size = bounded(size.unwrap_or(pieces.len() as u64))?;
        let mut all = Self { tokens: Vec::with_capacity(size), scores: Vec::new(), kinds: Vec::new() };
        for piece in pieces.into_iter().take(size) {
            all.tokens.push(piece.text);
            all.scores.push(piece.score);
            all.kinds.push(if piece.kind == USER_DEFINED { NORMAL } else { piece.kind });
        }
        all.tokens.extend((all.tokens.len()..size).map(padding));
        all.scores.resize(size, PADDING_SCORE);
        all.kinds.resize(size, UNUSED);
        Ok(all)
    }

    /// Replaces the token of an id by an added token; false if the id is beyond the vocabulary.
    pub(super) fn put(&mut self, id: u64, token: String, kind: i32) -> bool {
        let place = usize::try_from(id).unwrap_or(usize::MAX);
        let places = (self.tokens.get_mut(place), self.scores.get_mut(place), self.kinds.get_mut(place));
        let (Some(into), Some(score), Some(old)) = places else { return false };
        (*into, *score, *old) = (token, ADDED_SCORE, kind);
        true
    }

    /// Adds the tokens of `added_tokens.json`.
    pub(super) fn put_added(&mut self, sources: &Sources<'_>, metadata: &mut MetadataBuilder) -> Result<()> {
        let Some(text) = sources.files.read("added_tokens.json")? else { return Ok(()) };
        let refused = |why: &str| AnamnesisError::parse(format!("added_tokens.json: {why}"));
        let document: Value = serde_json::from_slice(&text).map_err(|error| refused(&error.to_string()))?;
        let entries = document.as_object().ok_or_else(|| refused("it is not an object"))?;
        for (token, id) in entries {
            let id = id.as_u64().ok_or_else(|| refused(&format!("token {} has no id", quoted(token))))?;
            if !self.put(id, token.clone(), USER_DEFINED) {
                left_out(metadata, token, id);
            }
        }
        Ok(())
    }

    /// Adds the tokens of `tokenizer_config.json` with the types and scores of Arctic.
    fn put_arctic(&mut self, sources: &Sources<'_>) -> Result<()> {
        let unknown = sources.settings.get("unk_token").and_then(Value::as_str);
        for token in sources.settings.added_tokens()? {
            let id = u64::from(token.id.unwrap_or(u32::MAX));
            let (kind, score) = match token.special {
                false => (USER_DEFINED, PADDING_SCORE),
                true if unknown == Some(token.content.as_str()) => (UNKNOWN, 0.0),
                true => (CONTROL, 0.0),
            };
            if self.put(id, token.content, kind)
                && let Some(place) = usize::try_from(id).ok().and_then(|id| self.scores.get_mut(id))
            {
                *place = score;
            }
        }
        Ok(())
    }

    /// Adds the tokens of `tokenizer_config.json`.
    fn put_settings(&mut self, sources: &Sources<'_>, metadata: &mut MetadataBuilder) -> Result<()> {
        for token in sources.settings.added_tokens()? {
            let id = u64::from(token.id.unwrap_or(u32::MAX));
            let is_in = match token.special || looks_special(&token.content) {
                true => self.put(id, token.content.clone(), CONTROL),
                false => self.put(id, token.content.replace('\u{2581}', " "), USER_DEFINED),
            };
            if !is_in {
                left_out(metadata, &token.content, id);
            }
        }
        Ok(())
    }

    /// Writes the tokens, and returns their number.
    pub(super) fn write_list(
        self,
        model: &str,
        request: &VocabularyRequest<'_>,
        metadata: &mut MetadataBuilder,
    ) -> Option<u32> {
        let end = u32::try_from(self.tokens.len()).ok();
        metadata.text("tokenizer.ggml.model", model);
        metadata.text("tokenizer.ggml.pre", request.pre.unwrap_or("default"));
        metadata.array("tokenizer.ggml.tokens", MetadataArray::String(self.tokens));
        metadata.array("tokenizer.ggml.scores", MetadataArray::F32(self.scores));
        metadata.array("tokenizer.ggml.token_type", MetadataArray::I32(self.kinds));
        end
    }

    /// Writes the tokens and the special tokens.
    pub(super) fn write(
        self,
        sources: &Sources<'_>,
        request: &VocabularyRequest<'_>,
        metadata: &mut MetadataBuilder,
    ) -> Result<()> {
        let end = self.write_list("llama", request, metadata);
        let mut special = SpecialTokens::read(sources.document.as_ref(), &sources.settings, request.config, end)?;
        special.chat_template = sources.chat_template(metadata)?;
        special.write(metadata)
    }
}

fn left_out(metadata: &mut MetadataBuilder, token: &str, id: u64) {
    metadata.note(format!("token {} is dropped: its id {id} is beyond the vocabulary", quoted(token)));
}

/// Writes the vocabulary of a model.
pub(super) fn write(
    model: &[u8],
    sources: &Sources<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let pieces = pieces(model).map_err(|error| error.within(PIECES))?;
    // A size of zero counts as unknown.
    let size = request.size().filter(|size| *size != 0);
    let beyond = (pieces.len() as u64).saturating_sub(size.unwrap_or(u64::MAX));
    if beyond > 0 {
        metadata.note(format!("{beyond} of {} pieces are dropped: their ids are beyond the vocabulary", pieces.len()));
    }
    let mut tokens = Tokens::new(pieces, size)?;
    if request.rules.arctic_types {
        tokens.put_arctic(sources)?;
        return tokens.write(sources, request, metadata);
    }
    tokens.put_added(sources, metadata)?;
    tokens.put_settings(sources, metadata)?;
    tokens.write(sources, request, metadata)
}

/// The settings of a SentencePiece model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelSettings<'m> {
    /// 1 for unigram models, 2 for BPE.
    pub(super) model_type: u64,
    pub(super) add_dummy_prefix: bool,
    pub(super) remove_extra_whitespaces: bool,
    pub(super) charsmap: &'m [u8],
    /// The ids of the unknown, begin, end and padding tokens; -1 for none.
    pub(super) ids: [i64; 4],
}

/// The ids of special tokens in models that set none.
const IDS: [i64; 4] = [0, 1, 2, -1];

impl<'m> ModelSettings<'m> {
    pub(super) fn read(model: &'m [u8]) -> Result<Self> {
        let mut settings =
            Self { model_type: 1, add_dummy_prefix: true, remove_extra_whitespaces: true, charsmap: &[], ids: IDS };
        let mut fields = Fields::new(model);
        while let Some((number, field)) = fields.next()? {
            let Field::Bytes(message) = field else { continue };
            let mut inner = Fields::new(message);
            while let (2 | 3, Some((place, value))) =
                (number, if matches!(number, 2 | 3) { inner.next()? } else { None })
            {
                match (number, place, value) {
                    (2, 3, Field::Varint(kind)) => settings.model_type = kind,
                    // A negative number takes all 64 bits.
                    (2, 40..=43, Field::Varint(id)) => settings.ids[place as usize - 40] = id as i64,
                    (3, 2, Field::Bytes(charsmap)) => settings.charsmap = charsmap,
                    (3, 3, Field::Varint(truth)) => settings.add_dummy_prefix = truth != 0,
                    (3, 4, Field::Varint(truth)) => settings.remove_extra_whitespaces = truth != 0,
                    _ => {}
                }
            }
        }
        Ok(settings)
    }
}
