//! Malformed ZIP archives: every case ends in a typed error, within the budget.

use crate::support;
use crate::support::zip;
use crate::support::zip::{Entry, archive, body, bytes_array, descriptor, end, end64, field};
use crate::support::{assert_mentions, limit_tag, parse_reason};
use anamnesis::{AnamnesisError, InspectOptions, ParseLimits, inspect_npz_from_reader_with_options};
use anamnesis::{parse_npz_bytes, parse_npz_bytes_with_limits};

fn a() -> Entry {
    Entry::stored("a.npy", &bytes_array(b"abc"))
}

fn b() -> Entry {
    Entry::deflated("b.npy", &bytes_array(&[7; 5000]))
}

#[track_caller]
fn reads(bytes: Vec<u8>) {
    let arrays = parse_npz_bytes(bytes).unwrap();
    assert_eq!(arrays["a"].data, b"abc");
    if let Some(b) = arrays.get("b") {
        assert_eq!(b.data, [7; 5000]);
    }
}

#[track_caller]
fn refused(bytes: Vec<u8>, words: &[&str]) {
    let inspected = inspect_npz_from_reader_with_options(std::io::Cursor::new(&bytes), &InspectOptions::new());
    let reason = parse_reason(parse_npz_bytes(bytes).unwrap_err());
    assert_mentions(&reason, words);
    // Whatever can be seen in the headers is seen without reading data.
    if !reason.contains("damaged") && !reason.contains("inflate") && !reason.contains("after its deflate") {
        assert_eq!(parse_reason(inspected.unwrap_err()), reason);
    }
}

#[track_caller]
fn unsupported(bytes: Vec<u8>, words: &[&str]) {
    match parse_npz_bytes(bytes).unwrap_err() {
        AnamnesisError::Unsupported { detail, .. } => assert_mentions(&detail, words),
        other => panic!("{other:?}"),
    }
}

#[test]
fn valid_archives_of_every_dialect_are_read() {
    reads(archive(&[a(), b()]));
    for (signature, wide) in [(true, false), (true, true), (false, false), (false, true)] {
        let described = |entry: Entry| entry.clone().with_descriptor(&descriptor(&entry, signature, wide));
        reads(archive(&[described(a()), described(b())]));
    }
    // The local headers of NumPy have the sizes in a ZIP64 field; PyTorch pads with a field of its own.
    let size = u64::from(a().local.size);
    let wide = field(1, &[size.to_le_bytes(), size.to_le_bytes()].concat());
    let moved = a().local(|head| (head.stored, head.size, head.extra) = (u32::MAX, u32::MAX, wide.clone()));
    reads(archive(&[moved, b()]));
    reads(archive(&[a().local(|head| head.extra = field(0x4246, &[b'Z'; 20])), b()]));
    let (mut bytes, directory, directory_bytes) = body(&[a(), b()]);
    bytes.extend(end64(2, directory.into(), directory_bytes.into()));
    let clamped = [bytes.clone(), end(u16::MAX, u32::MAX, u32::MAX, b"")].concat();
    bytes.extend(end(2, directory, directory_bytes, b"a comment"));
    reads(bytes);
    reads(clamped);
    let backwards = parse_npz_bytes({
        let (mut bytes, ..) = body(&[a(), b()]);
        let at = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
        let second = bytes[at + 4..].windows(4).position(|window| window == b"PK\x01\x02").unwrap() + 4;
        let mut directory = bytes.split_off(at);
        directory.rotate_left(second);
        let tail = end(2, at as u32, directory.len() as u32, b"");
        [bytes, directory, tail].concat()
    });
    assert_eq!(backwards.unwrap().len(), 2, "the directory may have another order");
}

