//! Every step follows its definition, around decoders of every granule and in tiles of every size.

use std::ops::Range;
use std::sync::Arc;

use super::{Leaf, as_values};
use crate::architecture::change::{self, Change, Factor, Halves, Reshaped};
use crate::architecture::config::Config;
use crate::architecture::measured::Measured;
use crate::architecture::size::{HEAD_DIM, ONE, VOCAB};
use crate::architecture::tree::{Formula, Step, Tree};
use crate::catalog::{Extent, TargetDtype};
use crate::error::{AnamnesisError, Result};
use crate::scheme::{Context, TileDecoder, Window};

/// Elements that are their own places, behind a first number, and are cut at multiples of a granule only.
#[derive(Hash)]
struct Counting {
    granule: u64,
    elements: u64,
}

impl TileDecoder for Counting {
    fn granule(&self) -> u64 {
        self.granule
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        assert!(elements.start.is_multiple_of(self.granule), "a tile begins inside of a granule");
        assert!(
            elements.end.is_multiple_of(self.granule) || elements.end == self.elements,
            "a tile ends inside of one"
        );
        windows.push(Window::run(0, elements.start, elements.end - elements.start));
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        _target: TargetDtype,
        out: &mut [u8],
        _context: &mut Context,
    ) -> Result<usize> {
        assert_eq!(inputs[0].len() as u64, elements.end - elements.start);
        // The first byte of a part is its number.
        let first = f32::from(inputs[0][0]) * 1000.0;
        for (element, out) in elements.zip(out.as_chunks_mut::<4>().0) {
            *out = (first + element as f32).to_le_bytes();
        }
        Ok(out.len())
    }

    fn describe(&self) -> String {
        "counting".to_owned()
    }
}

