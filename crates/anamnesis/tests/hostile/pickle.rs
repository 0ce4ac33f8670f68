//! Hostile PyTorch files: every case ends in a typed error or the right values, and no code is ever executed.

use crate::support;
use crate::support::pickle::{Pickle, legacy_stream, torch_archive};
use crate::support::zip::{Entry, archive};
use crate::support::{Noise, assert_mentions, fixture, limit_tag, parse_reason};
use anamnesis::{
    AnamnesisError, ParseLimits, Remedy, ScanVerdict, parse_pth_bytes, parse_pth_bytes_with_limits, scan_bytes,
};

/// Sixteen bytes: the floats 0 to 3.
fn floats() -> Vec<u8> {
    support::le_bytes(&[0.0, 1.0, 2.0, 3.0])
}

/// One tensor `w` that is a view of four floats.
fn view(offset: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    torch_archive(&Pickle::new().only("w", |pickle| pickle.tensor("0", 4, offset, shape, strides)), &[&floats()])
}

fn error(bytes: Vec<u8>) -> AnamnesisError {
    parse_pth_bytes(bytes).unwrap_err()
}

#[track_caller]
fn refused(bytes: Vec<u8>, words: &[&str]) {
    assert_mentions(&parse_reason(error(bytes)), words);
}

fn values(bytes: Vec<u8>) -> Vec<f32> {
    support::floats(&parse_pth_bytes(bytes).unwrap().tensors().unwrap()[0].data)
}

