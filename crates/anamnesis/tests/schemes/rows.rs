//! Decoded row ranges equal those of the whole weight, for every scheme, range and tile boundary.

use std::ops::Range;

use crate::inputs;
use crate::support::{Model, Noise, TARGETS, le_bytes};
use anamnesis::{AnamnesisError, Checkpoint, ParseLimits, RememberOptions, Request, TargetDtype};

/// Ranges of a tensor with `rows` rows: the ends, empty, everything, and random ones.
fn ranges(rows: usize, noise: &mut Noise) -> Vec<Range<usize>> {
    let mut ranges = vec![0..0, rows..rows, 0..rows, 0..rows.min(1), rows.saturating_sub(1)..rows];
    for _ in 0..2 {
        let start = noise.below(rows + 1);
        ranges.push(start..start + noise.below(rows - start + 1));
    }
    ranges
}

/// Compares rows of every tensor with the whole, and counts the tensors.
fn check(checkpoint: &Checkpoint, place: &str, targets: &[TargetDtype], noise: &mut Noise) -> usize {
    let mut count = 0;
    for &target in targets {
        for tensor in checkpoint.decoded(target) {
            let tensor = tensor.unwrap();
            let rows = tensor.shape.first().copied().unwrap_or(1);
            let row_bytes = tensor.data.len().checked_div(rows).unwrap_or(0);
            count += 1;
            for range in ranges(rows, noise) {
                let whole = &tensor.data[range.start * row_bytes..range.end * row_bytes];
                let mut found = vec![0xAA; whole.len()];
                let options = RememberOptions::new().with_threads(1 + noise.below(2));
                checkpoint.decode_rows_into(&tensor.name, range.clone(), &mut found, target, &options).unwrap();
                assert!(found == whole, "{place} {} {target} {range:?}", tensor.name);
            }
        }
    }
    count
}

#[test]
fn rows_of_every_fixture_are_those_of_the_whole() {
    let (mut noise, mut tensors) = (Noise(7), 0);
    for input in inputs::all() {
        tensors += check(&input.open(), &input.name, &[TargetDtype::F32], &mut noise);
    }
    assert!(tensors > 500, "only {tensors}");
}

#[test]
fn rows_of_a_weight_of_many_tiles_are_those_of_the_whole() {
    let mut noise = Noise(11);
    let (rows, cols) = (701, 997);
    let codes: Vec<u8> = noise.bytes(rows * cols).into_iter().map(|code| code & 0x77).collect();
    let scales: Vec<f32> = (0..rows).map(|_| noise.scale()).collect();
    let model = Model::new()
        .tensor("a.weight", "F8_E4M3", &[rows, cols], &codes)
        .tensor("a.weight_scale", "F32", &[rows, 1], &le_bytes(&scales))
        .tensor("plain", "F16", &[rows, cols], &noise.bytes(rows * cols * 2));
    let checkpoint = Checkpoint::from_bytes(model.bytes(), &ParseLimits::default()).unwrap();
    for _ in 0..8 {
        assert_eq!(check(&checkpoint, "many tiles", &TARGETS, &mut noise), 6);
    }
}

#[test]
fn rows_out_of_range_are_refused() {
    let model = Model::new().floats("a", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let checkpoint = Checkpoint::from_bytes(model.bytes(), &ParseLimits::default()).unwrap();
    assert_eq!(checkpoint.decode_rows::<f32>("a", 1..3).unwrap(), [3.0, 4.0, 5.0, 6.0]);
    #[expect(clippy::reversed_empty_ranges, reason = "what is refused")]
    for rows in [2..4, 4..4, 2..1, 0..usize::MAX] {
        let error = checkpoint.decode_rows::<f32>("a", rows).unwrap_err();
        assert!(matches!(error, AnamnesisError::Request(Request::Contradiction { .. })), "{error}");
    }
    assert!(checkpoint.decode_rows::<f32>("b", 0..1).is_err());
}
