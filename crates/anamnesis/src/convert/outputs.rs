//! From claimed tensors to the tensors of an output: what is kept, decoded, cast or encoded.

use std::collections::BTreeMap;

use super::quantise::{Keeping, Quantise};
use super::stats::ConvertStats;
use crate::catalog::{Catalog, Dtype, Extent, Selection, StoredTensor, TargetDtype, TensorId, dtype::elements};
use crate::container::{Container, OutputTensor};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::Source;
use crate::pipeline::{Origin, Planned, Values, Work};
use crate::scheme::{Claimed, PlainDecoder, Prepared, Recipe, TensorRole, TileDecoder, Weight};

/// What is asked of the output.
pub(crate) struct Wishes<'a> {
    /// What quantised weights are decoded to.
    pub dtype: TargetDtype,
    /// Whether quantised weights stay as they are stored.
    pub keep_packed: bool,
    /// Whether plain floats become `dtype` too.
    pub cast_all: bool,
    pub selection: &'a Selection,
    pub quantise: Option<Quantise<'a>>,
}

impl<'a> Wishes<'a> {
    /// Decodes what is quantised and keeps everything else.
    pub(crate) fn decode(dtype: TargetDtype, selection: &'a Selection) -> Self {
        Self { dtype, keep_packed: false, cast_all: false, selection, quantise: None }
    }
}

/// The tensors of an output, without their places.
pub(crate) struct Outputs {
    pub planned: Vec<Planned>,
    pub stats: ConvertStats,
    /// Weights that could be quantised and are not, with the reason.
    pub kept: Vec<(String, Keeping)>,
    /// What the first quantised weight was before.
    pub encoded_dtype: Option<TargetDtype>,
}

/// Every output tensor of a claimed catalog. What cannot be decoded is refused here; small companions are read and checked.
pub(crate) fn plan_outputs(
    catalog: &Catalog,
    sources: &[Box<dyn Source>],
    mut claimed: Claimed,
    wishes: &Wishes<'_>,
) -> Result<Outputs> {
    if !claimed.problems.is_empty() {
        return Err(claimed.problems.swap_remove(0));
    }
    let plain = catalog.iter().zip(&claimed.roles).filter(|(_, role)| **role == TensorRole::Passthrough);
    let plain: Vec<_> = plain.map(|((id, tensor), _)| (id, tensor)).collect();
    let names = claimed.weights.iter().map(|weight| weight.name.as_str());
    let names: Vec<&str> = names.chain(plain.iter().map(|(_, tensor)| tensor.name.as_str())).collect();
    wishes.selection.check_used(&names)?;
    if let Some(quantise) = &wishes.quantise {
        quantise.patterns.check_used(&names)?;
    }
    let mut planner = Planner {
        catalog,
        sources,
        wishes,
        outputs: Outputs {
            planned: Vec::with_capacity(catalog.len()),
            stats: ConvertStats::default(),
            kept: Vec::new(),
            encoded_dtype: None,
        },
        named: BTreeMap::new(),
    };
    for weight in claimed.weights {
        if wishes.selection.takes(&weight.name) {
            planner.weight(weight)?;
        }
    }
    for (id, tensor) in plain {
        if wishes.selection.takes(&tensor.name) {
            planner.plain(id, tensor)?;
        }
    }
    if planner.outputs.planned.is_empty() && catalog.len() > 0 {
        return Err(AnamnesisError::parse("the selection leaves no tensor"));
    }
    Ok(planner.outputs)
}

struct Planner<'a> {
    catalog: &'a Catalog,
    sources: &'a [Box<dyn Source>],
    wishes: &'a Wishes<'a>,
    outputs: Outputs,
    /// The new names with the old ones.
    named: BTreeMap<String, String>,
}

