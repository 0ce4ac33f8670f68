//! Output tensors on their way into a plan: what each is made of, before and after the quantiser has decided.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::draft::{Content, Draft, Stored};
use super::joined::{Joined, sets_apart};
use super::output_tensor::output;
use super::repacked::{Input, Repacked, Repacking};
use super::rules::Rules;
use super::stats::ConvertStats;
use crate::catalog::{Catalog, Dtype, Metadata, NamePatterns, TargetDtype, TensorId};
use crate::container::{Container, OutputTensor};
use crate::error::{AnamnesisError, Request, Result, quoted};
use crate::io::Source;
use crate::pipeline::{Checks, Origin, Planned, RunOptions, Values, Work};
use crate::scheme::{
    Candidate, Decision, EncodedTensor, Encoding, InFieldOrder, Keeping, Layer, ModelClass, Override, Packing,
    QuantiseOptions, Task, TileDecoder, TileEncoder, Transposed,
};

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
    /// Whether blocks are decoded to all that they hold, as nobody says what to decode them to.
    pub is_exact: bool,
    /// Whether blocks that are not quantised anew stay what they are.
    pub keeps_blocks: bool,
    /// Whether tensors stay in the order in which they are stored.
    pub in_stored_order: bool,
    /// What the input is read from while planning, and how.
    pub sources: &'a [Box<dyn Source>],
    pub run: RunOptions,
}

/// The tensors of an output, without their places.
pub(crate) struct Outputs {
    pub planned: Vec<Planned>,
    pub stats: ConvertStats,
    /// Weights that could be quantised and are not, with their names in the output.
    pub kept: Vec<Kept>,
    /// Weights whose rows are not divided by the blocks that they should be: what these are, and what the weights are instead.
    pub instead: Vec<Instead>,
    /// Weights that were quantised before, and are decoded to be quantised again.
    pub requantised: usize,
    /// Quantised weights whose codes and scales stay what they are, by the names of their codes.
    pub repacked: Vec<String>,
    /// What the first quantised weight was before.
    pub encoded_dtype: Option<TargetDtype>,
    /// The first tensors of weights that are of another encoding than most, with the name of that.
    pub others: Vec<(String, &'static str)>,
    /// Quantised weights whose names had to change, as loaders find companions by the name of the weight.
    pub renamed: Vec<[String; 2]>,
}

/// A weight that could be quantised and is not.
pub(crate) struct Kept {
    pub name: String,
    pub output_name: String,
    pub why: Keeping,
}

/// A weight of another type than it should be.
pub(crate) struct Instead {
    pub name: String,
    pub wanted: Dtype,
    pub made: Dtype,
}

/// The outputs of a plan while they are gathered.
pub(super) struct Drafts<'a> {
    catalog: &'a Catalog,
    quantise: Option<&'a Quantise<'a>>,
    pub stats: ConvertStats,
    drafts: Vec<Draft>,
    /// The new names with the old ones.
    named: BTreeMap<String, String>,
}

