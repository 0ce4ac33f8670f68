//! The geometry of an EXL3 weight, from the shapes of its parts.

use std::sync::Arc;

use anamnesis_kernels::TrellisCodebook;

use super::decoder::{BLOCK, Side, Trellis};
use super::padding::check_end;
use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Claims, ModelSizes, QuantScheme, TensorRole, Weight};
use crate::scheme::coder::{Coding, Prepare, Prepared, Recipe};

/// The suffix of the codes.
pub(super) const CODES: &str = ".trellis";

const NAME: &str = "EXL3";
/// Rows and columns of a tile, and its values of 16 bits per bit of a weight.
const TILE: u64 = 16;

/// The suffixes of the markers of codebooks, with their values.
const CODEBOOKS: [(&str, u32, TrellisCodebook); 2] =
    [(".mcg", 0xCBAC_1FED, TrellisCodebook::Mcg), (".mul1", 0x83DC_D12D, TrellisCodebook::Mul1)];

/// The codebook of weights without a marker, as configurations name it.
const UNMARKED: &str = "3inst";

/// The stored tensors of a weight.
pub(super) struct Parts {
    module: String,
    codes: TensorId,
    /// Factors and signs of the inputs, then of the outputs.
    sides: [[Option<TensorId>; 2]; 2],
    codebooks: [Option<TensorId>; 2],
}

/// The suffixes of factors and signs of each side.
const SIDES: [[&str; 2]; 2] = [[".suh", ".su"], [".svh", ".sv"]];

impl Parts {
    pub(super) fn take(claims: &mut Claims<'_>, codes: TensorId) -> Self {
        let name = &claims.catalog.get(codes).name;
        let module = name.strip_suffix(CODES).unwrap_or(name).to_owned();
        claims.take(codes, TensorRole::Quantized);
        let mut companion = |suffix: &str, role| claims.take_companion(&format!("{module}{suffix}"), role);
        let sides = SIDES.map(|names| names.map(|name| companion(name, TensorRole::Scale)));
        let codebooks = CODEBOOKS.map(|(name, ..)| companion(name, TensorRole::QuantState));
        Self { module, codes, sides, codebooks }
    }
}

/// Whether the weight with these codes has the marker of a codebook.
pub(super) fn has_marker(claims: &Claims<'_>, codes: TensorId) -> bool {
    let module = claims.catalog.get(codes).name.strip_suffix(CODES).unwrap_or_default();
    CODEBOOKS.iter().any(|(suffix, ..)| claims.catalog.find(&format!("{module}{suffix}")).is_some())
}

/// Why a weight without a marker must have had one; without it, it would be decoded with another codebook.
/// `others`: other weights have one.
fn reason_for_marker(claims: &Claims<'_>, module: &str, others: bool) -> Result<Option<String>> {
    let names = CODEBOOKS.map(|(suffix, ..)| format!("{module}{suffix}"));
    if let Some(place) = names.iter().find_map(|name| claims.elsewhere(name)) {
        return Ok(Some(place));
    }
    if claims.config.lists_storage(module) {
        return Ok(None);
    }
    let args = claims.config.args();
    Ok(match args.text(&["codebook"])? {
        Some(configured) if configured != UNMARKED => {
            let place = args.place_of(&["codebook"]).map(|place| format!("{place}: ")).unwrap_or_default();
            Some(format!("{place}codebook is {}", quoted(configured)))
        }
        Some(_) => None,
        None => others.then(|| "other weights of this checkpoint have theirs".to_owned()),
    })
}

