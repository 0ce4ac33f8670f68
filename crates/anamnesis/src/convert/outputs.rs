//! From claimed tensors to the tensors of an output: what is kept, decoded, cast or encoded.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::stats::ConvertStats;
use crate::catalog::{
    Catalog, Dtype, Extent, Metadata, NamePatterns, Selection, StoredTensor, TargetDtype, TensorId, dtype::elements,
};
use crate::checkpoint::prepare;
use crate::container::{Container, OutputTensor};
use crate::error::{AnamnesisError, Request, Result, quoted};
use crate::io::Source;
use crate::pipeline::{Checks, Origin, Planned, Values, Work};
use crate::scheme::{
    Blocked, Candidate, Claimed, Decision, EncodedTensor, Keeping, PlainDecoder, Prepared, QuantiseOptions, Quantiser,
    Reciprocals, Task, TensorRole, TileDecoder, TileEncoder, Weight, WholeScale,
};

/// What is asked of the output.
pub(crate) struct Asked<'a> {
    /// What quantised weights are decoded to.
    pub dtype: TargetDtype,
    /// The container that may keep blocks as they are stored; `None` where everything is decoded.
    pub keeps_blocks: Option<&'a dyn Container>,
    /// Whether plain floats become `dtype` too.
    pub cast_all: bool,
    pub selection: &'a Selection,
    pub quantise: Option<Quantise<'a>>,
}

/// How weights are quantised, and which.
pub(crate) struct Quantise<'a> {
    pub quantiser: &'static dyn Quantiser,
    pub options: &'a QuantiseOptions,
    /// What the caller wants quantised and kept.
    pub rules: &'a NamePatterns,
    /// What the input says of the model.
    pub metadata: Option<&'a Metadata>,
    pub checks: Checks,
    /// The container of the output.
    pub container: &'a dyn Container,
    /// Whether blocks are decoded to all that they hold, as nobody says what to decode them to.
    pub is_exact: bool,
}

impl<'a> Asked<'a> {
    /// Decodes what is quantised and keeps everything else.
    pub(crate) fn decode(dtype: TargetDtype, selection: &'a Selection) -> Self {
        Self { dtype, keeps_blocks: None, cast_all: false, selection, quantise: None }
    }
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
    /// What the first quantised weight was before.
    pub encoded_dtype: Option<TargetDtype>,
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

/// Every output tensor of a claimed catalog. What cannot be decoded is refused here; small companions are read and checked.
pub(crate) fn plan_outputs(
    catalog: &Catalog,
    sources: &[Box<dyn Source>],
    claimed: &Claimed,
    asked: &Asked<'_>,
) -> Result<Outputs> {
    if let Some(problem) = claimed.problems.first() {
        return Err(problem.again());
    }
    let plain = catalog.iter().zip(&claimed.roles).filter(|(_, role)| **role == TensorRole::Passthrough);
    let plain: Vec<_> = plain.map(|((id, tensor), _)| (id, tensor)).collect();
    let names = claimed.weights.iter().map(|weight| weight.name.as_str());
    let names: Vec<&str> = names.chain(plain.iter().map(|(_, tensor)| tensor.name.as_str())).collect();
    asked.selection.check_used(&names)?;
    if let Some(quantise) = &asked.quantise {
        quantise.rules.check_used(&names)?;
    }
    let mut planner = Planner { catalog, sources, asked, stats: ConvertStats::default(), named: BTreeMap::new() };
    let mut drafts = Vec::with_capacity(names.len());
    for weight in claimed.weights.iter().filter(|weight| asked.selection.takes(&weight.name)) {
        planner.weight(weight, &mut drafts)?;
    }
    for (id, tensor) in plain.into_iter().filter(|(_, tensor)| asked.selection.takes(&tensor.name)) {
        drafts.push(planner.plain(id, tensor)?);
    }
    if drafts.is_empty() && catalog.len() > 0 {
        return Err(Request::NothingSelected.into());
    }
    planner.stats.left_out = names.iter().filter(|name| !asked.selection.takes(name)).count();
    planner.finish(drafts)
}

struct Planner<'a> {
    catalog: &'a Catalog,
    sources: &'a [Box<dyn Source>],
    asked: &'a Asked<'a>,
    stats: ConvertStats,
    /// The new names with the old ones.
    named: BTreeMap<String, String>,
}

