//! Quantising to ModelOpt formats: each linear layer by itself, without calibration, so that there are no activation
//! scales.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::scale_rules::Rule;
use crate::catalog::Dtype;
use crate::error::Result;
use crate::scheme::coder::{Arrangement, EncodedTensor, Grid, ScaleType, TileDecoder};
use crate::scheme::fp8::{Fp8Decoder, Fp8Format};
use crate::scheme::grouped::{
    Arithmetic, Factor, GlobalScale, Goal, Grouped, GroupedEncoder, Layout, Meaning, Offsets, Scales, ZeroPointStorage,
    step_of,
};
use crate::scheme::quantise::{
    BY_MODELOPT, Candidate, Decision, Encoding, KEPT_FOR_SERVING, QuantisedModel, Quantiser, Task, encode,
    encode_fused, plan_layers,
};

/// The encodings of this scheme.
pub(crate) static ENCODINGS: [Encoding; 3] = [
    Encoding::with_companions(
        &["modelopt-fp8"],
        "E4M3 weights with one scale each, as ModelOpt has them",
        "FP8",
        &Kind::Fp8,
    ),
    Encoding::with_companions(
        &["modelopt-mxfp8"],
        "E4M3 weights under powers of two, as ModelOpt has them",
        "MXFP8",
        &Kind::Mxfp8,
    ),
    Encoding::with_companions(
        &["modelopt-nvfp4"],
        "E2M1 weights under E4M3 scales, as ModelOpt has them",
        "NVFP4",
        &Kind::Nvfp4,
    ),
];

/// The version of ModelOpt whose arithmetic is followed.
const VERSION: &str = "0.47.0";

/// The `quant_algo` of a model whose layers have different algorithms.
const MIXED: &str = "MIXED_PRECISION";

const KINDS: [Kind; 3] = [Kind::Fp8, Kind::Mxfp8, Kind::Nvfp4];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fp8,
    Mxfp8,
    Nvfp4,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Fp8 => "modelopt-fp8",
            Self::Mxfp8 => "modelopt-mxfp8",
            Self::Nvfp4 => "modelopt-nvfp4",
        }
    }

    const fn algorithm(self) -> &'static str {
        match self {
            Self::Fp8 => "FP8",
            Self::Mxfp8 => "MXFP8",
            // Weights only: activations are not calibrated.
            Self::Nvfp4 => "W4A16_NVFP4",
        }
    }

    /// The group size; `None` if the weight has one scale.
    const fn group(self) -> Option<u64> {
        match self {
            Self::Fp8 => None,
            Self::Mxfp8 => Some(32),
            Self::Nvfp4 => Some(16),
        }
    }
}

impl Quantiser for Kind {
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        task.options.check_unused(self.name())?;
        plan_layers(task, self.name(), &KEPT_FOR_SERVING, self.group().unwrap_or(1), |tensor| match self {
            Self::Nvfp4 => encode_fused(tensor, BY_MODELOPT, weight(*self, tensor)),
            Self::Fp8 | Self::Mxfp8 => encode(weight(*self, tensor)),
        })
    }

    fn loaded_by(&self) -> &'static str {
        "vLLM, SGLang and TensorRT-LLM, as ModelOpt 0.47 exports it; not by transformers"
    }

    fn configuration(&self, model: &QuantisedModel<'_>) -> Option<Value> {
        let others = model.modules_of_other_encodings();
        let mut config = json!({
            "ignore": model.kept_modules(),
            "producer": { "name": "modelopt", "version": VERSION },
            "quant_algo": if others.is_empty() { self.algorithm() } else { MIXED },
            "quant_method": "modelopt",
        });
        let describe = |kind: Self, into: &mut Value| {
            into["quant_algo"] = json!(kind.algorithm());
            if let Some(group) = kind.group() {
                into["group_size"] = json!(group);
            }
        };
        if others.is_empty() {
            describe(*self, &mut config);
            return Some(config);
        }
        let mut layers = Map::new();
        let mut add = |kind: Self, module: &str| describe(kind, layers.entry(module).or_insert_with(|| json!({})));
        model.modules_of_main_encoding().for_each(|module| add(*self, module));
        for (name, modules) in others {
            let kind = KINDS.into_iter().find(|kind| kind.name() == name)?;
            modules.into_iter().for_each(|module| add(kind, module));
        }
        config["quantized_layers"] = layers.into();
        Some(config)
    }

    /// The same in `hf_quant_config.json`, which loaders of ModelOpt checkpoints read first.
    fn documents(&self, model: &QuantisedModel<'_>) -> Vec<(&'static str, Value)> {
        let Some(mut config) = self.configuration(model) else { return Vec::new() };
        let mut quantization = json!({ "exclude_modules": config["ignore"], "kv_cache_quant_algo": null });
        for key in ["quant_algo", "group_size", "quantized_layers"] {
            if let Some(value) = config.get_mut(key) {
                quantization[key] = value.take();
            }
        }
        vec![("hf_quant_config.json", json!({ "producer": config["producer"], "quantization": quantization }))]
    }

    fn mixes_with(&self, other: &str) -> bool {
        KINDS.iter().any(|kind| kind.name() == other)
    }
}

