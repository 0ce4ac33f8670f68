//! Tokens that get a role because of the kind of model they belong to.

use super::added::{Vocabulary, refused};
use super::special::Special;
use crate::error::{Result, quoted};

/// Gives added tokens, by their text, the roles that an architecture has for them.
pub(super) fn give(special: &mut Special, vocabulary: &Vocabulary<'_>, roles: &[(&'static str, &str)]) -> Result<()> {
    for (role, token) in roles {
        let id = vocabulary.added_id(token);
        let id = id.ok_or_else(|| {
            refused(format!("there is no added token {}, which has a role in this model", quoted(token)))
        })?;
        special.set(role, id);
    }
    Ok(())
}