/// An output tensor before it is decided whether it is quantised.
struct Draft {
    name: String,
    output_name: String,
    shape: Vec<usize>,
    content: Content,
}

enum Content {
    /// Bytes that can only be copied.
    Bytes(TensorId),
    /// Codes and scales in another order: what they become.
    Repacked(OutputTensor, Values),
    Values(Stored),
}

/// Values as they are stored.
struct Stored {
    decoder: Arc<dyn TileDecoder>,
    parts: Vec<Extent>,
    sources: Vec<TensorId>,
    origin: Origin,
    /// What the values are stored as, or decoded to.
    dtype: TargetDtype,
    /// The tensor to copy where the values need no change.
    copied: Option<TensorId>,
}

impl Planner<'_> {
    fn weight(&mut self, weight: &Weight, drafts: &mut Vec<Draft>) -> Result<()> {
        self.stats.tensors += 1;
        if self.keeps(weight) {
            self.stats.passthrough += 1;
            for &id in &weight.parts {
                drafts.push(self.bytes(id)?);
            }
            return Ok(());
        }
        let parts: Vec<Extent> = weight.parts.iter().map(|&id| self.catalog.get(id).extent).collect();
        let Prepared { shape, decoder, .. } = prepare(self.catalog, self.sources, weight)?;
        if let Some(container) = self.asked.keeps_blocks
            && let Some(blocked) = decoder.as_blocks()
        {
            let mut of_blocks = shape.clone();
            if let ([.., rows, cols], true) = (&mut of_blocks[..], blocked.is_turned) {
                std::mem::swap(rows, cols);
            }
            if container.holds(Dtype::Block(blocked.block), &of_blocks) {
                self.stats.repacked += 1;
                return self.repack(weight, blocked, of_blocks, drafts);
            }
        }
        self.stats.dequantized += 1;
        let is_folded = matches!(self.catalog.get(weight.parts[0]).dtype, Dtype::Block(_)) && weight.parts.len() > 1;
        self.stats.folded_scales += usize::from(is_folded);
        let sources = weight.parts.clone();
        let (origin, dtype) = (Origin::Quantised, self.asked.dtype);
        let stored = Stored { decoder, parts, sources, origin, dtype, copied: None };
        let output_name = self.rename(&weight.name)?;
        drafts.push(Draft { name: weight.name.clone(), output_name, shape, content: Content::Values(stored) });
        Ok(())
    }

    /// A weight that stays what it is, as blocks, with its scale of scales beside it.
    fn repack(&mut self, weight: &Weight, blocked: Blocked, shape: Vec<usize>, drafts: &mut Vec<Draft>) -> Result<()> {
        let Blocked { block, bytes, whole, .. } = blocked;
        let stored =
            |parts: &[TensorId]| -> Vec<Extent> { parts.iter().map(|&id| self.catalog.get(id).extent).collect() };
        let sources = weight.parts.iter().take(2).copied().collect::<Vec<_>>();
        let parts = stored(&sources);
        let draft = |name: String, output: OutputTensor, values: Values| Draft {
            name,
            output_name: output.name.clone(),
            shape: output.shape.clone(),
            content: Content::Repacked(output, values),
        };
        let scale = whole.and_then(|(part, takes)| Some((*weight.parts.get(part)?, takes)));
        let scale = scale.map(|(id, takes)| (id, takes, stored(&[id])));
        let name = self.rename(&weight.name)?;
        let output = output(name, Dtype::Block(block), shape)?;
        let (origin, dtype, elements) = (Origin::Repacked, TargetDtype::F32, output.bytes);
        let values = Values { decoder: bytes, parts, sources, dtype, elements, origin };
        if let Some((id, takes, parts)) = scale {
            let name = self.rename(&format!("{}.scale", weight.name.trim_end_matches(".weight")))?;
            let tensor = self.catalog.get(id);
            let decoder: Arc<dyn TileDecoder> = match takes {
                WholeScale::Times => Arc::new(PlainDecoder::of(tensor.dtype).ok_or_else(|| {
                    AnamnesisError::unsupported(block.name(), format!("a scale of scales of type {}", tensor.dtype))
                })?),
                WholeScale::Over => Arc::new(Reciprocals),
            };
            let (sources, origin, dtype) = (vec![id], Origin::Plain, TargetDtype::F32);
            let values = Values { decoder, parts, sources, dtype, elements: tensor.elements(), origin };
            drafts.push(draft(tensor.name.clone(), self::output(name, Dtype::F32, tensor.shape.clone())?, values));
        }
        drafts.push(draft(weight.name.clone(), output, values));
        Ok(())
    }

    /// Whether the output can hold a weight as it is stored: blocks lose nothing by staying blocks.
    fn keeps(&self, weight: &Weight) -> bool {
        let is_block = |id: &TensorId| matches!(self.catalog.get(*id).dtype, Dtype::Block(_));
        self.asked.keeps_blocks.is_some_and(|container| {
            weight.parts.first().is_some_and(is_block)
                && weight
                    .parts
                    .iter()
                    .all(|&id| container.holds(self.catalog.get(id).dtype, &self.catalog.get(id).shape))
        })
    }

    fn plain(&mut self, id: TensorId, tensor: &StoredTensor) -> Result<Draft> {
        self.stats.tensors += 1;
        let Some(decoder) = PlainDecoder::of(tensor.dtype) else {
            self.stats.passthrough += 1;
            return self.bytes(id);
        };
        let wanted = if self.asked.cast_all { self.asked.dtype.dtype() } else { tensor.dtype };
        let stored = Stored {
            decoder: Arc::new(decoder),
            parts: vec![tensor.extent],
            sources: vec![id],
            origin: Origin::Plain,
            dtype: match tensor.dtype {
                _ if self.asked.cast_all => self.asked.dtype,
                Dtype::BF16 => TargetDtype::BF16,
                Dtype::F16 => TargetDtype::F16,
                _ => TargetDtype::F32,
            },
            copied: (wanted == tensor.dtype).then_some(id),
        };
        let (name, output_name) = (tensor.name.clone(), self.rename(&tensor.name)?);
        Ok(Draft { name, output_name, shape: tensor.shape.clone(), content: Content::Values(stored) })
    }

    fn bytes(&mut self, id: TensorId) -> Result<Draft> {
        let tensor = self.catalog.get(id);
        let (name, output_name) = (tensor.name.clone(), self.rename(&tensor.name)?);
        Ok(Draft { name, output_name, shape: tensor.shape.clone(), content: Content::Bytes(id) })
    }

    /// Lets the quantiser decide, and makes every tensor what it shall be.
    fn finish(mut self, drafts: Vec<Draft>) -> Result<Outputs> {
        let mut decisions = self.decide(&drafts)?.into_iter();
        let mut outputs = Outputs {
            planned: Vec::with_capacity(drafts.len()),
            stats: ConvertStats::default(),
            kept: Vec::new(),
            instead: Vec::new(),
            requantised: 0,
            encoded_dtype: None,
            renamed: Vec::new(),
        };
        for draft in drafts {
            let stored = match draft.content {
                Content::Bytes(id) => {
                    outputs.planned.push(self.copy(id, draft.output_name)?);
                    continue;
                }
                Content::Repacked(output, values) => {
                    outputs.planned.push(Planned { outputs: vec![output], work: Work::Decode(values) });
                    continue;
                }
                Content::Values(stored) => stored,
            };
            let encoder = match decisions.next() {
                None => None,
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
                outputs.planned.push(self.copy(id, draft.output_name)?);
                continue;
            }
            if let Some(id) = self.blocks_to_copy(&stored, encoder.as_deref()) {
                self.stats.dequantized -= 1;
                self.stats.passthrough += 1;
                outputs.planned.push(self.copy(id, draft.output_name)?);
                continue;
            }
            let Stored { decoder, parts, sources, origin, dtype, .. } = stored;
            outputs.requantised += usize::from(origin == Origin::Quantised && encoder.is_some());
            let is_block = sources.first().is_some_and(|&id| matches!(self.catalog.get(id).dtype, Dtype::Block(_)));
            let is_exact_block =
                encoder.is_some() && is_block && self.asked.quantise.as_ref().is_some_and(|quantise| quantise.is_exact);
            // Where plain floats are quantised, exactly the stored values; only F64 has values that F32 has not.
            let is_exact = origin == Origin::Plain && !self.asked.cast_all || is_exact_block;
            let read_as = if is_exact { TargetDtype::F32 } else { dtype };
            let decoded = output(draft.output_name, read_as.dtype(), draft.shape)?;
            let elements = decoded.bytes / read_as.byte_size() as u64;
            let values = Values { decoder, parts, sources, dtype: read_as, elements, origin };
            outputs.planned.push(match (encoder, &self.asked.quantise) {
                (Some(encoder), Some(quantise)) => {
                    self.stats.quantized += 1;
                    outputs.encoded_dtype.get_or_insert(dtype);
                    if let Some(first) = encoder.outputs().first().filter(|first| first.name != decoded.name) {
                        outputs.renamed.push([decoded.name.clone(), first.name.clone()]);
                    }
                    for made in encoder.outputs() {
                        self.claim_name(&made.name, &draft.name)?;
                    }
                    let tensor = |made: &EncodedTensor| output(made.name.clone(), made.dtype, made.shape.clone());
                    let made = encoder.outputs().iter().map(tensor).collect::<Result<_>>()?;
                    Planned { outputs: made, work: Work::Encode { values, encoder, checks: quantise.checks } }
                }
                _ => {
                    self.stats.cast += usize::from(origin == Origin::Plain);
                    Planned { outputs: vec![decoded], work: Work::Decode(values) }
                }
            });
        }
        outputs.stats = self.stats;
        Ok(outputs)
    }

    /// The tensor to copy where a weight is stored as the blocks that it shall be, or shall stay what it is.
    fn blocks_to_copy(&self, stored: &Stored, encoder: Option<&dyn TileEncoder>) -> Option<TensorId> {
        let quantise = self.asked.quantise.as_ref()?;
        let &[id] = &stored.sources[..] else { return None };
        let tensor = self.catalog.get(id);
        let is_block = stored.origin == Origin::Quantised && matches!(tensor.dtype, Dtype::Block(_));
        let is_same = match encoder.map(TileEncoder::outputs) {
            None => !self.asked.cast_all && quantise.is_exact,
            Some([made]) => made.dtype == tensor.dtype && made.shape == tensor.shape,
            Some(_) => false,
        };
        (is_block && is_same && quantise.container.holds(tensor.dtype, &tensor.shape)).then_some(id)
    }

    /// What becomes of every tensor that has values, in their order; nothing where nothing is quantised.
    fn decide(&self, drafts: &[Draft]) -> Result<Vec<Decision>> {
        let Some(quantise) = &self.asked.quantise else { return Ok(Vec::new()) };
        let candidate = |draft: &'_ Draft| match &draft.content {
            Content::Bytes(_) | Content::Repacked(..) => None,
            Content::Values(stored) => Some(stored.dtype),
        };
        let tensors: Vec<_> = drafts
            .iter()
            .filter_map(|draft| {
                let dtype = candidate(draft)?;
                let Draft { name, output_name, shape, .. } = draft;
                Some(Candidate { name, output_name, shape, dtype })
            })
            .collect();
        quantise.quantiser.plan(&Task {
            tensors: &tensors,
            options: quantise.options,
            rules: quantise.rules,
            metadata: quantise.metadata,
        })
    }

    fn copy(&self, id: TensorId, name: String) -> Result<Planned> {
        let tensor = self.catalog.get(id);
        let outputs = vec![output(name, tensor.dtype, tensor.shape.clone())?];
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

    /// The new name of a tensor, which nothing else may have.
    fn rename(&mut self, name: &str) -> Result<String> {
        let renamed = self.asked.selection.renamed(name);
        match self.named.insert(renamed.clone(), name.to_owned()) {
            None => Ok(renamed),
            Some(other) if other == name => {
                Err(AnamnesisError::parse(format!("two output tensors are named {}", quoted(name))))
            }
            Some(other) => Err(Request::SameName { name: renamed, tensors: [other, name.to_owned()] }.into()),
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

fn output(name: String, dtype: Dtype, shape: Vec<usize>) -> Result<OutputTensor> {
    let bytes = elements(&shape).and_then(|elements| dtype.byte_len(elements));
    match bytes {
        Some(bytes) => Ok(OutputTensor { name, dtype, shape, bytes }),
        None => {
            Err(AnamnesisError::parse(format!("tensor {} of shape {shape:?} is too large as {dtype}", quoted(&name))))
        }
    }
}
