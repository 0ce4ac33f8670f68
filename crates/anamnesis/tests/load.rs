//! Thousands of good and damaged files through one process: memory, file handles and threads stay as they were.
//!
//! One test in a binary of its own, because the allocator counts the whole process. 400 files by default, as many as
//! `AMN_LOAD` says otherwise; `AMN_SEED` selects them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicIsize, Ordering};

use anamnesis::{Checkpoint, InspectOptions, ParseLimits, TargetDtype, scan};
use support::{Folder, Noise, fixture};

const FILES: usize = 400;
/// The share of the files after which everything that is created once has been created.
const WARM: usize = 10;
/// Fixtures above this size are left out.
const MOST_FILE_BYTES: u64 = 256 << 10;
/// Growth of counted allocations: tables that are created when their format is first seen.
const MOST_HELD: isize = 1 << 20;
/// Growth of the resident memory, in which free memory of the allocator is counted.
const MOST_RESIDENT: u64 = 16 << 20;

static HELD: AtomicIsize = AtomicIsize::new(0);

struct Counting;

// SAFETY: memory comes from the system's allocator and goes back to it with the same layout.
#[allow(unsafe_code, reason = "an allocator cannot be written without it")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the layout is the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The fixtures of every format, by extension.
fn fixtures() -> BTreeMap<String, Vec<PathBuf>> {
    const EXTENSIONS: [&str; 16] = [
        "safetensors",
        "gguf",
        "npz",
        "npy",
        "pt",
        "pth",
        "bin",
        "onnx",
        "h5",
        "keras",
        "tflite",
        "msgpack",
        "nemo",
        "distcp",
        "index",
        "model",
    ];
    let (mut folders, mut found) = (vec![fixture("")], BTreeMap::<String, Vec<PathBuf>>::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if EXTENSIONS.contains(&extension.as_str()) && path.metadata().unwrap().len() <= MOST_FILE_BYTES {
                found.entry(extension).or_default().push(path);
            }
        }
    }
    found.values_mut().for_each(|paths| paths.sort());
    found
}

/// A file as it is, or with some damage.
fn damaged(mut bytes: Vec<u8>, noise: &mut Noise) -> Vec<u8> {
    let length = bytes.len().max(1);
    match noise.below(6) {
        0 | 1 => {}
        2 => bytes.truncate(noise.below(length)),
        3 => {
            for _ in 0..=noise.below(8) {
                // Most damage is where the headers are.
                let range = if noise.below(2) == 0 { length } else { length.min(512) };
                let at = noise.below(range);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << noise.below(8);
                }
            }
        }
        4 => {
            let (from, to) = (noise.below(length), noise.below(length));
            let moved: Vec<u8> = bytes.iter().skip(from).take(64).copied().collect();
            bytes.splice(to.min(bytes.len())..to.min(bytes.len()), moved);
        }
        _ => {
            let at = noise.below(length);
            let end = (at + 1 + noise.below(64)).min(bytes.len());
            bytes.get_mut(at..end).into_iter().flatten().for_each(|byte| *byte = 0xff);
        }
    }
    bytes
}

/// Everything that reads a file. Returns whether all of it was decoded.
fn read(path: &Path) -> bool {
    let _ = scan(path);
    let Ok(checkpoint) = Checkpoint::open_file(path, &ParseLimits::default()) else { return false };
    let _ = checkpoint.inspect(&InspectOptions::new());
    let mut is_complete = true;
    for tensor in checkpoint.decoded(TargetDtype::BF16) {
        is_complete &= tensor.is_ok();
    }
    is_complete
}

/// The numbers of open file handles, of threads, and of resident bytes of this process.
#[cfg(target_os = "linux")]
fn resources() -> (usize, usize, u64) {
    let handles = fs::read_dir("/proc/self/fd").unwrap().count();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let number = |key: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse().unwrap()
    };
    (handles, number("Threads:") as usize, number("VmRSS:") << 10)
}

#[cfg(not(target_os = "linux"))]
fn resources() -> (usize, usize, u64) {
    (0, 0, 0)
}

#[test]
fn thousands_of_files_leave_nothing_behind() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let (files, seed) = (number("AMN_LOAD").unwrap_or(FILES), number("AMN_SEED").unwrap_or(1) as u64);
    let (fixtures, folder, mut noise) = (fixtures(), Folder::new(), Noise(seed));
    let extensions: Vec<&String> = fixtures.keys().collect();
    let (mut start, mut decoded) = (None, 0);
    for index in 0..files {
        let extension = extensions[index % extensions.len()];
        let paths = &fixtures[extension];
        let path = &paths[noise.below(paths.len())];
        let file = folder.write(&format!("file.{extension}"), damaged(fs::read(path).unwrap(), &mut noise));
        decoded += usize::from(read(&file));
        fs::remove_file(file).unwrap();
        if index + 1 == files / WARM {
            start = Some((resources(), HELD.load(Ordering::Relaxed)));
        }
    }
    let ((handles, threads, resident), held) = start.unwrap();
    let (end, end_held) = (resources(), HELD.load(Ordering::Relaxed));
    let resident_growth = end.2.saturating_sub(resident);
    println!(
        "{files} files, {decoded} decoded; since file {}: handles {handles} to {}, threads {threads} to {}, \
         held {held} to {end_held} bytes, resident {} to {} KiB",
        files / WARM,
        end.0,
        end.1,
        resident >> 10,
        end.2 >> 10
    );
    assert!(decoded > files / 10, "AMN_SEED={seed}: only {decoded} of {files} were decoded");
    assert!(decoded < files * 9 / 10, "AMN_SEED={seed}: {decoded} of {files} were decoded");
    assert_eq!((end.0, end.1), (handles, threads), "AMN_SEED={seed}: handles and threads");
    assert!(end_held - held < MOST_HELD, "AMN_SEED={seed}: {held} bytes became {end_held}");
    assert!(resident_growth < MOST_RESIDENT, "AMN_SEED={seed}: {resident_growth} more bytes are resident");
}
