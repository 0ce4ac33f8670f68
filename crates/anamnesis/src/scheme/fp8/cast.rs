//! Plain casts to eight-bit floats, without scales and without an entry in the configuration.
//!
//! Values are rounded to the nearest code, halves to even, as torch casts them. E4M3 saturates at 448; E5M2 has
//! infinities, and a weight with a finite value that would become infinite is refused.

use std::ops::Range;

use anamnesis_kernels::{self as kernels, Factor, Goal};

use super::{Fp8Decoder, Fp8Format};
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::{Context, EncodedTensor, Grid, TileDecoder, TileEncoder, Window, mishandled};
use crate::scheme::model_class::Layer;
use crate::scheme::quantise::{Candidate, Decision, KEPT_BY_DEFAULT, Keeping, Quantiser, Task, encode, plan_layers};

/// The granule of encoding, in values.
const GRANULE: u64 = 1 << 12;
/// Halfway between the largest E5M2 and the next power of two: values from here on round to infinity.
const E5M2_OVERFLOW: f32 = 61440.0;

/// A type to cast to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Cast {
    E4m3,
    E5m2,
}

impl Cast {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::E4m3 => "fp8-cast",
            Self::E5m2 => "fp8-e5m2",
        }
    }
}

impl Quantiser for Cast {
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        task.options.check_unused(self.name())?;
        plan_layers(task, self.name(), &KEPT_BY_DEFAULT, 1, |tensor| encode(CastEncoder::new(*self, tensor)))
    }

    fn loaded_by(&self) -> &'static str {
        "whatever reads tensors by their type, such as ComfyUI: no configuration describes them"
    }

    /// Nothing: a cast does not depend on the class of the layer.
    fn keeps(&self, _layer: Layer) -> Option<Keeping> {
        None
    }

    fn needs_configuration(&self) -> bool {
        false
    }

    /// Casts mix freely: the type of each tensor describes it.
    fn mixes_with(&self, other: &str) -> bool {
        [Self::E4m3, Self::E5m2].iter().any(|cast| cast.name() == other)
    }
}

#[derive(Debug, Hash)]
struct CastEncoder {
    outputs: [EncodedTensor; 1],
    to: Cast,
    decoder: Fp8Decoder,
}

impl CastEncoder {
    fn new(to: Cast, tensor: &Candidate<'_>) -> Self {
        let (dtype, format) = match to {
            Cast::E4m3 => (Dtype::F8E4M3, Fp8Format::E4m3),
            Cast::E5m2 => (Dtype::F8E5M2, Fp8Format::E5m2),
        };
        let values = tensor.shape.iter().map(|&dim| dim as u64).product();
        let codes = EncodedTensor { name: tensor.output_name.to_owned(), dtype, shape: tensor.shape.to_vec() };
        Self { outputs: [codes], to, decoder: Fp8Decoder::new(format, Grid::single(values), None) }
    }
}

impl TileEncoder for CastEncoder {
    fn outputs(&self) -> &[EncodedTensor] {
        &self.outputs
    }

    fn granule(&self) -> u64 {
        GRANULE
    }

    fn scale_values(&self) -> u64 {
        GRANULE
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>) {
        places.push(Window::between(0, range.clone()));
    }

    fn encode(
        &self,
        range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<usize> {
        let goal = match self.to {
            Cast::E4m3 => Goal::E4m3(Factor::Times),
            Cast::E5m2 => Goal::E5m2(Factor::Times),
        };
        if self.to == Cast::E5m2
            && let Some(place) = values.iter().position(|value| value.abs() >= E5M2_OVERFLOW)
        {
            let (index, value) = (range.start + place as u64, values[place]);
            let why = format!("value {index} is {value}, which would be infinite: E5M2 ends at 57344");
            return Err(AnamnesisError::parse(why));
        }
        let [codes] = outs else { return Err(mishandled("other outputs than it asked for")) };
        Ok(kernels::group_codes(context.level(), goal, values, values.len(), &[1.0], &[], codes))
    }

    fn decoder(&self) -> Option<&dyn TileDecoder> {
        Some(&self.decoder)
    }
}
