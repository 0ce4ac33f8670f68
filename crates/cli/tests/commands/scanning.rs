//! `scan`, and PyTorch files that refer to code.

use std::fs;

use crate::folder::{Folder, MODEL};

/// A folder with a fixture of the library under its own name.
fn with(fixture: &str) -> Folder {
    let folder = Folder::empty();
    let source = format!("{}/../anamnesis/tests/fixtures/pth/{fixture}", env!("CARGO_MANIFEST_DIR"));
    fs::copy(source, folder.path(fixture)).unwrap();
    folder
}

#[test]
fn a_file_of_tensors_is_safe() {
    let wanted = "\
bare.pt: PyTorch archive, 1 pickle
  bare/data.pkl
           2  allowed  torch._utils._rebuild_tensor_v2
          53  allowed  torch.FloatStorage
         112  allowed  collections.OrderedDict
safe to convert
";
    let folder = with("bare.pt");
    assert_eq!(folder.amn("scan bare.pt").ok(), wanted);
    let document = folder.amn("scan bare.pt --json").json();
    assert_eq!((&document["verdict"], &document["command"]), (&"safe".into(), &"scan".into()));
    let global = &document["pickles"][0]["globals"][1];
    assert_eq!(
        (&global["name"], &global["position"], &global["allowed"]),
        (&"FloatStorage".into(), &53.into(), &true.into())
    );
}

#[test]
fn a_file_that_refers_to_code_is_listed_and_refused() {
    let folder = with("whole_module.pth");
    let run = folder.amn("scan whole_module.pth");
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("REFUSED  torch.nn.modules.container.Sequential"), "{run:?}");
    assert!(run.stderr.starts_with("error: refers to code: 3 names are refused"), "{run:?}");
    let run = folder.amn("scan whole_module.pth --json");
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("\"verdict\":\"refers_to_code\"") && run.stderr.contains("\"unsafe\""), "{run:?}");
    let error = folder.amn("remember whole_module.pth").failed();
    assert!(error.contains("torch.nn.modules.container.Sequential") && error.contains("amn scan"), "{error}");
    assert_eq!(folder.names(), ["whole_module.pth"]);
}

#[test]
fn content_is_scanned_under_any_name_and_garbage_is_malformed() {
    let folder = Folder::empty();
    fs::write(folder.path("model.safetensors"), b"\x80\x02cos\nsystem\nU\x02ls\x85R.").unwrap();
    assert_eq!(folder.amn("scan model.safetensors").code, Some(1));
    fs::write(folder.path("cut.pkl"), b"\x80\x02}").unwrap();
    let run = folder.amn("scan cut.pkl");
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), "error: malformed: not everything could be read\n"));
}

#[test]
fn formats_without_pickles_hold_no_code() {
    let wanted = format!("{MODEL}: safetensors file, 0 pickles\nholds no code\n");
    assert_eq!(Folder::with_model().amn(&format!("scan {MODEL}")).ok(), wanted);
}

#[test]
fn safe_files_convert_and_unsafe_files_are_refused() {
    let fixtures = crate::samples::fixtures().join("pth");
    let folder = Folder::empty();
    let mut verdicts = std::collections::BTreeSet::new();
    for entry in fs::read_dir(fixtures).unwrap() {
        let path = entry.unwrap().path();
        if !path.extension().is_some_and(|end| end == "pt" || end == "pth" || end == "bin") {
            continue;
        }
        fs::copy(&path, folder.path("model.pth")).unwrap();
        let scanned = folder.amn("scan model.pth");
        let remembered = folder.amn("remember model.pth -o out.safetensors --force");
        let is_convertible = scanned.stdout.ends_with("safe to convert\n");
        assert_eq!(is_convertible, remembered.code == Some(0), "{path:?}: {scanned:?} {remembered:?}");
        assert_eq!(
            scanned.code == Some(0),
            is_convertible || scanned.stdout.contains("\nsafe, but cannot be converted: ")
        );
        verdicts.insert((scanned.code, is_convertible));
    }
    assert_eq!(verdicts.len(), 3, "{verdicts:?}");
    let attacks: [&[u8]; 4] = [
        b"\x80\x02cposix\nsystem\nU\x02ls\x85R.",
        b"\x80\x02cbuiltins\neval\nU\x011\x85R.",
        b"\x80\x04\x8c\x05torch\x8c\x09os.system\x93\x8c\x02ls\x85R.",
        b"\x80\x02csomewhere\nNet\n)R.",
    ];
    for (index, pickle) in attacks.into_iter().enumerate() {
        fs::write(folder.path("model.pth"), pickle).unwrap();
        let scanned = folder.amn("scan model.pth");
        let grade = if index < 3 { " (runs code)\n" } else { " (unknown)\n" };
        assert!(scanned.code == Some(1) && scanned.stdout.contains(grade), "{scanned:?}");
        folder.amn("remember model.pth -o out.safetensors --force").failed();
    }
}

