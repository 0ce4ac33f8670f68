//! Many `amn` at once over good and damaged files, and commands that take many files. Every run ends by itself with exit
//! code 0 or 1, and damaged files are refused with one line.
//!
//! 120 files by default, as many as `AMN_LOAD` says otherwise.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::folder::{Folder, Run};

const FILES: usize = 120;
/// Processes at a time.
const PROCESSES: usize = 16;
/// Fixtures above this size are left out.
const MOST_FILE_BYTES: u64 = 128 << 10;
const EXTENSIONS: [&str; 10] = ["gguf", "npz", "npy", "pt", "pth", "onnx", "h5", "keras", "tflite", "safetensors"];
const COMMANDS: [&str; 6] = ["inspect", "scan", "verify", "hash", "stats", "inspect --json"];

/// The fixtures of a few formats, equally many of each as far as there are.
fn fixtures() -> Vec<Vec<PathBuf>> {
    let mut found = vec![Vec::new(); EXTENSIONS.len()];
    let mut folders = vec![crate::samples::fixtures()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(index) = EXTENSIONS.iter().position(|known| *known == extension)
                && path.metadata().unwrap().len() <= MOST_FILE_BYTES
            {
                found[index].push(path);
            }
        }
    }
    found.iter_mut().for_each(|paths| paths.sort());
    found
}

/// A good file, a truncated one, or one with a changed byte, by turns.
fn content(fixtures: &[Vec<PathBuf>], index: usize) -> (String, Vec<u8>) {
    let paths = &fixtures[index % fixtures.len()];
    let path = &paths[index / fixtures.len() % paths.len()];
    let mut bytes = fs::read(path).unwrap();
    // A multiplicative hash: the same damage in every run.
    let place = index.wrapping_mul(0x9e37_79b9) % bytes.len().max(1);
    match index % 3 {
        0 => {}
        1 => bytes.truncate(place),
        _ => bytes[place] ^= 0x55,
    }
    (format!("{index}.{}", path.extension().unwrap().to_string_lossy()), bytes)
}

#[test]
fn many_processes_at_once_read_good_and_damaged_files() {
    let files = std::env::var("AMN_LOAD").ok().and_then(|text| text.parse().ok()).unwrap_or(FILES);
    let (fixtures, folder, next) = (fixtures(), Folder::empty(), AtomicUsize::new(0));
    let (succeeded, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PROCESSES {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= files {
                        return;
                    }
                    let (name, bytes) = content(&fixtures, index);
                    fs::write(folder.path(&name), bytes).unwrap();
                    let line = format!("{} {name}", COMMANDS[index / 3 % COMMANDS.len()]);
                    let run = Run::of(folder.command(&line).env("TMPDIR", folder.root()).output().unwrap());
                    match run.code {
                        Some(0) => _ = succeeded.fetch_add(1, Ordering::Relaxed),
                        Some(1) if run.stderr.lines().count() == 1 => {}
                        _ => faults.lock().unwrap().push(format!("{line}: {run:?}")),
                    }
                    fs::remove_file(folder.path(&name)).unwrap();
                }
            });
        }
    });
    let succeeded = succeeded.into_inner();
    println!("{files} runs of amn, {succeeded} of them with exit code 0");
    assert_eq!(faults.into_inner().unwrap(), Vec::<String>::new());
    assert!(succeeded > files / 4 && succeeded < files, "{succeeded} of {files}");
    assert_eq!(folder.names(), Vec::<String>::new(), "nothing is left behind");
}