/// Checks and describes a weight. `others_have_markers`: other weights of the checkpoint may have the marker of a
/// codebook.
pub(super) fn weight(
    claims: &Claims<'_>,
    parts: &Parts,
    sizes: &ModelSizes<'_>,
    others_have_markers: bool,
) -> Result<Weight> {
    let catalog = claims.catalog;
    let codes = catalog.get(parts.codes);
    claims.check_method(NAME, "exl3")?;
    let misfit = || AnamnesisError::parse(format!("its shape {:?} is not that of tiles", codes.shape));
    let &[tile_rows, tile_cols, words] = &codes.shape[..] else { return Err(misfit()) };
    let [inputs, outputs] = [tile_rows, tile_cols].map(|tiles| (tiles as u64).checked_mul(TILE));
    let (Some(inputs), Some(outputs)) = (inputs, outputs) else { return Err(misfit()) };
    if inputs == 0 || outputs == 0 || !inputs.is_multiple_of(BLOCK) || !outputs.is_multiple_of(BLOCK) {
        return Err(AnamnesisError::parse(format!("{inputs} by {outputs} weights are not blocks of {BLOCK}")));
    }
    let half_bits = match words {
        16 | 32 | 48 | 64 | 80 | 96 | 112 | 128 | 24 | 40 | 56 => words / 8,
        _ => {
            return Err(AnamnesisError::parse(format!(
                "{words} words a tile are not weights of 1 to 8, or of 1.5, 2.5 or 3.5 bits"
            )));
        }
    };
    let missing = |name: String| claims.missing(&name);
    let mut ids = vec![parts.codes];
    let mut sides = [Side::Factors; 2];
    for ((side, found), (names, size)) in sides.iter_mut().zip(parts.sides).zip(SIDES.iter().zip([inputs, outputs])) {
        let (id, kind) = match found {
            [Some(factors), None] => (factors, Side::Factors),
            [None, Some(signs)] => (signs, Side::Signs),
            [None, None] => return Err(missing(format!("{}{}", parts.module, names[0]))),
            [Some(first), Some(second)] => {
                let [first, second] = [first, second].map(|id| quoted(&catalog.get(id).name));
                return Err(AnamnesisError::parse(format!("it has both {first} and {second}")));
            }
        };
        check_side(catalog.get(id), kind, size)?;
        *side = kind;
        ids.push(id);
    }
    let codebook = match parts.codebooks {
        [None, None] => {
            if let Some(why) = reason_for_marker(claims, &parts.module, others_have_markers)? {
                return Err(AnamnesisError::parse(format!("it has no marker of its codebook, but {why}")));
            }
            None
        }
        [Some(id), None] => Some((id, CODEBOOKS[0])),
        [None, Some(id)] => Some((id, CODEBOOKS[1])),
        [Some(_), Some(_)] => return Err(AnamnesisError::parse("it has the markers of two codebooks")),
    };
    if let Some((id, _)) = codebook {
        let marker = catalog.get(id);
        if !matches!(marker.dtype, Dtype::I32 | Dtype::U32) || marker.elements() != 1 {
            let (name, dtype, shape) = (quoted(&marker.name), marker.dtype, &marker.shape);
            return Err(AnamnesisError::parse(format!("{name} is {dtype} {shape:?}; one I32 is needed")));
        }
        ids.push(id);
    }
    if !half_bits.is_multiple_of(2) && codebook.is_none_or(|(_, (.., book))| book != TrellisCodebook::Mul1) {
        let bits = half_bits as f64 / 2.0;
        return Err(AnamnesisError::parse(format!("its weights have {bits} bits, which only the codebook mul1 has")));
    }
    let stored: Vec<StoredTensor> = ids.iter().map(|id| catalog.get(*id).clone()).collect();
    claims.config.check_storage(&parts.module, &stored, half_bits as f64 / 2.0)?;
    let [of_inputs, of_outputs] = [sizes.original(inputs)?, sizes.original(outputs)?];
    let [kept_inputs, kept_outputs] = [of_inputs, of_outputs].map(|original| original.size);
    let name = format!("{}.weight", parts.module);
    claims.check_output(&name)?;
    let values = kept_inputs.checked_mul(kept_outputs).ok_or_else(misfit)?;
    let trellis = Trellis {
        inputs,
        outputs,
        kept_inputs,
        kept_outputs,
        half_bits: half_bits as u64,
        codebook: codebook.map_or(TrellisCodebook::ThreeInstructions, |(_, (.., codebook))| codebook),
        sides,
    };
    let shape = vec![kept_outputs as usize, kept_inputs as usize];
    let marker = codebook.map(|(id, (_, multiplier, _))| (catalog.get(id).name.clone(), multiplier));
    let may_be_padded = !of_outputs.is_known && sides[1] == Side::Factors;
    let recipe = match marker.is_some() || may_be_padded {
        false => Recipe::Ready(Arc::new(trellis)),
        true => Recipe::Deferred(Arc::new(Checked { trellis, shape: shape.clone(), marker, may_be_padded })),
    };
    Ok(Weight {
        name,
        shape,
        values,
        scheme: QuantScheme::Named(NAME),
        blocks: None,
        coding: Coding {
            format: trellis.codebook_name().to_owned(),
            bits: half_bits.is_multiple_of(2).then_some(half_bits as u8 / 2),
            evidence: claims.evidence(&["quant_method"]),
            ..Coding::default()
        },
        parts: ids,
        recipe,
    })
}

fn check_side(part: &StoredTensor, kind: Side, size: u64) -> Result<()> {
    let needed = match kind {
        Side::Factors => size,
        Side::Signs => size / TILE,
    };
    let is_type = match kind {
        Side::Factors => part.dtype == Dtype::F16,
        Side::Signs => matches!(part.dtype, Dtype::I16 | Dtype::U16),
    };
    let is_shape = matches!(part.shape[..], [length] if length as u64 == needed);
    match is_type && is_shape {
        true => Ok(()),
        false => {
            let (name, dtype, shape) = (quoted(&part.name), part.dtype, &part.shape);
            Err(AnamnesisError::parse(format!("{name} is {dtype} {shape:?}, which does not fit {size} weights")))
        }
    }
}

/// A weight with values that are checked while planning.
struct Checked {
    trellis: Trellis,
    shape: Vec<usize>,
    /// The marker of its codebook, and the value that it must have.
    marker: Option<(String, u32)>,
    may_be_padded: bool,
}

/// The part indices of the factors of outputs, and of the marker.
const OUTPUTS: usize = 2;
const MARKER: usize = 3;

impl Prepare for Checked {
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared> {
        if let Some((name, wanted)) = &self.marker {
            let bytes = read(MARKER)?;
            if bytes != wanted.to_le_bytes() {
                let name = quoted(name);
                return Err(AnamnesisError::parse(format!("{name} holds {bytes:02x?}; {wanted:#x} is needed")));
            }
        }
        if self.may_be_padded {
            check_end(&read(OUTPUTS)?)?;
        }
        Ok(Prepared { shape: self.shape.clone(), decoder: Arc::new(self.trellis), coding: None })
    }

    fn describe(&self) -> String {
        self.trellis.text()
    }
}
