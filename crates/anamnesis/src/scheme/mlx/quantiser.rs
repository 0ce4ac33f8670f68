//! Quantising to MLX by its arithmetic, in the files of mlx-lm: linear layers, embeddings and the head, each by itself.
//!
//! Like in mlx-lm, a matrix whose rows do not divide into groups is kept, and routers get eight bits.

use std::sync::Arc;

use serde_json::{Value, json};

use super::mode::{Kind, Mode};
use super::scale_rules::Rule;
use super::weight::decoder;
use crate::catalog::{Dtype, Metadata, MetadataValue};
use crate::error::{Request, Result};
use crate::scheme::coder::{Arrangement, EncodedTensor, Grid, ScaleType};
use crate::scheme::grouped::{Factor, Goal, GroupedEncoder, Layout, Ratio, Step, ZeroPointStorage};
use crate::scheme::model_class::Layer;
use crate::scheme::quantise::{
    Candidate, Decision, Encoding, GroupSize, KEPT_ALWAYS, Keeping, Packing, QuantiseOptions, QuantisedModel,
    Quantiser, Task, encode, plan_layers,
};

macro_rules! modes {
    ($($name:literal $short:literal $kind:ident $bits:literal $about:literal;)*) => {
        static MODES: [NamedMode; [$($bits),*].len()] = [$(NamedMode { name: $name, kind: Kind::$kind, bits: $bits }),*];

        /// The encodings of this scheme.
        pub(crate) static ENCODINGS: [Encoding; MODES.len()] = {
            let mut index = 0;
            [$(Encoding {
                names: &[$name],
                about: $about,
                short: $short,
                packing: Packing::Companions,
                quantiser: { index += 1; &MODES[index - 1] },
            }),*]
        };
    };
}

modes! {
    "mlx-4bit" "MLX4" Affine 4 "4-bit weights of MLX with scales and biases";
    "mlx-2bit" "MLX2" Affine 2 "2-bit weights of MLX with scales and biases";
    "mlx-3bit" "MLX3" Affine 3 "3-bit weights of MLX with scales and biases";
    "mlx-5bit" "MLX5" Affine 5 "5-bit weights of MLX with scales and biases";
    "mlx-6bit" "MLX6" Affine 6 "6-bit weights of MLX with scales and biases";
    "mlx-8bit" "MLX8" Affine 8 "8-bit weights of MLX with scales and biases";
    "mlx-mxfp4" "MXFP4" Mxfp4 4 "E2M1 weights under powers of two, as MLX has them";
    "mlx-mxfp8" "MXFP8" Mxfp8 8 "E4M3 weights under powers of two, as MLX has them";
    "mlx-nvfp4" "NVFP4" Nvfp4 4 "E2M1 weights under E4M3 scales, as MLX has them";
}

/// A mode that can be requested by name.
struct NamedMode {
    name: &'static str,
    kind: Kind,
    bits: u8,
}

/// The mode of this name.
fn mode_named(name: &str) -> Option<&'static NamedMode> {
    MODES.iter().find(|mode| mode.name == name)
}

/// The mode of routers.
const ROUTER: Mode = Mode { kind: Kind::Affine, bits: 8, group: 64 };
const ROUTER_END: &str = ".mlp.gate";

impl NamedMode {
    fn mode(&self, options: &QuantiseOptions) -> Result<Mode> {
        let allowed = self.kind.groups();
        let group = match options.groups.size {
            None => allowed[0],
            Some(GroupSize::Values(values)) if allowed.contains(&values.into()) => values.into(),
            Some(_) => {
                let (what, why) = (format!("a group size for {}", self.name), format!("{allowed:?} are possible"));
                return Err(Request::Contradiction { what, why }.into());
            }
        };
        Ok(Mode { kind: self.kind, bits: self.bits, group })
    }
}

