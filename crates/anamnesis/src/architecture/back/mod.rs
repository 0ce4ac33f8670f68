//! GGUF to Hugging Face: the tensors and the configuration of a checkpoint that transformers loads.

mod config;
mod keys;
mod tensors;

use serde_json::{Map, Value};

use super::complete::{Found, Side, Tensors};
use super::config::Config;
use super::gguf::Gguf;
use super::kind::{Architecture, Class};
use super::map::{EMBEDDING, Mapped, Named};
use super::rope_freqs;
use super::rule::BLOCKS;
use crate::catalog::MetadataValue;
use crate::error::{AnamnesisError, ModelPart, Result, quoted};

/// The tokens of a vocabulary.
const TOKENS: &str = "tokenizer.ggml.tokens";

/// A checkpoint restored from GGUF.
pub(crate) struct Restored {
    pub tensors: Vec<Mapped>,
    pub config: Map<String, Value>,
    /// `generation_config.json`, if the file has generation parameters.
    pub generation: Option<Map<String, Value>>,
    /// `quantization_config` for experts that stay MXFP4, if the architecture has such checkpoints.
    pub packed_experts: Option<Value>,
    pub notes: Vec<String>,
}

/// Restores a model from the tensors of a file, all of them if it `is_whole`, as one of the class `like`. Without it, where
/// several architectures share their name in GGUF, it is of the first, unless the file has keys of another that it fits.
pub(crate) fn restore(gguf: &Gguf<'_>, tensors: &[Named<'_>], is_whole: bool, like: Option<&str>) -> Result<Restored> {
    let architecture = architecture(gguf)?;
    let unsupported = |why: String| AnamnesisError::unsupported_model(ModelPart::Architecture, architecture.name, why);
    if is_draft(gguf) {
        return Err(unsupported(
            "it is a draft model, which has only the layers for multi-token prediction".to_owned(),
        ));
    }
    if let Some(like) = like {
        return restored_as(Class::of_gguf(architecture, like)?, gguf, tensors, is_whole);
    }
    let refusal = match restored_as((architecture, None), gguf, tensors, is_whole) {
        Err(refusal) => refusal,
        restored => return restored,
    };
    let fit = |other| Some((other, restored_as((other, None), gguf, tensors, is_whole).ok()?));
    let (fitting, mut restored): (Vec<_>, Vec<_>) = keyed(architecture, gguf).filter_map(fit).unzip();
    let classes: Vec<&str> = fitting.into_iter().flat_map(Architecture::classes).collect();
    match (restored.pop(), classes.as_slice()) {
        (None, _) => Err(refusal),
        (Some(restored), [_]) => Ok(restored),
        _ => Err(unsupported(format!("the class of its checkpoint has to be named: {}", classes.join(" or ")))),
    }
}

/// The other architectures with the same name in GGUF.
fn others(architecture: &'static Architecture) -> impl Iterator<Item = &'static Architecture> {
    Architecture::all().filter(move |other| other.name == architecture.name && !std::ptr::eq(*other, architecture))
}

/// Those of them that write a key of the file, which the architecture does not. A file that only lacks something is damaged.
fn keyed<'a>(
    architecture: &'static Architecture,
    gguf: &'a Gguf<'_>,
) -> impl Iterator<Item = &'static Architecture> + 'a {
    let prefix = format!("{}.", architecture.name);
    let own = gguf.metadata.keys().filter_map(move |key| key.strip_prefix(&prefix).map(str::to_owned));
    let further: Vec<String> = own.filter(|key| !architecture.has_key(key)).collect();
    others(architecture).filter(move |other| further.iter().any(|key| other.has_key(key)))
}

/// An architecture, and its class if that is given.
type Target = (&'static Architecture, Option<&'static Class>);

impl Class {
    /// A class of models that share the name of an architecture in GGUF.
    fn of_gguf(architecture: &'static Architecture, name: &str) -> Result<Target> {
        let named = || [architecture].into_iter().chain(others(architecture));
        let classes = || named().flat_map(|own| own.classes.iter().map(move |class| (own, Some(class))));
        classes().find(|(_, class)| class.is_some_and(|class| class.name == name)).ok_or_else(|| {
            let known: Vec<&str> = named().flat_map(Architecture::classes).collect();
            let why = format!("models of architecture {} have other classes: {}", architecture.name, known.join(", "));
            AnamnesisError::unsupported_model(ModelPart::Class, name, why)
        })
    }
}

/// Restores a model as one of an architecture.
fn restored_as(target: Target, gguf: &Gguf<'_>, tensors: &[Named<'_>], is_whole: bool) -> Result<Restored> {
    let (architecture, _) = target;
    let unsupported = |why: String| {
        let why = format!("a file of this architecture does not hold {why}");
        AnamnesisError::unsupported_model(ModelPart::Architecture, architecture.name, why)
    };
    if architecture.restore.is_none() {
        return Err(unsupported(architecture.not_held.unwrap_or(WHOLE_CONFIGURATION).to_owned()));
    }
    let (config, read) = match checked(target, gguf, tensors, is_whole) {
        // The tables alone do not give the configuration.
        Err(AnamnesisError::Parse { reason }) if architecture.is_plainly_restored() => {
            return Err(unsupported(format!("{WHOLE_CONFIGURATION}: {reason}")));
        }
        checked => checked?,
    };
    let (tensors, mut notes) = tensors::restored(architecture, &read, tensors)?;
    if let Some(note) = architecture.restore_note {
        notes.push(note.to_owned());
    }
    let packed_experts = architecture.packed_experts.map(|config| config());
    Ok(Restored { tensors, generation: config::generation(gguf), config, packed_experts, notes })
}

