//! Files of TensorFlow, TensorFlow Lite, Flax, HDF5 and Keras: every fixture has the tensors that its own library reads,
//! and damaged files are refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{Contents, Folder, Noise, TARGETS, Tensor, assert_mentions, difference, fixture};
use anamnesis::{AnamnesisError, Checkpoint, Format, OpenOptions, ParseLimits, RememberOptions, TargetDtype, verify};

const FAMILIES: [&str; 4] = ["tflite", "tensorflow", "flax", "hdf5"];

/// The cases of a family: a file or a directory, with the tensors to expect.
fn cases(family: &str) -> Vec<(PathBuf, Contents)> {
    let entries = || std::fs::read_dir(fixture(family)).unwrap().map(|entry| entry.unwrap().path());
    let name_of = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let mut cases = Vec::new();
    for expected in entries() {
        let Some(case) = name_of(&expected).strip_suffix(".expected.safetensors").map(str::to_owned) else { continue };
        let is_case = |path: &PathBuf| {
            let name = name_of(path);
            name == case || (name.starts_with(&format!("{case}.")) && !name.ends_with(".safetensors"))
        };
        cases.push((entries().find(is_case).unwrap(), Contents::read(expected)));
    }
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    cases
}

fn open(path: &Path) -> anamnesis::Result<Checkpoint> {
    Checkpoint::open_with(path, &OpenOptions::new().with_skip_unsupported(true))
}

/// The tensors of a checkpoint, decoded.
fn decoded(checkpoint: &Checkpoint, target: TargetDtype) -> anamnesis::Result<BTreeMap<String, Tensor>> {
    let folder = Folder::new();
    let output = folder.path("out.safetensors");
    checkpoint.plan(target)?.write(&output, &RememberOptions::new().with_threads(1), |_| {})?;
    Ok(Contents::read(output).tensors)
}

#[test]
fn every_fixture_has_the_tensors_that_its_library_reads() {
    let mut compared = 0;
    for (path, expected) in FAMILIES.into_iter().flat_map(cases) {
        let checkpoint = open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for target in TARGETS {
            let suffix = format!(".{}", target.to_string().to_lowercase());
            let is_decoded = |name: &str| [".f32", ".bf16", ".f16"].iter().any(|end| name.ends_with(end));
            let found = decoded(&checkpoint, target).unwrap();
            let wanted: BTreeMap<&str, &Tensor> = expected
                .tensors
                .iter()
                .filter(|(name, _)| !is_decoded(name) || name.ends_with(&suffix))
                .map(|(name, tensor)| (name.strip_suffix(&suffix).unwrap_or(name), tensor))
                .collect();
            assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{}", path.display());
            for (name, wanted) in wanted {
                assert_eq!(difference(wanted, &found[name]), None, "{} {name} {target}", path.display());
                compared += 1;
            }
        }
    }
    assert!(compared > 800, "{compared}");
}

#[test]
fn formats_are_detected_by_content_whatever_the_name() {
    let folder = Folder::new();
    for (name, format) in [
        ("tflite/types.tflite", Format::TfLite),
        ("flax/tree.msgpack", Format::Flax),
        ("hdf5/types.h5", Format::Hdf5),
        ("hdf5/archive.keras", Format::Keras),
        ("whisper/ggml-tiny.bin", Format::Whisper),
    ] {
        let bytes = std::fs::read(fixture(name)).unwrap();
        for other in ["weights", "model.bin", "model.txt"] {
            let path = folder.write(other, &bytes);
            assert_eq!(anamnesis::detect_format(&path).unwrap(), format, "{name} as {other}");
            assert_eq!(open(&path).unwrap().format(), format, "{name} as {other}");
        }
        assert_eq!(Checkpoint::from_bytes(bytes, &ParseLimits::default()).unwrap().format(), format);
    }
}

#[test]
fn a_checkpoint_is_found_by_its_prefix_its_index_a_data_file_and_its_directory() {
    let home = fixture("tensorflow/partitioned");
    for name in ["model.ckpt", "model.ckpt.index", "model.ckpt.data-00000-of-00007", ""] {
        let checkpoint = open(&home.join(name)).unwrap();
        assert_eq!((checkpoint.format(), checkpoint.tensor_count()), (Format::TensorFlow, 2), "{name}");
    }
    let bytes = std::fs::read(home.join("model.ckpt.index")).unwrap();
    let error = Checkpoint::from_bytes(bytes, &ParseLimits::default()).err().unwrap();
    assert_mentions(&error.to_string(), &["next to the index"]);
}

