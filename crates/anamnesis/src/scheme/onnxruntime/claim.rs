//! Claiming the weights that the operations of a graph read.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hasher;
use std::sync::Arc;

use super::NAME;
use super::names::decoded;
use super::operators::{Axis, Operator};
use super::weights::{Draft, Graph};
use crate::catalog::{Dtype, Operand, Operation, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, TensorRole, Weight};
use crate::scheme::coder::{Coding, Evidence, PlainDecoder, Recipe};

/// Claims every weight of a catalog with a graph; all other tensors are plain data.
pub(super) fn claim(claims: &mut Claims<'_>) {
    let catalog = claims.catalog;
    let Some(operations) = &catalog.operations else { return };
    let graph = Graph { catalog, operations };
    let mut found = Found::default();
    let nested: HashSet<u32> = operations.iter().filter_map(nested_scales).collect();
    for (index, operation) in (0u32..).zip(operations) {
        found.count_uses(&graph, operation);
        if !nested.contains(&index) {
            found.index = index;
            found.read(&graph, operation);
        }
    }
    found.claim(claims);
    claim_widened(claims);
    let rest: Vec<TensorId> = claims.unclaimed().map(|(id, _)| id).collect();
    rest.into_iter().for_each(|id| claims.take(id, TensorRole::Passthrough));
}

/// Claims floats of fewer than eight bits that no operation scales: they are decoded like weights.
fn claim_widened(claims: &mut Claims<'_>) {
    let catalog = claims.catalog;
    for name in &catalog.widened {
        let Some(id) = claims.find_unclaimed(name) else { continue };
        let tensor = catalog.get(id);
        let Some(decoder) = PlainDecoder::of(tensor.dtype) else { continue };
        claims.take(id, TensorRole::Quantized);
        claims.add(Weight {
            name: name.clone(),
            shape: tensor.shape.clone(),
            values: tensor.elements(),
            scheme: QuantScheme::Named(NAME),
            blocks: None,
            coding: Coding { format: "small floats".to_owned(), evidence: Evidence::Type, ..Coding::default() },
            parts: vec![id],
            recipe: Recipe::Ready(Arc::new(decoder)),
        });
    }
}

/// The operation whose result an operation dequantises stored codes with.
fn nested_scales(operation: &Operation) -> Option<u32> {
    match (Operator::of(operation), operation.operand(1)) {
        (Operator::Linear(_), Operand::Result(index)) if operation.stored(0).is_some() => Some(*index),
        _ => None,
    }
}

/// Whether a tensor may hold codes of this width: small integers and floats, more than one.
fn may_be_codes(tensor: &StoredTensor) -> bool {
    let is_narrow = matches!(tensor.dtype, Dtype::U8 | Dtype::I8) || tensor.dtype.is_quantized();
    is_narrow && tensor.elements() > 1
}

/// The weights found so far.
#[derive(Default)]
struct Found {
    weights: BTreeMap<TensorId, FoundWeight>,
    /// The index of the operation that is read.
    index: u32,
    /// How many operations read each tensor.
    uses: HashMap<TensorId, u32>,
    /// The operations that read a tensor as the companion of a found weight.
    companion_uses: HashSet<(TensorId, u32)>,
    /// Companions found by name, which are no operands of the reader.
    named: HashSet<TensorId>,
    /// Codes without known scales, with their readers.
    unscaled: BTreeMap<TensorId, String>,
}

struct FoundWeight {
    draft: Result<Draft>,
    kind: String,
}

impl Found {
    /// Counts the tensors that an operation reads, if all of them are selected.
    fn count_uses(&mut self, graph: &Graph<'_>, operation: &Operation) {
        let stored = || (0..operation.operands.len()).filter(|place| operation.stored(*place).is_some());
        let mut read: Vec<TensorId> = stored().filter_map(|place| Some(graph.tensor(operation, place)?.0)).collect();
        if read.len() < stored().count() {
            return;
        }
        read.sort_unstable();
        read.dedup();
        for id in read {
            *self.uses.entry(id).or_default() += 1;
        }
    }

