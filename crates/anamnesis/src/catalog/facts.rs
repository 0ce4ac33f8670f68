//! Facts and notes about a file, for display.

use std::fmt;

use crate::error::Remedy;

/// Facts about a file other than its tensors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Facts {
    /// The format, for example `GGUF v3`.
    pub title: String,
    /// The facts, those about the model first.
    pub entries: Vec<Fact>,
}

/// A fact.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fact {
    /// The label, for example `Alignment`.
    pub label: &'static str,
    /// The value, for example `32 bytes`.
    pub value: String,
    /// The subject.
    pub subject: Subject,
}

/// The subject of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Subject {
    /// The model.
    Model,
    /// The layout of the file.
    Layout,
}

impl Facts {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), entries: Vec::new() }
    }

    pub(crate) fn with(mut self, subject: Subject, label: &'static str, value: impl Into<String>) -> Self {
        self.entries.push(Fact { label, value: value.into(), subject });
        self
    }

    /// The facts about this subject.
    pub fn about(&self, subject: Subject) -> impl Iterator<Item = &Fact> {
        self.entries.iter().filter(move |fact| fact.subject == subject)
    }
}

/// A note on how a file was read, for example on omitted values.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The text.
    pub text: String,
    /// How to read it differently.
    pub remedy: Option<Remedy>,
}

impl Note {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), remedy: None }
    }

    pub(crate) fn with_remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = Some(remedy);
        self
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
