//! The vocabulary of Phi 3: SentencePiece pieces, some of which are replaced by the added tokens of three files,
//! special or not as those files declare.

use super::request::VocabularyRequest;
use super::sentencepiece::{Tokens, pieces};
use super::sources::{PIECES, Sources};
use super::token_type::{CONTROL, USER_DEFINED};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::error::{AnamnesisError, Result, quoted};

pub(super) fn write(
    model: &[u8],
    sources: &Sources<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let pieces = pieces(model).map_err(|error| error.within(PIECES))?;
    let size = request.size();
    if size.is_some_and(|size| (pieces.len() as u64) > size) {
        let reason = format!("{} pieces, {} tokens are in the embedding", pieces.len(), size.unwrap_or_default());
        return Err(AnamnesisError::parse(reason).within(PIECES));
    }
    let mut tokens = Tokens::new(pieces, size)?;
    tokens.put_added(sources, metadata)?;
    let listed = sources.document.as_ref().map(|document| document.added_tokens.clone()).unwrap_or_default();
    for token in sources.settings.added_tokens()?.into_iter().chain(listed) {
        let kind = if token.special { CONTROL } else { USER_DEFINED };
        let id = token.id.unwrap_or(u32::MAX);
        let shown = quoted(&token.content).to_string();
        if !tokens.put(u64::from(id), token.content, kind) {
            let reason =
                format!("added token {shown} has id {id}, {} tokens are in the embedding", tokens.tokens.len());
            return Err(AnamnesisError::parse(reason));
        }
    }
    tokens.write(sources, request, metadata)
}
