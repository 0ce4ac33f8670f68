//! Fault injection: each system call of every command that writes fails once, or from then on. The output must be the
//! old or the new one, a failed run must name the cause, and no file may be left that the process could have removed.
//! An interrupted call and one that transfers a part of the bytes are no failures: the output has the same bytes.
//!
//! Up to [`SAMPLE`] calls of a kind by default, with one fault each; all of them, with every fault, with
//! `AMN_FAULTS=all`.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use std::fs::{self, File};
use std::process::Stdio;

use nix::errno::Errno;

use crate::checkpoint::{self, NAME, SMALL};
use crate::components;
use crate::folder::Folder;
use crate::network::serve;
use crate::states::{
    ERRORS, PRINTED, Promise, State, assert_survives_kill, difference, is_staged, is_temporary, restore, state,
    without_temporary,
};
use crate::tracer::{self, Fault, Injection, Kind, Traced};

/// Calls per kind and command that fail by default.
const SAMPLE: usize = 12;

/// The faults of a kind of calls.
fn faults(kind: Kind) -> Vec<Fault> {
    use Fault::{Error, Lasting, Short};
    match kind {
        Kind::Open => vec![Error(Errno::EMFILE), Error(Errno::EACCES), Error(Errno::EIO), Error(Errno::EINTR)],
        Kind::Read => vec![Error(Errno::EIO), Error(Errno::EINTR), Short, Lasting(Errno::EIO)],
        Kind::Write => {
            vec![Error(Errno::ENOSPC), Error(Errno::EINTR), Short, Error(Errno::EIO), Lasting(Errno::ENOSPC)]
        }
        Kind::Size => vec![Error(Errno::ENOSPC), Error(Errno::EIO), Error(Errno::EINTR)],
        Kind::Sync => vec![Error(Errno::EIO), Error(Errno::EINTR), Error(Errno::ENOSPC), Lasting(Errno::EIO)],
        Kind::Rename | Kind::Link | Kind::Make => {
            vec![Error(Errno::EIO), Error(Errno::ENOSPC), Error(Errno::EACCES), Lasting(Errno::EIO)]
        }
        Kind::Remove | Kind::Look => vec![Error(Errno::EIO), Error(Errno::EACCES)],
        Kind::List => vec![Error(Errno::EIO)],
        Kind::Lock => vec![Error(Errno::ENOLCK), Error(Errno::EWOULDBLOCK)],
        Kind::Map => vec![Error(Errno::ENODEV), Error(Errno::ENOMEM)],
        Kind::Memory => vec![Error(Errno::ENOMEM), Lasting(Errno::ENOMEM)],
        Kind::Thread => vec![Error(Errno::EAGAIN), Lasting(Errno::EAGAIN)],
    }
}

/// Whether a fault changes nothing: the call is repeated, or goes on with the rest.
fn is_harmless(injection: Injection) -> bool {
    // The standard library repeats the opening of a file, not of a directory.
    injection.kind != Kind::Open && matches!(injection.fault, Fault::Short | Fault::Error(Errno::EINTR))
}

fn is_all() -> bool {
    std::env::var_os("AMN_FAULTS").is_some_and(|faults| faults == "all")
}

/// A command, its folder, and the state before and after it.
struct Trial<'a> {
    folder: &'a Folder,
    line: &'a str,
    promise: Promise,
    old: State,
    new: State,
    printed: Vec<u8>,
}

