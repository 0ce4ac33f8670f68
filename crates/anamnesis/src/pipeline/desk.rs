//! Which worker does what next, where several files are written at once.
//!
//! The system lets one or two writers at a time into a file, so threads are spread over files: a worker goes where the fewest
//! are, and a new file is begun once every one that is being written has its share. When no file is left to begin, the
//! workers of those that are done help with the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::plan::Plan;
use super::sink::TileSink;
use super::tiles::{Tile, Tiles};
use crate::error::Result;
use crate::io::Source;

/// Workers for which one file is begun.
const WORKERS_A_FILE: usize = 2;

/// A file to be written.
pub(crate) struct Output<'a> {
    pub(crate) plan: &'a Plan,
    /// Begins it; called once, when its turn has come.
    pub(crate) begin: Box<dyn Fn() -> Result<Box<dyn TileSink + 'a>> + Sync + 'a>,
}

/// Hands out tiles of several files.
pub(super) struct Desk<'r, 'a> {
    outputs: &'r [Output<'a>],
    sources: &'r [Box<dyn Source>],
    most_open: usize,
    is_stopped: AtomicBool,
    state: Mutex<State<'r, 'a>>,
}

struct State<'r, 'a> {
    /// The files that have tiles to hand out.
    open: Vec<Open<'r>>,
    /// The first that has not begun.
    next: usize,
    /// Where the bytes of each file go from its beginning to its end.
    sinks: Vec<Option<Arc<dyn TileSink + 'a>>>,
}

struct Open<'r> {
    output: usize,
    tiles: Tiles<'r>,
    workers: usize,
}

/// What a worker is to do.
pub(super) struct Assignment<'a> {
    pub(super) output: usize,
    pub(super) sink: Arc<dyn TileSink + 'a>,
    pub(super) tile: Tile,
}

impl<'r, 'a> Desk<'r, 'a> {
    pub(super) fn new(outputs: &'r [Output<'a>], sources: &'r [Box<dyn Source>], threads: usize) -> Self {
        let state = State { open: Vec::new(), next: 0, sinks: outputs.iter().map(|_| None).collect() };
        let most_open = threads.div_ceil(WORKERS_A_FILE).max(1);
        Self { outputs, sources, most_open, is_stopped: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// The next tile for a worker that has done one of `last`; `began` is told of every file that is begun on the way.
    pub(super) fn next(&self, last: Option<usize>, began: &dyn Fn(usize)) -> Result<Option<Assignment<'a>>> {
        let mut state = self.lock();
        if let Some(open) = state.open.iter_mut().find(|open| Some(open.output) == last) {
            open.workers -= 1;
        }
        while !self.is_stopped.load(Ordering::Relaxed) {
            let idlest = (0..state.open.len()).min_by_key(|&index| state.open[index].workers);
            let has_place = state.open.len() < self.most_open && state.next < self.outputs.len();
            let index = match idlest {
                Some(index) if state.open[index].workers == 0 || !has_place => index,
                _ if has_place => self.begin(&mut state, began)?,
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
        state.open.push(Open { output, tiles: Tiles::new(plan, self.sources), workers: 0 });
        began(output);
        Ok(state.open.len() - 1)
    }

    /// Where the bytes of a file go that is being written.
    pub(super) fn sink(&self, output: usize) -> Option<Arc<dyn TileSink + 'a>> {
        self.lock().sinks[output].clone()
    }

    /// Lets go of a file that is finished.
    pub(super) fn close(&self, output: usize) {
        self.lock().sinks[output] = None;
    }

    /// Hands out nothing more.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.lock().sinks.iter().flatten().for_each(|sink| sink.stop());
    }

    fn lock(&self) -> MutexGuard<'_, State<'r, 'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
