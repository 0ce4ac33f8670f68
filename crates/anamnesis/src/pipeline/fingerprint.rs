//! What makes two plans the same: every output with its name, type, shape and place; the stored bytes it is made of; how it is
//! decoded, encoded and rounded.
//!
//! The numbers are the same on every machine and for every number of threads, so that machines which share a conversion
//! agree, and a conversion that was interrupted finds its own output.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::plan::{Checks, Job, Plan, Work};
use super::values::Values;
use crate::catalog::Extent;
use crate::io::Source;

/// The identity of a plan, in three parts so that a difference can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Of everything that is written besides values: names, types, shapes, places, the front of the file.
    pub outputs: Digest,
    /// Of the stored bytes that values come from.
    pub sources: Digest,
    /// Of how values are decoded, encoded and rounded.
    pub coding: Digest,
}

impl Fingerprint {
    /// Of a plan that reads from these sources.
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

/// Where a source puts bytes that it makes while they are read depends on what else is read, so that it says itself which
/// they are.
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
            // Measuring and refusing change no byte.
            let Checks { allow_nonfinite, measure: _, loaded_as: _ } = checks;
            allow_nonfinite.hash(digest);
            work.shared().into_iter().for_each(|values| hash_values(values, digest));
        }
    }
}

/// A hash that does not depend on the machine: FNV-1a of 128 bits, numbers as eight bytes, little endian.
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
    fn the_digest_is_the_known_function() {
        let mut digest = Digest::new();
        digest.write(b"a");
        // From the description of the function.
        assert_eq!(digest.to_string(), "d228cb696f1a8caf78912b704e4a8964");
    }

    #[test]
    fn numbers_and_texts_do_not_run_into_each_other() {
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
