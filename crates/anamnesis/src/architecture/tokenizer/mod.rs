//! Vocabularies: from the files of a Hugging Face directory to the `tokenizer.*` keys of GGUF.

mod wanted;

pub(crate) use wanted::{Family, Wanted};

use super::beside::Beside;
use super::told::Told;
use crate::error::{AnamnesisError, Result};

/// The `tokenizer.*` keys of a model, in the order they are written.
///
/// # Errors
/// `Parse` where a file contradicts itself, `Unsupported` where nothing tells how the text is cut, `Io` where there is no
/// vocabulary.
pub(crate) fn keys(_files: &dyn Beside, wanted: &Wanted<'_>) -> Result<Told> {
    Err(AnamnesisError::unsupported("tokenizer", format!("no vocabulary of {} is read", wanted.architecture)))
}
