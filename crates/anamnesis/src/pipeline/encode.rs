//! Encoding of one tile: values are decoded in steps of the input and encoded in granules of the output.

use std::ops::Range;

use anamnesis_kernels::Level;
use anamnesis_kernels::chosen::{self, Values};

use super::buffers::poison;
use super::measure::Distance;
use super::plan::Checks;
use super::tiles::Tile;
use crate::catalog::TargetDtype;
use crate::cpu::CpuLevel;
use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::{LARGEST_HELD, filled, vanished};
use crate::scheme::{Context, TileEncoder, Window};

/// Decodes the values of a range.
type Read<'a> = &'a mut dyn FnMut(Range<u64>, &mut [f32]) -> Result<()>;
/// Receives whole granules of values with their range.
type Take<'a> = &'a mut dyn FnMut(&Range<u64>, &mut [f32]) -> Result<()>;
/// Receives output bytes: index of the output, offset, bytes.
type Put<'a> = &'a mut dyn FnMut(usize, u64, &[u8]) -> Result<()>;

/// Buffers of one worker for encoding.
pub(super) struct Encoding {
    held: Vec<f32>,
    encoded: Vec<u8>,
    decoded: Vec<u8>,
    places: Vec<Window>,
    context: Context,
}

impl Encoding {
    pub(super) const fn new(cpu: CpuLevel) -> Self {
        Self {
            held: Vec::new(),
            encoded: Vec::new(),
            decoded: Vec::new(),
            places: Vec::new(),
            context: Context::new(cpu),
        }
    }

    /// The largest magnitude of a tile.
    pub(super) fn largest(
        &mut self,
        encoder: &dyn TileEncoder,
        checks: Checks,
        tile: &Tile,
        read: Read<'_>,
    ) -> Result<f32> {
        let mut held = std::mem::take(&mut self.held);
        let mut largest = 0.0f32;
        for_each_granule(tile, 1, &mut held, read, &mut |range, values| {
            largest = largest.max(make_finite(self.context.level(), checks, encoder, range, values)?.largest);
            Ok(())
        })?;
        self.held = held;
        Ok(largest)
    }

    /// Encodes a tile sequentially and returns the quantisation error. `shared` is the largest magnitude of all
    /// weights that share a global scale, if it is known.
    pub(super) fn run(
        &mut self,
        encoder: &dyn TileEncoder,
        checks: Checks,
        tile: &Tile,
        shared: Option<f32>,
        read: Read<'_>,
        put: Put<'_>,
    ) -> Result<Distance> {
        let granule = usize::try_from(encoder.granule().max(1)).unwrap_or(usize::MAX);
        let mut held = std::mem::take(&mut self.held);
        let (mut ready, mut is_finite) = (None, false);
        if let Some(mut first_pass) = encoder.first_pass() {
            match shared {
                Some(largest) => first_pass.see_largest(largest),
                None => {
                    is_finite = true;
                    for_each_granule(tile, granule, &mut held, read, &mut |range, values| {
                        let finite = make_finite(self.context.level(), checks, encoder, range, values)?;
                        is_finite &= finite.replaced == 0;
                        first_pass.see(values, finite.largest, &mut self.context)
                    })?;
                }
            }
            ready = Some(first_pass.finish()?);
        }
        let encoder = ready.as_deref().unwrap_or(encoder);
        let mut distance = Distance::default();
        for_each_granule(tile, granule, &mut held, read, &mut |range, values| {
            if !is_finite {
                let level = self.context.level();
                distance.replaced += make_finite(level, checks, encoder, range, values)?.replaced;
            }
            distance.add(&self.encode(encoder, checks, range, values, put)?);
            Ok(())
        })?;
        self.held = held;
        Ok(distance)
    }

    /// Encodes whole granules.
    fn encode(
        &mut self,
        encoder: &dyn TileEncoder,
        checks: Checks,
        range: &Range<u64>,
        values: &[f32],
        put: Put<'_>,
    ) -> Result<Distance> {
        self.places.clear();
        encoder.places(range, &mut self.places);
        let bytes: u64 = self.places.iter().map(Window::bytes).sum();
        self.encoded.resize(bytes as usize, 0);
        poison(&mut self.encoded);
        let mut rest = &mut self.encoded[..];
        let mut outs: Vec<&mut [u8]> = Vec::with_capacity(self.places.len());
        for place in &self.places {
            let (out, behind) = std::mem::take(&mut rest).split_at_mut(place.bytes() as usize);
            rest = behind;
            outs.push(out);
        }
        filled(encoder.encode(range, values, &mut outs, &mut self.context)?, bytes as usize)?;
        // Checked before it is written, because `put` may complete the file.
        let distance = if checks.measure || !checks.allow_nonfinite {
            self.decoded.resize(values.len() * 4, 0);
            poison(&mut self.decoded);
            filled(encoder.decode(range, &outs, &mut self.decoded, &mut self.context)?, self.decoded.len())?;
            measure_error(self.context.level(), encoder, checks, range, values, &mut self.decoded)?
        } else {
            Distance::default()
        };
        for (place, out) in self.places.iter().zip(&outs) {
            let row_bytes = usize::try_from(place.row_bytes).unwrap_or(usize::MAX).max(1);
            for (row, content) in (0..).zip(out.chunks(row_bytes)) {
                put(place.part, place.offset + row * place.stride, content)?;
            }
        }
        Ok(distance)
    }
}

