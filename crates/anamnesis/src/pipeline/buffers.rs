//! Buffers of one worker, reused from tile to tile.

use std::ops::Range;

use anamnesis_kernels::{widen_bf16, widen_f16, widen_f32};

use super::values::Values;
use crate::catalog::{Extent, TargetDtype};
use crate::cpu::CpuLevel;
use crate::error::{AnamnesisError, Result};
use crate::io::{AlignedBuffer, Source};
use crate::scheme::coder::filled;
use crate::scheme::{Context, Window};

pub(super) struct Buffers {
    input: Vec<u8>,
    out: AlignedBuffer,
    windows: Vec<Window>,
    /// F32 values, used to count overflows.
    exact: Vec<u8>,
    context: Context,
}

impl Buffers {
    pub(super) const fn new(cpu: CpuLevel) -> Self {
        let context = Context::new(cpu);
        Self { input: Vec::new(), out: AlignedBuffer::new(), windows: Vec::new(), exact: Vec::new(), context }
    }

    /// Stored bytes of an extent.
    pub(super) fn copy<'a>(
        &'a mut self,
        extent: &Extent,
        sources: &'a [Box<dyn Source>],
        range: Range<u64>,
    ) -> Result<&'a [u8]> {
        let window = Window::run(0, range.start, range.end - range.start);
        Ok(read(&mut self.input, sources, std::slice::from_ref(extent), &[window])?[0])
    }

    /// Decodes `range` to the output type.
    pub(super) fn decode(&mut self, values: &Values, sources: &[Box<dyn Source>], range: Range<u64>) -> Result<&[u8]> {
        let bytes = ((range.end - range.start) * values.each()) as usize;
        let mut out = std::mem::take(&mut self.out);
        let tile = out.prefix_mut(bytes);
        poison(tile);
        self.decode_into(values, sources, range, tile)?;
        self.out = out;
        Ok(self.out.prefix(bytes))
    }

    /// [`decode`](Self::decode), and the number of finite values that overflowed to an infinity.
    pub(super) fn decode_counting(
        &mut self,
        values: &Values,
        sources: &[Box<dyn Source>],
        range: Range<u64>,
    ) -> Result<(&[u8], u64)> {
        let bytes = self.decode(values, sources, range.clone())?.len();
        let overflowed = match values.dtype {
            TargetDtype::F16 if has_infinity(self.out.prefix(bytes)) => self.overflowed(values, sources, range)?,
            _ => 0,
        };
        Ok((self.out.prefix(bytes), overflowed))
    }

    /// The number of infinite F16 values in `out` whose exact values are finite.
    fn overflowed(&mut self, values: &Values, sources: &[Box<dyn Source>], range: Range<u64>) -> Result<u64> {
        let count = (range.end - range.start) as usize;
        let Self { input, out, windows, exact, context } = self;
        grow(exact, count * 4);
        let inputs = read(input, sources, &values.parts, windows)?;
        let exact = &mut exact[..count * 4];
        poison(exact);
        filled(values.decoder.decode(range, &inputs, TargetDtype::F32, exact, context)?, exact.len())?;
        let pairs = out.prefix(2 * count).as_chunks::<2>().0.iter().zip(exact.as_chunks::<4>().0).take(count);
        let is_lost =
            |(half, exact): &(&[u8; 2], &[u8; 4])| is_infinite(half) && f32::from_le_bytes(**exact).is_finite();
        Ok(pairs.filter(is_lost).count() as u64)
    }

    /// Decodes `range` into `out`, which has exactly the output size. A decoder that does not fill it is an error.
    pub(super) fn decode_into(
        &mut self,
        values: &Values,
        sources: &[Box<dyn Source>],
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<()> {
        let Self { input, windows, context, .. } = self;
        windows.clear();
        values.decoder.windows(range.clone(), windows);
        let inputs = read(input, sources, &values.parts, windows)?;
        filled(values.decoder.decode(range, &inputs, values.dtype, out, context)?, out.len())
    }

    /// Decodes `range` as F32.
    pub(super) fn numbers(
        &mut self,
        values: &Values,
        sources: &[Box<dyn Source>],
        range: Range<u64>,
        out: &mut [f32],
    ) -> Result<()> {
        let level = self.context.level();
        if values.decoder.is_exact_in(values.dtype) {
            let Self { input, windows, .. } = self;
            windows.clear();
            values.decoder.windows(range.clone(), windows);
            let inputs = read(input, sources, &values.parts, windows)?;
            return filled(values.decoder.widen(&inputs, out, level)?, out.len());
        }
        let bytes = self.decode(values, sources, range)?;
        let written = match values.dtype {
            TargetDtype::BF16 => widen_bf16(level, bytes, out),
            TargetDtype::F16 => widen_f16(level, bytes, out),
            TargetDtype::F32 => widen_f32(level, bytes, out),
        };
        filled(written, out.len())
    }
}

