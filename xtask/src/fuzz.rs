//! Runs all fuzz targets: `cargo xtask fuzz --minutes N [target ...]`.
//!
//! The targets are built without cargo-fuzz by a nightly compiler, with coverage and without a sanitizer. They run one after
//! another, each for its share of the time, on a corpus that begins with the seeds of `crates/promises` and is kept in
//! `fuzz/corpus`. A crash, an input of more than one second or more memory than [`MEMORY_MB`] fails the run. The table at
//! the end is of all logs in `fuzz/logs`; no minutes print it and run nothing.

use std::fs::{self, File};
use std::io::Write;
use std::process::Command;
use std::str::FromStr;

use crate::cargo;

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// Bytes of the process: the compiled program with its tables, the corpus, and one run.
const MEMORY_MB: u32 = 256;
/// Packages whose edges are counted: readers and schemes. Kernels have few branches, and are fast without.
const COUNTED: [&str; 2] = ["anamnesis", "anamnesis-promises"];
const COUNTING: [&str; 4] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
];
/// Seconds for an input of any length, at most 64 KiB.
const TIMEOUT: u32 = 1;
/// Seconds after its time that a target may take to end.
const GRACE: u64 = 60;

/// A target, the length of its longest inputs and its dictionary.
pub(crate) struct Target {
    pub(crate) name: String,
    max_len: u32,
    dictionary: Option<String>,
}

pub(crate) fn run() -> Result<(), String> {
    let (minutes, targets) = chosen("--minutes", 10.0)?;
    let seconds = (minutes * 60.0 / targets.len() as f64) as u64;
    if seconds > 0 {
        write_seeds("fuzz/corpus")?;
        build(&targets)?;
    }
    let mut failed = Vec::new();
    for target in &targets {
        if !fuzz(target, seconds)? {
            failed.push(target.name.clone());
        }
    }
    let mut total = 0;
    println!("| target | executions | peak memory | slowest input |\n|---|---|---|---|");
    for Target { name, .. } in &targets {
        let text = fs::read_to_string(log_of(name)).unwrap_or_default();
        let peak = numbers(&text, "peak_rss_mb").max().unwrap_or_default();
        let slowest = numbers(&text, "slowest_unit_time_sec").max().unwrap_or_default();
        let executions: u64 = numbers(&text, "number_of_executed_units").sum();
        println!(
            "| `{name}` | {executions} | {peak} MB | {} |",
            if slowest == 0 { "< 1 s".to_owned() } else { format!("{slowest} s") }
        );
        total += executions;
    }
    println!("{total} executions");
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}; see fuzz/logs and fuzz/artifacts", failed.join(", "))),
    }
}

/// Writes the seeds of all targets into a folder, one folder each.
pub(crate) fn write_seeds(folder: &str) -> Result<(), String> {
    cargo(&["run", "--quiet", "-p", "anamnesis-promises", "--example", "seeds", "--", folder])
}

fn log_of(target: &str) -> String {
    format!("fuzz/logs/{target}.log")
}

/// The values of a statistic that libFuzzer prints at the end of every run.
fn numbers<'a>(log: &'a str, statistic: &'a str) -> impl Iterator<Item = u64> + 'a {
    let values =
        log.lines().filter_map(move |line| line.strip_prefix("stat::")?.strip_prefix(statistic)?.strip_prefix(':'));
    values.filter_map(|number| number.trim().parse().ok())
}

/// The arguments of the task: the number of an option, and the named targets, or all.
pub(crate) fn chosen<T: FromStr>(option: &str, default: T) -> Result<(T, Vec<Target>), String> {
    let mut arguments = std::env::args().skip(2);
    let (mut number, mut names) = (default, Vec::new());
    while let Some(argument) = arguments.next() {
        if argument == option {
            number = arguments.next().and_then(|text| text.parse().ok()).ok_or(format!("{option} N"))?;
        } else {
            names.push(argument);
        }
    }
    let mut targets = targets()?;
    if let Some(unknown) = names.iter().find(|name| !targets.iter().any(|target| target.name == **name)) {
        return Err(format!("no target is named {unknown}"));
    }
    targets.retain(|target| names.is_empty() || names.contains(&target.name));
    Ok((number, targets))
}

