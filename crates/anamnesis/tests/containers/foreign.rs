//! Files that are not models are identified, as text and as data, from every entry point.

use crate::support::zip;
use std::io::Cursor;

use crate::support::{Folder, Model, assert_mentions};
use anamnesis::{
    AnamnesisError, Checkpoint, Fault, FileKind, Format, OpenOptions, ParseLimits, Result, detect_format,
    detect_format_from_bytes, inspect_gguf_from_reader, inspect_npz_from_reader, inspect_pth_from_reader, parse,
    parse_bytes, parse_gguf_bytes, parse_npz_bytes, parse_pth_bytes, parse_safetensors_header,
    parse_safetensors_header_from_reader,
};

const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";

fn tar() -> Vec<u8> {
    let mut tar = vec![b'x'; 512];
    tar[100..].fill(0);
    tar[257..262].copy_from_slice(b"ustar");
    tar
}

/// The first bytes of files of every kind, and a word of the message.
fn kinds() -> Vec<(FileKind, Vec<u8>, &'static str)> {
    vec![
        (FileKind::Empty, Vec::new(), "empty"),
        (FileKind::GitLfsPointer, POINTER.to_vec(), "Git LFS pointer"),
        (FileKind::Json, b"{\"error\": \"not found\"}".to_vec(), "JSON document"),
        (FileKind::Html, b"<!DOCTYPE html><title>404</title>".to_vec(), "HTML page"),
        (FileKind::Xml, b"<?xml version=\"1.0\"?><Error/>".to_vec(), "XML document"),
        (FileKind::Text, b"Entry not found".to_vec(), "text document"),
        (FileKind::Gzip, b"\x1f\x8b\x08\0\0\0\0\0\x02\xff".to_vec(), "gzip file"),
        (FileKind::Bzip2, b"BZh91AY&SY\x01\x02".to_vec(), "bzip2 file"),
        (FileKind::Xz, b"\xfd7zXZ\0\0\x04\xe6\xd6".to_vec(), "xz file"),
        (FileKind::Zstandard, b"\x28\xb5\x2f\xfd\x04\x88\x01\x02\x03".to_vec(), "Zstandard file"),
        (FileKind::SevenZip, b"7z\xbc\xaf\x27\x1c\0\x04\x01".to_vec(), "7z archive"),
        (FileKind::Rar, b"Rar!\x1a\x07\x01\0\x33".to_vec(), "RAR archive"),
        (FileKind::Tar, tar(), "tar file"),
        (FileKind::Ggml, b"lmgg\x01\0\0\0\0\0".to_vec(), "older than GGUF"),
        (FileKind::SentencePiece, b"\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02".to_vec(), "SentencePiece tokenizer"),
        (FileKind::Pickle, b"\x80\x04\x95\x10\0\0\0\0\0\0\0}.".to_vec(), "pickle"),
    ]
}

#[track_caller]
fn assert_kind<T>(result: Result<T>, wanted: FileKind, word: &str) {
    match result.map(drop) {
        Err(error @ AnamnesisError::NotAModel { kind, .. }) => {
            assert_eq!(kind, wanted, "{error}");
            assert_eq!(error.fault(), Fault::File);
            assert_mentions(&error.to_string(), &[word]);
        }
        other => panic!("{wanted:?}: {other:?}"),
    }
}

#[test]
fn every_kind_is_identified_from_files_bytes_and_readers() {
    let folder = Folder::new();
    let limits = ParseLimits::default();
    for (kind, bytes, word) in kinds() {
        let path = folder.write("file", &bytes);
        assert_kind(Checkpoint::open(&path, &limits), kind, word);
        assert_mentions(&Checkpoint::open(&path, &limits).err().unwrap().to_string(), &["file\": "]);
        assert_kind(Checkpoint::from_bytes(bytes.clone(), &limits), kind, word);
        assert_kind(Checkpoint::from_reader(Cursor::new(bytes), &limits), kind, word);
    }
}

