//! The vocabulary of `tokenizer.json` with the tokens added by three sources.

use std::collections::HashMap;

use super::document::{AddedToken, Document};
use super::settings::Settings;
use crate::error::{AnamnesisError, Result, quoted};

/// Most tokens of a vocabulary; the largest published ones have a sixteenth of it.
pub(super) const MAX_TOKENS: u64 = 1 << 22;

/// A token, and its description if it is an added one.
type Entry<'a> = (&'a str, Option<&'a AddedToken>);

/// Tokens and their ids.
#[derive(Debug)]
pub(super) struct Vocabulary<'d> {
    model: HashMap<&'d str, u32>,
    added: Vec<(AddedToken, u32)>,
    /// Indices into `added`.
    places: HashMap<String, usize>,
}

impl<'d> Vocabulary<'d> {
    /// Combines the tokens of the document with those of the settings. An added token gets the id that the vocabulary
    /// has for it, or the next free one; a later description of a token replaces an earlier one.
    pub(super) fn new(document: &'d Document, settings: &Settings) -> Result<Self> {
        let mut model = HashMap::with_capacity(document.model.vocab.len());
        for (token, id) in &document.model.vocab {
            if model.insert(token.as_str(), *id).is_some() {
                return Err(refused(format!("token {} appears twice in the vocabulary", quoted(token))));
            }
        }
        let mut all = Self { model, added: Vec::new(), places: HashMap::new() };
        for token in document.added_tokens.iter().cloned() {
            all.add(token)?;
        }
        for token in settings.added_tokens()? {
            all.add(token)?;
        }
        for token in settings.named() {
            all.add(token)?;
        }
        Ok(all)
    }

    fn add(&mut self, token: AddedToken) -> Result<()> {
        if token.content.is_empty() {
            return Ok(());
        }
        if let Some((known, id)) = self.places.get(&token.content).and_then(|&place| self.added.get_mut(place)) {
            check_id(&token, *id)?;
            *known = token;
            return Ok(());
        }
        let id = match self.model.get(token.content.as_str()) {
            Some(&id) => id,
            None => {
                let size = u32::try_from(self.model.len()).unwrap_or(u32::MAX);
                let last = self.added.iter().map(|(_, id)| *id).max();
                last.map_or(size, |last| size.max(last.saturating_add(1)))
            }
        };
        check_id(&token, id)?;
        self.places.insert(token.content.clone(), self.added.len());
        self.added.push((token, id));
        Ok(())
    }

    /// The id of a token.
    pub(super) fn id(&self, token: &str) -> Option<u32> {
        let added = self.places.get(token).and_then(|&place| self.added.get(place));
        added.map(|(_, id)| *id).or_else(|| self.model.get(token).copied())
    }

    /// The added tokens with their ids.
    pub(super) fn added(&self) -> impl Iterator<Item = (&AddedToken, u32)> {
        self.added.iter().map(|(token, id)| (token, *id))
    }

    /// The id of an added token.
    pub(super) fn added_id(&self, token: &str) -> Option<u32> {
        self.places.get(token).and_then(|&place| self.added.get(place)).map(|(_, id)| *id)
    }

    /// The number of tokens.
    pub(super) fn len(&self) -> usize {
        self.model.len() + self.places.keys().filter(|token| !self.model.contains_key(token.as_str())).count()
    }

    /// The number of tokens without added ones.
    pub(super) fn base(&self) -> usize {
        self.model.len()
    }

    /// Checks that every merge joins two tokens into a third.
    pub(super) fn check_merges(&self, document: &Document) -> Result<()> {
        for (place, merge) in document.model.merges.iter().enumerate() {
            if place == 0 && merge.0.starts_with("#version") {
                continue;
            }
            let known = |token: &str| {
                self.model.contains_key(token) || self.model.contains_key(token.replace('\u{120}', " ").as_str())
            };
            let is_known = merge
                .parts()
                .is_some_and(|(left, right)| known(left) && known(right) && known(&format!("{left}{right}")));
            if !is_known {
                let reason = format!("merge {place}, {}, does not join two tokens into a third", quoted(&merge.0));
                return Err(refused(reason));
            }
        }
        Ok(())
    }

    /// The tokens by id; `None` for ids without a token.
    pub(super) fn by_id(&self, size: usize) -> Result<Vec<Option<Entry<'_>>>> {
        let mut tokens = vec![None; size];
        let model = self.model.iter().filter(|(token, _)| !self.places.contains_key(**token));
        let model = model.map(|(token, id)| (*id, (*token, None)));
        let added = self.added.iter().map(|(token, id)| (*id, (token.content.as_str(), Some(token))));
        for (id, entry) in model.chain(added) {
            let Some(place) = tokens.get_mut(id as usize) else {
                let reason = format!("token {} has id {id}, {size} tokens are in the embedding", quoted(entry.0));
                return Err(refused(reason));
            };
            if let Some((other, _)) = place.replace(entry) {
                return Err(refused(format!(
                    "tokens {} and {} have the same id {id}",
                    quoted(other.min(entry.0)),
                    quoted(entry.0.max(other))
                )));
            }
        }
        Ok(tokens)
    }
}

/// Checks that an id given by a file is that of the token.
fn check_id(token: &AddedToken, id: u32) -> Result<()> {
    match token.id {
        Some(given) if given != id => {
            let reason = format!("added token {} has id {given}, {id} is expected", quoted(&token.content));
            Err(refused(reason))
        }
        _ => Ok(()),
    }
}

pub(super) fn refused(reason: String) -> AnamnesisError {
    AnamnesisError::parse(format!("tokenizer.json: {reason}"))
}

/// The size of a vocabulary, checked against [`MAX_TOKENS`].
pub(super) fn bounded(size: u64) -> Result<usize> {
    match usize::try_from(size) {
        Ok(bounded) if size <= MAX_TOKENS => Ok(bounded),
        _ => {
            Err(AnamnesisError::limit("MAX_TOKENS", format!("a vocabulary of {size} tokens, {MAX_TOKENS} are allowed")))
        }
    }
}