#[test]
fn a_pickle_that_is_not_loaded_is_marked_and_never_called_safe() {
    let folder = Folder::empty();
    let fixture = fs::read(crate::samples::fixtures().join("pth/bare.pt")).unwrap();
    for (stray, words) in [
        (&b"\x80\x02cposix\nsystem\nU\x02ls\x85R."[..], "REFUSED  posix.system (runs code, not loaded)"),
        (b"\x80\x02csomewhere\nNet\n)R.", "REFUSED  somewhere.Net (unknown, not loaded)"),
    ] {
        fs::write(folder.path("model.pth"), with_entry(&fixture, "bare/extra/more.pkl", stray)).unwrap();
        let text = folder.amn("remember model.pth -o out.safetensors --force").ok();
        assert!(text.contains("Note: the pickle \"bare/extra/more.pkl\" is not part of the object"), "{text}");
        let scanned = folder.amn("scan model.pth");
        assert_eq!(scanned.code, Some(1), "{scanned:?}");
        assert!(scanned.stdout.contains("bare/extra/more.pkl (not loaded)\n"), "{scanned:?}");
        assert!(scanned.stdout.contains(words) && scanned.stdout.contains("  bare/data.pkl\n"), "{scanned:?}");
        let error = "error: refers to code that is not loaded: 1 name is refused; a conversion does not read";
        assert!(scanned.stderr.starts_with(error), "{scanned:?}");
        let document: serde_json::Value = serde_json::from_str(&folder.amn("scan model.pth --json").stdout).unwrap();
        assert_eq!(document["verdict"], "refers_to_code_not_loaded");
        let loaded: Vec<_> = document["pickles"].as_array().unwrap().iter().map(|pickle| &pickle["loaded"]).collect();
        assert_eq!(loaded, [true, false]);
    }
    fs::write(folder.path("model.pth"), with_entry(&fixture, "bare/extra/more.pkl", b"\x80\x02}.")).unwrap();
    assert!(folder.amn("scan model.pth").ok().ends_with("safe to convert\n"));
}

/// An archive with one more stored entry at its end.
fn with_entry(archive: &[u8], name: &str, content: &[u8]) -> Vec<u8> {
    let end = archive.windows(4).rposition(|word| word == b"PK\x05\x06").unwrap();
    let number = |at: usize| u32::from_le_bytes(archive[at..at + 4].try_into().unwrap());
    let (bytes, start) = (number(end + 12) as usize, number(end + 16) as usize);
    let mut head = vec![20, 0, 0, 0, 0, 0, 0, 0, 33, 0];
    let size = (content.len() as u32).to_le_bytes();
    // Without a checksum, which torch can omit.
    for part in [&[0; 4][..], &size, &size, &[name.len() as u8, 0, 0, 0]] {
        head.extend(part);
    }
    let mut out = archive[..start].to_vec();
    out.extend([&b"PK\x03\x04"[..], &head, name.as_bytes(), content].concat());
    let directory = out.len() as u32;
    out.extend(&archive[start..start + bytes]);
    out.extend([&b"PK\x01\x02\x14\0"[..], &head, &[0; 10], &(start as u32).to_le_bytes(), name.as_bytes()].concat());
    let directory_bytes = out.len() as u32 - directory;
    let count = u16::from_le_bytes([archive[end + 10], archive[end + 11]]) + 1;
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    out.extend([directory_bytes.to_le_bytes(), directory.to_le_bytes()].concat());
    out.extend([0, 0]);
    out
}

#[test]
fn every_file_of_a_directory_that_may_hold_a_pickle_is_scanned() {
    let folder = with("bare.pt");
    fs::write(folder.path("README.md"), "# A model").unwrap();
    fs::write(folder.path("model.safetensors"), b"\x80\x02cos\nsystem\n.").unwrap();
    fs::create_dir(folder.path("unet")).unwrap();
    fs::write(folder.path("unet/data"), b"\x80\x04}.").unwrap();
    let run = folder.amn("scan .");
    assert_eq!(run.code, Some(1), "{run:?}");
    let printed = run.stdout.replace('\\', "/");
    let files: Vec<_> = printed.lines().filter(|line| line.starts_with("./")).collect();
    assert_eq!(
        files,
        [
            "./bare.pt: PyTorch archive, 1 pickle",
            "./model.safetensors: pickle, 1 pickle",
            "./unet/data: pickle, 1 pickle"
        ],
        "{run:?}"
    );
    fs::remove_file(folder.path("model.safetensors")).unwrap();
    let document = folder.amn("scan . --json").json();
    assert_eq!(document["verdict"], "safe");
    assert_eq!(document["pickles"][1]["file"].as_str().unwrap().replace('\\', "/"), "./unet/data");
    fs::remove_dir_all(folder.path("unet")).unwrap();
    fs::remove_file(folder.path("bare.pt")).unwrap();
    assert_eq!(folder.amn("scan .").ok(), ".: no file can contain a pickle\n");
}

