//! Reading and decoding tensors into memory of the caller: one, some of its rows, or many at once.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anamnesis::{AnamnesisError, CancelToken, Checkpoint, Dtype, RememberOptions, Request, Result, TargetDtype};

/// What is read of a tensor.
pub(crate) enum Kind {
    /// Rows, decoded.
    Decoded { dtype: TargetDtype, rows: Range<usize>, shape: Vec<usize>, bytes: u64 },
    /// Bytes as they are stored.
    Stored { dtype: Dtype, offset: u64, shape: Vec<usize>, bytes: u64 },
}

impl Kind {
    /// `rows` of a tensor, all by default: decoded to `dtype`, or as stored.
    pub(crate) fn new(
        checkpoint: &Checkpoint,
        name: &str,
        dtype: Option<TargetDtype>,
        rows: Option<Range<usize>>,
    ) -> Result<Self> {
        let unknown = || AnamnesisError::from(Request::UnknownTensor { name: name.to_owned() });
        let stored = checkpoint.stored(name);
        let mut shape = match checkpoint.weight(name).filter(|_| dtype.is_some()) {
            Some(weight) => weight.shape.ok_or_else(|| without_shape(checkpoint, name))?,
            None => stored.ok_or_else(unknown)?.shape.to_vec(),
        };
        let count = shape.first().copied().unwrap_or(1);
        let all = rows.is_none();
        let rows = rows.unwrap_or(0..count);
        let no_rows = |why: String| {
            let what = format!("rows {}..{} of {name:?}", rows.start, rows.end);
            AnamnesisError::from(Request::Contradiction { what, why })
        };
        if rows.start > rows.end || rows.end > count {
            return Err(no_rows(format!("it has {count}")));
        }
        match dtype {
            Some(dtype) => {
                if let Some(first) = shape.first_mut() {
                    *first = rows.len();
                }
                let each = dtype.byte_size() as u64;
                let bytes = shape.iter().try_fold(each, |bytes, &length| bytes.checked_mul(length as u64));
                let too_large = || AnamnesisError::LimitExceeded {
                    limit: "available_memory",
                    message: format!("tensor {name:?} of shape {shape:?} is too large as {dtype}"),
                };
                let bytes = bytes.ok_or_else(too_large)?;
                Ok(Self::Decoded { dtype, rows, shape, bytes })
            }
            None => {
                let stored = stored.ok_or_else(unknown)?;
                if all {
                    return Ok(Self::Stored { dtype: stored.dtype, offset: 0, shape, bytes: stored.bytes });
                }
                let row = stored.bytes / count.max(1) as u64;
                if row * count as u64 != stored.bytes {
                    return Err(no_rows(format!("its rows share bytes: {} in {}", count, stored.bytes)));
                }
                if let Some(first) = shape.first_mut() {
                    *first = rows.len();
                }
                let (offset, bytes) = (row * rows.start as u64, row * rows.len() as u64);
                Ok(Self::Stored { dtype: stored.dtype, offset, shape, bytes })
            }
        }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        match self {
            Self::Decoded { bytes, .. } | Self::Stored { bytes, .. } => *bytes,
        }
    }

    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Self::Decoded { shape, .. } | Self::Stored { shape, .. } => shape,
        }
    }

    pub(crate) const fn dtype(&self) -> Dtype {
        match self {
            Self::Decoded { dtype, .. } => dtype.dtype(),
            Self::Stored { dtype, .. } => *dtype,
        }
    }
}

/// The error of a weight without a shape: that of decoding it.
pub(crate) fn without_shape(checkpoint: &Checkpoint, name: &str) -> AnamnesisError {
    let decoded = checkpoint.decode_rows_into(name, 0..0, &mut [], TargetDtype::F32, &RememberOptions::new());
    decoded.err().unwrap_or_else(|| Request::UnknownTensor { name: name.to_owned() }.into())
}

/// A tensor, and where its bytes go.
pub(crate) struct Job<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
    pub(crate) out: &'a mut [u8],
}

/// Stored bytes read between two looks for a cancellation.
const STEP_BYTES: usize = 8 << 20;

/// Reads or decodes one tensor.
pub(crate) fn run(checkpoint: &Checkpoint, job: Job<'_>, threads: Option<usize>, cancel: &CancelToken) -> Result<()> {
    let Job { name, kind, out } = job;
    match kind {
        Kind::Decoded { dtype, rows, .. } => {
            let mut options = RememberOptions::new().with_cancel(cancel.clone());
            options.threads = threads;
            checkpoint.decode_rows_into(name, rows, out, dtype, &options)
        }
        Kind::Stored { mut offset, .. } => {
            for piece in out.chunks_mut(STEP_BYTES) {
                if cancel.is_cancelled() {
                    return Err(AnamnesisError::Cancelled);
                }
                checkpoint.read_tensor_data(name, offset, piece)?;
                offset += piece.len() as u64;
            }
            Ok(())
        }
    }
}

/// Bytes from which on all threads decode one tensor together.
const SHARED_BYTES: usize = 32 << 20;

/// Reads or decodes many tensors: large ones one after the other with all threads, then the others with a thread each.
pub(crate) fn run_all(
    checkpoint: &Checkpoint,
    mut jobs: Vec<Job<'_>>,
    threads: Option<usize>,
    cancel: &CancelToken,
) -> Result<()> {
    let mut options = RememberOptions::new();
    options.threads = threads;
    let threads = options.threads_used().max(1);
    // The largest last, so that they are popped first.
    jobs.sort_by_key(|job| job.out.len());
    while let Some(job) = jobs.pop_if(|job| job.out.len() >= SHARED_BYTES && matches!(job.kind, Kind::Decoded { .. })) {
        run(checkpoint, job, Some(threads), cancel)?;
    }
    let count = threads.min(jobs.len());
    let (jobs, stop) = (Mutex::new(jobs), AtomicBool::new(false));
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let Some(job) = jobs.lock().unwrap_or_else(PoisonError::into_inner).pop() else { break };
            if let Err(error) = run(checkpoint, job, Some(1), cancel) {
                stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    };
    if count <= 1 {
        return work();
    }
    std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work);
        let workers: Vec<_> = (1..count).map(spawn).collect();
        let mut outcome = work();
        for worker in workers {
            outcome = match worker.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(done)) => outcome.and(done),
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(error) => outcome.and(Err(error.into())),
            };
        }
        outcome
    })
}
