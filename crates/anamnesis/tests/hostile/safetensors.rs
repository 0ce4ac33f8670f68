//! Malformed safetensors files end in a typed error with a location, from every entry point.

use crate::support;
use std::io::{Cursor, ErrorKind};
use std::mem::discriminant;

use crate::support::{Contents, Folder, Model, Noise, assert_mentions, limit_tag, parse_reason, raw};
use anamnesis::parse::safetensors::MAX_SAFETENSORS_HEADER_BYTES;
use anamnesis::{
    AnamnesisError, Checkpoint, Dtype, InspectOptions, ParseLimits, RememberOptions, TargetDtype, parse, parse_bytes,
    parse_bytes_with_limits, parse_from_reader_with_limits, parse_safetensors_header,
    parse_safetensors_header_from_reader, parse_safetensors_header_from_reader_with_limits,
    parse_safetensors_header_with_limits, parse_with_limits,
};

/// The error of a file that must be refused; all entry points must agree on its kind. For those of one format, a file
/// of another format is malformed.
#[track_caller]
fn rejected(file: &[u8]) -> AnamnesisError {
    let folder = Folder::staged(file, None);
    let Err(error) = parse_safetensors_header(file) else { panic!("the header was accepted") };
    let others = [
        parse_bytes(file.to_vec()).err(),
        Checkpoint::from_reader(Cursor::new(file.to_vec()), &ParseLimits::default()).err(),
        parse(folder.model()).err(),
    ];
    for other in others {
        let other = other.expect("an entrance accepted what another refuses");
        if let (AnamnesisError::NotAModel { detail, .. }, AnamnesisError::Parse { reason }) = (&other, &error) {
            assert_eq!(detail, reason);
            continue;
        }
        assert_eq!(discriminant(&other), discriminant(&error), "{other} but {error}");
    }
    error
}