/// All values of a tree over tensors of so many elements, decoded in tiles of so many granules.
fn decoded(tree: &Tree, elements: u64, granule: u64, granules: u64) -> Vec<f32> {
    let leaf = |index: usize| Leaf {
        decoder: Arc::new(Counting { granule, elements }),
        elements,
        parts: vec![Extent { file: index as u32, offset: 0, bytes: elements }],
        stored: None,
    };
    let built = as_values(tree, &leaf);
    let step = built.decoder.granule() * granules;
    let mut context = Context::default();
    let mut values = Vec::new();
    let mut at = 0;
    while at < built.elements {
        let tile = at..(at + step).min(built.elements);
        let mut windows = Vec::new();
        built.decoder.windows(tile.clone(), &mut windows);
        let contents: Vec<Vec<u8>> =
            windows.iter().map(|window| vec![built.parts[window.part].file as u8; window.bytes() as usize]).collect();
        let inputs: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        let mut out = vec![0; (tile.end - tile.start) as usize * 4];
        built.decoder.decode(tile.clone(), &inputs, TargetDtype::F32, &mut out, &mut context).unwrap();
        values.extend(out.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        at = tile.end;
    }
    values
}

/// Holds a tree to the places its values come from, whatever the granules and tiles.
#[track_caller]
fn assert_gives(tree: &Tree, elements: u64, wanted: &[f32]) {
    for granule in [1, 2, 5, 8, 24, elements] {
        for granules in [1, 2, 3, 1000] {
            assert_eq!(decoded(tree, elements, granule, granules), wanted, "granule {granule}, {granules} in a tile");
        }
    }
}

/// Rows of four, by their numbers.
fn rows(numbers: &[u64]) -> Vec<f32> {
    numbers.iter().flat_map(|row| (0..4).map(move |column| (row * 4 + column) as f32)).collect()
}

#[test]
fn rows_are_paired_and_parted_again() {
    let tensor = || Tree::Tensor(0);
    let pair = tensor().after(Step::Pair { row: 4, rows: 6 });
    assert_gives(&pair, 48, &rows(&[0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]));
    let both = pair.after(Step::Unpair { row: 4, rows: 6 });
    assert_gives(&both, 48, &rows(&(0..12).collect::<Vec<_>>()));
}

#[test]
fn parts_and_every_other_row_are_taken() {
    let part = Tree::Tensor(0).after(Step::Part { row: 4, per: 6, start: 2, count: 3 });
    assert_gives(&part, 48, &rows(&[2, 3, 4, 8, 9, 10]));
    let odd = Tree::Tensor(0).after(Step::Every { row: 4, step: 2, first: 1 });
    assert_gives(&odd, 48, &rows(&[1, 3, 5, 7, 9, 11]));
}

#[test]
fn matrices_are_turned() {
    let transposed = Tree::Tensor(0).after(Step::Transpose { rows: 2, cols: 3 });
    let wanted: Vec<f32> =
        (0..4u8).flat_map(|matrix| [0, 3, 1, 4, 2, 5].map(|at: u8| f32::from(matrix * 6 + at))).collect();
    assert_gives(&transposed, 24, &wanted);
}

/// `torch.nn.functional.interpolate` of the same grid, bilinear with `align_corners`.
#[test]
fn grids_are_interpolated_between_their_corners() {
    let resampled = |to| Tree::Tensor(0).after(Step::Resample { row: 16, from: 8, to });
    let smaller = [
        (1, [22.4, 23.4, 24.4]),
        (8, [224.0, 225.0, 226.0]),
        (13, [380.800_02, 381.8, 382.8]),
        (22, [627.199_95, 628.199_95, 629.199_95]),
        (34, [985.6, 986.600_04, 987.6]),
        (35, [1008.0, 1009.0, 1010.0]),
    ];
    let larger = [
        (1, [11.2, 12.2, 13.2]),
        (17, [156.799_99, 157.8, 158.8]),
        (60, [504.0, 505.0, 506.0]),
        (100, [817.6, 818.6, 819.6]),
        (119, [996.8, 997.8, 998.8]),
    ];
    for (to, known) in [(6, &smaller[..]), (11, &larger)] {
        for (granule, granules) in [(1, 1), (16, 2), (24, 1), (1024, 1000)] {
            let values = decoded(&resampled(to), 1024, granule, granules);
            assert_eq!(values.len() as u64, to * to * 16);
            for (place, wanted) in known {
                assert_eq!(values[place * 16..place * 16 + 3], *wanted, "{place}");
            }
        }
    }
}

#[test]
fn tensors_are_stacked_and_woven() {
    let stack = Tree::Stacked(vec![Tree::Tensor(1), Tree::Tensor(0), Tree::Tensor(2)]);
    let of = |tensor: u16, at: u16| f32::from(tensor * 1000 + at);
    let wanted: Vec<f32> = [1, 0, 2].into_iter().flat_map(|tensor| (0..24).map(move |at| of(tensor, at))).collect();
    assert_gives(&stack, 24, &wanted);
    let interleaved = Tree::Interleaved(vec![(Tree::Tensor(0), 4), (Tree::Tensor(1), 4)]);
    let round = |round: u16| (0..2).flat_map(move |tensor| (0..4).map(move |at| of(tensor, round * 4 + at)));
    assert_gives(&interleaved, 24, &(0..6).flat_map(round).collect::<Vec<_>>());
    let part = stack.after(Step::Part { row: 4, per: 18, start: 5, count: 2 });
    assert_gives(&part, 24, &[1020, 1021, 1022, 1023, 0, 1, 2, 3].map(|at: u16| f32::from(at)));
}

#[test]
fn factors_go_by_rows() {
    let factors = vec![(2, 2.0), (6, 0.5)];
    let times = Tree::Tensor(0).after(Step::Each(Formula::Times { row: 4, period: u64::MAX, factors }));
    let wanted: Vec<f32> = (0..24u8).map(|at| f32::from(at) * if at < 8 { 2.0 } else { 0.5 }).collect();
    assert_gives(&times, 24, &wanted);
}

/// Every change of a tensor of 24 values, by the lists of the tensors of GGUF that it becomes.
#[test]
fn every_change_is_undone_by_its_inverse() {
    let config = serde_json::json!({
        "num_attention_heads": 2, "qk_nope_head_dim": 2, "v_head_dim": 1, "n_groups": 3,
        "head_dim": 4, "vocab_size": 6, "mamba_d_ssm": 2, "mamba_n_groups": 1, "mamba_d_state": 1, "mamba_n_heads": 2,
    });
    let config = Config::new(config.as_object().unwrap(), &[]).unwrap();
    let halves = |halves| [vec![Change::First(halves)], vec![Change::Second(halves)]];
    let transposed = |change| vec![Change::Transposed, change];
    let cases: Vec<(Vec<Vec<Change>>, &[usize])> = vec![
        (vec![vec![]], &[2, 12]),
        (vec![vec![Change::Rotary("num_attention_heads")]], &[8, 3]),
        (vec![vec![Change::Rotary("num_attention_heads")]], &[24]),
        (vec![vec![Change::Transposed]], &[2, 3, 4]),
        (vec![vec![Change::PlusOne]], &[24]),
        (vec![vec![Change::NegativeExponential]], &[4, 6]),
        (vec![vec![Change::Exponential]], &[4, 6]),
        (vec![vec![Change::NegativeExponential, Change::Column]], &[24]),
        (vec![vec![Change::Groups("n_groups")]], &[24]),
        (vec![vec![Change::WithoutMiddle]], &[6, 1, 4]),
        (vec![vec![Change::CutToVocabulary]], &[6, 4]),
        (vec![vec![Change::PaddedToVocabulary]], &[6, 4]),
        (vec![vec![Change::NegatedHalf(HEAD_DIM)]], &[8, 3]),
        (vec![vec![Change::Shaped(&[VOCAB, ONE, HEAD_DIM], &[ONE, VOCAB, ONE, HEAD_DIM])]], &[6, 1, 4]),
        (vec![vec![Change::Times(Factor::Key("no_multiplier")), Change::TimesStateSpace]], &[8, 3]),
        (halves(Halves::Rows).to_vec(), &[2, 4, 3]),
        (halves(Halves::AlternateRows).to_vec(), &[2, 4, 3]),
        (halves(Halves::AlternateValues).to_vec(), &[2, 12]),
        (halves(Halves::KeysAndValues).to_vec(), &[6, 4]),
        (
            vec![transposed(Change::First(Halves::AlternateRows)), transposed(Change::Second(Halves::AlternateRows))],
            &[2, 3, 4],
        ),
        (
            vec![
                vec![Change::First(Halves::KeysAndValues), Change::Transposed],
                vec![Change::Second(Halves::KeysAndValues)],
            ],
            &[6, 4],
        ),
    ];
    for (lists, shape) in cases {
        let lists: Vec<&'static [Change]> = lists.into_iter().map(|list| &*list.leak()).collect();
        let changed = |list| change::to_gguf(list, Reshaped::input(0, shape), &config, None).unwrap();
        for order in [lists.clone(), lists.iter().rev().copied().collect()] {
            let parts = order.iter().map(|list| (*list, changed(list))).collect();
            let restored = change::to_checkpoint(parts, &config).unwrap();
            assert_eq!(restored.shape, shape, "{lists:?}");
            let values = decoded(&restored.tree, 24, 1, 1);
            assert!(values.iter().zip(0u8..24).all(|(value, at)| (value - f32::from(at)).abs() < 1e-4), "{lists:?}");
            assert_eq!(values.len(), 24, "{lists:?}");
        }
        if let [first, _] = lists[..] {
            let alone = change::to_checkpoint(vec![(first, changed(first))], &config);
            assert!(alone.unwrap_err().to_string().contains("the other half of it is missing"), "{lists:?}");
        }
    }
    let heads = Reshaped::input(0, &[6, 4]);
    let repeated = change::to_gguf(&[Change::RepeatedFirstHead], heads, &config, None).unwrap();
    assert_eq!(decoded(&repeated.tree, 24, 1, 1)[..8], [0.0, 2.0, 1.0, 3.0, 0.0, 2.0, 1.0, 3.0]);
    let lost = change::to_checkpoint(vec![(&[Change::RepeatedFirstHead], repeated)], &config).unwrap_err();
    assert!(lost.to_string().contains("other heads are not in the file"), "{lost}");
    for (change, lost) in [(Change::MinusMean("a"), "mean"), (Change::OverColumnNorms("a"), "columns")] {
        let changes: &'static [Change] = vec![change].leak();
        let error = change::to_checkpoint(vec![(changes, Reshaped::input(0, &[6, 4]))], &config).unwrap_err();
        assert!(error.to_string().contains(lost), "{error}");
    }
    let experts = change::stacked((0..3).map(Tree::Tensor).collect(), &[4, 6]);
    assert_eq!(experts.shape, [3, 4, 6]);
    let last = change::unstacked(experts, 2);
    assert_eq!((decoded(&last.tree, 24, 1, 1)[0], last.shape), (2000.0, vec![4, 6]));
}

#[test]
fn embeddings_are_padded_with_rows_of_zeros() {
    let config = serde_json::json!({"vocab_size": 8});
    let config = Config::new(config.as_object().unwrap(), &[]).unwrap();
    let embedding = Reshaped::input(0, &[6, 4]);
    let padded = change::to_gguf(&[Change::PaddedToVocabulary], embedding, &config, None).unwrap();
    let wanted: Vec<f32> = (0..24u8).map(f32::from).chain([0.0; 8]).collect();
    assert_eq!((padded.shape, decoded(&padded.tree, 24, 1, 1)), (vec![8, 4], wanted));
}

/// Changes by measured values: numbers of tensors that are read first.
#[test]
fn measured_values_are_applied_and_needed() {
    let mut config = Config::new(&serde_json::Map::new(), &[]).unwrap();
    let read = [((None, "mean"), vec![0.5]), ((None, "norms"), vec![1.0, 2.0, 4.0, 8.0]), ((None, "least"), vec![0.0])];
    config.measured = Measured::new(read.into(), [].into());
    let applied = |change| {
        let list: &'static [Change] = vec![change].leak();
        let changed = change::to_gguf(list, Reshaped::input(0, &[6, 4]), &config, None)?;
        Ok::<_, AnamnesisError>(decoded(&changed.tree, 24, 1, 1))
    };
    assert_eq!(applied(Change::MinusMean("mean")).unwrap()[..3], [-0.5, 0.5, 1.5]);
    let quotients = applied(Change::OverColumnNorms("norms")).unwrap();
    assert_eq!(quotients[4], 4.0 / (1.0 + 1e-7));
    assert_eq!(quotients[7], 7.0 / (8.0 + 1e-7));
    assert_eq!(applied(Change::Ternary("mean")).unwrap()[..3], [0.0, 0.5, 0.5]);
    // The mean magnitude is at least 1e-5.
    assert_eq!(applied(Change::Ternary("least")).unwrap()[1], 1.0 / (1.0 / 1e-5));
    let error = applied(Change::MinusMean("other")).unwrap_err();
    assert!(error.to_string().contains("the values of \"other\" were not read"), "{error}");
}
