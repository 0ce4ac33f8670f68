//! Files and options that declare far more than they contain end in a one-line error, within little memory.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};

use crate::folder::{Folder, Run, program};

/// The address space limit, in KiB: 256 MiB in addition to the program, which is large without optimisation.
const MOST_KIB: u64 = 384 << 10;

/// Runs `amn` with limited memory, and at most a minute of CPU time.
fn bounded(folder: &Folder, line: &str) -> Run {
    let script = format!("ulimit -v {MOST_KIB}; ulimit -t 60; exec \"$0\" {line}");
    Run::of(Command::new("sh").args(["-c", &script]).arg(program()).current_dir(folder.root()).output().unwrap())
}

/// A model of one small weight for each name.
fn model(folder: &Folder, names: impl Iterator<Item = String>) {
    let entry = |(index, name): (usize, String)| {
        (name, json!({"dtype": "F32", "shape": [1, 1], "data_offsets": [4 * index, 4 * index + 4]}))
    };
    let header: serde_json::Map<_, _> = names.enumerate().map(entry).collect();
    let values = vec![0; 4 * header.len()];
    let header = Value::Object(header).to_string();
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &values].concat();
    fs::write(folder.path("model.safetensors"), file).unwrap();
}

/// A model whose configuration has these targets.
fn with_targets(names: impl Iterator<Item = String>, targets: &[String]) -> Folder {
    let folder = Folder::empty();
    model(&folder, names);
    let weights = json!({"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": true});
    let config = json!({"quantization_config": {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {"all": {"targets": targets, "weights": weights}},
    }});
    fs::write(folder.path("config.json"), config.to_string()).unwrap();
    folder
}

/// A sparse file of `bytes` bytes.
fn sparse(folder: &Folder, name: &str, head: &[u8], bytes: u64) {
    fs::write(folder.path(name), head).unwrap();
    fs::File::options().write(true).open(folder.path(name)).unwrap().set_len(bytes).unwrap();
}

#[test]
fn expressions_match_in_linear_time_or_are_refused() {
    let names = || (0..2000).map(|layer| format!("layers.{layer}.{}.weight", "a".repeat(200)));
    // None of these matches; all of them cause backtracking in other engines.
    let slow: Vec<_> = (0..100).map(|number| format!("re:{}{number}b", ".*a".repeat(60))).collect();
    bounded(&with_targets(names(), &slow), "inspect model.safetensors").ok();
    // None of these weights is quantised, so invalid targets do not matter.
    for target in ["re:.*a.{20}b".to_owned(), "re:((a{100}){100}){100}".to_owned(), format!("re:{}", ".*a".repeat(330))]
    {
        bounded(&with_targets(names(), &[target]), "inspect model.safetensors").ok();
    }
    // More than a thousand expressions, and fewer with very long names.
    let many: Vec<_> = (0..2000).map(|number| format!("re:.*x{number}.*")).collect();
    bounded(&with_targets(names(), &many), "inspect model.safetensors").ok();
    let long = (0..40).map(|layer| format!("{layer}.{}.weight", "a.".repeat(100_000)));
    let error = bounded(&with_targets(long, &many[..900]), "remember model.safetensors -o out.safetensors").refused();
    assert!(error.contains("too many, or too complex"), "{error}");
}

#[test]
fn large_option_files_are_refused_or_not_loaded() {
    let folder = Folder::empty();
    model(&folder, ["a.weight".to_owned()].into_iter());
    sparse(&folder, "large.json", b"{", 20 << 30);
    fs::write(folder.path("many.json"), format!("{{\"a\": [{}0]}}", "0,".repeat(10 << 20))).unwrap();
    sparse(&folder, "zeros.dat", b"", 20 << 30);
    // One entry of 2^31 - 1 values, and a name of as many bytes.
    let entry =
        [1i32.to_le_bytes(), 1i32.to_le_bytes(), *b"a\x01\0\0", [0, 0xff, 0xff, 0xff], [0x7f, 0, 0, 0]].concat();
    sparse(&folder, "values.dat", &entry, 20 << 30);
    sparse(&folder, "name.dat", &[1i32.to_le_bytes(), i32::MAX.to_le_bytes()].concat(), 20 << 30);
    sparse(&folder, "many.dat", &i32::MAX.to_le_bytes(), 20 << 30);
    symlink("/dev/zero", folder.path("zero")).unwrap();
    for name in ["large.json", "many.json", "zero", "."] {
        let line = format!("convert model.safetensors --to gguf --keep-names -o out.gguf --gguf-metadata {name}");
        bounded(&folder, &line).refused();
    }
    for name in ["zeros.dat", "values.dat", "name.dat", "many.dat", "zero", "."] {
        bounded(&folder, &format!("convert model.safetensors --to q4_0 -o out.gguf --imatrix {name}")).refused();
    }
    assert!(!folder.path("out.gguf").exists());
}

