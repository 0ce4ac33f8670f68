//! NumPy arrays in PyTorch files: inconsistent ones are typed errors, those without numbers are notes.

use crate::support::pickle::{Pickle, torch_archive};
use crate::support::{assert_mentions, fixture, limit_tag, parse_reason};
use anamnesis::{AnamnesisError, PthDtype, ScanVerdict, parse_pth_bytes, scan, scan_bytes};

/// The parts of an array's state, each as instructions.
struct Array {
    class: (&'static str, &'static str),
    version: Vec<u8>,
    shape: Vec<u8>,
    dtype: Vec<u8>,
    fortran: Vec<u8>,
    content: Vec<u8>,
}

fn instructions(write: impl FnOnce(Pickle) -> Pickle) -> Vec<u8> {
    write(Pickle(Vec::new())).0
}

fn shape(dims: &[i64]) -> Vec<u8> {
    instructions(|pickle| pickle.numbers(dims))
}

/// A dtype by its code, with its state.
fn dtype(code: &str, order: &str) -> Vec<u8> {
    let called = instructions(|pickle| pickle.global("numpy", "dtype").text(code).raw(b"\x89\x88\x87R"));
    let state = instructions(|pickle| pickle.mark().int(3).text(order).raw(b"NNN").int(-1).int(-1).int(0).tuple());
    [called, state, b"b".to_vec()].concat()
}

fn bytes(content: &[u8]) -> Vec<u8> {
    [b"B", &(content.len() as u32).to_le_bytes()[..], content].concat()
}

/// Bytes as protocol 2 writes them.
fn encoded(text: &str, encoding: &str) -> Vec<u8> {
    instructions(|pickle| pickle.global("_codecs", "encode").text(text).text(encoding).raw(b"\x86R"))
}

impl Default for Array {
    fn default() -> Self {
        Self {
            class: ("numpy", "ndarray"),
            version: b"K\x01".to_vec(),
            shape: shape(&[2, 2]),
            dtype: dtype("i2", "<"),
            fortran: b"\x89".to_vec(),
            content: bytes(&[1, 0, 2, 0, 3, 0, 4, 0]),
        }
    }
}

impl Array {
    fn pickled(&self, end: &[u8]) -> Vec<u8> {
        Pickle::new().only("w", |pickle| {
            let made = pickle.global("numpy.core.multiarray", "_reconstruct").global(self.class.0, self.class.1);
            let state = made.raw(b"K\x00\x85").raw(&bytes(b"b")).raw(b"\x87R").mark().raw(&self.version);
            state.raw(&self.shape).raw(&self.dtype).raw(&self.fortran).raw(&self.content).tuple().raw(b"b").raw(end)
        })
    }

    fn file(&self) -> Vec<u8> {
        torch_archive(&self.pickled(b""), &[])
    }

    fn values(&self) -> Vec<i16> {
        let parsed = parse_pth_bytes(self.file()).unwrap();
        let tensors = parsed.tensors().unwrap();
        assert_eq!((tensors[0].name.as_str(), tensors[0].dtype), ("w", PthDtype::I16));
        tensors[0].data.as_chunks::<2>().0.iter().map(|&bytes| i16::from_le_bytes(bytes)).collect()
    }
}

#[track_caller]
fn refused(array: &Array, words: &[&str]) {
    let file = array.file();
    assert_mentions(&parse_reason(parse_pth_bytes(file.clone()).unwrap_err()), words);
    assert_eq!(scan_bytes(&file).unwrap().verdict(), ScanVerdict::Safe);
}

#[test]
fn arrays_are_read_in_either_order_and_from_either_kind_of_bytes() {
    assert_eq!(Array::default().values(), [1, 2, 3, 4]);
    assert_eq!(Array { fortran: b"\x88".to_vec(), ..Array::default() }.values(), [1, 3, 2, 4]);
    assert_eq!(Array { dtype: dtype("i2", ">"), ..Array::default() }.values(), [256, 512, 768, 1024]);
    for encoding in ["latin1", "latin-1"] {
        let content = encoded("\u{ff}\0\u{80}\u{1}ab\0\0", encoding);
        assert_eq!(Array { content, ..Array::default() }.values(), [255, 384, 0x6261, 0]);
    }
    // A Python 2 string that happens to be UTF-8 is still bytes.
    let content = [b"U\x08".as_slice(), "éé".as_bytes(), b"abcd"].concat();
    assert_eq!(Array { content, ..Array::default() }.values()[..2], [i16::from_le_bytes([0xc3, 0xa9]); 2]);
    let content = b"U\x08\xff\xfeabcdef".to_vec();
    assert_eq!(Array { content, ..Array::default() }.values()[0], i16::from_le_bytes([0xff, 0xfe]));
    let content = instructions(|pickle| pickle.global("__builtin__", "bytes").raw(b")R"));
    assert!(Array { content, shape: shape(&[0, 7]), ..Array::default() }.values().is_empty());
}