    /// Finds the weights that an operation reads.
    fn read(&mut self, graph: &Graph<'_>, operation: &Operation) {
        match Operator::of(operation) {
            Operator::Linear(readings) => {
                for reading in readings {
                    if let Some((id, draft)) = graph.linear(operation, reading) {
                        self.add(graph, id, draft, operation);
                    }
                }
            }
            Operator::Packed => self.add_found(graph, graph.packed(operation), operation),
            Operator::Table => self.add_found(graph, graph.table(operation), operation),
            Operator::Gather => self.add_found(graph, graph.gathered(operation), operation),
            Operator::ByName(axis) => self.add_named(graph, operation, axis, true),
            Operator::Plain => self.add_named(graph, operation, Axis::Last, false),
            Operator::Quantise => {}
            Operator::Unknown => self.refuse_codes(graph, operation),
        }
    }

    fn add_found(&mut self, graph: &Graph<'_>, found: Option<(TensorId, Result<Draft>)>, operation: &Operation) {
        if let Some((id, draft)) = found {
            self.add(graph, id, draft, operation);
        }
    }

    /// Adds a weight. Several operations may read it, if they read the same values.
    fn add(&mut self, graph: &Graph<'_>, id: TensorId, draft: Result<Draft>, operation: &Operation) {
        if let Ok(draft) = &draft {
            // The scales of scales belong to the operation before.
            let inner = match operation.operand(1) {
                Operand::Result(inner) => *inner,
                _ => self.index,
            };
            for (part, _) in draft.parts.iter().skip(1).filter(|(part, _)| Some(*part) != draft.borrowed) {
                let readers = [self.index, inner].into_iter().filter(|reader| graph.reads(*reader, *part));
                self.companion_uses.extend(readers.map(|reader| (*part, reader)));
            }
        }
        let kind = operation.kind.to_string();
        match self.weights.get_mut(&id) {
            None => {
                self.weights.insert(id, FoundWeight { draft, kind });
            }
            Some(known) => {
                let is_same = match (&known.draft, &draft) {
                    (Ok(known), Ok(draft)) => same(known, draft),
                    _ => true,
                };
                if !is_same {
                    let why = format!("{} and {kind} read it with different scales", known.kind);
                    known.draft = Err(AnamnesisError::unsupported(NAME, why));
                } else if known.draft.is_ok() {
                    known.draft = draft;
                }
            }
        }
    }

    /// Adds codes whose companions have the names that the tools of ONNX Runtime give.
    fn add_named(&mut self, graph: &Graph<'_>, operation: &Operation, axis: Axis, reads_codes: bool) {
        for place in 0..operation.operands.len() {
            let Some((id, codes)) = graph.tensor(operation, place).filter(|(_, tensor)| may_be_codes(tensor)) else {
                continue;
            };
            let bits = operation.stored_bits(place).unwrap_or(8);
            let base = codes.name.strip_suffix(CODES);
            let find = |suffix: &str| base.and_then(|base| graph.catalog.find(&format!("{base}{suffix}")));
            let Some(scale) = find(SCALE) else {
                if reads_codes && place < MULTIPLIED {
                    self.unscaled.insert(id, operation.kind.to_string());
                }
                continue;
            };
            let zero = find(ZERO);
            let draft = graph.by_name((id, codes, bits), scale, zero, axis);
            // Another reader may give the axis that this one does not have.
            if draft.is_err() && (!reads_codes || self.weights.contains_key(&id)) {
                continue;
            }
            self.named.extend([scale].into_iter().chain(zero));
            if self.weights.get(&id).is_none_or(|known| known.draft.is_ok()) {
                self.add(graph, id, draft, operation);
            }
        }
    }

