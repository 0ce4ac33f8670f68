//! Hashes: independent of containers, shards, order and threads.

use crate::support::{Model, fixture, le_bytes};
use anamnesis::{
    Checkpoint, ConvertOptions, ConvertTarget, DirectoryOptions, Dtype, HashForm, ModelHash, ParseLimits,
    RememberOptions, TargetDtype,
};

fn from_bytes(bytes: Vec<u8>) -> Checkpoint {
    Checkpoint::from_bytes(bytes, &ParseLimits::default()).unwrap()
}

fn hash(checkpoint: &Checkpoint, form: HashForm) -> ModelHash {
    checkpoint.hash(form, &RememberOptions::new(), |_| {}).unwrap()
}

const DECODED: HashForm = HashForm::Decoded(TargetDtype::F32);

/// The SHA-256 of the bytes `00 00 80 3f 00 00 00 40`, by `sha256sum`.
const ONE_AND_TWO: &str = "b9c80b5adeca450753a16950c3cc655d271f7bef7a485bc83f112b72fef21d37";

fn plain() -> Vec<u8> {
    Model::new()
        .floats("b", &[2], &[1.0, 2.0])
        .floats("a", &[2, 1], &[1.0, 2.0])
        .floats("empty", &[0], &[])
        .tensor("ids", "I64", &[1], &7i64.to_le_bytes())
        .bytes()
}

#[test]
fn a_tensor_has_the_sha_256_of_its_bytes() {
    let found = hash(&from_bytes(plain()), HashForm::Stored);
    let names: Vec<_> = found.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "empty", "ids"]);
    assert_eq!(found.tensors[0].sha256.to_string(), ONE_AND_TWO);
    assert_eq!(found.tensors[0].sha256, found.tensors[1].sha256);
    assert_eq!((found.tensors[0].dtype, &found.tensors[0].shape[..]), (Dtype::F32, &[2, 1][..]));
    let of_nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(found.tensors[2].sha256.to_string(), of_nothing);
}

#[test]
fn containers_and_order_do_not_matter() {
    let checkpoint = from_bytes(plain());
    let wanted = hash(&checkpoint, HashForm::Stored);
    let npz = checkpoint.plan_convert(ConvertTarget::Npz, &ConvertOptions::new()).unwrap().to_bytes(|_| {}).unwrap();
    assert_eq!(hash(&from_bytes(npz.0), HashForm::Stored), wanted);
    let reordered = Model::new()
        .tensor("ids", "I64", &[1], &7i64.to_le_bytes())
        .floats("empty", &[0], &[])
        .floats("a", &[2, 1], &[1.0, 2.0])
        .floats("b", &[2], &[1.0, 2.0]);
    assert_eq!(hash(&from_bytes(reordered.bytes()), HashForm::Stored).sha256(), wanted.sha256());
    let other_shape = Model::new().floats("a", &[1, 2], &[1.0, 2.0]);
    let of_shape = Model::new().floats("a", &[2, 1], &[1.0, 2.0]);
    let [one, other] = [other_shape, of_shape].map(|model| hash(&from_bytes(model.bytes()), HashForm::Stored));
    assert_ne!(one.sha256(), other.sha256());
}

#[test]
fn shards_do_not_matter() {
    let checkpoint = from_bytes(plain());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sharded");
    let whole = folder.path().join("whole");
    std::fs::create_dir(&whole).unwrap();
    std::fs::write(whole.join("model.safetensors"), plain()).unwrap();
    std::fs::write(whole.join("config.json"), "{}").unwrap();
    let directory = Checkpoint::open(&whole, &ParseLimits::default()).unwrap();
    let cut = DirectoryOptions::new().with_shard_bytes(16);
    let plan = directory.plan_convert_directory(ConvertTarget::Safetensors, &ConvertOptions::new(), &cut).unwrap();
    plan.write(&path, &RememberOptions::new(), |_| {}).unwrap();
    let sharded = Checkpoint::open(&path, &ParseLimits::default()).unwrap();
    assert!(sharded.file_count() > 1);
    assert_eq!(hash(&sharded, HashForm::Stored), hash(&checkpoint, HashForm::Stored));
}

#[test]
fn equal_values_have_equal_decoded_hashes() {
    let half = Model::new().tensor("x", "BF16", &[2], &[0x80, 0x3f, 0x00, 0x40]).bytes();
    let single = Model::new().tensor("x", "F32", &[2], &le_bytes(&[1.0, 2.0])).bytes();
    let [half, single] = [half, single].map(from_bytes);
    assert_ne!(hash(&half, HashForm::Stored), hash(&single, HashForm::Stored));
    assert_eq!(hash(&half, DECODED), hash(&single, DECODED));
    assert_eq!(hash(&half, DECODED).tensors[0].sha256.to_string(), ONE_AND_TWO);
}

#[test]
fn a_quantised_model_has_the_decoded_hash_of_its_decoded_form() {
    let path = fixture("bnb/fp4_nested_b64_bfloat16.safetensors");
    let checkpoint = Checkpoint::open(path, &ParseLimits::default()).unwrap();
    for dtype in [TargetDtype::F32, TargetDtype::BF16] {
        let decoded = checkpoint.plan(dtype).unwrap().to_bytes(&RememberOptions::new()).unwrap();
        let form = HashForm::Decoded(dtype);
        assert_eq!(hash(&checkpoint, form), hash(&from_bytes(decoded), form), "{dtype}");
    }
}

#[test]
fn wide_floats_and_integers_keep_their_bytes() {
    let of = |value: f64| from_bytes(Model::new().tensor("x", "F64", &[1], &value.to_le_bytes()).bytes());
    assert_ne!(hash(&of(1.0), DECODED), hash(&of(1.0 + f64::EPSILON), DECODED));
    assert_eq!(hash(&of(1.0), DECODED).tensors[0].dtype, Dtype::F64);
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let path = fixture("measure/first.safetensors");
    let checkpoint = Checkpoint::open(path, &ParseLimits::default()).unwrap();
    for form in [HashForm::Stored, DECODED] {
        let wanted = hash(&checkpoint, form);
        for threads in [1, 5] {
            let run = RememberOptions::new().with_threads(threads);
            assert_eq!(checkpoint.hash(form, &run, |_| {}).unwrap(), wanted);
        }
    }
}