/// The error between values and their decoded encoding. A decoded value must be finite, and the largest value of a block must not
/// vanish, unless the caller allows otherwise.
fn measure_error(
    level: Level,
    encoder: &dyn TileEncoder,
    checks: Checks,
    range: &Range<u64>,
    values: &[f32],
    decoded: &mut [u8],
) -> Result<Distance> {
    let limit = overflow_threshold(checks.loaded_as);
    let is_held = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes).abs() < limit;
    let numbers = decoded.as_chunks_mut::<4>().0;
    let refuse = |place: usize, decoded: [u8; 4]| {
        let at = range.start + place as u64;
        Err(AnamnesisError::Overflow {
            tensor: String::new(),
            index: encoder.field_order().map_or(at, |order| order.value_at(at)),
            value: values[place],
            decoded: f32::from_le_bytes(decoded),
            encoding: encoder.describe(),
        })
    };
    // Without an early exit, so that the loop vectorises.
    if numbers.iter().fold(true, |all, bytes| all & is_held(bytes)) {
        let decoded_at = |place: usize| f32::from_le_bytes(numbers[place]);
        let may_vanish = !checks.allow_nonfinite && largest_of(level, values)? > LARGEST_HELD;
        let lost = if may_vanish { vanished(values, encoder.scale_values(), decoded_at) } else { None };
        if let Some(place) = lost {
            return refuse(place, numbers[place]);
        }
        return if checks.measure { Distance::between(level, values, decoded) } else { Ok(Distance::default()) };
    }
    let lost: Vec<usize> = (0..numbers.len()).filter(|&place| !is_held(&numbers[place])).collect();
    if let (false, [first, ..]) = (checks.allow_nonfinite, &lost[..]) {
        return refuse(*first, numbers[*first]);
    }
    // Overflows are counted, and excluded from the error.
    let mut values = values.to_vec();
    for &place in &lost {
        (values[place], numbers[place]) = (0.0, [0; 4]);
    }
    Ok(Distance { overflowed: lost.len() as u64, ..Distance::between(level, &values, decoded)? })
}

/// The smallest magnitude that rounds to an infinity.
const fn overflow_threshold(dtype: TargetDtype) -> f32 {
    match dtype {
        TargetDtype::F16 => 65520.0,
        TargetDtype::BF16 => f32::from_bits(0x7F7F_8000),
        TargetDtype::F32 => f32::INFINITY,
    }
}

/// Passes the values of a tile to `take` in whole granules; only the last may be partial.
fn for_each_granule(tile: &Tile, granule: usize, held: &mut Vec<f32>, read: Read<'_>, take: Take<'_>) -> Result<()> {
    let (mut start, mut filled) = (tile.range.start, 0);
    for step in tile.steps() {
        let is_last = step.end == tile.range.end;
        let count = filled + (step.end - step.start) as usize;
        if held.len() < count {
            held.resize(count, 0.0);
        }
        read(step, &mut held[filled..count])?;
        let whole = if is_last { count } else { count - count % granule };
        if whole > 0 {
            let end = start + whole as u64;
            take(&(start..end), &mut held[..whole])?;
            held.copy_within(whole..count, 0);
            start = end;
        }
        filled = count - whole;
    }
    Ok(())
}

/// The result of [`make_finite`].
struct FiniteValues {
    /// The largest magnitude.
    largest: f32,
    /// The number of values that were NaN or infinite.
    replaced: u64,
}

/// Refuses the first NaN or infinity, or replaces each by a value that its scale can represent.
fn make_finite(
    level: Level,
    checks: Checks,
    encoder: &dyn TileEncoder,
    range: &Range<u64>,
    values: &mut [f32],
) -> Result<FiniteValues> {
    let largest = largest_of(level, values)?;
    if largest.is_finite() {
        return Ok(FiniteValues { largest, replaced: 0 });
    }
    let Some(position) = values.iter().position(|value| !value.is_finite()) else {
        return Ok(FiniteValues { largest, replaced: 0 });
    };
    if !checks.allow_nonfinite {
        let (place, value) = (range.start + position as u64, values[position]);
        let index = encoder.field_order().map_or(place, |order| order.value_at(place));
        return Err(AnamnesisError::NotFinite { tensor: String::new(), index, value });
    }
    let mut replaced = 0;
    for block in values.chunks_mut(usize::try_from(encoder.scale_values().max(1)).unwrap_or(usize::MAX)) {
        let finite = block.iter().filter(|value| value.is_finite());
        let largest = finite.fold(0.0f32, |largest, value| largest.max(value.abs()));
        for value in block.iter_mut().filter(|value| !value.is_finite()) {
            *value = if value.is_nan() { 0.0 } else { largest.copysign(*value) };
            replaced += 1;
        }
    }
    Ok(FiniteValues { largest: largest_of(level, values)?, replaced })
}

/// The largest magnitude; NaN counts as largest.
fn largest_of(level: Level, values: &[f32]) -> Result<f32> {
    let mut largest = [0.0];
    let count = usize::from(!values.is_empty());
    filled(chosen::block_largest(level, Values::F32(values), values.len(), &mut largest), count)?;
    Ok(largest[0])
}
