//! Tokens that get a role because of the kind of model they belong to.

use super::added::{Vocabulary, refused};
use super::special::Special;
use crate::error::{Result, quoted};

/// None but those the files name.
pub(super) fn none(_: &mut Special, _: &Vocabulary<'_>) -> Result<()> {
    Ok(())
}

pub(super) fn glm4(special: &mut Special, vocabulary: &Vocabulary<'_>) -> Result<()> {
    let roles = [("eos", "<|endoftext|>"), ("eot", "<|user|>"), ("unk", "<|endoftext|>"), ("bos", "<|endoftext|>")];
    give(special, vocabulary, &roles)
}

pub(super) fn glm4_moe(special: &mut Special, vocabulary: &Vocabulary<'_>) -> Result<()> {
    let roles = [("bos", "[gMASK]"), ("eot", "<|user|>"), ("unk", "<|endoftext|>"), ("eom", "<|observation|>")];
    give(special, vocabulary, &roles)
}

fn give(special: &mut Special, vocabulary: &Vocabulary<'_>, roles: &[(&'static str, &str)]) -> Result<()> {
    for (role, token) in roles {
        let id = vocabulary.added_id(token);
        let id = id.ok_or_else(|| {
            refused(format!("there is no added token {}, which has a role in this model", quoted(token)))
        })?;
        special.set(role, id);
    }
    Ok(())
}