#[test]
fn refuses_headers_that_disagree() {
    type Lie = fn(&mut zip::Head);
    let cases: [(Lie, &str); 6] = [
        (|head| head.name = b"c.npy".to_vec(), "name"),
        (|head| head.flags = 0x800, "flags"),
        (|head| head.method = 8, "method"),
        (|head| head.crc ^= 1, "CRC"),
        (|head| head.size += 1, "size"),
        (|head| head.stored -= 1, "compressed size"),
    ];
    for (lie, word) in cases {
        refused(archive(&[a().local(lie), b()]), &["a.npy", "disagree", word]);
        refused(archive(&[b(), a().local(lie)]), &["a.npy", "disagree", word]);
    }
    for change in 0..16 {
        let mut wrong = descriptor(&a(), true, false);
        wrong[change] ^= 1;
        refused(archive(&[a().with_descriptor(&wrong), b()]), &["a.npy", "descriptor"]);
    }
    refused(archive(&[a().with_descriptor(b""), b()]), &["a.npy", "descriptor"]);
    refused(archive(&[a().with_descriptor(&[0; 17]), b()]), &["a.npy", "descriptor"]);
    let half_known = a().with_descriptor(&descriptor(&a(), true, false)).local(|head| head.size = 5);
    refused(archive(&[half_known]), &["disagree", "size"]);
    refused(archive(&[a().both(|head| head.size += 1)]), &["a.npy", "stored"]);
}

#[test]
fn refuses_wrong_sums() {
    refused(archive(&[a().both(|head| head.crc ^= 1), b()]), &["a.npy", "damaged", "CRC"]);
    refused(archive(&[a(), b().both(|head| head.crc ^= 1)]), &["b.npy", "damaged", "CRC"]);
    let empty = Entry::stored("e.npy", &bytes_array(b"")).both(|head| head.crc ^= 1);
    refused(archive(&[empty]), &["e.npy", "damaged", "CRC"]);
}

#[test]
fn refuses_two_ends() {
    let whole = archive(&[a()]);
    refused([whole.clone(), archive(&[b()])].concat(), &["in front"]);
    refused([whole.clone(), b"x".to_vec()].concat(), &["do not end where the file ends"]);
    // One end record inside the comment of another.
    let (bytes, directory, directory_bytes) = body(&[a()]);
    let inner = end(1, directory, directory_bytes, b"");
    refused([bytes.clone(), end(1, directory, directory_bytes, &inner)].concat(), &["2 ZIP end records"]);
    let fragment = end(1, directory, directory_bytes, b"PK\x05\x06");
    refused([bytes, fragment].concat(), &["do not end"]);
    for cut in 1..whole.len() {
        assert!(parse_npz_bytes(whole[..cut].to_vec()).is_err(), "cut at {cut}");
    }
}

#[test]
fn refuses_inconsistent_zip64_records() {
    let (bytes, directory, directory_bytes) = body(&[a()]);
    let (start, length) = (u64::from(directory), u64::from(directory_bytes));
    let whole = |wide: Vec<u8>| [bytes.clone(), wide, end(1, directory, directory_bytes, b"")].concat();
    reads(whole(end64(1, start, length)));
    refused(whole(end64(2, start, length)), &["disagree"]);
    refused(whole(end64(1, start - 1, length + 1)), &["disagree"]);
    let shifted = |at: usize, by: u8| {
        let mut wide = end64(1, start, length);
        wide[at] = wide[at].wrapping_add(by);
        wide
    };
    refused(whole(shifted(4, 1)), &["ZIP64 end record is not at"]);
    refused(whole(shifted(64, 1)), &["ZIP64 end record is not at"]);
    unsupported(whole(shifted(16, 1)), &["disks"]);
    unsupported(whole(shifted(60, 1)), &["disks"]);
    unsupported(whole(shifted(72, 1)), &["disks"]);
    let wide = |numbers: &[u64]| field(1, &numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>());
    let lying =
        |numbers: &[u64]| a().both(|head| (head.stored, head.size, head.extra) = (u32::MAX, u32::MAX, wide(numbers)));
    let size = u64::from(a().local.size);
    reads(archive(&[lying(&[size, size])]));
    refused(archive(&[lying(&[size])]), &["ZIP64"]);
    refused(archive(&[lying(&[u64::MAX, u64::MAX])]), &["past"]);
    refused(archive(&[lying(&[size + 1, size + 1])]), &["past"]);
    let twice = [wide(&[size, size]), wide(&[size, size])].concat();
    refused(archive(&[a().both(|head| head.extra = twice.clone())]), &["two ZIP64"]);
    refused(archive(&[a().both(|head| head.extra = vec![9, 9, 9, 0, 1])]), &["extra field"]);
    refused(archive(&[a().both(|head| head.extra = field(0x7075, b"\x01crc_evil.npy"))]), &["another name"]);
}

