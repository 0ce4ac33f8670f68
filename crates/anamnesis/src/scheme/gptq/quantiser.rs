//! Quantising to the layout of GPTQ by rounding to the nearest code (RTN of GPTQModel), which needs no calibration.
//!
//! | quantity | computation |
//! |---|---|
//! | extremes of a group | lowest ≤ 0 ≤ highest; symmetric: ± the largest magnitude, without the negative side if no value is negative |
//! | scale | (highest − lowest) / the highest code, stored as F16; for a group of zeros, as if it ranged from −1 to 1 |
//! | zero point | symmetric: the middle code; else −lowest / scale, rounded |
//! | code | value / scale, rounded, with the scale before it is rounded to F16; plus the zero point |
//!
//! GPTQModel decodes these codes to the type of the weight and packs the result again, which changes some 8-bit codes
//! in BF16.
//!
//! The first format stores zero points less one. It subtracts from whole words, so that borrows carry into the next
//! field; for 3 bits it subtracts from each field.

use std::sync::Arc;

use anamnesis_kernels::float::f16;
use serde_json::{Map, Value, json};

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::ScaleType;
use crate::scheme::grouped::{Extremes, Group, Ratio, ScaleRule};
use crate::scheme::model_class::Layer;
use crate::scheme::packed::{Grouping, PackedEncoder, PackedMatrix, Words, ZeroPoints, check_shape};
use crate::scheme::quantise::{
    Candidate, Decision, Encoding, GroupSize, KEPT_FOR_SERVING, Keeping, Packing, QuantiseOptions, QuantisedModel,
    Quantiser, Task, encode, plan_layers,
};

macro_rules! kinds {
    ($($name:literal $bits:literal $symmetric:literal $zeros:ident $about:literal;)*) => {
        static KINDS: [Kind; [$($bits),*].len()] =
            [$(Kind { name: $name, bits: $bits, symmetric: $symmetric, zeros: ZeroPoints::$zeros }),*];

        /// The encodings of this scheme.
        pub(crate) static ENCODINGS: [Encoding; KINDS.len()] = {
            let mut index = 0;
            [$(Encoding {
                names: &[$name],
                about: $about,
                short: concat!("GPTQ", $bits),
                packing: Packing::Companions,
                quantiser: { index += 1; &KINDS[index - 1] },
            }),*]
        };
    };
}

kinds! {
    "gptq-4bit" 4 true PlusOne "4-bit weights in the layout of GPTQ, rounded to nearest";
    "gptq-8bit" 8 true PlusOne "8-bit weights in the layout of GPTQ, rounded to nearest";
    "gptq-3bit" 3 true PlusOne "3-bit weights in the layout of GPTQ, rounded to nearest";
    "gptq-2bit" 2 true PlusOne "2-bit weights in the layout of GPTQ, rounded to nearest";
    "gptq-4bit-asym" 4 false PlusOne "the same with zero points";
    "gptq-8bit-asym" 8 false PlusOne "the same with zero points";
    "gptq-3bit-asym" 3 false PlusOne "the same with zero points";
    "gptq-2bit-asym" 2 false PlusOne "the same with zero points";
    "gptq-4bit-v2" 4 true Stored "4-bit weights in the second layout of GPTQ";
    "gptq-8bit-v2" 8 true Stored "8-bit weights in the second layout of GPTQ";
    "gptq-3bit-v2" 3 true Stored "3-bit weights in the second layout of GPTQ";
    "gptq-2bit-v2" 2 true Stored "2-bit weights in the second layout of GPTQ";
    "gptq-4bit-v2-asym" 4 false Stored "the same with zero points";
    "gptq-8bit-v2-asym" 8 false Stored "the same with zero points";
    "gptq-3bit-v2-asym" 3 false Stored "the same with zero points";
    "gptq-2bit-v2-asym" 2 false Stored "the same with zero points";
}

/// The kind of an encoding.
fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// The default group size.
const GROUP: u64 = 128;
/// The version of GPTQModel whose arithmetic and packing is followed.
const QUANTIZER: &str = "gptqmodel:7.7.0";

struct Kind {
    name: &'static str,
    bits: u8,
    symmetric: bool,
    zeros: ZeroPoints,
}

/// The group size; `None` if a row has one scale.
fn group(options: &QuantiseOptions) -> Option<u64> {
    match options.groups.size {
        None => Some(GROUP),
        Some(GroupSize::Values(values)) => Some(values.into()),
        Some(GroupSize::Row) => None,
    }
}

