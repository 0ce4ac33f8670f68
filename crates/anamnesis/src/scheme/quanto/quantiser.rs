//! Quantising to quanto's eight-bit formats without calibration, with a scale for every row.
//!
//! | quantity | computation |
//! |---|---|
//! | scale | the largest magnitude of a row / the largest code, in the type of the weight; a scalar if there is one row |
//! | code | value / scale in that type, rounded to an integer, or to a float with saturation |
//!
//! Codes of four and two bits are not written: they are stored as groups, and the file does not record the shape of the
//! weight.

use std::sync::Arc;

use anamnesis_kernels::float::{bf16, f16};
use serde_json::{Map, Value, json};

use super::parts::NAME;
use crate::catalog::{Dtype, TargetDtype};
use crate::error::Result;
use crate::scheme::coder::{Arrangement, EncodedTensor, Grid, Rounded, ScaleType, TileDecoder, rounded_to};
use crate::scheme::fp8::{Fp8Decoder, Fp8Format};
use crate::scheme::grouped::{
    Arithmetic, Extremes, Factor, Formula, Goal, Group, Grouped, GroupedEncoder, Layout, Meaning, Offsets, Ratio,
    ScaleRule, Scales, ZeroPointStorage, step_of,
};
use crate::scheme::quantise::{
    Candidate, Decision, Encoding, KEPT_FOR_SERVING, QuantisedModel, Quantiser, Task, encode, plan_layers,
};

/// The encodings of this scheme.
pub(crate) static ENCODINGS: [Encoding; 3] = [
    Encoding::with_companions(
        &["quanto-int8"],
        "INT8 weights with a scale per row, as quanto has them",
        "INT8",
        &Kind::Int8,
    ),
    Encoding::with_companions(
        &["quanto-float8"],
        "E4M3 weights with a scale per row, as quanto has them",
        "FP8",
        &Kind::E4m3,
    ),
    Encoding::with_companions(
        &["quanto-float8-e5m2"],
        "E5M2 weights with a scale per row, as quanto has them",
        "FP8",
        &Kind::E5m2,
    ),
];

/// A type of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Int8,
    E4m3,
    E5m2,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Int8 => "quanto-int8",
            Self::E4m3 => "quanto-float8",
            Self::E5m2 => "quanto-float8-e5m2",
        }
    }

    /// quanto's name of the type.
    const fn qtype(self) -> &'static str {
        match self {
            Self::Int8 => "qint8",
            Self::E4m3 => "qfloat8_e4m3fn",
            Self::E5m2 => "qfloat8_e5m2",
        }
    }

    /// The largest code.
    const fn largest(self) -> f32 {
        match self {
            Self::Int8 => 127.0,
            Self::E4m3 => 448.0,
            Self::E5m2 => 57344.0,
        }
    }
}

impl Quantiser for Kind {
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        task.options.check_unused(self.name())?;
        plan_layers(task, self.name(), &KEPT_FOR_SERVING, 1, |tensor| encode(weight(*self, tensor)))
    }

    fn loaded_by(&self) -> &'static str {
        "optimum-quanto 0.2.7 (requantize with quanto_qmap.json); transformers 5.22 refuses it, as it reads no quanto tensors"
    }

    fn loads_experts(&self) -> bool {
        false
    }

    fn configuration(&self, model: &QuantisedModel<'_>) -> Option<Value> {
        // quanto's names of types, which transformers 5 refuses. Under transformers' own names it would load the model
        // as one that it quantises itself, find none of the expected weights, and initialise them randomly.
        let weights = self.qtype();
        Some(json!({
            "activations": null,
            "modules_to_not_convert": model.kept_module_patterns(),
            "quant_method": NAME,
            "weights": weights,
        }))
    }

    /// The map by which quanto itself loads a model.
    fn documents(&self, model: &QuantisedModel<'_>) -> Vec<(&'static str, Value)> {
        let weights = self.qtype();
        // The name of a weight's first tensor extends its own: `layer.weight._data`.
        let modules = model.modules_of_main_encoding().map(|weight| weight.strip_suffix(".weight").unwrap_or(weight));
        let entry = |module: &str| (module.to_owned(), json!({ "activations": "none", "weights": weights }));
        vec![("quanto_qmap.json", modules.map(entry).collect::<Map<_, _>>().into())]
    }
}

