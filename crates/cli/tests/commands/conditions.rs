//! Outputs under other conditions: umask, locale, clock, limits of the system, inputs that change while they are read,
//! several processes with one output.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::checkpoint::{self, NAME, SMALL, Tensor, assert_same_files};
use crate::folder::{Folder, Run, program};

/// Commands that write one file each.
const LINES: [&str; 4] = [
    "remember model.safetensors -o out/a.safetensors",
    "convert model.safetensors --to gguf --split-max-tensors 4 -o out/b.gguf",
    "show model.safetensors model.norm.weight -o out/c.npy",
    "hash model.safetensors -o out/d.sha256",
];

fn folder() -> Folder {
    let folder = checkpoint::folder();
    fs::write(folder.path("model.safetensors"), checkpoint::safetensors(&checkpoint::shards().concat())).unwrap();
    fs::create_dir(folder.path("out")).unwrap();
    folder
}

/// Runs `amn` in a shell after `prelude`.
fn shell(folder: &Folder, prelude: &str, line: &str) -> Run {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{prelude}; exec \"$0\" {line}")).arg(program());
    shell.current_dir(folder.root()).env("TMPDIR", folder.root()).env_remove("COLUMNS");
    let output = shell.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn outputs_have_the_permissions_that_the_umask_leaves() {
    for (umask, file_mode, folder_mode) in [("077", 0o600, 0o700), ("022", 0o644, 0o755), ("000", 0o666, 0o777)] {
        let folder = folder();
        for line in LINES {
            shell(&folder, &format!("umask {umask}"), line).ok();
        }
        shell(&folder, &format!("umask {umask}"), &format!("remember {NAME} {SMALL} -o out/whole")).ok();
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let mut files = 0;
        for directory in ["out", "out/whole"] {
            for entry in fs::read_dir(folder.path(directory)).unwrap().map(|entry| entry.unwrap().path()) {
                let wanted = if entry.is_dir() { folder_mode } else { file_mode };
                assert_eq!(mode(&entry), wanted, "{} {umask}", entry.display());
                files += 1;
            }
        }
        assert!(files > 12, "{files}");
    }
}

#[test]
fn neither_locale_nor_clock_changes_a_byte() {
    let (plain, other) = (folder(), folder());
    let input = fs::File::options().write(true).open(other.path("model.safetensors")).unwrap();
    for (locale, time) in [("C", 1), ("tr_TR.UTF-8", 4_102_444_800), ("de_DE.ISO-8859-1", 0)] {
        input.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(time)).unwrap();
        let prelude = format!("export LC_ALL={locale} LANG={locale} TZ=Pacific/Apia");
        for line in LINES.iter().copied().chain(["inspect model.safetensors --json", "parse model.safetensors --list"])
        {
            let line = if line.contains(" -o ") { format!("{line} --force") } else { line.to_owned() };
            let wanted = plain.amn(&line).ok();
            let found = shell(&other, &prelude, &line).ok();
            assert_eq!(found, wanted, "{locale}: {line}");
        }
        assert_same_files(&other.path("out"), &plain.path("out"));
    }
}

#[test]
fn few_file_handles_are_enough_or_named() {
    let folder = Folder::empty();
    let shard = |number: usize| vec![Tensor::fp8(&format!("layers.{number}.weight"), [16, 16], number)];
    let scale = |number: usize| Tensor::f32(&format!("layers.{number}.weight_scale_inv"), [1, 1], 0.5);
    let mut shards: Vec<_> = (0..60).map(shard).collect();
    shards.push((0..60).map(scale).collect());
    checkpoint::write(&folder.path(NAME), &shards);
    folder.amn(&format!("remember {NAME} {SMALL} -o whole")).ok();
    let mut failures = 0;
    for handles in [4, 6, 8, 12, 16, 32, 64, 128, 256] {
        let line = format!("remember {NAME} {SMALL} -o out --threads 2");
        let run = shell(&folder, &format!("ulimit -n {handles}"), &line);
        if run.code != Some(0) {
            assert!(run.code == Some(1) || handles < 6, "{handles}: {run:?}");
            assert!(run.stderr.contains("Too many open files") || handles < 6, "{handles}: {run:?}");
            failures += 1;
            folder.amn(&line).ok();
        }
        assert_same_files(&folder.path("out"), &folder.path("whole"));
        fs::remove_dir_all(folder.path("out")).unwrap();
    }
    assert!((1..9).contains(&failures), "{failures}");
}

