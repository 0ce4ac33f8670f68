//! Files that two formats could claim: the content decides, then the name; and formats that end in other files.

use crate::support::onnx::{bytes, floats, graph, model, number};
use crate::support::pickle::Pickle;
use crate::support::zip::{Entry, archive};
use crate::support::{Folder, Model, assert_mentions, fixture, le_bytes};
use anamnesis::{
    AnamnesisError, Checkpoint, Format, ParseLimits, ScanVerdict, detect_format, detect_format_from_bytes, scan,
    scan_all, scan_bytes,
};

fn open(folder: &Folder, name: &str, content: &[u8]) -> anamnesis::Result<Checkpoint> {
    Checkpoint::open(folder.write(name, content), &ParseLimits::default())
}

fn array() -> Vec<u8> {
    let header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    let mut file = b"\x93NUMPY\x01\0\x76\0".to_vec();
    file.extend(header);
    file.resize(127, b' ');
    file.push(b'\n');
    file.extend(le_bytes(&[5.0, 6.0]));
    file
}

/// The entries of a PyTorch archive, a NumPy archive and a Keras archive.
fn entries() -> [Vec<Entry>; 3] {
    let pickle = Pickle::new().only("torch", |pickle| pickle.tensor("0", 2, 0, &[2], &[1]));
    let weights = std::fs::read(fixture("hdf5/bfloat16.weights.h5")).unwrap();
    [
        vec![Entry::stored("m/data.pkl", &pickle), Entry::stored("m/data/0", &le_bytes(&[1.0, 2.0]))],
        vec![Entry::stored("numpy.npy", &array())],
        vec![Entry::stored("config.json", b"{}"), Entry::stored("model.weights.h5", &weights)],
    ]
}

#[test]
fn an_archive_of_three_formats_is_read_by_its_extension_or_else_by_its_first_entry() {
    let folder = Folder::new();
    let formats = [Format::Pth, Format::Npz, Format::Keras];
    for (first, &of_first) in formats.iter().enumerate() {
        let order = [first, (first + 1) % 3, (first + 2) % 3];
        let all: Vec<Entry> = order.iter().flat_map(|&which| entries()[which].clone()).collect();
        let content = archive(&all);
        for (extension, format) in [("pth", Format::Pth), ("npz", Format::Npz), ("keras", Format::Keras)] {
            let name = format!("model.{extension}");
            let path = folder.write(&name, &content);
            let detected = detect_format(&path).unwrap();
            // A first entry of NumPy or Keras is certain; PyTorch's are not.
            let is_certain = first != 0 && of_first != format;
            let owned = detected == format || is_certain && detected == of_first;
            assert!(owned, "{name} with the entries of {of_first:?} first: {detected:?}");
            // Each reader has its own tensors, and only those.
            let checkpoint = Checkpoint::open(&path, &ParseLimits::default()).unwrap();
            let names = checkpoint.names();
            match checkpoint.format() {
                Format::Pth => assert_eq!(names, ["torch"]),
                Format::Npz => assert_eq!(names, ["numpy"]),
                other => {
                    assert!(other == Format::Keras && names.iter().all(|name| name.contains("layers/")), "{names:?}")
                }
            }
        }
        assert_eq!(detect_format_from_bytes(&content).unwrap(), of_first);
    }
}

#[test]
fn an_archive_under_the_name_of_another_format_is_refused_by_its_missing_entries() {
    let folder = Folder::new();
    let [torch, numpy, keras] = entries().map(|entries| archive(&entries));
    assert_mentions(&open(&folder, "a.keras", &torch).err().unwrap().to_string(), &["model.weights.h5"]);
    assert!(open(&folder, "a.bin", &numpy).is_ok() && open(&folder, "a.bin", &keras).is_ok());
}

