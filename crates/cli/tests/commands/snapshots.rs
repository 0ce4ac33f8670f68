//! The output of every command, as text and as JSON: `tests/snapshots` has a transcript per command.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::folder::Folder;
use crate::samples;
use crate::transcript::{Kind, replay, updates};

#[test]
fn commands_print_the_snapshots() {
    let mut faults = Vec::new();
    let mut commands = BTreeSet::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let (found, wrong) = replay(&text, Kind::Snapshot, &samples::folder());
        if updates() {
            fs::write(&path, found).unwrap();
        } else {
            faults.extend(wrong.into_iter().map(|fault| format!("{}: {fault}", path.display())));
        }
        let lines = text.lines().filter_map(|line| line.strip_prefix("$ amn "));
        commands.extend(lines.filter_map(|line| line.split(' ').next().map(str::to_owned)));
    }
    assert!(faults.is_empty(), "{}\n\nAMN_UPDATE=1 writes the snapshots anew", faults.join("\n\n"));
    for command in names() {
        assert!(commands.contains(&command), "no snapshot of amn {command}");
    }
}

/// The commands in the help.
pub fn names() -> Vec<String> {
    let help = Folder::empty().amn("--help").ok();
    let list = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    let names = list.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}