#[test]
fn files_that_cannot_hold_tensors_have_no_format() {
    let folder = Folder::new();
    for (kind, bytes, word) in kinds() {
        let detected = detect_format_from_bytes(&bytes);
        let named = detect_format(&folder.write("model.gguf", &bytes));
        if matches!(kind, FileKind::Empty | FileKind::Gzip) || kind.is_text() {
            assert_kind(detected, kind, word);
            assert_kind(named, kind, word);
        } else {
            // A quick detection never excludes the format without a magic number.
            assert_eq!((detected.unwrap(), named.unwrap()), (Format::Safetensors, Format::Gguf), "{kind:?}");
        }
    }
}

#[test]
fn entry_points_for_one_format_identify_other_files_too() {
    type Entry = (&'static str, fn(Vec<u8>) -> Result<()>);
    let entries: [Entry; 9] = [
        ("parse_bytes", |bytes| parse_bytes(bytes).map(drop)),
        ("parse_safetensors_header", |bytes| parse_safetensors_header(&bytes).map(drop)),
        ("parse_safetensors_header_from_reader", |bytes| parse_safetensors_header_from_reader(&bytes[..]).map(drop)),
        ("parse_gguf_bytes", |bytes| parse_gguf_bytes(bytes).map(drop)),
        ("inspect_gguf_from_reader", |bytes| inspect_gguf_from_reader(Cursor::new(bytes)).map(drop)),
        ("parse_pth_bytes", |bytes| parse_pth_bytes(bytes).map(drop)),
        ("inspect_pth_from_reader", |bytes| inspect_pth_from_reader(Cursor::new(bytes)).map(drop)),
        ("parse_npz_bytes", |bytes| parse_npz_bytes(bytes).map(drop)),
        ("inspect_npz_from_reader", |bytes| inspect_npz_from_reader(Cursor::new(bytes)).map(drop)),
    ];
    for (kind, bytes, word) in kinds() {
        for (name, entry) in entries {
            let error = entry(bytes.clone()).unwrap_err();
            match &error {
                AnamnesisError::Parse { reason } => assert_mentions(reason, &[word]),
                AnamnesisError::Unsupported { format, detail } if format == "pth" => assert_mentions(detail, &[word]),
                // A stream that ends where a header may begin is truncated, whatever it is.
                AnamnesisError::Io(_) => {
                    assert_eq!(name, "parse_safetensors_header_from_reader");
                    assert!(matches!(kind, FileKind::Empty | FileKind::Gzip), "{kind:?}");
                }
                other => panic!("{name} {kind:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn tensor_files_of_another_format_are_named_by_that_format() {
    let folder = Folder::new();
    let model = Model::new().floats("x", &[1], &[1.0]).bytes();
    let open = |name: &str, bytes: &[u8]| Checkpoint::open(folder.write(name, bytes), &ParseLimits::default());
    for name in ["m.gguf", "m.npy", "m.npz", "m.pth"] {
        assert_kind(
            open(name, &model),
            FileKind::OtherFormat("safetensors"),
            "this looks like a safetensors file, not a",
        );
    }
    assert!(open("m.bin", &model).is_ok());
    let gguf = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let message = |error: Option<AnamnesisError>| error.unwrap().to_string();
    assert_mentions(&message(parse_safetensors_header(gguf).err()), &["this is a GGUF file, not a safetensors file"]);
    assert_mentions(&message(parse_pth_bytes(gguf.to_vec()).err()), &["this is a GGUF file, not a PyTorch file"]);
    assert_mentions(&message(parse_gguf_bytes(model).err()), &["this looks like a safetensors file, not a GGUF file"]);
    assert_mentions(&message(parse_gguf_bytes(b"PK\x03\x04....".to_vec()).err()), &["this is a ZIP archive"]);
    assert_mentions(&message(parse(folder.write("model", gguf)).err()), &["`GGUF`", "not a safetensors file"]);
}

#[test]
fn a_malformed_file_of_the_expected_format_keeps_its_own_error() {
    // The length of this header reads like the beginning of a pickle, and of a gzip file.
    for length in [640u64, 0x08_8b1f] {
        let broken = [&length.to_le_bytes(), &b"{\"x\": oops"[..]].concat();
        for error in [parse_bytes(broken.clone()).err(), Checkpoint::from_bytes(broken, &ParseLimits::default()).err()]
        {
            assert_mentions(&error.unwrap().to_string(), &["past the end of the file"]);
        }
    }
    let error = Checkpoint::from_bytes(b"PK\x03\x04....".to_vec(), &ParseLimits::default()).err().unwrap();
    assert_mentions(&error.to_string(), &["truncated"]);
}

#[test]
fn sidecar_files_of_a_checkpoint_are_identified_by_name() {
    let folder = Folder::new();
    let open = |name: &str, bytes: &[u8]| Checkpoint::open(folder.write(name, bytes), &ParseLimits::default());
    assert_kind(open("config.json", b"{\"model_type\": \"llama\"}"), FileKind::Json, "the configuration of a model");
    assert_kind(open("tokenizer.json", b"{\"version\": \"1.0\"}"), FileKind::Json, "the tokenizer of a model");
    assert_kind(open("tokenizer.model", b"\x0a\xff\xff"), FileKind::SentencePiece, "the tokenizer of a model");
    assert_kind(open("README.md", b"# A model"), FileKind::Text, "the description of a model");
    // A Git LFS pointer is reported first.
    assert_kind(open("config.json", POINTER), FileKind::GitLfsPointer, "not the file itself");
}

#[test]
fn optimizer_states_are_read_only_on_request() {
    let folder = Folder::new();
    let archive = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/pth/checkpoint.pth")).unwrap();
    let paths = ["optimizer.pt", "rng_state_0.pth", "training_args.bin"].map(|name| folder.write(name, &archive));
    for path in &paths {
        assert_kind(Checkpoint::open(path, &ParseLimits::default()), FileKind::TrainingState, "not a model");
        let all = Checkpoint::open_with(path, &OpenOptions::new().with_all(true)).unwrap();
        assert!(all.tensor_count() > 1);
        let part = Checkpoint::open_with(path, &OpenOptions::new().with_select("state_dict")).unwrap();
        assert!(part.tensor_count() < all.tensor_count());
    }
    assert!(parse_pth_bytes(archive).is_ok());
}

#[test]
fn archives_without_tensors_are_not_models() {
    let archive = zip::archive(&[zip::Entry::stored("word/document.xml", b"text")]);
    assert_kind(Checkpoint::from_bytes(archive, &ParseLimits::default()), FileKind::Zip, "has no data.pkl");
}

#[test]
fn shards_must_have_one_format() {
    let folder = Folder::new();
    folder.write("m-00001-of-00002.safetensors", Model::new().floats("x", &[1], &[1.0]).bytes());
    folder.write("m-00002-of-00002.safetensors", b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let error = Checkpoint::open(folder.path(""), &ParseLimits::default()).err().unwrap().to_string();
    assert_mentions(&error, &["m-00002-of-00002", "a GGUF file", "a safetensors file"]);
}

#[test]
fn formats_that_are_known_and_not_read_are_named() {
    let limits = ParseLimits::default();
    let archive = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/pth/checkpoint.pth")).unwrap();
    let files: [(&str, &[u8], &str); 6] = [
        ("model.pt2", &archive, "torch.export"),
        ("model.mlmodel", b"\x08\x04\x12\x02", "Core ML"),
        ("model.params", &[0x12, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "MXNet"),
        ("weights", b"tjgg\x03\0\0\0", "ggjt"),
        ("openvino_model.xml", b"<?xml version=\"1.0\"?>\n<net name=\"m\" version=\"11\">", "OpenVINO"),
        ("model.pte", b"\x30\0\0\0ET12\0\0\0\0", "ExecuTorch"),
    ];
    for (name, bytes, format) in files {
        let folder = Folder::new();
        let path = folder.write(name, bytes);
        assert_kind(Checkpoint::open(&path, &limits), FileKind::Unread(format), format);
    }
    for (name, format) in [("manifest.ocdbt", "Orbax or zarr"), ("inference.pdiparams", "Paddle")] {
        let folder = Folder::new();
        folder.write(name, b"x");
        assert_kind(Checkpoint::open(folder.path(""), &limits), FileKind::Unread(format), format);
    }
}
