//! The model as a whole: kind, parameters, storage, largest tensors, and the memory to run it.

use std::path::PathBuf;

use anamnesis::error::printable;
use anamnesis::{
    Cache, CacheLayers, Checkpoint, ContentTensor, InspectInfo, ModelFacts, Overview, OverviewWarning, StorageKind,
    UnknownCache,
};
use serde_json::{Value, json};

use super::labelled;
use crate::commands::described::short_name;
use crate::commands::{remember, shown};
use crate::exit::Failure;
use crate::ui::bars::{bar, percent};
use crate::ui::style::Style;
use crate::ui::{Printer, size};

/// Kinds of storage and tensors that are listed in text, so that a model fits a screen of 24 lines.
const KINDS_SHOWN: usize = 4;
const LARGEST_SHOWN: usize = 3;
/// Tensors that are listed in JSON.
const LARGEST_LISTED: usize = 10;
/// Characters of a bar, and of the longest names before it.
const BAR_CHARS: usize = 24;
const MAX_KIND_CHARS: usize = 26;
const MAX_TENSOR_CHARS: usize = 44;
/// Width of the labels.
const LABEL_CHARS: usize = 13;

/// The second half of the first screen.
pub(super) struct First<'a> {
    overview: Overview<'a>,
    info: &'a InspectInfo,
    /// The output that `remember` would write.
    output: Option<PathBuf>,
    /// The number of tokens to compute the cache for.
    context: Option<u64>,
}

impl<'a> First<'a> {
    pub(super) fn of(checkpoint: &'a Checkpoint, info: &'a InspectInfo, context: Option<u64>) -> Self {
        let overview = checkpoint.overview();
        let longest = overview.model.as_ref().and_then(|model| model.context);
        let output = remember::default_output(checkpoint, info.output_dtype);
        Self { overview, info, output, context: context.or(longest) }
    }

    pub(super) fn print(&self, printer: &Printer) -> Result<(), Failure> {
        if self.overview.contents.tensors.is_empty() {
            return Ok(());
        }
        if let Some(model) = &self.overview.model {
            let width = printer.page().columns.min(MAX_COLUMNS).saturating_sub(LABEL_CHARS);
            labelled("Model:", &wrapped(&model_words(model), width), printer)?;
        }
        labelled("Parameters:", &self.parameters(), printer)?;
        labelled("Stored as:", &self.kinds(printer.page().style), printer)?;
        labelled("Largest:", &self.largest(), printer)?;
        labelled("Remember:", &[self.remembered(printer.page().columns)], printer)?;
        labelled("To run:", &self.memory(), printer)?;
        labelled("Warning:", &self.warnings(), printer)
    }

    fn parameters(&self) -> Vec<String> {
        let parameters = &self.overview.parameters;
        let Some(total) = parameters.total else {
            return vec!["unknown: some weights cannot be decoded".to_owned()];
        };
        let mut text = size::count(total);
        if let Some(active) = parameters.active {
            text += &format!(", {} active per token", size::count(active));
        }
        if let Some(bits) = self.overview.contents.bits_per_weight() {
            text += &format!(", {bits:.2} bits per weight");
        }
        let more = size::count(parameters.not_loaded);
        let more = (parameters.not_loaded > 0).then(|| format!("and {more} for multi-token prediction"));
        std::iter::once(text).chain(more).collect()
    }

    /// A bar per scheme and type.
    fn kinds(&self, style: Style) -> Vec<String> {
        let contents = &self.overview.contents;
        let whole = contents.bytes();
        let rest = contents.kinds.get(KINDS_SHOWN..).filter(|rest| rest.len() > 1);
        let shown = contents.kinds.len() - rest.map_or(0, <[_]>::len);
        let kinds = contents.kinds.iter().take(shown);
        let name = |kind: &StorageKind| printable(&kind.name, MAX_KIND_CHARS);
        let mut rows: Vec<(String, u64)> = kinds.map(|kind| (name(kind), kind.bytes)).collect();
        if let Some(rest) = rest {
            let bytes = rest.iter().map(|kind| kind.bytes).fold(0, u64::saturating_add);
            rows.push((format!("{} other kinds", rest.len()), bytes));
        }
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let row = |(name, bytes): &(String, u64)| {
            let (bar, share) = (bar(*bytes, whole, BAR_CHARS), percent(*bytes, whole));
            format!("{name:<width$}  {} {share}  {}", style.bar(&bar), size(*bytes))
        };
        rows.iter().map(row).collect()
    }

