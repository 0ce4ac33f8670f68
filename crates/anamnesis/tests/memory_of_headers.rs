//! Tests of the memory of headers: small files that could expand to large structures stay small, and a listed tensor
//! takes a few hundred bytes.
//!
//! One test in a binary of its own, because the profiler counts the whole process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use anamnesis::{Checkpoint, ParseLimits, TargetDtype, parse_pth_bytes, scan_bytes};
use support::gguf;
use support::limit_tag;
use support::pickle::{Pickle, torch_archive};
use support::zip::{Entry, archive};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const MIB: usize = 1 << 20;

/// The most bytes that `work` held at once.
fn peak<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let profiler = dhat::Profiler::builder().testing().build();
    let result = work();
    let peak = dhat::HeapStats::get().max_bytes;
    drop(profiler);
    (peak, result)
}

/// A dict under a key of 30 KB that refers to one tensor as often as fits: 60 KB that could expand to 300 MB of names.
fn long_names() -> Vec<u8> {
    let mut object = Pickle::new().raw(b"}").text(&"k".repeat(30_000)).raw(b"}(");
    object = object.text("t").tensor("0", 1, 0, &[1], &[1]).raw(b"q\x00");
    for index in 0..4000u32 {
        object.0.extend([b'U', 4]);
        object.0.extend(format!("{index:04x}").as_bytes());
        object.0.extend(b"h\0");
    }
    torch_archive(&object.raw(b"us").stop(), &[&[0; 4]])
}

/// One long module name with thousands of globals, each used once.
fn long_globals() -> Vec<u8> {
    let module = format!("__torch__.{}", "m".repeat(30_000));
    let mut object = Pickle::new().text(&module).raw(b"q\x000}");
    for index in 0..4000u32 {
        object.0.extend(b"h\0U\x04");
        object.0.extend(format!("{index:04x}").as_bytes());
        object.0.extend(b"\x930");
    }
    let object = object.stop();
    let constants = Pickle::new().raw(b")").stop();
    archive(&[Entry::stored("a/data.pkl", &object), Entry::stored("a/constants.pkl", &constants)])
}

fn safetensors(tensors: usize) -> Vec<u8> {
    let entry = |index: usize| {
        let (start, end) = (index, index + 1);
        format!(r#""model.layers.{index:07}.weight":{{"dtype":"U8","shape":[1,1],"data_offsets":[{start},{end}]}}"#)
    };
    let header = format!("{{{}}}", (0..tensors).map(entry).collect::<Vec<_>>().join(","));
    support::raw(header, &vec![0; tensors])
}

fn gguf(tensors: usize) -> Vec<u8> {
    let file = gguf::Gguf::default();
    let named = |file: gguf::Gguf, index: usize| {
        file.tensor(&format!("model.layers.{index:07}.weight"), &[1, 1], 0, index as u64 * 32)
    };
    (0..tensors).fold(file, named).data(tensors * 32).bytes()
}

fn pth(tensors: usize) -> Vec<u8> {
    let mut object = Pickle::new().raw(b"}(");
    for index in 0..tensors {
        object = object.text(&format!("model.layers.{index:07}.weight")).tensor("0", 1, 0, &[1, 1], &[1, 1]);
    }
    torch_archive(&object.raw(b"u").stop(), &[&[0; 4]])
}

/// A map of arrays of one byte.
fn flax(tensors: usize) -> Vec<u8> {
    let mut file = vec![0xdf];
    file.extend((tensors as u32).to_be_bytes());
    for index in 0..tensors {
        let name = format!("model.layers.{index:07}.weight");
        file.push(0xa0 | name.len() as u8);
        file.extend(name.as_bytes());
        // An array: its shape, its type, its bytes.
        file.extend(b"\xc7\x0d\x01\x93\x92\x01\x01\xa5uint8\xc4\x01\x07");
    }
    file
}

#[test]
fn memory_for_headers_is_proportional_to_the_file() {
    let bytes = long_names();
    assert!(bytes.len() < 64 << 10);
    let (most, outcome) = peak(|| parse_pth_bytes(bytes));
    println!("long names: {most}");
    assert_eq!(limit_tag(outcome.unwrap_err()), "MAX_PICKLE_WORKING_SET");
    assert!(most <= 8 * MIB, "names of 60 KB held {most} bytes");

    let bytes = long_globals();
    assert!(bytes.len() < 80 << 10);
    let (most, report) = peak(|| scan_bytes(&bytes));
    println!("long globals, scanned: {most}");
    assert_eq!(report.unwrap().pickles[0].globals.len(), 4000);
    assert!(most <= 32 * MIB, "scanning held {most} bytes");
    let (most, parsed) = peak(|| parse_pth_bytes(bytes));
    println!("long globals, read: {most}");
    assert!(parsed.unwrap().is_empty());
    assert!(most <= 4 * MIB, "reading held {most} bytes");

    const TENSORS: usize = 20_000;
    for (format, bytes, allowed, planned) in [
        ("safetensors", safetensors(TENSORS), 500, 650),
        ("gguf", gguf(TENSORS), 500, 650),
        ("pth", pth(TENSORS), 500, 650),
        ("flax", flax(TENSORS), 500, 650),
    ] {
        // The caller owns the bytes of the file.
        let file = bytes.len();
        let (most, checkpoint) = peak(|| Checkpoint::from_bytes(bytes, &ParseLimits::default()));
        assert_eq!(checkpoint.as_ref().map(Checkpoint::tensor_count).unwrap(), TENSORS);
        let each = most / TENSORS;
        println!("{format}: {each} bytes for each tensor, {} in the file", file / TENSORS);
        assert!(each <= allowed, "{format}: {each} bytes for each tensor");
        let checkpoint = checkpoint.unwrap();
        let (most, plan) = peak(|| checkpoint.plan(TargetDtype::BF16));
        assert_eq!(plan.unwrap().tensors().count(), TENSORS);
        let each = most / TENSORS;
        println!("{format}: {each} bytes to plan each tensor");
        assert!(each <= planned, "{format}: {each} bytes to plan each tensor");
    }
    // Twenty bytes of a file are an array, so their number is limited.
    let error = Checkpoint::from_bytes(flax(300_000), &ParseLimits::default()).err().unwrap();
    assert_eq!(limit_tag(error), "FLAX_MAX_ARRAYS");
}
