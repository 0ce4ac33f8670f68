//! `mxfp6-pack-quantized`: six-bit floats (E2M3), four in three bytes, with a power of two for every 32.
//!
//! Every value of E2M3 is one of E4M3, so codes are restored to that type and decoded like it.

use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::spread_bits;

use super::parts::Parts;
use super::scales::Rows;
use super::spec::{Spec, Strategy};
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, Weight};
use crate::scheme::coder::{
    Coding, Context, PartOrigin, Recipe, Restore, RestoredParts, ScaleType, Window, filled, mishandled,
};
use crate::scheme::fp8::{Fp8Decoder, Fp8Format};

const FORMAT: &str = "mxfp6-pack-quantized";
/// Values that share a scale.
const GROUP: u64 = 32;
const BITS: u8 = 6;

/// The E4M3 code of each E2M3 code: the exponent's bias is 7 in place of 1, and subnormal values become normal.
const E4M3: [u8; 64] = {
    let mut codes = [0; 64];
    let mut code = 0;
    while code < 64 {
        let (sign, exponent, fraction) = ((code as u8 & 32) << 2, code as u8 >> 3 & 3, code as u8 & 7);
        codes[code] = sign
            | match (exponent, fraction) {
                (0, 0) => 0,
                // One eighth times the fraction: 2^-3 has the exponent 4.
                (0, 1) => 4 << 3,
                (0, 2 | 3) => 5 << 3 | (fraction & 1) << 2,
                (0, _) => 6 << 3 | (fraction & 3) << 1,
                (exponent, fraction) => (exponent + 6) << 3 | fraction,
            };
        code += 1;
    }
    codes
};

pub(super) fn fp6_weight(claims: &Claims<'_>, parts: &Parts, spec: &Spec) -> Result<Weight> {
    spec.check_format(&[FORMAT])?;
    spec.check_type(true, |bits| bits == BITS)?;
    if spec.strategy != Strategy::Group(GROUP) || !spec.symmetric {
        let place = &spec.place;
        return Err(AnamnesisError::parse(format!("{place} does not say that it is symmetric with groups of {GROUP}")));
    }
    let others = [parts.zero_point, parts.shape, parts.g_idx, parts.global_scale];
    parts.refuse(claims, FORMAT, &others)?;
    let codes = claims.catalog.get(parts.codes);
    let (scale_id, scale) = parts.needed(claims, parts.scale, "weight_scale")?;
    let (rows, bytes) = Rows::of(codes)?;
    let cols = bytes / 3 * 4;
    if !rows.stack.is_empty() || !bytes.is_multiple_of(3) || !cols.is_multiple_of(GROUP) {
        let shape = &codes.shape;
        return Err(AnamnesisError::parse(format!(
            "its shape {shape:?} does not hold groups of {GROUP} codes of six bits"
        )));
    }
    if scale.dtype != Dtype::U8 {
        return Err(AnamnesisError::parse(format!("{} is {}; U8 is needed", quoted(&scale.name), scale.dtype)));
    }
    rows.check_scale(scale, spec.strategy)?;
    let grid = rows.grid(cols, spec.strategy, &scale.shape)?;
    let inner = Fp8Decoder::new(Fp8Format::E4m3, grid, Some(ScaleType::Exponent));
    let origins = vec![PartOrigin::Restored(Arc::new(SixBits { cols })), PartOrigin::Stored(1)];
    Ok(Weight {
        name: parts.output_name(claims),
        shape: rows.shape(rows.rows, cols),
        values: rows.rows.saturating_mul(cols),
        scheme: QuantScheme::Named("MXFP6 (compressed-tensors)"),
        blocks: Some(Blocks { bits: BITS, size: GROUP, nested: false }),
        coding: Coding {
            format: FORMAT.to_owned(),
            bits: Some(BITS),
            group_size: Some(GROUP),
            block_shape: None,
            symmetric: Some(true),
            evidence: claims.evidence(&["config_groups"]),
        },
        parts: vec![parts.codes, scale_id],
        recipe: Recipe::Ready(Arc::new(RestoredParts::around(Arc::new(inner), origins))),
    })
}

/// Restores codes of six bits to E4M3. Four of them fill three bytes, so rows follow each other without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SixBits {
    cols: u64,
}

impl Restore for SixBits {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        windows.push(Window::between(0, plain.start / 4 * 3..plain.end.div_ceil(4) * 3));
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], context: &mut Context) -> Result<()> {
        let [stored] = inputs else { return Err(mishandled("other windows than it asked for")) };
        if !plain.start.is_multiple_of(4) {
            return Err(mishandled("a range that cuts a byte"));
        }
        filled(spread_bits(context.level(), stored, BITS, out), out.len())?;
        out.iter_mut().for_each(|code| *code = E4M3[usize::from(*code & 63)]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::E4M3;
    use anamnesis_kernels::{E4m3, Format8};

    #[test]
    fn every_code_keeps_its_value() {
        for code in 0..64u8 {
            let (exponent, fraction) = (i32::from(code >> 3 & 3), f32::from(code & 7));
            let magnitude = match exponent {
                0 => fraction / 8.0,
                _ => (8.0 + fraction) / 8.0 * 2f32.powi(exponent - 1),
            };
            let value = if code & 32 == 0 { magnitude } else { -magnitude };
            assert_eq!(E4m3::decode(E4M3[usize::from(code)]).to_bits(), value.to_bits(), "{code}");
        }
    }
}