#[test]
fn a_model_of_onnx_with_the_magic_of_another_format_is_not_read_as_one() {
    let folder = Folder::new();
    let content = model(&graph(&[], &[floats("w", &[2], &[1.0, 2.0])]));
    // The second field of a model is text, and can have the magic of another format at its offset.
    let polyglot = [bytes(2, b"xxTFL3"), content.clone()].concat();
    assert_eq!(&polyglot[4..8], b"TFL3");
    let found = open(&folder, "model.onnx", &polyglot).unwrap();
    assert_eq!((found.format(), found.names()), (Format::Onnx, vec!["w"]));
    // Under another name the magic is certain, and the model of that format is broken.
    for name in ["model.tflite", "model"] {
        let error = open(&folder, name, &polyglot).err().unwrap();
        assert!(matches!(error, AnamnesisError::Parse { .. }), "{name}: {error}");
    }
    // Fields in another order, and a model behind a long text.
    let other_order = [bytes(7, graph(&[], &[floats("w", &[1], &[3.0])])), number(1, 9)].concat();
    assert_eq!(open(&folder, "model.bin", &other_order).unwrap().format(), Format::Onnx);
    let long = [number(1, 9), bytes(2, vec![b'x'; 5000]), content].concat();
    assert_eq!(open(&folder, "model.onnx", &long).unwrap().format(), Format::Onnx);
}

#[test]
fn a_safetensors_file_is_one_whatever_its_header_contains() {
    let folder = Folder::new();
    // The magic of a tar file at its offset, by the name of a tensor.
    for pad in 200..260 {
        let content = Model::new().floats(&format!("{}ustar", "x".repeat(pad)), &[1], &[1.0]).bytes();
        assert_eq!(open(&folder, "model", &content).unwrap().format(), Format::Safetensors, "{pad}");
    }
    // A header length that reads like the first bytes of a model of ONNX, of MessagePack and of a pickle.
    for length in [0x0908u64, 0xa181, 0x0280] {
        let mut header = br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#.to_vec();
        header.resize(length as usize, b' ');
        let content = [&length.to_le_bytes()[..], &header, &[0; 4]].concat();
        assert_eq!(open(&folder, "model", &content).unwrap().format(), Format::Safetensors, "{length:#x}");
    }
}

#[test]
fn files_that_contain_themselves_are_read_once() {
    let folder = Folder::new();
    let [torch, numpy, _] = entries().map(|entries| archive(&entries));
    // An archive with itself as an entry, and one behind another: the directory at the end counts.
    let nested = archive(&[Entry::stored("a.npy", &array()), Entry::stored("inner.npz", &numpy)]);
    assert_eq!(open(&folder, "nested.npz", &nested).map(|found| found.tensor_count()).unwrap_or(1), 1);
    for (name, content) in [("twice.pth", &torch), ("twice.npz", &numpy)] {
        let twice = [&content[..], content].concat();
        assert!(open(&folder, name, &twice).is_err(), "{name}");
    }
    // Formats whose end is the end of the file do not go on.
    for (name, fixture_name) in [
        ("a.msgpack", "flax/tree.msgpack"),
        ("a.safetensors", "onnx/types_raw.expected.safetensors"),
        ("ggml.bin", "whisper/ggml-tiny.bin"),
    ] {
        let whole = std::fs::read(fixture(fixture_name)).unwrap();
        assert!(open(&folder, name, &[&whole[..], &whole].concat()).is_err(), "{name}");
        assert!(open(&folder, name, &[&whole[..], &whole[..whole.len() / 2]].concat()).is_err(), "{name}");
    }
}

#[test]
fn a_model_of_onnx_twice_is_one_merged_model_or_refused() {
    // Protobuf merges repeated messages: the graph of both parts has the tensor twice.
    let content = model(&graph(&[], &[floats("w", &[2], &[1.0, 2.0])]));
    let error = Checkpoint::from_bytes([&content[..], &content].concat(), &ParseLimits::default()).err().unwrap();
    assert_mentions(&error.to_string(), &["\"w\""]);
    let other = model(&graph(&[], &[floats("v", &[1], &[3.0])]));
    let merged = Checkpoint::from_bytes([content, other].concat(), &ParseLimits::default()).unwrap();
    assert_eq!(merged.names(), ["v", "w"]);
}