impl Trial<'_> {
    fn run(folder: &Folder, line: &str, injection: Option<Injection>) -> Option<Traced> {
        let output = |name| File::create(folder.path(name)).unwrap();
        let mut command = folder.command(line);
        command.stdout(output(PRINTED)).stderr(output(ERRORS)).env("TMPDIR", folder.root());
        tracer::run(command, injection)
    }

    /// Runs the command with a fault.
    fn fails_well(&self, injection: Injection) {
        let Self { folder, line, promise, old, new, printed } = self;
        restore(folder, old);
        let traced = Self::run(folder, line, Some(injection)).unwrap();
        let what = format!("{line}: {injection:?}");
        assert!(!traced.is_stuck, "{what} does not end");
        let message = fs::read_to_string(folder.path(ERRORS)).unwrap();
        let Some(code) = traced.code else {
            // The standard library aborts if there is no memory for a small value.
            let is_named = ["memory allocation of", "Cannot allocate memory"].iter().any(|text| message.contains(text));
            assert!(injection.kind == Kind::Memory && is_named, "{what}: {:?} {message}", traced.signal);
            return match promise {
                Promise::Stream => assert!(state(folder) == *old, "{what}: {}", difference(&state(folder), old)),
                promise => assert_survives_kill(folder, old, new, line, *promise, &what),
            };
        };
        let found = state(folder);
        if code == 0 {
            assert!(found == *new, "{what}: exit 0, and {}", difference(&found, new));
            let is_whole = fs::read(folder.path(PRINTED)).unwrap() == *printed;
            assert!(*promise != Promise::Stream || is_whole, "{what}: exit 0, and a part printed");
            return;
        }
        assert!(!is_harmless(injection), "{what}: exit {code}, {message}");
        assert_eq!(code, 1, "{what}: {message}");
        assert!(traced.is_on_stream || names_cause(&message, injection), "{what}: {message}");
        // Removable files are removed.
        let leftovers: Vec<_> = found.keys().filter(|name| is_temporary(name)).collect();
        if injection.kind == Kind::Rename && matches!(injection.fault, Fault::Lasting(_)) && !leftovers.is_empty() {
            // Files cannot be moved back: all are there, and the message says where.
            for (name, bytes) in old.iter().filter(|(name, _)| !found.contains_key(*name)) {
                let aside = leftovers.iter().find(|aside| found[**aside] == *bytes);
                assert!(aside.is_some_and(|aside| message.contains(aside.as_str())), "{what}: {name}: {message}");
            }
            return;
        }
        assert!(injection.kind == Kind::Remove || leftovers.is_empty(), "{what}: {leftovers:?}");
        let named = without_temporary(&found);
        if found == *old || found == *new || injection.kind == Kind::Remove && (named == *new || named == *old) {
            return;
        }
        // If nothing can be renamed any more, files that were moved into place stay there.
        let is_stuck = injection.kind == Kind::Rename && matches!(injection.fault, Fault::Lasting(_));
        let is_set_file =
            |name: &String| is_staged(name) || old.contains_key(name) || is_stuck && new.contains_key(name);
        let is_set = *promise == Promise::Set && found.keys().all(is_set_file);
        assert!(is_set || *promise == Promise::Resumes, "{what}: exit {code}, and {}", difference(&found, old));
        for (name, bytes) in old {
            assert!(found.get(name) == Some(bytes), "{what}: exit {code}, and {name} is not as it was");
        }
        folder.amn(line).ok();
        assert!(state(folder) == *new, "{what}: after another run, {}", difference(&state(folder), new));
    }
}

/// Whether a message is one line that names the injected error.
fn names_cause(message: &str, injection: Injection) -> bool {
    // The summary is printed to standard error as well if the output is standard output.
    let is_line = message.lines().filter(|line| line.starts_with("error: ")).count() == 1
        && message.lines().last().is_some_and(|line| line.starts_with("error: "));
    let (Fault::Error(error) | Fault::Lasting(error)) = injection.fault else { return is_line };
    let text = std::io::Error::from(error).to_string();
    let cause = text.split(" (os error").next().unwrap();
    let is_named = match error {
        Errno::EWOULDBLOCK if injection.kind == Kind::Lock => message.contains("another process"),
        // The stack of a thread, and a buffer.
        Errno::ENOMEM if ["cannot be started", "out of memory"].iter().any(|text| message.contains(text)) => true,
        _ => message.contains(cause),
    };
    is_line && is_named
}

