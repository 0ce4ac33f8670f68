//! `AMN_CPU`: the CPU instructions that conversions use.

use std::fs;

use anamnesis::CpuLevel;

use crate::folder::{Folder, MODEL, Run};
use crate::samples;

fn amn(folder: &Folder, cpu: &str, line: &str) -> Run {
    Run::of(folder.command(line).env("AMN_CPU", cpu).output().unwrap())
}

#[test]
fn every_level_writes_the_same_bytes_and_verbose_names_it() {
    let folder = samples::folder();
    for line in
        ["remember model-fp8.safetensors", "convert model.gguf --to bnb-nf4", "forget plain.safetensors --to bnb-int8"]
    {
        let run = amn(&folder, "", &format!("{line} -o best --force --verbose"));
        assert!(run.stderr.contains(&format!("\nCPU level {}\n", CpuLevel::detect())), "{run:?}");
        let best = fs::read(folder.path("best")).unwrap();
        for level in CpuLevel::available() {
            let run = amn(&folder, level.name(), &format!("{line} -o out --force --verbose"));
            assert!(run.code == Some(0) && run.stderr.contains(&format!("\nCPU level {level}\n")), "{run:?}");
            assert!(fs::read(folder.path("out")).unwrap() == best, "{line} at {level}");
        }
    }
    let run = amn(&folder, "portable", "remember Tiny-3.1-FP8 -o out-of-directory --verbose");
    assert!(run.code == Some(0) && run.stderr.contains("\nCPU level portable\n"), "{run:?}");
    let run = amn(&folder, "portable", &format!("remember {MODEL} -o out --force"));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
}

#[test]
fn an_unavailable_level_is_a_usage_error_that_lists_the_available_ones() {
    let folder = Folder::with_model();
    let names: Vec<_> = CpuLevel::available().map(CpuLevel::name).collect();
    for level in
        ["v9", "V3", "portable "].into_iter().chain(["v3", "v4"].into_iter().filter(|name| !names.contains(name)))
    {
        let run = amn(&folder, level, &format!("remember {MODEL}"));
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{run:?}");
        assert!(run.stderr.starts_with("error: AMN_CPU: ") && run.stderr.contains(&names.join(", ")), "{run:?}");
        let run = amn(&folder, level, "formats --json");
        assert!(run.code == Some(2) && run.stderr.contains("\"kind\":\"usage\""), "{run:?}");
    }
    assert_eq!(folder.names(), ["config.json", MODEL]);
}
