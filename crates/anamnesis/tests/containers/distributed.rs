//! Distributed checkpoints give the tensors that torch reads from them. A single shard, which holds slices of tensors
//! under the names of whole tensors, is not a model.

use std::path::Path;

use crate::support::{Contents, Folder, Model, assert_mentions, fixture};
use anamnesis::{
    AnamnesisError, Checkpoint, DirectoryOptions, Format, OpenOptions, ParseLimits, RememberOptions, ScanVerdict,
    TargetDtype, parse_bytes, scan_all, verify,
};
use serde_json::{Value, json};

const FIRST: &str = "shard-00001-model-00001-of-00001.safetensors";
const SECOND: &str = "shard-00002-model-00001-of-00001.safetensors";

fn piece(info: &Value) -> Model {
    Model::new().metadata("DCP_SHARDING_INFO", &info.to_string()).floats("a", &[2, 2], &[1.0; 4]).floats(
        "b",
        &[1],
        &[2.0],
    )
}

fn offsets(of_a: [u64; 2]) -> Value {
    json!({"a": {"saved_offsets": of_a}, "b": {"saved_offsets": [0]}})
}

fn refusal(result: anamnesis::Result<Checkpoint>) -> String {
    let planned = result.and_then(|checkpoint| checkpoint.plan(TargetDtype::F32).map(drop));
    match planned.unwrap_err() {
        AnamnesisError::Unsupported { format, detail } => {
            assert_eq!(format, "PyTorch distributed checkpoint");
            detail
        }
        other => panic!("expected an unsupported format, got {other:?}"),
    }
}

fn open(folder: &Folder, name: &str) -> anamnesis::Result<Checkpoint> {
    Checkpoint::open(folder.path(name), &ParseLimits::default())
}

#[test]
fn a_shard_with_a_nonzero_offset_is_refused_under_any_name() {
    let folder = Folder::new();
    for (name, info) in [
        ("piece.safetensors", offsets([2, 0])),
        ("model.safetensors", offsets([0, 2])),
        ("other.safetensors", json!({"a": {"saved_offsets": [0, -1]}})),
        ("strange.safetensors", json!({"a": {}})),
        ("listed.safetensors", json!([])),
    ] {
        folder.write(name, piece(&info).bytes());
        let words: &[&str] = if info.is_array() { &["cannot be read"] } else { &["piece", "\"a\""] };
        assert_mentions(&refusal(open(&folder, name)), words);
        let model = parse_bytes(piece(&info).bytes()).and_then(|model| model.remember_to_bytes(TargetDtype::F32));
        assert!(matches!(model, Err(AnamnesisError::Unsupported { .. })), "{name}");
    }
}

#[test]
fn the_first_shard_is_known_by_its_name_and_a_whole_file_is_a_model() {
    let folder = Folder::new();
    let bytes = piece(&offsets([0, 0])).bytes();
    folder.write(FIRST, &bytes);
    assert_mentions(&refusal(open(&folder, FIRST)), &[FIRST]);
    folder.write("model-00001-of-00001.safetensors", &bytes);
    let whole = open(&folder, "model-00001-of-00001.safetensors").unwrap();
    let output = whole.plan(TargetDtype::F32).unwrap().to_bytes(&Default::default()).unwrap();
    assert_eq!(Contents::of(&output).floats("a"), [1.0; 4]);
}

/// The shards of two ranks, and a tensor that only the first has.
fn shards(folder: &Folder, second: [u64; 2]) {
    let first = Model::new().metadata("DCP_SHARDING_INFO", &offsets([0, 0]).to_string()).metadata("format", "pt");
    folder.write(FIRST, first.floats("a", &[2, 2], &[1.0; 4]).floats("b", &[1], &[2.0]).bytes());
    let info = json!({"a": {"saved_offsets": second}});
    let model = Model::new().metadata("DCP_SHARDING_INFO", &info.to_string());
    folder.write(SECOND, model.floats("a", &[2, 2], &[3.0; 4]).bytes());
}

fn decoded(checkpoint: &Checkpoint) -> Contents {
    Contents::of(&checkpoint.plan(TargetDtype::F32).unwrap().to_bytes(&Default::default()).unwrap())
}

#[test]
fn shards_are_put_together_by_their_offsets() {
    let folder = Folder::new();
    shards(&folder, [2, 0]);
    for name in [".", FIRST, SECOND] {
        let checkpoint = open(&folder, name).unwrap();
        let found = decoded(&checkpoint);
        assert_eq!(found.tensors["a"].shape, [4, 2]);
        assert_eq!(found.floats("a"), [1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0]);
        // The offsets are not those of the output.
        assert_eq!(found.metadata.unwrap().keys().collect::<Vec<_>>(), ["format"]);
        assert_mentions(&checkpoint.notes()[0].to_string(), &["2 shards", "missing"]);
    }
    shards(&folder, [0, 2]);
    assert_eq!(decoded(&open(&folder, ".").unwrap()).floats("a"), [1.0, 1.0, 3.0, 3.0, 1.0, 1.0, 3.0, 3.0]);
}

#[test]
fn shards_with_overlaps_holes_or_gaps_are_refused() {
    let folder = Folder::new();
    for (second, word) in [([1, 0], "overlaps"), ([3, 0], "lack"), ([u64::MAX, 0], "overflows"), ([0, 0], "overlaps")] {
        shards(&folder, second);
        assert_mentions(&open(&folder, ".").err().unwrap().to_string(), &["\"a\"", word]);
    }
    shards(&folder, [2, 0]);
    std::fs::rename(folder.path(SECOND), folder.path("shard-00003-model-00001-of-00001.safetensors")).unwrap();
    assert_mentions(&open(&folder, ".").err().unwrap().to_string(), &["shard 1 of rank 2 is missing"]);
    let folder = Folder::new();
    folder.write(FIRST, piece(&offsets([0, 0])).bytes());
    assert_mentions(&refusal(open(&folder, ".")), &[FIRST]);
    folder.write(SECOND, Model::new().floats("a", &[1], &[1.0]).bytes());
    assert_mentions(&open(&folder, ".").err().unwrap().to_string(), &["DCP_SHARDING_INFO"]);
}

