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

/// What workers tell of an output file.
pub(super) struct Done {
    pub output: usize,
    pub what: What,
}

pub(super) enum What {
    /// It has been begun.
    Begun,
    /// A piece of one of its tensors is where it belongs.
    Piece { job: usize, tensor: usize, piece: Piece },
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

/// An output file that has all its tensors.
pub(super) struct Complete {
    pub output: usize,
    /// Of its tensors, in the order of the container, where the file carries them.
    pub checksums: Vec<u32>,
}

/// Adds up what the workers tell until the last of them is done. `written` is asked to flush now and then, `filled` is told of
/// every output that has all its tensors. Gives the distance of every job, in the order of the plans.
pub(super) fn collect(
    plans: &[&Plan],
    receiver: &mpsc::Receiver<Done>,
    watch: &mut dyn FnMut(&Progress),
    on_tensor: Option<&OnTensor>,
    written: &mpsc::SyncSender<usize>,
    filled: &mpsc::Sender<Complete>,
) -> Vec<Vec<Distance>> {
    let mut tallies: Vec<_> = plans.iter().map(|plan| Tally::of(plan)).collect();
    let mut progress = Progress {
        total_bytes: tallies.iter().map(|tally| tally.left).sum(),
        total_tensors: plans.iter().map(|plan| plan.tensors().count()).sum(),
        ..Progress::default()
    };
    watch(&progress);
    for Done { output, what } in receiver {
        let (plan, tally) = (plans[output], &mut tallies[output]);
        let mut finish = |job: usize| {
            progress.tensors += plan.jobs[job].outputs.len();
            progress.decoded += usize::from(plan.jobs[job].work.is_decoded());
            if let Some(OnTensor(tell)) = on_tensor {
                plan.jobs[job].outputs.iter().for_each(|placed| tell(&placed.output.name));
            }
        };
        match what {
            // Tensors without elements have no tile to wait for.
            What::Begun => (0..plan.jobs.len()).filter(|&job| tally.jobs[job] == 0).for_each(finish),
            What::Measured { job, tile, distance } => {
                tally.measured[job].add(tile, distance);
                continue;
            }
            What::Piece { job, tensor, piece } => {
                let bytes = piece.bytes;
                tally.checksums.add(plan.jobs[job].outputs[tensor].index, piece);
                tally.jobs[job] -= bytes;
                tally.left -= bytes;
                tally.unflushed += bytes;
                if tally.jobs[job] == 0 {
                    finish(job);
                }
                progress.bytes += bytes;
                // A flusher that is busy will catch up; one that failed has ended, and its error is collected at the end.
                if tally.unflushed >= FLUSH_BYTES && written.try_send(output).is_ok() {
                    tally.unflushed = 0;
                }
            }
        }
        if tally.left == 0 {
            let checksums = std::mem::take(&mut tally.checksums).finish();
            // One that failed has ended, and its error is collected at the end.
            let _ = filled.send(Complete { output, checksums });
        }
        watch(&progress);
    }
    let total = |tally: Tally| tally.measured.into_iter().map(Measured::total).collect();
    tallies.into_iter().map(total).collect()
}

/// What is known of one output file.
struct Tally {
    /// Bytes to come, of all its tensors and of each job.
    left: u64,
    jobs: Vec<u64>,
    unflushed: u64,
    checksums: Checksums,
    measured: Vec<Measured>,
}

impl Tally {
    fn of(plan: &Plan) -> Self {
        let jobs: Vec<u64> = plan.jobs.iter().map(|job| job.bytes()).collect();
        let measured = plan.jobs.iter().map(|_| Measured::default()).collect();
        Self { left: jobs.iter().sum(), jobs, unflushed: 0, checksums: Checksums::new(plan), measured }
    }
}

/// The checksums of output tensors, put together from those of their pieces.
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