/// Runs a command with each of its calls of these kinds failing, after `before`. Returns the number of runs.
fn fails_well(folder: &Folder, before: &[&str], line: &str, promise: Promise, kinds: &[Kind]) -> usize {
    restore(folder, &State::new());
    before.iter().for_each(|line| drop(folder.amn(line).ok()));
    let old = state(folder);
    let Some(baseline) = Trial::run(folder, line, None) else {
        println!("skipped: this system does not let processes be traced");
        return 0;
    };
    assert_eq!(baseline.code, Some(0), "{line}: {}", fs::read_to_string(folder.path(ERRORS)).unwrap());
    let new = state(folder);
    let printed = fs::read(folder.path(PRINTED)).unwrap();
    assert!(promise == Promise::Stream || new != old, "{line} changes nothing");
    let trial = Trial { folder, line, promise, old, new, printed };
    let (mut runs, mut failures) = (0, 0);
    for &kind in kinds {
        let calls = baseline.calls.get(&kind).copied().unwrap_or(0);
        let faults = faults(kind);
        let numbers: Vec<_> = match is_all() {
            true => (0..calls).collect(),
            false => (0..calls.min(SAMPLE)).map(|sample| sample * calls / calls.min(SAMPLE)).collect(),
        };
        for (sample, number) in numbers.into_iter().enumerate() {
            let faults = if is_all() { faults.clone() } else { vec![faults[sample % faults.len()]] };
            for fault in faults {
                let injection = Injection { kind, number, fault };
                // The failures are listed together: each panic has printed its message.
                failures += usize::from(std::panic::catch_unwind(|| trial.fails_well(injection)).is_err());
                runs += 1;
            }
        }
    }
    assert_eq!(failures, 0, "{line}: failures in {runs} runs");
    runs
}

/// A checkpoint directory, a directory of several models, a quantised file and a plain one.
pub fn folder() -> Folder {
    let folder = checkpoint::folder();
    components::write(&folder.path(components::NAME));
    let tensors = checkpoint::shards().concat();
    fs::write(folder.path("model.safetensors"), checkpoint::safetensors(&tensors)).unwrap();
    let matrix = |name: &str, value: f32| checkpoint::Tensor::f32(name, [64, 64], value);
    let plain = ["a", "b", "c", "d"].map(|name| matrix(&format!("{name}.weight"), 0.5));
    fs::write(folder.path("plain.safetensors"), checkpoint::safetensors(&plain)).unwrap();
    folder
}

/// A command after others, and its promise.
pub type Case = (Vec<String>, String, Promise);

fn case(before: &[&str], line: &str, promise: Promise) -> Case {
    (before.iter().map(|line| (*line).to_owned()).collect(), format!("{line} --threads 2"), promise)
}

/// The commands that write one file.
pub fn files() -> Vec<Case> {
    use Promise::AllOrNothing;
    vec![
        case(&[], "remember model.safetensors -o out.safetensors", AllOrNothing),
        case(
            &["remember model.safetensors --to f32 -o out.safetensors"],
            "remember model.safetensors -o out.safetensors --force",
            AllOrNothing,
        ),
        case(&[], "convert plain.safetensors --to npz -o out.npz", AllOrNothing),
        case(
            &["convert plain.safetensors --to gguf -o out.gguf"],
            "forget plain.safetensors --to q8_0 -o out.gguf --force",
            AllOrNothing,
        ),
        case(&[], "forget plain.safetensors --to nf4 -o out.safetensors", AllOrNothing),
    ]
}

/// The commands that write small files.
pub fn small_files() -> Vec<Case> {
    use Promise::AllOrNothing;
    let show = "show plain.safetensors a.weight[:4] -o";
    vec![
        case(&[], &format!("{show} out.npy"), AllOrNothing),
        case(&[&format!("{show} out.csv")], "show plain.safetensors b.weight -o out.csv --force", AllOrNothing),
        case(&[], &format!("{show} out.png"), AllOrNothing),
        case(&[], "report plain.safetensors -o out.html", AllOrNothing),
    ]
}

/// The commands that write a set of GGUF files.
pub fn splits() -> Vec<Case> {
    let split = "convert plain.safetensors --to gguf --split-max-tensors 1 -o out.gguf";
    let forget = "forget plain.safetensors --to q8_0 --split-max-tensors 1 -o out.gguf --force";
    vec![case(&[], split, Promise::Set), case(&[split], forget, Promise::Set)]
}

/// The commands that write a checkpoint directory.
pub fn directories() -> Vec<Case> {
    use Promise::Resumes;
    let new = format!("remember {NAME} {SMALL} -o out");
    let forget = format!("forget {NAME} --to nf4 {SMALL} -o out");
    let old = format!("remember {NAME} --to f32 --shard-size 4KB -o out");
    vec![
        case(&[], &new, Resumes),
        case(&[&format!("{new} --part 1/2")], &new, Resumes),
        case(&[], &forget, Resumes),
        case(&[&old], &format!("{new} --force"), Resumes),
    ]
}

