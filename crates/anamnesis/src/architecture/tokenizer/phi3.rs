//! Phi 3: SentencePiece's pieces, in whose place three files put tokens, each without a look at what they seem to be.

use super::kinds::{CONTROL, USER_DEFINED};
use super::sentencepiece::{Tokens, pieces};
use super::sources::{PIECES, Sources};
use super::wanted::Wanted;
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::error::{AnamnesisError, Result, quoted};

pub(super) fn tell(model: &[u8], sources: &Sources<'_>, wanted: &Wanted<'_>, told: &mut MetadataBuilder) -> Result<()> {
    let pieces = pieces(model).map_err(|error| error.within(PIECES))?;
    let size = wanted.size();
    if size.is_some_and(|size| (pieces.len() as u64) > size) {
        let reason = format!("{} pieces, {} tokens are in the embedding", pieces.len(), size.unwrap_or_default());
        return Err(AnamnesisError::parse(reason).within(PIECES));
    }
    let mut tokens = Tokens::new(pieces, size)?;
    tokens.put_added(sources, told)?;
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
    tokens.tell(sources, wanted, told)
}