impl Quantiser for Kind {
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        task.options.check_only_groups(self.name)?;
        let group = group(task.options);
        plan_layers(task, self.name, &KEPT_FOR_SERVING, group.unwrap_or(1), |tensor| {
            check_shape(self.name, tensor, self.bits.into())?;
            encode(self.weight(tensor, group.unwrap_or(tensor.row())))
        })
    }

    fn loaded_by(&self) -> &'static str {
        "GPTQModel 7.7, and transformers 5.22, vLLM and SGLang, which load with it or like it"
    }

    fn keeps(&self, layer: Layer) -> Option<Keeping> {
        match layer {
            Layer::Linear | Layer::Inherited | Layer::Expert | Layer::Conv1d => None,
            Layer::InF32 => Some(Keeping::InF32),
            Layer::Head => Some(Keeping::Head),
            Layer::Bypassed | Layer::Other => Some(Keeping::NotReplaced),
        }
    }

    fn transposes_conv1d(&self) -> bool {
        true
    }

    fn configuration(&self, model: &QuantisedModel<'_>) -> Option<Value> {
        let format = if self.zeros == ZeroPoints::Stored { "gptq_v2" } else { "gptq" };
        let mut config = json!({
            "bits": self.bits,
            "checkpoint_format": format,
            "desc_act": false,
            "format": format,
            "group_size": group(model.options).map_or(-1, |group| group as i64),
            "lm_head": model.quantised.contains(&"lm_head.qweight"),
            "meta": { "quantizer": [QUANTIZER] },
            "pack_dtype": "int32",
            "quant_method": "gptq",
            "sym": self.symmetric,
        });
        // The prefix `-:` excludes the modules that an expression matches; `+:` gives them arguments of their own.
        let rule = |sign: char, module: &str| format!("{sign}:^{}$", module.replace('.', "\\."));
        let kept = model.kept_modules().into_iter().filter(|module| module != "lm_head");
        let mut dynamic: Map<_, _> = kept.map(|module| (rule('-', &module), json!({}))).collect();
        for (name, modules) in model.modules_of_other_encodings() {
            let Self { bits, symmetric, .. } = kind(name)?;
            dynamic.extend(modules.iter().map(|module| (rule('+', module), json!({ "bits": bits, "sym": symmetric }))));
        }
        if !dynamic.is_empty() {
            config["dynamic"] = dynamic.into();
        }
        Some(config)
    }

    /// A configuration has one format of zero points for all modules.
    fn mixes_with(&self, other: &str) -> bool {
        kind(other).is_some_and(|other| other.zeros == self.zeros)
    }
}

impl Kind {
    fn weight(&self, tensor: &Candidate<'_>, group: u64) -> PackedEncoder {
        let inputs = tensor.row();
        let outputs = tensor.shape.first().map_or(1, |&rows| rows as u64);
        let matrix = PackedMatrix {
            words: Words::Gptq(self.bits),
            inputs,
            outputs,
            groups: inputs / group.max(1),
            grouping: Grouping::Runs(group),
            zeros: self.zeros,
            scale: ScaleType::F16,
        };
        let rule = Arc::new(Rule { bits: self.bits, symmetric: self.symmetric });
        let description = format!("GPTQ {}-bit, groups of {group}", self.bits);
        let zero = self.symmetric.then_some(1 << (self.bits - 1));
        let through_bf16 = self.bits == 8 && tensor.dtype == TargetDtype::BF16;
        let encoder = PackedEncoder::new(tensor, matrix, rule, Ratio::RoundedPlusF32, true, description);
        encoder.with_zero(zero).through_bf16(through_bf16)
    }
}

/// GPTQModel's scales and zero points.
#[derive(Debug, Hash)]
struct Rule {
    bits: u8,
    symmetric: bool,
}

impl ScaleRule for Rule {
    fn needs_extremes(&self) -> bool {
        true
    }

    fn group(&self, extremes: Extremes, _global: f32) -> Group {
        let Extremes { mut low, mut high } = extremes.with(Extremes { low: 0.0, high: 0.0 });
        let highest = f32::from((1u16 << self.bits) - 1);
        if self.symmetric {
            high = high.max(low.abs());
            low = if low < 0.0 { -high } else { low };
        }
        // A range so small that the scale underflows counts as zeros too.
        if (high - low) / highest == 0.0 {
            (low, high) = (low - 1.0, high + 1.0);
        }
        let scale = (high - low) / highest;
        let zero = match self.symmetric {
            true => f32::from(1u8 << (self.bits - 1)),
            false => (-low / scale).round_ties_even().clamp(0.0, highest),
        };
        let stored = f16::decode(f16::encode(scale));
        Group { scale: stored, offset: zero, factor: scale, shift: zero }
    }
}
