//! Data of archives is checked against checksums: a mismatch ends the conversion without output.

use crate::support::pickle::Pickle;
use crate::support::zip::{Entry, archive, npy};
use crate::support::{Folder, Noise, assert_mentions, le_bytes};
use anamnesis::{Checkpoint, ConvertOptions, ConvertTarget, ParseLimits, RememberOptions, TargetDtype, parse_pth};

/// Floats of one storage.
const FLOATS: i64 = 3 << 13;
/// Floats of one that is copied in several tiles.
const MANY_FLOATS: i64 = 3 << 19;

fn content(floats: i64) -> Vec<u8> {
    le_bytes(&(0..floats).map(|number| number as f32).collect::<Vec<_>>())
}

/// Pickles of tensors that read different parts of one storage.
fn objects() -> Vec<(&'static str, Vec<u8>)> {
    let half = FLOATS / 2;
    let tensor =
        |pickle: Pickle, offset, shape: &[i64], strides: &[i64]| pickle.tensor("0", FLOATS, offset, shape, strides);
    let two = |first: i64, second: i64| {
        let one = tensor(Pickle::new().raw(b"}").text("a"), 0, &[first], &[1]).raw(b"s").text("b");
        tensor(one, FLOATS - second, &[second], &[1]).raw(b"s").stop()
    };
    let only = |offset, shape: &[i64], strides: &[i64]| {
        Pickle::new().only("w", |pickle| tensor(pickle, offset, shape, strides))
    };
    vec![
        ("all of it", only(0, &[3, FLOATS / 3], &[FLOATS / 3, 1])),
        ("two halves", two(half, half)),
        ("two parts that overlap", two(half + 9, half + 9)),
        ("two parts with a gap between them", two(half - 9, half - 9)),
        ("the end", only(1, &[FLOATS - 1], &[1])),
        ("transposed", only(0, &[FLOATS / 3, 3], &[1, FLOATS / 3])),
        ("every second", only(0, &[half], &[2])),
    ]
}

/// An entry with a wrong checksum.
fn damaged(entry: Entry) -> Entry {
    entry.both(|head| head.crc ^= 0x100)
}

fn unchecked(entry: Entry) -> Entry {
    entry.both(|head| head.crc = 0)
}

#[track_caller]
fn refused(folder: &Folder, input: &str, what: &str, words: &[&str]) {
    for threads in [1, 4] {
        let checkpoint = match Checkpoint::open(folder.path(input), &ParseLimits::default()) {
            Ok(checkpoint) => checkpoint,
            Err(error) => return assert_mentions(&error.to_string(), words),
        };
        let plan = checkpoint.plan(TargetDtype::F32).unwrap();
        let options = RememberOptions::new().with_threads(threads);
        let error = plan.to_bytes(&options).unwrap_err().to_string();
        assert_mentions(&error, words);
        for target in [ConvertTarget::Safetensors, ConvertTarget::Npz] {
            let options = ConvertOptions::new().with_threads(threads);
            let error = anamnesis::convert::convert(&folder.path(input), target, &folder.path("out"), &options);
            assert_mentions(&error.expect_err(what).to_string(), words);
            assert_eq!(folder.names(), [input], "{what}");
        }
    }
}

#[test]
fn a_storage_with_a_wrong_checksum_is_not_converted() {
    let content = content(FLOATS);
    for (what, object) in objects() {
        for make in [Entry::stored, Entry::deflated] {
            let file = |change: fn(Entry) -> Entry| {
                archive(&[Entry::stored("a/data.pkl", &object), change(make("a/data/0", &content))])
            };
            let folder = Folder::new();
            folder.write("model.pth", file(damaged));
            refused(&folder, "model.pth", what, &["a/data/0", "damaged", "CRC"]);
            let parsed = parse_pth(folder.path("model.pth")).unwrap();
            assert_mentions(&parsed.tensors().expect_err(what).to_string(), &["a/data/0", "damaged"]);
            assert_mentions(&parsed.to_safetensors_bytes().expect_err(what).to_string(), &["a/data/0", "damaged"]);
            drop(parsed);

            // Without a checksum, which torch can omit, nothing is checked.
            let [whole, without] = [file(|entry| entry), file(unchecked)].map(|bytes| {
                folder.write("model.pth", bytes);
                let checkpoint = Checkpoint::open(folder.path("model.pth"), &ParseLimits::default()).unwrap();
                checkpoint.plan(TargetDtype::F32).unwrap().to_bytes(&RememberOptions::new()).unwrap()
            });
            assert!(whole == without, "{what}");
        }
    }
}

#[test]
fn the_pickle_and_its_byte_order_are_checked_against_their_checksums() {
    let object = Pickle::new().only("w", |pickle| pickle.tensor("0", 1, 0, &[1], &[1]));
    let entries = || {
        vec![
            Entry::stored("a/data.pkl", &object),
            Entry::deflated("a/byteorder", b"little"),
            Entry::stored("a/data/0", &[0; 4]),
        ]
    };
    let folder = Folder::new();
    for (index, name) in ["a/data.pkl", "a/byteorder"].into_iter().enumerate() {
        let mut entries = entries();
        entries[index] = damaged(entries[index].clone());
        folder.write("model.pth", archive(&entries));
        refused(&folder, "model.pth", name, &[name, "damaged"]);
    }
    let unchecked: Vec<_> = entries().into_iter().map(unchecked).collect();
    folder.write("model.pth", archive(&unchecked));
    assert_eq!(Checkpoint::open(folder.path("model.pth"), &ParseLimits::default()).unwrap().tensor_count(), 1);
}

#[test]
fn an_array_with_a_wrong_checksum_is_not_converted() {
    let content = content(FLOATS);
    for (descr, order) in [("<f4", "False"), (">f4", "False"), ("<f4", "True"), (">f4", "True")] {
        let rows = FLOATS / 3;
        let text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({rows}, 3), }}\n");
        for make in [Entry::stored, Entry::deflated] {
            let folder = Folder::new();
            folder.write("model.npz", archive(&[damaged(make("w.npy", &npy(&text, &content)))]));
            refused(&folder, "model.npz", &text, &["w.npy", "damaged", "CRC"]);
        }
    }
}

#[test]
fn every_bit_of_a_storage_is_covered_by_its_checksum() {
    let seed = 0x1dea;
    let mut noise = Noise(seed);
    let content = content(MANY_FLOATS);
    let object = Pickle::new().only("w", |pickle| pickle.tensor("0", MANY_FLOATS, 0, &[MANY_FLOATS], &[1]));
    let whole = archive(&[Entry::stored("a/data.pkl", &object), Entry::stored("a/data/0", &content)]);
    let start = whole.windows(16).position(|window| window == &content[..16]).unwrap();
    let folder = Folder::new();
    for _ in 0..2 {
        let mut bytes = whole.clone();
        let at = noise.below(content.len());
        bytes[start + at] ^= 1 << noise.below(8);
        folder.write("model.pth", bytes);
        refused(&folder, "model.pth", &format!("byte {at}, seed {seed:#x}"), &["a/data/0", "damaged"]);
    }
}
