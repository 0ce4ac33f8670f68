//! Whether a file of another format is a pickle too, which Python would load.

use crate::container::pth::pickle::caps::MAX_PKL_SIZE;
use crate::container::pth::pickle::opcodes::{Op, Reader};
use crate::container::pth::pickle::{self, Watcher};
use crate::error::{AnamnesisError, Result};
use crate::io::Source;
use crate::limits::{Budget, ParseLimits};

/// Bytes that decide for most files.
const PROBED_BYTES: u64 = 64 << 10;

/// Whether Python reaches a global when it loads a file as a pickle. It stops at the first malformed instruction, where a
/// scan goes on.
pub(super) fn reaches_global(source: &dyn Source, limits: &ParseLimits) -> Result<bool> {
    for most in [PROBED_BYTES, MAX_PKL_SIZE] {
        let mut bytes = vec![0; source.len().min(most) as usize];
        source.read_at(0, &mut bytes)?;
        let mut probe = Probe::Undecided;
        let read = pickle::read(&bytes, &mut probe, &mut Budget::new(limits));
        match (probe, read) {
            (Probe::Global, _) => return Ok(true),
            (_, Err(AnamnesisError::LimitExceeded { .. })) => return Ok(!ends_early(&bytes, source.len())),
            (Probe::Undecided, Err(_)) => match missing_end(&bytes) {
                Some(end) if end <= source.len() => {}
                _ => return Ok(false),
            },
            _ => return Ok(false),
        }
    }
    // There is more of the pickle than is read.
    Ok(true)
}

/// The end of the argument that is missing if bytes end inside of a pickle.
fn missing_end(bytes: &[u8]) -> Option<u64> {
    let mut reader = Reader::new(bytes);
    loop {
        match reader.next() {
            Ok(Op::Stop) => return None,
            Ok(_) => {}
            Err(_) => return reader.wanted_end().filter(|_| reader.ran_out()),
        }
    }
}

/// Whether an argument is larger than the file and no global is in front of it: Python finds the end of the file first.
fn ends_early(bytes: &[u8], file_bytes: u64) -> bool {
    let mut reader = Reader::new(bytes);
    loop {
        match reader.next() {
            Ok(Op::Stop | Op::Global(..) | Op::StackGlobal | Op::Inst(..) | Op::Ext(_)) => return false,
            Ok(_) => {}
            Err(_) => return reader.wanted_end().is_some_and(|end| end > file_bytes),
        }
    }
}

/// A watcher that stops at the first global and at the first malformed instruction.
enum Probe {
    Undecided,
    Global,
    Malformed,
}

impl Watcher for Probe {
    fn global(&mut self, module: &str, name: &str, _: usize) -> Result<()> {
        // Python imports no name with a zero byte, such as the padded text of a tar file, and its registry of extensions
        // is empty.
        let is_extension = module == "copyreg" && name.starts_with("extension ");
        let is_name = !is_extension && !module.contains('\0') && !name.contains('\0');
        *self = if is_name { Self::Global } else { Self::Malformed };
        Err(AnamnesisError::parse("a global"))
    }

    fn malformed(&mut self, error: AnamnesisError) -> Result<()> {
        // The machine passes the error of a global on.
        if matches!(self, Self::Undecided) {
            *self = Self::Malformed;
        }
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::BytesSource;

    fn reaches(bytes: &[u8]) -> bool {
        reaches_global(&BytesSource(bytes), &ParseLimits::default()).unwrap()
    }

    #[test]
    fn a_global_is_reached_before_the_first_malformed_instruction_only() {
        assert!(reaches(b"\x80\x02cos\nsystem\n."));
        assert!(reaches(b"cos\nsystem\n followed by anything"));
        assert!(!reaches(b"ecos\nsystem\n."));
        assert!(!reaches(b"\xffcos\nsystem\n."));
        assert!(!reaches(b"c\0os\nsystem\n."));
        assert!(!reaches(b"\x82\xa7cos\nsystem\n."));
        assert!(!reaches(b"N."));
        assert!(!reaches(b""));
    }

    #[test]
    fn a_text_that_is_longer_than_the_file_leads_nowhere() {
        // The first bytes of a safetensors file whose header has 0x228d bytes: a text of 2^61 bytes.
        assert!(!reaches(b"\x8d\x22\0\0\0\0\0\0{\"a\":cos\nsystem\n."));
        assert!(!reaches(b"X\xff\xff\xff\x0fcos\nsystem\n."));
        assert!(reaches(b"cos\nsystem\n\x8d\x22\0\0\0\0\0\0{"));
    }

    #[test]
    fn a_global_behind_a_long_text_is_reached() {
        let length = 3 * PROBED_BYTES as u32;
        let text = [b"X".to_vec(), length.to_le_bytes().to_vec(), vec![b'a'; length as usize]].concat();
        assert!(reaches(&[&text[..], b"0cos\nsystem\n."].concat()));
        assert!(!reaches(&text));
    }
}
