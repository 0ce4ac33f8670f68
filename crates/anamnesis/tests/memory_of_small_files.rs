//! Tests that a file of 64 KB needs a few megabytes at most, even if its references, nesting, declared sizes or
//! compression could expand to hundreds.
//!
//! One test in a binary of its own, because the profiler counts the whole process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use anamnesis::{Checkpoint, InspectOptions, OpenOptions, ParseLimits, TargetDtype, scan_bytes};
use support::gguf::{Gguf, tag};
use support::pickle::{Pickle, legacy_stream, torch_archive};
use support::zip::{Entry, archive};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const FILE_BYTES: usize = 64 << 10;
const MOST: usize = 32 << 20;

/// The peak bytes of `work`, and its result as text.
fn peak(work: impl FnOnce() -> String) -> (usize, String) {
    let profiler = dhat::Profiler::builder().testing().build();
    let result = work();
    let peak = dhat::HeapStats::get().max_bytes;
    drop(profiler);
    (peak, result)
}

/// Everything that is done with a file before its tensor data is read.
fn look_at(bytes: &[u8]) -> String {
    let options = OpenOptions::new().with_limits(ParseLimits::default()).with_all(true);
    let checkpoint = match Checkpoint::from_bytes_with(bytes.to_vec(), &options) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return error.to_string(),
    };
    let (tensors, summary) = (checkpoint.tensors().len(), checkpoint.inspect(&InspectOptions::new()));
    let planned = checkpoint.plan(TargetDtype::BF16).map(drop);
    format!("{tensors} tensors, {} in the summary, {planned:?}", summary.tensor_count)
}

/// `with`, repeated up to the file size.
fn filled(with: &[u8]) -> Vec<u8> {
    with.repeat(55_000 / with.len())
}

fn stored(object: Pickle) -> Vec<u8> {
    torch_archive(&object.stop(), &[&[0; 4096]])
}

/// A tensor of 64 axes, of which twelve are stored in reverse.
fn many_axes(pickle: Pickle) -> Pickle {
    let (mut shape, mut strides) = ([1; 64], [1; 64]);
    for axis in 0..10 {
        (shape[axis], strides[axis]) = (2, 1 << axis);
    }
    pickle.tensor("0", 1024, 0, &shape, &strides).raw(b"q\x00")
}

/// Keys of four letters, each with `value`.
fn keyed(pickle: Pickle, value: &[u8], bytes: usize) -> Pickle {
    let keys = (0..0x4000u32).map(|index| format!("{index:04x}"));
    keys.take(bytes / (6 + value.len())).fold(pickle, |pickle, key| pickle.raw(b"U\x04").raw(key.as_bytes()).raw(value))
}

