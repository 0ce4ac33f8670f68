//! What a conversion will make, before its tensors get their places.

use serde_json::Value;

use super::drafts::Quantise;
use super::finished::Outputs;
use super::inputs::ClaimedCatalog;
use super::mapped::{MappedOutputs, Model};
use super::notes::{self, PlanNote};
use super::options::{Cast, ConvertOptions};
use super::output_tensor::fit;
use super::outputs::{Asked, plan_outputs};
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
    /// The members of the model's configuration that tell of the quantised weights, where there are any.
    pub configuration: Vec<(&'static str, Value)>,
    /// Files beside the weights that tell of them.
    pub documents: Vec<(&'static str, Value)>,
    pub stats: ConvertStats,
    pub kept: Vec<(String, Keeping)>,
    pub notes: Vec<PlanNote>,
    /// The architecture whose names and keys the output has.
    pub architecture: Option<&'static Architecture>,
    /// What the first quantised weight was before.
    pub encoded_dtype: Option<TargetDtype>,
}

/// What describes the quantised weights of an output: members of its configuration, entries of its metadata, files.
#[derive(Default)]
struct Described {
    members: Vec<(&'static str, Value)>,
    metadata: Metadata,
    documents: Vec<(&'static str, Value)>,
}

impl Checkpoint {
    /// The tensors and the metadata of an output, without their places.
    pub(crate) fn outline(&self, target: ConvertTarget, options: &ConvertOptions) -> Result<Outline> {
        self.check_target(target, options)?;
        let model = self.model_for(target, options)?;
        let MappedOutputs { mut outputs, metadata, notes: notes_of_model } =
            self.outputs(target, options, model.as_ref())?;
        let described = target.encoding().map(|encoding| self.described(encoding, options, &outputs));
        let Described { members: configuration, metadata: told, documents } = described.unwrap_or_default();
        let (is_mapped, planned) = (model.is_some(), &mut outputs.planned);
        let reshaped = fit(planned, target.container()?, target.extension())?;
        if !is_mapped {
            // The input's own order: what was together stays together, and reading goes from front to back.
            planned.sort_by_key(Planned::source);
        }
        let (mut metadata, dropped) = self.metadata_for(target, options, metadata)?;
        if !told.is_empty() {
            let mut all = metadata.unwrap_or_default();
            let is_of_llama_cpp = is_mapped || self.format() == Format::Gguf;
            if target.is_quantized() && target.format() == Format::Gguf && is_of_llama_cpp {
                let old: Vec<String> = match is_mapped {
                    true => all.written().map(|(key, _)| key.to_owned()).collect(),
                    false => self.metadata()?.into_iter().map(|(key, _)| key).collect(),
                };
                arrange_as_llama_cpp(planned, options.split != Split::AsInput);
                all = all.in_order(new_behind_old(old, &told));
            }
            all.extend(told);
            metadata = Some(all);
        }
        let mut notes: Vec<PlanNote> = self.claimed().notes.iter().cloned().map(PlanNote::Other).collect();
        notes.extend(notes::of_unclaimed(self.unclaimed(), &options.selection));
        notes.extend(notes_of_model.into_iter().map(PlanNote::Other));
        let Outputs { planned, stats, kept, instead, requantised, encoded_dtype, renamed, .. } = outputs;
        notes.extend(notes::of_other_types(&instead));
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

    /// Refuses a target that writes no file, and options that do not go with it.
    fn check_target(&self, target: ConvertTarget, options: &ConvertOptions) -> Result<()> {
        if target == ConvertTarget::Hf {
            let why = "it is written as a directory, not as one file".to_owned();
            return Err(Request::Contradiction { what: format!("the target {target}"), why }.into());
        }
        self.check_split(target, options.split)?;
        let Some(encoding) = target.encoding() else {
            options.quantise.check_unused(target.name())?;
            return options.rules.check_unused(target.name());
        };
        options.rules.check_mixes(encoding)?;
        match self.adapter()? {
            None => Ok(()),
            Some(name) => {
                let why = format!(
                    "{} says that this is an adapter, which is added to the weights of a model and not quantised",
                    quoted(&name)
                );
                Err(AnamnesisError::unsupported(target.name(), why))
            }
        }
    }

    /// Every tensor of an output: what an architecture makes of the input, or the tensors of the input themselves.
    fn outputs(
        &self,
        target: ConvertTarget,
        options: &ConvertOptions,
        model: Option<&Model<'_>>,
    ) -> Result<MappedOutputs> {
        let (encoding, container, cast_all) = (target.encoding(), target.container()?, options.cast == Cast::All);
        let of_model = match (encoding, model) {
            (Some(_), None) => self.all_metadata()?,
            _ => None,
        };
        // A model for llama.cpp has types of its own.
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
        let asked = Asked {
            dtype: dtype.unwrap_or_default(),
            keeps_blocks: (encoding.is_none() && keeps_blocks).then_some(container),
            cast_all,
            // As llama.cpp decodes what it quantises again.
            exact_blocks: encoding.is_some() && dtype.is_none() && target.format() == Format::Gguf,
            selection: &options.selection,
            quantise,
        };
        let outputs = plan_outputs(ClaimedCatalog::of(self), &asked)?;
        Ok(MappedOutputs { outputs, metadata: None, notes: Vec::new() })
    }

    /// What tells loaders of the quantised weights.
    fn described(&self, encoding: &Encoding, options: &ConvertOptions, outputs: &Outputs) -> Described {
        let Outputs { planned, kept, repacked, encoded_dtype, others, .. } = outputs;
        let stored = planned.iter().flat_map(|planned| &planned.outputs).map(|output| output.name.as_str());
        let encoded = planned.iter().filter(|planned| matches!(planned.work, Work::Encode { .. }));
        let made = QuantisedModel {
            options: &options.quantise,
            quantised: encoded
                .filter_map(|planned| Some(planned.outputs.first()?.name.as_str()))
                .chain(repacked.iter().map(String::as_str))
                .collect(),
            others: others.iter().map(|(name, encoding)| (name.as_str(), *encoding)).collect(),
            kept: kept.iter().map(|kept| (kept.output_name.as_str(), kept.why)).collect(),
            unstored: self.model_class().unstored_heads(stored.clone()),
            dtype: encoded_dtype.unwrap_or_default(),
        };
        let quantiser = encoding.quantiser;
        let configuration = quantiser.configuration(&made).into_iter();
        let members = configuration.flat_map(|told| quantiser.members().iter().map(move |&name| (name, told.clone())));
        Described {
            members: members.collect(),
            metadata: quantiser.metadata(&made),
            documents: quantiser.documents(&made),
        }
    }

    /// Refuses to cut what cannot be cut.
    fn check_split(&self, target: ConvertTarget, split: Split) -> Result<()> {
        let refuse = |why: &str| {
            let (what, why) = ("an output of several files".to_owned(), why.to_owned());
            Err(AnamnesisError::Request(Request::Contradiction { what, why }))
        };
        match split {
            Split::Whole => Ok(()),
            _ if target.format() != Format::Gguf => refuse("only GGUF models are cut into files like that"),
            Split::AsInput if self.format() != Format::Gguf => refuse("the input is no GGUF model that was cut"),
            _ => Ok(()),
        }
    }
}

/// Tensors as llama.cpp has them: by layer, unless they stay where they are, and without dimensions in front that are 1.
fn arrange_as_llama_cpp(planned: &mut [Planned], by_layer: bool) {
    if by_layer {
        planned.sort_by(|a, b| in_order(first_name(a)).cmp(&in_order(first_name(b))));
    }
    for output in planned.iter_mut().flat_map(|planned| &mut planned.outputs) {
        let ones = output.shape.iter().take_while(|size| **size == 1).count();
        output.shape.drain(..ones.min(output.shape.len().saturating_sub(1)));
    }
}

/// Keys as they are, and what is new behind them.
fn new_behind_old(old: Vec<String>, told: &Metadata) -> Vec<String> {
    let new: Vec<String> = told.written().map(|(key, _)| key.to_owned()).collect();
    let old = old.into_iter().filter(|key| !new.contains(key));
    old.chain(new.iter().cloned()).collect()
}

/// The name of the first tensor that is made.
fn first_name(planned: &Planned) -> &str {
    planned.outputs.first().map_or("", |output| &output.name)
}