#[test]
fn sidecars_that_are_not_regular_files_are_named() {
    let folder = Folder::empty();
    model(&folder, ["a.weight".to_owned()].into_iter());
    type Make = fn(&Folder);
    let cases: [(&str, Make); 4] = [
        ("a pipe", |folder| {
            assert!(Command::new("mkfifo").arg(folder.path("config.json")).status().unwrap().success());
        }),
        ("zeros for ever", |folder| symlink("/dev/zero", folder.path("config.json")).unwrap()),
        ("a circle", |folder| symlink("config.json", folder.path("config.json")).unwrap()),
        ("a terabyte", |folder| sparse(folder, "config.json", b"{", 1 << 40)),
    ];
    for (case, make) in cases {
        make(&folder);
        for command in ["inspect model.safetensors", "inspect .", "verify ."] {
            let run = bounded(&folder, command);
            assert!(run.code.is_some_and(|code| code < 3), "{case}, {command}: {run:?}");
            assert!((run.stdout + &run.stderr).contains("config.json"), "{case}, {command}");
        }
        fs::remove_file(folder.path("config.json")).unwrap();
    }
}

#[test]
fn documents_of_too_many_values_are_refused_before_allocation() {
    let folder = Folder::empty();
    fs::create_dir(folder.path("model")).unwrap();
    model(&folder, ["model.embed_tokens.weight".to_owned()].into_iter());
    fs::rename(folder.path("model.safetensors"), folder.path("model/model.safetensors")).unwrap();
    let values = "0,".repeat(7 << 20);
    let config = format!("{{\"architectures\": [\"LlamaForCausalLM\"], \"a\": [{values}0]}}");
    fs::write(folder.path("model/config.json"), config).unwrap();
    for line in ["convert model --to gguf -o out.gguf", "remember model -o out", "convert model --to bnb-nf4 -o out"] {
        let error = bounded(&folder, line).refused();
        assert!(error.contains("config.json") && error.contains("values"), "{line}: {error}");
    }
    fs::write(folder.path("model/config.json"), "{}").unwrap();
    let files = (0..2_000_000).map(|number| format!("\"{number:x}\":\"{number:x}\","));
    let index = format!("{{\"weight_map\": {{{}\"a\":\"a\"}}}}", files.collect::<String>());
    fs::write(folder.path("model/model.safetensors.index.json"), index).unwrap();
    let error = bounded(&folder, "inspect model").refused();
    assert!(error.contains("index.json") && error.contains("values"), "{error}");
}

#[test]
fn pickles_of_nothing_but_lists_take_little_memory() {
    let folder = Folder::empty();
    fs::write(folder.path("lists.bin"), [&b"\x80\x02"[..], &b"]".repeat(63 << 20)].concat()).unwrap();
    let run = bounded(&folder, "scan lists.bin");
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stdout.contains("MAX_PICKLE_WORKING_SET"), "{run:?}");
}

#[test]
fn a_directory_of_very_many_files_is_copied_whole() {
    const FILES: usize = 1000;
    let folder = Folder::empty();
    fs::create_dir(folder.path("model")).unwrap();
    model(&folder, ["a.weight".to_owned()].into_iter());
    fs::rename(folder.path("model.safetensors"), folder.path("model/model.safetensors")).unwrap();
    for number in 0..FILES {
        fs::write(folder.path("model").join(format!("{number}.txt")), "x").unwrap();
    }
    let run = bounded(&folder, "convert model --to safetensors -o out");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(
        fs::read_dir(folder.path("out")).unwrap().filter(|entry| is_copy(entry.as_ref().unwrap())).count(),
        FILES
    );
}

fn is_copy(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().ends_with(".txt")
}
