//! Directories with GGUF files: one model is opened, several are listed, and no part may be outside of the directory.

use crate::support::gguf::{Gguf, tag};
use anamnesis::{AnamnesisError, Checkpoint, ParseLimits};

fn whole(tensor: &str) -> Vec<u8> {
    Gguf::default().tensor(tensor, &[4], 0, 0).data(16).bytes()
}

fn part(index: u16, count: u16) -> Gguf {
    Gguf::default()
        .entry("split.no", tag::U16, &index.to_le_bytes())
        .entry("split.count", tag::U16, &count.to_le_bytes())
        .tensor(&format!("t{index}"), &[4], 0, 0)
        .data(16)
}

/// A safetensors file of one tensor.
fn safetensors() -> Vec<u8> {
    let header = br#"{"s":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
    [&(header.len() as u64).to_le_bytes()[..], header, &[1, 2]].concat()
}

fn opened(files: &[(&str, Vec<u8>)]) -> Result<Checkpoint, AnamnesisError> {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    Checkpoint::open(folder.path(), &ParseLimits::default())
}

#[track_caller]
fn refused(files: &[(&str, Vec<u8>)]) -> String {
    match opened(files) {
        Ok(_) => panic!("the directory was opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn one_model_is_opened_whether_it_is_split_or_not() {
    let checkpoint = opened(&[("model.Q4_0.GGUF", whole("a")), ("README.md", b"text".to_vec())]).unwrap();
    assert_eq!((checkpoint.file_count(), checkpoint.tensor_count()), (1, 1));
    let parts = [("m-00001-of-00002.gguf", part(0, 2).bytes()), ("m-00002-of-00002.gguf", part(1, 2).bytes())];
    let checkpoint = opened(&parts).unwrap();
    assert_eq!((checkpoint.file_count(), checkpoint.tensor_count()), (2, 2));
}

#[test]
fn several_models_are_listed() {
    let text = refused(&[("b.gguf", whole("b")), ("a.gguf", whole("a"))]);
    assert!(text.contains("several models (\"a.gguf\", \"b.gguf\"); name one"), "{text}");
    let parts = [("m-00001-of-00002.gguf", part(0, 2).bytes()), ("m-00002-of-00002.gguf", part(1, 2).bytes())];
    let text = refused(&[parts[0].clone(), parts[1].clone(), ("mmproj.gguf", whole("x"))]);
    assert!(text.contains("(\"m-00001-of-00002.gguf\", \"mmproj.gguf\")"), "{text}");
    let names: Vec<String> = (0..9).map(|number| format!("{number}.gguf")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), whole("x"))).collect();
    assert!(refused(&many).contains("\"4.gguf\" and 4 more"), "{}", refused(&many));
}

#[test]
fn a_missing_part_is_named() {
    let text = refused(&[("m-00002-of-00003.gguf", part(1, 3).bytes()), ("m-00003-of-00003.gguf", part(2, 3).bytes())]);
    assert!(text.contains("m-00001-of-00003.gguf"), "{text}");
}

#[test]
fn a_directory_without_models_is_an_error() {
    let text = refused(&[("README.md", b"text".to_vec())]);
    assert!(text.contains("contains no safetensors, GGUF or PyTorch weights"), "{text}");
}

#[test]
fn safetensors_take_precedence_and_other_files_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [("model.safetensors", safetensors()), ("a.gguf", whole("a")), ("b.gguf", whole("b"))] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let checkpoint = Checkpoint::open(folder.path(), &ParseLimits::default()).unwrap();
    assert_eq!(checkpoint.tensors()[0].name, "s");
    let oddities = checkpoint.oddities();
    assert!(matches!(&oddities[..], [only] if only.starts_with("2 GGUF files")), "{oddities:?}");
}

#[test]
fn split_metadata_must_be_consistent() {
    let with = |entries: &[(&str, u32, &[u8])]| {
        let file = entries.iter().fold(Gguf::default(), |file, (key, tag, value)| file.entry(key, *tag, value));
        file.tensor("x", &[4], 0, 0).data(16).bytes()
    };
    let (two, zero) = (2u16.to_le_bytes(), 0u16.to_le_bytes());
    for (entries, words) in [
        (vec![("split.count", tag::U16, &two[..])], "split.no is missing"),
        (vec![("split.count", tag::STRING, &[0; 8][..])], "\"split.count\" is not a count"),
        (
            vec![("split.count", tag::U16, &two[..]), ("split.no", tag::I32, &[0xff; 4][..])],
            "\"split.no\" is not a count",
        ),
        (vec![("split.count", tag::U16, &two[..]), ("split.no", tag::U16, &two[..])], "split.no is 2"),
        (vec![("split.count", tag::U16, &two[..]), ("split.no", tag::U16, &zero[..])], "part 1 of 2"),
    ] {
        let text = refused(&[("m.gguf", with(&entries))]);
        assert!(text.contains(words), "{text}");
    }
    // A model that was split into one part is whole.
    let one = with(&[("split.count", tag::U16, &1u16.to_le_bytes()), ("split.no", tag::U16, &zero)]);
    assert!(opened(&[("m.gguf", one)]).is_ok());
}

#[cfg(unix)]
#[test]
fn a_part_outside_the_directory_is_refused() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (first, second) = (folder.path().join("m-00001-of-00002.gguf"), folder.path().join("m-00002-of-00002.gguf"));
    std::fs::write(&first, part(0, 2).bytes()).unwrap();
    std::fs::write(elsewhere.path().join("x.gguf"), part(1, 2).bytes()).unwrap();
    let open = || Checkpoint::open(&first, &ParseLimits::default()).map(|_| ()).unwrap_err().to_string();
    std::os::unix::fs::symlink(elsewhere.path().join("x.gguf"), &second).unwrap();
    assert!(open().contains("leaves its directory"), "{}", open());
    // A circular link, and a link to the first part.
    std::fs::remove_file(&second).unwrap();
    std::os::unix::fs::symlink(&second, &second).unwrap();
    assert!(open().contains("m-00002-of-00002.gguf"), "{}", open());
    std::fs::remove_file(&second).unwrap();
    std::os::unix::fs::symlink(&first, &second).unwrap();
    assert!(open().contains("split.no"), "{}", open());
}
