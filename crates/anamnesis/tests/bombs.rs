//! Bombs: files that declare, nest, repeat or compress far more than they contain. Every one ends within 256 MiB beyond its own
//! bytes; `cargo test --workspace --test bombs -- --nocapture` prints the table of docs/trust.md.
//!
//! One test in a binary of its own, because the allocator counts the whole process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use anamnesis::{
    AnamnesisError, Checkpoint, InspectOptions, MemoryTensor, MemoryTensors, OpenOptions, ParseLimits, TargetDtype,
    scan_bytes,
};
use support::gguf::{Gguf, tag};
use support::pickle::{Pickle, torch_archive};
use support::time::processor_time;
use support::zip::{Entry, archive, body, bytes_array, end, end64, npy};
use support::{onnx, raw};

/// Counts the bytes that are held, and the most at any time.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: memory comes from the system's allocator and goes back to it with the same layout.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the layout is the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory beyond the file itself, whatever it declares: the working set of a pickle is the largest constant.
const MOST: usize = 256 << 20;

/// A file that is opened, listed, planned and scanned, or tensors with a configuration.
enum Bomb {
    File(Vec<u8>),
    Parts(MemoryTensors<Vec<u8>>, String),
}

/// Everything that is done with a file before its tensors are read: the outcome in a few words.
fn look_at(bomb: Bomb) -> String {
    let options = OpenOptions::new().with_limits(ParseLimits::default()).with_all(true);
    let opened = match bomb {
        Bomb::File(bytes) => {
            let _ = scan_bytes(&bytes).map(|report| report.verdict().to_string());
            Checkpoint::from_bytes_with(bytes, &options)
        }
        Bomb::Parts(tensors, config) => Checkpoint::from_positioned(tensors, &options.with_config(config)),
    };
    let planned = opened.and_then(|checkpoint| {
        let _ = checkpoint.inspect(&InspectOptions::new()).to_string();
        checkpoint.plan(TargetDtype::BF16).map(|plan| plan.tensors().count())
    });
    match planned {
        Ok(count) => format!("read, {count} tensors"),
        Err(AnamnesisError::LimitExceeded { limit, .. }) => format!("limit `{limit}`"),
        Err(AnamnesisError::Internal { .. }) => panic!("an internal error"),
        Err(_) => "refused".to_owned(),
    }
}

fn gguf() -> Vec<(&'static str, Vec<u8>)> {
    let new = Gguf::default;
    let array = |item: u32, length: u64| [new().u32(item), new().u64(length)].concat();
    let deep = |depth: usize| [array(tag::ARRAY, 1).repeat(depth), array(tag::U8, 1), vec![7]].concat();
    let mut long_key = new().number("a", 1);
    long_key.entries[0][..8].copy_from_slice(&u64::to_le_bytes(1 << 63));
    let empty_texts = [array(tag::STRING, 4_000_000), vec![0; 32_000_000]].concat();
    let keys = (0..60_000).fold(new(), |file, index| file.number(&format!("key.{index}"), 1));
    let tensors = (0..60_000).fold(new(), |file, index| file.tensor(&format!("t{index}"), &[0], 0, 0));
    let wrapping = (0..4).fold(new(), |file, index| file.tensor(&format!("t{index}"), &[1 << 31, 1 << 31], 0, 1 << 62));
    vec![
        ("GGUF: 2^63 tensors", Gguf { tensor_count: Some(1 << 63), ..new() }.bytes()),
        ("GGUF: 2^64 − 1 keys", Gguf { entry_count: Some(u64::MAX), ..new() }.bytes()),
        ("GGUF: a key of 2^63 bytes", long_key.bytes()),
        ("GGUF: an array of 2^62 items", new().entry("a", tag::ARRAY, &array(tag::U64, 1 << 62)).bytes()),
        ("GGUF: arrays 100,000 deep", new().entry("a", tag::ARRAY, &deep(100_000)).bytes()),
        ("GGUF: 4,000,000 empty texts", new().entry("a", tag::ARRAY, &empty_texts).bytes()),
        ("GGUF: 60,000 keys", keys.bytes()),
        ("GGUF: 60,000 tensors without bytes", tensors.bytes()),
        ("GGUF: sizes whose sum wraps", wrapping.data(64).bytes()),
        (
            "GGUF: 2^30 as alignment",
            new().number("general.alignment", 1 << 30).tensor("t", &[4], 0, 0).data(16).bytes(),
        ),
        ("GGUF: a shape whose product wraps", new().tensor("t", &[1 << 33, 1 << 33, 4], 0, 0).data(64).bytes()),
    ]
}

