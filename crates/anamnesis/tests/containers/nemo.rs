//! `.nemo` files, which are tar files with the weights inside, and checkpoints of PyTorch Lightning.

use crate::support::zip;
use crate::support::{Contents, Folder, assert_mentions, fixture};
use anamnesis::{
    AnamnesisError, Checkpoint, Format, ParseLimits, RememberOptions, ScanVerdict, TargetDtype, detect_format, scan,
    scan_all, verify,
};

/// A file inside of a tar file.
fn member(name: &str, content: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    block[148..156].fill(b' ');
    block[156] = b'0';
    block[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block.extend(content);
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let files: Vec<u8> = members.iter().flat_map(|(name, content)| member(name, content)).collect();
    [files, vec![0; 1024]].concat()
}

fn weights() -> Vec<u8> {
    std::fs::read(fixture("pth/lightning.ckpt")).unwrap()
}

fn open(bytes: Vec<u8>) -> anamnesis::Result<Checkpoint> {
    Checkpoint::from_bytes(bytes, &ParseLimits::default())
}

fn decoded(checkpoint: &Checkpoint) -> Contents {
    Contents::of(&checkpoint.plan(TargetDtype::F32).unwrap().to_bytes(&RememberOptions::new()).unwrap())
}

#[test]
fn a_packed_model_has_the_tensors_that_torch_reads() {
    let path = fixture("nemo/packed.nemo");
    let expected = Contents::read(fixture("nemo/packed.expected.safetensors"));
    assert_eq!(detect_format(&path).unwrap(), Format::Pth);
    let bytes = std::fs::read(&path).unwrap();
    for checkpoint in [Checkpoint::open(&path, &ParseLimits::default()), open(bytes)] {
        let checkpoint = checkpoint.unwrap();
        assert_eq!(checkpoint.format(), Format::Pth);
        assert_eq!(decoded(&checkpoint).tensors, expected.tensors);
    }
    assert!(verify(&path).unwrap().problems.is_empty());
    let report = scan(&path).unwrap();
    assert_eq!((report.verdict(), report.kind.as_str()), (ScanVerdict::Safe, "tar file"));
    assert_eq!(report.refusal, None);
    assert!(report.pickles[0].name.starts_with("./model_weights.ckpt: "), "{}", report.pickles[0].name);
}

#[test]
fn any_format_is_read_inside_of_a_tar_file() {
    for (name, format) in [
        ("onnx/types_raw.onnx", Format::Onnx),
        ("hdf5/types.h5", Format::Hdf5),
        ("flax/tree.msgpack", Format::Flax),
        ("tflite/types.tflite", Format::TfLite),
        ("onnx/types_raw.expected.safetensors", Format::Safetensors),
    ] {
        let content = std::fs::read(fixture(name)).unwrap();
        let plain = open(content.clone()).unwrap();
        let packed = open(tar(&[("notes.txt", b"text"), ("weights", &content)])).unwrap();
        assert_eq!((packed.format(), packed.tensor_count()), (format, plain.tensor_count()), "{name}");
    }
}

#[test]
fn a_tar_file_with_no_model_or_with_several_is_refused_by_name() {
    let error = open(tar(&[("model_config.yaml", b"a: 1")])).err().unwrap();
    assert!(matches!(error, AnamnesisError::NotAModel { .. }), "{error}");
    let weights = weights();
    let error = open(tar(&[("a.ckpt", &weights), ("b.ckpt", &weights)])).err().unwrap();
    assert_mentions(&error.to_string(), &["2 models", "\"a.ckpt\"", "\"b.ckpt\""]);
    // A tar file inside of a tar file is no model.
    assert!(open(tar(&[("inner.nemo", &tar(&[("a.ckpt", &weights)]))])).is_err());
}

#[test]
fn no_prefix_of_a_tar_file_is_read() {
    let (content, whole) = (weights(), tar(&[("a.yaml", b"a: 1"), ("a.ckpt", &weights())]));
    let all = open(whole.clone()).unwrap().tensor_count();
    let data = 3 * 512;
    for end in (1..whole.len()).step_by(137).chain([data + content.len() - 1, data + content.len()]) {
        match open(whole[..end].to_vec()) {
            Ok(checkpoint) => assert!(end >= data + content.len() && checkpoint.tensor_count() == all, "{end}"),
            Err(error) => assert!(!matches!(error, AnamnesisError::Internal { .. }), "{end}: {error}"),
        }
    }
}

#[test]
fn damage_inside_of_a_tar_file_is_noticed_by_the_checksums_of_the_archive() {
    let folder = Folder::new();
    let mut bytes = std::fs::read(fixture("nemo/packed.nemo")).unwrap();
    // A storage of the archive, whose data begins at a multiple of 64 bytes.
    let checkpoint = open(bytes.clone()).unwrap();
    let values = decoded(&checkpoint).tensors["layers.0.weight"].data.clone();
    let at = bytes.windows(values.len()).position(|window| window == values).unwrap();
    bytes[at] ^= 1;
    let path = folder.write("model.nemo", &bytes);
    assert_eq!(verify(&path).unwrap().problems.len(), 1);
    let checkpoint = Checkpoint::open(&path, &ParseLimits::default()).unwrap();
    assert!(checkpoint.plan(TargetDtype::F32).unwrap().to_bytes(&RememberOptions::new()).is_err());
}

#[test]
fn code_inside_of_a_tar_file_is_found() {
    let folder = Folder::new();
    let code = b"\x80\x02cos\nsystem\nU\x02ls\x85R.";
    let plain: &[u8] = b"cos\nsystem\n(S'ls'\ntR.";
    for (name, content) in [("a.ckpt", &code[..]), ("a.yaml", code), ("notes", plain)] {
        let packed = folder.write("model.nemo", tar(&[("b.yaml", b"a: 1"), (name, content)]));
        assert_eq!(scan(packed).unwrap().verdict(), ScanVerdict::RefersToCode, "{name}");
    }
    // The name of the first file is a pickle itself.
    let path = folder.write("model.pkl", tar(&[("cos\nsystem\n(S'ls'\ntR.", b"x")]));
    assert_eq!(scan(path).unwrap().verdict(), ScanVerdict::RefersToCode);
    assert_eq!(scan_all(folder.path(".")).unwrap().len(), 2);
    // An archive behind a tar file, and behind the first bytes of a file inside of one.
    let archive = zip::archive(&[zip::Entry::stored("data.pkl", code)]);
    let behind = [tar(&[("a.yaml", b"a: 1")]), archive.clone()].concat();
    let inside = tar(&[("a.gguf", &[b"GGUF".to_vec(), archive].concat()), ("b.yaml", b"a: 1")]);
    for content in [behind, inside] {
        assert_eq!(scan(folder.write("two.bin", content)).unwrap().verdict(), ScanVerdict::RefersToCode);
    }
    let nested = folder.write("outer.nemo", tar(&[("inner.tar", &tar(&[("a.ckpt", code)]))]));
    assert_eq!(scan(nested).unwrap().verdict(), ScanVerdict::Malformed);
    let text = folder.write("text.tar", tar(&[("a.yaml", b"a: 1"), ("b.txt", b"text")]));
    assert_eq!(scan(text).unwrap().verdict(), ScanVerdict::HoldsNoCode);
}
