//! The fingerprint of a plan: outputs with name, type, shape and offset; the stored bytes they are computed from; how
//! they are decoded, encoded and rounded.
//!
//! It is the same on every machine and for any number of threads, so that machines that share a conversion agree, and
//! an interrupted conversion recognises its own output.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::plan::{Checks, Job, Plan, Work};
use super::values::Values;
use crate::catalog::Extent;
use crate::io::Source;

/// The identity of a plan, in three parts so that differences can be reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Names, types, shapes, offsets and headers.
    pub outputs: Digest,
    /// The stored bytes of the values.
    pub sources: Digest,
    /// How values are decoded, encoded and rounded.
    pub coding: Digest,
}

impl Fingerprint {
    /// The fingerprint of a plan that reads from these sources.
    pub(crate) fn of(plan: &Plan, inputs: &[Box<dyn Source>]) -> Self {
        let [mut outputs, mut sources, mut coding] = [Digest::new(), Digest::new(), Digest::new()];
        (plan.total_bytes, &plan.pieces).hash(&mut outputs);
        for job in &plan.jobs {
            hash_outputs(job, &mut outputs);
            let shared = job.work.shared().into_iter().flat_map(|values| &values.parts);
            job.work.parts().iter().chain(shared).for_each(|extent| hash_extent(extent, inputs, &mut sources));
            hash_coding(&job.work, &mut coding);
        }
        Self { outputs, sources, coding }
    }
}

fn hash_outputs(job: &Job, digest: &mut Digest) {
    for placed in &job.outputs {
        let output = &placed.output;
        (&output.name, output.dtype, &output.shape, output.bytes, placed.offset).hash(digest);
    }
}

/// Hashes the identity of stored bytes. The offset of a computed region depends on other regions, so the source
/// identifies its bytes.
fn hash_extent(extent: &Extent, inputs: &[Box<dyn Source>], digest: &mut Digest) {
    extent.file.hash(digest);
    if let Some(source) = inputs.get(extent.file as usize) {
        source.identify(extent.offset..extent.offset.saturating_add(extent.bytes), digest);
    }
}

fn hash_coding(work: &Work, digest: &mut Digest) {
    let hash_values = |values: &Values, digest: &mut Digest| {
        values.decoder.identify(digest);
        (values.dtype, values.elements, values.each()).hash(digest);
    };
    match work {
        Work::Copy { .. } => 0u8.hash(digest),
        Work::Decode(values) => {
            1u8.hash(digest);
            hash_values(values, digest);
        }
        Work::Encode { values, encoder, checks, .. } => {
            2u8.hash(digest);
            hash_values(values, digest);
            encoder.identify(digest);
            // Measuring and refusing do not change the output.
            let Checks { allow_nonfinite, measure: _, loaded_as: _ } = checks;
            allow_nonfinite.hash(digest);
            work.shared().into_iter().for_each(|values| hash_values(values, digest));
        }
    }
}

/// A machine-independent hash: 128-bit FNV-1a, with integers as eight little-endian bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest(u128);

impl Digest {
    const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

    pub(crate) fn new() -> Self {
        Self(Self::START)
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(Self::PRIME);
        }
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        (self.0 ^ (self.0 >> 64)) as u64
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_fnv_1a() {
        let mut digest = Digest::new();
        digest.write(b"a");
        // Test vector of the specification.
        assert_eq!(digest.to_string(), "d228cb696f1a8caf78912b704e4a8964");
    }

    #[test]
    fn consecutive_values_hash_differently_from_their_concatenation() {
        let of = |value: &dyn Fn(&mut Digest)| {
            let mut digest = Digest::new();
            value(&mut digest);
            digest
        };
        assert_ne!(of(&|digest| ("ab", "c").hash(digest)), of(&|digest| ("a", "bc").hash(digest)));
        assert_ne!(of(&|digest| [1usize, 2].hash(digest)), of(&|digest| [1usize, 2, 0].hash(digest)));
        assert_eq!(of(&|digest| 7u32.hash(digest)), of(&|digest| 7u64.hash(digest)));
    }
}