/// The contents of `windows`, borrowed if they are in memory, otherwise read into `input`.
fn read<'a>(
    input: &'a mut Vec<u8>,
    sources: &'a [Box<dyn Source>],
    parts: &[Extent],
    windows: &[Window],
) -> Result<Vec<&'a [u8]>> {
    let places = windows.iter().map(|window| locate_window(sources, parts, window)).collect::<Result<Vec<_>>>()?;
    let to_read = places.iter().filter(|place| place.borrowed().is_none());
    let to_read = to_read.map(|place| place.window.bytes() as usize).sum();
    grow(input, to_read);
    let mut rest = &mut input[..to_read];
    let mut contents = Vec::with_capacity(windows.len());
    for place in places {
        contents.push(match place.borrowed() {
            Some(bytes) => bytes,
            None => {
                let (bytes, behind) = std::mem::take(&mut rest).split_at_mut(place.window.bytes() as usize);
                rest = behind;
                place.read(bytes)?;
                bytes
            }
        });
    }
    Ok(contents)
}

/// A window with its source.
struct SourceWindow<'a> {
    source: &'a dyn Source,
    /// Absolute offset of the first row.
    start: u64,
    window: Window,
}

fn locate_window<'a>(sources: &'a [Box<dyn Source>], parts: &[Extent], window: &Window) -> Result<SourceWindow<'a>> {
    let inside = |part: &&Extent| {
        window.span().and_then(|span| window.offset.checked_add(span)).is_some_and(|end| end <= part.bytes)
    };
    let part = parts.get(window.part).filter(inside);
    let found = part.and_then(|part| Some((part.offset + window.offset, sources.get(part.file as usize)?)));
    let (start, source) = found.ok_or_else(|| AnamnesisError::parse("a tile exceeds its tensor"))?;
    Ok(SourceWindow { source: &**source, start, window: *window })
}

impl<'a> SourceWindow<'a> {
    /// The bytes, if they are contiguous in memory.
    fn borrowed(&self) -> Option<&'a [u8]> {
        if self.window.rows != 1 { None } else { self.source.resident(self.start..self.start + self.window.row_bytes) }
    }

    /// Reads the rows consecutively.
    fn read(&self, out: &mut [u8]) -> Result<()> {
        let Window { row_bytes, stride, rows, .. } = self.window;
        match rows {
            1 => self.source.read_at(self.start, out),
            _ => self.source.read_rows(self.start, row_bytes, stride, out),
        }
    }
}

/// Whether an F16 value is infinite.
fn is_infinite(half: &[u8; 2]) -> bool {
    u16::from_le_bytes(*half) & 0x7fff == 0x7c00
}

fn has_infinity(halves: &[u8]) -> bool {
    // Without an early exit, so that the loop vectorises.
    halves.as_chunks::<2>().0.iter().fold(false, |found, half| found | is_infinite(half))
}

/// Overwrites the previous tile in builds with debug assertions, so that tests detect unwritten bytes even if the
/// count is wrong.
pub(super) fn poison(tile: &mut [u8]) {
    if cfg!(debug_assertions) {
        tile.fill(0xA5);
    }
}

fn grow(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
}
