//! Storage for inflated entries that need random access: limited memory, then one unnamed temporary file. On a platform
//! without temporary files, memory has to do.

use std::fs::File;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{AnamnesisError, Result};
use crate::io::{HAS_SCRATCH_FILES, read_exact_at, scratch_file, try_zeroed, write_all_at};

/// Memory for all inflated entries of one archive, in bytes.
const MEMORY_BYTES: u64 = 16 << 20;

/// Storage for the inflated entries of one archive. The temporary file is created on first use and removed on drop.
pub(crate) struct Spill(Mutex<State>);

struct State {
    memory_left: u64,
    file: Option<Arc<File>>,
    file_bytes: u64,
}

impl Spill {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { memory_left: MEMORY_BYTES, file: None, file_bytes: 0 })))
    }

    /// Allocates `bytes` bytes.
    pub(super) fn allocate(&self, bytes: u64) -> Result<SpillSlot> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = state.memory_left.checked_sub(bytes) {
            state.memory_left = left;
            return Ok(SpillSlot::Memory(vec![0; bytes as usize]));
        }
        if !HAS_SCRATCH_FILES {
            let memory = usize::try_from(bytes).ok().and_then(try_zeroed);
            return memory.map(SpillSlot::Memory).ok_or_else(|| spill_failed(ErrorKind::OutOfMemory.into()));
        }
        let file = match &state.file {
            Some(file) => Arc::clone(file),
            None => {
                let file = scratch_file().map_err(spill_failed)?;
                Arc::clone(state.file.insert(Arc::new(file)))
            }
        };
        let start = state.file_bytes;
        state.file_bytes = start.saturating_add(bytes);
        Ok(SpillSlot::File { file, start })
    }
}

/// Storage of one entry.
pub(super) enum SpillSlot {
    Memory(Vec<u8>),
    File { file: Arc<File>, start: u64 },
}

impl SpillSlot {
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Memory(memory) => {
                let at = offset as usize;
                memory[at..at + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            Self::File { file, start } => write_all_at(file, bytes, *start + offset).map_err(spill_failed),
        }
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self {
            Self::Memory(memory) => {
                let at = offset as usize;
                buffer.copy_from_slice(&memory[at..at + buffer.len()]);
                Ok(())
            }
            Self::File { file, start } => Ok(read_exact_at(file, buffer, *start + offset)?),
        }
    }
}

fn spill_failed(error: std::io::Error) -> AnamnesisError {
    let directory = if HAS_SCRATCH_FILES { std::env::temp_dir() } else { "memory".into() };
    let text = format!("{}: no room to unpack an array for reading it out of order: {error}", directory.display());
    AnamnesisError::Io(std::io::Error::new(error.kind(), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_first_and_then_one_file() {
        let spill = Spill::new();
        let mut places: Vec<_> = [MEMORY_BYTES - 10, 11, 10, 5].map(|bytes| spill.allocate(bytes).unwrap()).into();
        let kinds: Vec<_> = places.iter().map(|place| matches!(place, SpillSlot::Memory(_))).collect();
        assert_eq!(kinds, [true, false, true, false]);
        assert!(matches!(&places[3], SpillSlot::File { start: 11, .. }));
        for (index, place) in places.iter_mut().enumerate() {
            place.write(2, &[index as u8; 3]).unwrap();
        }
        for (index, place) in places.iter().enumerate() {
            let mut bytes = [9; 2];
            place.read(3, &mut bytes).unwrap();
            assert_eq!(bytes, [index as u8; 2]);
        }
    }
}