fn safetensors() -> Vec<(&'static str, Vec<u8>)> {
    let list = |names: &mut dyn Iterator<Item = String>| {
        let entry = |name: String| format!(r#""{name}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
        raw(format!("{{{}}}", names.map(entry).collect::<Vec<_>>().join(",")), &[])
    };
    let one = |entry: &str| raw(format!(r#"{{"t":{entry}}}"#), &[0; 8]);
    let length = |bytes: u64| [&bytes.to_le_bytes()[..], b"{}"].concat();
    vec![
        ("safetensors: a header of 2^63 bytes", length(1 << 63)),
        ("safetensors: a header of 100 MB, absent", length(100_000_000)),
        ("safetensors: JSON 1,000,000 deep", raw(format!(r#"{{"t":{}"#, "[".repeat(1_000_000)), &[])),
        ("safetensors: 40,000 empty tensors", list(&mut (0..40_000).map(|index| format!("t{index}")))),
        ("safetensors: names that are each other's starts", list(&mut (1..3000).map(|length| "a".repeat(length)))),
        ("safetensors: 40,000 parts of one module", list(&mut (0..40_000).map(|index| format!("m.weight.{index}")))),
        (
            "safetensors: 10,000 scales without weights",
            list(&mut (0..10_000).map(|index| format!("l.{index}.weight_scale"))),
        ),
        ("safetensors: a name of 10 MB", list(&mut std::iter::once("n".repeat(10 << 20)))),
        (
            "safetensors: 1,000,000 dimensions",
            one(&format!(r#"{{"dtype":"U8","shape":[{}1],"data_offsets":[0,1]}}"#, "1,".repeat(1_000_000))),
        ),
        (
            "safetensors: a shape whose product wraps",
            one(r#"{"dtype":"F32","shape":[4294967296,4294967297],"data_offsets":[0,8]}"#),
        ),
        ("safetensors: one tensor 50,000 times", list(&mut (0..50_000).map(|_| "t".to_owned()))),
    ]
}

fn archives() -> Vec<(&'static str, Vec<u8>)> {
    let zeros = bytes_array(&vec![0; 64 << 20]);
    let bomb = Entry::deflated("b.npy", &zeros);
    // The same bytes under many names, as in Fifield's bomb.
    let overlapping: Vec<_> = (0..2000)
        .map(|index| {
            let mut entry = Entry::stored(&format!("{index}.npy"), &[]);
            let kernel = Entry::deflated("k.npy", &bytes_array(&vec![0; 1 << 16]));
            (entry.local, entry.central) = (kernel.local, kernel.central);
            entry.central.name = format!("{index}.npy").into();
            entry.offset = Some(0);
            entry
        })
        .collect();
    let many: Vec<_> = (0..60_000).map(|index| Entry::stored(&format!("{index}.npy"), b"")).collect();
    let (bytes, directory, directory_bytes) = body(&[Entry::stored("a.npy", b"")]);
    let wide =
        [bytes, end64(u64::MAX, directory.into(), directory_bytes.into()), end(u16::MAX, u32::MAX, u32::MAX, b"")]
            .concat();
    let claims = Entry::deflated("b.npy", &zeros).both(|head| head.size = u32::MAX - 1);
    let header = |text: &str| archive(&[Entry::stored("a.npy", &npy(text, &[]))]);
    let shape = |shape: &str| header(&format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"));
    vec![
        ("ZIP: 64 MiB of zeros in 64 KiB", archive(&[bomb])),
        ("ZIP: 2,000 entries on the same bytes", archive(&overlapping)),
        ("ZIP: 60,000 empty entries", archive(&many)),
        ("ZIP: 2^64 − 1 entries", wide),
        ("ZIP: 4 GiB declared of 64 KiB", archive(&[claims])),
        ("NPY: a shape whose product wraps", shape("(4294967296, 4294967297)")),
        ("NPY: 2^62 elements", shape("(4611686018427387904,)")),
        ("NPY: 30,000 dimensions", shape(&format!("({})", "1,".repeat(30_000)))),
        ("NPY: a type nested 30,000 deep", header(&format!("{{'descr': {}", "[".repeat(30_000)))),
    ]
}

fn pickles() -> Vec<(&'static str, Vec<u8>)> {
    let new = Pickle::new;
    let file = |object: Pickle| torch_archive(&object.stop(), &[&[0; 16]]);
    let doubled = |bottom: Pickle, times: usize| {
        (0..times).fold(bottom, |object, _| object.raw(b"q\x01}(U\x01ah\x01U\x01bh\x01u"))
    };
    let tensor = |object: Pickle| object.text("w").tensor("0", 4, 0, &[1], &[1]);
    let mut views = new().raw(b"}(").text("t").tensor("0", 4, 1, &[2], &[1]).raw(b"q\x00");
    for index in 1..50_000u32 {
        views = views.raw(b"U\x05").raw(format!("{index:05x}").as_bytes()).raw(b"h\0");
    }
    let sparse = (0..10_000u32)
        .fold(new().raw(b"}"), |object, index| object.raw(b"r").raw(&(index * 400_000 + 200_000).to_le_bytes()));
    let ring = new().raw(b"]q\x01h\x01a").tensor("0", 4, 0, &[1], &[1]).raw(b"a");
    vec![
        ("pickle: 2^200 paths to nothing", file(doubled(new().raw(b"}"), 200))),
        ("pickle: 2^100 paths to a tensor", file(doubled(tensor(new().raw(b"}")).raw(b"s"), 100))),
        ("pickle: 1,000,000 tuples deep", file(new().raw(b"N").raw(&b"\x85".repeat(1_000_000)))),
        ("pickle: 1,000,000 lists deep", file(new().raw(&b"]".repeat(1_000_000)).raw(&b"a".repeat(999_999)))),
        ("pickle: a list that contains itself", file(ring)),
        ("pickle: an integer of 2^31 − 1 bytes", file(new().raw(b"\x8b\xff\xff\xff\x7f"))),
        ("pickle: memo places up to 2^32", file(sparse)),
        ("pickle: 50,000 views of one storage", file(views.raw(b"u"))),
        ("pickle: 4,000,000 empty lists", [&b"\x80\x02"[..], &b"]".repeat(4 << 20)].concat()),
        ("pickle: 4,000,000 memo entries of one text", [&b"\x80\x02U\x04abcd"[..], &b"\x94".repeat(4 << 20)].concat()),
        ("pickle: a frame of 2^63 bytes", [&b"\x80\x04\x95"[..], &(1u64 << 63).to_le_bytes(), b"N."].concat()),
    ]
}

fn others() -> Vec<(&'static str, Vec<u8>)> {
    let inside = |graph: &[u8]| {
        [onnx::bytes(4, "If"), onnx::bytes(5, [onnx::bytes(1, "g"), onnx::bytes(6, graph)].concat())].concat()
    };
    let nested =
        (0..5000).fold(onnx::graph(&[], &[onnx::floats("w", &[1], &[1.0])]), |graph, _| onnx::bytes(1, inside(&graph)));
    let sparse = |elements: u64| {
        let indices = onnx::tensor("", 7, &[1], &3i64.to_le_bytes());
        let values = onnx::floats("w", &[1], &[1.0]);
        let content = [onnx::bytes(1, values), onnx::bytes(2, indices), onnx::number(3, elements)].concat();
        onnx::model(&onnx::bytes(15, content))
    };
    let nodes = [onnx::number(1, 9), onnx::bytes(7, onnx::bytes(1, []).repeat((1 << 21) + 1))].concat();
    // A map of one key, in itself.
    let maps = [&b"\x81\xa1a".repeat(1_000_000)[..], b"\xc0"].concat();
    let tar = |size: &[u8; 12], count: usize| {
        let mut block = [0; 512];
        block[..5].copy_from_slice(b"a.bin");
        block[124..136].copy_from_slice(size);
        block[156] = b'0';
        block[257..265].copy_from_slice(b"ustar\x0000");
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        [block.repeat(count), vec![0; 1024]].concat()
    };
    vec![
        ("ONNX: graphs 5,000 deep", onnx::model(&nested)),
        ("ONNX: a sparse tensor of 2^40 elements", sparse(1 << 40)),
        ("ONNX: 2,000,000 nodes", nodes),
        ("Flax: maps 1,000,000 deep", maps),
        ("Flax: a map of 2^32 − 1 keys", b"\xdf\xff\xff\xff\xff\xa1a\xc0".to_vec()),
        ("tar: a file of 2^95 bytes", tar(b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 1)),
        ("tar: 20,000 empty files", tar(b"00000000000\0", 20_000)),
    ]
}

/// Tensors of U8 without a meaning and a configuration that gives them one.
fn parts() -> Vec<(&'static str, MemoryTensors<Vec<u8>>, String)> {
    let tensors = |names: &mut dyn Iterator<Item = String>| {
        let tensor =
            |name: String| MemoryTensor { name, dtype: anamnesis::Dtype::F32, shape: vec![1, 1], data: vec![0; 4] };
        MemoryTensors::new(names.map(tensor).collect(), &[].into()).unwrap()
    };
    let layers = |count: usize, long: usize| {
        let name = "a".repeat(long);
        tensors(&mut (0..count).map(|layer| format!("layers.{layer}.{name}.weight")))
    };
    let groups = |targets: &str| {
        format!(
            r#"{{"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{{"all":{{"targets":[{targets}],"weights":{{"num_bits":8,"type":"float","strategy":"tensor"}}}}}}}}"#
        )
    };
    let slow: Vec<_> = (0..100).map(|number| format!(r#""re:{}{number}b""#, ".*a".repeat(60))).collect();
    let deep = format!(r#"{{"quant_method":{}"#, "[".repeat(1_000_000));
    let wide = format!(r#"{{"quant_method":"gptq","a":[{}0]}}"#, "0,".repeat(2 << 20));
    let ignored = format!(r#"{{"quant_method":"fp8","ignore":[{}""]}}"#, r#""layers.1","#.repeat(100_000));
    vec![
        ("configuration: 100 expressions that backtrack", layers(2000, 200), groups(&slow.join(","))),
        (
            "configuration: an expression that expands to 10^6 states",
            layers(100, 200),
            groups(r#""re:((a{100}){100}){100}""#),
        ),
        ("configuration: 100,000 ignored modules", layers(2000, 10), ignored),
        ("configuration: JSON 1,000,000 deep", layers(1, 1), deep),
        ("configuration: 2,000,000 values", layers(1, 1), wide),
    ]
}

/// Files of another library, in which each number in turn that could be a size is replaced by a huge one.
fn swollen() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let swell = |path: &str, width: usize, sizes: &[u64]| {
        let whole = std::fs::read(support::fixture(path)).unwrap();
        let mut files = Vec::new();
        for start in (0..whole.len() - width).step_by(width) {
            let mut number = [0; 8];
            number[..width].copy_from_slice(&whole[start..start + width]);
            if !(1..=whole.len() as u64).contains(&u64::from_le_bytes(number)) {
                continue;
            }
            for size in sizes {
                let mut bytes = whole.clone();
                bytes[start..start + width].copy_from_slice(&size.to_le_bytes()[..width]);
                files.push(bytes);
            }
        }
        files
    };
    let wide = [1 << 31, 1 << 40, i64::MAX as u64];
    vec![
        ("HDF5: each number up to 2^63", swell("hdf5/types.h5", 8, &wide)),
        ("HDF5, in chunks: each number up to 2^63", swell("hdf5/chunks.h5", 8, &wide)),
        ("HDF5, in chunks: each short number up to 2^31", swell("hdf5/chunks.h5", 4, &[1 << 24, (1 << 31) - 1])),
        ("TFLite: each number up to 2^32", swell("tflite/quantised.tflite", 4, &[1 << 24, (1 << 31) - 1, u64::MAX])),
    ]
}

/// Everything that is done with a file, its values included.
fn decode_all(bytes: Vec<u8>) -> bool {
    let Ok(checkpoint) = Checkpoint::from_bytes(bytes, &ParseLimits::default()) else { return false };
    checkpoint.decoded(TargetDtype::F32).all(|tensor| tensor.is_ok())
}

#[test]
fn every_bomb_ends_within_a_bound() {
    let files = [gguf(), safetensors(), archives(), pickles(), others()].concat();
    let files = files.into_iter().map(|(name, bytes)| (name, bytes.len(), Bomb::File(bytes)));
    let parts = parts().into_iter().map(|(name, tensors, config)| {
        let bytes = config.len() + anamnesis::PositionedRead::size(&tensors).unwrap() as usize;
        (name, bytes, Bomb::Parts(tensors, config))
    });
    println!("| bomb | bytes | outcome | peak memory | time |\n|---|---|---|---|---|");
    for (name, bytes, bomb) in files.chain(parts) {
        let (outcome, peak, time) = measured(|| look_at(bomb));
        println!("| {name} | {bytes} | {outcome} | {:.1} MB | {time} ms |", peak as f64 / 1e6);
        assert!(peak <= MOST, "{name}: {peak} bytes for {bytes}");
    }
    for (name, files) in swollen() {
        let bytes = files.iter().map(Vec::len).max().unwrap_or(0);
        let (count, mut read, mut most, mut longest) = (files.len(), 0, 0, 0);
        assert!(count > 50, "{name}: {count} files");
        for file in files {
            let (is_read, peak, time) = measured(|| decode_all(file));
            read += usize::from(is_read);
            (most, longest) = (most.max(peak), longest.max(time));
        }
        let outcome = format!("{count} files: {read} read, others refused");
        println!("| {name} | {bytes} | {outcome} | {:.1} MB | {longest} ms |", most as f64 / 1e6);
        assert!(most <= MOST, "{name}: {most} bytes");
    }
}

/// The result of `work`, the most bytes that it held beyond those held before, and its time in milliseconds.
fn measured<T>(work: impl FnOnce() -> T) -> (T, usize, u128) {
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let start = processor_time();
    let result = work();
    let time = (processor_time() - start).as_millis();
    (result, PEAK.load(Ordering::Relaxed).saturating_sub(before), time)
}