#[test]
fn refuses_overlaps_gaps_and_prefixes() {
    let mut twin = a().both(|head| head.name = b"c.npy".to_vec());
    twin.offset = Some(0);
    refused(archive(&[a(), twin]), &["overlaps"]);
    let mut inside = b();
    inside.offset = Some(10);
    refused(archive(&[a(), inside]), &["overlaps"]);
    let mut hole = a();
    hole.behind = b"hidden".to_vec();
    refused(archive(&[hole.clone(), b()]), &["hole"]);
    refused(archive(&[b(), hole]), &["hole"]);
    refused([b"#!/bin/sh\n".to_vec(), archive(&[a()])].concat(), &["in front"]);
    // A self-extracting archive with adjusted offsets.
    let (bytes, directory, directory_bytes) = body(&[Entry { offset: Some(4), ..a() }]);
    refused([b"MZ\0\0".to_vec(), bytes, end(1, directory + 4, directory_bytes, b"")].concat(), &["in front"]);
    refused(archive(&[Entry { offset: Some(u32::MAX - 1), ..a() }]), &["in front"]);
    let (bytes, directory, directory_bytes) = body(&[a(), b()]);
    refused([bytes.clone(), end(1, directory, directory_bytes, b"")].concat(), &["directory"]);
    refused([bytes, end(3, directory, directory_bytes, b"")].concat(), &["past"]);
}

#[test]
fn refuses_ambiguous_names() {
    refused(archive(&[a(), a()]), &["a.npy", "twice"]);
    let named = |name: &str| Entry::stored(name, &bytes_array(b"abc"));
    refused(archive(&[named("x/y.npy"), named("x\\y.npy")]), &["taken for one"]);
    refused(archive(&[named("a.npy\0.txt")]), &["not a name"]);
    refused(archive(&[named("")]), &["not a name"]);
    refused(archive(&[a().both(|head| head.name = b"\xff.npy".to_vec())]), &["not UTF-8"]);
    unsupported(archive(&[named("é.npy")]), &["UTF-8"]);
    let arrays = parse_npz_bytes(archive(&[named("W.npy"), named("w.npy"), named("x/w.npy")])).unwrap();
    assert_eq!(arrays.len(), 3, "case tells arrays apart");
    for name in ["../w.npy", "x/../../w.npy", "/w.npy", "x\\w.npy", "c:w.npy", "../README.md"] {
        refused(archive(&[a(), named(name)]), &["the name", name]);
    }
    let long = "x".repeat(5000);
    assert_eq!(limit_tag(parse_npz_bytes(archive(&[named(&long)])).unwrap_err()), "ZIP_MAX_NAME_LEN");
    let readme = Entry::stored("README.md", b"not an array");
    assert_eq!(parse_npz_bytes(archive(&[readme, a(), Entry::stored("dir/", b"")])).unwrap().len(), 1);
}

#[test]
fn refuses_encryption_patches_disks_and_other_methods() {
    for (flag, word) in [
        (1, "encrypted"),
        (0x41, "encrypted"),
        (0x40, "encrypted"),
        (0x20, "patch"),
        (0x2000, "encrypted"),
        (0x10, "flag"),
    ] {
        unsupported(archive(&[a().both(|head| head.flags |= flag)]), &["a.npy", word]);
        // Flags in only one of the headers.
        unsupported(archive(&[a().central(|head| head.flags |= flag)]), &["a.npy", word]);
        refused(archive(&[a().local(|head| head.flags |= flag)]), &["a.npy", "flags"]);
    }
    for (method, name) in
        [(12, "bzip2"), (14, "LZMA"), (93, "Zstandard"), (9, "Deflate64"), (99, "AES"), (4711, "unknown")]
    {
        unsupported(archive(&[a().both(|head| head.method = method)]), &["a.npy", name]);
    }
    unsupported(archive(&[Entry { disk: 1, ..a() }]), &["disk"]);
    let (bytes, directory, directory_bytes) = body(&[a()]);
    let mut tail = end(1, directory, directory_bytes, b"");
    tail[4] = 1;
    unsupported([bytes, tail].concat(), &["disks"]);
}

