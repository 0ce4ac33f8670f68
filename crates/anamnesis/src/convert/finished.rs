//! Turning drafts and the quantiser's decisions into planned work and its statistics.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::draft::{Content, Draft, DraftValues};
use super::output_names::OutputNames;
use super::output_tensor::{encoded, output};
use super::quantise::Quantise;
use super::repacked::{Input, Repacked, Repacking};
use super::shared_scales::{SharedScaleSets, sets_with_unequal_scales};
use super::stats::{ConvertStats, Fate};
use crate::catalog::{Catalog, Dtype, TargetDtype, TensorId};
use crate::error::Result;
use crate::pipeline::{Checks, Origin, Planned, Values, Work};
use crate::scheme::{Decision, InFieldOrder, Keeping, Override, Packing, TileDecoder, TileEncoder, Transposed};

/// The output tensors of a plan, without their offsets.
#[derive(Default)]
pub(crate) struct Outputs {
    pub planned: Vec<Planned>,
    pub stats: ConvertStats,
    /// Weights that could be quantised but stay unquantised, under their names in the output.
    pub kept: Vec<Kept>,
    /// Weights with a fallback type, because their row length is not a multiple of the block length of
    /// the intended type.
    pub fallbacks: Vec<FallbackType>,
    /// Number of quantised weights that are decoded and quantised again.
    pub requantised: usize,
    /// Quantised weights that keep their codes and scales, by the names of their codes.
    pub repacked: Vec<String>,
    /// The dtype of the first quantised weight before it was quantised.
    pub encoded_dtype: Option<TargetDtype>,
    /// Weights whose encoding differs from the target's: the name of their first tensor, and the encoding.
    pub other_encodings: Vec<(String, &'static str)>,
    /// Quantised weights that had to be renamed (input name, output name), since loaders find companions by the
    /// name of the weight.
    pub renamed: Vec<[String; 2]>,
}

/// A weight that could be quantised but stays unquantised, and the reason.
pub(crate) struct Kept {
    pub name: String,
    pub output_name: String,
    pub why: Keeping,
}

/// A weight with a fallback type.
pub(crate) struct FallbackType {
    pub name: String,
    pub wanted: Dtype,
    pub made: Dtype,
}

/// Turns drafts into planned work.
pub(super) struct Finisher<'a> {
    catalog: &'a Catalog,
    quantise: Option<&'a Quantise<'a>>,
    names: OutputNames,
    /// Sets of weights with a shared global scale that cannot keep their codes.
    unequal_sets: BTreeSet<String>,
    shared_scales: SharedScaleSets,
    outputs: Outputs,
}

impl<'a> Finisher<'a> {
    pub(super) fn new(
        catalog: &'a Catalog,
        quantise: Option<&'a Quantise<'a>>,
        names: OutputNames,
        drafts: &[Draft],
        decisions: &[(Decision, bool)],
    ) -> Result<Self> {
        let unequal_sets = match quantise {
            Some(quantise) if quantise.keeps_blocks => {
                sets_with_unequal_scales(drafts, decisions, catalog, quantise.sources)?
            }
            _ => BTreeSet::new(),
        };
        Ok(Self {
            catalog,
            quantise,
            names,
            unequal_sets,
            shared_scales: SharedScaleSets::default(),
            outputs: Outputs::default(),
        })
    }

