//! Decoding a single tensor into memory.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::announced::announce;
use super::buffers::Buffers;
use super::options::RememberOptions;
use super::tiles::{is_sequential, step_of};
use super::values::Values;
use super::workers::{join, spawn};
use crate::error::{AnamnesisError, Result};
use crate::io::Source;

/// Decodes the values of `range` of the tensor `name` into `out`. The request is checked, and an error names the tensor.
pub(crate) fn decode_named(
    name: &str,
    values: &Values,
    sources: &[Box<dyn Source>],
    options: &RememberOptions,
    range: Range<u64>,
    out: &mut [u8],
) -> Result<()> {
    values.check_range(name, &range, out.len())?;
    decode_range(values, sources, options, range, out).map_err(|error| error.in_tensor(name))
}

/// Decodes the values of `range` into `out`, which must have exactly the output size. Only the tiles that contain
/// them are read and decoded.
pub(crate) fn decode_range(
    values: &Values,
    sources: &[Box<dyn Source>],
    options: &RememberOptions,
    range: Range<u64>,
    out: &mut [u8],
) -> Result<()> {
    let each = values.dtype.byte_size() as u64;
    let count = range.end.checked_sub(range.start).filter(|_| range.end <= values.elements);
    let Some(count) = count.filter(|count| count.checked_mul(each) == Some(out.len() as u64)) else {
        let why =
            format!("values {range:?} of {} take {each} bytes each, the output has {}", values.elements, out.len());
        return Err(AnamnesisError::parse(why));
    };
    if count == 0 {
        return Ok(());
    }
    if range == (0..values.elements) {
        announce(values.parts.iter(), sources);
    }
    let tiles = RangeTiles { step: step_of(values, sources), elements: values.elements, range };
    // How many cores there are is asked only where it matters: a small tensor takes less time than the answer.
    let is_alone = tiles.count() == 1 || is_sequential(&values.parts, sources);
    let threads = if is_alone { 1 } else { options.threads_used().clamp(1, tiles.count()) };
    let cancel = options.cancel_token();
    let pieces = Mutex::new(tiles.split(out, each));
    let stop = AtomicBool::new(false);
    let work = || {
        let mut buffers = Buffers::new(options.cpu_level());
        while !stop.load(Ordering::Relaxed) {
            let Some((tile, wanted, out)) = pieces.lock().unwrap_or_else(PoisonError::into_inner).next() else { break };
            let done = cancel.check().and_then(|()| match tile == wanted {
                true => buffers.decode_into(values, sources, tile, out),
                false => {
                    let start = ((wanted.start - tile.start) * each) as usize;
                    let decoded = buffers.decode(values, sources, tile)?;
                    out.copy_from_slice(&decoded[start..start + out.len()]);
                    Ok(())
                }
            });
            if done.is_err() {
                stop.store(true, Ordering::Relaxed);
                return done;
            }
        }
        Ok(())
    };
    if threads == 1 {
        return work();
    }
    std::thread::scope(|scope| {
        let workers = (0..threads).map(|_| spawn(scope, work)).collect::<Result<Vec<_>>>();
        if workers.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        workers?.into_iter().try_for_each(join)
    })
}

/// The tiles that overlap a range of values, cut at multiples of `step` like a whole tensor.
struct RangeTiles {
    step: u64,
    elements: u64,
    range: Range<u64>,
}

impl RangeTiles {
    fn count(&self) -> usize {
        let tiles = self.range.end.div_ceil(self.step) - self.range.start / self.step;
        usize::try_from(tiles).unwrap_or(usize::MAX)
    }

    /// Every tile with the requested values in it and their part of `out`.
    fn split(self, mut out: &mut [u8], each: u64) -> impl Iterator<Item = (Range<u64>, Range<u64>, &mut [u8])> {
        let Self { step, elements, range } = self;
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let start = at / step * step;
            let tile = start..start.saturating_add(step).min(elements);
            let wanted = at..tile.end.min(range.end);
            at = wanted.end;
            let (piece, rest) = std::mem::take(&mut out).split_at_mut(((wanted.end - wanted.start) * each) as usize);
            out = rest;
            Some((tile, wanted, piece))
        })
    }
}

/// Receives decoded values with their range, and returns whether to go on.
type Take<'a> = &'a mut dyn FnMut(Range<u64>, &[u8]) -> Result<ControlFlow<()>>;

/// Decodes values sequentially and passes them on tile by tile.
pub(crate) fn decode_in_steps(
    values: &Values,
    sources: &[Box<dyn Source>],
    options: &RememberOptions,
    take: Take<'_>,
) -> Result<()> {
    announce(values.parts.iter(), sources);
    let step = step_of(values, sources);
    let mut buffers = Buffers::new(options.cpu_level());
    let cancel = options.cancel_token();
    let mut start = 0;
    while start < values.elements {
        cancel.check()?;
        let range = start..start.saturating_add(step).min(values.elements);
        if take(range.clone(), buffers.decode(values, sources, range.clone())?)?.is_break() {
            break;
        }
        start = range.end;
    }
    Ok(())
}