fn pickles() -> Vec<(&'static str, Vec<u8>)> {
    let new = Pickle::new;
    let ladder = |key_bytes: usize, levels: usize| {
        let mut object = new().raw(b"}").text("t").tensor("0", 1024, 0, &[1], &[1]).raw(b"q\x00s");
        for level in 0..levels {
            // Each dict contains the previous one and a tensor.
            let key = format!("{level:03}{}", "k".repeat(key_bytes));
            object = object.raw(b"q\x01}(").text(&key).raw(b"h\x01").text("t").raw(b"h\x00u");
        }
        stored(object)
    };
    let bomb = |bottom: Pickle| {
        let doubled = |object: Pickle, _| object.raw(b"q\x01}(U\x01ah\x01U\x01bh\x01u");
        stored((0..40).fold(bottom.raw(b"s"), doubled).raw(&filled(b"N0")))
    };
    let shared_list = |pairs: usize, times: usize| {
        let list = new().global("collections", "OrderedDict").raw(b"q\x02]q\x03(");
        let list = keyed(list, b"K\x00\x86", pairs * 9).raw(b"e0h\x02(").raw(&b"h\x03".repeat(times)).raw(b"tR");
        stored(list)
    };
    let text: String = "\u{e9}".repeat(12_000);
    let array = |pickle: Pickle| {
        let made =
            pickle.global("numpy.core.multiarray", "_reconstruct").global("numpy", "ndarray").raw(b"K\0\x85)\x87R");
        let dtype = made.mark().int(1).numbers(&[12_000]).global("numpy", "dtype").text("u1").raw(b"\x89\x88\x87R");
        let dtype = dtype.mark().int(3).text("|").raw(b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89");
        dtype.global("_codecs", "encode").text(&text).text("latin1").raw(b"\x86Rtbq\x00")
    };
    vec![
        ("a ladder of long keys", ladder(230, 220)),
        ("a ladder of short keys", ladder(10, 250)),
        ("one tensor under many keys", stored(keyed(many_axes(new().raw(b"}(").text("t")), b"h\0", 55_000).raw(b"u"))),
        ("one tensor many times in a list", stored(many_axes(new().raw(b"](")).raw(&filled(b"h\0")).raw(b"e"))),
        ("2^40 paths to a tensor", bomb(new().raw(b"}").text("w").tensor("0", 1024, 0, &[1], &[1]))),
        ("2^40 paths to a tensor of many axes", bomb(many_axes(new().raw(b"}").text("w")))),
        (
            "2^40 paths to an array",
            stored((0..40).fold(array(new().raw(b"}").text("w")).raw(b"s"), |object, _| {
                object.raw(b"q\x01}(U\x01ah\x01U\x01bh\x01u")
            })),
        ),
        ("one array under many keys", stored(keyed(array(new().raw(b"}(").text("t")), b"h\0", 30_000).raw(b"u"))),
        ("dicts that share a list of pairs", shared_list(2000, 18_000)),
        ("empty lists", stored(new().raw(&filled(b"]")))),
        ("empty dicts in a list", stored(new().raw(b"](").raw(&filled(b"}")).raw(b"e"))),
        ("sets", stored(new().raw(&filled(b"\x8f")))),
        ("lists of one", stored(new().raw(&filled(b"]Na")))),
        ("tuples of two", stored(new().raw(b"N").raw(&filled(b"2\x86")))),
        (
            "objects with items",
            stored(new().global("collections", "OrderedDict").raw(b"q\0").raw(&filled(b"h\0)RNNs"))),
        ),
        ("objects with a list", stored(new().global("collections", "deque").raw(b"q\0").raw(&filled(b"h\0)RNa")))),
        (
            "places far apart",
            stored(
                (0..11_000u32)
                    .fold(new().raw(b"}"), |object, index| object.raw(b"r").raw(&(index * 390_000).to_le_bytes())),
            ),
        ),
        ("texts with escapes", stored(new().raw(&filled(b"V\xe9\n")))),
        ("strings with quotes", stored(new().raw(&filled(b"S'a'\n")))),
        ("integers", stored(new().raw(&filled(b"J\xff\xff\xff\x7f")))),
        (
            "storages",
            stored(
                (0..1300u32)
                    .fold(new().raw(b"]("), |object, index| {
                        object
                            .raw(b"(X\x07\0\0\0storagectorch\nByteStorage\nI")
                            .raw(index.to_string().as_bytes())
                            .raw(b"\nNK\x01tQ")
                    })
                    .raw(b"e"),
            ),
        ),
        ("marks", stored(new().raw(&filled(b"(")))),
        ("a legacy stream of lists", legacy_stream(&new().raw(&filled(b"]")).stop(), &[], &[])),
        ("keys of storages that are not there", legacy_stream(&new().raw(b"}").stop(), &["x"; 8000], &[])),
    ]
}

fn archives() -> Vec<(&'static str, Vec<u8>)> {
    let deflated = |content: &[u8]| archive(&[Entry::deflated("a/data.pkl", content)]);
    let long = |bytes: &[u8], times: usize| Pickle::new().raw(&bytes.repeat(times)).stop();
    let names = |count: usize, entry: &dyn Fn(String) -> Entry| {
        archive(&(0..count).map(|index| entry(format!("a/{index}"))).collect::<Vec<_>>())
    };
    // One long module of letters that become escapes, with many names.
    let mut globals = Pickle::new().text(&"\u{e0001}".repeat(1024)).raw(b"q\0}");
    for index in 0..5000u32 {
        globals.0.extend(b"h\0U\x04");
        globals.0.extend(format!("{index:04x}").as_bytes());
        globals.0.extend(b"\x930");
    }
    let mut npy = b"\x93NUMPY\x02\0".to_vec();
    npy.extend((1u32 << 20).to_le_bytes());
    npy.extend(b"{'descr': '|u1', 'fortran_order': False, 'shape': (0,)}");
    npy.resize(12 + (1 << 20), b' ');
    vec![
        ("a deflated pickle of lists", deflated(&long(b"]", 7 << 20))),
        ("a larger deflated pickle of lists", deflated(&long(b"]", 50 << 20))),
        ("a deflated text", deflated(&long(b"N0", 3 << 20))),
        (
            "something deflated that may be a pickle",
            archive(&[Entry::deflated("a/b", &[b"]".repeat(15 << 20), b".".to_vec()].concat())]),
        ),
        ("long names of globals", archive(&[Entry::stored("a/data.pkl", &globals.clone().stop())])),
        ("many entries", names(700, &|name| Entry::stored(&name, b""))),
        ("many entries at one place", names(700, &|name| Entry { offset: Some(0), ..Entry::stored(&name, b"") })),
        ("many pickles", names(600, &|name| Entry::stored(&format!("{name}.pkl"), b"]."))),
        ("arrays with long headers", names(40, &|name| Entry::deflated(&format!("{name}.npy"), &npy))),
    ]
}

fn ggufs() -> Vec<(&'static str, Vec<u8>)> {
    let file = Gguf::default;
    let array = |item: u32, count: u64, items: &[u8]| [file().u32(item), file().u64(count), items.to_vec()].concat();
    let empty = array(tag::U8, 0, b"");
    let inner = array(tag::ARRAY, 50, &empty.repeat(50));
    let of_many = |item, bytes: &[u8]| {
        file().entry("k", tag::ARRAY, &array(item, (filled(bytes).len() / bytes.len()) as u64, &filled(bytes)))
    };
    let tensors =
        (0..580u32).fold(file(), |file, index| file.tensor(&index.to_string(), &[1; 8], 0, u64::from(index) * 32));
    let entries = (0..3500u32).fold(file(), |file, index| file.entry(&format!("{index:x}"), tag::U8, b"\0"));
    vec![
        ("arrays in an array", of_many(tag::ARRAY, &empty).bytes()),
        ("arrays in arrays in an array", of_many(tag::ARRAY, &inner).bytes()),
        ("empty strings", of_many(tag::STRING, &[0; 8]).bytes()),
        ("truth values", of_many(tag::BOOL, &[1]).bytes()),
        ("a deep array", file().entry("k", tag::ARRAY, &filled(&array(tag::ARRAY, 1, b""))).bytes()),
        ("more items than fit", file().entry("k", tag::ARRAY, &array(tag::STRING, u64::MAX, &[0; 60_000])).bytes()),
        ("more tensors than fit", Gguf { tensor_count: Some(u64::MAX), ..file() }.bytes()),
        ("more entries than fit", Gguf { entry_count: Some(1_000_000), ..entries.clone() }.bytes()),
        ("many entries", entries.bytes()),
        ("many tensors", tensors.data(390 * 32).bytes()),
    ]
}

fn others() -> Vec<(&'static str, Vec<u8>)> {
    let header = |text: String| support::raw(text, b"");
    let tensor =
        |name: &str, shape: &str| format!(r#""{name}":{{"dtype":"F8_E4M3","shape":[{shape}],"data_offsets":[0,0]}}"#);
    let listed = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    let npy = |text: &str| {
        let mut bytes = b"\x93NUMPY\x01\0".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes
    };
    let array =
        |descr: &str, shape: &str| npy(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"));
    let part = |index: usize| match index % 2 {
        0 => tensor(&format!("m{}.weight", index / 2), "0,4"),
        _ => tensor(&format!("m{}.weight_scale_inv", index / 2), "0,9"),
    };
    vec![
        ("a shape of many axes", header(format!("{{{}}}", tensor("w", &format!("{}0", "1,".repeat(29_000)))))),
        (
            "tensors of many axes",
            header(format!(
                "{{{}}}",
                listed(12, &|index| tensor(&index.to_string(), &format!("{}0", "1,".repeat(2400))))
            )),
        ),
        ("weights that do not fit", header(format!("{{{}}}", listed(800, &part)))),
        ("a deep document", header(format!(r#"{{"w":{{"x":{}{}}}}}"#, "[".repeat(29_000), "]".repeat(29_000)))),
        ("a tensor many times", header(format!("{{{}}}", listed(900, &|_| tensor("w", "0"))))),
        (
            "metadata of nothing",
            header(format!(r#"{{"__metadata__":{{{}}}}}"#, listed(5000, &|index| format!(r#""{index:x}":"""#)))),
        ),
        ("metadata of escapes", header(format!(r#"{{"__metadata__":{{"a":"{}"}}}}"#, r"\u0000".repeat(10_000)))),
        ("brackets in an array's header", array(&"(".repeat(60_000), "(0,)")),
        ("a record type of many", array(&format!("[{}]", "(),".repeat(19_000)), "(0,)")),
        ("a deep record type", array(&format!("{}{}{}", "[".repeat(30), "[],".repeat(19_000), "]".repeat(30)), "(0,)")),
        ("a shape of many sizes", array("'|u1'", &format!("({})", "1,".repeat(29_000)))),
        ("a header longer than its file", [b"\x93NUMPY\x02\0\xff\xff\xff\xff".as_slice(), &[b' '; 60_000]].concat()),
    ]
}

#[test]
fn no_small_file_takes_much_memory() {
    let mut wrong = Vec::new();
    for (name, bytes) in [pickles(), archives(), ggufs(), others()].concat() {
        assert!(bytes.len() <= FILE_BYTES, "{name} takes {} bytes", bytes.len());
        let scanned = || format!("{:?}", scan_bytes(&bytes).map(|report| report.verdict()));
        for (how, (most, result)) in [("opened", peak(|| look_at(&bytes))), ("scanned", peak(scanned))] {
            println!("{name}, {how}: {} KB, {}", most >> 10, result.chars().take(150).collect::<String>());
            if most > MOST {
                wrong.push(format!("{name}, {how}: {most} bytes"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