    /// Plans all outputs. `decisions` has one entry per draft with values, in order.
    pub(super) fn finish(
        mut self,
        drafts: Vec<Draft>,
        decisions: Vec<(Decision, bool)>,
        left_out: usize,
    ) -> Result<Outputs> {
        let mut decisions = decisions.into_iter();
        let mut fates = Vec::with_capacity(drafts.len());
        self.outputs.planned.reserve_exact(drafts.len());
        for Draft { name, output_name, shape, content, is_companion } in drafts {
            let fate = match content {
                Content::Bytes(id) => self.copy(id, output_name, shape)?,
                Content::Repacked(output, values) => {
                    self.outputs.planned.push(Planned { outputs: vec![output], work: Work::Decode(values) });
                    Fate::Repacked
                }
                Content::Encoded(values, encoder, checks) => {
                    let was_quantised = values.origin == Origin::Quantised;
                    self.encode(output_name, values, encoder, checks)?;
                    Fate::Quantised { was_quantised, is_folded: false, could_repack: false }
                }
                Content::Values(stored) => self.values([name, output_name], shape, stored, decisions.next())?,
            };
            fates.extend((!is_companion).then_some(fate));
        }
        let mut outputs = self.outputs;
        self.shared_scales.link(&mut outputs.planned);
        outputs.stats = ConvertStats { by_rules: outputs.other_encodings.len(), left_out, ..ConvertStats::of(&fates) };
        outputs.requantised = fates.iter().filter(|fate| fate.is_requantised()).count();
        Ok(outputs)
    }

    /// Plans a tensor with values: copied, repacked, decoded or encoded.
    fn values(
        &mut self,
        [name, output_name]: [String; 2],
        shape: Vec<usize>,
        stored: DraftValues,
        decided: Option<(Decision, bool)>,
    ) -> Result<Fate> {
        let mut set = None;
        let (decision, is_transposed) =
            decided.map_or((None, false), |(decision, is_transposed)| (Some(decision), is_transposed));
        let encoder = match decision {
            None => None,
            Some(Decision::EncodeShared(encoder, name)) => {
                set = Some(name);
                Some(encoder)
            }
            Some(Decision::Encode(encoder)) => Some(encoder),
            Some(Decision::EncodeInstead(encoder, wanted)) => {
                if let Some(made) = encoder.outputs().first() {
                    let (name, wanted, made) = (name.clone(), Dtype::Block(wanted), made.dtype);
                    self.outputs.fallbacks.push(FallbackType { name, wanted, made });
                }
                Some(encoder)
            }
            Some(Decision::Keep(why)) => {
                let (name, output_name) = (name.clone(), output_name.clone());
                self.outputs.kept.push(Kept { name, output_name, why });
                None
            }
        };
        let kept = stored.copied.filter(|_| encoder.is_none());
        if let Some(id) = kept.or(stored.block.filter(|&id| self.copies_blocks(id, encoder.as_deref()))) {
            return self.copy(id, output_name, shape);
        }
        let (Some(encoder), Some(quantise)) = (encoder, self.quantise) else {
            return self.decode(output_name, shape, stored);
        };
        self.note_encoded(&name, &output_name, &*encoder)?;
        self.outputs.encoded_dtype.get_or_insert(stored.dtype);
        let must_encode = is_transposed || set.as_ref().is_some_and(|set| self.unequal_sets.contains(set));
        let mut could_repack = false;
        if !must_encode {
            match self.repacked(quantise, &stored, &shape, &*encoder)? {
                Repacked::Outputs(planned) => {
                    self.outputs.repacked.extend(encoder.outputs().first().map(|codes| codes.name.clone()));
                    self.outputs.planned.extend(planned);
                    return Ok(Fate::Repacked);
                }
                Repacked::Nearly => could_repack = true,
                Repacked::Not => {}
            }
        }
        let DraftValues { decoder, parts, sources, origin, dtype, encoded_from, is_folded, .. } = stored;
        let decoded = output(output_name, encoded_from.dtype(), shape)?;
        let elements = decoded.bytes / encoded_from.byte_size() as u64;
        let decoder = match (is_transposed, &decoded.shape[..]) {
            (true, &[rows, cols]) => self.transposed(decoder, [rows, cols], origin, &sources),
            _ => decoder,
        };
        let decoder = match encoder.field_order() {
            Some(order) => Arc::new(InFieldOrder::new(decoder, order)),
            None => decoder,
        };
        let values = Values { decoder, parts, sources, dtype: encoded_from, elements, origin };
        if let Some(set) = set {
            self.shared_scales.add(set, &self.outputs.planned);
        }
        // llama.cpp decodes blocks to F32; the loaders of other schemes decode to the dtype that the weight had.
        let loaded_as = match quantise.encoding.packing {
            Packing::Blocks => TargetDtype::F32,
            Packing::Companions => dtype,
        };
        self.encode(decoded.name, values, encoder, Checks { loaded_as, ..quantise.checks })?;
        Ok(Fate::Quantised { was_quantised: origin == Origin::Quantised, is_folded, could_repack })
    }

