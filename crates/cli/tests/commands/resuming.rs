//! Conversions that were stopped, and go on.

use std::fs;

use crate::checkpoint::{self, NAME, SMALL, shard_name};

#[test]
fn finished_shards_are_kept_and_the_missing_one_is_written_again() {
    let folder = checkpoint::folder();
    let line = format!("remember {NAME} {SMALL} -o out");
    folder.amn(&line).ok();
    let output = folder.path("out");
    let before = checkpoint::files(&output);
    let modified = |number| fs::metadata(output.join(shard_name(number, 6))).unwrap().modified().unwrap();
    let times = [1, 2, 4, 5, 6].map(modified);
    fs::remove_file(output.join(shard_name(3, 6))).unwrap();
    let problems = folder.amn("verify out");
    assert_eq!(problems.code, Some(1));
    assert!(problems.stdout.contains("has not been written yet"), "{problems:?}");
    let text = folder.amn(&line).ok();
    assert!(text.contains("\n  1 shard written, 5 kept from an earlier run\n"), "{text}");
    assert!(checkpoint::files(&output) == before);
    assert_eq!([1, 2, 4, 5, 6].map(modified), times);
    let document = folder.amn(&format!("{line} --json")).json();
    assert_eq!((document["written"].as_array().unwrap().len(), document["kept"].as_array().unwrap().len()), (0, 6));
    let text = folder.amn(&format!("{line} --force")).ok();
    assert!(text.contains("\n  6 shards written\n"), "{text}");
    assert!(checkpoint::files(&output) == before);
}

#[test]
fn leftovers_of_a_killed_run_are_removed() {
    let folder = checkpoint::folder();
    let line = format!("remember {NAME} {SMALL} -o out");
    folder.amn(&line).ok();
    let whole = checkpoint::files(&folder.path("out"));
    fs::remove_file(folder.path("out").join(shard_name(3, 6))).unwrap();
    fs::write(folder.path("out").join(format!(".{}.x1y2z3.partial", shard_name(3, 6))), "half").unwrap();
    fs::write(folder.path("out").join(".config.json.x1y2z3.partial"), "half").unwrap();
    folder.amn(&line).ok();
    assert!(checkpoint::files(&folder.path("out")) == whole);
}
