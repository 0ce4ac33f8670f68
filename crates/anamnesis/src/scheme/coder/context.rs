//! What decoding and encoding go by besides the weight itself, and the memory they keep from tile to tile.

use anamnesis_kernels::Level;

use crate::cpu::CpuLevel;

/// How tiles are decoded and encoded, and the memory a worker keeps from one to the next.
#[derive(Debug)]
pub(crate) struct Context {
    level: Level,
    floats: Vec<f32>,
    bytes: Vec<u8>,
    indices: Vec<u32>,
    /// Memory for decoders around decoders, as many as are around each other.
    spare: Vec<Vec<u8>>,
}

/// At the best level of this CPU.
impl Default for Context {
    fn default() -> Self {
        Self::new(CpuLevel::default())
    }
}

impl Context {
    /// For tiles that are decoded at this level.
    pub(crate) const fn new(cpu: CpuLevel) -> Self {
        Self { level: cpu.level(), floats: Vec::new(), bytes: Vec::new(), indices: Vec::new(), spare: Vec::new() }
    }

    /// The instructions that may be used.
    pub(crate) const fn level(&self) -> Level {
        self.level
    }

    /// Bytes of any value, until they are [taken back](Self::take_back): for a decoder that holds what another decodes.
    pub(crate) fn lend(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize(count, 0);
        poison(&mut bytes, 0xA5);
        bytes
    }

    /// Keeps lent bytes for the next.
    pub(crate) fn take_back(&mut self, bytes: Vec<u8>) {
        self.spare.push(bytes);
    }

    /// `count` floats of any value.
    pub(crate) fn floats(&mut self, count: usize) -> &mut [f32] {
        self.all(count, 0, 0).0
    }

    /// Floats, bytes and indices of any value.
    pub(crate) fn all(&mut self, floats: usize, bytes: usize, indices: usize) -> (&mut [f32], &mut [u8], &mut [u32]) {
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

/// Overwrites what the tile before has left, in builds with debug assertions: a coder that reads what it has not
/// written shows.
fn poison<T: Copy>(memory: &mut [T], value: T) {
    if cfg!(debug_assertions) {
        memory.fill(value);
    }
}
