//! Claiming EXL2 weights by their codes, `X.q_weight`.

use std::sync::Arc;

use super::decoder::Packed;
use super::groups::{RUN, order, runs};
use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{About, Claims, Confidence, ModelSizes, PartName, QuantScheme, Scheme, TensorRole, Weight};
use crate::scheme::coder::{Coding, Cropped, Inner, Prepare, Prepared, Recipe, TileDecoder};

/// The EXL2 scheme.
pub(crate) struct Exl2;

const NAME: &str = "EXL2";
const CODES: &str = ".q_weight";
/// The companions that are read, in the order of a weight's parts, and their types.
const COMPANIONS: [(&str, &[Dtype]); 4] = [
    (".q_scale", &[Dtype::I32, Dtype::U32]),
    (".q_scale_max", &[Dtype::F16]),
    (".q_groups", &[Dtype::I16, Dtype::U16]),
    (".q_invperm", &[Dtype::I32, Dtype::U32]),
];
/// The types of weights that are not quantised.
const FLOATS: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16];
/// The companion that loaders compute themselves.
const UNREAD: &str = ".q_perm";
/// The suffixes of tensors that are padded like their weights.
const PADDED: [&str; 2] = [".q_scale_max", ".bias"];
/// The most inputs: rows are numbered by 16 bits.
const MOST_INPUTS: u64 = 1 << 16;

impl Scheme for Exl2 {
    fn about(&self) -> About {
        About::Decoded(NAME, "2, 3, 4, 5, 6 and 8 bits in any mix, in any order of inputs")
    }

    fn part_names(&self) -> Vec<PartName> {
        let unique = [".q_scale_max", ".q_groups", ".q_invperm"];
        let unique = unique.map(|suffix| PartName::new(suffix, CODES, Confidence::Certain));
        let common = [CODES, ".q_scale"].map(|suffix| PartName::new(suffix, CODES, Confidence::IfPacked));
        let unread = PartName::new(UNREAD, CODES, Confidence::IfConfigured);
        unique.into_iter().chain(common).chain([unread]).collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        // A parameter of an unquantised layer may have the name too.
        let has_companion = |module: &str| {
            COMPANIONS.iter().any(|(suffix, _)| claims.catalog.find(&format!("{module}{suffix}")).is_some())
        };
        let codes = claims.unclaimed().filter(|(_, tensor)| {
            let module = tensor.name.strip_suffix(CODES);
            module.is_some_and(|module| !FLOATS.contains(&tensor.dtype) || has_companion(module))
        });
        let codes: Vec<_> = codes.map(|(id, _)| id).collect();
        if codes.is_empty() {
            return;
        }
        let sizes = ModelSizes::of(claims, RUN, &PADDED);
        for id in codes {
            claim_weight(claims, id, &sizes);
        }
    }
}

fn claim_weight(claims: &mut Claims<'_>, codes: TensorId, sizes: &ModelSizes<'_>) {
    let name = &claims.catalog.get(codes).name;
    let module = name.strip_suffix(CODES).unwrap_or(name);
    claims.take(codes, TensorRole::Quantized);
    let mut companion = |suffix: &str, role| claims.take_companion(&format!("{module}{suffix}"), role);
    let found = COMPANIONS.map(|(suffix, _)| match suffix {
        ".q_scale" | ".q_scale_max" => companion(suffix, TensorRole::Scale),
        _ => companion(suffix, TensorRole::GroupIndex),
    });
    let unread = companion(UNREAD, TensorRole::GroupIndex);
    match weight(claims, (module, codes), found, unread, sizes) {
        Ok(weight) => claims.add(weight),
        Err(problem) => claims.refuse(problem.in_tensor(name)),
    }
}

