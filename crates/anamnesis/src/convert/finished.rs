//! From gathered output tensors and what was decided about them to planned work, and the statistics of that.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::draft::{Content, Draft, Stored};
use super::drafts::{Names, Quantise};
use super::joined::{Joined, sets_apart};
use super::output_tensor::{encoded, output};
use super::repacked::{Input, Repacked, Repacking};
use super::stats::{ConvertStats, Fate};
use crate::catalog::{Catalog, Dtype, TargetDtype, TensorId};
use crate::error::Result;
use crate::pipeline::{Checks, Origin, Planned, Values, Work};
use crate::scheme::{Decision, InFieldOrder, Keeping, Override, Packing, TileDecoder, TileEncoder, Transposed};

/// The tensors of an output, without their places.
#[derive(Default)]
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

/// Makes drafts planned work.
pub(super) struct Finisher<'a> {
    catalog: &'a Catalog,
    quantise: Option<&'a Quantise<'a>>,
    names: Names,
    /// The sets of weights that cannot keep their codes.
    apart: BTreeSet<String>,
    joined: Joined,
    outputs: Outputs,
}

impl<'a> Finisher<'a> {
    pub(super) fn new(
        catalog: &'a Catalog,
        quantise: Option<&'a Quantise<'a>>,
        names: Names,
        drafts: &[Draft],
        decisions: &[(Decision, bool)],
    ) -> Result<Self> {
        let apart = match quantise {
            Some(quantise) if quantise.keeps_blocks => sets_apart(drafts, decisions, catalog, quantise.sources)?,
            _ => BTreeSet::new(),
        };
        Ok(Self { catalog, quantise, names, apart, joined: Joined::default(), outputs: Outputs::default() })
    }

    /// All outputs. Decisions are those about the drafts that have values, in their order.
    pub(super) fn finish(
        mut self,
        drafts: Vec<Draft>,
        decisions: Vec<(Decision, bool)>,
        left_out: usize,
    ) -> Result<Outputs> {
        let mut decisions = decisions.into_iter();
        let mut fates = Vec::with_capacity(drafts.len());
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
        self.joined.join(&mut outputs.planned);
        outputs.stats = ConvertStats { by_rules: outputs.others.len(), left_out, ..ConvertStats::of(&fates) };
        outputs.requantised = fates.iter().filter(|fate| fate.loses_twice()).count();
        Ok(outputs)
    }

    /// A tensor that has values: copied, repacked, decoded or encoded.
    fn values(
        &mut self,
        [name, output_name]: [String; 2],
        shape: Vec<usize>,
        stored: Stored,
        decided: Option<(Decision, bool)>,
    ) -> Result<Fate> {
        let mut set = None;
        let (decision, is_transposed) = decided.map_or((None, false), |(made, turned)| (Some(made), turned));
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
                    self.outputs.instead.push(Instead { name, wanted, made });
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
        if let Some(id) = kept.or(stored.block.filter(|&id| self.stays(id, encoder.as_deref()))) {
            return self.copy(id, output_name, shape);
        }
        let (Some(encoder), Some(quantise)) = (encoder, self.quantise) else {
            return self.decode(output_name, shape, stored);
        };
        self.note_encoded(&name, &output_name, &*encoder)?;
        self.outputs.encoded_dtype.get_or_insert(stored.dtype);
        let stays_apart = is_transposed || set.as_ref().is_some_and(|set| self.apart.contains(set));
        let mut could_repack = false;
        if !stays_apart {
            match self.repacked(quantise, &stored, &shape, &*encoder)? {
                Repacked::As(planned) => {
                    self.outputs.repacked.extend(encoder.outputs().first().map(|codes| codes.name.clone()));
                    self.outputs.planned.extend(planned);
                    return Ok(Fate::Repacked);
                }
                Repacked::Nearly => could_repack = true,
                Repacked::Not => {}
            }
        }
        let Stored { decoder, parts, sources, origin, dtype, encoded_from, is_folded, .. } = stored;
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
            self.joined.add(set, &self.outputs.planned);
        }
        // Blocks are decoded to F32 while a model runs, other weights to what they were.
        let loaded_as = match quantise.encoding.packing {
            Packing::Blocks => TargetDtype::F32,
            Packing::Companions => dtype,
        };
        self.encode(decoded.name, values, encoder, Checks { loaded_as, ..quantise.checks })?;
        Ok(Fate::Quantised { was_quantised: origin == Origin::Quantised, is_folded, could_repack })
    }

    /// The bytes of a tensor under a name and in a shape of the same number of elements.
    fn copy(&mut self, id: TensorId, name: String, shape: Vec<usize>) -> Result<Fate> {
        let tensor = self.catalog.get(id);
        let outputs = vec![output(name, tensor.dtype, shape)?];
        self.outputs.planned.push(Planned { outputs, work: Work::Copy { extent: tensor.extent, source: id } });
        Ok(Fate::Kept)
    }

    fn decode(&mut self, name: String, shape: Vec<usize>, stored: Stored) -> Result<Fate> {
        let Stored { decoder, parts, sources, origin, dtype, is_cast, is_folded, .. } = stored;
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

    /// Takes the names of what an encoder makes, and remembers where they, or the encoding, are not what one would expect.
    fn note_encoded(&mut self, name: &str, output_name: &str, encoder: &dyn TileEncoder) -> Result<()> {
        let (Some(quantise), Some(first)) = (self.quantise, encoder.outputs().first()) else { return Ok(()) };
        match quantise.rules.wish(name, output_name) {
            Some(Override::Encode(other)) if other.name() != quantise.encoding.name() => {
                self.outputs.others.push((first.name.clone(), other.name()));
            }
            _ => {}
        }
        if first.name != output_name {
            self.outputs.renamed.push([output_name.to_owned(), first.name.clone()]);
        }
        encoder.outputs().iter().try_for_each(|made| self.names.claim(&made.name, name))
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