fn weight(kind: Kind, tensor: &Candidate<'_>) -> GroupedEncoder {
    let (rows, cols) = match *tensor.shape {
        [rows, cols] => (rows as u64, cols as u64),
        _ => (1, tensor.row()),
    };
    let grid = match kind.group() {
        None => Grid::single(rows * cols),
        Some(group) => Grid::new(rows, cols, 1, group, Arrangement::Block(1, group)),
    };
    let scale_shape = [grid.grid_rows as usize, grid.grid_cols as usize];
    let output = |part: &str, dtype: Dtype, shape: &[usize]| EncodedTensor {
        name: tensor.part(part),
        dtype,
        shape: shape.to_vec(),
    };
    let (outputs, scale, goal) = match kind {
        Kind::Fp8 => {
            let step = step_of(tensor.dtype);
            let outputs = vec![output("weight", Dtype::F8E4M3, tensor.shape), output("weight_scale", Dtype::F32, &[])];
            (outputs, ScaleType::F32, Goal::E4m3(Factor::Divided(step)))
        }
        Kind::Mxfp8 => {
            let outputs =
                vec![output("weight", Dtype::F8E4M3, tensor.shape), output("weight_scale", Dtype::U8, &scale_shape)];
            (outputs, ScaleType::Exponent, Goal::E4m3(Factor::Times))
        }
        Kind::Nvfp4 => {
            let outputs = vec![
                output("weight", Dtype::U8, &[rows as usize, (cols / 2) as usize]),
                output("weight_scale", Dtype::F8E4M3, &scale_shape),
                output("weight_scale_2", Dtype::F32, &[]),
            ];
            (outputs, ScaleType::E4m3, Goal::E2m1)
        }
    };
    let layout = Layout::bytes(if kind == Kind::Nvfp4 { 4 } else { 8 }, cols);
    GroupedEncoder {
        outputs,
        grid,
        layout,
        goal,
        rule: Arc::new(match kind {
            Kind::Fp8 => Rule::Fp8,
            Kind::Mxfp8 => Rule::Mxfp8,
            Kind::Nvfp4 => Rule::Nvfp4,
        }),
        scale,
        offsets: ZeroPointStorage::Nothing,
        constants: Vec::new(),
        seen: None,
        decoder: decoder(kind, grid, layout, scale),
    }
}

/// The decoder of the encoded weight.
fn decoder(kind: Kind, grid: Grid, layout: Layout, scale: ScaleType) -> Arc<dyn TileDecoder> {
    if kind != Kind::Nvfp4 {
        return Arc::new(Fp8Decoder::new(Fp8Format::E4m3, grid, Some(scale)));
    }
    Arc::new(Grouped {
        layout,
        meaning: Meaning::E2m1NoMinusZero,
        grid,
        scales: Scales { kind: scale, global: Some(GlobalScale::times(false)) },
        offsets: Offsets::None,
        is_indexed: false,
        arithmetic: Arithmetic::default(),
        description: "NVFP4, groups of 16".to_owned(),
    })
}
