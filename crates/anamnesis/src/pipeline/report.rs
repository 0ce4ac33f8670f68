//! Progress events of workers, collected on the calling thread.

use std::ops::Range;

use super::measure::{Distance, DistanceSum};
use super::options::OnTensor;
use super::plan::Plan;

/// Progress of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Output bytes written so far.
    pub bytes: u64,
    /// Total output bytes.
    pub total_bytes: u64,
    /// Output tensors finished so far.
    pub tensors: usize,
    /// Total output tensors.
    pub total_tensors: usize,
    /// Quantised weights decoded so far.
    pub decoded: usize,
}

/// Output bytes between two flushes.
const FLUSH_BYTES: u64 = 64 << 20;

/// An event of an output file.
pub(super) struct WorkerEvent {
    pub output: usize,
    pub kind: EventKind,
}

pub(super) enum EventKind {
    /// The file was started.
    Begun,
    /// A piece of a tensor was written.
    Piece { job: usize, tensor: usize, piece: Piece },
    /// A tile was encoded with this error.
    Measured { job: usize, tile: Range<u64>, distance: Distance },
}

/// A written piece of an output tensor.
pub(super) struct Piece {
    /// Its offset in the tensor.
    pub start: u64,
    pub bytes: u64,
    /// Its CRC-32, if the file needs checksums.
    pub checksum: u32,
}

/// An output file whose tensors are all written.
pub(super) struct Complete {
    pub output: usize,
    /// CRC-32 of its tensors in container order, if the file needs checksums.
    pub checksums: Vec<u32>,
}

/// Work that an event gives to others.
pub(super) enum FollowUp {
    /// Many bytes of this file were written since its last flush.
    Flush(usize),
    /// All tensors of a file are written.
    Finish(Complete),
}

/// The state of a run, updated by the events of its workers.
pub(super) struct Collector<'c> {
    plans: Vec<&'c Plan>,
    states: Vec<OutputProgress>,
    progress: Progress,
    watch: &'c mut dyn FnMut(&Progress),
    on_tensor: Option<&'c OnTensor>,
}

impl<'c> Collector<'c> {
    /// The state before the first event, which `watch` sees.
    pub(super) fn new(
        plans: Vec<&'c Plan>,
        watch: &'c mut dyn FnMut(&Progress),
        on_tensor: Option<&'c OnTensor>,
    ) -> Self {
        let states: Vec<_> = plans.iter().map(|plan| OutputProgress::of(plan)).collect();
        let progress = Progress {
            total_bytes: states.iter().map(|state| state.left).sum(),
            total_tensors: plans.iter().map(|plan| plan.tensors().count()).sum(),
            ..Progress::default()
        };
        watch(&progress);
        Self { plans, states, progress, watch, on_tensor }
    }

    /// Processes an event. `follow_up` returns whether the work was accepted: a busy flusher catches up later.
    pub(super) fn take(&mut self, event: WorkerEvent, follow_up: &mut dyn FnMut(FollowUp) -> bool) {
        let WorkerEvent { output, kind } = event;
        let Self { plans, states, progress, watch, on_tensor } = self;
        let (plan, state) = (plans[output], &mut states[output]);
        let mut finish = |job: usize| {
            progress.tensors += plan.jobs[job].outputs.len();
            progress.decoded += usize::from(plan.jobs[job].work.is_decoded());
            if let Some(OnTensor(callback)) = on_tensor {
                plan.jobs[job].outputs.iter().for_each(|placed| callback(&placed.output.name));
            }
        };
        match kind {
            // Empty tensors have no tiles.
            EventKind::Begun => (0..plan.jobs.len()).filter(|&job| state.jobs[job] == 0).for_each(finish),
            EventKind::Measured { job, tile, distance } => return state.measured[job].add(tile, distance),
            EventKind::Piece { job, tensor, piece } => {
                let bytes = piece.bytes;
                state.checksums.add(plan.jobs[job].outputs[tensor].index, piece);
                state.jobs[job] -= bytes;
                state.left -= bytes;
                state.unflushed += bytes;
                if state.jobs[job] == 0 {
                    finish(job);
                }
                progress.bytes += bytes;
                if state.unflushed >= FLUSH_BYTES && follow_up(FollowUp::Flush(output)) {
                    state.unflushed = 0;
                }
            }
        }
        if state.left == 0 {
            let checksums = std::mem::take(&mut state.checksums).finish();
            follow_up(FollowUp::Finish(Complete { output, checksums }));
        }
        watch(progress);
    }

    /// The quantisation error of every job, in plan order.
    pub(super) fn distances(self) -> Vec<Vec<Distance>> {
        let total = |state: OutputProgress| state.measured.into_iter().map(DistanceSum::total).collect();
        self.states.into_iter().map(total).collect()
    }
}

/// The state of one output file.
struct OutputProgress {
    /// Bytes left, in total and per job.
    left: u64,
    jobs: Vec<u64>,
    unflushed: u64,
    checksums: Checksums,
    measured: Vec<DistanceSum>,
}

impl OutputProgress {
    fn of(plan: &Plan) -> Self {
        let jobs: Vec<u64> = plan.jobs.iter().map(|job| job.bytes()).collect();
        let measured = plan.jobs.iter().map(|_| DistanceSum::default()).collect();
        Self { left: jobs.iter().sum(), jobs, unflushed: 0, checksums: Checksums::new(plan), measured }
    }
}

/// The CRC-32 of output tensors, combined from those of their pieces.
#[derive(Default)]
struct Checksums(Option<Vec<Vec<Piece>>>);

impl Checksums {
    fn new(plan: &Plan) -> Self {
        Self(plan.deferred.as_ref().map(|_| plan.tensors().map(|_| Vec::new()).collect()))
    }

    fn add(&mut self, tensor: usize, piece: Piece) {
        if let Some(tensors) = &mut self.0 {
            tensors[tensor].push(piece);
        }
    }

    fn finish(self) -> Vec<u32> {
        let whole = |mut pieces: Vec<Piece>| {
            pieces.sort_by_key(|piece| piece.start);
            let mut all = crc32fast::Hasher::new();
            for piece in pieces {
                all.combine(&crc32fast::Hasher::new_with_initial_len(piece.checksum, piece.bytes));
            }
            all.finalize()
        };
        self.0.into_iter().flatten().map(whole).collect()
    }
}