/// The commands that write a directory of several models.
pub fn pipelines() -> Vec<Case> {
    vec![case(&[], &format!("remember {} -o out", components::NAME), Promise::Resumes)]
}

fn all_fail_well(cases: &[Case]) {
    all_of_fail_well(&folder(), cases, &Kind::ALL);
}

fn all_of_fail_well(folder: &Folder, cases: &[Case], kinds: &[Kind]) {
    let mut runs = 0;
    for (before, line, promise) in cases {
        let before: Vec<_> = before.iter().map(String::as_str).collect();
        runs += fails_well(folder, &before, line, *promise, kinds);
    }
    println!("{runs} runs with a fault");
}

#[test]
fn a_file_is_written_or_unchanged() {
    all_fail_well(&files());
}

#[test]
fn a_small_file_is_written_or_unchanged() {
    all_fail_well(&small_files());
}

#[test]
fn a_split_model_is_written_unchanged_or_resumable() {
    all_fail_well(&splits());
}

#[test]
fn a_directory_is_written_unchanged_or_resumable() {
    all_fail_well(&directories());
}

#[test]
fn a_directory_of_several_models_is_written_unchanged_or_resumable() {
    all_fail_well(&pipelines());
}

/// The folder as a server's and a hub's, with the cache of the hub in it.
#[test]
fn an_output_of_a_remote_model_is_written_unchanged_or_resumable() {
    use Promise::{AllOrNothing, Resumes};
    let mut folder = folder();
    let server = serve(folder.root());
    let at = &server.address;
    for (name, value) in
        [("HF_ENDPOINT", at.as_str()), ("HF_HOME", "hf"), ("HF_HUB_CACHE", "hf/hub"), ("HF_HUB_OFFLINE", "0")]
    {
        folder.set(name, value);
    }
    // Without memory, threads of the network end the process while the standard library starts them.
    let kinds: Vec<_> = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Memory).collect();
    all_of_fail_well(
        &folder,
        &[
            case(&[], &format!("remember {at}/model.safetensors -o out.safetensors"), AllOrNothing),
            case(&[], &format!("remember {at}/{NAME}/model.safetensors.index.json {SMALL} -o out"), Resumes),
            case(&[], &format!("forget hf:any/{NAME} --to nf4 {SMALL} -o out"), Resumes),
            case(&[], &format!("hash hf:any/{NAME} --download"), Resumes),
        ],
        &kinds,
    );
}

#[test]
fn a_stream_is_complete_or_reported_as_partial() {
    use Promise::Stream;
    all_fail_well(&[
        case(&[], "remember model.safetensors -o -", Stream),
        case(&[], "convert plain.safetensors --to npz -o -", Stream),
        case(&[], "forget plain.safetensors --to nf4 -o -", Stream),
        case(&[], "hash plain.safetensors", Stream),
    ]);
}

#[test]
fn a_sidecar_that_cannot_be_read_is_an_error() {
    let folder = folder();
    let line = format!("remember {NAME} -o out");
    let run = |injection| {
        let mut command = folder.command(&line);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        tracer::run(command, injection)
    };
    let Some(baseline) = run(None) else { return };
    let whole = state(&folder);
    assert!(whole.contains_key("out/config.json") && whole.contains_key("out/tokenizer.json"));
    for kind in [Kind::Open, Kind::Look, Kind::Read] {
        for number in 0..baseline.calls.get(&kind).copied().unwrap_or(0) {
            let errors: &[_] = if is_all() { &[Errno::EIO, Errno::EACCES, Errno::EMFILE] } else { &[Errno::EACCES] };
            for error in errors {
                restore(&folder, &State::new());
                let injection = Injection { kind, number, fault: Fault::Error(*error) };
                let code = run(Some(injection)).unwrap().code;
                let has_all = state(&folder) == whole;
                assert!(
                    code != Some(0) || has_all,
                    "{injection:?}: exit 0, and {}",
                    difference(&state(&folder), &whole)
                );
            }
        }
    }
}
