//! The outline of an output: its tensors and metadata before they are laid out in files.

use serde_json::Value;

use super::finished::Outputs;
use super::inputs::ClaimedCatalog;
use super::mapped::{MappedInput, MappedOutputs};
use super::notes::{self, PlanNote};
use super::options::{Cast, ConvertOptions};
use super::output_tensor::fit;
use super::outputs::{OutputRequest, plan_outputs};
use super::quantise::Quantise;
use super::split::Split;
use super::stats::ConvertStats;
use super::target::ConvertTarget;
use crate::architecture::Architecture;
use crate::catalog::{Metadata, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::container::Format;
use crate::error::{AnamnesisError, Request, Result, quoted};
use crate::pipeline::{Checks, Planned, Work};
use crate::scheme::ggml::in_order;
use crate::scheme::{Encoding, Keeping, QuantisedModel};

/// An output before it is laid out.
pub(crate) struct Outline {
    pub planned: Vec<Planned>,
    pub metadata: Option<Metadata>,
    /// The members of the model's configuration that describe the quantised weights, if there are any.
    pub configuration: Vec<(&'static str, Value)>,
    /// Sidecars that describe the quantised weights.
    pub documents: Vec<(&'static str, Value)>,
    pub stats: ConvertStats,
    pub kept: Vec<(String, Keeping)>,
    pub notes: Vec<PlanNote>,
    /// The architecture whose names and keys the output has.
    pub architecture: Option<&'static Architecture>,
    /// The dtype of the first quantised weight before it was quantised.
    pub encoded_dtype: Option<TargetDtype>,
}

/// The description of the quantised weights of an output: members of its configuration, metadata entries, sidecars.
#[derive(Default)]
struct WeightDescription {
    members: Vec<(&'static str, Value)>,
    metadata: Metadata,
    documents: Vec<(&'static str, Value)>,
}

impl Checkpoint {
    /// The tensors and the metadata of an output, without their offsets.
    pub(crate) fn outline(&self, target: ConvertTarget, options: &ConvertOptions) -> Result<Outline> {
        self.check_target(target, options)?;
        let model = self.mapped_for(target, options)?;
        let MappedOutputs { mut outputs, metadata, notes: notes_of_model } =
            self.outputs(target, options, model.as_ref())?;
        let described = target.encoding().map(|encoding| self.described(encoding, options, &outputs));
        let WeightDescription { members: configuration, metadata: new_entries, documents } =
            described.unwrap_or_default();
        let (is_mapped, planned) = (model.is_some(), &mut outputs.planned);
        let reshaped = fit(planned, target.container()?, target.extension())?;
        if !is_mapped {
            // The order of the input: neighbouring tensors stay neighbours, and the input is read sequentially.
            planned.sort_by_key(Planned::source);
        }
        let (mut metadata, dropped) = self.metadata_for(target, options, metadata)?;
        if !new_entries.is_empty() {
            let mut all = metadata.unwrap_or_default();
            let is_of_llama_cpp = is_mapped || self.format() == Format::Gguf;
            if target.is_quantized() && target.format() == Format::Gguf && is_of_llama_cpp {
                let old: Vec<String> = match is_mapped {
                    true => all.written().map(|(key, _)| key.to_owned()).collect(),
                    false => self.metadata()?.into_iter().map(|(key, _)| key).collect(),
                };
                arrange_as_llama_cpp(planned, options.split != Split::AsInput);
                all = all.in_order(in_key_order(old, &new_entries));
            }
            all.extend(new_entries);
            metadata = Some(all);
        }
        let mut notes: Vec<PlanNote> = self.claimed().notes.iter().cloned().map(PlanNote::Other).collect();
        notes.extend(notes::of_unclaimed(self.unclaimed(), &options.selection));
        notes.extend(notes_of_model.into_iter().map(PlanNote::Other));
        let Outputs { planned, stats, kept, fallbacks, requantised, encoded_dtype, renamed, .. } = outputs;
        notes.extend(notes::of_fallback_types(&fallbacks));
        notes.extend(notes::of_counts(requantised, reshaped, dropped, stats.left_out));
        notes.extend(notes::of_new_names(&renamed));
        if target == ConvertTarget::Gguf {
            notes.extend(notes::beyond_llama_cpp(&planned));
            if !metadata.as_ref().is_some_and(|metadata| metadata.contains_key("general.architecture")) {
                notes.push(PlanNote::NoArchitecture);
            }
        }
        let architecture = model.map(|model| model.architecture());
        let (stats, kept) = (
            ConvertStats { dropped_metadata: dropped, ..stats },
            kept.into_iter().map(|kept| (kept.name, kept.why)).collect(),
        );
        Ok(Outline { planned, metadata, configuration, documents, stats, kept, notes, architecture, encoded_dtype })
    }

    /// Refuses a target that is not a single file, and options that contradict it.
    fn check_target(&self, target: ConvertTarget, options: &ConvertOptions) -> Result<()> {
        if target == ConvertTarget::Hf {
            let why = "it is written as a directory, not as one file".to_owned();
            return Err(Request::Contradiction { what: format!("the target {target}"), why }.into());
        }
        self.check_split(target, options.split)?;
        self.check_gguf_options(target, options)?;
        let Some(encoding) = target.encoding() else {
            options.quantise.check_unused(target.name())?;
            return options.rules.check_unused(target.name());
        };
        options.rules.check_mixes(encoding)?;
        match self.adapter()? {
            None => Ok(()),
            Some(name) => {
                let why =
                    format!("{} marks this checkpoint as an adapter; only models can be quantised", quoted(&name));
                Err(AnamnesisError::unsupported(target.name(), why))
            }
        }
    }

    /// Every output tensor: made from the input by an architecture, or the input tensors themselves.
    fn outputs(
        &self,
        target: ConvertTarget,
        options: &ConvertOptions,
        model: Option<&MappedInput<'_>>,
    ) -> Result<MappedOutputs> {
        let (encoding, container, cast_all) = (target.encoding(), target.container()?, options.cast == Cast::All);
        let of_model = match (encoding, model) {
            (Some(_), None) => self.all_metadata()?,
            _ => None,
        };
        // A model for llama.cpp gets its types from the architecture.
        let dtype = if model.is_some() { None } else { options.target_dtype()? };
        let keeps_blocks = dtype.is_none() && !cast_all;
        let checks =
            Checks { allow_nonfinite: options.allow_nonfinite, measure: options.measure, loaded_as: TargetDtype::F32 };
        let quantise = encoding.map(|encoding| Quantise {
            encoding,
            options: &options.quantise,
            chosen: &options.quantised,
            rules: &options.rules,
            metadata: of_model.as_ref(),
            class: self.model_class(),
            checks,
            container,
            keeps_blocks,
            in_stored_order: options.split == Split::AsInput,
            sources: &self.sources,
            run: &options.run,
        });
        if let Some(model) = model {
            return model.outputs(options, quantise);
        }
        let request = OutputRequest {
            dtype: dtype.unwrap_or_default(),
            keeps_blocks: (encoding.is_none() && keeps_blocks).then_some(container),
            cast_all,
            // llama.cpp decodes blocks to F32 before it quantises them again.
            exact_blocks: encoding.is_some() && dtype.is_none() && target.format() == Format::Gguf,
            selection: &options.selection,
            quantise,
        };
        let outputs = plan_outputs(ClaimedCatalog::of(self), &request)?;
        Ok(MappedOutputs { outputs, metadata: None, notes: Vec::new() })
    }

    /// The description of the quantised weights for loaders.
    fn described(&self, encoding: &Encoding, options: &ConvertOptions, outputs: &Outputs) -> WeightDescription {
        let Outputs { planned, kept, repacked, encoded_dtype, other_encodings, .. } = outputs;
        let stored = planned.iter().flat_map(|planned| &planned.outputs).map(|output| output.name.as_str());
        let encoded = planned.iter().filter(|planned| matches!(planned.work, Work::Encode { .. }));
        let model = QuantisedModel {
            options: &options.quantise,
            quantised: encoded
                .filter_map(|planned| Some(planned.outputs.first()?.name.as_str()))
                .chain(repacked.iter().map(String::as_str))
                .collect(),
            others: other_encodings.iter().map(|(name, encoding)| (name.as_str(), *encoding)).collect(),
            kept: kept.iter().map(|kept| (kept.output_name.as_str(), kept.why)).collect(),
            unstored: self.model_class().unstored_heads(stored.clone()),
            dtype: encoded_dtype.unwrap_or_default(),
        };
        let quantiser = encoding.quantiser;
        let configuration = quantiser.configuration(&model).into_iter();
        let members =
            configuration.flat_map(|config| quantiser.members().iter().map(move |&name| (name, config.clone())));
        WeightDescription {
            members: members.collect(),
            metadata: quantiser.metadata(&model),
            documents: quantiser.documents(&model),
        }
    }

    /// Refuses options of GGUF files that contradict one another or the target.
    fn check_gguf_options(&self, target: ConvertTarget, options: &ConvertOptions) -> Result<()> {
        options.container(target)?;
        let is_model = target.format() == Format::Gguf && self.format() != Format::Gguf && !options.keep_names;
        let of_model = [
            (options.vocab_only, "a vocabulary without tensors"),
            (options.only_mtp, "a draft model"),
            (options.fp8_as_q8, "Q8_0 in place of FP8"),
            (options.dense_modules, "a file with dense modules"),
        ];
        let contradiction = |what: &str, why: &str| {
            Err(AnamnesisError::Request(Request::Contradiction { what: what.to_owned(), why: why.to_owned() }))
        };
        match of_model.iter().find(|(is_set, _)| *is_set) {
            Some((_, what)) if !is_model => contradiction(what, "only a checkpoint that becomes a GGUF model has it"),
            Some((_, what)) if options.projector => contradiction(what, "a projector is no language model"),
            _ if options.vocab_only && (target.is_quantized() || options.split != Split::Whole) => {
                contradiction("a vocabulary without tensors", "there is nothing to quantise or to split")
            }
            _ if options.fp8_as_q8 && target.is_quantized() => {
                contradiction("Q8_0 in place of FP8", "the target quantises all weights")
            }
            _ if options.only_mtp && options.without_mtp => {
                contradiction("a draft model", "its layers for multi-token prediction are left out")
            }
            _ => Ok(()),
        }
    }

    /// Refuses to split an output that cannot be split.
    fn check_split(&self, target: ConvertTarget, split: Split) -> Result<()> {
        let refuse = |why: &str| {
            let (what, why) = ("an output of several files".to_owned(), why.to_owned());
            Err(AnamnesisError::Request(Request::Contradiction { what, why }))
        };
        match split {
            Split::Whole => Ok(()),
            _ if target.format() != Format::Gguf => refuse("only a GGUF output can be split into parts"),
            Split::AsInput if self.format() != Format::Gguf => refuse("the input is not a split GGUF model"),
            _ => Ok(()),
        }
    }
}

/// Arranges tensors as llama.cpp does: by layer if `by_layer`, and without leading dimensions of 1.
fn arrange_as_llama_cpp(planned: &mut [Planned], by_layer: bool) {
    if by_layer {
        planned.sort_by(|a, b| in_order(first_name(a)).cmp(&in_order(first_name(b))));
    }
    for output in planned.iter_mut().flat_map(|planned| &mut planned.outputs) {
        let ones = output.shape.iter().take_while(|size| **size == 1).count();
        output.shape.drain(..ones.min(output.shape.len().saturating_sub(1)));
    }
}

/// The key order of the input's metadata, followed by the keys that are new.
fn in_key_order(old: Vec<String>, new_entries: &Metadata) -> Vec<String> {
    let new: Vec<String> = new_entries.written().map(|(key, _)| key.to_owned()).collect();
    let old = old.into_iter().filter(|key| !new.contains(key));
    old.chain(new.iter().cloned()).collect()
}

/// The name of the first output tensor.
fn first_name(planned: &Planned) -> &str {
    planned.outputs.first().map_or("", |output| &output.name)
}