#[test]
fn views_inside_the_storage_are_read() {
    assert_eq!(values(view(0, &[2, 2], &[2, 1])), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(values(view(0, &[2, 2], &[1, 2])), [0.0, 2.0, 1.0, 3.0]);
    assert_eq!(values(view(3, &[], &[])), [3.0]);
    assert_eq!(values(view(1, &[2, 3], &[0, 1])), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    assert_eq!(values(view(1 << 40, &[0, 7], &[7, 1])), [0.0; 0]);
}

#[test]
fn views_outside_the_storage_are_refused() {
    refused(view(1, &[2, 2], &[2, 1]), &["\"w\"", "ends at byte 20"]);
    refused(view(4, &[1], &[1]), &["\"w\"", "ends at byte 20"]);
    refused(view(0, &[2], &[4]), &["\"w\"", "ends at byte 20"]);
    refused(view(-1, &[1], &[1]), &["\"w\"", "invalid storage offset"]);
    refused(view(0, &[2], &[-1]), &["\"w\"", "negative"]);
    refused(view(0, &[-2], &[1]), &["\"w\"", "negative"]);
    refused(view(0, &[2, 2], &[1]), &["2 dimensions and 1 strides"]);
    refused(view(0, &[i64::MAX, 2], &[0, 0]), &["overflows"]);
    refused(view(0, &[i64::MAX, i64::MAX, i64::MAX], &[0, 0, 0]), &["overflows"]);
    refused(view(0, &[3], &[i64::MAX]), &["overflows"]);
    refused(view(i64::MAX, &[1], &[1]), &["overflows"]);
    assert_eq!(limit_tag(error(view(0, &[65], &[0]))), "PTH_MAX_MATERIALISE_RATIO");
    assert_eq!(values(view(0, &[64], &[0])).len(), 64);
    assert_eq!(limit_tag(error(view(0, &[1; 65], &[1; 65]))), "PTH_MAX_DIMS");
    assert_eq!(values(view(0, &[1; 64], &[1; 64])), [0.0]);
}

#[test]
fn storages_are_checked_against_the_archive() {
    let tensor = |elements| Pickle::new().only("w", |pickle| pickle.tensor("0", elements, 0, &[1], &[1]));
    for elements in [3, 5, 1 << 40] {
        refused(torch_archive(&tensor(elements), &[&floats()]), &["data/0", "16"]);
    }
    refused(torch_archive(&tensor(i64::MAX), &[&floats()]), &["invalid size"]);
    refused(torch_archive(&tensor(-1), &[&floats()]), &["invalid size"]);
    refused(torch_archive(&tensor(4), &[]), &["\"w\"", "data/0", "does not hold"]);
    // One storage, two sizes.
    let two = Pickle::new().raw(b"}").text("a").tensor("0", 4, 0, &[1], &[1]).raw(b"s");
    let two = two.text("b").tensor("0", 2, 0, &[1], &[1]).raw(b"s").stop();
    refused(torch_archive(&two, &[&floats()]), &["16 bytes and 8 bytes"]);
}

#[test]
fn a_tensor_that_changes_after_it_is_made_is_refused() {
    let changed = |end: &[u8]| {
        let object = Pickle::new().only("w", |pickle| pickle.tensor("0", 4, 0, &[1], &[1]).raw(end));
        torch_archive(&object, &[&floats()])
    };
    for end in [&b"}b"[..], b"K\x01K\x02s", b"K\x01a", b"(K\x00K\x08u"] {
        refused(changed(end), &["changes a tensor"]);
    }
}

#[test]
fn a_million_views_of_one_storage_use_bounded_memory() {
    const VIEWS: u32 = 1_000_000;
    let mut object = Pickle::new().raw(b"}(");
    object = object.text("t").tensor("0", 4, 1, &[2], &[1]).raw(b"q\x00");
    for index in 1..VIEWS {
        // The first tensor again, under another name.
        object.0.extend([b'U', 5]);
        object.0.extend(format!("{index:05x}").as_bytes());
        object.0.extend(b"h\0");
    }
    let bytes = torch_archive(&object.raw(b"u").stop(), &[&floats()]);
    let parsed = parse_pth_bytes(bytes).unwrap();
    assert_eq!(parsed.inspect().total_bytes, u64::from(VIEWS) * 8);
}

#[test]
fn tensors_that_share_a_storage_have_a_size_limit() {
    // Sixty-four kilobytes under many names.
    let shared = |names: usize| {
        let mut object = Pickle::new().raw(b"}(").text("t").tensor("0", 16384, 0, &[16384], &[1]).raw(b"q\x00");
        for index in 1..names {
            object = object.text(&format!("k{index}")).raw(b"h\0");
        }
        object.raw(b"u").stop()
    };
    let storage = vec![0; 65536];
    let archive = |names: usize| torch_archive(&shared(names), &[&storage]);
    let legacy = |names: usize| legacy_stream(&shared(names), &["0"], &[(16384, &storage)]);
    // Tied weights, even those of a whole stack of layers.
    for bytes in [archive(64), legacy(64)] {
        assert_eq!(parse_pth_bytes(bytes).unwrap().tensors().unwrap().len(), 64);
    }
    for bytes in [archive(4000), legacy(4000)] {
        assert!(bytes.len() < 200_000);
        let error = error(bytes);
        assert!(error.to_string().contains("262144000 bytes"), "{error}");
        assert_eq!(limit_tag(error), "PTH_MAX_SHARING_RATIO");
    }
}

#[test]
fn exponential_references_and_deep_nesting_are_cheap() {
    // Each dict refers to the previous one twice: 2^1000 paths without a tensor.
    let mut bomb = Pickle::new().raw(b"}");
    for _ in 0..200 {
        bomb = bomb.raw(b"q\x01}(U\x01ah\x01U\x01bh\x01u");
    }
    assert!(parse_pth_bytes(torch_archive(&bomb.clone().stop(), &[])).unwrap().is_empty());
    // With a tensor at the bottom every path is a tensor.
    let mut bomb = Pickle::new().raw(b"}").text("w").tensor("0", 4, 0, &[1], &[1]).raw(b"s");
    for _ in 0..100 {
        bomb = bomb.raw(b"q\x01}(U\x01ah\x01U\x01bh\x01u");
    }
    let limits = ParseLimits::unbounded().with_max_total_bytes(300 << 10);
    let bomb = torch_archive(&bomb.stop(), &[&floats()]);
    assert_eq!(limit_tag(error(bomb.clone())), "PTH_MAX_TENSORS");
    assert_eq!(limit_tag(parse_pth_bytes_with_limits(bomb, &limits).unwrap_err()), "max_total_bytes");
    // A million tuples inside one another.
    let tower = Pickle::new().raw(b"N").raw(&b"\x85".repeat(1_000_000)).stop();
    assert_eq!(limit_tag(error(torch_archive(&tower, &[]))), "MAX_PICKLE_VM_DEPTH");
    // A list that contains itself, next to a tensor.
    let ring = Pickle::new().raw(b"]q\x01h\x01a").tensor("0", 4, 0, &[1], &[1]).raw(b"a").stop();
    assert_eq!(limit_tag(error(torch_archive(&ring, &[&floats()]))), "MAX_PICKLE_VM_DEPTH");
}

#[test]
fn out_of_range_numbers_are_errors() {
    let object = |bytes: &[u8]| torch_archive(&Pickle::new().raw(bytes).stop(), &[]);
    assert_eq!(limit_tag(error(object(b"\x8b\xff\xff\xff\x7f"))), "MAX_PICKLE_PAYLOAD");
    refused(object(b"\x8a\xff\x01"), &["ends at byte"]);
    refused(object(b"\x8b\x00\x00\x00\x80"), &["negative"]);
    // A memo entry with a large index is one entry.
    assert!(parse_pth_bytes(object(b"}r\xff\xff\xff\x7f")).unwrap().is_empty());
    assert!(parse_pth_bytes(object(b"}p99999999999999999\n")).unwrap().is_empty());
    refused(object(b"K\x01}b"), &["state"]);
}

#[test]
fn bytes_after_the_end_of_the_pickle_are_refused() {
    let mut trailing = Pickle::new().only("w", |pickle| pickle.tensor("0", 4, 0, &[1], &[1]));
    trailing.extend(b"cos\nsystem\n.");
    let bytes = torch_archive(&trailing, &[&floats()]);
    assert_mentions(&scan_bytes(&bytes).unwrap().notes.join("\n"), &["12 bytes follow", "data.pkl"]);
    refused(bytes, &["12 bytes follow the end of the pickle"]);
}

#[test]
fn frame_lengths_are_checked() {
    let framed = |length: u64, bytes: &[u8]| {
        let frame = [b"\x80\x04\x95".as_slice(), &length.to_le_bytes(), bytes].concat();
        torch_archive(&frame, &[])
    };
    assert!(parse_pth_bytes(framed(2, b"}.")).unwrap().is_empty());
    // Long strings are between frames.
    let between = [b"}\x8c\x01aX\x02\0\0\0bb".as_slice(), b"\x95\x02\0\0\0\0\0\0\0s."].concat();
    assert!(parse_pth_bytes(framed(4, &between)).unwrap().is_empty());
    refused(framed(3, b"}."), &["a frame of 3 bytes, 2 follow"]);
    refused(framed(u64::MAX, b"}."), &["a frame of 18446744073709551615 bytes"]);
    refused(framed(3, b"}\x8c\x01as."), &["ends at byte 15", "its frame at 14"]);
    refused(framed(12, b"\x95\x02\0\0\0\0\0\0\0}.."), &["a frame inside another"]);
    refused(framed(3, b"}.."), &["the end of the pickle inside a frame"]);
}

/// Ways to reach `os.system`, all of which are listed and none executed.
fn attacks() -> Vec<(&'static str, Vec<u8>)> {
    let attack = |bytes: &[u8]| Pickle::new().raw(bytes).stop();
    vec![
        ("a global", attack(b"cos\nsystem\nU\x02ls\x85R")),
        ("a call that is thrown away", attack(b"cos\nsystem\nU\x02ls\x85R0}")),
        ("an instance", attack(b"(U\x02lsios\nsystem\n")),
        ("an object", attack(b"(cos\nsystem\nU\x02lso")),
        ("a new object", attack(b"cos\nsystem\nU\x02ls\x85\x81")),
        ("a new object with names", attack(b"cos\nsystem\nU\x02ls\x85}\x92")),
        ("names on the stack", attack(b"U\x02osU\x06system\x93U\x02ls\x85R")),
        ("names from the memo", attack(b"U\x06systemq\x01U\x02osq\x0200h\x02h\x01\x93U\x02ls\x85R")),
        ("names with escapes", attack(b"V\\u006fs\nV\\u0073ystem\n\x93U\x02ls\x85R")),
        ("a name that is never called", attack(b"cos\nsystem\n")),
        ("behind a mark that is dropped", attack(b"}(cos\nsystem\nU\x02ls\x85R1")),
        ("as a key", attack(b"}cos\nsystem\nU\x02ls\x85RK\x01s")),
    ]
}

#[test]
fn every_reference_to_code_is_refused_and_listed() {
    for (how, object) in attacks() {
        let bytes = torch_archive(&object, &[]);
        let report = scan_bytes(&bytes).unwrap();
        assert_eq!(report.verdict(), ScanVerdict::RefersToCode, "{how}");
        let (pickle, global) = report.refused().next().unwrap();
        assert_eq!(
            (pickle.name.as_str(), global.module.as_str(), global.name.as_str()),
            ("archive/data.pkl", "os", "system")
        );
        let error = error(bytes);
        assert!(
            matches!(&error, AnamnesisError::DisallowedGlobal { module, name } if module == "os" && name == "system"),
            "{how}: {error}"
        );
        // The same in the other forms.
        for bytes in [object.clone(), legacy_stream(&object, &[], &[])] {
            assert_eq!(scan_bytes(&bytes).unwrap().verdict(), ScanVerdict::RefersToCode, "{how}");
            assert!(parse_pth_bytes(bytes).is_err(), "{how}");
        }
    }
}

#[test]
fn globals_that_can_reach_code_are_refused() {
    for (module, name) in [
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("__builtin__", "exec"),
        ("pkgutil", "resolve_name"),
        ("torch", "load"),
        ("torch", "hub.load"),
        ("torch.storage", "_load_from_bytes"),
        ("torch._utils", "_import_dotted_name"),
        ("torch.FloatStorage", "__init__"),
        ("collections", "OrderedDict.__init__"),
        ("torch.nn.modules.linear", "Linear"),
        ("__torch__.Model", "Model"),
        ("torch._utils\u{a0}", "_rebuild_tensor_v2"),
        ("", ""),
    ] {
        let bytes = torch_archive(&Pickle::new().global(module, name).raw(b")R").stop(), &[]);
        assert_eq!(scan_bytes(&bytes).unwrap().verdict(), ScanVerdict::RefersToCode, "{module}.{name}");
        assert!(matches!(error(bytes), AnamnesisError::DisallowedGlobal { .. }), "{module}.{name}");
    }
    // Extension codes refer to a registry that only the reader has.
    for code in [&b"\x82\x01"[..], b"\x83\x01\x02", b"\x84\x01\x02\x03\x04"] {
        let bytes = torch_archive(&Pickle::new().raw(code).stop(), &[]);
        assert_eq!(scan_bytes(&bytes).unwrap().verdict(), ScanVerdict::RefersToCode);
        assert!(matches!(error(bytes), AnamnesisError::DisallowedGlobal { .. }));
    }
    // A name computed by a call.
    let made = Pickle::new().global("builtins", "str").text("os").raw(b"\x85R").text("system").raw(b"\x93").stop();
    assert_eq!(scan_bytes(&torch_archive(&made, &[])).unwrap().verdict(), ScanVerdict::RefersToCode);
    assert!(matches!(error(torch_archive(&made, &[])), AnamnesisError::DisallowedGlobal { .. }));
}

#[test]
fn control_characters_in_names_are_escaped() {
    let bytes = torch_archive(&Pickle::new().global("os\u{1b}[2J", "sys\u{202e}tem").stop(), &[]);
    let report = scan_bytes(&bytes).unwrap();
    assert_eq!(report.pickles[0].globals[0].module, "os\\u{1b}[2J");
    assert!(!error(bytes).to_string().contains('\u{202e}'));
}

#[test]
fn out_of_band_buffers_are_not_tensors() {
    let object = Pickle::new().raw(b"\x97\x98").stop();
    assert_eq!(scan_bytes(&object).unwrap().verdict(), ScanVerdict::Safe);
    refused(torch_archive(&object, &[]), &["neither a tensor nor a dict"]);
}

#[test]
fn keys_that_are_not_strings_are_refused_in_dicts_of_tensors() {
    let object = |key: &[u8]| Pickle::new().raw(b"}").raw(key).tensor("0", 4, 0, &[1], &[1]).raw(b"s").stop();
    for key in [&b")"[..], b"N", b"G\x3f\xf8\0\0\0\0\0\0", b"\x88", b"C\x01a"] {
        refused(torch_archive(&object(key), &[&floats()]), &["neither text nor an integer"]);
    }
    let parsed = parse_pth_bytes(torch_archive(&object(b"K\x07"), &[&floats()])).unwrap();
    assert_eq!(parsed.tensor_info()[0].name, "7");
    // One key twice, and two paths to one name.
    let tensor = |pickle: Pickle| pickle.tensor("0", 4, 0, &[1], &[1]);
    let twice = tensor(tensor(Pickle::new().raw(b"}").text("a")).raw(b"s").text("a")).raw(b"s").stop();
    refused(torch_archive(&twice, &[&floats()]), &["\"a\"", "twice"]);
    let one = tensor(Pickle::new().raw(b"}").text("a.b")).raw(b"s").text("a").raw(b"}").text("b");
    let one = tensor(one).raw(b"ss").stop();
    refused(torch_archive(&one, &[&floats()]), &["two tensors", "\"a.b\""]);
}

#[test]
fn two_models_in_one_file_are_both_read() {
    let dict = |pickle: Pickle| pickle.raw(b"}").text("w").tensor("0", 4, 0, &[1], &[1]).raw(b"s");
    let file = |other: &str| {
        let object = dict(dict(Pickle::new().raw(b"}").text("ema")).raw(b"s").text(other)).raw(b"s").stop();
        let parsed = parse_pth_bytes(torch_archive(&object, &[&floats()])).unwrap();
        let names: Vec<_> = parsed.tensor_info().into_iter().map(|tensor| tensor.name).collect();
        (names, parsed.notes().to_vec())
    };
    let (names, notes) = file("generator");
    assert_eq!(names, ["ema.w", "generator.w"]);
    assert_mentions(&notes[0].text, &["\"ema\"", "\"generator\""]);
    assert_eq!(notes[0].remedy, Some(Remedy::ChoosePart));
    // The trained weights come before their average, and the optimizer is not a model.
    assert_eq!(file("model").0, ["w"]);
    assert_mentions(&file("model").1[0].text, &["under \"model\""]);
    assert_mentions(&file("optimizer").1[0].text, &["under \"ema\""]);
}

#[test]
fn an_ordered_dict_of_python_two_is_read() {
    let pairs = Pickle::new().global("collections", "OrderedDict").raw(b"(](](U\x01w");
    let object = pairs.tensor("0", 4, 0, &[4], &[1]).raw(b"eetR").stop();
    assert_eq!(values(torch_archive(&object, &[&floats()])), [0.0, 1.0, 2.0, 3.0]);
}

#[test]
fn archives_need_exactly_one_object() {
    let object = Pickle::new().only("w", |pickle| pickle.tensor("0", 4, 0, &[4], &[1]));
    let named = |names: &[&str]| archive(&names.iter().map(|name| Entry::stored(name, &object)).collect::<Vec<_>>());
    refused(named(&["archive/version"]), &["no data.pkl"]);
    refused(named(&["data.pkl"]), &["no data.pkl"]);
    refused(named(&["a.npy"]), &["NumPy"]);
    refused(named(&["a/data.pkl", "b/data.pkl"]), &["two objects"]);
    refused(named(&["a/data.pkl", "a/data.pkl"]), &["twice"]);
    // A storage in another folder belongs to another file.
    refused(archive(&[Entry::stored("a/data.pkl", &object), Entry::stored("b/data/0", &floats())]), &["data/0"]);
    let with_order = |order: &[u8]| {
        archive(&[
            Entry::stored("x y/data.pkl", &object),
            Entry::stored("x y/byteorder", order),
            Entry::stored("x y/data/0", &floats()),
        ])
    };
    assert_eq!(values(with_order(b"little\n")), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(values(with_order(b"big"))[0], 0.0);
    refused(with_order(b"middle"), &["middle"]);
    assert_eq!(limit_tag(error(with_order(&[b' '; 65]))), "MAX_BYTEORDER_SIZE");
}

#[test]
fn compressed_and_stored_entries_give_the_same() {
    let object = Pickle::new().only("w", |pickle| pickle.tensor("0", 4, 0, &[2, 2], &[1, 2]));
    let kinds = [Entry::stored, Entry::deflated];
    for first in kinds {
        for second in kinds {
            let bytes = archive(&[first("a/data.pkl", &object), second("a/data/0", &floats())]);
            assert_eq!(values(bytes.clone()), [0.0, 2.0, 1.0, 3.0]);
            assert_eq!(scan_bytes(&bytes).unwrap().pickles.len(), 1);
        }
    }
}

#[test]
fn a_pickle_beyond_the_limit_is_not_read() {
    let huge = Entry::deflated("a/data.pkl", b"N.").both(|head| head.size = 200 << 20);
    assert_eq!(limit_tag(error(archive(&[huge]))), "MAX_PKL_SIZE");
}

#[test]
fn legacy_streams_are_checked_for_consistency() {
    let object = || {
        // The legacy format stores the part of the storage.
        let storage = Pickle::new().raw(b"}").text("w").global("torch._utils", "_rebuild_tensor").mark().mark();
        let storage = storage.text("storage").global("torch", "FloatStorage").text("7").text("cpu").int(4);
        storage
            .mark()
            .text("8")
            .int(1)
            .int(3)
            .tuple()
            .tuple()
            .raw(b"Q")
            .int(0)
            .numbers(&[3])
            .numbers(&[1])
            .raw(b"tRs")
            .stop()
    };
    assert_eq!(values(legacy_stream(&object(), &["7"], &[(4, &floats())])), [1.0, 2.0, 3.0]);
    refused(legacy_stream(&object(), &["7"], &[(3, &floats())]), &["3 elements", "4"]);
    refused(legacy_stream(&object(), &["7"], &[(-1, &floats())]), &["-1 elements"]);
    refused(legacy_stream(&object(), &["7"], &[(4, &floats()[..15])]), &["\"7\"", "ends at"]);
    refused(legacy_stream(&object(), &["9"], &[(4, &floats())]), &["\"9\"", "no tensor"]);
    refused(legacy_stream(&object(), &["7", "7"], &[(4, &floats()), (4, &floats())]), &["twice"]);
    refused(legacy_stream(&object(), &[], &[]), &["\"w\"", "not in the file"]);
    let parsed = parse_pth_bytes(legacy_stream(&object(), &["7"], &[(4, &floats()), (0, b"")])).unwrap();
    assert!(parsed.notes().iter().any(|note| note.text.contains("8 bytes after")), "{:?}", parsed.notes());
    // A part that is larger than the storage.
    let part = Pickle::new().raw(b"}").text("w").global("torch._utils", "_rebuild_tensor").mark().mark();
    let part =
        part.text("storage").global("torch", "FloatStorage").text("7").text("cpu").int(4).mark().text("8").int(2);
    let part = part.int(3).tuple().tuple().raw(b"Q").int(0).numbers(&[3]).numbers(&[1]).raw(b"tRs").stop();
    refused(legacy_stream(&part, &["7"], &[(4, &floats())]), &["past its 16 bytes"]);
}

#[test]
fn a_magic_number_computed_by_code_is_reported() {
    let mut stream = b"\x80\x02c__builtin__\neval\nU\x021+\x85R.".to_vec();
    stream.extend(legacy_stream(&Pickle::new().raw(b"}").stop(), &[], &[]));
    let report = scan_bytes(&stream).unwrap();
    assert_eq!(report.verdict(), ScanVerdict::RefersToCode);
    assert!(matches!(error(stream), AnamnesisError::Unsupported { .. }));
    // The magic number is present, but code follows it.
    let mut stream = legacy_stream(b"", &[], &[]);
    stream.truncate(15);
    stream.extend(b"\x80\x02c__builtin__\neval\nU\x021+\x85R.");
    assert_eq!(scan_bytes(&stream).unwrap().verdict(), ScanVerdict::RefersToCode);
}

#[test]
fn other_files_are_identified_by_their_kind() {
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    for (bytes, words) in [
        (tar, &["tar file", "0.1.10"][..]),
        (b"7z\xbc\xaf\x27\x1c\0\0".to_vec(), &["7z archive"]),
        (b"\x80\x04}.".to_vec(), &["pickle", "torch.save"]),
    ] {
        let AnamnesisError::Unsupported { format, detail } = error(bytes) else { panic!("{words:?}") };
        assert_eq!(format, "pth");
        assert_mentions(&detail, words);
    }
    refused(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n".to_vec(), &["Git LFS"]);
    refused(b"".to_vec(), &["empty"]);
    refused(b"\x01\x02\x03".to_vec(), &["neither"]);
    refused(b"PK\x03\x04".to_vec(), &[]);
}

#[test]
fn a_scan_identifies_files_by_content() {
    let verdict = |bytes: &[u8]| scan_bytes(bytes).unwrap().verdict();
    assert_eq!(verdict(&support::Model::new().bytes()), ScanVerdict::HoldsNoCode);
    assert_eq!(verdict(b"GGUF\x03\0\0\0"), ScanVerdict::HoldsNoCode);
    assert_eq!(verdict(b""), ScanVerdict::Malformed);
    assert_eq!(verdict(b"hello world"), ScanVerdict::Malformed);
    assert_eq!(verdict(b"\x80\x04}."), ScanVerdict::Safe);
    assert_eq!(verdict(b"cos\nsystem\n."), ScanVerdict::RefersToCode);
    assert_eq!(verdict(b"\x80\x04}.\x80\x04cos\nsystem\n."), ScanVerdict::RefersToCode);
    // Code before the end of a truncated pickle is found; so is code after garbage.
    assert_eq!(verdict(b"cos\nsystem\nU\x02ls\x85R"), ScanVerdict::RefersToCode);
    assert_eq!(verdict(b"\x80\x04tcos\nsystem\n."), ScanVerdict::RefersToCode);
    let header = |descr: &str| {
        let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,), }}\n");
        [&b"\x93NUMPY\x01\0"[..], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
    };
    let objects = [header("|O"), b"\x80\x02cos\nsystem\n.".to_vec()].concat();
    assert_eq!(verdict(&objects), ScanVerdict::RefersToCode);
    assert_eq!(verdict(&archive(&[Entry::deflated("a.npy", &objects)])), ScanVerdict::RefersToCode);
    assert_eq!(verdict(&[header("<f4"), vec![0; 4]].concat()), ScanVerdict::HoldsNoCode);
    // A pickle under any name is found, and distinguished from the one that torch loads.
    let safe = Entry::stored("m/data.pkl", b"\x80\x02}.");
    let code = |name: &str| Entry::stored(name, b"\x80\x02cos\nsystem\n.");
    for name in ["m/extra.pkl", "m/other", "__main__.pickle", "m/data/data.pkl"] {
        let verdict = verdict(&archive(&[safe.clone(), code(name)]));
        assert_eq!(verdict, ScanVerdict::RefersToCodeUnloaded, "{name}");
    }
    for name in ["m/constants.pkl", "n/data.pkl"] {
        assert_eq!(verdict(&archive(&[safe.clone(), code(name)])), ScanVerdict::RefersToCode, "{name}");
    }
    let arrays = Entry::stored("a.npy", &[header("<f4"), vec![0; 4]].concat());
    assert_eq!(verdict(&archive(&[arrays, code("x.pkl")])), ScanVerdict::RefersToCodeUnloaded);
    // Protocol 0 has no magic number.
    let old = Entry::stored("x", b"cos\nsystem\n(S'ls'\ntR.");
    assert_eq!(verdict(&archive(&[old])), ScanVerdict::RefersToCode);
    assert_eq!(verdict(&archive(&[Entry::stored("readme.txt", b"hello\n")])), ScanVerdict::HoldsNoCode);
    // An ambiguous archive is not read.
    let lies = safe.clone().local(|head| head.name = b"m/data.pkk".to_vec());
    assert_eq!(verdict(&archive(&[lies])), ScanVerdict::Malformed);
}

#[test]
fn fixtures_of_torch_are_safe_and_a_module_is_not() {
    for entry in std::fs::read_dir(fixture("pth")).unwrap() {
        let path = entry.unwrap().path();
        let report = anamnesis::scan(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let wanted = match name.as_str() {
            "whole_module.pth" => ScanVerdict::RefersToCode,
            name if name.ends_with(".safetensors") => ScanVerdict::HoldsNoCode,
            name if name.ends_with(".json") || name.ends_with(".case") => continue,
            _ => ScanVerdict::Safe,
        };
        assert_eq!(report.verdict(), wanted, "{name}: {:?} {:?}", report.problems, report.pickles);
    }
}

#[test]
fn files_truncated_anywhere_are_errors() {
    for name in ["checkpoint.pth", "checkpoint_legacy.pth", "scripted.pt", "deflated.pth"] {
        let bytes = std::fs::read(fixture(&format!("pth/{name}"))).unwrap();
        for end in (0..bytes.len()).step_by(7) {
            assert!(parse_pth_bytes(bytes[..end].to_vec()).is_err(), "{name} cut at {end}");
            let _ = scan_bytes(&bytes[..end]);
        }
    }
}

#[test]
fn damaged_files_never_panic() {
    let mut noise = Noise(7);
    for name in ["views.pth", "checkpoint_legacy.pth", "traced.pt", "dtypes.pth", "protocol5.pth"] {
        let whole = std::fs::read(fixture(&format!("pth/{name}"))).unwrap();
        for _ in 0..400 {
            let mut bytes = whole.clone();
            for _ in 0..1 + noise.below(4) {
                let at = noise.below(bytes.len());
                bytes[at] = noise.next() as u8;
            }
            let limits = ParseLimits::unbounded().with_max_total_bytes(64 << 20);
            if let Ok(parsed) = parse_pth_bytes_with_limits(bytes.clone(), &limits) {
                let _ = parsed.tensors().map(|tensors| tensors.len());
            }
            let _ = scan_bytes(&bytes);
        }
    }
}