impl<'a> Drafts<'a> {
    pub(super) fn new(catalog: &'a Catalog, quantise: Option<&'a Quantise<'a>>) -> Self {
        Self { catalog, quantise, stats: ConvertStats::default(), drafts: Vec::new(), named: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.drafts.is_empty()
    }

    pub(super) fn push(&mut self, draft: Draft) {
        self.drafts.push(draft);
    }

    /// The new name of a tensor, which nothing else may have.
    pub(super) fn name(&mut self, renamed: String, name: &str) -> Result<String> {
        match self.named.insert(renamed.clone(), name.to_owned()) {
            None => Ok(renamed),
            Some(other) if other == name => {
                Err(AnamnesisError::parse(format!("two output tensors are named {}", quoted(name))))
            }
            Some(other) => Err(Request::SameName { name: renamed, tensors: [other, name.to_owned()] }.into()),
        }
    }

    /// Lets the quantiser decide, and makes every tensor what it shall be.
    pub(super) fn finish(mut self) -> Result<Outputs> {
        let drafts = std::mem::take(&mut self.drafts);
        let decisions = self.decide(&drafts)?;
        let apart = match self.quantise {
            Some(quantise) if quantise.keeps_blocks => sets_apart(&drafts, &decisions, self.catalog, quantise.sources)?,
            _ => BTreeSet::new(),
        };
        let (mut decisions, mut joined) = (decisions.into_iter(), Joined::default());
        let mut outputs = Outputs {
            planned: Vec::with_capacity(drafts.len()),
            stats: ConvertStats::default(),
            kept: Vec::new(),
            instead: Vec::new(),
            requantised: 0,
            repacked: Vec::new(),
            encoded_dtype: None,
            others: Vec::new(),
            renamed: Vec::new(),
        };
        for draft in drafts {
            let stored = match draft.content {
                Content::Bytes(id) => {
                    outputs.planned.push(self.copy(id, draft.output_name, draft.shape)?);
                    continue;
                }
                Content::Repacked(output, values) => {
                    outputs.planned.push(Planned { outputs: vec![output], work: Work::Decode(values) });
                    continue;
                }
                Content::Encoded(values, encoder, checks) => {
                    let tensor = |made: &EncodedTensor| output(made.name.clone(), made.dtype, made.shape.clone());
                    let made = encoder.outputs().iter().map(tensor).collect::<Result<_>>()?;
                    let name = draft.output_name;
                    outputs.planned.push(Planned {
                        outputs: made,
                        work: Work::Encode { name, values, encoder, checks, shared: None },
                    });
                    continue;
                }
                Content::Values(stored) => stored,
            };
            let mut set = None;
            let (decision, is_transposed) =
                decisions.next().map_or((None, false), |(made, turned)| (Some(made), turned));
            let encoder = match decision {
                None => None,
                Some(Decision::EncodeShared(encoder, name)) => {
                    set = Some(name);
                    Some(encoder)
                }
                Some(Decision::Encode(encoder)) => Some(encoder),
                Some(Decision::EncodeInstead(encoder, wanted)) => {
                    if let Some(made) = encoder.outputs().first() {
                        let (name, wanted, made) = (draft.name.clone(), Dtype::Block(wanted), made.dtype);
                        outputs.instead.push(Instead { name, wanted, made });
                    }
                    Some(encoder)
                }
                Some(Decision::Keep(why)) => {
                    outputs.kept.push(Kept { name: draft.name.clone(), output_name: draft.output_name.clone(), why });
                    None
                }
            };
            if let Some(id) = stored.copied.filter(|_| encoder.is_none()) {
                self.stats.passthrough += 1;
                outputs.planned.push(self.copy(id, draft.output_name, draft.shape)?);
                continue;
            }
            if let Some(id) = stored.block.filter(|&id| self.stays(id, encoder.as_deref())) {
                self.stats.dequantized -= 1;
                self.stats.passthrough += 1;
                outputs.planned.push(self.copy(id, draft.output_name, draft.shape)?);
                continue;
            }
            if let Some(encoder) = encoder.as_deref() {
                self.note_encoded(&draft.name, &draft.output_name, encoder, &mut outputs)?;
                outputs.encoded_dtype.get_or_insert(stored.dtype);
            }
            let stays_apart = is_transposed || set.as_ref().is_some_and(|set| apart.contains(set));
            if let (Some(encoder), Some(quantise), false) = (encoder.as_deref(), self.quantise, stays_apart) {
                match self.repacked(quantise, &stored, &draft.shape, encoder)? {
                    Repacked::As(planned) => {
                        self.stats.dequantized -= 1;
                        self.stats.repacked += 1;
                        outputs.repacked.extend(encoder.outputs().first().map(|codes| codes.name.clone()));
                        outputs.planned.extend(planned);
                        continue;
                    }
                    Repacked::Nearly => self.stats.nearly_repacked += 1,
                    Repacked::Not => {}
                }
            }
            let Stored { decoder, parts, sources, origin, dtype, encoded_from, is_cast, .. } = stored;
            outputs.requantised += usize::from(origin == Origin::Quantised && encoder.is_some());
            let read_as = if encoder.is_some() { encoded_from } else { dtype };
            let shape = draft.shape.clone();
            let decoded = output(draft.output_name, read_as.dtype(), draft.shape)?;
            let elements = decoded.bytes / read_as.byte_size() as u64;
            let decoder = match (is_transposed && encoder.is_some(), &shape[..]) {
                (true, &[rows, cols]) => self.turned(decoder, [rows, cols], origin, &sources),
                _ => decoder,
            };
            let decoder = match encoder.as_deref().and_then(TileEncoder::braid) {
                Some(braid) => Arc::new(InFieldOrder::new(decoder, braid)),
                None => decoder,
            };
            let values = Values { decoder, parts, sources, dtype: read_as, elements, origin };
            outputs.planned.push(match (encoder, self.quantise) {
                (Some(encoder), Some(quantise)) => {
                    self.stats.quantized += 1;
                    if let Some(set) = set {
                        joined.add(set, &outputs.planned);
                    }
                    let tensor = |made: &EncodedTensor| output(made.name.clone(), made.dtype, made.shape.clone());
                    let made = encoder.outputs().iter().map(tensor).collect::<Result<_>>()?;
                    // Blocks are decoded to F32 while a model runs, other weights to what they were.
                    let loaded_as = match quantise.encoding.packing {
                        Packing::Blocks => TargetDtype::F32,
                        Packing::Companions => dtype,
                    };
                    let (name, checks) = (decoded.name, Checks { loaded_as, ..quantise.checks });
                    Planned { outputs: made, work: Work::Encode { name, values, encoder, checks, shared: None } }
                }
                _ => {
                    self.stats.cast += usize::from(origin == Origin::Plain && is_cast);
                    self.stats.passthrough += usize::from(origin == Origin::Plain && !is_cast);
                    Planned { outputs: vec![decoded], work: Work::Decode(values) }
                }
            });
        }
        joined.join(&mut outputs.planned);
        outputs.stats = self.stats;
        Ok(outputs)
    }

    /// Takes the names of what an encoder makes, and remembers where they, or the encoding, are not what one would expect.
    fn note_encoded(
        &mut self,
        name: &str,
        output_name: &str,
        encoder: &dyn TileEncoder,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let (Some(quantise), Some(first)) = (self.quantise, encoder.outputs().first()) else { return Ok(()) };
        match quantise.rules.wish(name, output_name) {
            Some(Override::Encode(other)) if other.name() != quantise.encoding.name() => {
                self.stats.by_rules += 1;
                outputs.others.push((first.name.clone(), other.name()));
            }
            _ => {}
        }
        if first.name != output_name {
            outputs.renamed.push([output_name.to_owned(), first.name.clone()]);
        }
        encoder.outputs().iter().try_for_each(|made| self.claim_name(&made.name, name))
    }

    /// Whether blocks are what the quantiser would make of them, or are not its business.
    fn stays(&self, id: TensorId, encoder: Option<&dyn TileEncoder>) -> bool {
        let tensor = self.catalog.get(id);
        match encoder.map(TileEncoder::outputs) {
            None => self.quantise.is_some_and(|quantise| quantise.keeps_blocks),
            Some([made]) => made.dtype == tensor.dtype && made.shape == tensor.shape,
            Some(_) => false,
        }
    }

    /// A weight with its codes and scales as they are, where it is not said what it is decoded to.
    fn repacked(
        &self,
        quantise: &Quantise<'_>,
        stored: &Stored,
        shape: &[usize],
        encoder: &dyn TileEncoder,
    ) -> Result<Repacked> {
        if !quantise.keeps_blocks || stored.origin != Origin::Quantised {
            return Ok(Repacked::Not);
        }
        let Quantise { sources: read, run, options, .. } = quantise;
        let Stored { decoder, parts, sources, .. } = stored;
        let repacking = Repacking { catalog: self.catalog, sources: read, run, same_codes: options.groups.same_codes };
        repacking.repacked(&Input { decoder: &**decoder, parts, sources, shape }, encoder)
    }

    /// A matrix whose rows and columns are exchanged, as its encoder wants it.
    fn turned(
        &self,
        decoder: Arc<dyn TileDecoder>,
        shape: [usize; 2],
        origin: Origin,
        sources: &[TensorId],
    ) -> Arc<dyn TileDecoder> {
        let stored = match (origin, sources) {
            (Origin::Plain, [id]) => Some(self.catalog.get(*id).dtype),
            _ => None,
        };
        Arc::new(Transposed::around(decoder, shape, stored))
    }

    /// What becomes of every tensor that has values, in their order, and whether it is transposed for that; nothing where nothing is
    /// quantised.
    fn decide(&self, drafts: &[Draft]) -> Result<Vec<(Decision, bool)>> {
        let Some(quantise) = self.quantise else { return Ok(Vec::new()) };
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
                [rows, cols] if encoding.turns(layer) => (vec![cols, rows], true),
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
                wish: *wish,
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

    /// The bytes of a tensor under a name and in a shape of the same number of elements.
    fn copy(&self, id: TensorId, name: String, shape: Vec<usize>) -> Result<Planned> {
        let tensor = self.catalog.get(id);
        let outputs = vec![output(name, tensor.dtype, shape)?];
        Ok(Planned { outputs, work: Work::Copy { extent: tensor.extent, source: id } })
    }

    /// Makes sure that no other tensor has the name of one that comes with a quantised weight.
    fn claim_name(&mut self, name: &str, tensor: &str) -> Result<()> {
        match self.named.insert(name.to_owned(), tensor.to_owned()) {
            Some(other) if other != tensor => {
                Err(Request::SameName { name: name.to_owned(), tensors: [other, tensor.to_owned()] }.into())
            }
            _ => Ok(()),
        }
    }
}

/// Tensors named in a refusal; the rest are counted.
const NAMED_IN_REFUSAL: usize = 3;

/// Gives the outputs the shapes of their container, and refuses those it cannot hold, all in one message.
pub(crate) fn fit(planned: &mut [Planned], container: &dyn Container, format: &str) -> Result<usize> {
    let mut reshaped = 0;
    let mut refused: Vec<&OutputTensor> = Vec::new();
    for output in planned.iter_mut().flat_map(|planned| &mut planned.outputs) {
        let shape = container.shape(&output.shape);
        reshaped += usize::from(shape != output.shape);
        output.shape = shape;
        if !container.holds(output.dtype, &output.shape) {
            refused.push(output);
        }
    }
    if refused.is_empty() {
        return Ok(reshaped);
    }
    let name = |output: &&OutputTensor| format!("{} ({} {:?})", quoted(&output.name), output.dtype, output.shape);
    let mut names = refused.iter().take(NAMED_IN_REFUSAL).map(name).collect::<Vec<_>>().join(", ");
    if refused.len() > NAMED_IN_REFUSAL {
        names += &format!(" and {} more", refused.len() - NAMED_IN_REFUSAL);
    }
    let why = format!("it cannot hold {names}");
    Err(AnamnesisError::unsupported(format, why))
}
