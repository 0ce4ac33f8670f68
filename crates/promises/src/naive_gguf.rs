//! A GGUF reader by the specification alone, for comparison: it shares no code with the library, and is slow and simple.

/// Bytes, read from the front.
struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
    big: bool,
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
        self.take(length)
    }

    /// Skips a value; returns the number of an unsigned 32-bit one.
    fn value(&mut self, kind: u64, depth: usize) -> Option<Option<u64>> {
        match kind {
            0 | 1 | 7 => self.take(1)?,
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
}

/// Reads a file of version 2 or 3; `None` if it is not one.
pub(crate) fn read(bytes: &[u8]) -> Option<Gguf> {
    let mut rest = Rest { bytes, at: 0, big: false };
    if rest.take(4)? != b"GGUF" {
        return None;
    }
    let mut version = rest.number(4)?;
    if version & 0xFFFF == 0 {
        (rest.big, version) = (true, u64::from((version as u32).swap_bytes()));
    }
    let (tensors, keys) = (rest.number(8)?, rest.number(8)?);
    let mut file = Gguf { version, alignment: 32, keys: Vec::new(), tensors: Vec::new() };
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
    let data = (rest.at as u64).checked_next_multiple_of(file.alignment)?;
    for tensor in &mut file.tensors {
        tensor.offset = tensor.offset.checked_add(data)?;
    }
    Some(file)
}
