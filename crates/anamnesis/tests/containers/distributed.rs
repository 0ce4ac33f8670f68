//! Shards of PyTorch distributed checkpoints, which hold slices of tensors under the names of whole tensors, are not
//! models.

use crate::support::{Contents, Folder, Model, assert_mentions};
use anamnesis::{AnamnesisError, Checkpoint, ParseLimits, TargetDtype, parse_bytes};
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
        (SECOND, offsets([2, 0])),
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

#[test]
fn a_directory_of_shards_is_refused_by_name() {
    let folder = Folder::new();
    folder.write(FIRST, piece(&offsets([0, 0])).bytes());
    assert_mentions(&refusal(open(&folder, ".")), &[FIRST]);
    folder.write(SECOND, piece(&offsets([2, 0])).bytes());
    assert_mentions(&refusal(open(&folder, ".")), &["pieces"]);
}
