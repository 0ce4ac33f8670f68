//! The files of a vocabulary, each read once.

use super::chat_template::ChatTemplate;
use super::document::{Document, Lists, Merge};
use super::rules::{PiecesUse, TokenizerRules, VocabularyKind};
use super::settings::Settings;
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::architecture::sidecars::SidecarFiles;
use crate::error::{AnamnesisError, Result};

/// The file of the SentencePiece model.
pub(super) const PIECES: &str = "tokenizer.model";

pub(super) struct Sources<'f> {
    pub(super) files: &'f dyn SidecarFiles,
    pub(super) settings: Settings,
    /// `tokenizer.model`, if the rules prefer it to `tokenizer.json`.
    pub(super) model: Option<Vec<u8>>,
    /// `tokenizer.json`, if present.
    pub(super) document: Option<Document>,
}

impl<'f> Sources<'f> {
    /// Reads the files. If `tokenizer.model` is used, the large lists of `tokenizer.json` are skipped.
    pub(super) fn read(files: &'f dyn SidecarFiles, rules: &TokenizerRules) -> Result<Self> {
        let settings = Settings::read(files.read("tokenizer_config.json")?.as_deref())?;
        let text = files.read("tokenizer.json")?;
        let has_model = match rules.pieces {
            PiecesUse::Never => false,
            PiecesUse::First | PiecesUse::Required => true,
            PiecesUse::Last => text.is_none(),
            PiecesUse::RequiredUnlessGpt2 => !settings.is_gpt2(),
        };
        let model = if has_model { files.read(PIECES)? } else { None };
        let is_other = matches!(
            rules.kind,
            VocabularyKind::Unigram | VocabularyKind::Rwkv | VocabularyKind::Plamo | VocabularyKind::Ranked(_)
        );
        let lists = if model.is_some() || is_other { Lists::Skip } else { Lists::Read };
        let document = text.map(|text| Document::read(&text, lists)).transpose()?;
        Ok(Self { files, settings, model, document })
    }

    pub(super) fn chat_template(&self, metadata: &mut MetadataBuilder) -> Result<Option<ChatTemplate>> {
        ChatTemplate::read(self.files, &self.settings, metadata)
    }

    /// The merges of `merges.txt`: lines of two parts after an optional heading.
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
