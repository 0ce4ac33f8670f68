//! Building the encoder of one weight: its output tensors, their types and shapes, and the scale rule.

use std::sync::Arc;

use super::preset::{Codes, Preset};
use super::scale_rules::Rule;
use super::scales::describe;
use super::spec::Strategy;
use crate::catalog::Dtype;
use crate::scheme::coder::ScaleOp;
use crate::scheme::coder::{Arrangement, EncodedTensor, Grid, ScaleType, TileDecoder};
use crate::scheme::fp8::{Fp8Decoder, Fp8Format};
use crate::scheme::grouped::{
    Arithmetic, Factor, GlobalScale, Goal, Grouped, GroupedEncoder, Layout, Meaning, Offsets, Ratio, Scales, Step,
    ZeroPointStorage, step_of,
};
use crate::scheme::quantise::Candidate;

/// The encoder of a matrix by a preset.
pub(super) fn weight(preset: &Preset, strategy: Strategy, tensor: &Candidate<'_>) -> GroupedEncoder {
    let (rows, cols) = match *tensor.shape {
        [rows, cols] => (rows as u64, cols as u64),
        _ => (1, tensor.row()),
    };
    let grid = grid(rows, cols, strategy);
    let (step, kind) = (step_of(tensor.dtype), ScaleType::of_target(tensor.dtype));
    let output = |part: &str, dtype: Dtype, shape: &[usize]| EncodedTensor {
        name: tensor.part(part),
        dtype,
        shape: shape.to_vec(),
    };
    let scale_shape = match strategy {
        Strategy::Tensor => vec![1],
        _ => vec![grid.grid_rows as usize, grid.grid_cols as usize],
    };
    let words = |values: u64, bits: u8| (values * u64::from(bits)).div_ceil(32) as usize;
    let dtype = tensor.dtype;
    let (codes, scale, rule, goal) = match preset.codes {
        Codes::Float => (
            output("weight", Dtype::F8E4M3, tensor.shape),
            kind,
            Rule::Middle { range: 896, dtype },
            Goal::E4m3(Factor::Divided(step)),
        ),
        Codes::Int8 => {
            let goal = Goal::Integer { ratio: Ratio::Quotient(step), low: -128, high: 127, plus: 0 };
            (output("weight", Dtype::I8, tensor.shape), kind, Rule::Middle { range: 255, dtype }, goal)
        }
        Codes::Packed { bits, symmetric } => {
            let middle = 1i16 << (bits - 1);
            let (rule, ratio) = match symmetric {
                true => (Rule::Middle { range: (1 << bits) - 1, dtype }, Ratio::Quotient(step)),
                false => (Rule::Sided { bits, dtype }, Ratio::QuotientPlus(step)),
            };
            let goal = Goal::Integer { ratio, low: -middle, high: middle - 1, plus: middle as u8 };
            (output("weight_packed", Dtype::I32, &[rows as usize, words(cols, bits)]), kind, rule, goal)
        }
        Codes::Mxfp8 => (
            output("weight", Dtype::F8E4M3, tensor.shape),
            ScaleType::Exponent,
            Rule::Power { largest: 8, dtype },
            Goal::E4m3(Factor::Divided(Step::F32)),
        ),
        Codes::Mxfp4 | Codes::Nvfp4 => {
            let codes = output("weight_packed", Dtype::U8, &[rows as usize, (cols / 2) as usize]);
            match preset.codes {
                Codes::Nvfp4 => (codes, ScaleType::E4m3, Rule::Nvfp4(dtype), Goal::E2m1),
                _ => (codes, ScaleType::Exponent, Rule::Power { largest: 2, dtype }, Goal::E2m1),
            }
        }
    };
    let scale_dtype = match scale {
        ScaleType::E4m3 => Dtype::F8E4M3,
        ScaleType::Exponent => Dtype::U8,
        _ => tensor.dtype.dtype(),
    };
    let mut outputs = vec![codes, output("weight_scale", scale_dtype, &scale_shape)];
    let (mut constants, mut offsets) = (Vec::new(), ZeroPointStorage::Nothing);
    if let Codes::Packed { bits, symmetric } = preset.codes {
        if !symmetric {
            offsets = ZeroPointStorage::PackedDown { bits };
            outputs.push(output("weight_zero_point", Dtype::I32, &[words(rows, bits), grid.grid_cols as usize]));
        }
        outputs.push(output("weight_shape", Dtype::I64, &[2]));
        constants.push([rows, cols].iter().flat_map(|dim| dim.to_le_bytes()).collect());
    }
    if preset.codes == Codes::Nvfp4 {
        outputs.push(output("weight_global_scale", Dtype::F32, &[1]));
    }
    GroupedEncoder {
        outputs,
        grid,
        layout: layout(preset.codes, cols),
        goal,
        rule: Arc::new(rule),
        scale,
        offsets,
        constants,
        seen: None,
        decoder: decoder(preset.codes, strategy, grid, cols, scale),
    }
}

fn grid(rows: u64, cols: u64, strategy: Strategy) -> Grid {
    match strategy {
        Strategy::Tensor => Grid::single(rows * cols),
        Strategy::Channel => Grid::new(rows, cols, 1, cols, Arrangement::Row),
        Strategy::Group(size) => Grid::new(rows, cols, 1, size, Arrangement::Block(1, size)),
        Strategy::Block(height, width) => Grid::new(rows, cols, height, width, Arrangement::Block(height, width)),
    }
}

fn layout(codes: Codes, cols: u64) -> Layout {
    match codes {
        Codes::Packed { bits, .. } => Layout::words(bits, cols),
        Codes::Mxfp4 | Codes::Nvfp4 => Layout::bytes(4, cols),
        Codes::Float | Codes::Int8 | Codes::Mxfp8 => Layout::bytes(8, cols),
    }
}

/// The decoder of the encoded weight.
fn decoder(codes: Codes, strategy: Strategy, grid: Grid, cols: u64, scale: ScaleType) -> Arc<dyn TileDecoder> {
    let (meaning, offsets, name) = match codes {
        Codes::Float | Codes::Mxfp8 => return Arc::new(Fp8Decoder::new(Fp8Format::E4m3, grid, Some(scale))),
        Codes::Int8 => (Meaning::Signed, Offsets::None, "INT8".to_owned()),
        Codes::Packed { bits, symmetric: true } => {
            (Meaning::Unsigned, Offsets::Constant(1 << (bits - 1)), format!("{bits}-bit"))
        }
        Codes::Packed { bits, symmetric: false } => {
            (Meaning::Unsigned, Offsets::PackedDown { bits, dense: true }, format!("{bits}-bit"))
        }
        Codes::Mxfp4 => (Meaning::E2m1, Offsets::None, "MXFP4".to_owned()),
        Codes::Nvfp4 => (Meaning::E2m1, Offsets::None, "NVFP4".to_owned()),
    };
    let global = GlobalScale { op: ScaleOp::Divide, per_matrix: false, step: Step::F32, library: Step::F32 };
    Arc::new(Grouped {
        layout: layout(codes, cols),
        meaning,
        grid,
        scales: Scales { kind: scale, global: (codes == Codes::Nvfp4).then_some(global) },
        offsets,
        is_indexed: false,
        arithmetic: Arithmetic::default(),
        description: format!("compressed-tensors {name}, {}", describe(strategy)),
    })
}
