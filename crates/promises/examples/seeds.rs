//! Writes the seeds of all targets into a folder, one folder each, and the options of each for OSS-Fuzz:
//! `cargo run -p anamnesis-promises --example seeds -- corpus`.

#![allow(clippy::expect_used, reason = "a tool of developers")]

use std::fs;
use std::path::PathBuf;

use anamnesis_promises::{TARGETS, Target, seeds};

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder"));
    for Target { name, max_len, dictionary, .. } in TARGETS {
        let dictionary = dictionary.map_or(String::new(), |name| format!("dict = {name}.dict\n"));
        let options = format!("[libfuzzer]\nmax_len = {max_len}\ntimeout = 1\n{dictionary}");
        fs::create_dir_all(folder.join(name)).expect("a new folder");
        fs::write(folder.join(format!("{name}.options")), options).expect("a new file");
        for (index, seed) in seeds::of(name).iter().enumerate() {
            fs::write(folder.join(name).join(format!("seed-{index:04}")), seed).expect("a new file");
        }
    }
}
