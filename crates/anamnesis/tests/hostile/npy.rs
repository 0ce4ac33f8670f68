//! Malformed NPY headers: every case ends in a typed error that names the array.

use crate::support::zip::{Entry, archive, npy};
use crate::support::{assert_mentions, limit_tag, parse_reason};
use anamnesis::{AnamnesisError, Checkpoint, ParseLimits, parse_npz_bytes, parse_npz_bytes_with_limits};

/// The result of reading an array, in an archive and alone.
fn outcome(content: &[u8]) -> anamnesis::Result<Vec<usize>> {
    let alone = Checkpoint::from_bytes(content.to_vec(), &ParseLimits::default());
    let result = parse_npz_bytes(archive(&[Entry::stored("x.npy", content)]));
    if content.starts_with(b"\x93NUMPY") {
        assert_eq!(alone.is_ok(), result.is_ok());
    }
    let deflated = parse_npz_bytes(archive(&[Entry::deflated("x.npy", content)]));
    assert_eq!(deflated.as_ref().map_err(ToString::to_string).ok(), result.as_ref().ok());
    result.map(|arrays| arrays["x"].shape.clone())
}

fn header(text: &str, elements: usize) -> anamnesis::Result<Vec<usize>> {
    outcome(&npy(text, &vec![0; elements]))
}

#[track_caller]
fn refused(text: &str, elements: usize, words: &[&str]) {
    let reason = parse_reason(header(text, elements).unwrap_err());
    assert_mentions(&reason, &["\"x\""]);
    assert_mentions(&reason, words);
}

#[track_caller]
fn unsupported(descr: &str, words: &[&str]) {
    match header(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,)}}"), 16).unwrap_err() {
        AnamnesisError::Unsupported { format, detail } => {
            assert_eq!(format, "NPY");
            assert_mentions(&detail, &["\"x\""]);
            assert_mentions(&detail, words);
        }
        other => panic!("{other:?}"),
    }
}

fn shaped(shape: &str) -> String {
    format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}")
}

#[test]
fn reads_headers_as_python_would() {
    assert_eq!(header(&shaped("(2,)"), 8).unwrap(), [2]);
    assert_eq!(header(&shaped("()"), 4).unwrap(), [0; 0]);
    assert_eq!(header(&shaped("(2L, 3L)"), 24).unwrap(), [2, 3]);
    assert_eq!(header("{\"shape\":(2,1,),\"fortran_order\":True,\"descr\":u'=f4'}\n\n", 8).unwrap(), [2, 1]);
    assert_eq!(header("{'descr': 'f4', 'fortran_order': False, 'shape': (0, 9), }", 0).unwrap(), [0, 9]);
}

#[test]
fn refuses_invalid_shapes() {
    for (shape, word) in [
        ("(-1,)", "-1"),
        ("(3)", "not a tuple"),
        ("[3]", "not a tuple"),
        ("3", "not a tuple"),
        ("(1.5,)", "1.5"),
        ("('2',)", "size"),
        ("(True,)", "True"),
        ("(None,)", "None"),
        ("((2,),)", "size"),
        ("(99999999999999999999999,)", "9999"),
        ("(18446744073709551615,)", "2^64"),
        ("(4294967296, 4294967296)", "2^64"),
        ("(4294967296, 4294967296, 0)", "bytes"),
        ("(2147483648, 2147483648, 4)", "2^64"),
        ("(3,)", "12 bytes"),
        ("(1,)", "4 bytes"),
        ("(2", "was expected"),
        ("(2,,)", "was expected"),
        ("(1e3,)", "1e3"),
    ] {
        refused(&shaped(shape), 8, &[word]);
    }
    let many = format!("({})", "1,".repeat(65));
    assert_eq!(limit_tag(header(&shaped(&many), 4).unwrap_err()), "NPY_MAX_DIMS");
    assert_eq!(header(&shaped(&format!("({})", "1,".repeat(64))), 4).unwrap().len(), 64);
}

