//! The files a vocabulary is made of, each read once.

use super::chat_template::ChatTemplate;
use super::document::{Document, Merge};
use super::settings::Settings;
use crate::architecture::beside::Beside;
use crate::architecture::told::Told;
use crate::error::{AnamnesisError, Result};

pub(super) struct Sources<'f> {
    pub(super) files: &'f dyn Beside,
    pub(super) settings: Settings,
    /// `tokenizer.json`, where there is one.
    pub(super) document: Option<Document>,
}

impl<'f> Sources<'f> {
    pub(super) fn read(files: &'f dyn Beside) -> Result<Self> {
        let settings = Settings::read(files.read("tokenizer_config.json")?.as_deref())?;
        let document = files.read("tokenizer.json")?.map(|text| Document::read(&text)).transpose()?;
        Ok(Self { files, settings, document })
    }

    pub(super) fn chat_template(&self, told: &mut Told) -> Result<Option<ChatTemplate>> {
        ChatTemplate::read(self.files, &self.settings, told)
    }

    /// The merges of `merges.txt`: lines of two parts, behind a heading.
    pub(super) fn merges(&self) -> Result<Vec<Merge>> {
        let Some(text) = self.files.read("merges.txt")? else { return Ok(Vec::new()) };
        let text = String::from_utf8(text).map_err(|_| AnamnesisError::parse("merges.txt is not UTF-8"))?;
        let heading = usize::from(text.trim_start().starts_with('#'));
        let pair = |line: &str| {
            let mut parts = line.split_whitespace();
            let (left, right) = (parts.next()?, parts.next()?);
            parts.next().is_none().then(|| Merge(format!("{left} {right}")))
        };
        Ok(text.lines().skip(heading).filter_map(pair).collect())
    }
}
