//! Malformed GGUF files end in a typed error that names the problem, within the budget, without a panic.

use std::collections::{BTreeSet, HashMap};
use std::io::Cursor;

use crate::support::gguf::{Gguf, tag};
use anamnesis::{
    AnamnesisError, Checkpoint, GgufMetadataValue, ParseLimits, RememberOptions, TargetDtype, parse_gguf_bytes,
    parse_gguf_bytes_with_limits, parse_gguf_front_matter_from_reader, parse_gguf_front_matter_from_reader_with_limits,
};

fn new() -> Gguf {
    Gguf::default()
}

/// The error of a file, which is the same from bytes and from a reader.
#[track_caller]
fn refused(bytes: &[u8]) -> AnamnesisError {
    let Err(error) = parse_gguf_bytes(bytes.to_vec()) else { panic!("the file was read") };
    let Err(again) = parse_gguf_front_matter_from_reader(Cursor::new(bytes)) else { panic!("the reader was read") };
    assert_eq!(error.to_string(), again.to_string());
    assert!(Checkpoint::from_bytes(bytes.to_vec(), &ParseLimits::default()).is_err());
    error
}

#[track_caller]
fn malformed(file: &Gguf, words: &[&str]) {
    let error = refused(&file.bytes());
    assert!(matches!(error, AnamnesisError::Parse { .. }), "{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[track_caller]
fn unsupported(file: &Gguf, words: &[&str]) {
    let error = refused(&file.bytes());
    assert!(matches!(error, AnamnesisError::Unsupported { .. }), "{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[track_caller]
fn limited(file: &Gguf, tag: &str) {
    let error = refused(&file.bytes());
    assert!(matches!(error, AnamnesisError::LimitExceeded { limit, .. } if limit == tag), "{error}");
}

// Header

#[test]
fn other_magic_numbers_are_distinguished() {
    malformed(&Gguf { magic: *b"ABCD", ..new() }, &["\"GGUF\"", "\"ABCD\""]);
    for magic in [b"FUGG", b"GGML", b"GGMF", b"GGJT", b"TJGG"] {
        // Only the magic number identifies the format, so a checkpoint detects another one.
        let bytes = Gguf { magic: *magic, ..new() }.bytes();
        let error = parse_gguf_bytes(bytes).unwrap_err();
        assert!(matches!(error, AnamnesisError::Unsupported { .. }), "{error}");
    }
}

#[test]
fn unsupported_versions_are_named() {
    for version in [0, 1, 4, 17, u32::MAX] {
        unsupported(&Gguf { version, ..new() }, &[&format!("version {version} "), "2 and 3"]);
    }
    for version in [2, 4] {
        unsupported(&Gguf { version, big_endian: true, ..new() }, &[&format!("big-endian version {version}")]);
    }
}

#[test]
fn counts_are_checked_against_caps_and_remaining_bytes() {
    for count in [1 << 63, u64::MAX, 1_000_001, 1 << 32] {
        limited(&Gguf { tensor_count: Some(count), ..new() }, "MAX_TENSOR_COUNT");
        limited(&Gguf { entry_count: Some(count), ..new() }, "MAX_KV_COUNT");
    }
    malformed(&Gguf { tensor_count: Some(1_000_000), ..new() }, &["1000000 tensors", "left"]);
    malformed(&Gguf { entry_count: Some(1_000_000), ..new() }, &["1000000 metadata entries", "left"]);
    malformed(&Gguf { entry_count: Some(2), ..new().number("a", 1) }, &["2 metadata entries"]);
    malformed(&Gguf { entry_count: Some(0), ..new().number("a", 1).tensor("x", &[4], 0, 0).data(16) }, &[]);
}

// Metadata

#[test]
fn keys_must_be_unique_utf8_strings() {
    malformed(&new().number("", 1), &["key is empty"]);
    malformed(&new().number("a", 1).string("b", "").number("a", 2), &["\"a\"", "twice"]);
    let mut file = new().number("a", 1);
    file.entries[0][8] = 0xff;
    malformed(&file, &["UTF-8"]);
    for length in [1 << 63, u64::MAX, 65_536] {
        let mut file = new().number("a", 1);
        file.entries[0][..8].copy_from_slice(&u64::to_le_bytes(length));
        limited(&file, "MAX_GGUF_KEY_LEN");
    }
    let mut file = new().number("a", 1);
    file.entries[0][..8].copy_from_slice(&u64::to_le_bytes(60_000));
    malformed(&file, &["60000 bytes", "the file ends"]);
}

#[test]
fn values_must_be_of_a_known_type_and_in_range() {
    for wrong in [13, 255, u32::MAX] {
        malformed(&new().entry("a", wrong, &[0; 16]), &["\"a\"", &format!("type {wrong} ")]);
        let array = [new().u32(wrong), new().u64(1), vec![0; 16]].concat();
        malformed(&new().entry("a", tag::ARRAY, &array), &["\"a\"", &format!("type {wrong} ")]);
    }
    malformed(&new().entry("a", tag::BOOL, &[2]), &["\"a\"", "byte 2"]);
    let bools = [new().u32(tag::BOOL), new().u64(3), vec![0, 1, 3]].concat();
    malformed(&new().entry("a", tag::ARRAY, &bools), &["\"a\"", "byte 3"]);
    malformed(&new().entry("a", tag::STRING, &new().text([0xc3, 0x28])), &["\"a\"", "UTF-8"]);
    malformed(&new().entry("a", tag::STRING, &new().u64(1000)), &["\"a\"", "1000 bytes"]);
    for length in [1 << 63, u64::MAX, (16 << 20) + 1] {
        limited(&new().entry("a", tag::STRING, &new().u64(length)), "MAX_STRING_LEN");
    }
}

#[test]
fn arrays_are_checked_against_caps_and_remaining_bytes() {
    for item in [tag::U8, tag::U64, tag::STRING, tag::ARRAY, tag::BOOL] {
        for length in [1 << 62, u64::MAX, 1 << 32, 16_000_001] {
            let array = [new().u32(item), new().u64(length)].concat();
            limited(&new().entry("a", tag::ARRAY, &array), "MAX_ARRAY_LEN");
        }
        let array = [new().u32(item), new().u64(16_000_000)].concat();
        malformed(&new().entry("a", tag::ARRAY, &array), &["\"a\"", "16000000 items"]);
    }
    let strings = [new().u32(tag::STRING), new().u64(2), new().text("x"), new().u64(50)].concat();
    malformed(&new().entry("a", tag::ARRAY, &strings), &["\"a\"", "50 bytes"]);
}

/// `depth` levels of arrays, the innermost of one byte.
fn nested(depth: usize) -> Vec<u8> {
    let outer = [new().u32(tag::ARRAY), new().u64(1)].concat().repeat(depth - 1);
    [outer, new().u32(tag::U8), new().u64(1), vec![7]].concat()
}

#[test]
fn arrays_nest_four_deep() {
    assert!(parse_gguf_bytes(new().entry("a", tag::ARRAY, &nested(4)).bytes()).is_ok());
    for depth in [5, 100, 100_000] {
        limited(&new().entry("a", tag::ARRAY, &nested(depth)), "MAX_ARRAY_DEPTH");
    }
}

#[test]
fn the_alignment_is_a_power_of_two_of_type_u32() {
    for wrong in [0, 3, 33, u32::MAX] {
        malformed(&new().number("general.alignment", wrong), &["general.alignment", &wrong.to_string()]);
    }
    for alignment in [1 << 25, 1 << 30, 1 << 31] {
        limited(&new().number("general.alignment", alignment), "MAX_ALIGNMENT");
    }
    malformed(&new().entry("general.alignment", tag::U64, &new().u64(32)), &["general.alignment", "U32"]);
    malformed(&new().string("general.alignment", "32"), &["general.alignment", "U32"]);
    malformed(&new().number("general.alignment", 64).tensor("x", &[4], 0, 32).data(256), &["\"x\"", "64"]);
}

// Tensors

#[test]
fn tensor_names_must_be_unique_utf8_strings() {
    malformed(&new().tensor("x", &[4], 0, 0).tensor("x", &[4], 0, 32).data(64), &["\"x\"", "twice"]);
    for length in [1 << 63, u64::MAX, 65_536] {
        let mut file = new().tensor("x", &[4], 0, 0).data(16);
        file.tensors[0][..8].copy_from_slice(&u64::to_le_bytes(length));
        limited(&file, "MAX_TENSOR_NAME_LEN");
    }
    let mut file = new().tensor("x", &[4], 0, 0).data(16);
    file.tensors[0][8] = 0xff;
    malformed(&file, &["UTF-8"]);
}

#[test]
fn ranks_from_one_to_eight_are_read() {
    assert!(parse_gguf_bytes(new().tensor("x", &[4, 1, 1, 1, 1], 0, 0).data(16).bytes()).is_ok());
    malformed(&new().tensor("x", &[], 0, 0).data(64), &["\"x\"", "no dimensions"]);
    limited(&new().tensor("x", &[1; 9], 0, 0).data(64), "MAX_TENSOR_DIMS");
    let mut file = new().tensor("x", &[4], 0, 0).data(16);
    file.tensors[0][9..13].copy_from_slice(&[0xff; 4]);
    limited(&file, "MAX_TENSOR_DIMS");
}

#[test]
fn dimensions_are_multiplied_without_wrapping() {
    malformed(&new().tensor("x", &[0], 0, 0).data(16), &["\"x\"", "dimension of 0"]);
    malformed(&new().tensor("x", &[4, 0, 2], 31, 0).data(16), &["\"x\"", "dimension of 0"]);
    malformed(&new().tensor("x", &[u64::MAX], 0, 0).data(16), &["\"x\"", "2^63"]);
    malformed(&new().tensor("x", &[1 << 63], 0, 0).data(16), &["\"x\"", "2^63"]);
    malformed(&new().tensor("x", &[1 << 32, 1 << 32], 0, 0).data(16), &["\"x\"", "2^64 elements"]);
    malformed(&new().tensor("x", &[1 << 22, 1 << 22, 1 << 22], 0, 0).data(16), &["\"x\"", "2^64 elements"]);
    malformed(&new().tensor("x", &[(1 << 62) + 4, 4], 0, 0).data(16), &["\"x\"", "2^64 elements"]);
    limited(&new().tensor("x", &[1 << 62], 0, 0).data(16), "MAX_TENSOR_ELEMENTS");
    limited(&new().tensor("x", &[1 << 20, 1 << 20], 24, 0).data(16), "MAX_TENSOR_ELEMENTS");
}

#[test]
fn rows_must_be_whole_blocks() {
    malformed(&new().tensor("x", &[16, 2], 8, 0).data(34), &["\"x\"", "Q8_0", "32"]);
    malformed(&new().tensor("x", &[128, 2], 12, 0).data(144), &["\"x\"", "Q4_K", "256"]);
}

#[test]
fn offsets_are_aligned_and_inside_the_file() {
    malformed(&new().tensor("x", &[4], 0, 4).data(64), &["\"x\"", "offset 4", "32"]);
    let file = new().tensor("x", &[4], 0, 0);
    assert!(parse_gguf_bytes(file.clone().data(16).bytes()).is_ok());
    malformed(&file.data(15), &["\"x\"", "past the end of the file"]);
    malformed(&new().tensor("x", &[4], 0, u64::MAX - 31).data(64), &["\"x\"", "2^64"]);
    malformed(&new().tensor("x", &[4], 0, (1 << 63) - 32).data(64), &["\"x\"", "past the end"]);
    malformed(&new().tensor("x", &[4], 0, u64::MAX - 63 - 96).data(64), &["\"x\""]);
    malformed(&new().tensor("x", &[256], 31, 64).data(64), &["\"x\"", "past the end"]);
    malformed(&new().tensor("x", &[1 << 38], 0, 0).tensor("y", &[4], 0, 0).data(16), &["\"x\"", "past the end"]);
}

#[test]
fn tensors_follow_one_another_in_the_order_of_the_file() {
    let two = |x: u64, y: u64| new().tensor("x", &[9], 0, x).tensor("y", &[16], 0, y);
    assert_eq!(parse_gguf_bytes(two(0, 64).data(128).bytes()).unwrap().tensors().count(), 2);
    malformed(&two(0, 0).data(128), &["\"y\"", "inside", "\"x\""]);
    malformed(&two(0, 32).data(128), &["\"y\"", "inside", "\"x\""]);
    malformed(&two(0, 96).data(192), &["\"y\"", "hole"]);
    malformed(&two(32, 96).data(192), &["\"x\"", "hole"]);
    // The order of the data is that of the tensors.
    malformed(&two(64, 0).data(128), &["\"x\"", "hole"]);
    // Only the first byte of a tensor of unknown type is known.
    let unknown = |y| new().tensor("x", &[4], 31, 0).tensor("y", &[16], 0, y);
    malformed(&unknown(0).data(64), &["\"y\"", "inside", "\"x\""]);
    assert!(parse_gguf_bytes(unknown(96).data(160).bytes()).is_ok());
    // Padding after the last tensor is optional, and nothing may follow it.
    let one = || new().tensor("x", &[9], 0, 0);
    for bytes in [36, 50, 64] {
        assert!(parse_gguf_bytes(one().data(bytes).bytes()).is_ok(), "{bytes}");
    }
    malformed(&one().data(65), &["1 bytes after the last tensor"]);
}

// Limits

/// A valid file with all features.
fn sound() -> Gguf {
    let strings = [new().u32(tag::STRING), new().u64(3), new().text("a"), new().text(""), new().text("ccc")].concat();
    let numbers = [new().u32(tag::U16), new().u64(3), vec![1, 2, 3, 4, 5, 6]].concat();
    new()
        .string("general.architecture", "test")
        .number("general.alignment", 32)
        .entry("truth", tag::BOOL, &[1])
        .entry("strings", tag::ARRAY, &strings)
        .entry("numbers", tag::ARRAY, &numbers)
        .entry("nested", tag::ARRAY, &nested(3))
        .tensor("x", &[4, 2], 0, 0)
        .tensor("y", &[32], 8, 32)
        .tensor("odd", &[5], 146, 96)
        .data(100)
}

#[test]
fn reading_is_charged_to_the_limits() {
    let tag_of = |file: &Gguf, limits: ParseLimits| match parse_gguf_front_matter_from_reader_with_limits(
        Cursor::new(file.bytes()),
        &limits,
    ) {
        Err(AnamnesisError::LimitExceeded { limit, .. }) => limit,
        other => panic!("expected a limit, got {other:?}"),
    };
    let unbounded = ParseLimits::unbounded;
    let sound = sound();
    assert_eq!(tag_of(&sound, unbounded().with_max_item_count(2)), "max_item_count");
    assert_eq!(tag_of(&sound, unbounded().with_max_total_bytes(500)), "max_total_bytes");
    let large = new().string("a", &"x".repeat(10_000));
    assert_eq!(tag_of(&large, unbounded().with_max_single_alloc(9_999)), "max_single_alloc_bytes");
    let strings = [new().u32(tag::STRING), new().u64(1000), vec![0; 8000]].concat();
    let many = new().entry("a", tag::ARRAY, &strings);
    assert_eq!(tag_of(&many, unbounded().with_max_single_alloc(20_000)), "max_single_alloc_bytes");
    let numbers = [new().u32(tag::U64), new().u64(1000), vec![0; 8000]].concat();
    let many = new().entry("a", tag::ARRAY, &numbers);
    assert_eq!(tag_of(&many, unbounded().with_max_single_alloc(7_999)), "max_single_alloc_bytes");
    let bytes = sound.bytes();
    let limits = unbounded().with_max_single_alloc(bytes.len() as u64 - 1);
    let error = parse_gguf_bytes_with_limits(bytes, &limits).unwrap_err();
    assert!(matches!(error, AnamnesisError::LimitExceeded { limit: "max_single_alloc_bytes", .. }), "{error}");
    let limits = unbounded().with_max_single_alloc(1000).with_max_total_bytes(10_000).with_max_item_count(6);
    assert!(parse_gguf_bytes_with_limits(sound.bytes(), &limits).is_ok());
}

// Arbitrary bytes

/// Everything that can be done with bytes, none of which may panic.
fn exercise(bytes: &[u8]) -> bool {
    let limits = ParseLimits::unbounded().with_max_total_bytes(1 << 24);
    let from_bytes = parse_gguf_bytes_with_limits(bytes.to_vec(), &limits);
    let from_reader = parse_gguf_front_matter_from_reader_with_limits(Cursor::new(bytes), &limits);
    assert_eq!(from_bytes.is_ok(), from_reader.is_ok());
    if let Ok(checkpoint) = Checkpoint::from_bytes(bytes.to_vec(), &limits) {
        let _ = checkpoint.inspect(&Default::default());
    }
    let Ok(parsed) = from_bytes else { return false };
    // Debug texts, because NaN does not equal itself.
    let texts = |metadata: &HashMap<String, GgufMetadataValue>| {
        metadata.iter().map(|(key, value)| format!("{key} {value:?}")).collect::<BTreeSet<_>>()
    };
    assert_eq!(texts(parsed.metadata()), texts(&from_reader.unwrap().metadata));
    let _ = parsed.inspect().to_string();
    for tensor in parsed.tensors() {
        assert_eq!(
            tensor.dtype.byte_size_for_n_elements(tensor.shape.iter().product::<usize>() as u64).unwrap(),
            tensor.data.len() as u64
        );
    }
    let _ = parsed.remember_to_bytes_with_options(TargetDtype::BF16, RememberOptions::new().with_threads(1));
    true
}

fn big_endian() -> Gguf {
    let file = Gguf { big_endian: true, ..new() };
    file.number("a", 1).tensor("x", &[4], 0, 0).tensor("y", &[64], 8, 32).data(100)
}

#[test]
fn a_file_cut_at_any_byte_is_refused() {
    for file in [sound(), big_endian()] {
        let bytes = file.bytes();
        assert!(parse_gguf_bytes(bytes.clone()).is_ok());
        for end in 0..bytes.len() {
            // After its first byte, the extent of a tensor of unknown type is unknown.
            let only_unknown_bytes_are_gone = !file.big_endian && bytes.len() - end < 4;
            assert_eq!(exercise(&bytes[..end]), only_unknown_bytes_are_gone, "{end}");
        }
    }
}

#[test]
fn no_single_byte_change_causes_a_panic() {
    for file in [sound(), big_endian()] {
        let bytes = file.bytes();
        let front_matter = bytes.len() - 100;
        for place in 0..front_matter {
            let right = bytes[place];
            for wrong in [0, 1, 0x7f, 0x80, 0xff, right ^ 1, right ^ 0x10, right.wrapping_add(1)] {
                let mut mutated = bytes.clone();
                mutated[place] = wrong;
                exercise(&mutated);
            }
        }
    }
}
