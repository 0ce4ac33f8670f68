//! The vocabulary of a model in Mistral's own format: `tekken.json`, or a SentencePiece model whose name ends in the version
//! of its special tokens (`tokenizer.model.v3`).

use super::mistral_version::{Version, community_template};
use super::request::VocabularyRequest;
use super::sentencepiece::{ModelSettings, pieces};
use super::sources::PIECES;
use super::tekken;
use super::token_type::{NORMAL, USER_DEFINED};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::architecture::sidecars::SidecarFiles;
use crate::catalog::MetadataArray;
use crate::error::{AnamnesisError, ModelPart, Result, quoted};

/// The chat template of newer models.
const TEMPLATE: &str = "chat_template.jinja";

/// Writes the vocabulary.
pub(super) fn write(
    files: &dyn SidecarFiles,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let version = match files.read(tekken::FILE)? {
        Some(text) => tekken::write_vocabulary(&text, request, metadata)?,
        None => write_pieces(files, request, metadata)?,
    };
    let Some(template) = files.read(TEMPLATE)? else {
        match community_template(&version) {
            Some(template) => metadata.text("tokenizer.chat_template", template),
            None => {
                let name = version.name.as_deref().unwrap_or("unknown");
                metadata.note(format!("no chat template is written: there is none for vocabularies of version {name}"));
            }
        }
        return Ok(());
    };
    let template =
        String::from_utf8(template).map_err(|_| AnamnesisError::parse(format!("{TEMPLATE} is not UTF-8")))?;
    metadata.text("tokenizer.chat_template", template);
    Ok(())
}

/// Writes the vocabulary of the SentencePiece model of the latest version.
fn write_pieces(
    files: &dyn SidecarFiles,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<Version> {
    let is_model = |name: &String| {
        let rest = name.strip_prefix(PIECES);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(".v"))
    };
    let name = files.list("")?.into_iter().rfind(is_model);
    let model = name.as_deref().map(|name| files.read(name)).transpose()?.flatten();
    let (Some(name), Some(model)) = (name, model) else {
        let detail = format!("there is neither {} nor {PIECES}", tekken::FILE);
        return Err(AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail));
    };
    let pieces = pieces(&model).map_err(|error| error.within(&name))?;
    let settings = ModelSettings::read(&model)?;
    let id_of = |role: &str, id: i64| {
        let id = u32::try_from(id).ok().filter(|id| (*id as usize) < pieces.len());
        id.ok_or_else(|| AnamnesisError::parse(format!("{}: the model has no {role} token", quoted(&name))))
    };
    metadata.text("tokenizer.ggml.model", "llama");
    let [unknown, bos, eos, pad] = settings.ids;
    metadata.number("tokenizer.ggml.bos_token_id", id_of("bos", bos)?);
    metadata.number("tokenizer.ggml.eos_token_id", id_of("eos", eos)?);
    metadata.number("tokenizer.ggml.unknown_token_id", id_of("unknown", unknown)?);
    metadata.number("tokenizer.ggml.padding_token_id", id_of("padding", if pad < 0 { eos } else { pad })?);
    let size = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
    let kinds = pieces.iter().map(|piece| if piece.kind == USER_DEFINED { NORMAL } else { piece.kind }).collect();
    let scores = pieces.iter().map(|piece| piece.score).collect();
    let tokens = pieces.into_iter().map(|piece| piece.text).collect();
    metadata.array("tokenizer.ggml.tokens", MetadataArray::String(tokens));
    metadata.array("tokenizer.ggml.scores", MetadataArray::F32(scores));
    metadata.array("tokenizer.ggml.token_type", MetadataArray::I32(kinds));
    metadata.number(format!("{}.vocab_size", request.architecture), size);
    metadata.truth("tokenizer.ggml.add_bos_token", true);
    metadata.truth("tokenizer.ggml.add_eos_token", false);
    // A model without a version has the special tokens of the first one; `m` begins the version of images.
    let version = name.strip_prefix(PIECES).unwrap_or_default().trim_start_matches('.');
    let version = version.split('m').next().filter(|version| !version.is_empty()).unwrap_or("v1");
    Ok(Version { name: Some(version.to_owned()), is_tekken: false })
}
