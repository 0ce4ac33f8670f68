//! Output tensors while they are collected, and the decisions of the quantiser about them.

use std::collections::HashSet;

use super::draft::{Content, Draft};
use super::finished::{Finisher, Outputs};
use super::output_names::OutputNames;
use super::quantise::Quantise;
use crate::catalog::Catalog;
use crate::error::Result;
use crate::scheme::{Candidate, Decision, Layer, Override, Task};

/// The outputs of a plan while they are collected.
pub(super) struct Drafts<'a> {
    catalog: &'a Catalog,
    quantise: Option<&'a Quantise<'a>>,
    drafts: Vec<Draft>,
    names: OutputNames,
}

impl<'a> Drafts<'a> {
    pub(super) fn new(catalog: &'a Catalog, quantise: Option<&'a Quantise<'a>>, count: usize) -> Self {
        Self { catalog, quantise, drafts: Vec::with_capacity(count), names: OutputNames::default() }
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
        let Self { catalog, quantise, drafts, mut names } = self;
        // Only the companions of quantised weights have names that are not known yet.
        if quantise.is_none() {
            names = OutputNames::default();
        }
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
