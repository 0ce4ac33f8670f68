//! Vocabularies: from the files of a Hugging Face directory to the `tokenizer.*` keys of GGUF.

mod added;
pub(crate) mod back;
mod base64;
mod byte_level;
mod byte_pair;
mod chat_template;
mod class;
mod document;
#[cfg(test)]
mod hostile;
mod kinds;
mod phi3;
mod pieces_in_json;
mod post_processor;
mod pre;
mod protobuf;
mod roles;
mod sentencepiece;
mod settings;
mod sha256;
mod sources;
mod special;
mod tekken;
#[cfg(test)]
mod tests;
mod wanted;

pub(crate) use wanted::{Family, Wanted};

use serde_json::Value;

use self::sources::Sources;
use super::beside::Beside;
use super::told::Told;
use crate::error::{AnamnesisError, Result};

/// The `tokenizer.*` keys of a model, in the order they are written.
///
/// # Errors
/// `Parse` where a file contradicts itself or the configuration, `Unsupported` where there is no vocabulary that is read, or
/// nothing tells how its text is cut.
pub(crate) fn keys(files: &dyn Beside, wanted: &Wanted<'_>) -> Result<Told> {
    let mut told = Told::default();
    let told_of = &mut told;
    let mut sources = Sources::read(files)?;
    if wanted.family == Family::LlamaLike
        && sources.document.is_none()
        && let Some(text) = files.read(tekken::FILE)?
    {
        tekken::tell(&text, wanted, told_of)?;
        return Ok(told);
    }
    let size = wanted.size();
    match wanted.family {
        Family::Bpe => byte_pair::tell(&mut sources, wanted, size, roles::none, told_of)?,
        Family::Glm4 => byte_pair::tell(&mut sources, wanted, size, roles::glm4, told_of)?,
        Family::Glm4Moe => byte_pair::tell(&mut sources, wanted, size, roles::glm4_moe, told_of)?,
        Family::LlamaLike => llama(&mut sources, wanted, told_of)?,
        Family::Phi3 => match (sources.settings.class(), model(files)?) {
            (Some("GPT2Tokenizer"), _) => byte_pair::tell(&mut sources, wanted, size, roles::none, told_of)?,
            (_, Some(model)) => phi3::tell(&model, &sources, wanted, size, told_of)?,
            (_, None) => return Err(no_model(wanted)),
        },
        Family::Mamba if sources.document.is_some() => {
            byte_pair::tell(&mut sources, wanted, size, roles::none, told_of)?
        }
        Family::Gemma | Family::Gemma2 => {
            let model = model(files)?.ok_or_else(|| no_model(wanted))?;
            sentencepiece::tell(&model, &sources, wanted, size, told_of)?;
            if wanted.family == Family::Gemma {
                // Of the tokens of CodeGemma, GGUF has a key for this one only.
                told_of.number("tokenizer.ggml.eot_token_id", 107);
            }
            told_of.truth("tokenizer.ggml.add_space_prefix", false);
        }
        Family::Qwen | Family::Gemma3 | Family::Mamba | Family::Mamba2 => match model(files)? {
            Some(model) => {
                sentencepiece::tell(&model, &sources, wanted, size, told_of)?;
                if wanted.family == Family::Gemma3 {
                    told_of.truth("tokenizer.ggml.add_space_prefix", false);
                }
            }
            None => byte_pair::tell(&mut sources, wanted, size, roles::none, told_of)?,
        },
    }
    Ok(told)
}

/// Llama and what is made like it: whatever vocabulary is there.
fn llama(sources: &mut Sources<'_>, wanted: &Wanted<'_>, told: &mut Told) -> Result<()> {
    if let Some(prefix) = sources.settings.get("add_prefix_space").and_then(Value::as_bool) {
        told.truth("tokenizer.ggml.add_space_prefix", prefix);
    }
    match (model(sources.files)?, &sources.document) {
        (Some(model), _) => sentencepiece::tell(&model, sources, wanted, wanted.size(), told)?,
        (None, Some(document)) if pieces_in_json::is_in(document) => {
            pieces_in_json::tell(document, sources, wanted, told)?;
        }
        _ => byte_pair::tell(sources, wanted, wanted.size(), roles::none, told)?,
    }
    match wanted.vocab_size {
        // Code Llama: the end of what is filled in.
        Some(32016) => told.number("tokenizer.ggml.eot_token_id", 32010),
        // Small Granite models.
        Some(49152) => told.truth("tokenizer.ggml.add_bos_token", false),
        _ => {}
    }
    Ok(())
}

fn model(files: &dyn Beside) -> Result<Option<Vec<u8>>> {
    files.read(sentencepiece::FILE)
}

fn no_model(wanted: &Wanted<'_>) -> AnamnesisError {
    let detail =
        format!("there is no {}, from which the vocabulary of {} is taken", sentencepiece::FILE, wanted.architecture);
    AnamnesisError::unsupported("tokenizer", detail)
}
