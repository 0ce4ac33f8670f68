//! Hostile ONNX models: declared sizes, counts and depths beyond the file.

use std::time::{Duration, Instant};

use crate::support::onnx::{FLOAT, INT64, bytes, external, floats, graph, header, model, node, number, tensor, varint};
use crate::support::{Folder, Noise, assert_mentions, fixture, limit_tag};
use anamnesis::{AnamnesisError, Checkpoint, OpenOptions, ParseLimits, TargetDtype};

fn open(content: Vec<u8>) -> anamnesis::Result<Checkpoint> {
    Checkpoint::from_bytes(content, &ParseLimits::default())
}

fn refused(content: Vec<u8>) -> AnamnesisError {
    let start = Instant::now();
    let error = open(content).err().unwrap_or_else(|| panic!("opened"));
    assert!(start.elapsed() < Duration::from_secs(20), "{error} after {:?}", start.elapsed());
    error
}

fn of_tensor(tensor: Vec<u8>) -> AnamnesisError {
    refused(model(&graph(&[], &[tensor])))
}

#[test]
fn shapes_that_do_not_fit_their_bytes_are_refused() {
    for dims in [&[3][..], &[1 << 40], &[1 << 32, 1 << 32], &[u64::MAX >> 1, 2], &[u64::MAX]] {
        let error = of_tensor(tensor("w", FLOAT, dims, &[0; 8]));
        assert!(matches!(error, AnamnesisError::Parse { .. }), "{dims:?}: {error}");
    }
    assert_mentions(&of_tensor(header("w", FLOAT, &[2])).to_string(), &["\"w\"", "no values"]);
    assert_eq!(limit_tag(of_tensor(header("w", FLOAT, &[1; 65]))), "ONNX_MAX_DIMS");
    let packed = [number(2, FLOAT), bytes(8, "w"), bytes(1, vec![1; 1 << 20]), bytes(9, [0; 4])].concat();
    assert_mentions(&of_tensor(packed).to_string(), &["dimensions"]);
}

#[test]
fn typed_data_of_another_length_is_refused() {
    let typed = |dims: &[u64], entries: &[u8]| [header("w", INT64, dims), bytes(7, entries)].concat();
    assert!(open(model(&graph(&[], &[typed(&[3], &[1, 2, 3])]))).is_ok());
    for (dims, entries) in [(&[4][..], &[1, 2, 3][..]), (&[2], &[1, 2, 3]), (&[1 << 40], &[1]), (&[1], &[0x80])] {
        assert!(matches!(of_tensor(typed(dims, entries)), AnamnesisError::Parse { .. }), "{dims:?}");
    }
    // Values in two places.
    let both = [typed(&[1], &[1]), bytes(9, [0; 8])].concat();
    assert_mentions(&of_tensor(both).to_string(), &["more than one place"]);
    assert_mentions(&of_tensor([tensor("w", FLOAT, &[1], &[0; 4]), bytes(3, [])].concat()).to_string(), &["segments"]);
}

#[test]
fn nested_graphs_end_at_a_depth() {
    let inside = |graph: &[u8]| [bytes(4, "If"), bytes(5, [bytes(1, "g"), bytes(6, graph)].concat())].concat();
    let nested = |depth: usize| {
        let mut innermost = graph(&[], &[floats("w", &[1], &[1.0])]);
        for _ in 0..depth {
            innermost = bytes(1, inside(&innermost));
        }
        model(&innermost)
    };
    assert_eq!(open(nested(30)).unwrap().tensor_count(), 1);
    for depth in [40, 5000] {
        assert_eq!(limit_tag(refused(nested(depth))), "ONNX_MAX_DEPTH", "{depth}");
    }
}

#[test]
fn counts_are_bounded() {
    let many = |field: &[u8], count: usize| [number(1, 9), bytes(7, field.repeat(count))].concat();
    assert_eq!(limit_tag(refused(many(&bytes(1, []), (1 << 21) + 1))), "ONNX_MAX_NODES");
    let graphs = [number(1, 9), bytes(7, []).repeat(1 << 13)].concat();
    assert_eq!(limit_tag(refused(graphs)), "ONNX_MAX_PIECES");
    let named = (0..5000).map(|index| node(&format!("Op{index}"), "", &[], &[])).collect::<Vec<_>>();
    assert_eq!(limit_tag(refused(model(&graph(&named, &[])))), "ONNX_MAX_OPERATORS");
    let opsets = [number(1, 9), bytes(8, []).repeat(1 << 17), bytes(7, [])].concat();
    assert_eq!(limit_tag(refused(opsets)), "ONNX_MAX_ENTRIES");
    let functions = [number(1, 9), bytes(7, []), bytes(25, []).repeat(1 << 17)].concat();
    assert_eq!(limit_tag(refused(functions)), "ONNX_MAX_ENTRIES");
    let properties = [header("w", FLOAT, &[1]), bytes(13, []).repeat(1 << 17), number(14, 1)].concat();
    assert_mentions(&of_tensor(properties).to_string(), &["properties"]);
    let long = bytes(4, "x".repeat(1 << 17));
    assert_eq!(limit_tag(refused(model(&bytes(1, long)))), "ONNX_MAX_TEXT_BYTES");
}