#[test]
fn content_that_does_not_fit_the_shape_is_refused() {
    refused(&Array { shape: shape(&[2, 3]), ..Array::default() }, &["\"w\"", "takes 12 bytes and has 8"]);
    refused(&Array { shape: shape(&[]), ..Array::default() }, &["takes 2 bytes and has 8"]);
    refused(&Array { shape: shape(&[0]), ..Array::default() }, &["takes 0 bytes and has 8"]);
    refused(&Array { dtype: dtype("f8", "<"), ..Array::default() }, &["takes 32 bytes and has 8"]);
    refused(&Array { content: encoded("abcdefg\u{e9}\u{e9}", "latin1"), ..Array::default() }, &["has 9"]);
    refused(&Array { shape: shape(&[i64::MAX, 2]), ..Array::default() }, &["overflows"]);
    refused(&Array { shape: shape(&[1 << 40, 1 << 40]), ..Array::default() }, &["overflows"]);
    refused(&Array { shape: shape(&[1 << 62]), ..Array::default() }, &["and has 8"]);
    refused(&Array { shape: shape(&[-2, -2]), ..Array::default() }, &["negative"]);
    let many = Array { shape: shape(&[1; 65]), content: bytes(&[0, 0]), ..Array::default() };
    assert_eq!(limit_tag(parse_pth_bytes(many.file()).unwrap_err()), "PTH_MAX_DIMS");
}

#[test]
fn parts_of_the_wrong_type_are_refused() {
    let text = |text: &str| instructions(|pickle| pickle.text(text));
    refused(&Array { shape: b"N".to_vec(), ..Array::default() }, &["shape"]);
    refused(&Array { shape: text("22"), ..Array::default() }, &["shape"]);
    refused(&Array { dtype: b"N".to_vec(), ..Array::default() }, &["without a type"]);
    refused(&Array { dtype: text("f4"), ..Array::default() }, &["without a type"]);
    refused(
        &Array { dtype: instructions(|pickle| pickle.global("numpy", "dtype").raw(b")R")), ..Array::default() },
        &["without a type"],
    );
    refused(&Array { dtype: dtype("i2", "|"), ..Array::default() }, &["byte order"]);
    refused(&Array { dtype: dtype("i2", "x"), ..Array::default() }, &["byte order"]);
    refused(&Array { fortran: b"N".to_vec(), ..Array::default() }, &["order"]);
    refused(&Array { version: b"K\x02".to_vec(), ..Array::default() }, &["version"]);
    refused(&Array { class: ("builtins", "list"), ..Array::default() }, &["class"]);
    refused(&Array { content: b"N".to_vec(), ..Array::default() }, &["byte string"]);
    refused(&Array { content: b"](K\x01K\x02e".to_vec(), ..Array::default() }, &["byte string"]);
    refused(&Array { content: encoded("12345678", "utf-16"), ..Array::default() }, &["byte string"]);
    refused(&Array { content: encoded("1234567\u{100}", "latin1"), ..Array::default() }, &["not a byte"]);
    // Without a state, or with something given afterwards.
    let made = Pickle::new().only("w", |pickle| {
        pickle
            .global("numpy.core.multiarray", "_reconstruct")
            .global("numpy", "ndarray")
            .raw(b"K\x00\x85")
            .raw(&bytes(b"b"))
            .raw(b"\x87R")
    });
    assert_mentions(&parse_reason(parse_pth_bytes(torch_archive(&made, &[])).unwrap_err()), &["without shape"]);
    let changed = torch_archive(&Array::default().pickled(b"K\x01K\x02s"), &[]);
    assert_mentions(&parse_reason(parse_pth_bytes(changed).unwrap_err()), &["changes"]);
}

#[test]
fn scalars_are_tensors_without_axes() {
    let scalar = |dtype: &[u8], content: &[u8]| {
        let object = Pickle::new().only("w", |pickle| {
            pickle.global("numpy._core.multiarray", "scalar").raw(dtype).raw(content).raw(b"\x86R")
        });
        parse_pth_bytes(torch_archive(&object, &[]))
    };
    let parsed = scalar(&dtype("f4", "<"), &bytes(&1.5f32.to_le_bytes())).unwrap();
    assert_eq!(parsed.tensor_info()[0].shape, [0usize; 0]);
    assert_eq!(&*parsed.tensors().unwrap()[0].data, 1.5f32.to_le_bytes());
    assert_mentions(&parse_reason(scalar(&dtype("f4", "<"), &bytes(&[0; 8])).unwrap_err()), &["takes 4 bytes"]);
    let parsed = scalar(&dtype("c16", "<"), &bytes(&[0; 16])).unwrap();
    assert!(parsed.is_empty());
    assert_mentions(&parsed.notes()[0].text, &["1 value that is not a tensor", "\"w\""]);
}

#[test]
fn arrays_without_numbers_are_noted_and_wide_types_are_refused() {
    for code in ["O8", "U5", "S3", "V8", "M8", "m8"] {
        let parsed = parse_pth_bytes(Array { dtype: dtype(code, "<"), ..Array::default() }.file()).unwrap();
        assert!(parsed.is_empty());
        assert_mentions(&parsed.notes()[0].text, &["1 value that is not a tensor", "\"w\""]);
    }
    for code in ["c16", "f16"] {
        let error = parse_pth_bytes(Array { dtype: dtype(code, "<"), ..Array::default() }.file()).unwrap_err();
        assert!(matches!(error, AnamnesisError::Unsupported { .. }), "{error}");
    }
}

#[test]
fn files_with_arrays_scan_as_they_convert() {
    for name in ["arrays2", "arrays4", "arrays5", "arrays_legacy", "arrays_deflated", "arrays_big_endian"] {
        assert_eq!(scan(fixture(&format!("pth/{name}.pth"))).unwrap().verdict(), ScanVerdict::Safe, "{name}");
    }
}
