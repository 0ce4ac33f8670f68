//! The state that a worker passes to coders: the CPU level, and scratch memory that is reused from tile to tile.

use anamnesis_kernels::Level;

use crate::cpu::CpuLevel;

/// The CPU level and the scratch memory of one worker.
#[derive(Debug)]
pub(crate) struct Context {
    level: Level,
    floats: Vec<f32>,
    bytes: Vec<u8>,
    indices: Vec<u32>,
    /// Buffers for decoders that wrap other decoders: one for each level of nesting.
    spare: Vec<Vec<u8>>,
    /// The same for values.
    spare_floats: Vec<Vec<f32>>,
}

/// The best level of this CPU.
impl Default for Context {
    fn default() -> Self {
        Self::new(CpuLevel::default())
    }
}

impl Context {
    /// A context without scratch memory, for kernels of this level.
    pub(crate) const fn new(cpu: CpuLevel) -> Self {
        Self {
            level: cpu.level(),
            floats: Vec::new(),
            bytes: Vec::new(),
            indices: Vec::new(),
            spare: Vec::new(),
            spare_floats: Vec::new(),
        }
    }

    /// The instruction set that kernels may use.
    pub(crate) const fn level(&self) -> Level {
        self.level
    }

    /// Lends a buffer with arbitrary contents, for the output of a wrapped decoder. It is returned by
    /// [`take_back`](Self::take_back).
    pub(crate) fn lend(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize(count, 0);
        poison(&mut bytes, 0xA5);
        bytes
    }

    /// Takes a lent buffer back for reuse.
    pub(crate) fn take_back(&mut self, bytes: Vec<u8>) {
        self.spare.push(bytes);
    }

    /// Lends a buffer of values with arbitrary contents, which is returned by
    /// [`take_back_floats`](Self::take_back_floats).
    pub(crate) fn lend_floats(&mut self, count: usize) -> Vec<f32> {
        let mut floats = self.spare_floats.pop().unwrap_or_default();
        floats.resize(count, 0.0);
        poison(&mut floats, f32::from_bits(0xA5A5_A5A5));
        floats
    }

    /// Takes a lent buffer of values back for reuse.
    pub(crate) fn take_back_floats(&mut self, floats: Vec<f32>) {
        self.spare_floats.push(floats);
    }

    /// A scratch buffer of `count` floats with arbitrary contents.
    pub(crate) fn floats(&mut self, count: usize) -> &mut [f32] {
        self.scratch(count, 0, 0).0
    }

    /// Scratch buffers of floats, bytes and indices with arbitrary contents.
    pub(crate) fn scratch(
        &mut self,
        floats: usize,
        bytes: usize,
        indices: usize,
    ) -> (&mut [f32], &mut [u8], &mut [u32]) {
        let (floats, bytes) = (at_least(&mut self.floats, floats), at_least(&mut self.bytes, bytes));
        let indices = at_least(&mut self.indices, indices);
        poison(floats, f32::from_bits(0xA5A5_A5A5));
        poison(bytes, 0xA5);
        poison(indices, u32::MAX);
        (floats, bytes, indices)
    }
}

fn at_least<T: Copy + Default>(memory: &mut Vec<T>, count: usize) -> &mut [T] {
    if memory.len() < count {
        memory.resize(count, T::default());
    }
    &mut memory[..count]
}

/// Overwrites the data of the previous tile in builds with debug assertions, so that tests notice a coder that reads
/// scratch memory before writing it.
fn poison<T: Copy>(memory: &mut [T], value: T) {
    if cfg!(debug_assertions) {
        memory.fill(value);
    }
}
