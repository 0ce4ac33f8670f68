//! BitNet: ternary weights (−1, 0 and 1) with one scale, as transformers stores them.
//!
//! | stored | holds | shape for a weight `[out, in]` |
//! |---|---|---|
//! | `X.weight` | U8, four codes in a byte: the lowest bits are the first quarter of the rows | `[out / 4, in]` |
//! | `X.weight_scale` | one value | `[1]` |
//!
//! The layer class in the configuration determines how the scale is used: a `bitlinear` layer divides its result by it,
//! an `autobitlinear` layer multiplies. Other schemes use the same tensor names, so weights are claimed only if the
//! configuration names BitNet.

use std::sync::Arc;

use crate::catalog::{Dtype, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::Args;
use crate::scheme::claim::{About, Claims, QuantScheme, Scheme, TensorRole, Weight};
use crate::scheme::coder::{Coding, Grid, Recipe, ScaleType};
use crate::scheme::grouped::{Arithmetic, Formula, Grouped, Layout, Meaning, Offsets, Order, Scales, Step, Unit};

/// The BitNet scheme.
pub(crate) struct BitNet;

const NAME: &str = "BitNet";
const METHOD: &str = "bitnet";
const CODES: &str = ".weight";

/// Rows whose codes share a byte.
const FIELDS: u64 = 4;

impl Scheme for BitNet {
    fn about(&self) -> About {
        About::Decoded(NAME, "packed weights of -1, 0 and 1")
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        if claims.config.method() != Some(METHOD) {
            return;
        }
        // Float weights are not packed.
        let is_codes = |dtype: Dtype| !matches!(dtype, Dtype::F32 | Dtype::BF16 | Dtype::F16 | Dtype::F64);
        let codes: Vec<_> = claims
            .unclaimed()
            .filter(|(_, tensor)| tensor.name.ends_with(CODES) && is_codes(tensor.dtype))
            .map(|(id, _)| id)
            .collect();
        for id in codes {
            let scale = claims.find_unclaimed(&format!("{}_scale", claims.catalog.get(id).name));
            claims.take(id, TensorRole::Quantized);
            if let Some(scale) = scale {
                claims.take(scale, TensorRole::Scale);
            }
            match weight(claims, id, scale) {
                Ok(weight) => claims.add(weight),
                Err(problem) => claims.refuse(problem),
            }
        }
    }
}

fn weight(claims: &Claims<'_>, id: TensorId, scale: Option<TensorId>) -> Result<Weight> {
    let tensor = claims.catalog.get(id);
    let fail = |what: String| AnamnesisError::parse(format!("tensor {}: {what}", quoted(&tensor.name)));
    let module = claims.config.module(tensor.name.trim_end_matches(CODES));
    let formula = formula(module.args()).map_err(|error| error.in_tensor(&tensor.name))?;
    let name = format!("{}_scale", tensor.name);
    let scale_id = scale.ok_or_else(|| {
        let place = claims.elsewhere(&name).map_or_else(String::new, |place| format!(": {place}"));
        fail(format!("there is no {}{place}", quoted(&name)))
    })?;
    let scale = claims.catalog.get(scale_id);
    let kind = ScaleType::of_float(scale.dtype).filter(|_| matches!(scale.shape[..], [] | [1])).ok_or_else(|| {
        let (name, dtype, shape) = (quoted(&scale.name), scale.dtype, &scale.shape);
        fail(format!("{name} is {dtype} {shape:?}; one F32, BF16 or F16 is needed"))
    })?;
    let (Dtype::U8, &[stored, cols]) = (tensor.dtype, &tensor.shape[..]) else {
        return Err(fail(format!("it is {} {:?}; a matrix of U8 is needed", tensor.dtype, tensor.shape)));
    };
    let rows = stored.checked_mul(FIELDS as usize).filter(|&rows| rows > 0 && cols > 0);
    let rows = rows.ok_or_else(|| fail(format!("its shape {:?} has no values", tensor.shape)))?;
    let mut grid = Grid::single(rows as u64 * cols as u64);
    (grid.rows, grid.cols, grid.block_rows, grid.block_cols) = (rows as u64, cols as u64, rows as u64, cols as u64);
    let decoder = Grouped {
        layout: Layout::Planes { bits: 2, unit: Unit::Byte, rows: stored as u64, order: Order::LowestFirst },
        meaning: Meaning::Unsigned,
        grid,
        scales: Scales { kind, global: None },
        offsets: Offsets::Constant(1),
        is_indexed: false,
        arithmetic: Arithmetic { formula, step: Step::F32 },
        description: match formula {
            Formula::Divided => "BitNet, divided by one scale".to_owned(),
            _ => "BitNet, one scale".to_owned(),
        },
    };
    Ok(Weight {
        name: tensor.name.clone(),
        shape: vec![rows, cols],
        values: rows as u64 * cols as u64,
        scheme: QuantScheme::Named(NAME),
        blocks: None,
        coding: Coding {
            format: "ternary".to_owned(),
            bits: Some(2),
            symmetric: Some(true),
            evidence: claims.evidence(&["linear_class", "quant_method"]),
            ..Coding::default()
        },
        parts: vec![id, scale_id],
        recipe: Recipe::Ready(Arc::new(decoder)),
    })
}

/// How the layer class of the configuration applies the scale.
fn formula(args: &Args<'_>) -> Result<Formula> {
    let refused = |key: &str, value: &str| {
        AnamnesisError::unsupported(NAME, format!("weights with {key} {} are not decoded", quoted(value)))
    };
    match args.text(&["quantization_mode"])? {
        None | Some("offline") => {}
        Some(mode) => return Err(refused("quantization_mode", mode)),
    }
    if args.flag(&["use_rms_norm"])? == Some(true) {
        // These layers normalise their inputs, which a plain linear layer cannot do.
        return Err(refused("use_rms_norm", "true"));
    }
    match args.text(&["linear_class"])? {
        None | Some("bitlinear") => Ok(Formula::Divided),
        Some("autobitlinear") => Ok(Formula::Affine),
        Some(class) => Err(refused("linear_class", class)),
    }
}
