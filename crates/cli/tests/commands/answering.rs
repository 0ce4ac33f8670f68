//! First-use behaviour: sizes, widths, exit codes, and errors that name the argument.

use std::fs;
use std::process::Command;

use crate::folder::{Folder, Run, program};
use crate::samples;

#[test]
fn sizes_are_typed_as_they_are_printed() {
    let folder = samples::folder();
    let text = folder.amn("forget plain.safetensors --fit 2.4KB --to q4_0,q5_0,q8_0 -o fit.gguf").ok();
    assert!(text.contains("into 2.40 KB: ") && text.contains("\nFits: 2.40 KB of 2.40 KB\n"), "{text}");
    for (size, shards) in [("4.1KB", 3), ("4100", 3), ("0.0041 MB", 3), ("0.1MiB", 1)] {
        let mut command = folder.command("remember Tiny-3.1-FP8 --dry-run --json -o cut --shard-size");
        let run = Run::of(command.arg(size).output().unwrap());
        assert_eq!(run.json()["shards"].as_array().unwrap().len(), shards, "{size}");
    }
    let sizes = [("5 MB", 5_000_000, "5.00 MB"), ("small", 1_234, "1.23 KB"), ("many", 999_600, "1.00 MB")];
    for (name, bytes, printed) in sizes {
        let folder = Folder::empty();
        folder.add_sparse("x.safetensors", "U8", &[name], bytes);
        for line in ["parse x.safetensors", "inspect x.safetensors", "verify x.safetensors"] {
            let text = folder.amn(line).ok();
            assert!(text.contains(printed), "{line}: {text}");
        }
    }
}

#[test]
fn plain_tensors_keep_their_types_in_the_forecast() {
    let folder = Folder::empty();
    for (dtype, bytes) in [("F32", 4096), ("F16", 2048), ("I64", 8192)] {
        let header = format!("{{\"w\":{{\"dtype\":\"{dtype}\",\"shape\":[1024],\"data_offsets\":[0,{bytes}]}}}}");
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; bytes]].concat();
        fs::write(folder.path("x.safetensors"), file).unwrap();
        let text = folder.amn("inspect x.safetensors").ok();
        let size = text.lines().find(|line| line.starts_with("Size:")).unwrap();
        assert!(size.ends_with(&format!("KB ({dtype})")), "{size}");
        if dtype != "I64" {
            folder.amn("convert x.safetensors --to gguf -o x.gguf --force").ok();
            let text = folder.amn("inspect x.gguf").ok();
            assert!(text.contains(&format!(" KB ({dtype})\nDtypes:      {dtype}\n")), "{text}");
        }
    }
}

/// An FP8 matrix in blocks of 16 by 16.
fn small_blocks() -> Folder {
    let folder = Folder::empty();
    let header = r#"{"a.weight":{"dtype":"F8_E4M3","shape":[32,48],"data_offsets":[0,1536]},"a.weight_scale_inv":{"dtype":"F32","shape":[2,3],"data_offsets":[1536,1560]}}"#;
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 1560]].concat();
    fs::write(folder.path("model.safetensors"), file).unwrap();
    let config = r#"{"quantization_config":{"quant_method":"fp8","weight_block_size":[16,16]}}"#;
    fs::write(folder.path("config.json"), config).unwrap();
    folder
}

#[test]
fn blocks_are_called_by_their_own_size() {
    let folder = small_blocks();
    for line in ["inspect model.safetensors", "parse model.safetensors", "remember model.safetensors --dry-run"] {
        let text = folder.amn(line).ok();
        assert!(text.contains("Fine-grained FP8 (E4M3), 16x16 blocks"), "{line}: {text}");
        assert!(!text.contains("128x128"), "{line}: {text}");
    }
    let document = folder.amn("inspect model.safetensors --json").json();
    assert_eq!(document["scheme"], "Fine-grained FP8 (E4M3), 16x16 blocks");
}