    fn largest_tensors(&self, most: usize) -> Vec<&ContentTensor<'a>> {
        let mut tensors: Vec<_> = self.overview.contents.tensors.iter().collect();
        let by_size = |tensor: &&ContentTensor<'_>| (std::cmp::Reverse(tensor.bytes), tensor.name.to_owned());
        if tensors.len() > most {
            tensors.select_nth_unstable_by_key(most, |tensor| (std::cmp::Reverse(tensor.bytes), tensor.name));
            tensors.truncate(most);
        }
        tensors.sort_by_key(by_size);
        tensors
    }

    fn largest(&self) -> Vec<String> {
        let tensors = self.largest_tensors(LARGEST_SHOWN);
        let rows: Vec<_> = tensors
            .iter()
            .map(|tensor| {
                let shape = tensor.shape.as_deref().map_or_else(|| "[?]".to_owned(), |shape| format!("{shape:?}"));
                (printable(tensor.name, MAX_TENSOR_CHARS), printable(&shape, MAX_KIND_CHARS), size(tensor.bytes))
            })
            .collect();
        let width = |cell: fn(&(String, String, String)) -> &String| {
            rows.iter().map(|row| cell(row).chars().count()).max().unwrap_or(0)
        };
        let (names, shapes) = (width(|row| &row.0), width(|row| &row.1));
        rows.iter().map(|(name, shape, bytes)| format!("{name:<names$}  {shape:<shapes$}  {bytes}")).collect()
    }

    fn remembered(&self, columns: usize) -> String {
        let Some(bytes) = self.info.decoded_size() else {
            return "cannot decode all weights".to_owned();
        };
        if !self.info.problems.is_empty() {
            return "refuses this model because of its problems".to_owned();
        }
        let types = self.info.decoded_types();
        let text = format!("writes {} of {types}", size(bytes));
        let Some(output) = &self.output else { return text };
        let whole = format!("{text} to {}", shown(output));
        match whole.chars().count() + LABEL_CHARS > columns {
            true => format!("{text} to …/{}", short_name(output)),
            false => whole,
        }
    }

    fn memory(&self) -> Vec<String> {
        let stored = size(self.info.current_size);
        let weights = match self.info.decoded_size().filter(|_| self.info.quantized > 0) {
            Some(decoded) => format!("{stored} of weights ({} decoded)", size(decoded)),
            None => format!("{stored} of weights"),
        };
        let cache = match &self.overview.cache {
            Ok(cache) => cache,
            Err(UnknownCache::NoConfiguration) => return vec![weights],
            Err(why) => return vec![format!("{weights}; {}", unknown(why))],
        };
        let mut parts = Vec::new();
        if cache.token_bytes() > 0 {
            parts.push(format!("{} of cache per token", size(cache.token_bytes())));
        }
        if cache.state_bytes() > 0 {
            parts.push(format!("{} of state", size(cache.state_bytes())));
        }
        let mut lines = vec![format!("{weights}, {}", parts.join(", "))];
        if let Some(tokens) = self.context {
            let bytes = cache.bytes_at(tokens);
            let whole = self.info.current_size.saturating_add(bytes);
            lines.push(format!("{} at {tokens} tokens: {} in {}", size(whole), size(bytes), kinds_of(cache)));
        } else {
            lines.push(kinds_of(cache));
        }
        lines
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.overview.warnings.iter().map(warning).collect();
        let longest = self.overview.model.as_ref().and_then(|model| model.context);
        if let (Some(longest), Some(context)) = (longest, self.context)
            && context > longest
        {
            warnings.push(format!("{context} tokens are more than the {longest} of the model's longest context"));
        }
        warnings
    }

    pub(super) fn add_to(&self, document: &mut Value) {
        let Overview { model, parameters, contents, cache, .. } = &self.overview;
        document["model"] = model.as_ref().map(model_document).into();
        document["parameters"] = json!({
            "total": parameters.total,
            "active": parameters.active,
            "stored": parameters.stored,
            "buffers": parameters.buffers,
            "tied": parameters.tied,
            "not_loaded": parameters.not_loaded,
        });
        document["bits_per_weight"] = contents.bits_per_weight().into();
        let kind = |kind: &StorageKind| {
            json!({ "name": kind.name, "quantized": kind.is_quantized, "tensors": kind.tensors, "bytes": kind.bytes,
                "values": kind.values })
        };
        document["storage"] = contents.kinds.iter().map(kind).collect();
        let largest = self.largest_tensors(LARGEST_LISTED);
        let tensor = |tensor: &&ContentTensor<'_>| {
            let kind = contents.kinds.get(tensor.kind).map(|kind| kind.name.as_str());
            json!({ "name": tensor.name, "shape": tensor.shape.as_deref(), "bytes": tensor.bytes, "storage": kind })
        };
        document["largest"] = largest.iter().map(tensor).collect();
        document["output"] = self.output.as_ref().map(|output| output.to_string_lossy()).into();
        document["memory"] = match cache {
            Ok(cache) => self.memory_document(cache),
            Err(why) => json!({
                "weights": self.info.current_size,
                "cache": Value::Null,
                "unknown": unknown(why),
                "context": self.context,
            }),
        };
        document["warnings"] = self.warnings().into();
    }

    fn memory_document(&self, cache: &Cache) -> Value {
        let bytes = self.context.map(|tokens| cache.bytes_at(tokens));
        let layers = |layers: &CacheLayers| {
            json!({ "kind": layers.kind.name(), "window": layers.window, "layers": layers.layers,
                "token_bytes": layers.token_bytes, "state_bytes": layers.state_bytes,
                "bytes": self.context.map(|tokens| layers.bytes_at(tokens)) })
        };
        json!({
            "weights": self.info.current_size,
            "context": self.context,
            "unknown": Value::Null,
            "cache": {
                "dtype": cache.dtype.to_string(),
                "token_bytes": cache.token_bytes(),
                "state_bytes": cache.state_bytes(),
                "bytes": bytes,
                "layers": cache.layers.iter().map(layers).collect::<Value>(),
            },
        })
    }
}