/// Whether a file has layers for multi-token prediction without the layers before them.
fn is_draft(gguf: &Gguf<'_>) -> bool {
    let is_first = |name: &&str| name.starts_with(FIRST_LAYER);
    gguf.count("nextn_predict_layers").is_some_and(|layers| layers > 0)
        && gguf.has_in_layers(&["nextn.eh_proj.weight"])
        && !gguf.shapes.keys().any(is_first)
}

/// The prefix of the tensors of the first layer.
const FIRST_LAYER: &str = "blk.0.";

/// What is missing in files that do not name it.
const WHOLE_CONFIGURATION: &str = "the whole configuration of its checkpoint";

/// Refuses a file whose tensors and keys are not those of a whole model. Where tables and class defaults give a configuration,
/// it may differ from that of the model, and only the number of layers is checked. Where several architectures share their
/// name in GGUF, it may be a model of any of them.
pub(crate) fn check(gguf: &Gguf<'_>, tensors: &[Named<'_>]) -> Result<()> {
    match architecture(gguf)? {
        _ if is_draft(gguf) => Ok(()),
        Architecture { restore: None, .. } => Ok(()),
        architecture if architecture.is_plainly_restored() => check_layers(architecture, gguf, tensors, true).map(drop),
        architecture => match checked((architecture, None), gguf, tensors, true) {
            Err(_) if others(architecture).any(|other| restored_as((other, None), gguf, tensors, true).is_ok()) => {
                Ok(())
            }
            checked => checked.map(drop),
        },
    }
}

/// Refuses tensors without values, and layers that are not as many as the file says; some of them may be for multi-token
/// prediction, which may be left out.
fn check_layers<'a>(
    architecture: &'static Architecture,
    gguf: &Gguf<'_>,
    tensors: &[Named<'a>],
    is_whole: bool,
) -> Result<Tensors<'a>> {
    let layers = gguf.count("block_count");
    let Some(layers) = layers.filter(|_| !is_whole || gguf.shapes.keys().any(|name| name.starts_with(BLOCKS))) else {
        let why = "it tells no number of layers (block_count), or has none: it is no whole model";
        return Err(AnamnesisError::unsupported(architecture.name, why));
    };
    let found = tensors.iter().map(|named| (named.name, Found { name: named.name, shape: named.shape })).collect();
    let found = Tensors { side: Side::Gguf, found, is_whole };
    found.check_sizes()?;
    let own = layers.saturating_sub(gguf.count("nextn_predict_layers").unwrap_or(0));
    let is_without_further = own > 0 && found.layers() == own;
    found.check_layers(architecture.name, "", if is_without_further { own } else { layers })?;
    Ok(found)
}

/// The restored configuration, without and with the defaults of its class.
fn checked(
    (architecture, class): Target,
    gguf: &Gguf<'_>,
    tensors: &[Named<'_>],
    is_whole: bool,
) -> Result<(Map<String, Value>, Config)> {
    keys::check_types(architecture, gguf)?;
    // Before anything is allocated per layer.
    let found = check_layers(architecture, gguf, tensors, is_whole)?;
    let config = config::restored(architecture, class, gguf)?;
    let read = architecture.config(&config)?;
    architecture.check_complete(&found, &read)?;
    check_derived(architecture, gguf, &read)?;
    check_vocabulary(gguf)?;
    keys::check(architecture, gguf, &config, &read)?;
    Ok((config, read))
}

/// Refuses tensors that the configuration does not give, although they are derived from it.
fn check_derived(architecture: &Architecture, gguf: &Gguf<'_>, config: &Config) -> Result<()> {
    for made in architecture.derived_tensors {
        for name in gguf.shapes.keys().filter(|name| made.is_named(name)) {
            let (stored, derived) = ((gguf.values)(name)?.unwrap_or_default(), (made.values)(config)?);
            if !derived.is_some_and(|derived| rope_freqs::are_same(&derived, &stored)) {
                let why = "its values are not those of a configuration of its checkpoints";
                return Err(AnamnesisError::parse(why).in_tensor(name));
            }
        }
    }
    Ok(())
}

/// Refuses a vocabulary whose tokens are not the rows of the embedding.
fn check_vocabulary(gguf: &Gguf<'_>) -> Result<()> {
    let tokens = match gguf.metadata.get(TOKENS) {
        Some(MetadataValue::Array(tokens)) => tokens.len(),
        _ => return Ok(()),
    };
    match gguf.shapes.get(EMBEDDING).and_then(|shape| shape.first()) {
        Some(&rows) if rows != tokens => {
            let why = format!("it has {rows} rows, {} has {tokens} tokens", quoted(TOKENS));
            Err(AnamnesisError::parse(why).in_tensor(EMBEDDING))
        }
        _ => Ok(()),
    }
}

fn architecture(gguf: &Gguf<'_>) -> Result<&'static Architecture> {
    let Some(name) = gguf.text("general.architecture") else {
        return Err(AnamnesisError::parse("the file has no general.architecture"));
    };
    Architecture::of_gguf(name).ok_or_else(|| {
        let known = Architecture::all().filter(|architecture| architecture.restore.is_some());
        let known: Vec<&str> = known.map(Architecture::name).collect();
        let why = format!("checkpoints of this architecture are not known; known are {}", known.join(", "));
        AnamnesisError::unsupported_model(ModelPart::Architecture, name, why)
    })
}
