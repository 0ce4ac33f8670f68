//! The special tokens that an architecture assigns by name.

use super::added::{Vocabulary, refused};
use super::special::SpecialTokens;
use crate::error::{Result, quoted};

/// Assigns to added tokens, by their text, the roles that an architecture has for them.
pub(super) fn assign(
    special: &mut SpecialTokens,
    vocabulary: &Vocabulary<'_>,
    roles: &[(&'static str, &str)],
) -> Result<()> {
    for (role, token) in roles {
        let id = vocabulary.added_id(token);
        let id =
            id.ok_or_else(|| refused(format!("there is no added token {}, which this model needs", quoted(token))))?;
        special.set(role, id);
    }
    Ok(())
}