#[test]
fn packed_files_are_named_and_not_taken_for_safe() {
    let folder = Folder::empty();
    let files: [(&str, &[u8], &str); 4] = [
        ("a.pkl.gz", b"\x1f\x8b\x08\0\0\0\0\0", "a gzip file"),
        ("b.7z", b"7z\xbc\xaf\x27\x1c\0\x04", "a 7z archive"),
        ("c.joblib", b"\xfd7zXZ\0\0\x04", "an xz file"),
        ("d.tar.zst", b"\x28\xb5\x2f\xfd\0\0", "a Zstandard file"),
    ];
    for (name, bytes, kind) in files {
        fs::write(folder.path(name), bytes).unwrap();
        let run = folder.amn("scan .");
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.stdout.contains(&format!("it is {kind}, whose content is not scanned")), "{run:?}");
        fs::remove_file(folder.path(name)).unwrap();
    }
}

#[test]
fn a_model_of_the_local_cache_is_scanned_by_its_name() {
    let folder = Folder::empty();
    let snapshot = "hub/models--org--name/snapshots/0123456789012345678901234567890123456789";
    fs::create_dir_all(folder.path(snapshot)).unwrap();
    fs::create_dir_all(folder.path("hub/models--org--name/refs")).unwrap();
    fs::write(folder.path("hub/models--org--name/refs/main"), "0123456789012345678901234567890123456789").unwrap();
    fs::write(folder.path(&format!("{snapshot}/pytorch_model.bin")), b"\x80\x02cos\nsystem\n.").unwrap();
    let run =
        crate::folder::Run::of(folder.command("scan hf:org/name").env("HF_HOME", folder.root()).output().unwrap());
    assert!(run.code == Some(1) && run.stdout.contains("REFUSED  os.system (runs code)"), "{run:?}");
}

#[test]
fn files_beyond_a_limit_are_not_called_safe_or_sound() {
    let folder = with("bare.pt");
    for command in ["scan", "verify"] {
        folder.amn(&format!("{command} bare.pt --limit memory=1MB")).ok();
        let run = folder.amn(&format!("{command} bare.pt --limit memory=100"));
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.stdout.contains("limit exceeded"), "{run:?}");
    }
}

/// Checks the members that SARIF 2.1.0 requires, and the references between them.
fn assert_is_sarif(log: &serde_json::Value) {
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().ends_with("sarif-schema-2.1.0.json"));
    let [run] = &log["runs"].as_array().unwrap()[..] else { panic!("{log}") };
    assert_eq!(run["tool"]["driver"]["name"], "amn");
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    for result in run["results"].as_array().unwrap() {
        let rule = &rules[result["ruleIndex"].as_u64().unwrap() as usize];
        assert_eq!(result["ruleId"], rule["id"]);
        assert!(["error", "warning"].contains(&result["level"].as_str().unwrap()));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let place = &result["locations"][0]["physicalLocation"];
        assert!(!place["artifactLocation"]["uri"].as_str().unwrap().contains(' '));
    }
}

#[test]
fn findings_are_printed_as_sarif() {
    let folder = Folder::empty();
    fs::write(folder.path("a model.pkl"), b"\x80\x02cos\nsystem\nU\x02ls\x85R.").unwrap();
    fs::write(folder.path("cut.pkl"), b"\x80\x02}").unwrap();
    let run = folder.amn("scan . --format sarif");
    assert!(run.code == Some(1) && run.stderr.starts_with("error: refers to code"), "{run:?}");
    let log: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_is_sarif(&log);
    let results = log["runs"][0]["results"].as_array().unwrap();
    let found = |rule: &str| results.iter().find(|result| result["ruleId"] == rule).unwrap();
    let place = &found("pickle-runs-code")["locations"][0]["physicalLocation"];
    assert!(place["artifactLocation"]["uri"].as_str().unwrap().ends_with("a%20model.pkl"), "{place}");
    assert_eq!(place["region"]["byteOffset"], 2);
    assert!(found("pickle-runs-code")["message"]["text"].as_str().unwrap().contains("os.system"));
    assert_eq!(found("malformed")["level"], "error");
    let folder = with("bare.pt");
    let log: serde_json::Value = serde_json::from_str(&folder.amn("scan bare.pt --format sarif").ok()).unwrap();
    assert_is_sarif(&log);
    assert_eq!(log["runs"][0]["results"].as_array().unwrap().len(), 0);
    assert_eq!(folder.amn("scan bare.pt --format sarif --json").code, Some(2));
}
