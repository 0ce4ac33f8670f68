//! Hashes of tensors: SHA-256 of their bytes, as stored or as decoded, independent of files and their order.
//!
//! Equal tensors have equal hashes in every container. SHA-256 reads a tensor from its first byte to its last, so
//! workers hash different tensors at a time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use super::tensors::{InputContent, measured};
use crate::catalog::{Dtype, StoredTensor, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::container::OutputTensor;
use crate::error::{AnamnesisError, Result};
use crate::io::sha256;
use crate::pipeline::{self, Plan, Planned, Progress, RememberOptions, TileSink, Work};

/// The bytes that are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HashForm {
    /// The bytes of every stored tensor.
    #[default]
    Stored,
    /// The values of every decoded tensor in this type, little endian. Tensors that are not floats, and floats wider than
    /// F32, are hashed as stored.
    Decoded(TargetDtype),
}

/// The hashes of a checkpoint. As text, it is the format that [`ModelHash::parse`] reads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelHash {
    /// The bytes that were hashed.
    pub form: HashForm,
    /// Every tensor, in order of name.
    pub tensors: Vec<TensorHash>,
}

/// The hash of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorHash {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The SHA-256 of its bytes.
    pub sha256: Sha256Digest,
}

/// A SHA-256 digest, displayed in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256Digest(pub [u8; 32]);

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ModelHash {
    /// The hash of the whole in hexadecimal: the SHA-256 of the text of all tensors.
    #[must_use]
    pub fn sha256(&self) -> String {
        sha256(self.lines().as_bytes())
    }
}

impl Checkpoint {
    /// Hashes every tensor. Nothing is written, and memory does not depend on the size of the model.
    ///
    /// ```no_run
    /// use anamnesis::{Checkpoint, HashForm, ParseLimits, RememberOptions};
    /// let checkpoint = Checkpoint::open("Llama-3.2-1B", &ParseLimits::default())?;
    /// let hash = checkpoint.hash(HashForm::Stored, &RememberOptions::new(), |_| {})?;
    /// println!("{}", hash.sha256());
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// `Io` if the input cannot be read, `Cancelled` if the run is cancelled; for the decoded form also as for
    /// [`plan`](Self::plan).
    pub fn hash(
        &self,
        form: HashForm,
        options: &RememberOptions,
        mut watch: impl FnMut(&Progress),
    ) -> Result<ModelHash> {
        let mut jobs: Vec<(Planned, Dtype, Vec<usize>)> = Vec::new();
        match form {
            HashForm::Stored => {
                for (_, tensor) in self.catalog.iter() {
                    jobs.push(self.stored_job(tensor)?);
                }
            }
            HashForm::Decoded(dtype) => {
                for input in self.decoded_inputs(dtype)? {
                    jobs.push(match input.content {
                        InputContent::Values(_, Some(tensor)) if tensor.dtype == Dtype::F64 => {
                            self.stored_job(tensor)?
                        }
                        InputContent::Stored(tensor) => self.stored_job(tensor)?,
                        InputContent::Values(values, _) => {
                            let bytes = values.elements.saturating_mul(values.each());
                            (measured(input.name, values, bytes), dtype.dtype(), input.shape)
                        }
                    });
                }
            }
        }
        jobs.sort_by_key(|(job, ..)| job.source());
        let (planned, kinds): (Vec<_>, Vec<_>) =
            jobs.into_iter().map(|(job, dtype, shape)| (job, (dtype, shape))).unzip();
        let plan = Plan::without_file(planned).in_order();
        let sink = HashingSink::new(&plan);
        pipeline::run(&plan, &self.sources, &sink, options, &mut watch)?;
        let hashed = plan.jobs.iter().zip(kinds).zip(sink.finish()?);
        let mut tensors: Vec<TensorHash> = hashed
            .map(|((job, (dtype, shape)), sha256)| TensorHash { name: job.name().to_owned(), dtype, shape, sha256 })
            .collect();
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(ModelHash { form, tensors })
    }

    fn stored_job(&self, tensor: &StoredTensor) -> Result<(Planned, Dtype, Vec<usize>)> {
        let &StoredTensor { ref name, dtype, ref shape, extent } = tensor;
        let outputs = vec![OutputTensor { name: name.clone(), dtype, shape: Vec::new(), bytes: extent.bytes }];
        let missing = || AnamnesisError::internal("a tensor is not in its catalog");
        let source = self.catalog.find(name).ok_or_else(missing)?;
        Ok((Planned { outputs, work: Work::Copy { extent, source } }, dtype, shape.clone()))
    }
}

/// A sink that hashes the tensors of a plan, each of which arrives in order.
struct HashingSink {
    /// Offset and size of every job.
    jobs: Vec<(u64, u64)>,
    state: Mutex<State>,
}

struct State {
    /// Hashers and the number of bytes they have seen.
    unfinished: HashMap<usize, (Sha256, u64)>,
    finished: Vec<Option<Sha256Digest>>,
}

impl HashingSink {
    fn new(plan: &Plan) -> Self {
        let start = |job: &pipeline::Job| job.outputs.first().map_or(0, |placed| placed.offset);
        let jobs: Vec<_> = plan.jobs.iter().map(|job| (start(job), job.bytes())).collect();
        let empty = |(_, bytes): &(u64, u64)| (*bytes == 0).then(|| Sha256Digest(Sha256::digest([]).into()));
        let finished = jobs.iter().map(empty).collect();
        Self { jobs, state: Mutex::new(State { unfinished: HashMap::new(), finished }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(self) -> Result<Vec<Sha256Digest>> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let unfinished = || AnamnesisError::internal("a tensor was not hashed to its end");
        state.finished.into_iter().map(|digest| digest.ok_or_else(unfinished)).collect()
    }
}

impl TileSink for HashingSink {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let disordered = || AnamnesisError::internal("a hashed tensor did not arrive in order");
        let job = self.jobs.partition_point(|(start, _)| *start <= offset).checked_sub(1).ok_or_else(disordered)?;
        let (start, total) = self.jobs[job];
        let (mut hasher, seen) = self.lock().unfinished.remove(&job).unwrap_or_default();
        if seen != offset - start {
            return Err(disordered());
        }
        hasher.update(bytes);
        let seen = seen + bytes.len() as u64;
        let mut state = self.lock();
        match seen == total {
            true => state.finished[job] = Some(Sha256Digest(hasher.finalize().into())),
            false => drop(state.unfinished.insert(job, (hasher, seen))),
        }
        Ok(())
    }
}