/// The directories of the fixtures with the tensors that torch reads.
fn cases() -> Vec<(String, Contents)> {
    let entries = std::fs::read_dir(fixture("dcp")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let expected = |file: String| {
        let name = file.strip_suffix(".expected.safetensors")?.to_owned();
        Some((name, Contents::read(fixture(&format!("dcp/{file}")))))
    };
    names.filter_map(expected).collect()
}

fn fixture_checkpoint(name: &str, options: &OpenOptions) -> Checkpoint {
    let path = fixture(&format!("dcp/{name}"));
    Checkpoint::open_with(path, options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_fixture_gives_the_tensors_that_torch_reads() {
    let cases = cases();
    assert!(cases.len() >= 12, "{}", cases.len());
    for (name, expected) in cases {
        let checkpoint = fixture_checkpoint(&name, &OpenOptions::new());
        for workers in [1, 3] {
            let options = RememberOptions::new().with_threads(workers);
            let found = Contents::of(&checkpoint.plan(TargetDtype::F32).unwrap().to_bytes(&options).unwrap());
            assert_eq!(found.names(), expected.names(), "{name}");
            for (tensor, wanted) in &expected.tensors {
                assert_eq!(found.tensors[tensor], *wanted, "{name}: {tensor}");
            }
        }
    }
}

#[test]
fn a_checkpoint_is_opened_by_its_directory_or_any_of_its_files() {
    for name in ["four_grid", "four_grid/.metadata", "four_grid/__2_0.distcp"] {
        let checkpoint = fixture_checkpoint(name, &OpenOptions::new());
        assert_eq!((checkpoint.format(), checkpoint.tensor_count()), (Format::Distributed, 6), "{name}");
    }
}

#[test]
fn a_part_of_a_training_checkpoint_is_selected_by_its_path() {
    let whole = fixture_checkpoint("training", &OpenOptions::new());
    assert!(whole.notes().iter().any(|note| note.to_string().contains("training run")));
    let select = |path: &str| Checkpoint::open_with(fixture("dcp/training"), &OpenOptions::new().with_select(path));
    let model = decoded(&select("model").unwrap());
    assert_eq!(model.names(), ["bias", "weight"]);
    assert_eq!(decoded(&select("model.weight").unwrap()).names(), ["weight"]);
    let error = select("mod").err().unwrap();
    assert_mentions(&error.to_string(), &["mod"]);
}

fn copy(from: &Path) -> Folder {
    let folder = Folder::new();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        folder.write(entry.file_name().to_str().unwrap(), std::fs::read(entry.path()).unwrap());
    }
    folder
}

#[test]
fn a_directory_is_written_without_the_files_of_the_ranks() {
    let folder = copy(&fixture("dcp/four_rows"));
    folder.write("config.json", "{\"model_type\": \"none\"}");
    let output = Folder::new();
    let checkpoint = open(&folder, ".").unwrap();
    let plan = checkpoint.plan_directory(TargetDtype::BF16, &DirectoryOptions::new()).unwrap();
    plan.write(output.path("out"), &RememberOptions::new(), |_| {}).unwrap();
    let mut names: Vec<_> = std::fs::read_dir(output.path("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["config.json", "model.safetensors"]);
}

#[test]
fn missing_and_damaged_files_are_named() {
    let folder = copy(&fixture("dcp/four_rows"));
    let whole = std::fs::read(folder.path("__1_0.distcp")).unwrap();
    let report = verify(folder.path(".")).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    // A byte of a tensor; its archive has a checksum.
    let mut changed = whole.clone();
    let place = changed.windows(4).position(|bytes| bytes == b"data/0".get(..4).unwrap()).unwrap();
    let start = changed[place..].iter().position(|byte| *byte == b'Z').unwrap_or(0) + place;
    changed[start + 64] ^= 1;
    folder.write("__1_0.distcp", &changed);
    let outcome =
        open(&folder, ".").and_then(|checkpoint| checkpoint.plan(TargetDtype::F32)?.to_bytes(&Default::default()));
    let report = verify(folder.path(".")).unwrap();
    assert!(outcome.is_err() || report.problems.is_empty(), "{:?}", report.problems);
    folder.write("__1_0.distcp", &whole[..whole.len() - 1]);
    assert_mentions(&open(&folder, ".").err().unwrap().to_string(), &["__1_0.distcp"]);
    std::fs::remove_file(folder.path("__1_0.distcp")).unwrap();
    assert_mentions(&open(&folder, ".").err().unwrap().to_string(), &["__1_0.distcp", "no such file"]);
    std::fs::remove_file(folder.path(".metadata")).unwrap();
    assert_mentions(&open(&folder, ".").err().unwrap().to_string(), &[".metadata"]);
}

#[test]
fn all_pickles_are_scanned() {
    let scanned = scan_all(fixture("dcp/training")).unwrap();
    let names: Vec<_> = scanned.iter().map(|file| file.path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, [".metadata", "__0_0.distcp"]);
    for file in &scanned {
        assert_eq!(file.report.verdict(), ScanVerdict::Safe, "{:?}", file.report);
        assert_eq!(file.report.refusal, None);
    }
    assert!(scanned[1].report.pickles.len() > 5);
}