fn weight(
    claims: &Claims<'_>,
    (module, codes): (&str, TensorId),
    found: [Option<TensorId>; COMPANIONS.len()],
    unread: Option<TensorId>,
    sizes: &ModelSizes<'_>,
) -> Result<Weight> {
    let catalog = claims.catalog;
    let stored = catalog.get(codes);
    claims.check_method(NAME, "exl2")?;
    if !matches!(stored.dtype, Dtype::I32 | Dtype::U32) {
        return Err(AnamnesisError::parse(format!("it is {}; I32 is needed", stored.dtype)));
    }
    let mut ids = vec![codes];
    for ((suffix, dtypes), id) in COMPANIONS.iter().zip(found) {
        let name = format!("{module}{suffix}");
        let id = id.ok_or_else(|| claims.missing(&name))?;
        let part = catalog.get(id);
        if !dtypes.contains(&part.dtype) {
            let needed = dtypes.first().map_or("", |dtype| dtype.name());
            return Err(AnamnesisError::parse(format!("{} is {}; {needed} is needed", quoted(&name), part.dtype)));
        }
        ids.push(id);
    }
    let of = |index: usize| ids.get(index).map_or(stored, |id| catalog.get(*id));
    let [scales, largest, groups, order] = [1, 2, 3, 4].map(of);
    let misfit = |part: &StoredTensor| {
        let (name, shape, codes) = (quoted(&part.name), &part.shape, &stored.shape);
        AnamnesisError::parse(format!("{name} has shape {shape:?}, which does not fit words of shape {codes:?}"))
    };
    let &[words, outputs] = &stored.shape[..] else { return Err(misfit(stored)) };
    let &[inputs] = &order.shape[..] else { return Err(misfit(order)) };
    let &[count] = &largest.shape[..] else { return Err(misfit(largest)) };
    let [words, outputs, inputs, count] = [words, outputs, inputs, count].map(|size| size as u64);
    let is_shape =
        |part: &StoredTensor, shape: &[u64]| part.shape.iter().map(|&dim| dim as u64).eq(shape.iter().copied());
    if words == 0 || outputs == 0 || !outputs.is_multiple_of(RUN) {
        return Err(misfit(stored));
    }
    if inputs == 0 || inputs > MOST_INPUTS || !inputs.is_multiple_of(RUN) {
        return Err(misfit(order));
    }
    if count == 0 || !is_shape(scales, &[count, outputs / 8]) {
        return Err(misfit(scales));
    }
    if !is_shape(groups, &[2 * count]) {
        return Err(misfit(groups));
    }
    if let Some(unread) = unread.map(|id| catalog.get(id)).filter(|unread| unread.shape != order.shape) {
        return Err(misfit(unread));
    }
    let name = format!("{module}.weight");
    claims.check_output(&name)?;
    let kept = sizes.original(outputs)?.size;
    // All stored values must be countable too.
    inputs.checked_mul(outputs).ok_or_else(|| misfit(stored))?;
    let values = inputs * kept;
    Ok(Weight {
        name,
        shape: vec![kept as usize, inputs as usize],
        values,
        scheme: QuantScheme::Named(NAME),
        blocks: None,
        coding: Coding {
            format: "exl2".to_owned(),
            symmetric: Some(true),
            evidence: claims.evidence(&["quant_method"]),
            ..Coding::default()
        },
        parts: ids,
        recipe: Recipe::Deferred(Arc::new(Groups { words, outputs, kept, inputs, count })),
    })
}

/// A weight whose groups and order are read while planning.
struct Groups {
    words: u64,
    outputs: u64,
    /// The outputs of the model; the others are padding.
    kept: u64,
    inputs: u64,
    count: u64,
}

/// The part indices of `q_groups` and `q_invperm`.
const GROUPS: usize = 3;
const ORDER: usize = 4;

impl Prepare for Groups {
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared> {
        let runs = runs(&read(GROUPS)?, self.inputs, self.words)?;
        let order = order(&read(ORDER)?)?;
        let decoder = Packed {
            outputs: self.outputs,
            words: self.words,
            groups: self.count,
            runs: runs.into(),
            order: order.into(),
        };
        let shape = vec![self.kept as usize, self.inputs as usize];
        let inner = Inner { decoder: Arc::new(decoder), elements: self.outputs * self.inputs, first_part: 0 };
        let decoder: Arc<dyn TileDecoder> = match self.kept == self.outputs {
            true => inner.decoder,
            false => Arc::new(Cropped { inner, cols: self.inputs, stored: self.inputs }),
        };
        Ok(Prepared { shape, decoder, coding: None })
    }

    fn describe(&self) -> String {
        NAME.to_owned()
    }
}
