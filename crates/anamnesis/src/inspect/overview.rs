//! What a model is, how large it is, and the memory to run it: the first screen of `inspect`.

use std::collections::HashSet;

use super::cache::{Cache, UnknownCache};
use super::contents::Contents;
use super::model::ModelFacts;
use super::names::LayerName;
use super::parameters::{Parameters, is_embedding, main_list};
use super::settings::Settings;
use crate::checkpoint::Checkpoint;

/// A model as a whole.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Overview<'a> {
    /// Its kind and sizes; `None` without a configuration.
    pub model: Option<ModelFacts>,
    /// Its parameters.
    pub parameters: Parameters,
    /// Its tensors and how they are stored.
    pub contents: Contents<'a>,
    /// The memory of one sequence, or why it is not known.
    pub cache: std::result::Result<Cache, UnknownCache>,
    /// Contradictions between the configuration and the tensors.
    pub warnings: Vec<OverviewWarning>,
}

/// A contradiction between the configuration of a model and its tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverviewWarning {
    /// Layers of the language model without tensors.
    MissingLayers {
        /// Layers by the configuration.
        declared: u64,
        /// Layers with tensors.
        found: u64,
    },
    /// An embedding with fewer rows than the vocabulary has tokens.
    SmallEmbedding {
        /// Tokens by the configuration.
        vocabulary: u64,
        /// Rows of the embedding.
        rows: u64,
    },
}

impl Checkpoint {
    /// The kind and size of a model. Reads no weights.
    ///
    /// ```no_run
    /// use anamnesis::{Checkpoint, ParseLimits};
    /// let checkpoint = Checkpoint::open("Llama-3.1-8B-FP8", &ParseLimits::default())?;
    /// let overview = checkpoint.overview();
    /// println!("{:?} parameters", overview.parameters.total);
    /// if let Ok(cache) = &overview.cache {
    ///     println!("{} bytes at 8192 tokens", cache.bytes_at(8192));
    /// }
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    #[must_use]
    pub fn overview(&self) -> Overview<'_> {
        let contents = self.contents();
        let settings = self.settings();
        let settings = settings.as_ref();
        let model = settings.map(ModelFacts::of);
        let warnings = match (&model, settings) {
            // A selection of tensors is no whole model.
            (Some(model), Some(settings)) if !self.is_partial() => warnings(model, settings, &contents),
            _ => Vec::new(),
        };
        Overview {
            model,
            warnings,
            parameters: Parameters::of(&contents, settings),
            cache: Cache::of(&contents, settings),
            contents,
        }
    }
}

fn warnings(model: &ModelFacts, settings: &Settings, contents: &Contents<'_>) -> Vec<OverviewWarning> {
    let mut warnings = Vec::new();
    if let (Some(declared), Some(list)) = (model.layers, main_list(contents, settings)) {
        let layers = contents.tensors.iter().filter_map(|tensor| LayerName::of(tensor.name));
        let layers = layers.filter(|layer| layer.list == list && layer.index < declared).map(|layer| layer.index);
        let found = layers.collect::<HashSet<_>>().len() as u64;
        if found < declared {
            warnings.push(OverviewWarning::MissingLayers { declared, found });
        }
    }
    let embedding = contents.tensors.iter().find(|tensor| is_embedding(tensor.name));
    let rows = embedding.and_then(|tensor| tensor.shape.as_deref()?.first()).map(|&rows| rows as u64);
    if let (Some(vocabulary), Some(rows)) = (model.vocabulary, rows)
        && rows < vocabulary
    {
        warnings.push(OverviewWarning::SmallEmbedding { vocabulary, rows });
    }
    warnings
}