/// The targets, as the list of promises has them.
fn targets() -> Result<Vec<Target>, String> {
    let list = "crates/promises/src/targets.rs";
    let text = fs::read_to_string(list).map_err(|error| format!("{list}: {error}"))?;
    let lines = text.lines().skip_while(|line| *line != "targets! {");
    Ok(lines
        .filter_map(|line| {
            let mut words = line.strip_prefix("    ")?.strip_suffix(',')?.split(' ');
            let (name, _, length) = (words.next()?.to_owned(), words.next()?, words.next()?);
            let dictionary = words.next().filter(|name| *name != "none").map(str::to_owned);
            Some(Target { name, max_len: length.parse().ok()?, dictionary })
        })
        .collect())
}

/// Builds the targets with a nightly compiler.
fn build(targets: &[Target]) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "build", "--release", "--target", TRIPLE, "--manifest-path", "fuzz/Cargo.toml"]);
    command.args(targets.iter().flat_map(|target| ["--bin", &target.name]));
    command.arg("-Zprofile-rustflags");
    for package in COUNTED {
        command.args(["--config", &format!("profile.release.package.{package}.rustflags={COUNTING:?}")]);
    }
    // The variables of the cargo that runs this task name another compiler.
    command.env("RUSTFLAGS", "--cfg fuzzing").env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    let status = command.status().map_err(|error| format!("cargo +nightly: {error}"))?;
    if status.success() { Ok(()) } else { Err("the fuzz targets were not built".to_owned()) }
}

/// Runs one target; an input that was too slow is tried again alone, because other programs may have taken the time.
fn fuzz(target: &Target, seconds: u64) -> Result<bool, String> {
    let Target { name, max_len, dictionary } = target;
    let program = format!("fuzz/target/{TRIPLE}/release/{name}");
    let (corpus, artifacts, log) = (format!("fuzz/corpus/{name}"), format!("fuzz/artifacts/{name}/"), log_of(name));
    for folder in [&corpus, &artifacts, "fuzz/logs"] {
        fs::create_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
    }
    let mut left = seconds;
    let mut file = File::options().create(true).append(true).open(&log).map_err(|error| format!("{log}: {error}"))?;
    while left > 0 {
        let start = std::time::Instant::now();
        // It is killed if it does not end by itself: libFuzzer allocates in its alarm, which can come during an allocation.
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", &(left + GRACE).to_string(), &program]);
        command.args([corpus.clone(), format!("-max_total_time={left}"), format!("-max_len={max_len}")]);
        command.args([format!("-timeout={TIMEOUT}"), format!("-rss_limit_mb={MEMORY_MB}")]);
        command.args(["-print_final_stats=1".to_owned(), format!("-artifact_prefix={artifacts}")]);
        command.args(dictionary.iter().map(|name| format!("-dict=fuzz/dictionaries/{name}.dict")));
        let output = command.output().map_err(|error| format!("{program}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        file.write_all(text.as_bytes()).map_err(|error| format!("{log}: {error}"))?;
        if output.status.success() {
            break;
        }
        let slow = text.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path.trim());
        let alone = slow.filter(|path| path.contains("timeout-") || path.contains("slow-unit-"));
        if !alone.is_some_and(|path| is_fast(&program, path)) {
            return Ok(false);
        }
        left = left.saturating_sub(start.elapsed().as_secs().max(1));
    }
    Ok(true)
}

/// Whether an input takes less than the limit, by the time of the processor.
fn is_fast(program: &str, input: &str) -> bool {
    let output = Command::new(program).args([input, &format!("-timeout={}", 20 * TIMEOUT)]).output();
    let Ok(output) = output else { return false };
    let text = String::from_utf8_lossy(&output.stderr);
    let milliseconds = text.lines().find_map(|line| line.split(" in ").nth(1)?.split(' ').next()?.parse::<u64>().ok());
    println!("{input} alone: {} ms", milliseconds.map_or("?".to_owned(), |time| time.to_string()));
    output.status.success() && milliseconds.is_some_and(|time| time < 1000 * u64::from(TIMEOUT))
}