/// Widest text of a model's facts.
const MAX_COLUMNS: usize = 80;

/// The facts of a model, in words.
fn model_words(model: &ModelFacts) -> Vec<String> {
    let mut words = Vec::new();
    let name = model.model_type.as_deref().or(model.class.as_deref());
    words.extend(name.map(|name| printable(name, MAX_KIND_CHARS)));
    words.extend(model.layers.map(|layers| format!("{layers} layers")));
    words.extend(model.hidden.map(|hidden| format!("hidden {hidden}")));
    match (model.heads, model.kv_heads) {
        (Some(heads), Some(kv)) if kv != heads => words.push(format!("{heads} heads ({kv} of keys and values)")),
        (Some(heads), _) => words.push(format!("{heads} heads")),
        _ => {}
    }
    match (model.experts, model.experts_used) {
        (Some(experts), Some(used)) => words.push(format!("{experts} experts ({used} used)")),
        (Some(experts), None) => words.push(format!("{experts} experts")),
        _ => {}
    }
    words.extend(model.context.map(|context| format!("context {context}")));
    words.extend(model.vocabulary.map(|vocabulary| format!("vocabulary {vocabulary}")));
    words
}

/// Words with commas between them, in lines.
fn wrapped(words: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 3 + word.chars().count() <= width => *line += &format!(", {word}"),
            Some(line) => {
                line.push(',');
                lines.push(word.clone());
            }
            None => lines.push(word.clone()),
        }
    }
    lines
}

/// The kinds of layers of a cache: `26 sliding (1024) and 4 grouped layers`.
fn kinds_of(cache: &Cache) -> String {
    let kind = |layers: &CacheLayers| match layers.window {
        Some(window) => format!("{} sliding (window {window})", layers.layers),
        None => format!("{} {}", layers.layers, layers.kind.name()),
    };
    let kinds: Vec<String> = cache.layers.iter().map(kind).collect();
    let is_one = cache.layers.iter().map(|layers| layers.layers).sum::<u64>() == 1;
    format!("{} layer{}", kinds.join(", "), if is_one { "" } else { "s" })
}

fn warning(warning: &OverviewWarning) -> String {
    match warning {
        OverviewWarning::MissingLayers { declared, found } => {
            format!("the configuration has {declared} layers, {found} have tensors")
        }
        OverviewWarning::SmallEmbedding { vocabulary, rows } => {
            format!("the vocabulary has {vocabulary} tokens, the embedding {rows} rows")
        }
        _ => "the configuration and the tensors disagree".to_owned(),
    }
}

fn unknown(why: &UnknownCache) -> String {
    match why {
        UnknownCache::NoConfiguration => "the cache is unknown without a configuration".to_owned(),
        UnknownCache::NoLayers => "no layer with a cache is known".to_owned(),
        UnknownCache::Encoder => "an encoder, which has no cache".to_owned(),
        UnknownCache::EncoderDecoder => "the cache also depends on the length of the encoder's input".to_owned(),
        UnknownCache::UnknownLayer { layer } => format!("the cache is unknown: layer {layer} has an unknown kind"),
        UnknownCache::Missing { key } => format!("the cache is unknown: the configuration has no {key}"),
        _ => "the cache is unknown".to_owned(),
    }
}

fn model_document(model: &ModelFacts) -> Value {
    json!({
        "model_type": model.model_type,
        "class": model.class,
        "layers": model.layers,
        "hidden": model.hidden,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "experts": model.experts,
        "experts_used": model.experts_used,
        "context": model.context,
        "vocabulary": model.vocabulary,
    })
}
