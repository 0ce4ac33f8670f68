//! Tar files with a model inside, such as NeMo's `.nemo`: the model is read where it is, as a range of the file.
//!
//! | block of 512 bytes | content |
//! |---|---|
//! | header | name (0, 100 bytes), size (124, octal, or big-endian behind a byte 0x80), checksum (148, octal), type (156), `ustar` (257), prefix of the name (345, 155 bytes) |
//! | data | the file, padded with zeros |
//! | end | zeros |
//!
//! The types `L` (GNU) and `x` (pax) are the name or the size of the file that follows. Directories and links are
//! skipped, sparse files refused. The format is specified as "ustar" and "pax" by POSIX.

use crate::error::{AnamnesisError, FileKind, Result, quoted};
use crate::io::{ReadAt, SlicedSource, Source};
use crate::limits::Budget;

const BLOCK_BYTES: u64 = 512;
/// Maximum number of files.
const TAR_MAX_FILES: usize = 10_000;
/// Maximum bytes of a name or of the records that describe a file.
const MAX_RECORD_BYTES: u64 = 1 << 16;
/// Names that are listed in an error.
const MAX_LISTED: usize = 8;

/// A file inside of a tar file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Whether these are the first bytes of a tar file: a header with its checksum.
pub(crate) fn is_tar(head: &[u8]) -> bool {
    head.first_chunk().is_some_and(|block| Header::parse(block).is_some())
}

/// The model inside of a tar file; `None` if the file is no tar file. `is_model` decides by the first bytes: a model may
/// have those of a tar file too.
pub(super) fn model(
    source: &dyn Source,
    is_model: impl Fn(&[u8]) -> bool,
    budget: &mut Budget,
) -> Result<Option<Member>> {
    let head = source.head()?;
    if !is_tar(&head) || is_model(&head) {
        return Ok(None);
    }
    let mut models = Vec::new();
    for member in members(source, budget)? {
        if is_model(&inside(source, &member)?.head()?) {
            models.push(member);
        }
    }
    if models.len() > 1 {
        let names: Vec<_> = models.iter().take(MAX_LISTED).map(|model| quoted(&model.name)).collect();
        let why = format!("it contains {} models or parts of one: {}", models.len(), names.join(", "));
        return Err(AnamnesisError::unsupported("tar", why));
    }
    models.pop().map(Some).ok_or_else(|| FileKind::Tar.into())
}

/// The bytes of a file.
pub(crate) fn inside<P: std::ops::Deref<Target: Source>>(source: P, member: &Member) -> Result<SlicedSource<P>> {
    SlicedSource::new(source, member.offset, member.bytes).ok_or_else(|| past_end(member))
}

fn past_end(member: &Member) -> AnamnesisError {
    let Member { name, offset, bytes } = member;
    AnamnesisError::parse(format!("{} takes {bytes} bytes at {offset}, past the end of the tar file", quoted(name)))
}

/// The files of a tar file, in order.
pub(crate) fn members(source: &dyn Source, budget: &mut Budget) -> Result<Vec<Member>> {
    let (mut found, mut at, mut extended) = (Vec::new(), 0u64, Extended::default());
    while let Some(header) = Header::read(source, at)? {
        let offset = at + BLOCK_BYTES;
        let bytes = extended.bytes.filter(|_| header.is_file()).unwrap_or(header.bytes);
        let name = extended.name.as_deref().unwrap_or(&header.name).to_owned();
        let member = Member { name, offset, bytes };
        let end = offset.checked_add(bytes).filter(|end| *end <= source.len()).ok_or_else(|| past_end(&member))?;
        match header.kind {
            b'L' => extended.name = Some(record_text(source, &member)?.trim_end_matches('\0').to_owned()),
            b'x' => extended.apply(&record_text(source, &member)?)?,
            b'S' => {
                return Err(AnamnesisError::unsupported("tar", format!("{} is a sparse file", quoted(&member.name))));
            }
            _ => {
                extended = Extended::default();
                budget.working_set((size_of::<Member>() + member.name.len()) as u64, "the files of the tar file")?;
                found.extend(Some(member).filter(|_| header.is_file()));
            }
        }
        if found.len() > TAR_MAX_FILES {
            let why = format!("the tar file has more than {TAR_MAX_FILES} files");
            return Err(AnamnesisError::limit("TAR_MAX_FILES", why));
        }
        at = end.next_multiple_of(BLOCK_BYTES);
    }
    budget.items(found.len() as u64, "files of the tar file")?;
    Ok(found)
}

