//! Decoding GGUF: whole files to safetensors, single tensors and slices of blocks to floats.

use std::path::Path;

use super::slices::decode;
use super::{Bf16Out, OutputElement, RememberOptions};
use crate::catalog::{BlockType, Dtype, Rounding, Selection, TargetDtype};
use crate::compat::parse::gguf::{GgufTensorInfo, GgufType, ParsedGguf};
use crate::container::safetensors::Safetensors;
use crate::convert::{ClaimedCatalog, OutputRequest, Outputs, plan_outputs, to_bytes, write_file};
use crate::error::{AnamnesisError, Result};
use crate::pipeline::Plan;
use crate::quant_config::QuantConfig;
use crate::scheme::coder::filled;
use crate::scheme::ggml::GgmlDecoder;
use crate::scheme::{self, Context, TileDecoder};

/// Decodes `n_elements` values of whole blocks, in ggml's own order of operations.
///
/// # Errors
/// `Parse` if the elements are not whole blocks or `data` has another length than they need, `Unsupported`
/// for scalar types.
pub fn dequantize_gguf<E: OutputElement>(data: &[u8], dtype: GgufType, n_elements: usize) -> Result<Vec<u8>> {
    let decoder = block_decoder(data, dtype, n_elements)?;
    decode::<E>(&decoder, n_elements, &[data])
}

/// [`dequantize_gguf`] to BF16.
///
/// # Errors
/// As [`dequantize_gguf`].
pub fn dequantize_gguf_to_bf16(data: &[u8], dtype: GgufType, n_elements: usize) -> Result<Vec<u8>> {
    dequantize_gguf::<Bf16Out>(data, dtype, n_elements)
}

/// Maximum output size of one block: the longest block type, as F32.
const MAX_BLOCK_BYTES: usize = BlockType::MAX_ELEMENTS as usize * 4;

/// Decodes block by block; `sink` is called with the output of each block. Nothing is allocated.
///
/// # Errors
/// As [`dequantize_gguf`]; an error of `sink` stops decoding and is returned.
pub fn dequantize_gguf_blocks<E: OutputElement, F: FnMut(&[u8]) -> Result<()>>(
    data: &[u8],
    dtype: GgufType,
    n_elements: usize,
    mut sink: F,
) -> Result<()> {
    let decoder = block_decoder(data, dtype, n_elements)?;
    let elements = dtype.block_size();
    let mut buffer = [0; MAX_BLOCK_BYTES];
    let out = &mut buffer[..elements * E::BYTES];
    let mut context = Context::default();
    for block in data.chunks_exact(dtype.type_size().unwrap_or(1)) {
        filled(decoder.decode(0..elements as u64, &[block], E::TARGET, out, &mut context)?, out.len())?;
        sink(out)?;
    }
    Ok(())
}

/// [`dequantize_gguf_blocks`] to BF16.
///
/// # Errors
/// As [`dequantize_gguf_blocks`].
pub fn dequantize_gguf_blocks_to_bf16<F: FnMut(&[u8]) -> Result<()>>(
    data: &[u8],
    dtype: GgufType,
    n_elements: usize,
    sink: F,
) -> Result<()> {
    dequantize_gguf_blocks::<Bf16Out, F>(data, dtype, n_elements, sink)
}

fn block_decoder(data: &[u8], dtype: GgufType, n_elements: usize) -> Result<GgmlDecoder> {
    let Some(Dtype::Block(block)) = dtype.dtype() else {
        return Err(AnamnesisError::unsupported(
            "GGUF",
            format!("{dtype} is not a block type, there is nothing to decode"),
        ));
    };
    let expected = dtype.byte_size_for_n_elements(n_elements as u64)?;
    if expected != data.len() as u64 {
        let why = format!("{n_elements} elements of {dtype} take {expected} bytes, not {}", data.len());
        return Err(AnamnesisError::parse(why));
    }
    Ok(GgmlDecoder::new(block))
}

impl ParsedGguf {
    /// Decodes one tensor to BF16.
    ///
    /// # Errors
    /// `Unsupported` if its type is a scalar or unknown, `Parse` if it is not a tensor of this file.
    pub fn dequantize_tensor(&self, info: &GgufTensorInfo) -> Result<Vec<u8>> {
        self.dequantize_tensor_as::<Bf16Out>(info)
    }

    /// Decodes one tensor.
    ///
    /// # Errors
    /// As [`dequantize_tensor`](Self::dequantize_tensor).
    pub fn dequantize_tensor_as<E: OutputElement>(&self, info: &GgufTensorInfo) -> Result<Vec<u8>> {
        let elements = usize::try_from(info.num_elements())
            .map_err(|_| AnamnesisError::limit("available_memory", format!("{} elements", info.num_elements())))?;
        let data = self.tensor_data(info)?;
        if elements == 0 {
            return Ok(Vec::new());
        }
        dequantize_gguf::<E>(&data, info.dtype, elements)
    }

    fn plan(&self, target: TargetDtype) -> Result<Plan> {
        let catalog = self.catalog()?;
        let claimed = scheme::claim(&catalog, &QuantConfig::default(), &|_| None, false, Rounding::Once);
        let (selection, sources) = (Selection::new(), std::slice::from_ref(&self.source));
        let input = ClaimedCatalog { catalog: &catalog, sources, claimed: &claimed };
        let Outputs { planned, .. } = plan_outputs(input, &OutputRequest::decode(target, &selection))?;
        Plan::new(planned, &Safetensors, None)
    }

    /// Writes a safetensors file with all blocks decoded to `target`; scalars keep their type, shapes are row-major.
    ///
    /// # Errors
    /// `Unsupported` if a tensor's type is not decoded, `Io` if a file cannot be read or written. No output is
    /// left behind then.
    pub fn remember(&self, output: impl AsRef<Path>, target: TargetDtype) -> Result<()> {
        self.remember_with_options(output, target, RememberOptions::new())
    }

    /// [`remember`](Self::remember) with options.
    ///
    /// # Errors
    /// As [`remember`](Self::remember), and `Cancelled`.
    pub fn remember_with_options(
        &self,
        output: impl AsRef<Path>,
        target: TargetDtype,
        options: RememberOptions,
    ) -> Result<()> {
        let sources = std::slice::from_ref(&self.source);
        write_file(&self.plan(target)?, sources, output.as_ref(), &options, &mut |_| {}).map(drop)
    }

    /// The bytes that [`remember`](Self::remember) would write.
    ///
    /// # Errors
    /// As [`remember`](Self::remember), and `LimitExceeded` if the output exceeds the limits given at parsing.
    pub fn remember_to_bytes(&self, target: TargetDtype) -> Result<Vec<u8>> {
        self.remember_to_bytes_with_options(target, RememberOptions::new())
    }

    /// [`remember_to_bytes`](Self::remember_to_bytes) with options.
    ///
    /// # Errors
    /// As [`remember_to_bytes`](Self::remember_to_bytes), and `Cancelled`.
    pub fn remember_to_bytes_with_options(&self, target: TargetDtype, options: RememberOptions) -> Result<Vec<u8>> {
        let sources = std::slice::from_ref(&self.source);
        to_bytes(&self.plan(target)?, sources, &self.limits, &options, &mut |_| {}).map(|(bytes, _)| bytes)
    }
}
