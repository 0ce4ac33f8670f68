//! What a conversion will make, before its tensors get their places.

use serde_json::Value;

use super::drafts::Quantise;
use super::finished::Outputs;
use super::inputs::ClaimedCatalog;
use super::mapped::MappedOutputs;
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
use crate::scheme::{Keeping, QuantisedModel};

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

impl Checkpoint {
    /// The tensors and the metadata of an output, without their places.
    pub(crate) fn outline(&self, target: ConvertTarget, options: &ConvertOptions) -> Result<Outline> {
        if target == ConvertTarget::Hf {
            let why = "it is written as a directory, not as one file".to_owned();
            return Err(Request::Contradiction { what: format!("the target {target}"), why }.into());
        }
        let container = target.container()?;
        self.check_split(target, options.split)?;
        let cast_all = options.cast == Cast::All;
        let encoding = target.encoding();
        match encoding {
            None => {
                options.quantise.check_unused(target.name())?;
                options.rules.check_unused(target.name())?;
            }
            Some(encoding) => {
                options.rules.check_mixes(encoding)?;
                if let Some(name) = self.adapter()? {
                    let why = format!(
                        "{} says that this is an adapter, which is added to the weights of a model and not quantised",
                        quoted(&name)
                    );
                    return Err(AnamnesisError::unsupported(target.name(), why));
                }
            }
        }
        let model = self.model_for(target, options)?;
        let of_model = match (encoding, &model) {
            (Some(_), None) => self.all_metadata()?,
            _ => None,
        };
        // A model for llama.cpp has types of its own.
        let dtype = if model.is_some() { None } else { options.target_dtype()? };
        let quantise = encoding.map(|encoding| Quantise {
            encoding,
            options: &options.quantise,
            chosen: &options.quantised,
            rules: &options.rules,
            metadata: of_model.as_ref(),
            class: self.model_class(),
            checks: Checks {
                allow_nonfinite: options.allow_nonfinite,
                measure: options.measure,
                loaded_as: TargetDtype::F32,
            },
            container,
            keeps_blocks: dtype.is_none() && !cast_all,
            in_stored_order: options.split == Split::AsInput,
            sources: &self.sources,
            run: &options.run,
        });
        let (outputs, told_of_model, notes_of_model) = match &model {
            Some(model) => {
                let MappedOutputs { outputs, told, notes } = model.outputs(options, quantise)?;
                (outputs, Some(told.into_parts().0), notes)
            }
            None => {
                let asked = Asked {
                    dtype: dtype.unwrap_or_default(),
                    keeps_blocks: (encoding.is_none() && dtype.is_none() && !cast_all).then_some(container),
                    cast_all,
                    // As llama.cpp decodes what it quantises again.
                    exact_blocks: encoding.is_some() && dtype.is_none() && target.format() == Format::Gguf,
                    selection: &options.selection,
                    quantise,
                };
                (plan_outputs(ClaimedCatalog::of(self), &asked)?, None, Vec::new())
            }
        };
        let is_mapped = model.is_some();
        let Outputs { mut planned, mut stats, kept, instead, requantised, repacked, encoded_dtype, others, renamed } =
            outputs;
        let made = encoding.map(|encoding| {
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
            let configuration = encoding.quantiser.configuration(&made).into_iter();
            let members = configuration
                .flat_map(|told| encoding.quantiser.members().iter().map(move |&name| (name, told.clone())));
            (members.collect::<Vec<_>>(), encoding.quantiser.metadata(&made), encoding.quantiser.documents(&made))
        });
        let (configuration, told, documents) = made.unwrap_or_default();
        let kept = kept.into_iter().map(|kept| (kept.name, kept.why)).collect();
        let reshaped = fit(&mut planned, container, target.extension())?;
        if !is_mapped {
            // The input's own order: what was together stays together, and reading goes from front to back.
            planned.sort_by_key(Planned::source);
        }
        let (mut metadata, dropped) = self.metadata_for(target, options, told_of_model)?;
        if !told.is_empty() {
            let mut all = metadata.unwrap_or_default();
            let is_of_llama_cpp = is_mapped || self.format() == Format::Gguf;
            if target.is_quantized() && target.format() == Format::Gguf && is_of_llama_cpp {
                let old: Vec<String> = match is_mapped {
                    true => all.written().map(|(key, _)| key.to_owned()).collect(),
                    false => self.metadata()?.into_iter().map(|(key, _)| key).collect(),
                };
                arrange_as_llama_cpp(&mut planned, options.split != Split::AsInput);
                all = all.in_order(new_behind_old(old, &told));
            }
            all.extend(told);
            metadata = Some(all);
        }
        stats.dropped_metadata = dropped;
        let mut notes: Vec<PlanNote> = self.claimed().notes.iter().cloned().map(PlanNote::Other).collect();
        notes.extend(notes::of_unclaimed(self.unclaimed(), &options.selection));
        notes.extend(notes_of_model.into_iter().map(PlanNote::Other));
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
        Ok(Outline { planned, metadata, configuration, documents, stats, kept, notes, architecture, encoded_dtype })
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