#[test]
fn refuses_deflate_data_that_is_not_what_was_declared() {
    let longer = b().both(|head| head.size -= 1);
    refused(archive(&[longer]), &["b\""]);
    let content = bytes_array(&[7; 5000]);
    let mut claims = Entry::deflated("b.npy", &content[..content.len() - 10]);
    (claims.local.size, claims.central.size) = (content.len() as u32, content.len() as u32);
    refused(archive(&[claims]), &["inflates to", "declared"]);
    let mut more = Entry::deflated("b.npy", &[content.clone(), vec![1; 10]].concat());
    (more.local.size, more.central.size) = (content.len() as u32, content.len() as u32);
    refused(archive(&[more]), &["more than the declared"]);
    let mut padded = b();
    padded.data.extend([0; 3]);
    refused(archive(&[padded.both(|head| head.stored += 3)]), &["3 bytes after its deflate data"]);
    let mut cut = b();
    cut.data.truncate(cut.data.len() - 2);
    refused(archive(&[cut.both(|head| head.stored -= 2)]), &["damaged"]);
    let mut noise = b();
    noise.data.fill(0xff);
    refused(archive(&[noise]), &["damaged"]);
}

#[test]
fn decompression_bombs_are_refused_cheaply() {
    let bomb = Entry::deflated("b.npy", &bytes_array(&vec![0; 60_000]));
    let ratio = ParseLimits::default().with_max_decompression_ratio(10);
    let error = parse_npz_bytes_with_limits(archive(std::slice::from_ref(&bomb)), &ratio).unwrap_err();
    assert_eq!(limit_tag(error), "max_decompression_ratio");
    assert!(parse_npz_bytes(archive(&[bomb])).is_ok());
    // A ratio beyond the maximum of deflate is refused.
    let impossible = b().both(|head| head.size = u32::MAX - 1);
    refused(archive(&[impossible]), &["cannot inflate"]);
    let items = ParseLimits::default().with_max_item_count(1);
    assert_eq!(limit_tag(parse_npz_bytes_with_limits(archive(&[a(), b()]), &items).unwrap_err()), "max_item_count");
    let (bytes, directory, directory_bytes) = body(&[a()]);
    let tail = [end64(1 << 21, directory.into(), directory_bytes.into()), end(u16::MAX, u32::MAX, u32::MAX, b"")];
    assert_eq!(limit_tag(parse_npz_bytes([bytes, tail.concat()].concat()).unwrap_err()), "ZIP_MAX_ENTRIES");
    let total = ParseLimits::default().with_max_total_bytes(5100);
    assert_eq!(limit_tag(parse_npz_bytes_with_limits(archive(&[a(), b()]), &total).unwrap_err()), "max_total_bytes");
}

#[test]
fn names_what_is_not_an_archive() {
    let folder = support::Folder::new();
    let cases: [(&[u8], &str); 6] = [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "Git LFS pointer"),
        (b"7z\xbc\xaf\x27\x1c\0\x04aaaaaaaaaaaaaaaaaaaaa", "7z"),
        (b"\x1f\x8b\x08\0aaaaaaaaaaaaaaaaaaaaaaaaaaa", "gzip"),
        (b"PK\x03\x04aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "truncated"),
        (b"", "empty"),
        (b"<!DOCTYPE html>aaaaaaaaaaaaaaaaaaaaa", "HTML page"),
    ];
    for (bytes, word) in cases {
        let path = folder.write("m.npz", bytes);
        let error = anamnesis::parse_npz(&path).unwrap_err();
        assert_mentions(&parse_reason(error), &[word]);
    }
}

#[test]
fn no_byte_change_gives_wrong_values() {
    let original = archive(&[a(), b().with_descriptor(&descriptor(&b(), true, false))]);
    let wanted = parse_npz_bytes(original.clone()).unwrap();
    for at in 0..original.len() {
        for change in [1u8, 0x80, 0xff] {
            let mut bytes = original.clone();
            bytes[at] ^= change;
            if let Ok(arrays) = parse_npz_bytes(bytes) {
                assert!(arrays == wanted, "byte {at} changed by {change:#x}");
            }
        }
    }
}
