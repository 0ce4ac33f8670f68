//! Control tokens that the configuration names, after those of the vocabulary's files.

use super::request::VocabularyRequest;
use super::sources::PIECES;
use super::token_type::CONTROL;
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::architecture::sidecars::SidecarFiles;
use crate::catalog::{MetadataArray, MetadataValue};
use crate::error::{AnamnesisError, ModelPart, Result};

/// Appends the tokens and their types.
pub(super) fn write(
    files: &dyn SidecarFiles,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let Some((further, config)) = request.rules.further.zip(request.filled) else { return Ok(()) };
    if files.read(PIECES)?.is_some() {
        let detail = format!("{PIECES} has its vocabulary, tokenizer.json is needed for {}", request.architecture);
        return Err(AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail));
    }
    let tokens = further(config)?;
    metadata.change("tokenizer.ggml.token_type", |types| {
        if let MetadataValue::Array(array) = types
            && let MetadataArray::I32(types) = &mut **array
        {
            types.extend(tokens.iter().map(|_| CONTROL));
        }
    });
    metadata.change("tokenizer.ggml.tokens", |known| {
        if let MetadataValue::Array(array) = known
            && let MetadataArray::String(known) = &mut **array
        {
            known.extend(tokens);
        }
    });
    Ok(())
}
