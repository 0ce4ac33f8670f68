//! Quantising to E4M3 in blocks of 128×128, by the arithmetic of transformers.
//!
//! | quantity | computation |
//! |---|---|
//! | the factor of a block | (1 / its largest magnitude) × 448, which is how torch divides a number by a tensor; 1 if the magnitude is zero, or so small that the factor would be infinite |
//! | the stored `X.weight_scale_inv` | 1 / factor |
//! | a code | value × factor, to the nearest E4M3 |
//!
//! All of it is calculated in F32, whatever the type of the weight. A matrix that does not divide into blocks is kept.

use std::sync::Arc;

use serde_json::{Value, json};

use super::cast::Cast;
use super::{Fp8Decoder, Fp8Format};
use crate::catalog::Dtype;
use crate::error::Result;
use crate::scheme::coder::{Arrangement, EncodedTensor, Grid, ScaleType};
use crate::scheme::grouped::{Extremes, Factor, Goal, Group, GroupedEncoder, Layout, ScaleRule, ZeroPointStorage};
use crate::scheme::quantise::{
    Candidate, Decision, Encoding, KEPT_FOR_SERVING, Keeping, Packing, QuantisedModel, Quantiser, Task, encode,
    plan_layers,
};

/// The encodings of this scheme.
pub(crate) static ENCODINGS: [Encoding; 3] = [
    encoding(&["fp8", "fp8-fine-grained"], "E4M3 weights in 128x128 blocks, as transformers has them", "FP8", &Blocks),
    encoding(&[Cast::E4m3.name()], "E4M3 weights without scales, as torch casts them", "FP8", &Cast::E4m3),
    encoding(&[Cast::E5m2.name()], "E5M2 weights without scales, as torch casts them", "E5M2", &Cast::E5m2),
];

const fn encoding(
    names: &'static [&'static str],
    about: &'static str,
    short: &'static str,
    quantiser: &'static dyn Quantiser,
) -> Encoding {
    Encoding { names, about, short, packing: Packing::Companions, quantiser }
}

/// Rows and columns of a block.
const BLOCK: u64 = 128;
/// The largest E4M3.
const LARGEST: f32 = 448.0;

struct Blocks;

impl Quantiser for Blocks {
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        task.options.check_unused("fp8")?;
        plan_layers(task, "fp8", &KEPT_FOR_SERVING, 1, |tensor| match weight(tensor) {
            Some(encoder) => encode(encoder),
            None => Ok(Decision::Keep(Keeping::Indivisible)),
        })
    }

    fn loaded_by(&self) -> &'static str {
        "transformers 5.22 (decoded where there is no GPU), vLLM and SGLang"
    }

    fn configuration(&self, model: &QuantisedModel<'_>) -> Option<Value> {
        Some(json!({
            "activation_scheme": "dynamic",
            "fmt": "e4m3",
            "modules_to_not_convert": model.kept_module_patterns(),
            "quant_method": "fp8",
            "weight_block_size": [BLOCK, BLOCK],
        }))
    }
}

/// The encoder of a weight; `None` if it does not divide into blocks.
fn weight(tensor: &Candidate<'_>) -> Option<GroupedEncoder> {
    let &[rows, cols] = tensor.shape else { return None };
    let (rows, cols) = (rows as u64, cols as u64);
    if !rows.is_multiple_of(BLOCK) || !cols.is_multiple_of(BLOCK) {
        return None;
    }
    let grid = Grid::new(rows, cols, BLOCK, BLOCK, Arrangement::Block(BLOCK, BLOCK));
    let scale_shape = vec![grid.grid_rows as usize, grid.grid_cols as usize];
    Some(GroupedEncoder {
        outputs: vec![
            EncodedTensor { name: tensor.part("weight"), dtype: Dtype::F8E4M3, shape: tensor.shape.to_vec() },
            EncodedTensor { name: tensor.part("weight_scale_inv"), dtype: Dtype::F32, shape: scale_shape },
        ],
        grid,
        layout: Layout::bytes(8, cols),
        goal: Goal::E4m3(Factor::Times),
        rule: Arc::new(Inverse),
        scale: ScaleType::F32,
        offsets: ZeroPointStorage::Nothing,
        constants: Vec::new(),
        seen: None,
        decoder: Arc::new(Fp8Decoder::new(Fp8Format::E4m3, grid, Some(ScaleType::F32))),
    })
}

/// The scales of transformers.
#[derive(Hash)]
struct Inverse;

impl ScaleRule for Inverse {
    fn group(&self, extremes: Extremes, _global: f32) -> Group {
        let factor = Some((1.0 / extremes.magnitude()) * LARGEST).filter(|factor| factor.is_finite()).unwrap_or(1.0);
        Group { factor, ..Group::of(1.0 / factor) }
    }
}