impl Quantiser for NamedMode {
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        task.options.check_only_groups(self.name)?;
        let default = self.mode(task.options)?;
        plan_layers(task, self.name, &KEPT_ALWAYS, 1, |tensor| {
            let is_router = tensor.requested.is_none() && tensor.module().ends_with(ROUTER_END);
            let mode = if is_router && tensor.row().is_multiple_of(ROUTER.group) { ROUTER } else { default };
            match tensor.row().is_multiple_of(mode.group) && tensor.row() >= 32 {
                true => encode(weight(mode, tensor)),
                false => Ok(Decision::Keep(Keeping::Indivisible)),
            }
        })
    }

    fn loaded_by(&self) -> &'static str {
        "mlx-lm 0.32, for the architectures it has"
    }

    /// Embeddings and heads are quantised too.
    fn keeps(&self, layer: Layer) -> Option<Keeping> {
        match layer {
            Layer::Conv1d => Some(Keeping::Transposed),
            Layer::Other => Some(Keeping::NotReplaced),
            _ => None,
        }
    }

    fn configuration(&self, model: &QuantisedModel<'_>) -> Option<Value> {
        let mode = self.mode(model.options).ok()?;
        let arguments = |mode: Mode| json!({ "bits": mode.bits, "group_size": mode.group, "mode": mode.kind.name() });
        let mut config = arguments(mode);
        for router in model.modules_of_main_encoding().filter(|module| module.ends_with(ROUTER_END) && mode != ROUTER) {
            config[router] = arguments(ROUTER);
        }
        for (name, modules) in model.modules_of_other_encodings() {
            let mode = mode_named(name)?.mode(model.options).ok()?;
            modules.into_iter().for_each(|module| config[module] = arguments(mode));
        }
        Some(config)
    }

    fn mixes_with(&self, other: &str) -> bool {
        mode_named(other).is_some()
    }

    fn members(&self) -> &'static [&'static str] {
        &["quantization", "quantization_config"]
    }

    fn metadata(&self, _model: &QuantisedModel<'_>) -> Metadata {
        Metadata::from([("format".to_owned(), MetadataValue::String("mlx".to_owned()))])
    }
}

fn weight(mode: Mode, tensor: &Candidate<'_>) -> GroupedEncoder {
    let (rows, cols) = match *tensor.shape {
        [rows, cols] => (rows as u64, cols as u64),
        _ => (1, tensor.row()),
    };
    let grid = Grid::new(rows, cols, 1, mode.group, Arrangement::Block(1, mode.group));
    let scale_shape = [rows as usize, grid.grid_cols as usize];
    let output = |part: &str, dtype: Dtype, shape: &[usize]| EncodedTensor {
        name: tensor.part(part),
        dtype,
        shape: shape.to_vec(),
    };
    let dtype = tensor.dtype;
    let (scale, scale_dtype) = match mode.kind {
        Kind::Affine => (ScaleType::of_target(dtype), dtype.dtype()),
        Kind::Mxfp4 | Kind::Mxfp8 => (ScaleType::Exponent, Dtype::U8),
        Kind::Nvfp4 => (ScaleType::E4m3, Dtype::U8),
    };
    let words = (cols * u64::from(mode.bits) / 32) as usize;
    let mut outputs =
        vec![output("weight", Dtype::U32, &[rows as usize, words]), output("scales", scale_dtype, &scale_shape)];
    let mut offsets = ZeroPointStorage::Nothing;
    let (rule, goal) = match mode.kind {
        Kind::Affine => {
            outputs.push(output("biases", scale_dtype, &scale_shape));
            offsets = ZeroPointStorage::Stored(scale);
            let (ratio, high) = (Ratio::Difference, (1 << mode.bits) - 1);
            (Rule::Affine { bits: mode.bits }, Goal::Integer { ratio, low: 0, high, plus: 0 })
        }
        Kind::Mxfp4 => (Rule::Power { largest: 6, dtype }, Goal::E2m1TiesToZero),
        Kind::Mxfp8 => (Rule::Power { largest: 448, dtype }, Goal::E4m3(Factor::Divided(Step::F32))),
        Kind::Nvfp4 => (Rule::Nvfp4(dtype), Goal::E2m1TiesToZero),
    };
    GroupedEncoder {
        outputs,
        grid,
        layout: Layout::words(mode.bits, cols),
        goal,
        rule: Arc::new(rule),
        scale,
        offsets,
        constants: Vec::new(),
        seen: None,
        decoder: decoder(mode, rows, cols, scale),
    }
}
