//! Quantising to ComfyUI's formats: each linear layer by itself, with a marker tensor that names its format.

use std::sync::Arc;

use super::scale_rules::Rule;
use super::tiled_encoder::TiledEncoder;
use crate::catalog::Dtype;
use crate::error::Result;
use crate::scheme::coder::{
    Arrangement, EncodedTensor, Grid, PartOrigin, RestoredParts, ScaleType, Swizzled, TileDecoder,
};
use crate::scheme::fp8::{Fp8Decoder, Fp8Format};
use crate::scheme::grouped::{
    Arithmetic, Factor, GlobalScale, Goal, Grouped, GroupedEncoder, Layout, Meaning, Offsets, Ratio, Scales,
    ZeroPointStorage, step_of,
};
use crate::scheme::model_class::Layer;
use crate::scheme::quantise::{
    Candidate, Decision, Encoding, KEPT_FOR_DIFFUSION, Keeping, Quantiser, Task, encode, plan_layers,
};

/// The encodings of this scheme.
pub(crate) static ENCODINGS: [Encoding; 6] = [
    Encoding::with_companions(&["comfy-fp8"], "E4M3 weights with one scale each, for ComfyUI", "FP8", &Kind::Fp8),
    Encoding::with_companions(
        &["comfy-fp8-row"],
        "E4M3 weights with a scale per row, for ComfyUI",
        "FP8",
        &Kind::Fp8Row,
    ),
    Encoding::with_companions(&["comfy-nvfp4"], "E2M1 weights under E4M3 scales, for ComfyUI", "NVFP4", &Kind::Nvfp4),
    Encoding::with_companions(&["comfy-mxfp8"], "E4M3 weights under powers of two, for ComfyUI", "MXFP8", &Kind::Mxfp8),
    Encoding::with_companions(&["comfy-int8"], "INT8 weights with one scale each, for ComfyUI", "INT8", &Kind::Int8),
    Encoding::with_companions(
        &["comfy-int8-row"],
        "INT8 weights with a scale per row, for ComfyUI",
        "INT8",
        &Kind::Int8Row,
    ),
];

const KINDS: [Kind; 6] = [Kind::Fp8, Kind::Fp8Row, Kind::Nvfp4, Kind::Mxfp8, Kind::Int8, Kind::Int8Row];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fp8,
    Fp8Row,
    Nvfp4,
    Mxfp8,
    Int8,
    Int8Row,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Fp8 => "comfy-fp8",
            Self::Fp8Row => "comfy-fp8-row",
            Self::Nvfp4 => "comfy-nvfp4",
            Self::Mxfp8 => "comfy-mxfp8",
            Self::Int8 => "comfy-int8",
            Self::Int8Row => "comfy-int8-row",
        }
    }

    /// The text of the marker.
    const fn marker(self) -> &'static str {
        match self {
            Self::Fp8 => r#"{"format": "float8_e4m3fn"}"#,
            Self::Fp8Row => r#"{"format": "float8_e4m3fn_rowwise"}"#,
            Self::Nvfp4 => r#"{"format": "nvfp4"}"#,
            Self::Mxfp8 => r#"{"format": "mxfp8"}"#,
            Self::Int8 => r#"{"format": "int8_tensorwise"}"#,
            Self::Int8Row => r#"{"format": "int8_tensorwise", "per_row": true}"#,
        }
    }

    /// Columns that share a scale, if rows have several.
    const fn group(self) -> Option<u64> {
        match self {
            Self::Nvfp4 => Some(16),
            Self::Mxfp8 => Some(32),
            Self::Fp8 | Self::Fp8Row | Self::Int8 | Self::Int8Row => None,
        }
    }
}

impl Quantiser for Kind {
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        task.options.check_unused(self.name())?;
        plan_layers(task, self.name(), &KEPT_FOR_DIFFUSION, self.group().unwrap_or(1), |tensor| match self {
            Self::Nvfp4 | Self::Mxfp8 => encode(tiled(*self, tensor)),
            _ => encode(weight(*self, tensor)),
        })
    }

    fn loaded_by(&self) -> &'static str {
        "ComfyUI, by the marker of each layer"
    }

    /// Nothing: ComfyUI loads any linear layer in these formats.
    fn keeps(&self, _layer: Layer) -> Option<Keeping> {
        None
    }

    fn needs_configuration(&self) -> bool {
        false
    }

    /// The marker of each layer describes it.
    fn mixes_with(&self, other: &str) -> bool {
        KINDS.iter().any(|kind| kind.name() == other)
    }
}