    /// Plans a copy of a stored tensor under another name, and in a shape with the same number of elements.
    fn copy(&mut self, id: TensorId, name: String, shape: Vec<usize>) -> Result<Fate> {
        let tensor = self.catalog.get(id);
        let outputs = vec![output(name, tensor.dtype, shape)?];
        self.outputs.planned.push(Planned { outputs, work: Work::Copy { extent: tensor.extent, source: id } });
        Ok(Fate::Kept)
    }

    fn decode(&mut self, name: String, shape: Vec<usize>, stored: DraftValues) -> Result<Fate> {
        let DraftValues { decoder, parts, sources, origin, dtype, is_cast, is_folded, .. } = stored;
        let decoded = output(name, dtype.dtype(), shape)?;
        let elements = decoded.bytes / dtype.byte_size() as u64;
        let values = Values { decoder, parts, sources, dtype, elements, origin };
        self.outputs.planned.push(Planned { outputs: vec![decoded], work: Work::Decode(values) });
        Ok(match origin {
            Origin::Plain if is_cast => Fate::Cast,
            Origin::Plain => Fate::Kept,
            Origin::Quantised | Origin::Repacked => Fate::Decoded { is_folded },
        })
    }

    fn encode(&mut self, name: String, values: Values, encoder: Box<dyn TileEncoder>, checks: Checks) -> Result<()> {
        let outputs = encoded(&*encoder)?;
        let work = Work::Encode { name, values, encoder, checks, shared: None };
        self.outputs.planned.push(Planned { outputs, work });
        Ok(())
    }

    /// Reserves the names of an encoder's outputs, and records weights that were renamed or have another encoding
    /// than the target's.
    fn note_encoded(&mut self, name: &str, output_name: &str, encoder: &dyn TileEncoder) -> Result<()> {
        let (Some(quantise), Some(first)) = (self.quantise, encoder.outputs().first()) else { return Ok(()) };
        match quantise.rules.override_for(name, output_name) {
            Some(Override::Encode(other)) if other.name() != quantise.encoding.name() => {
                self.outputs.other_encodings.push((first.name.clone(), other.name()));
            }
            _ => {}
        }
        if first.name != output_name {
            self.outputs.renamed.push([output_name.to_owned(), first.name.clone()]);
        }
        encoder.outputs().iter().try_for_each(|made| self.names.claim(&made.name, name))
    }

    /// Whether a stored tensor of blocks is copied: it has the type that the quantiser chose, or the quantiser does
    /// not apply to it.
    fn copies_blocks(&self, id: TensorId, encoder: Option<&dyn TileEncoder>) -> bool {
        let tensor = self.catalog.get(id);
        match encoder.map(TileEncoder::outputs) {
            None => self.quantise.is_some_and(|quantise| quantise.keeps_blocks),
            Some([made]) => made.dtype == tensor.dtype && made.shape == tensor.shape,
            Some(_) => false,
        }
    }

    /// Plans a weight that keeps its codes and scales, unless the caller set a dtype to decode to.
    fn repacked(
        &self,
        quantise: &Quantise<'_>,
        stored: &DraftValues,
        shape: &[usize],
        encoder: &dyn TileEncoder,
    ) -> Result<Repacked> {
        if !quantise.keeps_blocks || stored.origin != Origin::Quantised {
            return Ok(Repacked::Not);
        }
        let Quantise { sources: read, run, options, .. } = quantise;
        let DraftValues { decoder, parts, sources, .. } = stored;
        let repacking = Repacking { catalog: self.catalog, sources: read, run, same_codes: options.groups.same_codes };
        repacking.repacked(&Input { decoder: &**decoder, parts, sources, shape }, encoder)
    }

    /// Plans an encoded weight whose rows and columns are exchanged first.
    fn transposed(
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
}
