//! A GGUF reader by the specification alone, for comparison: it shares no code with the library, and is slow and simple.

use std::collections::HashSet;

use crate::ggml_blocks::BLOCKS;

/// Bytes, read from the front.
struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
    big: bool,
    /// A text that is not UTF-8, or a truth value other than 0 and 1, was read.
    malformed: bool,
}

impl<'a> Rest<'a> {
    fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let end = self.at.checked_add(usize::try_from(count).ok()?)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn number(&mut self, bytes: u64) -> Option<u64> {
        let taken = self.take(bytes)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if self.big { taken.iter().fold(0, add) } else { taken.iter().rev().fold(0, add) })
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number(8)?;
        let text = self.take(length)?;
        self.malformed |= std::str::from_utf8(text).is_err();
        Some(text)
    }

    /// Skips a value; returns the number of an unsigned 32-bit one.
    fn value(&mut self, kind: u64, depth: usize) -> Option<Option<u64>> {
        match kind {
            7 => {
                let truth = self.take(1)?;
                self.malformed |= truth[0] > 1;
                truth
            }
            0 | 1 => self.take(1)?,
            2 | 3 => self.take(2)?,
            4 => return self.number(4).map(Some),
            5 | 6 => self.take(4)?,
            10..=12 => self.take(8)?,
            8 => self.text()?,
            9 if depth < 64 => {
                let (items, count) = (self.number(4)?, self.number(8)?);
                for _ in 0..count {
                    self.value(items, depth + 1)?;
                }
                &[]
            }
            _ => return None,
        };
        Some(None)
    }
}

/// A tensor, as its file describes it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Info {
    pub name: Vec<u8>,
    pub dimensions: Vec<u64>,
    pub kind: u64,
    /// The absolute offset of its data.
    pub offset: u64,
}

/// The keys and tensors of a file.
#[derive(Debug)]
pub(crate) struct Gguf {
    pub version: u64,
    pub alignment: u64,
    pub keys: Vec<Vec<u8>>,
    pub tensors: Vec<Info>,
    /// The offset of the data, and that of its end.
    data: u64,
    end: u64,
    malformed: bool,
}

impl Gguf {
    /// Why a reader may refuse the file: a rule of the specification, or of ggml's reader, that it breaks.
    pub(crate) fn flaw(&self) -> Option<&'static str> {
        let mut names = HashSet::new();
        let rules = [
            (self.malformed, "a text is not UTF-8, or a truth value neither 0 nor 1"),
            (self.keys.iter().any(Vec::is_empty), "a key is empty"),
            (!self.keys.iter().all(|key| names.insert(key)), "a key occurs twice"),
            (!self.alignment.is_power_of_two(), "the alignment is not a power of two"),
        ];
        let broken = rules.into_iter().find_map(|(is_broken, rule)| is_broken.then_some(rule));
        broken.or_else(|| self.flaw_of_tensors())
    }

    /// Tensors follow each other without holes, each at the next multiple of the alignment, and fill the file.
    fn flaw_of_tensors(&self) -> Option<&'static str> {
        let mut names = HashSet::new();
        // The end of the last tensor, and the start of the next one: it is open behind a type of unknown size.
        let (mut last, mut next) = (self.data, Some(self.data));
        for tensor in &self.tensors {
            if !names.insert(&tensor.name) {
                return Some("a name occurs twice");
            }
            let elements = tensor.dimensions.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
            let has_elements =
                |&count: &u64| count > 0 && i64::try_from(count).is_ok() && !tensor.dimensions.is_empty();
            let Some(elements) = elements.filter(has_elements) else {
                return Some("a shape is empty, or overflows");
            };
            if !(tensor.offset - self.data).is_multiple_of(self.alignment) {
                return Some("an offset is not aligned");
            }
            if tensor.offset < last || next.is_some_and(|next| tensor.offset != next) {
                return Some("tensors are not in a row");
            }
            let block = BLOCKS.iter().find(|(kind, ..)| u64::from(*kind) == tensor.kind);
            let Some(&(_, block, bytes)) = block else {
                // Of unknown size: at least a byte.
                if tensor.offset >= self.end {
                    return Some("a tensor is not in the file");
                }
                (last, next) = (tensor.offset + 1, None);
                continue;
            };
            if !tensor.dimensions[0].is_multiple_of(block) {
                return Some("a row is not a whole number of blocks");
            }
            let end = (elements / block).checked_mul(bytes).and_then(|bytes| tensor.offset.checked_add(bytes));
            let Some(end) = end.filter(|&end| end <= self.end) else { return Some("a tensor is not in the file") };
            (last, next) = (end, end.checked_next_multiple_of(self.alignment));
        }
        next.is_some_and(|next| self.end > next).then_some("bytes follow the last tensor")
    }
}

/// Reads a file of version 2 or 3 in either byte order (3 alone in big-endian); `None` if it is not one.
pub(crate) fn read(bytes: &[u8]) -> Option<Gguf> {
    let mut rest = Rest { bytes, at: 0, big: false, malformed: false };
    if rest.take(4)? != b"GGUF" {
        return None;
    }
    let mut version = rest.number(4)?;
    if version & 0xFFFF == 0 {
        (rest.big, version) = (true, u64::from((version as u32).swap_bytes()));
    }
    if !matches!((version, rest.big), (2, false) | (3, _)) {
        return None;
    }
    let (tensors, keys) = (rest.number(8)?, rest.number(8)?);
    let end = bytes.len() as u64;
    let mut file =
        Gguf { version, alignment: 32, keys: Vec::new(), tensors: Vec::new(), data: 0, end, malformed: false };
    for _ in 0..keys {
        let key = rest.text()?.to_vec();
        let kind = rest.number(4)?;
        let number = rest.value(kind, 0)?;
        if key == b"general.alignment" {
            file.alignment = number?;
        }
        file.keys.push(key);
    }
    for _ in 0..tensors {
        let name = rest.text()?.to_vec();
        let rank = rest.number(4)?;
        let dimensions = (0..rank).map(|_| rest.number(8)).collect::<Option<_>>()?;
        let (kind, offset) = (rest.number(4)?, rest.number(8)?);
        file.tensors.push(Info { name, dimensions, kind, offset });
    }
    file.data = (rest.at as u64).checked_next_multiple_of(file.alignment)?;
    for tensor in &mut file.tensors {
        tensor.offset = tensor.offset.checked_add(file.data)?;
    }
    file.malformed = rest.malformed;
    Some(file)
}