#[test]
fn no_container_without_pickles_is_scanned_as_one() {
    let kinds = [
        ("onnx/types_raw.onnx", "ONNX model"),
        ("whisper/ggml-tiny.bin", "model of whisper.cpp"),
        ("tflite/types.tflite", "TensorFlow Lite model"),
        ("tensorflow/types/types.index", "index of a TensorFlow checkpoint"),
        ("tensorflow/types/types.data-00000-of-00001", "index of a TensorFlow checkpoint"),
        ("flax/tree.msgpack", "file of Flax parameters"),
        ("hdf5/types.h5", "HDF5 file"),
        ("hdf5/archive.keras", "Keras archive"),
        ("onnx/types_raw.expected.safetensors", "safetensors file"),
    ];
    let folder = Folder::new();
    for (name, kind) in kinds {
        let files = scan_all(fixture(name)).unwrap();
        let [file] = &files[..] else { panic!("{name}: {} files", files.len()) };
        assert_eq!((file.report.kind.as_str(), file.report.verdict()), (kind, ScanVerdict::HoldsNoCode), "{name}");
        assert_eq!(file.report.notes, Vec::<String>::new(), "{name}");
        if name.contains(".data-") {
            continue;
        }
        // By content, without its name and its other files.
        let bytes = std::fs::read(fixture(name)).unwrap();
        assert_eq!(scan(folder.write("file", &bytes)).unwrap().kind, kind, "{name}");
        assert_eq!(scan_bytes(&bytes).unwrap().verdict(), ScanVerdict::HoldsNoCode, "{name}");
    }
    // Behind a user block, only the name indicates HDF5: addresses count from its end.
    let mut behind = std::fs::read(fixture("hdf5/types.h5")).unwrap();
    let end = u64::from_le_bytes(behind[40..48].try_into().unwrap());
    behind[24..32].copy_from_slice(&512u64.to_le_bytes());
    behind[40..48].copy_from_slice(&(end + 512).to_le_bytes());
    behind.splice(0..0, [0; 512]);
    let report = scan(folder.write("model.h5", &behind)).unwrap();
    assert_eq!((report.kind.as_str(), report.verdict()), ("HDF5 file", ScanVerdict::HoldsNoCode));
    assert_eq!(scan(folder.write("model", &behind)).unwrap().verdict(), ScanVerdict::Malformed);
}

#[test]
fn a_pickle_that_looks_like_another_format_is_found() {
    let folder = Folder::new();
    // The text of 0xa1 bytes is the key of a map in MessagePack; the global follows.
    let mut flax = vec![0x8c, 0xa1];
    flax.extend([b'a'; 0xa1]);
    flax.extend(b"0cos\nsystem\n(S'ls'\ntR.");
    assert_eq!(detect_format_from_bytes(&flax).unwrap(), Format::Flax);
    // TensorFlow Lite has its magic at byte 4, inside of a text.
    let mut lite = b"U\x10xxTFL3xxxxxxxxxx0".to_vec();
    lite.extend(b"cos\nsystem\n(S'ls'\ntR.");
    assert_eq!(detect_format_from_bytes(&lite).unwrap(), Format::TfLite);
    for (name, content) in [("model.msgpack", flax), ("model.tflite", lite)] {
        assert_eq!(scan_bytes(&content).unwrap().verdict(), ScanVerdict::RefersToCode, "{name}");
        let report = scan(folder.write(name, &content)).unwrap();
        assert_eq!(report.verdict(), ScanVerdict::RefersToCode, "{name}");
    }
}

#[test]
fn the_pickles_of_distributed_checkpoints_are_scanned() {
    let files = scan_all(fixture("dcp/types")).unwrap();
    let names: Vec<_> = files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy()).collect();
    assert_eq!(names, [".metadata", "__0_0.distcp"]);
    assert!(files.iter().all(|file| file.report.verdict() == ScanVerdict::Safe));
}
