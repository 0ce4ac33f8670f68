//! Quantising to AWQ's GEMM layout by rounding to the nearest code, as AutoAWQ does after its search
//! (`pseudo_quantize_tensor`).
//!
//! Weights are rounded to F16 first, and every operation is rounded to F16. The scale is (highest − lowest) / 15 and at
//! least 10⁻⁵ / 15, the zero point −round(lowest / scale) clamped to 0..=15, and a code round(value / scale) + zero
//! point.

use std::sync::Arc;

use anamnesis_kernels::float::f16;
use serde_json::{Value, json};

use crate::error::Result;
use crate::scheme::coder::ScaleType;
use crate::scheme::grouped::{Extremes, Group, Ratio, ScaleRule};
use crate::scheme::packed::{Grouping, PackedEncoder, PackedMatrix, Words, ZeroPoints, check_shape};
use crate::scheme::quantise::{
    Candidate, Decision, Encoding, GroupSize, KEPT_FOR_SERVING, Packing, QuantiseOptions, QuantisedModel, Quantiser,
    Task, encode, plan_layers,
};

/// The encodings of this scheme.
pub(crate) static ENCODINGS: [Encoding; 1] = [Encoding {
    names: &[NAME],
    about: "4-bit weights in the layout of AWQ, rounded to nearest",
    short: "AWQ",
    packing: Packing::Companions,
    quantiser: &Gemm,
}];

const NAME: &str = "awq-4bit";
/// The default group size.
const GROUP: u64 = 128;
const HIGHEST: f32 = 15.0;
/// The smallest range of a group; AutoAWQ raises smaller ranges to it.
const SMALLEST_RANGE: f32 = 1e-5;

struct Gemm;

/// The group size; `None` if a row has one scale.
fn group(options: &QuantiseOptions) -> Option<u64> {
    match options.groups.size {
        None => Some(GROUP),
        Some(GroupSize::Values(values)) => Some(values.into()),
        Some(GroupSize::Row) => None,
    }
}

impl Quantiser for Gemm {
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        task.options.check_only_groups(NAME)?;
        let group = group(task.options);
        plan_layers(task, NAME, &KEPT_FOR_SERVING, group.unwrap_or(1), |tensor| {
            check_shape(NAME, tensor, 4)?;
            encode(weight(tensor, group.unwrap_or(tensor.row())))
        })
    }

    fn loaded_by(&self) -> &'static str {
        "AutoAWQ 0.2.9, and transformers 5.22 (with GPTQModel), vLLM and SGLang, in F16"
    }

    fn loaded_with_experts_by(&self) -> &'static str {
        "vLLM and SGLang, in F16; not by transformers 5.22, which holds experts in one tensor"
    }

    fn configuration(&self, model: &QuantisedModel<'_>) -> Option<Value> {
        Some(json!({
            "bits": 4,
            "group_size": group(model.options).map_or(-1, |group| group as i64),
            "modules_to_not_convert": model.kept_module_patterns(),
            "quant_method": "awq",
            "version": "gemm",
            "zero_point": true,
        }))
    }
}

fn weight(tensor: &Candidate<'_>, group: u64) -> PackedEncoder {
    let inputs = tensor.row();
    let matrix = PackedMatrix {
        words: Words::Awq,
        inputs,
        outputs: tensor.shape.first().map_or(1, |&rows| rows as u64),
        groups: inputs / group.max(1),
        grouping: Grouping::Runs(group),
        zeros: ZeroPoints::Stored,
        scale: ScaleType::F16,
    };
    let description = format!("AWQ 4-bit, groups of {group}");
    PackedEncoder::new(tensor, matrix, Arc::new(Rule), Ratio::RoundedPlusF16, false, description)
}

/// AutoAWQ's scales and zero points.
#[derive(Debug, Hash)]
struct Rule;

impl ScaleRule for Rule {
    fn needs_extremes(&self) -> bool {
        true
    }

    fn group(&self, Extremes { low, high }: Extremes, _global: f32) -> Group {
        let half = |value: f32| f16::decode(f16::encode(value));
        let scale = half(half(high - low).max(half(SMALLEST_RANGE)) / HIGHEST);
        let zero = (-half(low / scale).round_ties_even()).clamp(0.0, HIGHEST);
        Group { offset: zero, shift: zero, ..Group::of(scale) }
    }
}