#[test]
fn refuses_dictionaries_that_are_not_a_header() {
    for (text, word) in [
        ("", "'{'"),
        ("[]", "'{'"),
        ("{}", "lacks"),
        ("{'descr': '<f4', 'shape': (2,)}", "lacks"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", "more"),
        ("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "twice"),
        ("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", "fortran_order"),
        ("{'descr': '<f4', 'fortran_order': 'False', 'shape': (2,)}", "fortran_order"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} + {}", "end of the header"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", "'}'"),
        ("{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (2,)}", "a value"),
        ("{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}", "was expected"),
    ] {
        refused(text, 8, &[word]);
    }
    let deep =
        format!("{{'descr': {}'<f4'{}, 'fortran_order': False, 'shape': (2,)}}", "[".repeat(9000), "]".repeat(9000));
    refused(&deep, 8, &["nesting"]);
}

#[test]
fn names_unsupported_types() {
    unsupported("'|O'", &["objects", "|O"]);
    unsupported("'O8'", &["objects"]);
    unsupported("[('a', '<f4'), ('b', '<f4')]", &["records"]);
    unsupported("('<f4', (2,))", &["records"]);
    unsupported("[[[]]]", &["records"]);
    unsupported("'|V1'", &["does not identify"]);
    unsupported("'|V8'", &["untyped bytes"]);
    unsupported("'<U4'", &["text"]);
    unsupported("'|S8'", &["text"]);
    unsupported("'<M8[ns]'", &["dates"]);
    unsupported("'<m8'", &["dates"]);
    unsupported("'<f16'", &["long doubles"]);
    unsupported("'<c16'", &["complex"]);
    for unknown in ["'<f3'", "'<i16'", "''", "'<'", "'float32'", "'<<f4'", "'<f4,<f4'", "'f-4'", "None", "4"] {
        unsupported(unknown, &["dtype"]);
    }
    unsupported("'\\x1b[2J'", &["unknown"]);
}

#[test]
fn refuses_lengths_past_the_end() {
    let good = npy(&shaped("(2,)"), &[0; 8]);
    for cut in 0..good.len() {
        assert!(outcome(&good[..cut]).is_err(), "cut at {cut}");
    }
    assert!(outcome(&[&good[..], b"x"].concat()).is_err(), "bytes behind the elements");
    let mut long = good.clone();
    long[8..10].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_mentions(&parse_reason(outcome(&long).unwrap_err()), &["header ends at byte 65545"]);
    let wide = |length: u32| [b"\x93NUMPY\x02\0".as_slice(), &length.to_le_bytes(), &[b' '; 100]].concat();
    assert_eq!(limit_tag(outcome(&wide((1 << 20) + 1)).unwrap_err()), "NPY_MAX_HEADER_BYTES");
    assert_eq!(limit_tag(outcome(&wide(u32::MAX)).unwrap_err()), "NPY_MAX_HEADER_BYTES");
    assert_mentions(&parse_reason(outcome(&wide(1 << 20)).unwrap_err()), &["header ends"]);
    for version in [[0, 0], [4, 0], [1, 1], [255, 255]] {
        let mut other = good.clone();
        other[6..8].copy_from_slice(&version);
        assert!(matches!(outcome(&other), Err(AnamnesisError::Unsupported { format, .. }) if format == "NPY"));
    }
    assert_mentions(&parse_reason(outcome(b"not an array").unwrap_err()), &["NPY"]);
    let mut bytes = npy(&shaped("(2,)"), &[0; 8]);
    bytes[6] = 3;
    assert!(outcome(&bytes).is_err());
}

#[test]
fn headers_and_elements_are_charged_to_the_budget() {
    let bytes = archive(&[Entry::deflated("x.npy", &npy(&shaped("(5000,)"), &[0; 20_000]))]);
    let single = |bytes: u64| ParseLimits::default().with_max_single_alloc(bytes);
    let tag = |limits| limit_tag(parse_npz_bytes_with_limits(bytes.clone(), &limits).unwrap_err());
    assert_eq!(tag(single(100)), "max_single_alloc_bytes");
    assert_eq!(tag(single(19_999)), "max_single_alloc_bytes");
    assert!(parse_npz_bytes_with_limits(bytes.clone(), &single(20_000)).is_ok());
    assert_eq!(tag(ParseLimits::default().with_max_total_bytes(20_000)), "max_total_bytes");
    // A huge declared array costs nothing.
    let huge = npy(&shaped("(2305843009213693951,)"), &[0; 8]);
    assert!(outcome(&huge).is_err());
}
