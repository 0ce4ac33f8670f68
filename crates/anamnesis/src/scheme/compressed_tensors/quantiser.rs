//! Quantising to compressed-tensors formats: each linear layer by itself, without calibration.

use serde_json::Value;

use super::described::quantization_config;
use super::encoders::weight;
use super::preset::{Codes, Preset};
use super::spec::Strategy;
use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::quantise::{
    BY_LLM_COMPRESSOR, Decision, Encoding, KEPT_FOR_SERVING, Packing, QuantisedModel, Quantiser, Task, encode,
    encode_fused, plan_layers,
};

macro_rules! presets {
    ($($names:expr, $short:literal, $about:literal: $codes:expr, $strategy:expr, $sizable:literal, $activations:literal;)*) => {
        static PRESETS: [Preset; [$($short),*].len()] = [$(Preset {
            name: $names[0], codes: $codes, strategy: $strategy, is_sizable: $sizable, activations: $activations,
        }),*];

        /// The encodings of this scheme.
        pub(crate) static ENCODINGS: [Encoding; PRESETS.len()] = {
            let mut index = 0;
            [$(Encoding {
                names: &$names,
                about: $about,
                short: $short,
                packing: Packing::Companions,
                quantiser: { index += 1; &PRESETS[index - 1] },
            }),*]
        };
    };
}

presets! {
    ["fp8-channel", "fp8-dynamic"], "FP8", "E4M3 weights with a scale per row (compressed-tensors)":
        Codes::Float, Strategy::Channel, false, true;
    ["fp8-tensor"], "FP8", "E4M3 weights with one scale each (compressed-tensors)":
        Codes::Float, Strategy::Tensor, false, false;
    ["fp8-block"], "FP8", "E4M3 weights in 128x128 blocks (compressed-tensors)":
        Codes::Float, Strategy::Block(128, 128), false, true;
    ["w8a8"], "INT8", "INT8 weights with a scale per row (compressed-tensors)":
        Codes::Int8, Strategy::Channel, true, true;
    ["w8a16"], "INT8", "packed INT8 weights in groups of 128 (compressed-tensors)":
        Codes::Packed { bits: 8, symmetric: true }, Strategy::Group(128), true, false;
    ["w8a16-asym"], "INT8", "packed INT8 weights with zero points (compressed-tensors)":
        Codes::Packed { bits: 8, symmetric: false }, Strategy::Group(128), true, false;
    ["w4a16"], "INT4", "packed INT4 weights in groups of 128 (compressed-tensors)":
        Codes::Packed { bits: 4, symmetric: true }, Strategy::Group(128), true, false;
    ["w4a16-asym"], "INT4", "packed INT4 weights with zero points (compressed-tensors)":
        Codes::Packed { bits: 4, symmetric: false }, Strategy::Group(128), true, false;
    ["w3a16"], "INT3", "packed INT3 weights in groups of 128 (compressed-tensors)":
        Codes::Packed { bits: 3, symmetric: true }, Strategy::Group(128), true, false;
    ["w2a16"], "INT2", "packed INT2 weights in groups of 128 (compressed-tensors)":
        Codes::Packed { bits: 2, symmetric: true }, Strategy::Group(128), true, false;
    ["mxfp4"], "MXFP4", "E2M1 weights under powers of two (compressed-tensors)":
        Codes::Mxfp4, Strategy::Group(32), false, false;
    ["mxfp8"], "MXFP8", "E4M3 weights under powers of two (compressed-tensors)":
        Codes::Mxfp8, Strategy::Group(32), false, false;
    ["nvfp4"], "NVFP4", "E2M1 weights under E4M3 scales (compressed-tensors)":
        Codes::Nvfp4, Strategy::Group(16), false, false;
}

/// The preset of an encoding.
fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Quantiser for Preset {
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        task.options.check_only_groups(self.name)?;
        let strategy = self.strategy(task.options)?;
        let group = match strategy {
            Strategy::Group(values) => values,
            _ => 1,
        };
        plan_layers(task, self.name, &KEPT_FOR_SERVING, group, |tensor| match self.codes {
            Codes::Nvfp4 => encode_fused(tensor, BY_LLM_COMPRESSOR, weight(self, strategy, tensor)),
            _ => encode(weight(self, strategy, tensor)),
        })
    }

    fn loaded_by(&self) -> &'static str {
        "transformers 5.22 with compressed-tensors 0.20, vLLM and SGLang"
    }

    /// transformers joins experts from codes and scales, and ignores their other parts.
    fn loaded_with_experts_by(&self) -> &'static str {
        match self.codes {
            Codes::Float if !matches!(self.strategy, Strategy::Block(..)) => self.loaded_by(),
            Codes::Packed { symmetric: true, .. } | Codes::Mxfp4 => self.loaded_by(),
            Codes::Float | Codes::Int8 | Codes::Packed { .. } | Codes::Mxfp8 => {
                "vLLM and SGLang; not by transformers 5.22, which cannot join such experts"
            }
            Codes::Nvfp4 => {
                "vLLM and SGLang; not by transformers 5.22, which ignores the global scales of experts and computes wrong numbers"
            }
        }
    }

    /// compressed-tensors decodes formats whose scales are not floats of the model's type to BF16.
    fn required_dtype(&self) -> Option<TargetDtype> {
        matches!(self.codes, Codes::Mxfp4 | Codes::Mxfp8 | Codes::Nvfp4).then_some(TargetDtype::BF16)
    }

    fn mixes_with(&self, other: &str) -> bool {
        preset(other).is_some()
    }

    fn configuration(&self, model: &QuantisedModel<'_>) -> Option<Value> {
        let others = model.modules_of_other_encodings().into_iter();
        let others: Vec<_> = others.filter_map(|(name, modules)| Some((preset(name)?, modules))).collect();
        Some(quantization_config(self, &others, model))
    }
}