impl Planner<'_> {
    fn weight(&mut self, weight: Weight) -> Result<()> {
        self.outputs.stats.tensors += 1;
        if self.wishes.keep_packed {
            self.outputs.stats.passthrough += 1;
            return weight.parts.iter().try_for_each(|&id| self.copy(id));
        }
        let parts: Vec<Extent> = weight.parts.iter().map(|&id| self.catalog.get(id).extent).collect();
        let Prepared { shape, decoder } = match weight.recipe {
            Recipe::Ready(decoder) => Prepared { shape: weight.shape, decoder },
            Recipe::Deferred(prepare) => prepare.prepare(&|part| read_part(self.sources, parts[part]))?,
        };
        self.outputs.stats.dequantized += 1;
        let is_folded = matches!(self.catalog.get(weight.parts[0]).dtype, Dtype::Block(_)) && weight.parts.len() > 1;
        self.outputs.stats.folded_scales += usize::from(is_folded);
        let source = Stored { decoder, parts, sources: weight.parts, origin: Origin::Quantised };
        let is_quantised = self.quantises(&weight.name, &shape);
        self.values(&weight.name, shape, is_quantised, self.wishes.dtype, source)
    }

    fn plain(&mut self, id: TensorId, tensor: &StoredTensor) -> Result<()> {
        self.outputs.stats.tensors += 1;
        let Some(decoder) = PlainDecoder::of(tensor.dtype) else {
            self.outputs.stats.passthrough += 1;
            return self.copy(id);
        };
        let wanted = if self.wishes.cast_all { self.wishes.dtype.dtype() } else { tensor.dtype };
        let is_quantised = self.quantises(&tensor.name, &tensor.shape);
        if wanted == tensor.dtype && !is_quantised {
            self.outputs.stats.passthrough += 1;
            return self.copy(id);
        }
        // Exactly the stored values, where they are not cast; only F64 has values that F32 has not.
        let dtype = if self.wishes.cast_all { self.wishes.dtype } else { TargetDtype::F32 };
        if !is_quantised {
            self.outputs.stats.cast += 1;
        }
        let source =
            Stored { decoder: Box::new(decoder), parts: vec![tensor.extent], sources: vec![id], origin: Origin::Plain };
        self.values(&tensor.name, tensor.shape.clone(), is_quantised, dtype, source)
    }

    /// Whether a weight is to be quantised; one that could be and is not is noted.
    fn quantises(&mut self, name: &str, shape: &[usize]) -> bool {
        let Some(quantise) = &self.wishes.quantise else { return false };
        match quantise.decide(name, shape) {
            Ok(()) => true,
            Err(keeping) => {
                self.outputs.kept.push((name.to_owned(), keeping));
                false
            }
        }
    }

    /// Plans a tensor that goes through its values.
    fn values(
        &mut self,
        name: &str,
        shape: Vec<usize>,
        is_quantised: bool,
        dtype: TargetDtype,
        source: Stored,
    ) -> Result<()> {
        let new_name = self.rename(name)?;
        let elements = output(name.to_owned(), dtype.dtype(), shape.clone())?.bytes / dtype.byte_size() as u64;
        let stored_as = match source.origin {
            Origin::Plain if !self.wishes.cast_all => match self.catalog.get(source.sources[0]).dtype {
                Dtype::BF16 => TargetDtype::BF16,
                Dtype::F16 => TargetDtype::F16,
                _ => TargetDtype::F32,
            },
            _ => dtype,
        };
        let Stored { decoder, parts, sources, origin } = source;
        let values = Values { decoder, parts, sources, dtype, elements, origin };
        let planned = match self.wishes.quantise.as_ref().filter(|_| is_quantised) {
            None => Planned { outputs: vec![output(new_name, dtype.dtype(), shape)?], work: Work::Decode(values) },
            Some(quantise) => {
                self.outputs.stats.quantized += 1;
                self.outputs.encoded_dtype.get_or_insert(stored_as);
                let encoder = quantise.encoder(&new_name, &shape, stored_as)?;
                let tensor =
                    |made: &crate::scheme::EncodedTensor| output(made.name.clone(), made.dtype, made.shape.clone());
                let outputs = encoder.outputs().iter().map(tensor).collect::<Result<_>>()?;
                Planned { outputs, work: Work::Encode { values, encoder, checks: quantise.checks } }
            }
        };
        self.outputs.planned.push(planned);
        Ok(())
    }

    fn copy(&mut self, id: TensorId) -> Result<()> {
        let tensor = self.catalog.get(id);
        let output = output(self.rename(&tensor.name)?, tensor.dtype, tensor.shape.clone())?;
        let work = Work::Copy { extent: tensor.extent, source: id };
        self.outputs.planned.push(Planned { outputs: vec![output], work });
        Ok(())
    }

    /// The new name of a tensor, which nothing else may have.
    fn rename(&mut self, name: &str) -> Result<String> {
        let renamed = self.wishes.selection.renamed(name);
        if let Some(other) = self.named.insert(renamed.clone(), name.to_owned()) {
            if other == name {
                return Err(AnamnesisError::parse(format!("two output tensors are named {}", quoted(name))));
            }
            let (renamed, other, name) = (quoted(&renamed), quoted(&other), quoted(name));
            return Err(AnamnesisError::parse(format!("tensors {other} and {name} would both be named {renamed}")));
        }
        Ok(renamed)
    }
}

/// Values as they are stored.
struct Stored {
    decoder: Box<dyn TileDecoder>,
    parts: Vec<Extent>,
    sources: Vec<TensorId>,
    origin: Origin,
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
    let why = format!("it cannot hold {names}; --exclude leaves tensors out");
    Err(AnamnesisError::unsupported(format, why))
}

/// Longest companion that is read whole, in bytes.
const MAX_PART_BYTES: u64 = 64 << 20;

/// A whole part of a weight.
fn read_part(sources: &[Box<dyn Source>], part: Extent) -> Result<Vec<u8>> {
    if part.bytes > MAX_PART_BYTES {
        let message = format!("a companion of {} bytes, {MAX_PART_BYTES} are allowed", part.bytes);
        return Err(AnamnesisError::limit("MAX_COMPANION_BYTES", message));
    }
    let mut bytes = vec![0; part.bytes as usize];
    sources[part.file as usize].read_at(part.offset, &mut bytes)?;
    Ok(bytes)
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
