//! Runs one promise on files: `cargo run -p anamnesis-promises --example replay -- TARGET FILE...` repeats what a fuzzer found,
//! without a fuzzer. With `--seconds N` it stops before the first file that begins later than that.

#![allow(clippy::expect_used, reason = "a tool of developers")]

use std::time::{Duration, Instant};

use anamnesis_promises::TARGETS;

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut most = Duration::MAX;
    if arguments.first().is_some_and(|argument| argument == "--seconds") {
        most = Duration::from_secs(arguments[1].parse().expect("a number of seconds"));
        arguments.drain(..2);
    }
    let (name, files) = arguments.split_first().expect("a target");
    let target = TARGETS.iter().find(|target| target.name == name).expect("the name of a target");
    let (start, mut count) = (Instant::now(), 0);
    for file in files {
        if start.elapsed() >= most {
            break;
        }
        let bytes = std::fs::read(file).expect("a file");
        (target.run)(&bytes[..bytes.len().min(target.max_len)]);
        count += 1;
    }
    println!("{name}: {count} of {} inputs, {} s", files.len(), start.elapsed().as_secs());
}