#[test]
fn float_formats_are_called_by_their_own_name() {
    let folder = Folder::empty();
    let header = r#"{"a.weight":{"dtype":"F8_E5M2","shape":[4,4],"data_offsets":[0,16]},"a.weight_scale":{"dtype":"F32","shape":[],"data_offsets":[16,20]}}"#;
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 20]].concat();
    fs::write(folder.path("model.safetensors"), file).unwrap();
    for line in ["inspect model.safetensors", "parse model.safetensors"] {
        let text = folder.amn(line).ok();
        assert!(text.contains("Per-tensor FP8 (E5M2)") && !text.contains("E4M3"), "{line}: {text}");
    }
}

#[test]
fn help_is_wrapped_at_eighty_columns_and_at_narrower_pages() {
    let folder = Folder::empty();
    for command in crate::snapshots::names().into_iter().chain([String::new()]) {
        for (columns, most) in [(None, 80), (Some(200), 80), (Some(60), 60)] {
            let line = format!("{command} --help");
            let run = match columns {
                Some(columns) => folder.amn_on(columns, &line),
                None => folder.amn(&line),
            };
            let help = run.ok();
            // Examples and lists of values cannot be wrapped.
            let long = help.lines().filter(|line| line.chars().count() > most).collect::<Vec<_>>();
            assert!(long.is_empty() || columns == Some(60) && long.iter().all(|line| line.contains("  ")), "{long:#?}");
        }
    }
}

#[test]
fn control_characters_of_arguments_are_escaped() {
    let folder = samples::folder();
    let evil = "x\u{1b}[31m\u{7}\nerror: all is well\u{202e}";
    let lines: [&[&str]; 12] = [
        &[evil],
        &["inspect", "--", evil],
        &["inspect", "plain.safetensors", &format!("--{evil}")],
        &["inspect", "plain.safetensors", "--to", evil],
        &["inspect", "plain.safetensors", "--metadata", evil],
        &["parse", "plain.safetensors", "--include", evil],
        &["parse", "plain.safetensors", "--limit", evil],
        &["parse", "plain.safetensors", "--sort", evil],
        &["convert", "plain.safetensors", "--to", evil],
        &["forget", "plain.safetensors", "--to", "w4a16", "--rule", &format!("*={evil}")],
        &["man", evil],
        &["completions", evil],
    ];
    for words in lines {
        for json in [&[][..], &["--json"]] {
            let mut command = Command::new(program());
            let output = command.args(json).args(words).current_dir(folder.root()).output().unwrap();
            let run = Run::of(output);
            assert_ne!(run.code, Some(0), "{words:?}");
            let text = run.stdout + &run.stderr;
            assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']) && !text.contains("\nerror: all"), "{text}");
            assert!(text.contains("31m"), "what was typed is not shown: {text}");
        }
    }
}

#[test]
fn equal_causes_have_equal_exit_codes() {
    let folder = samples::folder();
    fs::write(folder.path("bad.json"), "{\"a\": null}").unwrap();
    let typed = [
        "inspect plain.safetensors --include nothing",
        "inspect model.gguf --metadata no.key",
        "convert model.gguf --to gguf -o x.gguf --gguf-remove-kv no.key",
        "convert plain.safetensors --to hf -o x",
        "convert plain.safetensors --to gguf --double-quant",
        "forget plain.safetensors --to w4a16 --group-size 7 -o x.safetensors",
        "forget plain.safetensors --to bnb-nf4 --block-size 7 -o x.safetensors",
        "forget plain.safetensors --to bnb-nf4 --exclude * -o x.safetensors",
        "forget plain.safetensors --fit 1KB -o x.gguf",
        "remember plain.safetensors --include *.norm.* --exclude *.norm.*",
    ];
    for line in typed {
        assert_eq!(folder.amn(line).code, Some(2), "{line}");
    }
    let files = [
        "inspect nowhere.safetensors",
        "inspect plain.safetensors --config nowhere.json",
        "forget plain.safetensors --to q8_0 --imatrix nowhere.dat",
        "convert plain.safetensors --to gguf --gguf-metadata nowhere.json",
        "convert plain.safetensors --to gguf --gguf-metadata bad.json",
        "convert plain.safetensors --to npz -o folder/",
        "convert plain.safetensors --to npz -o no/such/folder.npz",
        "convert plain.safetensors --to safetensors -o plain.safetensors --force",
        "convert plain.safetensors --to safetensors -o model-fp8.safetensors",
    ];
    for line in files {
        assert_eq!(folder.amn(line).code, Some(1), "{line}");
    }
}