/// The encoder of a weight with its scales in rows.
fn weight(kind: Kind, tensor: &Candidate<'_>) -> GroupedEncoder {
    let (rows, cols) = match *tensor.shape {
        [rows, cols] => (rows as u64, cols as u64),
        _ => (1, tensor.row()),
    };
    let (dtype, step) = (tensor.dtype, step_of(tensor.dtype));
    let grid = match (kind, kind.group()) {
        (_, Some(group)) => Grid::new(rows, cols, 1, group, Arrangement::Block(1, group)),
        (Kind::Fp8Row | Kind::Int8Row, None) => Grid::new(rows, cols, 1, cols, Arrangement::Row),
        _ => Grid::single(rows * cols),
    };
    let integers = Goal::Integer { ratio: Ratio::Quotient(step), low: -128, high: 127, plus: 0 };
    let (codes, rule, goal, scale) = match kind {
        Kind::Fp8 => (Dtype::F8E4M3, Rule::Fp8(dtype), Goal::E4m3(Factor::TimesRounded(step)), ScaleType::F32),
        Kind::Fp8Row => (Dtype::F8E4M3, Rule::Fp8Row, Goal::E4m3(Factor::Times), ScaleType::F32),
        Kind::Nvfp4 => (Dtype::U8, Rule::Nvfp4(dtype), Goal::E2m1KeepsZero, ScaleType::E4m3),
        Kind::Mxfp8 => {
            let goal = Goal::E4m3(Factor::Divided(step_of(crate::catalog::TargetDtype::F32)));
            (Dtype::F8E4M3, Rule::Mxfp8, goal, ScaleType::ExponentField)
        }
        Kind::Int8 | Kind::Int8Row => (Dtype::I8, Rule::Int8(dtype), integers, ScaleType::F32),
    };
    let (scale_dtype, scale_shape) = match kind {
        Kind::Fp8 | Kind::Int8 => (Dtype::F32, Vec::new()),
        Kind::Fp8Row => (Dtype::F32, vec![rows as usize]),
        Kind::Int8Row => (Dtype::F32, vec![rows as usize, 1]),
        Kind::Nvfp4 => (Dtype::F8E4M3, tile_shape(&grid)),
        Kind::Mxfp8 => (Dtype::F8E8M0, tile_shape(&grid)),
    };
    let output = |part: &str, dtype: Dtype, shape: Vec<usize>| EncodedTensor { name: tensor.part(part), dtype, shape };
    let code_shape = match kind {
        Kind::Nvfp4 => vec![rows as usize, cols as usize / 2],
        _ => tensor.shape.to_vec(),
    };
    let mut outputs = vec![output("weight", codes, code_shape), output("weight_scale", scale_dtype, scale_shape)];
    if kind == Kind::Nvfp4 {
        outputs.push(output("weight_scale_2", Dtype::F32, Vec::new()));
    }
    let marker = kind.marker().as_bytes().to_vec();
    outputs.push(output("comfy_quant", Dtype::U8, vec![marker.len()]));
    let bits = if kind == Kind::Nvfp4 { 4 } else { 8 };
    GroupedEncoder {
        outputs,
        layout: Layout::bytes(bits, grid.cols),
        goal,
        rule: Arc::new(rule),
        scale,
        offsets: ZeroPointStorage::Nothing,
        constants: vec![marker],
        seen: None,
        decoder: decoder(kind, grid, scale),
        grid,
    }
}

/// The stored shape of scales in tiles.
fn tile_shape(grid: &Grid) -> Vec<usize> {
    Swizzled::padded(grid.rows, grid.grid_cols).unwrap_or_default().map(|size| size as usize).to_vec()
}

/// The encoder of a weight with its scales in tiles.
fn tiled(kind: Kind, tensor: &Candidate<'_>) -> TiledEncoder {
    let inner = weight(kind, tensor);
    let scales = Swizzled { part: 1, cols: inner.grid.grid_cols };
    let parts = vec![PartOrigin::Stored(0), PartOrigin::Restored(Arc::new(scales)), PartOrigin::Stored(2)];
    let decoder = Arc::new(RestoredParts::around(inner.decoder.clone(), parts));
    TiledEncoder { outputs: inner.outputs.clone(), has_high_nibbles: kind == Kind::Nvfp4, decoder, inner }
}

/// The decoder of codes with scales in rows.
fn decoder(kind: Kind, grid: Grid, scale: ScaleType) -> Arc<dyn TileDecoder> {
    let (layout, meaning) = match kind {
        Kind::Fp8 | Kind::Fp8Row | Kind::Mxfp8 => {
            return Arc::new(Fp8Decoder::new(Fp8Format::E4m3, grid, Some(scale)));
        }
        Kind::Nvfp4 => (Layout::HighNibbles, Meaning::E2m1),
        Kind::Int8 | Kind::Int8Row => (Layout::bytes(8, grid.cols), Meaning::Signed),
    };
    Arc::new(Grouped {
        layout,
        meaning,
        grid,
        scales: Scales { kind: scale, global: (kind == Kind::Nvfp4).then_some(GlobalScale::times(false)) },
        offsets: Offsets::None,
        is_indexed: false,
        arithmetic: Arithmetic::default(),
        description: kind.name().to_owned(),
    })
}
