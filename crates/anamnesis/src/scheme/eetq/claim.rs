//! Claiming EETQ weights by their scales, `X.weight_scales`.

use std::sync::Arc;

use super::order::Interleaved;
use crate::catalog::{Dtype, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{About, Blocks, Claims, Confidence, PartName, QuantScheme, Scheme, TensorRole, Weight};
use crate::scheme::coder::{Arrangement, Coding, Grid, PartOrigin, Recipe, RestoredParts, ScaleType, TileDecoder};
use crate::scheme::grouped::{Arithmetic, Grouped, Layout, Meaning, Offsets, Scales};

/// The EETQ scheme.
pub(crate) struct Eetq;

const NAME: &str = "EETQ";
pub(super) const METHOD: &str = "eetq";
const SCALES: &str = ".weight_scales";
/// The names of the codes in checkpoints of transformers, and in EETQ's own.
const CODES: [&str; 2] = [".weight", ".qweight"];
/// Inputs and outputs are multiples of this.
pub(super) const TILE: u64 = 64;

impl Scheme for Eetq {
    fn about(&self) -> About {
        About::Decoded(NAME, "8 bits, in the order for compute capability 7.5 to 8.9")
    }

    fn part_names(&self) -> Vec<PartName> {
        vec![PartName::new(SCALES, ".weight", Confidence::Certain)]
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let is_other = claims.config.method().is_some_and(|method| !method.eq_ignore_ascii_case(METHOD));
        if is_other {
            return;
        }
        let codes = claims.unclaimed().filter(|(_, tensor)| {
            let module = CODES.iter().find_map(|suffix| tensor.name.strip_suffix(suffix));
            let scales = |module: &str| {
                let name = format!("{module}{SCALES}");
                claims.find_unclaimed(&name).is_some() || claims.elsewhere(&name).is_some()
            };
            tensor.dtype == Dtype::I8 && module.is_some_and(scales)
        });
        let codes: Vec<_> = codes.map(|(id, _)| id).collect();
        for id in codes {
            claim_weight(claims, id);
        }
    }
}

fn claim_weight(claims: &mut Claims<'_>, codes: TensorId) {
    let name = &claims.catalog.get(codes).name;
    let module = CODES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    claims.take(codes, TensorRole::Quantized);
    let scales = claims.take_companion(&format!("{module}{SCALES}"), TensorRole::Scale);
    match weight(claims, module, codes, scales) {
        Ok(weight) => claims.add(weight),
        Err(problem) => claims.refuse(problem.in_tensor(name)),
    }
}

fn weight(claims: &Claims<'_>, module: &str, codes: TensorId, scales: Option<TensorId>) -> Result<Weight> {
    let catalog = claims.catalog;
    let config = claims.config.module(module);
    if let Some(left) = config.exclusion() {
        return Err(AnamnesisError::parse(format!("it is packed in bytes, but {left}")));
    }
    if let Some(kind) = config.args().text(&["weights"])?.filter(|kind| *kind != "int8") {
        let detail = format!("the configuration says weights are {}; int8 is known", quoted(kind));
        return Err(AnamnesisError::unsupported(NAME, detail));
    }
    let name = format!("{module}{SCALES}");
    let scale_id = scales.ok_or_else(|| claims.missing(&name))?;
    let (codes_tensor, scales) = (catalog.get(codes), catalog.get(scale_id));
    let misfit = || {
        let (name, dtype, shape) = (quoted(&scales.name), scales.dtype, &scales.shape);
        let codes = &codes_tensor.shape;
        AnamnesisError::parse(format!("codes of shape {codes:?} and {name}, {dtype} {shape:?}, do not go together"))
    };
    let (&[inputs, outputs], &[count]) = (&codes_tensor.shape[..], &scales.shape[..]) else { return Err(misfit()) };
    let [inputs, outputs] = [inputs, outputs].map(|size| size as u64);
    let is_whole = |size: u64| size > 0 && size.is_multiple_of(TILE);
    if scales.dtype != Dtype::F16 || count as u64 != outputs || !is_whole(inputs) || !is_whole(outputs) {
        return Err(misfit());
    }
    let output = format!("{module}.weight");
    if output != codes_tensor.name {
        claims.check_output(&output)?;
    }
    Ok(Weight {
        name: output,
        shape: vec![outputs as usize, inputs as usize],
        values: inputs.checked_mul(outputs).ok_or_else(misfit)?,
        scheme: QuantScheme::Named(NAME),
        blocks: Some(Blocks { bits: 8, size: inputs, nested: false }),
        coding: Coding {
            format: METHOD.to_owned(),
            bits: Some(8),
            symmetric: Some(true),
            evidence: claims.evidence(&["quant_method"]),
            ..Coding::default()
        },
        parts: vec![codes, scale_id],
        recipe: Recipe::Ready(decoder(outputs, inputs)),
    })
}

/// The decoder of codes in EETQ's order.
pub(super) fn decoder(outputs: u64, inputs: u64) -> Arc<dyn TileDecoder> {
    let grouped = Grouped {
        layout: Layout::bytes(8, inputs),
        meaning: Meaning::Signed,
        grid: Grid::new(outputs, inputs, 1, inputs, Arrangement::Row),
        scales: Scales { kind: ScaleType::F16, global: None },
        offsets: Offsets::None,
        is_indexed: false,
        arithmetic: Arithmetic::default(),
        description: "EETQ 8-bit, one scale per output".to_owned(),
    };
    let parts = vec![PartOrigin::Restored(Arc::new(Interleaved { inputs })), PartOrigin::Stored(1)];
    Arc::new(RestoredParts::around(Arc::new(grouped), parts))
}