/// A copy of a directory of fixtures.
fn copied(name: &str) -> Folder {
    let folder = Folder::new();
    for entry in std::fs::read_dir(fixture(name)).unwrap() {
        let path = entry.unwrap().path();
        folder.write(path.file_name().unwrap().to_str().unwrap(), std::fs::read(&path).unwrap());
    }
    folder
}

#[test]
fn a_byte_changed_in_a_data_file_is_noticed_by_its_checksum() {
    let folder = copied("tensorflow/partitioned");
    let index = folder.path("model.ckpt.index");
    assert!(verify(&index).unwrap().problems.is_empty());
    assert_eq!(verify(folder.path("model.ckpt")).unwrap(), verify(&index).unwrap());
    assert!(verify(folder.path("other.ckpt")).is_err());
    let data = folder.names().into_iter().find(|name| name.contains(".data-00002")).unwrap();
    let mut bytes = std::fs::read(folder.path(&data)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    folder.write(&data, &bytes);
    assert_eq!(verify(&index).unwrap().problems.len(), 1);
    let error = decoded(&open(&index).unwrap(), TargetDtype::F32).err().unwrap();
    assert_mentions(&error.to_string(), &["\"table\"", "damaged", "checksum"]);
    std::fs::remove_file(folder.path(&data)).unwrap();
    assert_mentions(&open(&index).err().unwrap().to_string(), &[data.as_str(), "named by the index"]);
    folder.write(&data, &bytes[..bytes.len() - 1]);
    assert_mentions(&open(&index).err().unwrap().to_string(), &["\"table\"", "its data file ends"]);
}

/// The structures of newer HDF5 files: each has a checksum.
const SUMMED: [&[u8]; 12] =
    [b"OHDR", b"FRHP", b"FHIB", b"FHDB", b"FAHD", b"FADB", b"EAHD", b"EAIB", b"EADB", b"BTHD", b"BTLF", b"BTIN"];

#[test]
fn a_bit_changed_in_a_structure_of_a_newer_hdf5_file_is_noticed_by_its_checksum() {
    let mut structures = 0;
    for name in ["hdf5/chunks_latest.h5", "hdf5/links_latest.h5"] {
        let whole = std::fs::read(fixture(name)).unwrap();
        let starts = (0..whole.len()).filter(|at| SUMMED.iter().any(|signature| whole[*at..].starts_with(signature)));
        for at in starts.chain([0]) {
            let mut bytes = whole.clone();
            bytes[at + 9] ^= 4;
            assert!(Checkpoint::from_bytes(bytes, &ParseLimits::default()).is_err(), "{name} {at}");
            structures += 1;
        }
    }
    assert!(structures > 100, "{structures}");
}

#[test]
fn values_that_are_no_arrays_are_counted_and_the_first_are_named() {
    // A list of a million values takes a byte each.
    let mut file = b"\x81\xa1a\xdd".to_vec();
    file.extend(1_000_000u32.to_be_bytes());
    file.resize(file.len() + 1_000_000, 0xc0);
    let checkpoint = Checkpoint::from_bytes(file, &ParseLimits::default()).unwrap();
    assert_mentions(&checkpoint.notes()[0].text, &["a.0, a.1", "a.7 and 999992 more"]);
}

#[test]
fn a_missing_shard_is_named() {
    for (name, shard) in
        [("flax/sharded", "flax_model-00002-of-00002.msgpack"), ("hdf5/sharded", "model_00001.weights.h5")]
    {
        let folder = copied(name);
        std::fs::remove_file(folder.path(shard)).unwrap();
        assert_mentions(&open(&folder.path("")).err().unwrap().to_string(), &[shard]);
    }
}

#[test]
fn every_file_of_a_group_has_tensors_of_it() {
    let folder = copied("hdf5/sharded");
    let index = |map: &str| folder.write("model.weights.json", format!("{{\"weight_map\": {map}}}"));
    let (first, second) = ("model_00000.weights.h5", "model_00001.weights.h5");
    // A group as a text or a list, and one that is nested.
    index(&format!(r#"{{"/layers/dense/vars": "{first}", "/layers/dense_1": ["{second}"]}}"#));
    assert!(open(&folder.path("")).is_ok());
    for (map, words) in [
        (format!(r#"{{"/layers/dense_1/vars": "{first}"}}"#), &["layers/dense_1/vars", first][..]),
        (format!(r#"{{"/layers/dense": ["{first}", "{second}"], "/layers/other": "{second}"}}"#), &["layers/other"]),
        // The name of a group is not the start of another name.
        (format!(r#"{{"/layers/den": "{first}"}}"#), &["layers/den", "no tensor"]),
        (r#"{"/layers/dense": "missing.h5"}"#.to_owned(), &["missing.h5"]),
        (r#"{"/layers/dense": "../model_00000.weights.h5"}"#.to_owned(), &["../model_00000"]),
        (r#"{"/layers/dense": [1]}"#.to_owned(), &["not a text"]),
        (r#"{"/layers/dense": []}"#.to_owned(), &["names no file"]),
        ("[]".to_owned(), &["no weight_map"]),
    ] {
        let path = index(&map);
        for place in [folder.path(""), path] {
            assert_mentions(&open(&place).err().unwrap_or_else(|| panic!("{map}")).to_string(), words);
        }
    }
}

#[test]
fn tensors_that_cannot_be_read_are_refused_by_name_unless_they_are_skipped() {
    for (name, words) in
        [("tensorflow/types/types.index", &["\"text\"", "DT_STRING"][..]), ("hdf5/types.h5", &["\"fixed\"", "text"])]
    {
        let checkpoint = Checkpoint::open(fixture(name), &ParseLimits::default()).unwrap();
        assert_mentions(&checkpoint.plan(TargetDtype::F32).err().unwrap().to_string(), words);
        assert!(!open(&fixture(name)).unwrap().notes().is_empty());
    }
}

/// Single files of every format.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let names = [
        "tflite/types.tflite",
        "tflite/quantised.tflite",
        "flax/tree.msgpack",
        "flax/chunked.msgpack",
        "hdf5/types.h5",
        "hdf5/chunks.h5",
        "hdf5/chunks_latest.h5",
        "hdf5/links_latest.h5",
        "hdf5/archive.keras",
        "whisper/ggml-tiny.bin",
    ];
    names.map(|name| (name, std::fs::read(fixture(name)).unwrap())).to_vec()
}

fn small_limits() -> ParseLimits {
    ParseLimits::default().with_max_single_alloc(16 << 20).with_max_total_bytes(64 << 20)
}

#[test]
fn no_prefix_of_a_file_passes_for_another_model() {
    for (name, whole) in files() {
        let tensors = |bytes: Vec<u8>| {
            let checkpoint = Checkpoint::from_bytes(bytes, &small_limits())?;
            let missing = checkpoint.notes().iter().any(|note| note.text.contains("not in the file"));
            Ok::<_, AnamnesisError>((checkpoint.tensor_count(), missing))
        };
        let all = tensors(whole.clone()).unwrap().0;
        for end in (0..whole.len()).step_by(whole.len() / 97 + 1).chain(whole.len() - 9..whole.len()) {
            if let Ok((count, is_noted)) = tensors(whole[..end].to_vec()) {
                assert!(count == all || is_noted, "{name} up to byte {end} has {count} of {all} tensors");
            }
        }
    }
}

#[test]
fn changed_files_are_read_or_refused_within_the_limits() {
    let seed = std::env::var("AMN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut noise = Noise(seed);
    let (mut refused, mut read) = (0, 0);
    for (name, whole) in files() {
        for round in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..=noise.below(3) {
                // Most structures are near the start.
                let end = if round % 2 == 0 { bytes.len() } else { bytes.len().min(1024) };
                let at = noise.below(end);
                let value = [0, 1, 0x7f, 0x80, 0xff, noise.below(256) as u8][noise.below(6)];
                let run = noise.pick(&[1, 1, 2, 4, 8]);
                bytes.iter_mut().skip(at).take(run).for_each(|byte| *byte = value);
            }
            let options = OpenOptions::new().with_limits(small_limits()).with_skip_unsupported(true);
            let outcome = Checkpoint::from_bytes_with(bytes, &options);
            let outcome = outcome.and_then(|checkpoint| decoded(&checkpoint, TargetDtype::BF16));
            match outcome {
                Ok(_) => read += 1,
                Err(error) => {
                    let is_ours = matches!(error.fault(), anamnesis::Fault::Library);
                    assert!(!is_ours, "{name} round {round} AMN_SEED={seed}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 300 && read > 100, "{refused} refused, {read} read, AMN_SEED={seed}");
}
