//! GGUF metadata under construction, in the order keys are first set.

use crate::catalog::{Metadata, MetadataArray, MetadataValue};

/// Keys in the order they were first set, and notes on them.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct MetadataBuilder {
    entries: Vec<(String, MetadataValue)>,
    pub(crate) notes: Vec<String>,
}

impl MetadataBuilder {
    /// Sets a key; one that is set again keeps its place.
    pub(crate) fn set(&mut self, key: impl Into<String>, value: MetadataValue) {
        let key = key.into();
        match self.entries.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.entries.push((key, value)),
        }
    }

    /// Sets a key; a new one comes after another.
    pub(crate) fn set_behind(&mut self, other: &str, key: &str, value: MetadataValue) {
        match self.entries.iter().position(|(known, _)| known == other) {
            Some(place) if self.entries.iter().all(|(known, _)| known != key) => {
                self.entries.insert(place + 1, (key.to_owned(), value));
            }
            _ => self.set(key, value),
        }
    }

    /// Changes the value of a key that is set.
    pub(crate) fn change(&mut self, key: &str, change: impl FnOnce(&mut MetadataValue)) {
        if let Some((_, value)) = self.entries.iter_mut().find(|(known, _)| known == key) {
            change(value);
        }
    }

    /// Sets a text; an empty one is left out.
    pub(crate) fn text(&mut self, key: impl Into<String>, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.set(key, MetadataValue::String(text));
        }
    }

    pub(crate) fn number(&mut self, key: impl Into<String>, number: u32) {
        self.set(key, MetadataValue::U32(number));
    }

    pub(crate) fn truth(&mut self, key: impl Into<String>, truth: bool) {
        self.set(key, MetadataValue::Bool(truth));
    }

    /// Sets an array; one without items is left out.
    pub(crate) fn array(&mut self, key: impl Into<String>, items: MetadataArray) {
        if !items.is_empty() {
            self.set(key, MetadataValue::Array(Box::new(items)));
        }
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// The keys in their order.
    pub(crate) fn entries(&self) -> &[(String, MetadataValue)] {
        &self.entries
    }

    /// Appends the keys of another.
    pub(crate) fn append(&mut self, other: Self) {
        other.entries.into_iter().for_each(|(key, value)| self.set(key, value));
        self.notes.extend(other.notes);
    }

    /// The same without a key.
    pub(crate) fn without(mut self, key: &str) -> Self {
        self.remove(key);
        self
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, key: &str) {
        self.entries.retain(|(known, _)| known != key);
    }

    /// Removes a key whose text is empty.
    pub(crate) fn remove_if_empty(&mut self, key: &str) {
        self.entries.retain(|(known, value)| known != key || value.as_string() != Some(""));
    }

    /// The keys that are no arrays.
    pub(crate) fn single(&self) -> Metadata {
        let is_single = |(_, value): &&(String, MetadataValue)| !matches!(value, MetadataValue::Array(_));
        self.entries.iter().filter(is_single).cloned().collect()
    }

    /// The keys as an output writes them, and the notes.
    pub(crate) fn into_parts(self) -> (Metadata, Vec<String>) {
        let order = self.entries.iter().map(|(key, _)| key.clone()).collect();
        (self.entries.into_iter().collect::<Metadata>().in_order(order), self.notes)
    }
}
