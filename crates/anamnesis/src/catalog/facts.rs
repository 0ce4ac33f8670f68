//! What a file tells besides its tensors, and what is worth knowing about how it was read; for people.

use std::fmt;

use crate::error::Remedy;

/// What a format tells of a file besides its tensors, for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Facts {
    /// The format, such as `GGUF v3`.
    pub title: String,
    /// The facts, those about the model first.
    pub entries: Vec<Fact>,
}

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fact {
    /// What is told, such as `Alignment`.
    pub label: &'static str,
    /// The fact itself, such as `32 bytes`.
    pub value: String,
    /// What it is about.
    pub subject: Subject,
}

/// What a fact is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Subject {
    /// The model, whatever file it is in.
    Model,
    /// How this file is laid out.
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

    /// Those that are about the model, or about the layout.
    pub fn about(&self, subject: Subject) -> impl Iterator<Item = &Fact> {
        self.entries.iter().filter(move |fact| fact.subject == subject)
    }
}

/// What is worth knowing about how a file was read, such as what was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// What was done, for people.
    pub text: String,
    /// How to have it otherwise.
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
