//! The stored tensors of a SINQ weight, and those that are stored in another form.

use std::ops::Range;

use anamnesis_kernels::float::f16;
use anamnesis_kernels::{Level, spread_plane};

use crate::catalog::TensorId;
use crate::error::{AnamnesisError, Result};
use crate::scheme::claim::{Claims, TensorRole};
use crate::scheme::coder::{Context, Restore, Window, filled, mishandled};
use crate::scheme::grouped::Unit;

/// The method in a configuration.
pub(super) const METHOD: &str = "sinq";
/// The suffix of the codes.
pub(super) const CODES: &str = ".W_q";

pub(super) const SECOND_SCALE: &str = ".meta.scale2";
/// The suffixes of all companions: scales, then zeros, plain and as codes.
pub(super) const COMPANIONS: [&str; 9] = [
    SECOND_SCALE,
    ".meta.scale",
    ".meta.scale.x",
    ".meta.scale.s",
    ".meta.scale.m",
    ".meta.zero",
    ".meta.zero.x",
    ".meta.zero.s",
    ".meta.zero.m",
];

/// The codes of a weight, and the companions that are present.
pub(super) struct Parts {
    pub module: String,
    pub codes: TensorId,
    /// In the order of [`COMPANIONS`].
    pub companions: [Option<TensorId>; COMPANIONS.len()],
}

impl Parts {
    pub(super) fn take(claims: &mut Claims<'_>, codes: TensorId) -> Self {
        let name = &claims.catalog.get(codes).name;
        let module = name.strip_suffix(CODES).unwrap_or(name).to_owned();
        claims.take(codes, TensorRole::Quantized);
        let companions = COMPANIONS.map(|suffix| {
            let is_zero = suffix.starts_with(".meta.zero");
            let role = if is_zero { TensorRole::ZeroPoint } else { TensorRole::Scale };
            claims.take_companion(&format!("{module}{suffix}"), role)
        });
        Self { module, codes, companions }
    }
}

/// Scales or zeros that are stored as codes: `x * s + m` in half precision, where `s` and `m` repeat every `period`
/// values. Restored to F16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Coded {
    /// The parts of `x`, `s` and `m`.
    pub parts: [usize; 3],
    pub period: u64,
}

impl Restore for Coded {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        let [x, s, m] = self.parts;
        windows.push(Window::between(x, plain.start / 2..plain.end / 2));
        windows.extend([s, m].map(|part| Window::run(part, 0, 2 * self.period)));
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], _: &mut Context) -> Result<()> {
        let [codes, scales, minima] = inputs else { return Err(mishandled("other windows than it asked for")) };
        let half = |stored: &[u8], at: usize| {
            let bytes = stored.as_chunks::<2>().0.get(at).copied().ok_or_else(|| mishandled("too few scales"))?;
            Ok::<_, AnamnesisError>(f16::decode(u16::from_le_bytes(bytes)))
        };
        let rounded = |value: f32| f16::decode(f16::encode(value));
        let places = (plain.start / 2..).map(|at| (at % self.period.max(1)) as usize);
        for ((out, code), place) in out.as_chunks_mut::<2>().0.iter_mut().zip(*codes).zip(places) {
            let product = rounded(f32::from(*code) * half(scales, place)?);
            *out = f16::encode(product + half(minima, place)?).to_le_bytes();
        }
        Ok(())
    }
}

/// Scales or zeros of square tiles, `[tile rows, tile columns, side]`, restored to `[tile rows, side, tile columns]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct OfTiles {
    pub part: usize,
    /// Rows of a tile.
    pub side: u64,
    /// Tiles along a row.
    pub across: u64,
}

impl OfTiles {
    /// The values of a row of tiles.
    const fn set(&self) -> u64 {
        self.side * self.across
    }

    fn sets(&self, plain: &Range<u64>) -> Range<u64> {
        let bytes = (2 * self.set()).max(1);
        plain.start / bytes..plain.end.div_ceil(bytes)
    }
}

impl Restore for OfTiles {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        let sets = self.sets(plain);
        windows.push(Window::between(self.part, 2 * sets.start * self.set()..2 * sets.end * self.set()));
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], _: &mut Context) -> Result<()> {
        let [stored] = inputs else { return Err(mishandled("other windows than it asked for")) };
        let first = self.sets(plain).start;
        for (out, at) in out.as_chunks_mut::<2>().0.iter_mut().zip(plain.start / 2..) {
            let (set, within) = (at / self.set() - first, at % self.set());
            let (row, tile) = (within / self.across, within % self.across);
            let place = set * self.set() + tile * self.side + row;
            let value = stored.as_chunks::<2>().0.get(place as usize);
            *out = *value.ok_or_else(|| mishandled("too few scales"))?;
        }
        Ok(())
    }
}

/// Codes in bit planes, restored to nibbles: the tables of `nf4` and `nf3` are looked up by nibbles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Nibbles {
    pub bits: u8,
    pub unit: Unit,
    /// Stored rows, and columns.
    pub rows: u64,
    pub cols: u64,
}

impl Nibbles {
    /// The runs of codes in one plane each: the plane, and the codes of it.
    fn runs(&self, plain: &Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
        let size = (self.rows * self.cols).max(1);
        let (mut at, end) = (2 * plain.start, 2 * plain.end);
        std::iter::from_fn(move || {
            let (plane, first) = (at / size, at % size);
            let last = size.min(first + end.saturating_sub(at));
            at += last - first;
            (first < last).then_some((plane, first..last))
        })
    }

    fn spread(&self, level: Level, plane: u64, stored: &[u8], out: &mut [u8]) -> usize {
        let unit_bits = match self.unit {
            Unit::Byte => 8,
            Unit::Word => 32,
        };
        let fields = unit_bits / u64::from(self.bits.max(1));
        let shift = (fields.saturating_sub(plane + 1) * u64::from(self.bits)) as u32;
        match self.unit {
            Unit::Byte => spread_plane::<1>(level, stored, shift, self.bits, out),
            Unit::Word => spread_plane::<4>(level, stored, shift, self.bits, out),
        }
    }
}

impl Restore for Nibbles {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        let each = match self.unit {
            Unit::Byte => 1,
            Unit::Word => 4,
        };
        windows.extend(self.runs(plain).map(|(_, codes)| Window::between(0, each * codes.start..each * codes.end)));
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], context: &mut Context) -> Result<()> {
        let mut codes = context.lend(2 * out.len());
        let mut rest = &mut codes[..];
        for ((plane, run), stored) in self.runs(plain).zip(inputs) {
            let (now, others) = rest.split_at_mut((run.end - run.start) as usize);
            rest = others;
            filled(self.spread(context.level(), plane, stored, now), now.len())?;
        }
        filled(rest.len(), 0)?;
        for (out, [low, high]) in out.iter_mut().zip(codes.as_chunks::<2>().0) {
            *out = low | high << 4;
        }
        context.take_back(codes);
        Ok(())
    }
}
