//! The scheduler: assigns tiles to workers while several files are written concurrently.
//!
//! The kernel admits one or two writers to a file at a time, so workers are spread over files: a worker goes to the
//! file with the fewest workers, and a new file is started once all open ones have their share. When no file is left
//! to start, workers of finished files help with the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::plan::Plan;
use super::sink::TileSink;
use super::tiles::{Tile, Tiles};
use crate::error::Result;
use crate::io::Source;

/// Workers per open file.
const WORKERS_PER_FILE: usize = 2;

/// A file to be written.
pub(crate) struct Output<'a> {
    pub(crate) plan: &'a Plan,
    /// Creates the sink; called once, when the file is started.
    pub(crate) begin: Box<dyn Fn() -> Result<Box<dyn TileSink + 'a>> + Sync + 'a>,
}

/// Assigns tiles of several files.
pub(super) struct Scheduler<'r, 'a> {
    outputs: &'r [Output<'a>],
    sources: &'r [Box<dyn Source>],
    max_open: usize,
    is_stopped: AtomicBool,
    state: Mutex<State<'r, 'a>>,
}

struct State<'r, 'a> {
    /// Files with tiles left to assign.
    open: Vec<OpenOutput<'r>>,
    /// The next file to start.
    next: usize,
    /// The sink of each file while it is being written.
    sinks: Vec<Option<Arc<dyn TileSink + 'a>>>,
}

struct OpenOutput<'r> {
    output: usize,
    tiles: Tiles<'r>,
    workers: usize,
}

/// A tile assigned to a worker.
pub(super) struct Assignment<'a> {
    pub(super) output: usize,
    pub(super) sink: Arc<dyn TileSink + 'a>,
    pub(super) tile: Tile,
}

impl<'r, 'a> Scheduler<'r, 'a> {
    pub(super) fn new(outputs: &'r [Output<'a>], sources: &'r [Box<dyn Source>], threads: usize) -> Self {
        let state = State { open: Vec::new(), next: 0, sinks: outputs.iter().map(|_| None).collect() };
        let max_open = threads.div_ceil(WORKERS_PER_FILE).max(1);
        Self { outputs, sources, max_open, is_stopped: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// The next tile for a worker that has finished one of file `last`; `began` is called for every file that is
    /// started.
    pub(super) fn next(&self, last: Option<usize>, began: &dyn Fn(usize)) -> Result<Option<Assignment<'a>>> {
        let mut state = self.lock();
        if let Some(open) = state.open.iter_mut().find(|open| Some(open.output) == last) {
            open.workers -= 1;
        }
        while !self.is_stopped.load(Ordering::Relaxed) {
            let least_busy = (0..state.open.len()).min_by_key(|&index| state.open[index].workers);
            let may_start = state.open.len() < self.max_open && state.next < self.outputs.len();
            let index = match least_busy {
                Some(index) if state.open[index].workers == 0 || !may_start => index,
                _ if may_start => self.begin(&mut state, began)?,
                _ => return Ok(None),
            };
            let open = &mut state.open[index];
            if let Some(tile) = open.tiles.next() {
                open.workers += 1;
                let output = open.output;
                return Ok(state.sinks[output].clone().map(|sink| Assignment { output, sink, tile }));
            }
            state.open.remove(index);
        }
        Ok(None)
    }

    fn begin(&self, state: &mut State<'r, 'a>, began: &dyn Fn(usize)) -> Result<usize> {
        let output = state.next;
        state.next += 1;
        let Output { plan, begin } = &self.outputs[output];
        let sink = begin()?;
        for (offset, piece) in &plan.pieces {
            sink.put(*offset, piece)?;
        }
        state.sinks[output] = Some(Arc::from(sink));
        state.open.push(OpenOutput { output, tiles: Tiles::new(plan, self.sources), workers: 0 });
        began(output);
        Ok(state.open.len() - 1)
    }

    /// The sink of a file that is being written.
    pub(super) fn sink(&self, output: usize) -> Option<Arc<dyn TileSink + 'a>> {
        self.lock().sinks[output].clone()
    }

    /// Drops the sink of a finished file.
    pub(super) fn close(&self, output: usize) {
        self.lock().sinks[output] = None;
    }

    /// Stops the assignment of tiles.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.lock().sinks.iter().flatten().for_each(|sink| sink.stop());
    }

    fn lock(&self) -> MutexGuard<'_, State<'r, 'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