/// Properties of the next file that its header has no room for.
#[derive(Default)]
struct Extended {
    name: Option<String>,
    bytes: Option<u64>,
}

impl Extended {
    /// Records of pax: `LENGTH KEY=VALUE\n`, where the length is that of the whole record.
    fn apply(&mut self, mut text: &str) -> Result<()> {
        let fault = || AnamnesisError::parse("a tar file has a record that is not valid");
        while !text.is_empty() {
            let (length, _) = text.split_once(' ').ok_or_else(fault)?;
            let (record, rest) =
                length.parse().ok().and_then(|bytes| text.split_at_checked(bytes)).ok_or_else(fault)?;
            let (key, value) = record
                .get(length.len() + 1..)
                .and_then(|record| record.strip_suffix('\n')?.split_once('='))
                .ok_or_else(fault)?;
            match key {
                "path" => self.name = Some(value.to_owned()),
                "size" => self.bytes = Some(value.parse().map_err(|_| fault())?),
                _ if key.starts_with("GNU.sparse.") => {
                    return Err(AnamnesisError::unsupported("tar", "one of its files is sparse"));
                }
                _ => {}
            }
            text = rest;
        }
        Ok(())
    }
}

fn record_text(source: &dyn Source, member: &Member) -> Result<String> {
    if member.bytes > MAX_RECORD_BYTES {
        let why = format!("a tar file has a record of {} bytes, {MAX_RECORD_BYTES} are allowed", member.bytes);
        return Err(AnamnesisError::limit("TAR_MAX_RECORD_BYTES", why));
    }
    let mut text = vec![0; member.bytes as usize];
    source.read_at(member.offset, &mut text)?;
    String::from_utf8(text).map_err(|_| AnamnesisError::parse("a name in a tar file is not UTF-8"))
}

/// The header of a file.
struct Header {
    name: String,
    bytes: u64,
    kind: u8,
}

impl Header {
    /// The header at an offset; `None` at the end of the files.
    fn read(source: &dyn Source, at: u64) -> Result<Option<Self>> {
        let mut block = [0; BLOCK_BYTES as usize];
        // A tar file may end without its last blocks of zeros.
        if at == source.len() {
            return Ok(None);
        }
        if at.checked_add(BLOCK_BYTES).is_none_or(|end| end > source.len()) {
            return Err(AnamnesisError::parse(format!("the tar file ends inside of the header at byte {at}")));
        }
        source.read_at(at, &mut block)?;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let fault = || AnamnesisError::parse(format!("the header at byte {at} of the tar file is not valid"));
        Self::parse(&block).map(Some).ok_or_else(fault)
    }

    fn parse(block: &[u8; BLOCK_BYTES as usize]) -> Option<Self> {
        // The checksum is computed with spaces in its place.
        let is_sum = |index: usize| (148..156).contains(&index);
        let bytes = block.iter().enumerate().map(|(index, byte)| if is_sum(index) { b' ' } else { *byte });
        let sum: u64 = bytes.map(u64::from).sum();
        if block[257..262] != *b"ustar" || number(&block[148..156]) != Some(sum) {
            return None;
        }
        let text = |range: std::ops::Range<usize>| {
            let text = block[range].split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        };
        // GNU has times in the place of the prefix.
        let prefix = if block[263..265] == *b"00" { text(345..500) } else { String::new() };
        let name = if prefix.is_empty() { text(0..100) } else { format!("{prefix}/{}", text(0..100)) };
        let (kind, bytes) = (block[156], number(&block[124..136])?);
        // Links and directories have no data, whatever their size is.
        let bytes = if matches!(kind, b'1'..=b'6') { 0 } else { bytes };
        Some(Self { name, bytes, kind })
    }

    fn is_file(&self) -> bool {
        matches!(self.kind, b'0' | 0 | b'7') && !self.name.ends_with('/')
    }
}

