//! Hostile distributed checkpoints: metadata that contradicts itself or its files.

use crate::support::pickle::{Pickle, torch_archive};
use crate::support::{Contents, Folder, assert_mentions, fixture, le_bytes};
use anamnesis::{AnamnesisError, Checkpoint, OpenOptions, ParseLimits, ScanVerdict, TargetDtype, scan};

const RECORDS: &str = "torch.distributed.checkpoint.metadata";
const FILES: &str = "torch.distributed.checkpoint.filesystem";
const FILE: &str = "__0_0.distcp";

/// An object with fields.
fn object(pickle: Pickle, module: &str, class: &str, fields: impl FnOnce(Pickle) -> Pickle) -> Pickle {
    fields(pickle.global(module, class).raw(b")\x81}(")).raw(b"ub")
}

fn size(pickle: Pickle, sizes: &[i64]) -> Pickle {
    pickle.global("torch", "Size").mark().numbers(sizes).tuple().raw(b"R")
}

/// A chunk: offsets, sizes, and the range of the file.
#[derive(Clone)]
struct Chunk {
    offsets: Vec<i64>,
    sizes: Vec<i64>,
    file: String,
    start: i64,
    length: i64,
}

/// The metadata of a float tensor `w` of some shape.
fn metadata(shape: &[i64], chunks: &[Chunk], more: impl Fn(Pickle) -> Pickle) -> Vec<u8> {
    let properties = |pickle: Pickle| {
        pickle.global(RECORDS, "TensorProperties").raw(b")\x81(").global("torch", "float32").raw(b"tb")
    };
    let listed = |pickle: Pickle| {
        chunks
            .iter()
            .fold(pickle.raw(b"]("), |pickle, chunk| {
                object(pickle, RECORDS, "ChunkStorageMetadata", |fields| {
                    size(size(fields.text("offsets"), &chunk.offsets).text("sizes"), &chunk.sizes)
                })
            })
            .raw(b"e")
    };
    let stored = |pickle: Pickle| {
        chunks
            .iter()
            .fold(pickle.raw(b"}("), |pickle, chunk| {
                let index = object(pickle, RECORDS, "MetadataIndex", |fields| {
                    size(fields.text("fqn").text("w").text("offset"), &chunk.offsets)
                });
                object(index, FILES, "_StorageInfo", |fields| {
                    let place = fields.text("relative_path").text(&chunk.file);
                    more(place.text("offset").int(chunk.start).text("length").int(chunk.length))
                })
            })
            .raw(b"u")
    };
    object(Pickle::new(), RECORDS, "Metadata", |fields| {
        let tensors = object(
            fields.text("state_dict_metadata").raw(b"}(").text("w"),
            RECORDS,
            "TensorStorageMetadata",
            |fields| {
                let described = size(properties(fields.text("properties")).text("size"), shape);
                listed(described.text("chunks"))
            },
        );
        stored(tensors.raw(b"u").text("storage_data"))
    })
    .stop()
}

/// The archive of two floats.
fn pair(values: [f32; 2]) -> Vec<u8> {
    torch_archive(&Pickle::new().tensor("0", 2, 0, &[2], &[1]).stop(), &[&le_bytes(&values)])
}

/// A checkpoint of two chunks of two values.
fn checkpoint() -> (Folder, Vec<Chunk>) {
    let folder = Folder::new();
    let (first, second) = (pair([1.0, 2.0]), pair([3.0, 4.0]));
    let chunk = |offset: i64, start: usize, length: usize| Chunk {
        offsets: vec![offset],
        sizes: vec![2],
        file: FILE.to_owned(),
        start: start as i64,
        length: length as i64,
    };
    let chunks = vec![chunk(0, 0, first.len()), chunk(2, first.len(), second.len())];
    folder.write(FILE, [first, second].concat());
    (folder, chunks)
}

fn open(folder: &Folder, metadata: &[u8]) -> anamnesis::Result<Checkpoint> {
    folder.write(".metadata", metadata);
    Checkpoint::open(folder.path("."), &ParseLimits::default())
}