fn weight(kind: Kind, tensor: &Candidate<'_>) -> GroupedEncoder {
    let (rows, cols) = match *tensor.shape {
        [rows, cols] => (rows as u64, cols as u64),
        _ => (1, tensor.row()),
    };
    let (grid, scale_shape) = match rows {
        1 => (Grid::single(cols), Vec::new()),
        _ => (Grid::new(rows, cols, 1, cols, Arrangement::Row), vec![rows as usize, 1]),
    };
    let (scale, step) = (ScaleType::of_target(tensor.dtype), step_of(tensor.dtype));
    let (dtype, goal) = match kind {
        Kind::Int8 => (Dtype::I8, Goal::Integer { ratio: Ratio::Quotient(step), low: -128, high: 127, plus: 0 }),
        Kind::E4m3 => (Dtype::F8E4M3, Goal::E4m3(Factor::Divided(step))),
        Kind::E5m2 => (Dtype::F8E5M2, Goal::E5m2(Factor::Divided(step))),
    };
    let output = |part: &str, dtype: Dtype, shape: &[usize]| EncodedTensor {
        name: tensor.part(part),
        dtype,
        shape: shape.to_vec(),
    };
    let floats = tensor.dtype.dtype();
    let one = match tensor.dtype {
        TargetDtype::F32 => 1f32.to_le_bytes().to_vec(),
        TargetDtype::BF16 => bf16::encode(1.0).to_le_bytes().to_vec(),
        TargetDtype::F16 => f16::encode(1.0).to_le_bytes().to_vec(),
    };
    GroupedEncoder {
        outputs: vec![
            output("weight._data", dtype, tensor.shape),
            output("weight._scale", floats, &scale_shape),
            output("input_scale", floats, &[]),
            output("output_scale", floats, &[]),
        ],
        grid,
        layout: Layout::bytes(8, cols),
        goal,
        rule: Arc::new(Rule { kind, dtype: tensor.dtype }),
        scale,
        offsets: ZeroPointStorage::Nothing,
        // Activations are not quantised.
        constants: vec![one.clone(), one],
        seen: None,
        decoder: decoder(kind, grid, cols, scale, tensor.dtype),
    }
}

/// The decoder of the encoded weight, which rounds to the type of the weight like the library.
fn decoder(kind: Kind, grid: Grid, cols: u64, scale: ScaleType, dtype: TargetDtype) -> Arc<dyn TileDecoder> {
    let format = match kind {
        Kind::Int8 => {
            return Arc::new(Grouped {
                layout: Layout::bytes(8, cols),
                meaning: Meaning::Signed,
                grid,
                scales: Scales { kind: scale, global: None },
                offsets: Offsets::None,
                is_indexed: false,
                arithmetic: Arithmetic { formula: Formula::Affine, step: step_of(dtype) },
                description: "quanto qint8".to_owned(),
            });
        }
        Kind::E4m3 => Fp8Format::E4m3,
        Kind::E5m2 => Fp8Format::E5m2,
    };
    Rounded::to(dtype, Arc::new(Fp8Decoder::new(format, grid, Some(scale))))
}

/// quanto's scales.
#[derive(Debug, Hash)]
struct Rule {
    kind: Kind,
    dtype: TargetDtype,
}

impl ScaleRule for Rule {
    fn group(&self, extremes: Extremes, _global: f32) -> Group {
        let scale = rounded_to(extremes.magnitude() / self.kind.largest(), self.dtype);
        // The library divides zeros by a scale of zero and writes the code of NaN, where there is one; here they stay
        // zero.
        Group { factor: if scale == 0.0 { 1.0 } else { scale }, ..Group::of(scale) }
    }
}
