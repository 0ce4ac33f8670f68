//! Decoding one tensor straight into memory.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::buffers::Buffers;
use super::options::RunOptions;
use super::plan::Values;
use super::run::{join, spawn};
use super::tiles::{is_sequential, step_of};
use crate::error::{AnamnesisError, Result};
use crate::io::Source;

/// Decodes all values into `out`, which must be exactly as long as they take.
pub(crate) fn decode_into(
    values: &Values,
    sources: &[Box<dyn Source>],
    options: &RunOptions,
    out: &mut [u8],
) -> Result<()> {
    let each = values.dtype.byte_size() as u64;
    if values.elements.checked_mul(each) != Some(out.len() as u64) {
        let why = format!("{} values take {each} bytes each, the output has {}", values.elements, out.len());
        return Err(AnamnesisError::parse(why));
    }
    let step = step_of(values, sources);
    let tile_bytes = usize::try_from(step.saturating_mul(each)).unwrap_or(usize::MAX).max(1);
    let tiles = out.len().div_ceil(tile_bytes);
    let threads = if is_sequential(&values.parts, sources) { 1 } else { options.threads.clamp(1, tiles.max(1)) };
    let pieces = Mutex::new((0u64..).zip(out.chunks_mut(tile_bytes)));
    let stop = AtomicBool::new(false);
    let work = || {
        let mut buffers = Buffers::new(options.cpu);
        while !stop.load(Ordering::Relaxed) {
            let Some((tile, out)) = pieces.lock().unwrap_or_else(PoisonError::into_inner).next() else { break };
            let start = tile * step;
            let done = options
                .cancel
                .check()
                .and_then(|()| buffers.decode_into(values, sources, start..start + out.len() as u64 / each, out));
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

/// Takes decoded values, with their place.
type Take<'a> = &'a mut dyn FnMut(Range<u64>, &[u8]) -> Result<()>;

/// Decodes values from front to back and hands them over tile by tile, with the place of the first.
pub(crate) fn decode_in_steps(
    values: &Values,
    sources: &[Box<dyn Source>],
    options: &RunOptions,
    take: Take<'_>,
) -> Result<()> {
    let step = step_of(values, sources);
    let mut buffers = Buffers::new(options.cpu);
    let mut start = 0;
    while start < values.elements {
        options.cancel.check()?;
        let range = start..start.saturating_add(step).min(values.elements);
        take(range.clone(), buffers.decode(values, sources, range.clone())?)?;
        start = range.end;
    }
    Ok(())
}