/// The standard library aborts a process that gets no memory; the output is the old one then.
#[test]
fn too_little_memory_leaves_the_old_output() {
    let folder = folder();
    folder.amn("remember model.safetensors --to f32 -o out/a.safetensors").ok();
    folder.amn("remember model.safetensors -o out/b.safetensors").ok();
    let [old, new] = ["out/a.safetensors", "out/b.safetensors"].map(|name| fs::read(folder.path(name)).unwrap());
    let (mut failures, mut successes) = (0, 0);
    let mut kilobytes = 16 << 10;
    while successes < 2 {
        fs::write(folder.path("out/a.safetensors"), &old).unwrap();
        let line = "remember model.safetensors -o out/a.safetensors --force --threads 2";
        let run = shell(&folder, &format!("ulimit -v {kilobytes}"), line);
        let found = fs::read(folder.path("out/a.safetensors")).unwrap();
        match run.code {
            Some(0) => assert!(found == new, "{kilobytes} KB"),
            code => {
                assert!(found == old, "{kilobytes} KB: {run:?}");
                // 127: not even the loader has enough. Killed otherwise.
                assert!(code == Some(1) || !run.stderr.is_empty() || code.is_none(), "{kilobytes} KB: {run:?}");
            }
        }
        assert_eq!(checkpoint::files(&folder.path("out")).len(), 2, "{kilobytes} KB: {run:?}");
        failures += usize::from(run.code != Some(0));
        successes += usize::from(run.code == Some(0));
        kilobytes += kilobytes / 16;
        assert!(kilobytes < 4 << 20, "4 GB are not enough");
    }
    assert!(failures > 2, "{failures}");
}

#[test]
fn a_limit_on_file_sizes_is_named_and_leaves_nothing() {
    let folder = folder();
    for line in LINES.iter().copied().take(2) {
        let run = shell(&folder, "trap '' XFSZ; ulimit -f 1", line);
        assert!(run.code == Some(1) && run.stderr.contains("File too large"), "{run:?}");
        assert_eq!(fs::read_dir(folder.path("out")).unwrap().count(), 0, "{line}");
    }
}

/// A file of ordinary numbers that takes a while to convert.
fn large(folder: &Folder, name: &str, value: f32) {
    let tensors: Vec<_> = (0..16).map(|layer| Tensor::f32(&format!("layer.{layer}"), [1024, 512], value)).collect();
    fs::write(folder.path(name), checkpoint::safetensors(&tensors)).unwrap();
}

#[test]
fn an_input_truncated_while_it_is_read_is_an_error() {
    let folder = Folder::empty();
    large(&folder, "whole.safetensors", 0.5);
    let line = "convert large.safetensors --to npz -o out.npz --threads 1";
    let mut failures = 0;
    for delay in [1, 5, 10, 20, 40, 80, 160, 320] {
        fs::copy(folder.path("whole.safetensors"), folder.path("large.safetensors")).unwrap();
        let child = folder.command(line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        fs::File::options().write(true).open(folder.path("large.safetensors")).unwrap().set_len(1 << 20).unwrap();
        let run = Run::of(child.wait_with_output().unwrap());
        if run.code == Some(0) {
            folder.amn("convert whole.safetensors --to npz -o whole.npz --force").ok();
            assert!(fs::read(folder.path("out.npz")).unwrap() == fs::read(folder.path("whole.npz")).unwrap());
            fs::remove_file(folder.path("out.npz")).unwrap();
            continue;
        }
        assert!(run.failed().contains("large.safetensors"));
        assert!(!folder.path("out.npz").exists());
        failures += 1;
    }
    assert!(failures > 0, "no truncation came in time");
}

#[test]
fn an_input_replaced_while_it_is_read_gives_one_of_both_or_an_error() {
    let folder = Folder::empty();
    let mut wanted = Vec::new();
    for (name, value) in [("first", 0.5), ("second", 0.25)] {
        large(&folder, &format!("{name}.safetensors"), value);
        folder.amn(&format!("convert {name}.safetensors --to npz -o {name}.npz")).ok();
        wanted.push(fs::read(folder.path(&format!("{name}.npz"))).unwrap());
    }
    for delay in [1, 5, 10, 20, 40, 80, 160] {
        fs::copy(folder.path("first.safetensors"), folder.path("large.safetensors")).unwrap();
        fs::copy(folder.path("second.safetensors"), folder.path("new.safetensors")).unwrap();
        let line = "convert large.safetensors --to npz -o out.npz --threads 2";
        let child = folder.command(line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        fs::rename(folder.path("new.safetensors"), folder.path("large.safetensors")).unwrap();
        let run = Run::of(child.wait_with_output().unwrap());
        if run.code == Some(0) {
            let found = fs::read(folder.path("out.npz")).unwrap();
            assert!(wanted.contains(&found), "a mix of both after {delay} ms");
            fs::remove_file(folder.path("out.npz")).unwrap();
        } else {
            assert!(run.failed().contains("large.safetensors"));
            assert!(!folder.path("out.npz").exists());
        }
    }
}

#[test]
fn different_commands_with_one_output_leave_one_of_both() {
    let folder = folder();
    let commands = ["remember model.safetensors --to f32", "remember model.safetensors"];
    let lines = commands.map(|command| format!("{command} -o out/a.safetensors --force --quiet"));
    let mut wanted = Vec::new();
    for line in &lines {
        folder.amn(line).ok();
        wanted.push(fs::read(folder.path("out/a.safetensors")).unwrap());
    }
    let begin = Instant::now();
    let mut rounds = 0;
    while rounds < 8 && begin.elapsed() < Duration::from_secs(20) {
        let children: Vec<_> =
            [0, 1, 0, 1].iter().map(|&which: &usize| folder.command(&lines[which]).spawn().unwrap()).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        assert!(wanted.contains(&fs::read(folder.path("out/a.safetensors")).unwrap()));
        assert_eq!(checkpoint::files(&folder.path("out")).len(), 1);
        rounds += 1;
    }
}