    /// Refuses the codes that an operation with unknown arithmetic reads.
    fn refuse_codes(&mut self, graph: &Graph<'_>, operation: &Operation) {
        for place in 0..operation.operands.len() {
            if let Some((id, _)) = graph.tensor(operation, place).filter(|(_, tensor)| may_be_codes(tensor)) {
                let why = format!("the operator {} reads its codes, and how is not known", quoted(&operation.kind));
                let draft = Err(AnamnesisError::unsupported(NAME, why));
                self.weights.insert(id, FoundWeight { draft, kind: operation.kind.to_string() });
            }
        }
    }

    /// Claims the weights, then those of their companions that nothing else reads.
    fn claim(self, claims: &mut Claims<'_>) {
        let catalog = claims.catalog;
        let mut companions: BTreeMap<TensorId, TensorRole> = BTreeMap::new();
        let mut explained: HashMap<TensorId, u32> = HashMap::new();
        for (id, _) in &self.companion_uses {
            *explained.entry(*id).or_default() += 1;
        }
        let is_alone = |id: &TensorId| {
            self.named.contains(id) || self.uses.get(id).is_none_or(|uses| explained.get(id) >= Some(uses))
        };
        let drafts = self.weights.values().filter_map(|found| found.draft.as_ref().ok());
        for (id, role) in drafts.flat_map(|draft| draft.parts.iter().skip(1)) {
            if is_alone(id) && !self.weights.contains_key(id) {
                companions.insert(*id, *role);
            }
        }
        let mut names: HashSet<String> = HashSet::new();
        for id in self.unscaled.keys().filter(|id| !self.weights.contains_key(id)) {
            let (name, kind) = (&catalog.get(*id).name, &self.unscaled[id]);
            claims.note(format!("{} are codes that {kind} reads; their scales are not known", quoted(name)));
        }
        for (id, FoundWeight { draft, kind }) in self.weights {
            let codes = &catalog.get(id).name;
            let draft = match draft {
                Ok(draft) => draft,
                Err(error) => {
                    claims.take_refused(id, NAME);
                    claims.refuse(error.in_tensor(codes));
                    continue;
                }
            };
            let short = decoded(codes);
            let is_free =
                |name: &str| catalog.find(name).is_none_or(|other| other == id || companions.contains_key(&other));
            let name = if is_free(&short) && names.insert(short.clone()) { short } else { codes.clone() };
            names.insert(name.clone());
            claims.take(id, TensorRole::Quantized);
            claims.add(weight(name, draft, kind));
        }
        companions.into_iter().for_each(|(id, role)| claims.take(id, role));
    }
}

/// The names of the tools of ONNX Runtime.
const CODES: &str = "_quantized";
const SCALE: &str = "_scale";
const ZERO: &str = "_zero_point";
/// The operands of an integer multiplication; the others are zero points.
const MULTIPLIED: usize = 2;

/// Whether two drafts decode the same values.
fn same(a: &Draft, b: &Draft) -> bool {
    let identity = |draft: &Draft| {
        let mut hasher = DefaultHasher::new();
        draft.decoder.identify(&mut hasher);
        hasher.finish()
    };
    a.parts == b.parts && a.shape == b.shape && identity(a) == identity(b)
}

fn weight(name: String, draft: Draft, kind: String) -> Weight {
    let values = crate::catalog::dtype::elements(&draft.shape).unwrap_or(u64::MAX);
    let blocks = draft.group.map(|size| Blocks { bits: draft.bits, size, nested: draft.is_nested });
    let format = kind.rsplit('.').next().unwrap_or_default().to_owned();
    let coding = Coding {
        format,
        bits: Some(draft.bits),
        group_size: draft.group,
        block_shape: None,
        symmetric: Some(draft.is_symmetric),
        evidence: Evidence::Operation(kind),
    };
    Weight {
        name,
        shape: draft.shape,
        values,
        scheme: QuantScheme::Named(NAME),
        blocks,
        coding,
        parts: draft.parts.into_iter().map(|(id, _)| id).collect(),
        recipe: Recipe::Ready(draft.decoder),
    }
}