#[test]
fn tensors_that_share_bytes_are_bounded() {
    let folder = Folder::new();
    folder.write("data.bin", vec![0; 1 << 20]);
    let tensors: Vec<Vec<u8>> =
        (0..200).map(|index| external(&format!("t{index}"), &[1 << 18], &[("location", "data.bin")])).collect();
    let path = folder.write("model.onnx", model(&graph(&[], &tensors)));
    let error = Checkpoint::open(path, &ParseLimits::default()).err().unwrap();
    assert_eq!(limit_tag(error), "ONNX_MAX_SHARING_RATIO");
}

#[test]
fn sparse_tensors_cannot_grow_without_bound() {
    let sparse = |dims: &[u64], index: i64| {
        let values = floats("w", &[1], &[1.0]);
        let indices = tensor("", INT64, &[1], &index.to_le_bytes());
        let dims = dims.iter().flat_map(|dim| number(3, *dim));
        let content: Vec<u8> = [bytes(1, values), bytes(2, indices)].concat().into_iter().chain(dims).collect();
        model(&bytes(15, content))
    };
    assert_eq!(open(sparse(&[4], 3)).unwrap().tensor_count(), 1);
    assert_eq!(limit_tag(refused(sparse(&[1 << 40], 3))), "ONNX_MAX_SPARSE_RATIO");
    for (dims, index) in [(&[4][..], 4), (&[4], -1), (&[1 << 40, 1 << 40], 0)] {
        assert!(matches!(refused(sparse(dims, index)), AnamnesisError::Parse { .. }), "{dims:?} {index}");
    }
}

#[test]
fn names_must_exist_and_be_unique() {
    let twice = [floats("w", &[1], &[1.0]), floats("w", &[1], &[2.0])];
    assert_mentions(&refused(model(&graph(&[], &twice))).to_string(), &["\"w\"", "twice"]);
    assert_mentions(&of_tensor(floats("", &[1], &[1.0])).to_string(), &["no name"]);
    let bad = [number(1, 1), number(2, FLOAT), bytes(8, [0xff, 0xfe]), bytes(9, [0; 4])].concat();
    assert_mentions(&of_tensor(bad).to_string(), &["UTF-8"]);
}

#[test]
fn a_truncated_model_is_refused_or_has_fewer_tensors() {
    for name in ["types_typed", "subgraphs", "wire_forms"] {
        let whole = std::fs::read(fixture(&format!("onnx/{name}.onnx"))).unwrap();
        let tensors = open(whole.clone()).unwrap().tensor_count();
        for end in 0..whole.len() {
            if let Ok(checkpoint) = open(whole[..end].to_vec()) {
                assert!(checkpoint.tensor_count() <= tensors, "{name} {end}");
            }
        }
    }
}

#[test]
fn noise_ends_in_a_typed_error_or_in_values() {
    let mut noise = Noise(31);
    let options = OpenOptions::new().with_limits(ParseLimits::default().with_max_total_bytes(64 << 20));
    for name in ["onnx/types_raw", "onnx/constants", "onnx_quantised/nbits_4_zeros", "onnx_quantised/dq_two_levels"] {
        let whole = std::fs::read(fixture(&format!("{name}.onnx"))).unwrap();
        for _ in 0..400 {
            let mut changed = whole.clone();
            for _ in 0..1 + noise.below(3) {
                let at = noise.below(changed.len());
                changed[at] = noise.next() as u8;
            }
            let decoded = Checkpoint::from_bytes_with(changed, &options)
                .and_then(|checkpoint| checkpoint.plan(TargetDtype::BF16)?.to_bytes(&Default::default()));
            assert!(!matches!(decoded, Err(AnamnesisError::Internal { .. })), "{name}");
        }
    }
}

#[test]
fn lengths_beyond_the_file_are_refused() {
    for length in [10, 1 << 32, u64::MAX] {
        let content = [number(1, 9), vec![0x3a], varint(length), vec![0; 3]].concat();
        let folder = Folder::new();
        let path = folder.write("model.onnx", content);
        let error = Checkpoint::open(path, &ParseLimits::default()).err().unwrap();
        assert!(matches!(error, AnamnesisError::Parse { .. }), "{error}");
    }
}