/// A file with one entry of this text, named `x`.
fn entry(text: &str, data: &[u8]) -> Vec<u8> {
    raw(format!(r#"{{"x":{text}}}"#), data)
}

#[track_caller]
fn entry_is_refused(text: &str, words: &[&str]) {
    let reason = parse_reason(rejected(&entry(text, &[0; 8])));
    assert_mentions(&reason, &["\"x\""]);
    assert_mentions(&reason, words);
}

// Header length

#[test]
fn files_shorter_than_a_header_length_are_refused() {
    assert_mentions(&parse_reason(rejected(&[])), &["empty"]);
    for length in 1..8 {
        assert_mentions(&parse_reason(rejected(&vec![1; length])), &[&format!("{length} bytes")]);
    }
}

#[test]
fn a_header_of_no_bytes_is_refused() {
    assert_mentions(&parse_reason(rejected(&[0; 8])), &["does not start with '{'"]);
}

#[test]
fn a_header_too_short_for_its_text_is_refused() {
    let mut file = raw(r#"{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#, b"x");
    file[0] = 7;
    parse_reason(rejected(&file));
}

#[test]
fn a_header_past_the_end_of_the_file_is_refused() {
    let mut file = raw("{}", b"");
    for length in [3u64, 1000, MAX_SAFETENSORS_HEADER_BYTES] {
        file[..8].copy_from_slice(&length.to_le_bytes());
        assert_mentions(&parse_reason(rejected(&file)), &[&length.to_string(), "past the end of the file (10)"]);
    }
}

#[test]
fn a_header_longer_than_the_permanent_cap_is_refused_before_it_is_read() {
    let mut file = raw("{}", b"");
    for length in [MAX_SAFETENSORS_HEADER_BYTES + 1, 1 << 63, u64::MAX] {
        file[..8].copy_from_slice(&length.to_le_bytes());
        assert_eq!(limit_tag(rejected(&file)), "MAX_SAFETENSORS_HEADER_BYTES");
        let error = parse_safetensors_header_from_reader(&file[..]).unwrap_err();
        assert_eq!(limit_tag(error), "MAX_SAFETENSORS_HEADER_BYTES");
    }
}

#[test]
fn files_of_other_kinds_are_named() {
    let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 4670885068\n";
    assert_mentions(&parse_reason(rejected(lfs)), &["Git LFS pointer", "not the file itself"]);
    assert_mentions(&parse_reason(rejected(b"<!DOCTYPE html><html></html>")), &["HTML page"]);
    assert_mentions(&parse_reason(rejected(b"{\"error\": \"not found\"}")), &["JSON document"]);
    assert_mentions(&parse_reason(rejected(b"Entry not found")), &["text document"]);
    assert_mentions(&parse_reason(rejected(b"\x80\x02}q\0(X\x01\0\0\0aq")), &["pickle"]);
    let gguf = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    for other in [&gguf[..], b"PK\x03\x04\x14\0\0\0\0\0\0\0"] {
        let error = parse_bytes(other.to_vec()).err().unwrap();
        assert!(matches!(error, AnamnesisError::Unsupported { .. }), "{error}");
    }
}

// Header text

#[test]
fn a_header_that_is_not_an_object_is_refused() {
    for text in ["[]", "null", "1", "\"x\"", " {}", "\u{feff}{}", "{", "{}}", "{} x", "{]", "{,}", "{\"a\"}"] {
        parse_reason(rejected(&raw(text, b"")));
    }
}

#[test]
fn a_header_may_end_in_spaces() {
    assert_eq!(parse_safetensors_header(&raw("{}      ", b"")).unwrap().tensors.len(), 0);
}

#[test]
fn a_header_that_is_not_utf8_is_refused() {
    for name in [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\\ud800"] {
        let header = [b"{\"", name, b"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"].concat();
        parse_reason(rejected(&raw(header, b"")));
    }
}

#[test]
fn a_tensor_that_occurs_twice_is_refused_by_name() {
    let entry = r#""x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}"#;
    assert_mentions(&parse_reason(rejected(&raw(format!("{{{entry},{entry}}}"), b""))), &["\"x\" occurs twice"]);
    let escaped = entry.replace("\"x\"", "\"\\u0078\"");
    assert_mentions(&parse_reason(rejected(&raw(format!("{{{entry},{escaped}}}"), b""))), &["\"x\" occurs twice"]);
}

#[test]
fn a_key_that_occurs_twice_in_an_entry_is_refused() {
    for (key, value) in [("dtype", "\"U8\""), ("shape", "[8]"), ("data_offsets", "[0,8]")] {
        let text = format!(r#"{{"dtype":"U8","shape":[8],"data_offsets":[0,8],"{key}":{value}}}"#);
        entry_is_refused(&text, &[key, "twice"]);
    }
}

#[test]
fn metadata_that_is_not_an_object_of_strings_is_refused() {
    for metadata in ["1", "[]", "\"pt\"", r#"{"a":1}"#, r#"{"a":null}"#, r#"{"a":{}}"#, r#"{"a":["b"]}"#] {
        parse_reason(rejected(&raw(format!(r#"{{"__metadata__":{metadata}}}"#), b"")));
    }
}

#[test]
fn metadata_with_a_key_twice_or_given_twice_is_refused() {
    let reason = parse_reason(rejected(&raw(r#"{"__metadata__":{"a":"1","a":"2"}}"#, b"")));
    assert_mentions(&reason, &["__metadata__", "\"a\"", "twice"]);
    let reason = parse_reason(rejected(&raw(r#"{"__metadata__":{},"__metadata__":{}}"#, b"")));
    assert_mentions(&reason, &["__metadata__", "twice"]);
}

#[test]
fn deep_nesting_is_refused_or_skipped_without_recursion() {
    for depth in [200, 1_000_000] {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        parse_reason(rejected(&raw(format!(r#"{{"x":{open}{close}}}"#), b"")));
        parse_reason(rejected(&raw(format!(r#"{{"__metadata__":{{"a":{open}{close}}}}}"#), b"")));
        parse_reason(rejected(&entry(&format!(r#"{{"dtype":"U8","shape":{open}{close}}}"#), b"")));
        let objects = (r#"{"a":"#.repeat(depth), "}".repeat(depth));
        parse_reason(rejected(&raw(format!("{}{{}}{}", objects.0, objects.1), b"")));
        // An unknown key is skipped, however deep its value is.
        let unknown = format!(r#"{{"dtype":"U8","shape":[0],"data_offsets":[0,0],"more":{open}{close}}}"#);
        assert!(!matches!(parse_safetensors_header(&entry(&unknown, b"")), Err(AnamnesisError::Io(_))));
    }
}

#[test]
fn numbers_that_are_not_unsigned_integers_are_refused() {
    for number in ["1e3", "1.0", "-1", "-0.0", "18446744073709551616", "1e999", "\"8\"", "null", "true", "08", "+8"] {
        entry_is_refused(&format!(r#"{{"dtype":"U8","shape":[{number}],"data_offsets":[0,8]}}"#), &["shape"]);
        entry_is_refused(&format!(r#"{{"dtype":"U8","shape":[8],"data_offsets":[0,{number}]}}"#), &["data_offsets"]);
    }
}

#[test]
fn entries_that_lack_a_key_are_refused_by_name() {
    entry_is_refused(r#"{"shape":[8],"data_offsets":[0,8]}"#, &["no dtype"]);
    entry_is_refused(r#"{"dtype":"U8","data_offsets":[0,8]}"#, &["no shape"]);
    entry_is_refused(r#"{"dtype":"U8","shape":[8]}"#, &["no data_offsets"]);
    entry_is_refused(r#"{"dtype":"U8","shape":[8],"data_offsets":[0]}"#, &["not a pair"]);
    entry_is_refused(r#"{"dtype":"U8","shape":[8],"data_offsets":[0,8,8]}"#, &["not a pair"]);
    entry_is_refused("[]", &[]);
    entry_is_refused("null", &[]);
}

#[test]
fn unknown_dtypes_are_refused_by_name() {
    for dtype in ["f32", "F33", "", "F8", "U8 ", "I4"] {
        entry_is_refused(&format!(r#"{{"dtype":"{dtype}","shape":[8],"data_offsets":[0,8]}}"#), &["dtype"]);
    }
}

// Sizes and offsets

#[test]
fn shapes_and_offsets_must_agree() {
    for (shape, end) in [("[7]", 8), ("[9]", 8), ("[]", 8), ("[2,2,3]", 8), ("[0]", 8), ("[8]", 7)] {
        let text = format!(r#"{{"dtype":"U8","shape":{shape},"data_offsets":[0,{end}]}}"#);
        entry_is_refused(&text, &["takes", &format!("[0, {end}]")]);
    }
}

#[test]
fn reversed_offsets_are_refused() {
    entry_is_refused(r#"{"dtype":"U8","shape":[8],"data_offsets":[8,0]}"#, &["data byte 8"]);
    entry_is_refused(r#"{"dtype":"U8","shape":[0],"data_offsets":[8,8]}"#, &["hole"]);
}

#[test]
fn sizes_that_overflow_are_refused() {
    let huge = [
        "[18446744073709551615]",
        "[4294967296,4294967296]",
        "[4194304,4194304,4194304]",
        "[18446744073709551615,18446744073709551615,0]",
    ];
    for shape in huge {
        for dtype in ["U8", "F32", "F4", "C64"] {
            let text = format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,8]}}"#);
            entry_is_refused(&text, &["no size in whole bytes"]);
        }
    }
}

#[test]
fn types_of_less_than_a_byte_must_fill_whole_bytes() {
    for (dtype, shape) in [("F4", "[3]"), ("F4", "[5,5]"), ("F6_E2M3", "[2]"), ("F6_E3M2", "[3,3]")] {
        let text = format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,8]}}"#);
        entry_is_refused(&text, &[dtype, "whole bytes"]);
    }
}

/// A file of U8 tensors `t0`, `t1`, … at these offsets.
fn at_offsets(offsets: &[(u64, u64)], data: &[u8]) -> Vec<u8> {
    let entry = |(index, (start, end)): (usize, &(u64, u64))| {
        let length = end.saturating_sub(*start);
        format!(r#""t{index}":{{"dtype":"U8","shape":[{length}],"data_offsets":[{start},{end}]}}"#)
    };
    let entries: Vec<_> = offsets.iter().enumerate().map(entry).collect();
    raw(format!("{{{}}}", entries.join(",")), data)
}

#[test]
fn overlapping_tensors_are_refused_by_name() {
    for offsets in [[(0, 4), (2, 8)], [(0, 8), (0, 8)], [(0, 8), (7, 8)]] {
        assert_mentions(&parse_reason(rejected(&at_offsets(&offsets, &[0; 8]))), &["\"t1\"", "overlaps"]);
    }
}

#[test]
fn gaps_between_tensors_are_refused_by_name() {
    assert_mentions(&parse_reason(rejected(&at_offsets(&[(0, 4), (5, 8)], &[0; 8]))), &["\"t1\"", "hole"]);
    assert_mentions(&parse_reason(rejected(&at_offsets(&[(1, 8)], &[0; 8]))), &["\"t0\"", "hole"]);
}

#[test]
fn bytes_after_the_last_tensor_are_refused() {
    assert_mentions(&parse_reason(rejected(&at_offsets(&[(0, 4)], &[0; 8]))), &["4 bytes after the last tensor"]);
    assert_mentions(&parse_reason(rejected(&raw("{}", b"PK"))), &["2 bytes after the last tensor"]);
}

#[test]
fn tensors_past_the_end_are_refused_by_name() {
    let reason = parse_reason(rejected(&at_offsets(&[(0, 4), (4, 9)], &[0; 8])));
    assert_mentions(&reason, &["truncated", "\"t1\"", "data byte 9", "holds 8"]);
}

#[test]
fn tensors_that_together_pass_the_end_of_u64_are_refused_or_described_without_wrapping() {
    let step = (1u64 << 61) - 1;
    let mut offsets: Vec<_> = (0..8).map(|index| (index * step, (index + 1) * step)).collect();
    offsets.push((8 * step, 8 * step + 7));
    let file = at_offsets(&offsets, b"");
    parse_reason(rejected(&file));
    // The stream form does not read the data; its arithmetic must not wrap around.
    if let Ok(header) = parse_safetensors_header_from_reader(&file[..]) {
        assert_eq!(header.tensors[8].data_offsets, (8 * step as usize, 8 * step as usize + 7));
    }
}

#[test]
fn order_in_the_header_does_not_matter() {
    let file = at_offsets(&[(4, 8), (0, 4), (4, 4), (0, 0), (8, 8)], b"aaaabbbb");
    let model = parse_bytes(file).unwrap();
    assert_eq!(&*model.checkpoint().tensor_data("t0").unwrap().unwrap(), b"bbbb");
    assert_eq!(&*model.checkpoint().tensor_data("t1").unwrap().unwrap(), b"aaaa");
    assert!(model.checkpoint().tensor_data("t5").unwrap().is_none());
}

#[test]
fn a_shape_of_very_many_dimensions_costs_no_more_than_its_text() {
    let ones = vec!["1"; 200_000].join(",");
    for scale in [&ones, "", "1"] {
        let header = format!(
            r#"{{"x.weight":{{"dtype":"F8_E4M3","shape":[{ones}],"data_offsets":[0,1]}},
                "x.weight_scale":{{"dtype":"F8_E8M0","shape":[{scale}],"data_offsets":[1,2]}}}}"#
        );
        let model = parse_bytes(raw(header, &[0x38, 128])).unwrap();
        let output = Contents::of(&model.remember_to_bytes(TargetDtype::F32).unwrap());
        assert_eq!(output.floats("x.weight"), [2.0]);
    }
}

#[test]
fn very_many_weights_of_one_module_are_claimed_in_one_pass() {
    let entry = |index: usize| format!(r#""m.{index:06}":{{"dtype":"F8_E4M3","shape":[1,0],"data_offsets":[0,0]}}"#);
    let entries: Vec<_> = (0..50_000).map(entry).collect();
    let model = parse_bytes(raw(format!("{{{}}}", entries.join(",")), b"")).unwrap();
    assert_eq!(model.inspect().quantized, 50_000);
    assert!(model.inspect().problems.is_empty());
}

// Names

#[test]
fn names_are_data_whatever_they_look_like() {
    let names =
        ["", "../../etc/passwd", "/etc/passwd", "a\0b", "\u{1b}[2J\u{7}", "evil\u{202e}gnp", "a\nb", "\\", "💾"];
    let model = names.iter().fold(Model::new(), |model, name| model.tensor(name, "U8", &[1], b"x"));
    let folder = Folder::staged(&model.bytes(), None);
    let output = folder.remember(TargetDtype::BF16).unwrap();
    let mut sorted = names;
    sorted.sort_unstable();
    assert_eq!(output.names(), sorted);
    assert_eq!(folder.names(), ["model.safetensors", "out.safetensors"]);
}

#[test]
fn a_name_in_an_error_cannot_steer_a_terminal() {
    for name in ["\u{1b}[2J", "a\u{7}", "evil\u{202e}gnp", "a\r\nb", "\u{9b}31m", "zero\u{200b}width"] {
        let quoted = serde_json::to_string(name).unwrap();
        for entry in ["1", "{}", r#"{"dtype":"?"}"#, r#"{"dtype":"U8","shape":[2],"data_offsets":[0,1]}"#] {
            let text = rejected(&raw(format!("{{{quoted}:{entry}}}"), b"x")).to_string();
            assert!(!text.contains(name) && !text.chars().any(char::is_control), "{text:?}");
        }
        let metadata = format!(r#"{{"__metadata__":{{{quoted}:"a",{quoted}:"b"}}}}"#);
        let text = rejected(&raw(metadata, b"")).to_string();
        assert!(!text.contains(name) && !text.chars().any(char::is_control), "{text:?}");
    }
}

#[test]
fn a_name_of_ten_megabytes_is_kept_in_files_and_cut_in_errors() {
    let name = "n".repeat(10_000_000);
    let model = Model::new().tensor(&name, "U8", &[1], b"x").bytes();
    let output = parse_bytes(model).unwrap().remember_to_bytes(TargetDtype::BF16).unwrap();
    assert_eq!(Contents::of(&output).names(), [&name]);
    for entry in ["1", r#"{"dtype":"U8","shape":[2],"data_offsets":[0,1]}"#] {
        assert!(rejected(&raw(format!("{{\"{name}\":{entry}}}"), b"x")).to_string().len() < 4096);
    }
}

// Every cut and every flipped byte

/// A small file with all kinds of tensors.
fn small() -> Vec<u8> {
    Model::new()
        .metadata("format", "pt")
        .floats("a.weight_scale", &[1], &[0.5])
        .tensor("a.weight", "F8_E4M3", &[2, 2], &[0x38; 4])
        .tensor("b", "U8", &[2], b"bb")
        .bytes()
}

#[test]
fn a_file_cut_at_any_byte_is_refused() {
    let file = small();
    parse_bytes(file.clone()).unwrap();
    for length in 0..file.len() {
        parse_reason(rejected(&file[..length]));
    }
}

/// Opens, inspects and decodes: every step gives a result or a typed error, within the limits.
fn survives(file: Vec<u8>) {
    let limits = ParseLimits::default().with_max_single_alloc(1 << 20).with_max_total_bytes(4 << 20);
    let _ = parse_safetensors_header_from_reader_with_limits(&file[..], &limits);
    let Ok(model) = parse_bytes_with_limits(file, &limits) else { return };
    let _ = model.inspect_with_options(&InspectOptions::new().with_output_dtype(TargetDtype::F32)).to_string();
    let options = RememberOptions::new().with_threads(1);
    if let Ok(output) = model.remember_to_bytes_with_options(TargetDtype::F32, options) {
        let again = parse_safetensors_header(&output).expect("what was written can be read");
        assert_eq!(again.quantized_count(), 0);
    }
}

#[test]
fn any_single_changed_byte_gives_a_result_or_a_typed_error() {
    let file = small();
    let header = file.len() - 10;
    for position in 0..header {
        // Digits and punctuation change the most; the rest of the 256 values are taken in turn.
        let others = (0..16).map(|step| (step * 16 + position) as u8);
        for byte in b"0129-.eE\"\\{}[]:, \0\x7f\xff".iter().copied().chain(others) {
            let mut changed = file.clone();
            changed[position] = byte;
            survives(changed);
        }
    }
}

#[test]
fn random_damage_gives_a_result_or_a_typed_error() {
    let fixtures = [
        "fp8/modelopt_kv_cache",
        "fp8/experts_block_tall",
        "gptq/int4_g16_asym_actorder_v1",
        "gptq/int3_g16_asym_actorder_v1",
        "awq/gemm_g32",
        "bnb/nf4_nested_b64_bfloat16",
        "bnb/fp4_b64_float16",
        "bnb/int8_bias",
    ];
    let read = |path: &str| std::fs::read(support::fixture(&format!("{path}.safetensors"))).unwrap();
    let files: Vec<_> = fixtures.iter().map(|path| read(path)).chain([small()]).collect();
    for seed in 0..6000 {
        let mut noise = Noise(seed);
        let mut file = files[seed as usize % files.len()].clone();
        let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        for _ in 0..1 + noise.below(4) {
            // Mostly the header; the data too, where some schemes keep indices and descriptions.
            let end = if noise.below(4) == 0 { file.len() - 8 } else { header };
            let position = 8 + noise.below(end);
            match noise.below(4) {
                0 => file[position] = noise.next() as u8,
                1 => file[position] ^= 1 << noise.below(8),
                2 => {
                    let from = 8 + noise.below(end);
                    let length = noise.below(12).min(file.len() - position.max(from));
                    file.copy_within(from..from + length, position);
                }
                _ => file[position] = noise.pick(b"0123456789[]{},:\""),
            }
        }
        let outcome = std::panic::catch_unwind(|| survives(file));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

// Every type of the format

#[test]
fn every_dtype_of_the_format_can_be_inspected() {
    let dtypes = [
        ("BOOL", 8),
        ("F4", 4),
        ("F6_E2M3", 6),
        ("F6_E3M2", 6),
        ("U8", 8),
        ("I8", 8),
        ("F8_E5M2", 8),
        ("F8_E4M3", 8),
        ("F8_E8M0", 8),
        ("F8_E4M3FNUZ", 8),
        ("F8_E5M2FNUZ", 8),
        ("I16", 16),
        ("U16", 16),
        ("F16", 16),
        ("BF16", 16),
        ("I32", 32),
        ("U32", 32),
        ("F32", 32),
        ("C64", 64),
        ("F64", 64),
        ("I64", 64),
        ("U64", 64),
    ];
    for (name, bits) in dtypes {
        let header =
            parse_safetensors_header(&Model::new().tensor("x", name, &[4, 2], &vec![0; bits]).bytes()).unwrap();
        assert_eq!(header.tensors[0].dtype.to_string(), name);
        assert_eq!((header.tensors[0].byte_len(), header.tensors[0].num_elements()), (bits, 8));
        assert_eq!(Dtype::from_name(name), Some(header.tensors[0].dtype));
    }
}

#[test]
fn types_nobody_decodes_are_refused_and_plain_ones_copied() {
    for dtype in ["F4", "F6_E2M3", "F6_E3M2"] {
        let bytes = vec![1; if dtype == "F4" { 4 } else { 6 }];
        let error = support::refused(&Model::new().tensor("x", dtype, &[4, 2], &bytes), None);
        assert!(matches!(&error, AnamnesisError::Unsupported { format, .. } if format == dtype), "{error}");
        assert_mentions(&error.to_string(), &["\"x\""]);
    }
    let plain = Model::new().tensor("c", "C64", &[1], &[1; 8]).tensor("b", "BOOL", &[3], &[1, 0, 1]);
    assert_eq!(support::remember(&plain, None).tensors, Contents::of(&plain.bytes()).tensors);
}

// Limits

#[test]
fn every_limit_has_its_tag() {
    let file = small();
    let header = file.len() as u64 - 18;
    let single = ParseLimits::default().with_max_single_alloc(header - 1);
    let total = ParseLimits::default().with_max_total_bytes(header - 1);
    let items = ParseLimits::default().with_max_item_count(2);
    let folder = Folder::staged(&file, None);
    for (limits, tag) in [(single, "max_single_alloc_bytes"), (total, "max_total_bytes"), (items, "max_item_count")] {
        let errors = [
            parse_safetensors_header_with_limits(&file, &limits).err(),
            parse_safetensors_header_from_reader_with_limits(&file[..], &limits).err(),
            parse_with_limits(folder.model(), &limits).err(),
            parse_bytes_with_limits(file.clone(), &limits).err(),
            parse_from_reader_with_limits(&file[..], &limits).err(),
            Checkpoint::from_reader(Cursor::new(file.clone()), &limits).err(),
        ];
        for error in errors {
            assert_eq!(limit_tag(error.expect("refused")), tag);
        }
    }
}

#[test]
fn exactly_the_limit_is_allowed() {
    let file = small();
    let header = file.len() as u64 - 18;
    let limits =
        ParseLimits::default().with_max_single_alloc(header).with_max_total_bytes(header).with_max_item_count(3);
    assert_eq!(parse_safetensors_header_with_limits(&file, &limits).unwrap().tensors.len(), 3);
    assert_eq!(parse_with_limits(Folder::staged(&file, None).model(), &limits).unwrap().header.tensors.len(), 3);
}

#[test]
fn a_file_in_memory_counts_as_one_buffer() {
    let file = Model::new().tensor("x", "U8", &[1000], &[0; 1000]).bytes();
    let limits = ParseLimits::default().with_max_single_alloc(999);
    assert_eq!(limit_tag(parse_bytes_with_limits(file.clone(), &limits).err().unwrap()), "max_single_alloc_bytes");
    assert!(parse_with_limits(Folder::staged(&file, None).model(), &limits).is_ok());
}

#[test]
fn a_stream_is_read_no_further_than_one_byte_past_the_limit() {
    /// Never ends, and counts what was taken from it.
    struct Endless<'a>(&'a mut u64);

    impl std::io::Read for Endless<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            *self.0 += buffer.len() as u64;
            buffer.fill(0);
            Ok(buffer.len())
        }
    }

    let mut taken = 0;
    let limits = ParseLimits::default().with_max_single_alloc(10_000);
    let error = parse_from_reader_with_limits(Endless(&mut taken), &limits).err().unwrap();
    assert_eq!(limit_tag(error), "max_single_alloc_bytes");
    assert_eq!(taken, 10_001);
}

#[test]
fn output_in_memory_is_within_the_limits_given_at_parsing() {
    let file = Model::new().tensor("x", "F8_E4M3", &[4096], &[0; 4096]).bytes();
    let limits = ParseLimits::default().with_max_single_alloc(file.len() as u64);
    let model = parse_bytes_with_limits(file, &limits).unwrap();
    assert_eq!(limit_tag(model.remember_to_bytes(TargetDtype::F32).unwrap_err()), "max_single_alloc_bytes");
}

// Streams

#[test]
fn a_stream_that_ends_inside_the_header_is_an_io_error() {
    let file = small();
    for length in 0..file.len() - 10 {
        match parse_safetensors_header_from_reader(&file[..length]) {
            Err(AnamnesisError::Io(error)) => assert_eq!(error.kind(), ErrorKind::UnexpectedEof),
            other => panic!("{length}: {other:?}"),
        }
    }
}

#[test]
fn a_stream_is_not_read_past_the_header() {
    let file = small();
    let mut reader = &file[..];
    let header = parse_safetensors_header_from_reader(&mut reader).unwrap();
    assert_eq!(reader.len(), 10);
    assert_eq!(header.header_size + 8 + reader.len(), file.len());
    let whole = parse_safetensors_header(&file).unwrap();
    assert_eq!(format!("{header:?}"), format!("{whole:?}"));
    assert!(parse_safetensors_header_from_reader(&file[..file.len() - 10]).is_ok(), "data is not asked for");
}

#[test]
fn a_reader_that_fails_is_an_io_error() {
    struct Broken;

    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::new(ErrorKind::ConnectionReset, "cable"))
        }
    }

    match parse_safetensors_header_from_reader(Broken) {
        Err(AnamnesisError::Io(error)) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_header_has_offsets_roles_and_metadata() {
    let header = parse_safetensors_header(&small()).unwrap();
    let names: Vec<_> = header.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["a.weight", "a.weight_scale", "b"]);
    assert_eq!(header.tensors[0].data_offsets, (4, 8));
    assert_eq!((header.quantized_count(), header.scale_count(), header.passthrough_count()), (1, 1, 1));
    assert_eq!(header.find_scale_for("a.weight").unwrap().name, "a.weight_scale");
    assert_eq!(header.metadata.unwrap()["format"], "pt");
}

#[test]
fn a_tensor_cannot_take_the_name_of_the_metadata() {
    let tensor = anamnesis::PthTensor::new(
        String::from("__metadata__"),
        vec![1],
        anamnesis::PthDtype::F32,
        std::borrow::Cow::Borrowed(&[0; 4]),
    );
    let error = anamnesis::pth_to_safetensors_bytes(&[tensor]).unwrap_err();
    assert!(matches!(error, AnamnesisError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("__metadata__"), "{error}");
}
