//! Quantising by the arithmetic of EETQ, which takes F16 weights.
//!
//! | quantity | computation |
//! |---|---|
//! | the divisor of a row | its largest magnitude × (1 / 128), in F32; 1 for a row of zeros |
//! | a code | value / divisor, to the nearest integer, ties away from zero, from −128 to 127 |
//! | the stored `X.weight_scales` | the divisor as F16; 0 for a row of zeros |
//!
//! A matrix whose inputs or outputs are no multiple of 64 is kept.

use std::sync::Arc;

use serde_json::{Value, json};

use super::claim::{METHOD, TILE, decoder};
use super::encoder::InterleavedEncoder;
use crate::catalog::Dtype;
use crate::error::Result;
use crate::scheme::coder::{Arrangement, EncodedTensor, Grid, ScaleType};
use crate::scheme::grouped::{Extremes, Goal, Group, GroupedEncoder, Layout, Ratio, ScaleRule, ZeroPointStorage};
use crate::scheme::quantise::{
    Candidate, Decision, Encoding, KEPT_FOR_SERVING, Keeping, QuantisedModel, Quantiser, Task, encode, plan_layers,
};

/// The encodings of this scheme.
pub(crate) static ENCODINGS: [Encoding; 1] = [Encoding::with_companions(
    &[METHOD],
    "INT8 weights with a scale per row, in the order of EETQ's kernels",
    "INT8",
    &Rows,
)];

struct Rows;

impl Quantiser for Rows {
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        task.options.check_unused(METHOD)?;
        plan_layers(task, METHOD, &KEPT_FOR_SERVING, 1, |tensor| match weight(tensor) {
            Some(encoder) => encode(encoder),
            None => Ok(Decision::Keep(Keeping::Indivisible)),
        })
    }

    fn loaded_by(&self) -> &'static str {
        "transformers with EETQ and dtype float16, on GPUs of compute capability 7.5 to 8.9"
    }

    fn loads_experts(&self) -> bool {
        false
    }

    fn configuration(&self, model: &QuantisedModel<'_>) -> Option<Value> {
        Some(json!({
            "modules_to_not_convert": model.kept_module_patterns(),
            "quant_method": METHOD,
            "weights": "int8",
        }))
    }
}

/// The encoder of a weight; `None` if it does not divide into tiles.
fn weight(tensor: &Candidate<'_>) -> Option<InterleavedEncoder> {
    let &[rows, cols] = tensor.shape else { return None };
    let (outputs, inputs) = (rows as u64, cols as u64);
    if !outputs.is_multiple_of(TILE) || !inputs.is_multiple_of(TILE) {
        return None;
    }
    let inner = GroupedEncoder {
        outputs: vec![
            EncodedTensor { name: tensor.part("weight"), dtype: Dtype::I8, shape: vec![cols, rows] },
            EncodedTensor { name: tensor.part("weight_scales"), dtype: Dtype::F16, shape: vec![rows] },
        ],
        grid: Grid::new(outputs, inputs, 1, inputs, Arrangement::Row),
        layout: Layout::bytes(8, inputs),
        goal: Goal::Integer { ratio: Ratio::QuotientAway, low: -128, high: 127, plus: 0 },
        rule: Arc::new(Largest),
        scale: ScaleType::F16,
        offsets: ZeroPointStorage::Nothing,
        constants: Vec::new(),
        seen: None,
        decoder: decoder(outputs, inputs),
    };
    Some(InterleavedEncoder { inner })
}

/// The scales of EETQ.
#[derive(Hash)]
struct Largest;

impl ScaleRule for Largest {
    fn group(&self, extremes: Extremes, _global: f32) -> Group {
        let scale = extremes.magnitude() * (1.0 / 128.0);
        // A row so small that its scale is zero in F32 has codes of zero whatever it is divided by.
        Group { factor: if scale == 0.0 { 1.0 } else { scale }, ..Group::of(scale) }
    }
}
