//! The geometry of a weight or embedding.

use std::sync::Arc;

use crate::catalog::{Dtype, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, TensorRole, Weight};
use crate::scheme::coder::{Arrangement, Coding, Grid, Recipe, ScaleType};
use crate::scheme::grouped::{Arithmetic, Grouped, Layout, Meaning, Offsets, Scales};

/// The method in a configuration.
pub(super) const METHOD: &str = "gemma";

/// The stored tensors of a weight.
pub(super) struct Parts {
    /// The name of the module.
    module: String,
    /// The suffix of its scales.
    scale_suffix: &'static str,
    codes: TensorId,
    scale: Option<TensorId>,
}

impl Parts {
    pub(super) fn take(claims: &mut Claims<'_>, codes: TensorId, [suffix, scale_suffix]: [&'static str; 2]) -> Self {
        let name = &claims.catalog.get(codes).name;
        let module = name.strip_suffix(suffix).unwrap_or(name).to_owned();
        claims.take(codes, TensorRole::Quantized);
        let scale = claims.take_companion(&format!("{module}{scale_suffix}"), TensorRole::Scale);
        Self { module, scale_suffix, codes, scale }
    }
}

pub(super) fn weight(claims: &Claims<'_>, parts: &Parts) -> Result<Weight> {
    let catalog = claims.catalog;
    let (codes, module) = (catalog.get(parts.codes), claims.config.module(&parts.module));
    if let Some(left) = module.exclusion() {
        return Err(AnamnesisError::parse(format!("it is packed in bytes, but {left}")));
    }
    if let Some(problem) = module.undecided() {
        return Err(AnamnesisError::parse(format!("its bits cannot be determined: {problem}")));
    }
    let found = module.args().needed_integer(&["num_bits"])?;
    let found = found.ok_or_else(|| AnamnesisError::parse("the configuration has no num_bits for it"))?;
    let (bits, dtype) = match found.value {
        2 => (2, Dtype::U8),
        4 => (4, Dtype::U8),
        8 => (8, Dtype::I8),
        other => {
            let detail = format!("{}: num_bits is {other}; 2, 4 and 8 are known", found.place);
            return Err(AnamnesisError::unsupported("Gemma quantisation", detail));
        }
    };
    if codes.dtype != dtype {
        let text = format!("it is {}, and codes of {bits} bits ({}) are {dtype}", codes.dtype, found.place);
        return Err(AnamnesisError::parse(text));
    }
    let scale_name = format!("{}{}", parts.module, parts.scale_suffix);
    let scale_id = parts.scale.ok_or_else(|| claims.missing(&scale_name))?;
    let scale = catalog.get(scale_id);
    let misfit = || {
        let (name, dtype, shape) = (quoted(&scale.name), scale.dtype, &scale.shape);
        AnamnesisError::parse(format!(
            "{name} is {dtype} {shape:?}, which does not fit codes of shape {:?}",
            codes.shape
        ))
    };
    let (&[rows, bytes], &[scale_rows, blocks]) = (&codes.shape[..], &scale.shape[..]) else { return Err(misfit()) };
    let [rows, bytes, blocks] = [rows, bytes, blocks].map(|size| size as u64);
    let is_linear = parts.scale_suffix == ".weight_scale";
    let cols = width(bytes, bits, claims.config.model_sizes());
    let fits = scale_rows as u64 == rows && blocks > 0 && (!is_linear || blocks == 1) && cols.is_multiple_of(blocks);
    if !fits || rows == 0 || cols == 0 || scale.dtype != Dtype::F32 {
        return Err(misfit());
    }
    let block = cols / blocks;
    let name = format!("{}.weight", parts.module);
    if name != codes.name {
        claims.check_output(&name)?;
    }
    let arrangement = if blocks == 1 { Arrangement::Row } else { Arrangement::Block(1, block) };
    let decoder = Grouped {
        layout: Layout::bytes(bits, cols),
        meaning: if bits == 8 { Meaning::Signed } else { Meaning::Unsigned },
        grid: Grid::new(rows, cols, 1, block, arrangement),
        scales: Scales { kind: ScaleType::F32, global: None },
        offsets: if bits == 8 { Offsets::None } else { Offsets::Constant(1 << (bits - 1)) },
        is_indexed: false,
        arithmetic: Arithmetic::default(),
        description: format!("Gemma {bits}-bit, blocks of {block}"),
    };
    let values = rows.checked_mul(cols).ok_or_else(misfit)?;
    Ok(Weight {
        name,
        shape: vec![rows as usize, cols as usize],
        values,
        scheme: QuantScheme::Named("Gemma quantisation"),
        blocks: Some(Blocks { bits, size: block, nested: false }),
        coding: Coding {
            format: METHOD.to_owned(),
            bits: Some(bits),
            group_size: Some(block),
            symmetric: Some(true),
            evidence: claims.evidence(&["quant_method"]),
            ..Coding::default()
        },
        parts: vec![parts.codes, scale_id],
        recipe: Recipe::Ready(Arc::new(decoder)),
    })
}

/// The width of rows of this many bytes: as many codes as they hold, unless only a smaller width is one of the model's.
fn width(bytes: u64, bits: u8, sizes: &[u64]) -> u64 {
    let per_byte = 8 / u64::from(bits);
    let full = bytes.saturating_mul(per_byte);
    let fits = |size: &&u64| size.div_ceil(per_byte) == bytes;
    let mut fitting = sizes.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(one), None) => *one,
        _ => full,
    }
}

#[cfg(test)]
mod tests {
    use super::width;

    #[test]
    fn padded_rows_have_the_only_width_of_the_model_that_fits() {
        assert_eq!(width(6, 4, &[]), 12);
        assert_eq!(width(6, 4, &[11, 40]), 11);
        assert_eq!(width(6, 4, &[11, 12]), 12);
        assert_eq!(width(6, 2, &[22]), 22);
    }
}