#[test]
fn errors_name_the_option_or_the_file() {
    let folder = samples::folder();
    fs::write(folder.path("bad.json"), "{\"a\": null}").unwrap();
    let cases = [
        ("parse plain.safetensors --include a[", "--include: "),
        ("parse plain.safetensors --exclude a[", "--exclude: "),
        ("remember plain.safetensors --rename x", "--rename: "),
        ("convert plain.safetensors --to bnb-nf4 --keep a[", "--keep: "),
        ("forget plain.safetensors --to w4a16 --rule *=w4a15", "--rule: \"w4a15\" is not a known encoding"),
        ("forget plain.safetensors --to bnb-nf4 --group-size 64", "--group-size"),
        ("forget plain.safetensors --to q4_k_m --group-size 64", "--group-size"),
        ("forget plain.safetensors --to bnb-nf4 --block-size 7", "--block-size"),
        ("forget plain.safetensors --to q8_0 --imatrix nowhere.dat", "nowhere.dat: "),
        ("convert plain.safetensors --to gguf --gguf-metadata bad.json", "\"bad.json\": metadata key"),
        ("convert plain.safetensors --to gguf --gguf-kv x", "--gguf-kv: "),
        ("inspect plain.safetensors --select model", "plain.safetensors is safetensors; --include"),
        ("inspect model.gguf --npy-dtype w=e4m3", "--npy-dtype is for NumPy files, and model.gguf is GGUF"),
    ];
    for (line, words) in cases {
        let error = folder.amn(line).refused();
        assert!(error.contains(words), "{line}: {error}");
        assert!(error.chars().count() < 500, "{line}: {error}");
    }
}

#[test]
fn unknown_classes_are_named_and_malformed_headers_get_no_list_of_formats() {
    let folder = samples::folder();
    let config = r#"{"architectures":["NoSuchForMaskedLM"],"model_type":"none"}"#;
    fs::create_dir(folder.path("bert")).unwrap();
    fs::write(folder.path("bert/config.json"), config).unwrap();
    fs::copy(folder.path("plain.safetensors"), folder.path("bert/model.safetensors")).unwrap();
    let error = folder.amn("convert bert --to gguf -o x.gguf").failed();
    assert!(error.contains("unsupported model class `NoSuchForMaskedLM`: "), "{error}");
    assert!(error.contains("--keep-names"), "{error}");
    for (name, bytes) in [
        ("bad.st", &b"\x04\0\0\0\0\0\0\0{\"a:xxxx"[..]),
        ("model.safetensors.index.json", b"{\"weight_map\": {\"a\": 1}}"),
    ] {
        fs::write(folder.path(name), bytes).unwrap();
        let error = folder.amn(&format!("inspect {name}")).failed();
        assert!(!error.contains("amn formats"), "{error}");
    }
}

#[test]
fn a_part_reports_only_its_own_tensors() {
    let folder = samples::folder();
    let text = folder.amn("convert Tiny-3.1-FP8 --to safetensors -o out --shard-size 2KB --part 1/2").ok();
    assert!(text.contains("  Wrote part 1 of 2, which have 7 tensors -> out\n"), "{text}");
}

#[test]
fn the_list_of_formats_is_wrapped_to_the_page_and_whole_in_a_pipe() {
    let folder = Folder::empty();
    let whole = folder.amn("formats").ok();
    for columns in [80, 100] {
        let text = folder.amn_on(columns, "formats").ok();
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&text), words(&whole));
    }
}
