//! The markers of ComfyUI's eight-bit floats, which [`fp8`](crate::scheme::fp8) decodes.

use super::format::block_size;
use crate::catalog::Dtype;
use crate::error::Result;
use crate::quant_config::ModuleConfig;
use crate::scheme::coder::Arrangement;

/// The type and scale arrangement of eight-bit floats that a marker describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Float8 {
    pub dtype: Dtype,
    pub arrangement: Arrangement,
}

/// The default rows and columns of a block.
const DEFAULT_BLOCK: u64 = 64;

impl Float8 {
    /// The description in the marker of a module, if it names a format of eight-bit floats.
    pub(crate) fn marked(module: &ModuleConfig<'_>) -> Result<Option<Self>> {
        let Some(marker) = module.marker() else { return Ok(None) };
        Ok(match marker.text(&["format"])? {
            Some("float8_e4m3fn") => Some(Self { dtype: Dtype::F8E4M3, arrangement: Arrangement::Tensor }),
            Some("float8_e5m2") => Some(Self { dtype: Dtype::F8E5M2, arrangement: Arrangement::Tensor }),
            Some("float8_e4m3fn_rowwise") => Some(Self { dtype: Dtype::F8E4M3, arrangement: Arrangement::Row }),
            Some("float8_e4m3fn_blockwise") => {
                let size = block_size(marker, "group_size", DEFAULT_BLOCK)?;
                Some(Self { dtype: Dtype::F8E4M3, arrangement: Arrangement::Block(size, size) })
            }
            _ => None,
        })
    }
}
