//! Output tensors while they are collected, and the decisions of the quantiser about them.

use std::collections::{BTreeMap, HashSet};

use super::draft::{Content, Draft};
use super::finished::{Finisher, Outputs};
use super::rules::Rules;
use crate::catalog::{Catalog, Metadata, NamePatterns};
use crate::container::Container;
use crate::error::{AnamnesisError, Request, Result, quoted};
use crate::io::Source;
use crate::pipeline::{Checks, RememberOptions};
use crate::scheme::{Candidate, Decision, Encoding, Layer, ModelClass, Override, QuantiseOptions, Task};

/// Which weights are quantised, and how.
pub(crate) struct Quantise<'a> {
    pub encoding: &'static Encoding,
    pub options: &'a QuantiseOptions,
    /// Patterns of weights to quantise and weights to keep.
    pub chosen: &'a NamePatterns,
    /// The caller's rules for individual weights.
    pub rules: &'a Rules,
    /// Metadata of the input.
    pub metadata: Option<&'a Metadata>,
    /// The class of the model.
    pub class: ModelClass<'a>,
    pub checks: Checks,
    /// The container of the output.
    pub container: &'a dyn Container,
    /// Whether blocks that are not quantised again stay as they are stored.
    pub keeps_blocks: bool,
    /// Whether tensors keep their stored order.
    pub in_stored_order: bool,
    /// Files of the input, and the options for reading them while planning.
    pub sources: &'a [Box<dyn Source>],
    pub run: &'a RememberOptions,
}

/// The outputs of a plan while they are collected.
pub(super) struct Drafts<'a> {
    catalog: &'a Catalog,
    quantise: Option<&'a Quantise<'a>>,
    drafts: Vec<Draft>,
    names: Names,
}

/// Output names, each with the input name of the tensor it belongs to.
#[derive(Default)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    /// Adds an output name and returns it; a duplicate is an error.
    fn add(&mut self, renamed: String, name: &str) -> Result<String> {
        match self.0.insert(renamed.clone(), name.to_owned()) {
            None => Ok(renamed),
            Some(other) if other == name => {
                Err(AnamnesisError::parse(format!("two output tensors are named {}", quoted(name))))
            }
            Some(other) => Err(Request::SameName { name: renamed, tensors: [other, name.to_owned()] }.into()),
        }
    }

    /// Reserves the name of a companion of a quantised weight; a duplicate is an error.
    pub(super) fn claim(&mut self, name: &str, tensor: &str) -> Result<()> {
        match self.0.insert(name.to_owned(), tensor.to_owned()) {
            Some(other) if other != tensor => {
                Err(Request::SameName { name: name.to_owned(), tensors: [other, tensor.to_owned()] }.into())
            }
            _ => Ok(()),
        }
    }
}

impl<'a> Drafts<'a> {
    pub(super) fn new(catalog: &'a Catalog, quantise: Option<&'a Quantise<'a>>) -> Self {
        Self { catalog, quantise, drafts: Vec::new(), names: Names::default() }
    }

    /// Adds the output name of a tensor and returns it; a duplicate is an error.
    pub(super) fn name(&mut self, renamed: String, name: &str) -> Result<String> {
        self.names.add(renamed, name)
    }

    pub(super) fn push(&mut self, draft: Draft) {
        self.drafts.push(draft);
    }

    /// Asks the quantiser for its decisions and turns every draft into planned work.
    pub(super) fn finish(self, left_out: usize) -> Result<Outputs> {
        let decisions = self.decide()?;
        let Self { catalog, quantise, drafts, names } = self;
        Finisher::new(catalog, quantise, names, &drafts, &decisions)?.finish(drafts, decisions, left_out)
    }

    /// The decision for every draft with values, in order, and whether the weight is transposed first; empty if the
    /// target quantises nothing.
    fn decide(&self) -> Result<Vec<(Decision, bool)>> {
        let Some(quantise) = self.quantise else { return Ok(Vec::new()) };
        let drafts = &self.drafts;
        // `MultiheadAttention` of torch reads the weights of its layers directly instead of calling the layers.
        let attentions: HashSet<&str> =
            drafts.iter().filter_map(|draft| draft.output_name.strip_suffix(".in_proj_weight")).collect();
        let layer = |draft: &Draft| match draft.output_name.strip_suffix(".out_proj.weight") {
            Some(attention) if attentions.contains(attention) => Layer::Other,
            _ => quantise.class.layer(&draft.output_name),
        };
        let as_encoded = |draft: &Draft, layer: Layer, requested: Option<Override>| {
            let encoding = match requested {
                Some(Override::Encode(other)) => other,
                _ => quantise.encoding,
            };
            match draft.shape[..] {
                [rows, cols] if encoding.transposes(layer) => (vec![cols, rows], true),
                _ => (draft.shape.clone(), false),
            }
        };
        let drafts = drafts.iter().filter_map(|draft| match &draft.content {
            Content::Bytes(_) | Content::Repacked(..) | Content::Encoded(..) => None,
            Content::Values(stored) => Some((draft, stored)),
        });
        let described: Vec<_> = drafts
            .map(|(draft, stored)| {
                let (layer, requested) = (layer(draft), quantise.rules.override_for(&draft.name, &draft.output_name));
                (draft, stored, layer, requested, as_encoded(draft, layer, requested))
            })
            .collect();
        let tensors: Vec<_> = described
            .iter()
            .map(|(draft, stored, layer, requested, (shape, _))| Candidate {
                name: &draft.name,
                output_name: &draft.output_name,
                shape,
                dtype: stored.dtype,
                place: stored.place().filter(|_| quantise.in_stored_order),
                requested: *requested,
                layer: *layer,
            })
            .collect();
        quantise.rules.check_used(tensors.iter().flat_map(|tensor| [tensor.name, tensor.output_name]))?;
        let decisions = quantise.encoding.plan(&Task {
            tensors: &tensors,
            options: quantise.options,
            rules: quantise.chosen,
            metadata: quantise.metadata,
        })?;
        Ok(decisions.into_iter().zip(described.iter().map(|(.., (_, is_transposed))| *is_transposed)).collect())
    }
}
