//! The vocabulary of InternLM 2: SentencePiece pieces, of which unused ones are marked by their text.

use super::request::VocabularyRequest;
use super::sentencepiece::{ModelSettings, Tokens, pieces};
use super::sources::{PIECES, Sources};
use super::special::SpecialTokens;
use super::token_type::{CONTROL, UNUSED, USER_DEFINED};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::error::{AnamnesisError, Result, quoted};

/// The token that ends a turn of a chat.
const CHAT_END: &str = "<|im_end|>";

pub(super) fn write(
    model: &[u8],
    sources: &Sources<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let within = |error: AnamnesisError| error.within(PIECES);
    let settings = ModelSettings::read(model).map_err(within)?;
    let pieces = pieces(model).map_err(within)?;
    let size = request.size().unwrap_or(pieces.len() as u64);
    if size > pieces.len() as u64 {
        let reason = format!("{} pieces, {size} tokens are in the embedding (vocab_size)", pieces.len());
        return Err(within(AnamnesisError::parse(reason)));
    }
    let mut tokens = Tokens::new(pieces, Some(size))?;
    for (token, kind) in tokens.tokens.iter_mut().zip(tokens.kinds.iter_mut()) {
        if token == "\0" {
            *token = "\u{1f409}".to_owned();
        }
        if token.starts_with("[UNUSED") {
            *kind = UNUSED;
        }
    }
    let listed = sources.document.as_ref().map(|document| document.added_tokens.clone()).unwrap_or_default();
    let mut chat_end = None;
    for token in sources.settings.added_tokens()?.into_iter().chain(listed) {
        let (kind, id) = (if token.special { CONTROL } else { USER_DEFINED }, token.id.unwrap_or(u32::MAX));
        if token.content == CHAT_END {
            chat_end = Some(id);
        }
        let shown = quoted(&token.content).to_string();
        if !tokens.put(u64::from(id), token.content, kind) {
            let reason = format!("added token {shown} has id {id}, {size} tokens are in the embedding");
            return Err(AnamnesisError::parse(reason));
        }
    }
    let end = tokens.write_list("llama", request, metadata);
    metadata.truth("tokenizer.ggml.add_space_prefix", settings.add_dummy_prefix);
    let mut special = SpecialTokens::read(sources.document.as_ref(), &sources.settings, request.config, end)?;
    special.chat_template = sources.chat_template(metadata)?;
    if let Some(id) = chat_end {
        special.replace("eos", id);
    }
    special.write(metadata)
}
