//! Output tensors while they are gathered, and what the quantiser decides about them.

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

/// How weights are quantised, and which.
pub(crate) struct Quantise<'a> {
    pub encoding: &'static Encoding,
    pub options: &'a QuantiseOptions,
    /// What the caller wants quantised and kept.
    pub chosen: &'a NamePatterns,
    /// What the caller wants of single weights.
    pub rules: &'a Rules,
    /// What the input says of the model.
    pub metadata: Option<&'a Metadata>,
    /// What kind of model it is.
    pub class: ModelClass<'a>,
    pub checks: Checks,
    /// The container of the output.
    pub container: &'a dyn Container,
    /// Whether blocks that are not quantised anew stay what they are.
    pub keeps_blocks: bool,
    /// Whether tensors stay in the order in which they are stored.
    pub in_stored_order: bool,
    /// What the input is read from while planning, and how.
    pub sources: &'a [Box<dyn Source>],
    pub run: &'a RememberOptions,
}

/// The outputs of a plan while they are gathered.
pub(super) struct Drafts<'a> {
    catalog: &'a Catalog,
    quantise: Option<&'a Quantise<'a>>,
    drafts: Vec<Draft>,
    names: Names,
}

/// The names of an output with those of the tensors they belong to.
#[derive(Default)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    /// The new name of a tensor, which nothing else may have.
    fn add(&mut self, renamed: String, name: &str) -> Result<String> {
        match self.0.insert(renamed.clone(), name.to_owned()) {
            None => Ok(renamed),
            Some(other) if other == name => {
                Err(AnamnesisError::parse(format!("two output tensors are named {}", quoted(name))))
            }
            Some(other) => Err(Request::SameName { name: renamed, tensors: [other, name.to_owned()] }.into()),
        }
    }

    /// Makes sure that no other tensor has the name of one that comes with a quantised weight.
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

    /// The new name of a tensor, which nothing else may have.
    pub(super) fn name(&mut self, renamed: String, name: &str) -> Result<String> {
        self.names.add(renamed, name)
    }

    pub(super) fn push(&mut self, draft: Draft) {
        self.drafts.push(draft);
    }

    /// Lets the quantiser decide, and makes every tensor what it shall be.
    pub(super) fn finish(self, left_out: usize) -> Result<Outputs> {
        let decisions = self.decide()?;
        let Self { catalog, quantise, drafts, names } = self;
        Finisher::new(catalog, quantise, names, &drafts, &decisions)?.finish(drafts, decisions, left_out)
    }

    /// What becomes of every tensor that has values, in their order, and whether it is transposed for that; nothing where nothing is
    /// quantised.
    fn decide(&self) -> Result<Vec<(Decision, bool)>> {
        let Some(quantise) = self.quantise else { return Ok(Vec::new()) };
        let drafts = &self.drafts;
        // Layers of torch's MultiheadAttention, which takes their weights without asking them.
        let attentions: HashSet<&str> =
            drafts.iter().filter_map(|draft| draft.output_name.strip_suffix(".in_proj_weight")).collect();
        let layer = |draft: &Draft| match draft.output_name.strip_suffix(".out_proj.weight") {
            Some(attention) if attentions.contains(attention) => Layer::Other,
            _ => quantise.class.layer(&draft.output_name),
        };
        let as_encoded = |draft: &Draft, layer: Layer, wish: Option<Override>| {
            let encoding = match wish {
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
                let (layer, wish) = (layer(draft), quantise.rules.wish(&draft.name, &draft.output_name));
                (draft, stored, layer, wish, as_encoded(draft, layer, wish))
            })
            .collect();
        let tensors: Vec<_> = described
            .iter()
            .map(|(draft, stored, layer, wish, (shape, _))| Candidate {
                name: &draft.name,
                output_name: &draft.output_name,
                shape,
                dtype: stored.dtype,
                place: stored.place().filter(|_| quantise.in_stored_order),
                requested: *wish,
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
