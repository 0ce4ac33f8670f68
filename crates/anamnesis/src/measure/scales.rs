//! The stored scales of quantised weights: a NaN or infinity in them spoils all values of a group.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::chosen::round_slice;

use crate::catalog::{Dtype, StoredTensor, TargetDtype, TensorId};
use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::pipeline::{Origin, Values};
use crate::scheme::coder::{mishandled, rounded};
use crate::scheme::{Context, ScaleType, TensorRole, TileDecoder, Window};

/// Decodes scales that are stored in a float type. Powers of two in `U8` are not among them: their type does not
/// distinguish them from integers.
#[derive(Debug, Clone, Copy, Hash)]
struct ScaleDecoder(ScaleType);

impl ScaleDecoder {
    fn of(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F8E8M0 => Some(Self(ScaleType::E8m0)),
            Dtype::F8E4M3 => Some(Self(ScaleType::E4m3)),
            other => ScaleType::of_float(other).map(Self),
        }
    }
}

impl TileDecoder for ScaleDecoder {
    fn granule(&self) -> u64 {
        1
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let each = self.0.bytes();
        windows.push(Window::run(0, elements.start * each, (elements.end - elements.start) * each));
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let &[bytes] = inputs else { return Err(mishandled("other windows than it asked for")) };
        let level = context.level();
        let values = context.floats((elements.end - elements.start) as usize);
        self.0.widen(level, bytes, values)?;
        Ok(round_slice(level, rounded(target), values, out))
    }

    fn describe(&self) -> String {
        "scales".to_owned()
    }
}

impl Checkpoint {
    /// The weight of every stored tensor that belongs to one.
    pub(super) fn weights_of_parts(&self) -> HashMap<TensorId, &str> {
        let weights = self.claimed().weights.iter();
        weights.flat_map(|weight| weight.parts.iter().map(|id| (*id, weight.name.as_str()))).collect()
    }

    /// The stored scales, offsets and lookup tables of quantised weights that consist of floats.
    pub(super) fn stored_scales(&self) -> impl Iterator<Item = (TensorId, &StoredTensor, Values)> {
        let roles = &self.claimed().roles;
        self.catalog.iter().zip(roles).filter_map(|((id, tensor), role)| {
            let is_scale = matches!(
                role,
                TensorRole::Scale | TensorRole::NestedScale | TensorRole::ZeroPoint | TensorRole::QuantMap
            );
            let decoder = ScaleDecoder::of(tensor.dtype).filter(|_| is_scale)?;
            let values = Values {
                decoder: Arc::new(decoder),
                parts: vec![tensor.extent],
                sources: vec![id],
                dtype: TargetDtype::F32,
                elements: tensor.elements(),
                origin: Origin::Plain,
            };
            Some((id, tensor, values))
        })
    }
}