fn refused(folder: &Folder, metadata: &[u8]) -> String {
    open(folder, metadata).err().unwrap_or_else(|| panic!("opened")).to_string()
}

fn plain(pickle: Pickle) -> Pickle {
    pickle
}

#[test]
fn metadata_written_by_hand_is_read() {
    let (folder, chunks) = checkpoint();
    let found = open(&folder, &metadata(&[4], &chunks, plain)).unwrap();
    let found = Contents::of(&found.plan(TargetDtype::F32).unwrap().to_bytes(&Default::default()).unwrap());
    assert_eq!(found.floats("w"), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn overlaps_and_holes_are_refused() {
    let (folder, chunks) = checkpoint();
    let moved = |place: usize, offset: i64| {
        let mut chunks = chunks.clone();
        chunks[place].offsets = vec![offset];
        chunks
    };
    for (shape, chunks, word) in [
        (4, moved(1, 1), "overlaps"),
        (5, chunks.clone(), "lack 1"),
        (1 << 40, chunks.clone(), "lack"),
        (3, chunks.clone(), "not inside"),
        (4, moved(1, 3), "not inside"),
        (4, vec![chunks[0].clone()], "lack 2"),
        (4, Vec::new(), "lack 4"),
        (i64::MAX, chunks.clone(), "too large"),
    ] {
        assert_mentions(&refused(&folder, &metadata(&[shape], &chunks, plain)), &["\"w\"", word]);
    }
    assert_mentions(&refused(&folder, &metadata(&[4], &moved(1, -1), plain)), &["\"w\"", "a shape of the metadata"]);
}

#[test]
fn chunks_must_be_what_the_metadata_describes() {
    let (folder, chunks) = checkpoint();
    let changed = |change: &dyn Fn(&mut Chunk)| {
        let mut chunks = chunks.clone();
        change(&mut chunks[1]);
        refused(&folder, &metadata(&[4], &chunks, plain))
    };
    assert_mentions(&changed(&|chunk| chunk.length += 1), &["\"w\"", FILE]);
    assert_mentions(&changed(&|chunk| chunk.length = i64::MAX), &["\"w\"", FILE]);
    assert_mentions(&changed(&|chunk| chunk.start = -1), &["offset"]);
    assert_mentions(&changed(&|chunk| chunk.start += 4), &["\"w\""]);
    for name in ["../other", "/etc/passwd", "", "a/../../b"] {
        assert_mentions(&changed(&|chunk| chunk.file = name.to_owned()), &["the metadata names the file"]);
    }
    // Sizes that the archive does not have.
    let mut chunks = chunks;
    chunks[1].sizes = vec![2, 1];
    assert!(open(&folder, &metadata(&[4], &chunks, plain)).is_err());
}

/// Metadata whose dicts have these entries.
fn metadata_of(tensors: impl FnOnce(Pickle) -> Pickle, stored: impl FnOnce(Pickle) -> Pickle) -> Vec<u8> {
    object(Pickle::new(), RECORDS, "Metadata", |fields| {
        let fields = tensors(fields.text("state_dict_metadata").raw(b"}(")).raw(b"u");
        stored(fields.text("storage_data").raw(b"}(")).raw(b"u")
    })
    .stop()
}

fn info(pickle: Pickle, start: i64, length: i64) -> Pickle {
    object(pickle, FILES, "_StorageInfo", |fields| {
        fields.text("relative_path").text(FILE).text("offset").int(start).text("length").int(length)
    })
}

fn index(pickle: Pickle, name: impl FnOnce(Pickle) -> Pickle, offset: i64) -> Pickle {
    object(pickle, RECORDS, "MetadataIndex", |fields| size(name(fields.text("fqn")).text("offset"), &[offset]))
}

fn tensor(pickle: Pickle, shape: impl FnOnce(Pickle) -> Pickle, chunks: impl FnOnce(Pickle) -> Pickle) -> Pickle {
    object(pickle, RECORDS, "TensorStorageMetadata", |fields| {
        let properties = fields.text("properties").global(RECORDS, "TensorProperties").raw(b")\x81(");
        let fields = properties.global("torch", "float32").raw(b"tb").text("size");
        chunks(shape(fields).text("chunks").raw(b"](")).raw(b"e")
    })
}

fn chunk(pickle: Pickle, offset: i64, elements: i64) -> Pickle {
    object(pickle, RECORDS, "ChunkStorageMetadata", |fields| {
        size(size(fields.text("offsets"), &[offset]).text("sizes"), &[elements])
    })
}

/// Opens metadata that repeats itself, and returns its error; it must not take long.
fn bomb(metadata: &[u8]) -> String {
    let (folder, _) = checkpoint();
    let start = std::time::Instant::now();
    let error = refused(&folder, metadata);
    assert!(start.elapsed().as_secs() < 20, "{:?}: {error}", start.elapsed());
    error
}

/// Lengths in which a bomb that is quadratic would take minutes.
const MANY: i64 = 20_000;

#[test]
fn chunks_that_are_listed_again_and_again_are_compared_in_linear_time() {
    let listed = |pickle: Pickle| {
        let pickle = (0..MANY).fold(pickle, |pickle, place| chunk(pickle, place * 2, 2));
        // The last one is kept in the memo and listed once more for each.
        let pickle = chunk(pickle, MANY * 2, 2).raw(b"q\0");
        (0..MANY * 5).fold(pickle, |pickle, _| pickle.raw(b"h\0"))
    };
    let stored = |pickle: Pickle| {
        (0..=MANY).fold(pickle, |pickle, place| info(index(pickle, |name| name.text("w"), place * 2), 0, 1 << 40))
    };
    let shape = |pickle: Pickle| size(pickle, &[MANY * 2 + 2]);
    assert_mentions(&bomb(&metadata_of(|pickle| tensor(pickle.text("w"), shape, listed), stored)), &["\"w\"", FILE]);
}

#[test]
fn chunks_that_share_their_bytes_are_not_read_again_and_again() {
    let length = pair([1.0, 2.0]).len() as i64;
    let listed = |pickle: Pickle| (0..MANY).fold(pickle, |pickle, place| chunk(pickle, place * 2, 2));
    let stored = |pickle: Pickle| {
        (0..MANY).fold(pickle, |pickle, place| info(index(pickle, |name| name.text("w"), place * 2), 0, length))
    };
    let shape = |pickle: Pickle| size(pickle, &[MANY * 2]);
    let error = bomb(&metadata_of(|pickle| tensor(pickle.text("w"), shape, listed), stored));
    assert_mentions(&error, &["archives take", "64 times"]);
}

#[test]
fn long_texts_records_and_shapes_that_entries_share_are_bounded() {
    let plain_chunk = |pickle: Pickle| chunk(pickle, 0, 2);
    let shape = |pickle: Pickle| size(pickle, &[2]);
    // A name of a megabyte for many tensors.
    let long_names = |pickle: Pickle| {
        let pickle = tensor(pickle.text(&"n".repeat(1 << 20)).raw(b"q\0"), shape, |chunks| chunks).raw(b"q\x01");
        (0..2000).fold(pickle, |pickle, _| pickle.raw(b"h\0h\x01"))
    };
    assert_mentions(&bomb(&metadata_of(long_names, |pickle| pickle)), &["entries of the metadata take"]);
    // A record of many fields, which many entries use.
    let wide = |pickle: Pickle| {
        let pickle = object(pickle, RECORDS, "MetadataIndex", |fields| {
            (0..MANY).fold(fields, |fields, number| fields.int(number).raw(b"N"))
        });
        let pickle = info(pickle.raw(b"q\0"), 0, 1).raw(b"q\x01");
        (0..MANY).fold(pickle, |pickle, _| pickle.raw(b"h\0h\x01"))
    };
    assert_mentions(&bomb(&metadata_of(|pickle| pickle, wide)), &["MetadataIndex"]);
    // A shape of many dimensions, which many tensors have.
    let dimensions = |pickle: Pickle| {
        let pickle = size(pickle.text("s"), &vec![1; MANY as usize]).raw(b"q\0").text("w");
        let pickle = tensor(pickle, |pickle| pickle.raw(b"h\0"), plain_chunk);
        (0..MANY).fold(pickle, |pickle, _| pickle.raw(b"Xw\0\0\0\0").raw(b"N"))
    };
    assert!(!bomb(&metadata_of(dimensions, |pickle| pickle)).is_empty());
}

#[test]
fn deep_and_cut_metadata_is_refused() {
    for (open, close) in [(&b"("[..], &b"t"[..]), (b"]", b"a"), (b"}N", b"s")] {
        let deep =
            [&b"\x80\x02ctorch.distributed.checkpoint.metadata\nMetadata\n0"[..], &open.repeat(100_000)].concat();
        let deep = [deep, b"N".to_vec(), close.repeat(100_000), b".".to_vec()].concat();
        assert!(!bomb(&deep).is_empty());
    }
    let whole = metadata(&[4], &checkpoint().1, plain);
    for end in 60..whole.len() {
        assert!(!bomb(&whole[..end]).is_empty(), "{end}");
    }
}

#[test]
fn transformed_entries_are_refused_by_name() {
    let (folder, chunks) = checkpoint();
    let more = |pickle: Pickle| pickle.text("transform_descriptors").raw(b"](").text("zstd").raw(b"e");
    assert_mentions(&refused(&folder, &metadata(&[4], &chunks, more)), &["transform_descriptors"]);
    let none = |pickle: Pickle| pickle.text("transform_descriptors").raw(b"N");
    assert!(open(&folder, &metadata(&[4], &chunks, none)).is_ok());
}

#[test]
fn unknown_names_in_the_metadata_are_refused_and_scanned() {
    let (folder, chunks) = checkpoint();
    let harmful = |pickle: Pickle| pickle.text("x").global("os", "system").text("true").raw(b"\x85R");
    let content = metadata(&[4], &chunks, harmful);
    assert_mentions(&refused(&folder, &content), &["os.system"]);
    assert_eq!(scan(folder.path(".metadata")).unwrap().verdict(), ScanVerdict::RefersToCode);
    // The pickles of chunks are scanned one by one.
    let code = Pickle::new().global("os", "system").text("true").raw(b"\x85R").stop();
    let content = [pair([1.0, 2.0]), torch_archive(&code, &[]), pair([1.0, 2.0])].concat();
    let report = scan(folder.write("other.distcp", content)).unwrap();
    assert_eq!((report.verdict(), report.pickles.len()), (ScanVerdict::RefersToCode, 3));
}

#[test]
fn other_objects_with_unknown_names_prevent_a_conversion_unless_they_are_left_out() {
    let path = fixture("dcp/nested");
    let options = OpenOptions::new().with_skip_unsupported(true);
    assert!(Checkpoint::open_with(&path, &options).unwrap().plan(TargetDtype::F32).is_ok());
}

#[test]
fn metadata_of_other_shapes_is_a_typed_error() {
    let folder = Folder::new();
    let whole = std::fs::read(fixture("dcp/four_grid/.metadata")).unwrap();
    for entry in std::fs::read_dir(fixture("dcp/four_grid")).unwrap() {
        let entry = entry.unwrap();
        folder.write(entry.file_name().to_str().unwrap(), std::fs::read(entry.path()).unwrap());
    }
    for end in (80..whole.len()).step_by(7) {
        let error = open(&folder, &whole[..end]).err().unwrap();
        assert!(!matches!(error, AnamnesisError::Internal { .. }), "{end}: {error}");
    }
    let trailing = [&whole[..], b"x"].concat();
    assert_mentions(&refused(&folder, &trailing), &["follow the end"]);
    let mut noise = crate::support::Noise(7);
    for _ in 0..300 {
        let mut changed = whole.clone();
        let at = 80 + noise.below(changed.len() - 80);
        changed[at] = noise.next() as u8;
        let outcome = open(&folder, &changed)
            .and_then(|checkpoint| checkpoint.plan(TargetDtype::F32)?.to_bytes(&Default::default()));
        assert!(!matches!(outcome, Err(AnamnesisError::Internal { .. })), "{at}");
    }
}
