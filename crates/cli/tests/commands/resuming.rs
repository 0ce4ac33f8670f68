//! Resuming interrupted conversions.

use std::fs;

use crate::checkpoint::{self, NAME, SMALL, Tensor, assert_same_files, shard_name};
use crate::folder::Run;

#[test]
fn finished_shards_are_kept_and_the_missing_ones_are_written() {
    let folder = checkpoint::folder();
    let line = format!("remember {NAME} {SMALL} -o out");
    folder.amn(&format!("remember {NAME} {SMALL} -o whole")).ok();
    folder.amn(&format!("{line} --part 1/2")).ok();
    let output = folder.path("out");
    let finished: Vec<_> = (1..=6).filter(|&number| output.join(shard_name(number, 6)).is_file()).collect();
    assert_eq!(finished.len(), 3);
    let modified = |number: &usize| fs::metadata(output.join(shard_name(*number, 6))).unwrap().modified().unwrap();
    let times: Vec<_> = finished.iter().map(modified).collect();
    let problems = folder.amn("verify out");
    assert_eq!(problems.code, Some(1));
    assert!(problems.stdout.contains("has not been written yet"), "{problems:?}");
    let text = folder.amn(&line).ok();
    assert!(text.contains("\n  3 shards written, 3 kept from an earlier run\n"), "{text}");
    assert_same_files(&output, &folder.path("whole"));
    assert_eq!(finished.iter().map(modified).collect::<Vec<_>>(), times);
}

#[test]
fn a_finished_directory_has_what_loaders_need_and_a_second_run_finds_it() {
    let folder = checkpoint::folder();
    let line = format!("remember {NAME} {SMALL} -o out");
    folder.amn(&line).ok();
    let output = folder.path("out");
    let before = checkpoint::files(&output);
    assert!(before.keys().all(|name| !name.starts_with('.')), "{:?}", before.keys());
    let document = folder.amn(&format!("{line} --json")).json();
    assert_eq!((document["written"].as_array().unwrap().len(), document["kept"].as_array().unwrap().len()), (0, 6));
    let text = folder.amn(&format!("{line} --part 2/3")).ok();
    assert!(text.contains("0 shards written, 2 kept"), "{text}");
    // A single different value makes it a different directory.
    let shard = output.join(shard_name(3, 6));
    let mut bytes = fs::read(&shard).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&shard, bytes).unwrap();
    assert!(folder.amn(&line).failed().contains("is not empty"));
    let text = folder.amn(&format!("{line} --force")).ok();
    assert!(text.contains("\n  6 shards written\n"), "{text}");
    assert!(checkpoint::files(&output) == before);
}

#[test]
fn the_last_part_removes_the_manifest() {
    let folder = checkpoint::folder();
    folder.amn(&format!("remember {NAME} {SMALL} -o whole")).ok();
    for order in [["1/2", "2/2"], ["2/2", "1/2"]] {
        let line = format!("remember {NAME} {SMALL} -o out --part");
        folder.amn(&format!("{line} {}", order[0])).ok();
        assert!(folder.path("out/.anamnesis.json").is_file());
        folder.amn(&format!("{line} {}", order[1])).ok();
        assert_same_files(&folder.path("out"), &folder.path("whole"));
        fs::remove_dir_all(folder.path("out")).unwrap();
    }
    let children: Vec<_> = (1..=4)
        .map(|part| folder.command(&format!("remember {NAME} {SMALL} -o out --part {part}/4 --quiet")).spawn().unwrap())
        .collect();
    assert!(children.into_iter().all(|mut child| child.wait().unwrap().success()));
    assert_same_files(&folder.path("out"), &folder.path("whole"));
}

#[test]
fn leftovers_of_a_killed_run_are_removed() {
    let folder = checkpoint::folder();
    let line = format!("remember {NAME} {SMALL} -o out");
    folder.amn(&format!("remember {NAME} {SMALL} -o whole")).ok();
    folder.amn(&format!("{line} --part 2/2")).ok();
    let missing = (1..=6).find(|&number| !folder.path("out").join(shard_name(number, 6)).is_file()).unwrap();
    fs::write(folder.path("out").join(format!(".{}.x1y2z3.partial", shard_name(missing, 6))), "half").unwrap();
    fs::write(folder.path("out").join(".config.json.x1y2z3.partial"), "half").unwrap();
    folder.amn(&line).ok();
    assert_same_files(&folder.path("out"), &folder.path("whole"));
    fs::write(folder.path(".one.safetensors.x1y2z3.partial"), "half").unwrap();
    folder.amn(&format!("remember {NAME} -o one.safetensors")).ok();
    assert!(folder.names().iter().all(|name| !name.ends_with(".partial")), "{:?}", folder.names());
}

#[test]
fn a_refused_input_does_not_block_the_suggested_command() {
    let folder = checkpoint::folder();
    let mut shards = checkpoint::shards();
    shards[1].push(Tensor::f32("model.layers.9.mlp.weight", [64, 64], f32::NAN));
    checkpoint::write(&folder.path(NAME), &shards);
    let line = format!("forget {NAME} --to nf4 {SMALL} -o out");
    let error = folder.amn(&line).failed();
    assert!(error.contains("--allow-nonfinite"), "{error}");
    assert_eq!(folder.names(), [NAME]);
    folder.amn(&format!("{line} --allow-nonfinite")).ok();
    assert!(checkpoint::files(&folder.path("out")).keys().all(|name| !name.starts_with('.')));
}

#[test]
fn equal_concurrent_commands_leave_one_complete_output() {
    let folder = checkpoint::folder();
    for line in [
        format!("remember {NAME} {SMALL} -o out"),
        format!("remember {NAME} -o out.safetensors"),
        format!("convert {NAME} --to gguf --keep-names --split-max-tensors 2 -o out.gguf"),
        format!("convert {NAME} --to gguf --keep-names --split-max-tensors 2 -o out.gguf --force"),
    ] {
        let whole = crate::checkpoint::folder();
        whole.amn(&line).ok();
        for _ in 0..4 {
            let children: Vec<_> = (0..3)
                .map(|_| {
                    let mut command = folder.command(&line);
                    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
                    command.spawn().unwrap()
                })
                .collect();
            let runs: Vec<_> = children.into_iter().map(|child| Run::of(child.wait_with_output().unwrap())).collect();
            assert!(runs.iter().any(|run| run.code == Some(0)), "{runs:?}");
            for run in runs.iter().filter(|run| run.code != Some(0)) {
                let reasons = ["exists already", "another process is writing", "is not empty", "File exists"];
                assert!(reasons.iter().any(|reason| run.stderr.contains(reason)), "{run:?}");
            }
            assert_eq!(folder.names(), whole.names(), "{line}");
            for name in whole.names() {
                let (found, wanted) = (folder.path(&name), whole.path(&name));
                match found.is_dir() {
                    true => assert_same_files(&found, &wanted),
                    false => assert!(fs::read(&found).unwrap() == fs::read(&wanted).unwrap(), "{name}"),
                }
                if name != NAME {
                    let _ = if found.is_dir() { fs::remove_dir_all(found) } else { fs::remove_file(found) };
                }
            }
        }
    }
}
