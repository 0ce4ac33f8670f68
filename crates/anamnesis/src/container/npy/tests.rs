//! Written archives: NumPy's headers, and a round trip.

use super::*;
use crate::catalog::Dtype;
use crate::compat::parse::npz::{parse_npz, parse_npz_bytes};
use crate::container::zip::Archive;
use crate::convert::{ConvertOptions, ConvertTarget, convert_bytes};
use crate::io::BytesSource;
use crate::limits::ParseLimits;

fn fixture(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/npz").join(name)
}

/// Converts a file into a new archive.
fn rewritten(name: &str, threads: usize) -> Vec<u8> {
    let bytes = std::fs::read(fixture(name)).unwrap();
    let options = ConvertOptions::new().with_threads(threads);
    convert_bytes(&bytes, ConvertTarget::Npz, &options).unwrap().0
}

#[test]
fn written_archives_round_trip_and_have_numpys_headers() {
    for name in ["dtypes_stored.npz", "shapes_stored.npz"] {
        let bytes = rewritten(name, 1);
        assert_eq!(bytes, rewritten(name, 3), "any number of threads gives the same bytes");
        assert_eq!(parse_npz_bytes(bytes.clone()).unwrap(), parse_npz(fixture(name)).unwrap());
        let theirs = std::fs::read(fixture(name)).unwrap();
        let entries = |bytes: &Vec<u8>| {
            let mut budget = Budget::new(&ParseLimits::default());
            Archive::read(&BytesSource(bytes.clone()), &mut budget).unwrap().entries
        };
        let mut compared = 0;
        for entry in entries(&bytes) {
            assert!(entry.offset.is_multiple_of(64), "{}", entry.name);
            let their = entries(&theirs).into_iter().find(|their| their.name == entry.name).unwrap();
            let content = |bytes: &[u8], entry: &crate::container::zip::Entry| {
                bytes[entry.offset as usize..][..entry.bytes as usize].to_vec()
            };
            let (ours, theirs) = (content(&bytes, &entry), content(&theirs, &their));
            // NumPy keeps the element order and byte order of its input.
            if !theirs.starts_with(b"\x93NUMPY\x01\0v\0{'descr': '>") && !theirs[..100].windows(4).any(|w| w == b"True")
            {
                assert!(ours == theirs, "{}", entry.name);
                compared += 1;
            }
        }
        assert!(compared >= 9, "{compared}");
    }
}

#[test]
fn every_array_of_an_archive_has_an_identity_of_its_own() {
    use std::collections::BTreeMap;
    use std::hash::DefaultHasher;
    for name in ["dtypes_stored.npz", "shapes_stored.npz", "dtypes_deflated.npz", "shapes_deflated.npz"] {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let identities = || {
            let source = Box::new(BytesSource(bytes.clone()));
            let mut budget = Budget::new(&ParseLimits::default());
            let Opened { source, catalog } = Npz.open(source, 0, &OpenOptions::new(), &mut budget).unwrap();
            let filled = catalog.iter().filter(|(_, tensor)| tensor.extent.bytes > 0);
            let identified = filled.map(|(_, tensor)| {
                let mut hasher = DefaultHasher::new();
                let Extent { offset, bytes, .. } = tensor.extent;
                source.identify(offset..offset + bytes, &mut hasher);
                (hasher.finish(), tensor.name.clone())
            });
            identified.collect::<Vec<_>>()
        };
        let found = identities();
        assert_eq!(found, identities(), "{name}");
        let distinct: BTreeMap<_, _> = found.iter().cloned().collect();
        assert_eq!(distinct.len(), found.len(), "{name}: {found:?}");
    }
}

#[test]
fn types_that_numpy_lacks_are_refused_by_name() {
    let tensor = |name: &str, dtype: Dtype, shape: &[usize]| {
        let elements: usize = shape.iter().product();
        let bytes = dtype.byte_len(elements as u64).unwrap();
        OutputTensor { name: name.into(), dtype, shape: shape.to_vec(), bytes }
    };
    let refusal = |tensors: &[OutputTensor]| Npz.lay_out(tensors, None).err().unwrap().to_string();
    assert!(refusal(&[tensor("w", Dtype::F4, &[2])]).contains("\"w\" has type F4"));
    assert!(refusal(&[tensor("w", Dtype::U8, &[1; 65])]).contains("NPY_MAX_DIMS"));
    assert!(refusal(&[tensor("w\0", Dtype::U8, &[1])]).contains("name"));
    assert!(refusal(&[tensor(&"w".repeat(5000), Dtype::U8, &[1])]).contains("ZIP_MAX_NAME_LEN"));
    assert!(refusal(&[tensor("a/b", Dtype::U8, &[1]), tensor("a\\b", Dtype::U8, &[1])]).contains("backslash"));
    for dtype in [Dtype::BF16, Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F8E8M0] {
        assert!(Npz.lay_out(&[tensor("w", dtype, &[2, 3])], None).is_ok());
    }
    let Err(error) = Npy.lay_out(&[], None) else { panic!("a single array is not written") };
    assert!(error.to_string().contains("NPZ"));
}

/// A file of zeros with a few non-zero pieces.
struct Sparse {
    pieces: Vec<(u64, Vec<u8>)>,
    bytes: u64,
}

impl Source for Sparse {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        buffer.fill(0);
        let end = offset + buffer.len() as u64;
        for (start, piece) in &self.pieces {
            let (from, to) = (offset.max(*start), end.min(start + piece.len() as u64));
            if from < to {
                buffer[(from - offset) as usize..(to - offset) as usize]
                    .copy_from_slice(&piece[(from - start) as usize..(to - start) as usize]);
            }
        }
        Ok(())
    }
}

#[test]
fn archives_beyond_four_gigabytes_are_written_and_read() {
    let sizes = [5 << 30, 1000, (1 << 32) - 128 - 1, 7];
    let tensors: Vec<_> = sizes
        .iter()
        .enumerate()
        .map(|(index, &bytes)| OutputTensor {
            name: format!("t{index}"),
            dtype: Dtype::U8,
            shape: vec![bytes as usize],
            bytes,
        })
        .collect();
    let layout = Npz.lay_out(&tensors, None).unwrap();
    // The last entry is short enough to be read while opening; the CRCs of the others are checked later.
    let pieces = layout.deferred.unwrap().pieces(&[0, 0, 0, crc32fast::hash(&[0; 7])]).unwrap();
    let source = Sparse { pieces, bytes: layout.total_bytes };
    let opened = Npz.open(Box::new(source), 0, &OpenOptions::new(), &mut Budget::new(&ParseLimits::default())).unwrap();
    let found: Vec<_> = opened.catalog.iter().map(|(_, tensor)| tensor.shape[0] as u64).collect();
    assert_eq!(found, sizes);
    assert!(layout.offsets.iter().all(|offset| offset.is_multiple_of(64)));
}
