//! GGUF files round-trip through files, bytes and readers.

use crate::support::gguf as builder;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Cursor;

use crate::support::gguf::Gguf;
use anamnesis::{
    AnamnesisError, Checkpoint, GgufMetadataArray as Array, GgufMetadataValue as Value, GgufType, GgufWriteTensor,
    InspectOptions, InspectSummary, ParseLimits, ParsedGguf, Subject, TargetDtype, inspect_gguf_from_reader,
    parse_gguf, parse_gguf_bytes, parse_gguf_from_reader, parse_gguf_front_matter_from_reader, write_gguf,
    write_gguf_to_writer,
};

type Metadata = HashMap<String, Value>;

fn metadata(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Metadata {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn array(array: Array) -> Value {
    Value::Array(Box::new(array))
}

/// Every type of value, and arrays of every type.
fn all_types() -> Metadata {
    metadata([
        ("general.architecture", Value::String("test".to_owned())),
        ("u8", Value::U8(u8::MAX)),
        ("i8", Value::I8(i8::MIN)),
        ("u16", Value::U16(u16::MAX)),
        ("i16", Value::I16(i16::MIN)),
        ("u32", Value::U32(u32::MAX)),
        ("i32", Value::I32(i32::MIN)),
        ("f32", Value::F32(-0.1)),
        ("bool", Value::Bool(true)),
        ("string", Value::String("größe \u{1f40d}\0".to_owned())),
        ("empty string", Value::String(String::new())),
        ("u64", Value::U64(u64::MAX)),
        ("i64", Value::I64(i64::MIN)),
        ("f64", Value::F64(f64::MIN_POSITIVE)),
        ("array u8", array(Array::U8(vec![1, 2]))),
        ("array i8", array(Array::I8(vec![-1, 2]))),
        ("array u16", array(Array::U16(vec![1, 60_000]))),
        ("array i16", array(Array::I16(vec![1, -2]))),
        ("array u32", array(Array::U32(vec![1, u32::MAX]))),
        ("array i32", array(Array::I32((0..50_000).collect()))),
        ("array f32", array(Array::F32(vec![f32::INFINITY, 0.5]))),
        ("array bool", array(Array::Bool(vec![true, false]))),
        ("array string", array(Array::String((0..20_000).map(|token| format!("<{token}>")).collect()))),
        ("array u64", array(Array::U64(vec![u64::MAX]))),
        ("array i64", array(Array::I64(vec![i64::MIN]))),
        ("array f64", array(Array::F64(vec![1.5]))),
        ("empty array", array(Array::String(Vec::new()))),
        (
            "nested",
            array(Array::Array(vec![
                Array::Array(vec![Array::Array(vec![Array::U8(vec![7])]), Array::Array(Vec::new())]),
                Array::String(vec!["x".to_owned()]),
            ])),
        ),
        ("long", Value::String("0123456789".repeat(100_000))),
    ])
}

fn tensors() -> Vec<GgufWriteTensor<'static>> {
    static BYTES: [u8; 288] = {
        let mut bytes = [0; 288];
        let mut index = 0;
        while index < 288 {
            bytes[index] = index as u8;
            index += 1;
        }
        bytes
    };
    vec![
        GgufWriteTensor { name: "b", shape: &[3, 2], dtype: GgufType::F32, data: &BYTES[..24] },
        GgufWriteTensor { name: "a.weight", shape: &[256, 2], dtype: GgufType::Q4_K, data: &BYTES },
        GgufWriteTensor { name: "", shape: &[5], dtype: GgufType::I8, data: &BYTES[7..12] },
    ]
}

fn written(tensors: &[GgufWriteTensor<'_>], metadata: &Metadata) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    write_gguf_to_writer(&mut file, tensors, metadata).unwrap();
    file.into_inner()
}

#[track_caller]
fn assert_holds(parsed: &ParsedGguf, tensors: &[GgufWriteTensor<'_>], expected: &Metadata) {
    assert_eq!(parsed.version(), 3);
    assert_eq!(parsed.len(), tensors.len());
    assert_eq!(parsed.is_empty(), tensors.is_empty());
    let mut with_alignment = expected.clone();
    with_alignment.entry("general.alignment".to_owned()).or_insert(Value::U32(32));
    assert_eq!(parsed.metadata(), &with_alignment);
    assert_eq!(parsed.tensors().count(), tensors.len());
    for ((tensor, info), expected) in parsed.tensors().zip(parsed.tensor_info()).zip(tensors) {
        assert_eq!((tensor.name, tensor.shape, tensor.dtype), (expected.name, expected.shape, expected.dtype));
        assert_eq!(&*tensor.data, expected.data, "{}", tensor.name);
        assert_eq!(info.byte_len, Some(expected.data.len() as u64));
        assert_eq!(info.data_offset % u64::from(parsed.alignment()), 0);
        assert_eq!(info.type_id, expected.dtype as u32);
    }
}

#[test]
fn what_is_written_is_read_back_from_everywhere() {
    let (tensors, metadata) = (tensors(), all_types());
    let bytes = written(&tensors, &metadata);
    assert_holds(&parse_gguf_bytes(bytes.clone()).unwrap(), &tensors, &metadata);
    assert_holds(&parse_gguf_from_reader(&bytes[..]).unwrap(), &tensors, &metadata);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gguf");
    write_gguf(&path, &tensors, &metadata).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    let parsed = parse_gguf(&path).unwrap();
    assert_holds(&parsed, &tensors, &metadata);
    assert!(parsed.tensors().all(|tensor| matches!(tensor.data, Cow::Borrowed(_))));

    let front_matter = parse_gguf_front_matter_from_reader(Cursor::new(&bytes)).unwrap();
    assert_eq!(&front_matter.metadata, parsed.metadata());
    assert_eq!(front_matter.tensor_infos, parsed.tensor_info());
}

#[test]
fn files_without_tensors_or_metadata_are_valid() {
    for metadata in [Metadata::new(), all_types()] {
        let bytes = written(&[], &metadata);
        assert_holds(&parse_gguf_bytes(bytes).unwrap(), &[], &metadata);
    }
    let parsed = parse_gguf_bytes(Gguf::default().bytes()).unwrap();
    assert!(parsed.metadata().is_empty() && parsed.is_empty());
    assert_eq!(parsed.alignment(), 32);
}

#[test]
fn every_alignment_is_kept_and_nothing_follows_the_last_tensor() {
    for alignment in [1, 8, 32, 64, 4096] {
        let metadata = metadata([("general.alignment", Value::U32(alignment))]);
        let bytes = written(&tensors(), &metadata);
        let parsed = parse_gguf_bytes(bytes.clone()).unwrap();
        assert_eq!(parsed.alignment(), alignment);
        assert_holds(&parsed, &tensors(), &metadata);
        let last = &parsed.tensor_info()[2];
        assert_eq!(last.data_offset + last.byte_len.unwrap(), bytes.len() as u64);
    }
}

#[test]
fn version_two_is_read_as_version_three() {
    let file = Gguf { version: 2, ..Gguf::default() }.number("a", 7).tensor("x", &[4], 0, 0).data(16);
    let parsed = parse_gguf_bytes(file.bytes()).unwrap();
    assert_eq!(parsed.version(), 2);
    assert_eq!(parsed.metadata()["a"], Value::U32(7));
    assert_eq!(parsed.tensors().next().unwrap().data[..4], [0, 1, 2, 3]);
}

/// A big-endian file with a tensor of the given type.
fn big_endian(shape: &[u64], type_id: u32, data: usize) -> Vec<u8> {
    let file = Gguf { big_endian: true, alignment: 64, ..Gguf::default() };
    let numbers = [file.u32(builder::tag::U32), file.u64(2), file.u32(1), file.u32(258)].concat();
    file.number("general.alignment", 64)
        .string("general.architecture", "test")
        .entry("numbers", builder::tag::ARRAY, &numbers)
        .tensor("x", shape, type_id, 0)
        .data(data)
        .bytes()
}

#[test]
fn a_big_endian_file_is_read_as_if_it_were_little_endian() {
    let bytes = big_endian(&[3, 2], 0, 24);
    let parsed = parse_gguf_bytes(bytes.clone()).unwrap();
    assert!(parsed.is_big_endian());
    assert_eq!((parsed.version(), parsed.alignment()), (3, 64));
    assert_eq!(parsed.metadata()["numbers"], array(Array::U32(vec![1, 258])));
    assert_eq!(parsed.tensor_info()[0].shape, [3, 2]);
    assert_eq!(parsed.tensors().next().unwrap().data[..8], [3, 2, 1, 0, 7, 6, 5, 4]);
    assert_eq!(parsed.inspect().architecture.as_deref(), Some("test"));
    let checkpoint = Checkpoint::from_bytes(bytes.clone(), &ParseLimits::default()).unwrap();
    assert_eq!(checkpoint.tensor_data("x").unwrap().unwrap()[20..], [23, 22, 21, 20]);
    assert!(
        checkpoint
            .facts()
            .unwrap()
            .about(Subject::Layout)
            .any(|fact| fact.label == "Byte order" && fact.value == "big-endian")
    );
    let keys: Vec<_> = checkpoint.metadata().unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["general.alignment", "general.architecture", "numbers"]);
    // A tensor info of another file is refused, regardless of its offset.
    let mut foreign = parsed.tensor_info()[0].clone();
    foreign.data_offset -= 4;
    assert!(parsed.dequantize_tensor(&foreign).is_err());
    foreign.data_offset = bytes.len() as u64;
    assert!(parsed.dequantize_tensor(&foreign).is_err());
}

/// The error of a file that can be inspected but not converted.
fn refused_conversion(file: Vec<u8>) -> AnamnesisError {
    let checkpoint = Checkpoint::from_bytes(file, &ParseLimits::default()).unwrap();
    let info = checkpoint.inspect(&Default::default());
    let Err(error) = checkpoint.plan(TargetDtype::BF16) else { panic!("planned") };
    assert_eq!(info.problems, [error.to_string()]);
    error
}

#[test]
fn blocks_that_big_endian_files_do_not_define_are_refused_by_name() {
    for (name, type_id, elements, bytes) in [
        ("Q5_0", 6, 32, 22),
        ("Q5_1", 7, 32, 24),
        ("IQ2_XXS", 16, 256, 66),
        ("IQ3_XXS", 18, 256, 98),
        ("IQ1_M", 29, 256, 56),
    ] {
        let file = big_endian(&[elements], type_id, bytes);
        let parsed = parse_gguf_bytes(file.clone()).unwrap();
        assert_eq!((parsed.len(), parsed.tensors().count()), (1, 0));
        let error = refused_conversion(file);
        assert!(matches!(error, AnamnesisError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(name) && error.to_string().contains("big-endian"), "{error}");
    }
}

#[test]
fn unknown_types_can_be_inspected_and_are_refused_by_name() {
    for (type_id, name) in [(31, "Q4_0_4_4"), (146, "IQ4_KSS"), (43, "43"), (u32::MAX, "4294967295")] {
        let file = Gguf::default().tensor("odd", &[256], type_id, 0).tensor("x", &[4], 0, 256).data(272);
        let parsed = parse_gguf_bytes(file.bytes()).unwrap();
        let info = parsed.inspect();
        assert_eq!((info.unknown_size_tensors, info.total_bytes, info.tensor_count), (1, 16, 2));
        assert!(info.to_string().contains("16 B (+1 tensors with dtype of unknown size)"), "{info}");
        assert_eq!(parsed.tensor_info()[0].type_id, type_id);
        assert_eq!(parsed.tensor_info()[0].dtype, GgufType::Unknown);
        let names: Vec<_> = parsed.tensors().map(|tensor| tensor.name).collect();
        assert_eq!(names, ["x"]);
        let error = refused_conversion(file.bytes());
        assert!(matches!(error, AnamnesisError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(name) && error.to_string().contains("\"odd\""), "{error}");
    }
}

#[test]
fn an_inspection_prints_the_documented_summary() {
    let bytes = written(&tensors(), &metadata([("general.architecture", Value::String("lla\u{1b}ma".to_owned()))]));
    let info = inspect_gguf_from_reader(Cursor::new(&bytes)).unwrap();
    let expected = "Format:      GGUF v3\nArch:        lla\\u{1b}ma\nTensors:     3\nTotal size:  317 B\n\
                    Dequantized: 1.0 KB (BF16)\nDtypes:      F32, Q4_K, I8\nAlignment:   32 bytes";
    assert_eq!(info.to_string(), expected);
    assert_eq!(InspectSummary::dequantized_size(&info), 24 + 1024 + 5);
    let parsed = parse_gguf_bytes(bytes).unwrap();
    let info = parsed.inspect_with_options(&InspectOptions::new().with_output_dtype(TargetDtype::F32));
    assert_eq!((info.dequantized_size, info.output_dtype), (24 + 2048 + 5, TargetDtype::F32));
    assert_eq!(info.expansion(), (24 + 2048 + 5) - 317);
}

#[test]
fn a_checkpoint_has_row_major_shapes() {
    let bytes = written(&tensors()[..1], &Metadata::new());
    let checkpoint = Checkpoint::from_bytes(bytes, &ParseLimits::default()).unwrap();
    assert_eq!(checkpoint.tensors()[0].shape, [2, 3]);
    assert_eq!(checkpoint.tensor_data("b").unwrap().unwrap().len(), 24);
}

#[test]
fn accessors_match_their_own_type_only() {
    assert_eq!(Value::U32(1).as_u32(), Some(1));
    assert_eq!(Value::U32(1).as_u64(), None);
    assert_eq!(Value::U64(1).as_u32(), None);
    assert_eq!(Value::Bool(true).as_bool(), Some(true));
    assert_eq!(Value::String("x".to_owned()).as_string(), Some("x"));
    let strings = array(Array::String(vec!["x".to_owned()]));
    assert_eq!(strings.as_array().unwrap().as_string_slice().unwrap(), ["x"]);
    assert!(strings.as_array().unwrap().as_u8_slice().is_none());
    assert_eq!(Array::Array(vec![Array::F32(vec![1.0])]).as_nested_slice().unwrap()[0].as_f32_slice().unwrap(), [1.0]);
    assert!(Array::Bool(Vec::new()).is_empty());
}

#[test]
fn sizes_of_types_are_those_of_the_format() {
    assert_eq!((GgufType::Q6_K.block_size(), GgufType::Q6_K.type_size()), (256, Some(210)));
    assert_eq!((GgufType::NVFP4.block_size(), GgufType::NVFP4.type_size()), (64, Some(36)));
    assert_eq!(GgufType::Q8_0.byte_size_for_n_elements(64).unwrap(), 68);
    assert!(matches!(GgufType::Q8_0.byte_size_for_n_elements(63), Err(AnamnesisError::Parse { .. })));
    assert!(matches!(GgufType::F32.byte_size_for_n_elements(u64::MAX), Err(AnamnesisError::Parse { .. })));
    assert!(!GgufType::BF16.is_quantized() && GgufType::MXFP4.is_quantized());
    assert_eq!((GgufType::Q4_K as u32, GgufType::Q4_K.to_string()), (12, "Q4_K".to_owned()));
}

#[test]
fn invalid_tensors_are_refused_before_the_first_byte() {
    let f32 = |name, shape, data| GgufWriteTensor { name, shape, dtype: GgufType::F32, data };
    let zeros = [0; 64];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.gguf");
    std::fs::write(&path, "old").unwrap();
    let refused = |tensors: &[GgufWriteTensor<'_>], metadata: &Metadata| {
        let mut file = Cursor::new(Vec::new());
        let error = write_gguf_to_writer(&mut file, tensors, metadata).unwrap_err();
        assert!(file.into_inner().is_empty());
        assert!(write_gguf(&path, tensors, metadata).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        error
    };
    let none = Metadata::new();
    for tensors in [
        vec![f32("x", &[], &zeros[..4])],
        vec![f32("x", &[1; 9], &zeros[..4])],
        vec![f32("x", &[4, 0], &[])],
        vec![f32("x", &[4], &zeros[..15])],
        vec![f32("x", &[usize::MAX, 2], &zeros)],
        vec![f32("x", &[1], &zeros[..4]), f32("x", &[1], &zeros[..4])],
        vec![GgufWriteTensor { name: "x", shape: &[16, 2], dtype: GgufType::Q8_0, data: &zeros[..34] }],
        vec![GgufWriteTensor { name: "x", shape: &[32], dtype: GgufType::Q8_0, data: &zeros[..33] }],
    ] {
        let error = refused(&tensors, &none);
        assert!(matches!(error, AnamnesisError::Parse { .. }), "{error}");
        assert!(error.to_string().contains("\"x\""), "{error}");
    }
    let unknown = GgufWriteTensor { name: "x", shape: &[1], dtype: GgufType::Unknown, data: &[] };
    assert!(matches!(refused(&[unknown], &none), AnamnesisError::Unsupported { .. }));
    for value in [Value::U32(0), Value::U32(3), Value::U64(32), Value::String("32".to_owned())] {
        let error = refused(&[], &metadata([("general.alignment", value)]));
        assert!(matches!(error, AnamnesisError::Unsupported { .. }), "{error}");
    }
    let deep = (0..4).fold(Array::U8(vec![1]), |inner, _| Array::Array(vec![inner]));
    let too_long = "x".repeat(65_536);
    for (metadata, limit) in [
        (metadata([("deep", array(deep))]), "MAX_ARRAY_DEPTH"),
        (Metadata::from([(too_long, Value::U8(1))]), "MAX_GGUF_KEY_LEN"),
        (metadata([("large", Value::String("x".repeat((16 << 20) + 1)))]), "MAX_STRING_LEN"),
        (metadata([("general.alignment", Value::U32(1 << 30))]), "MAX_ALIGNMENT"),
    ] {
        let error = refused(&[], &metadata);
        assert!(matches!(error, AnamnesisError::LimitExceeded { limit: found, .. } if found == limit), "{error}");
    }
    assert!(matches!(refused(&[], &metadata([("", Value::U8(1))])), AnamnesisError::Parse { .. }));
}

// Split models

fn part(index: u16, count: u16, tensors: i32, name: &str) -> Gguf {
    Gguf::default()
        .entry("split.no", builder::tag::U16, &index.to_le_bytes())
        .entry("split.count", builder::tag::U16, &count.to_le_bytes())
        .entry("split.tensors.count", builder::tag::I32, &tensors.to_le_bytes())
        .tensor(name, &[4], 0, 0)
        .data(16)
}

fn opened(parts: &[(&str, Gguf)], open: &str) -> Result<Checkpoint, AnamnesisError> {
    let folder = tempfile::tempdir().unwrap();
    for (name, part) in parts {
        std::fs::write(folder.path().join(name), part.bytes()).unwrap();
    }
    Checkpoint::open(folder.path().join(open), &ParseLimits::default())
}

#[test]
fn a_split_model_is_one_model_whichever_part_is_named() {
    let parts = [("m-00001-of-00002.gguf", part(0, 2, 2, "a")), ("m-00002-of-00002.gguf", part(1, 2, 2, "b"))];
    for (name, _) in &parts {
        let checkpoint = opened(&parts, name).unwrap();
        assert_eq!((checkpoint.file_count(), checkpoint.tensor_count()), (2, 2));
    }
}

#[test]
fn a_split_model_with_wrong_or_missing_parts_is_refused() {
    let (first, second) = ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf");
    let cases = [
        ("missing", vec![(first, part(0, 2, 2, "a"))], second),
        ("swapped", vec![(first, part(1, 2, 2, "a")), (second, part(0, 2, 2, "b"))], "split.no"),
        ("one twice", vec![(first, part(0, 2, 2, "a")), (second, part(0, 2, 2, "b"))], "split.no"),
        ("other count", vec![(first, part(0, 3, 2, "a")), (second, part(1, 3, 2, "b"))], "split.count"),
        ("tensor count", vec![(first, part(0, 2, 3, "a")), (second, part(1, 2, 3, "b"))], "split.tensors.count"),
        ("tensor twice", vec![(first, part(0, 2, 2, "a")), (second, part(1, 2, 2, "a"))], "\"a\""),
        ("beyond", vec![(first, part(2, 2, 2, "a")), (second, part(1, 2, 2, "b"))], "split.no is 2"),
    ];
    for (case, parts, words) in cases {
        let Err(error) = opened(&parts, first) else { panic!("{case} was opened") };
        assert!(error.to_string().contains(words), "{case}: {error}");
    }
    let Err(error) = opened(&[("renamed.gguf", part(0, 2, 2, "a"))], "renamed.gguf") else { panic!("opened") };
    assert!(error.to_string().contains("part 1 of 2"), "{error}");
}