/// A number of a header: octal digits, or big-endian behind a byte 0x80.
fn number(field: &[u8]) -> Option<u64> {
    if let [0x80, rest @ ..] = field {
        let (high, low) = rest.split_last_chunk::<8>()?;
        return high.iter().all(|byte| *byte == 0).then(|| u64::from_be_bytes(*low)).filter(|size| *size >> 63 == 0);
    }
    let digits = str::from_utf8(field).ok()?.trim_matches([' ', '\0']);
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::BytesSource;
    use crate::limits::ParseLimits;

    /// A header with its checksum.
    fn header(name: &str, kind: u8, size: &[u8]) -> Vec<u8> {
        let mut block = vec![0; 512];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[124..124 + size.len()].copy_from_slice(size);
        block[148..156].fill(b' ');
        block[156] = kind;
        block[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }

    fn file(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = header(name, kind, format!("{:011o}", content.len()).as_bytes());
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }

    fn names(bytes: Vec<u8>) -> Result<Vec<(String, u64, u64)>> {
        let found = members(&BytesSource(bytes), &mut Budget::new(&ParseLimits::default()))?;
        Ok(found.into_iter().map(|Member { name, offset, bytes }| (name, offset, bytes)).collect())
    }

    #[test]
    fn files_are_found_behind_their_headers() {
        let long = "d/".repeat(80) + "weights.ckpt";
        let pax = "21 path=pax/name.bin\n10 size=5\n";
        let parts = [
            file("./", b'5', b""),
            file("a.yaml", b'0', &[b'a'; 513]),
            file("././@LongLink", b'L', format!("{long}\0").as_bytes()),
            file("short", 0, b"abc"),
            file("x", b'x', pax.as_bytes()),
            file("y", b'0', b"12345"),
            header("link", b'2', b"00000001000"),
        ];
        let mut bytes = parts.concat();
        let wanted =
            |at: u64| vec![("a.yaml".into(), 1024, 513), (long.clone(), 3584, 3), ("pax/name.bin".into(), at, 5)];
        assert_eq!(names(bytes.clone()).unwrap(), wanted(5632));
        bytes.extend([0; 1024]);
        bytes.extend(b"anything may follow the end");
        assert_eq!(names(bytes).unwrap(), wanted(5632));
    }

    #[test]
    fn sizes_are_octal_or_binary() {
        assert_eq!(number(b"00000000017\0"), Some(15));
        assert_eq!(number(b" 17 \0"), Some(15));
        assert_eq!(number(b"\0\0\0"), Some(0));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1]), Some((2 << 32) + 1));
        for field in [&b"8\0"[..], b"-7", b"1x", &[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[0xff; 12]] {
            assert_eq!(number(field), None, "{field:?}");
        }
    }

    #[test]
    fn damaged_files_are_refused() {
        let good = [file("a", b'0', &[1; 600]), vec![0; 1024]].concat();
        assert_eq!(names(good.clone()).unwrap().len(), 1);
        // Every prefix that ends inside of the header or of the data.
        for end in 1..512 + 600 {
            assert!(names(good[..end].to_vec()).is_err(), "{end}");
        }
        for (at, byte) in [(0, b'b'), (124, b'9'), (148, b'7'), (156, b'1'), (257, b'U')] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(names(bad).is_err(), "{at}");
        }
        let huge = [0x80, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert!(names(header("a", b'0', &huge)).is_err());
        assert!(names(file("a", b'S', b"")).is_err());
        for record in
            ["", "5", "x a=b\n", "99 path=a\n", "0 path=a\n", "7 path=\n", "9 size=x\n", "22 GNU.sparse.major=1\n"]
        {
            let bytes = [file("x", b'x', record.as_bytes()), file("a", b'0', b"1")].concat();
            assert_eq!(names(bytes).is_ok(), record.is_empty(), "{record}");
        }
        let long = vec![b'a'; MAX_RECORD_BYTES as usize + 1];
        assert!(names(file("x", b'L', &long)).is_err());
    }

    #[test]
    fn one_model_is_taken_and_several_are_not() {
        let is_model = |head: &[u8]| head.starts_with(b"model");
        let open = |parts: &[Vec<u8>]| {
            let source = BytesSource([parts.concat(), vec![0; 1024]].concat());
            super::model(&source, is_model, &mut Budget::new(&ParseLimits::default()))
        };
        let (text, model) = (file("a.yaml", b'0', b"a: 1"), file("b.ckpt", b'0', b"model of 19 bytes.."));
        let found = open(&[text.clone(), model.clone()]).unwrap();
        assert_eq!(found, Some(Member { name: "b.ckpt".into(), offset: 1536, bytes: 19 }));
        assert!(open(std::slice::from_ref(&text)).is_err_and(|error| error.to_string().contains("tar file")));
        assert!(open(&[model.clone(), text, model]).is_err_and(|error| error.to_string().contains("2 models")));
    }
}
