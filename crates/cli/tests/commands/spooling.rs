//! Models on standard input and standard output.

use std::fs::{self, File};
use std::process::Stdio;

use crate::checkpoint::{self, NAME};
use crate::folder::{Folder, MODEL, Run};

/// Runs `amn` with a file as standard input; returns standard output and standard error.
fn piped(folder: &Folder, input: &str, line: &str) -> (Option<i32>, Vec<u8>, String) {
    let mut command = folder.command(line);
    let output = command.stdin(File::open(folder.path(input)).unwrap()).stdout(Stdio::piped()).output().unwrap();
    (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn an_output_on_standard_output_is_that_of_a_file() {
    let folder = Folder::with_model();
    for (line, output) in [
        (format!("remember {MODEL}"), "a.safetensors"),
        (format!("convert {MODEL} --to gguf"), "b.gguf"),
        // This format has checksums in front, so it is not written sequentially.
        (format!("convert {MODEL} --to npz"), "c.npz"),
    ] {
        folder.amn(&format!("{line} -o {output}")).ok();
        let (code, bytes, printed) = piped(&folder, MODEL, &format!("{line} -o -"));
        assert_eq!(code, Some(0), "{line}: {printed}");
        assert!(bytes == fs::read(folder.path(output)).unwrap(), "{line}");
        assert!(printed.contains("Size: "), "{line}: {printed}");
        let (_, bytes, printed) = piped(&folder, MODEL, &format!("{line} -o - --json"));
        assert!(bytes == fs::read(folder.path(output)).unwrap() && printed.starts_with("{\""), "{line}: {printed}");
    }
}

#[test]
fn a_model_is_read_from_standard_input() {
    let folder = checkpoint::folder();
    folder.amn(&format!("remember {NAME} -o plain.safetensors")).ok();
    for line in ["parse - --json", "inspect - --json"] {
        let (code, bytes, printed) = piped(&folder, "plain.safetensors", line);
        assert_eq!((code, printed.as_str()), (Some(0), ""), "{line}");
        assert!(String::from_utf8(bytes).unwrap().contains("\"tensor_count\":7"), "{line}");
    }
    let (code, bytes, printed) = piped(&folder, "plain.safetensors", "convert - --to gguf -o -");
    assert_eq!(code, Some(0), "{printed}");
    folder.amn("convert plain.safetensors --to gguf -o plain.gguf").ok();
    assert!(bytes == fs::read(folder.path("plain.gguf")).unwrap());
    let (code, _, printed) = piped(&folder, "plain.safetensors", "remember -");
    assert!(code == Some(2) && printed.contains("-o is needed"), "{printed}");
    for line in ["parse - --only-this-file".to_owned(), format!("parse {NAME} --only-this-file")] {
        assert_eq!(piped(&folder, "plain.safetensors", &line).0, Some(2), "{line}");
    }
    let (code, _, printed) = piped(&folder, "plain.safetensors", "convert - --to npz -o here.npz");
    assert!(code == Some(0) && folder.path("here.npz").is_file(), "{printed}");
}

/// A full disk (`/dev/full`).
#[cfg(target_os = "linux")]
#[test]
fn a_truncated_output_is_an_error() {
    let folder = Folder::with_model();
    let mut command = folder.command(&format!("remember {MODEL} -o -"));
    let run = Run::of(command.stdout(File::options().write(true).open("/dev/full").unwrap()).output().unwrap());
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("standard output is incomplete"), "{run:?}");
}

#[test]
fn standard_input_is_verified_and_scanned() {
    let folder = crate::samples::folder();
    for (input, line, wanted) in [
        (MODEL, "verify -", "1 file, 3 tensors, "),
        ("arrays.npz", "verify -", "\nsound\n"),
        ("checkpoint.pth", "scan -", "-: PyTorch archive, 1 pickle\n"),
        ("checkpoint.pth", "scan - --json", "\"path\":\"-\""),
        (MODEL, "scan -", "-: safetensors file, 0 pickles\nholds no code\n"),
    ] {
        let (code, bytes, printed) = piped(&folder, input, line);
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(wanted), "{line}: {text}{printed}");
        assert!(code == Some(0) || (input, line) == (MODEL, "verify -"), "{line}: {text}{printed}");
    }
    let mut damaged = fs::read(folder.path("arrays.npz")).unwrap();
    let data = damaged.windows(6).position(|word| word == b"\x93NUMPY").unwrap() + 128;
    damaged[data] ^= 1;
    fs::write(folder.path("damaged.npz"), damaged).unwrap();
    let (code, bytes, printed) = piped(&folder, "damaged.npz", "verify -");
    assert!(code == Some(1) && String::from_utf8(bytes).unwrap().contains("is damaged"), "{printed}");
    fs::write(folder.path("unsafe.pkl"), b"\x80\x02cos\nsystem\n.").unwrap();
    let (code, _, printed) = piped(&folder, "unsafe.pkl", "scan -");
    assert!(code == Some(1) && printed.contains("refers to code"), "{printed}");
}

#[test]
fn standard_input_that_is_not_a_model_is_refused() {
    let folder = Folder::with_model();
    let run = Run::of(folder.command("parse -").stdin(Stdio::null()).output().unwrap());
    assert!(run.failed().contains("empty"));
}
