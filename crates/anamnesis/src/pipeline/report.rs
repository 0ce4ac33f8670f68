//! What workers tell the calling thread, and what it makes of it.

use std::ops::Range;
use std::sync::mpsc;

use super::measure::{Distance, Measured};
use super::options::OnTensor;
use super::plan::Plan;

/// How far a running conversion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Output bytes written so far.
    pub bytes: u64,
    /// Output bytes in all.
    pub total_bytes: u64,
    /// Output tensors finished so far.
    pub tensors: usize,
    /// Output tensors in all.
    pub total_tensors: usize,
    /// Quantised weights that were decoded and are finished.
    pub decoded: usize,
}

/// Output bytes between two flushes.
const FLUSH_BYTES: u64 = 64 << 20;

/// What workers tell.
pub(super) enum Done {
    /// A piece of an output tensor is where it belongs.
    Piece { job: usize, output: usize, piece: Piece },
    /// A tile of an encoded tensor was this far from what it was.
    Measured { job: usize, tile: Range<u64>, distance: Distance },
}

/// A finished piece of an output tensor.
pub(super) struct Piece {
    /// Where it starts in the tensor.
    pub start: u64,
    pub bytes: u64,
    /// Its CRC-32, where the file carries checksums.
    pub checksum: u32,
}

/// What all the telling comes to.
pub(super) struct Outcome {
    /// Of the tensors, in the order of the container, where the file carries them.
    pub checksums: Vec<u32>,
    /// Of every job, in the order of the plan.
    pub distances: Vec<Distance>,
}

/// Adds up what the workers tell until the last of them is done.
pub(super) fn collect(
    plan: &Plan,
    receiver: &mpsc::Receiver<Done>,
    watch: &mut dyn FnMut(&Progress),
    on_tensor: Option<&OnTensor>,
    written: &mpsc::SyncSender<()>,
) -> Outcome {
    let mut checksums = Checksums::new(plan);
    let mut measured: Vec<Measured> = plan.jobs.iter().map(|_| Measured::default()).collect();
    let mut flushed = 0;
    let mut left: Vec<u64> = plan.jobs.iter().map(|job| job.bytes()).collect();
    let mut progress = Progress {
        total_bytes: left.iter().sum(),
        total_tensors: plan.jobs.iter().map(|job| job.outputs.len()).sum(),
        ..Progress::default()
    };
    let finish = |progress: &mut Progress, job: usize| {
        progress.tensors += plan.jobs[job].outputs.len();
        progress.decoded += usize::from(plan.jobs[job].work.is_decoded());
        if let Some(OnTensor(tell)) = on_tensor {
            plan.jobs[job].outputs.iter().for_each(|placed| tell(&placed.output.name));
        }
    };
    // Tensors without elements have no tile to wait for.
    (0..left.len()).filter(|&job| left[job] == 0).for_each(|job| finish(&mut progress, job));
    watch(&progress);
    for done in receiver {
        let (job, output, piece) = match done {
            Done::Piece { job, output, piece } => (job, output, piece),
            Done::Measured { job, tile, distance } => {
                measured[job].add(tile, distance);
                continue;
            }
        };
        let bytes = piece.bytes;
        checksums.add(plan.jobs[job].outputs[output].index, piece);
        progress.bytes += bytes;
        if progress.bytes - flushed >= FLUSH_BYTES {
            flushed = progress.bytes;
            // A flusher that is busy will catch up; one that failed has ended, and its error is collected at the end.
            let _ = written.try_send(());
        }
        left[job] -= bytes;
        if left[job] == 0 {
            finish(&mut progress, job);
        }
        watch(&progress);
    }
    Outcome { checksums: checksums.finish(), distances: measured.into_iter().map(Measured::total).collect() }
}

/// The checksums of output tensors, put together from those of their pieces.
struct Checksums(Option<Vec<Vec<Piece>>>);

impl Checksums {
    fn new(plan: &Plan) -> Self {
        Self(plan.seal.as_ref().map(|_| plan.tensors().map(|_| Vec::new()).collect()))
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
