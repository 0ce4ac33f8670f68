//! Transcripts: commands with their expected output, checked by running them.
//!
//! A line that starts with `$ amn ` is a command; the lines up to the next one are its output, standard output before
//! standard error. A line `...` matches any lines. A command without output is only run. In snapshots, `\$ ` at the
//! start of a line is output too, `␛` is an escape character, and a comment `# COLUMNS=80` sets the width. Commands
//! succeed unless their output has a line that starts with `error: `.
//!
//! With `AMN_UPDATE=1` in the environment, outputs are rewritten instead of checked.

use std::ops::Range;
use std::process::Command;

use crate::folder::{Folder, Run, program};
use crate::network::serve;

const PROMPT: &str = "$ amn ";
const ELLIPSIS: &str = "...";
/// The web server of the transcripts, which has the files of the folder. It is the hub too.
const WEB: &str = "https://models.example";

/// The format of a transcript.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The whole text is a transcript; JSON is pretty-printed, nonzero exit codes are shown.
    Snapshot,
    /// Blocks of a guide.
    Guide,
}

/// A command and the lines of the text that show its output.
struct Step {
    line: String,
    output: Range<usize>,
}

/// Runs every command of `text` in `folder`, in order. Returns the text with the actual outputs, and the mismatches.
pub fn replay(text: &str, kind: Kind, folder: &Folder) -> (String, Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    let steps = steps(&lines, kind);
    let server = serve(folder.root());
    let mut faults = Vec::new();
    let mut found = Vec::new();
    for step in &steps {
        let shown = trimmed(&lines[step.output.clone()]);
        let output = run(&step.line, kind, folder, &server.address);
        let fails = shown.iter().any(|line| line.starts_with("error: "));
        if kind == Kind::Guide && (output.code != Some(0)) != fails {
            faults.push(format!("$ amn {}\nended with {:?}:\n{}", step.line, output.code, output.text));
        } else if !(fits(&shown, &output.text) || kind == Kind::Guide && shown.is_empty()) {
            let shown = shown.join("\n");
            faults.push(format!("$ amn {}\n--- shown\n{shown}\n--- printed\n{}", step.line, output.text));
        }
        found.push(output.text);
    }
    let mut lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    for (step, output) in steps.iter().zip(&found).rev() {
        let shown = &lines[step.output.clone()];
        let is_kept = shown.iter().any(|line| line == ELLIPSIS) || kind == Kind::Guide && shown.is_empty();
        if !is_kept {
            let gap =
                if kind == Kind::Snapshot && step.output.end < lines.len() { vec![String::new()] } else { vec![] };
            let output = output.lines().map(str::to_owned).chain(gap);
            lines.splice(step.output.clone(), output.collect::<Vec<_>>());
        }
    }
    (lines.join("\n") + "\n", faults)
}

/// Whether outputs are rewritten instead of checked.
pub fn updates() -> bool {
    std::env::var_os("AMN_UPDATE").is_some_and(|value| value == "1")
}

fn steps(lines: &[&str], kind: Kind) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut is_inside = kind == Kind::Snapshot;
    let mut index = 0;
    while index < lines.len() {
        let line = lines[index];
        index += 1;
        if kind == Kind::Guide && line.starts_with("```") {
            is_inside = line == "```console";
        }
        if !is_inside || !line.starts_with("$ ") {
            continue;
        }
        let mut command = line.strip_prefix(PROMPT).unwrap_or_else(|| panic!("only amn is run: {line}")).to_owned();
        while let Some(front) = command.strip_suffix('\\') {
            command = format!("{front} {}", lines[index].trim_start());
            index += 1;
        }
        let ends = |line: &&str| line.starts_with("$ ") || kind == Kind::Guide && line.starts_with("```");
        let end = lines[index..].iter().position(ends).map_or(lines.len(), |length| index + length);
        steps.push(Step { line: command, output: index..end });
        index = end;
    }
    steps
}

struct Output {
    text: String,
    code: Option<i32>,
}

fn run(line: &str, kind: Kind, folder: &Folder, server: &str) -> Output {
    let mut command = Command::new(program());
    let line = &line.replace(WEB, server);
    command.args(words(line)).current_dir(folder.root()).env("HF_ENDPOINT", server);
    // The output must not depend on the machine.
    for name in ["HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS", "XDG_CACHE_HOME", "NO_COLOR", "AMN_CPU", "COLUMNS"] {
        command.env_remove(name);
    }
    for name in ["LC_ALL", "LC_CTYPE", "LANG", "HF_HUB_OFFLINE", "HF_TOKEN", "SSL_CERT_FILE"] {
        command.env_remove(name);
    }
    command.env("HOME", folder.root()).env("TMPDIR", folder.root());
    if let Some((_, columns)) = line.split_once("# COLUMNS=") {
        command.env("COLUMNS", columns.trim());
    }
    let run = Run::of(command.output().unwrap());
    let pretty = |text: &str| match serde_json::from_str::<serde_json::Value>(text) {
        Ok(document) if kind == Kind::Snapshot => serde_json::to_string_pretty(&document).unwrap() + "\n",
        _ => text.to_owned(),
    };
    let mut text = pretty(&run.stdout) + &pretty(&run.stderr);
    if kind == Kind::Snapshot && run.code != Some(0) {
        text += &format!("[exit {}]\n", run.code.unwrap_or(-1));
    }
    let mut text = normal(&text.replace(server, WEB), folder, line.contains("--threads"));
    if kind == Kind::Snapshot {
        // Escapes output that looks like a command.
        text = text
            .lines()
            .map(|line| if line.starts_with("$ ") { format!("\\{line}\n") } else { format!("{line}\n") })
            .map(|line| line.replace('\u{1b}', "␛"))
            .collect();
    }
    Output { text: text.trim_end().to_owned(), code: run.code }
}

/// Splits a line like a shell: quotes keep spaces, a comment ends the line.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// The text without values that differ between runs and machines, including thread counts and memory unless the number
/// of threads is given.
fn normal(text: &str, folder: &Folder, has_threads: bool) -> String {
    let text = text.replace(&*folder.root().to_string_lossy(), "[FOLDER]");
    let text = text.replace(concat!("anamnesis ", env!("CARGO_PKG_VERSION")), "anamnesis [VERSION]");
    let lines = text.lines().map(|line| {
        let line = match line.split_once(" needed, ") {
            Some((needed, _)) => format!("{needed} needed, [FREE] free"),
            None => line.to_owned(),
        };
        let line = between(&line, "\"free_bytes\": ", ",", "[FREE]");
        let line = match line.starts_with("Memory: about ") && !has_threads {
            true => "Memory: about [MEMORY]".to_owned(),
            false if has_threads => line,
            false => between(&line, "\"memory_bytes\": ", ",", "[MEMORY]"),
        };
        let line = between(&line, "amn-demo-", &['"', '/', '\n'][..], "[RANDOM]");
        match (line.split_once(" in "), line.starts_with("wrote ") || line.starts_with("read the headers of ")) {
            (Some((front, _)), true) => format!("{front} in [TIME]"),
            _ if line.contains(" worker thread") => "[N] worker threads: [CORES]".to_owned(),
            _ if line.starts_with("CPU level ") => "CPU level [LEVEL]".to_owned(),
            _ => line,
        }
    });
    lines.map(|line| line + "\n").collect()
}

/// `line` with the text between `start` and the first of `ends` replaced.
fn between(line: &str, start: &str, ends: impl Pattern, by: &str) -> String {
    let Some((front, rest)) = line.split_once(start) else { return line.to_owned() };
    let end = ends.first_in(rest).unwrap_or(rest.len());
    format!("{front}{start}{by}{}", &rest[end..])
}

/// A search pattern.
trait Pattern {
    fn first_in(&self, text: &str) -> Option<usize>;
}

impl Pattern for &str {
    fn first_in(&self, text: &str) -> Option<usize> {
        text.find(self)
    }
}

impl Pattern for &[char] {
    fn first_in(&self, text: &str) -> Option<usize> {
        text.find(*self)
    }
}

fn trimmed<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let end = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
    lines[..end].to_vec()
}

/// Whether the expected lines match the output, with `...` for any lines.
fn fits(shown: &[&str], printed: &str) -> bool {
    let mut rest: Vec<&str> = printed.lines().collect();
    let pieces: Vec<&[&str]> = shown.split(|line| *line == ELLIPSIS).collect();
    let last = pieces.len() - 1;
    for (index, piece) in pieces.iter().enumerate() {
        let place = match (index, last) {
            (0, 0) => (rest == **piece).then_some(0),
            (0, _) => rest.starts_with(piece).then_some(0),
            _ if index == last => rest.ends_with(piece).then(|| rest.len() - piece.len()),
            _ => (0..=rest.len().saturating_sub(piece.len())).find(|&start| rest[start..].starts_with(piece)),
        };
        let Some(place) = place else { return false };
        rest.drain(..place + piece.len());
    }
    true
}

#[test]
fn shown_lines_must_be_printed_in_order() {
    let printed = "a\nb\nc\nd";
    for shown in
        [&["a", "b", "c", "d"][..], &["a", "...", "d"], &["...", "b", "...", "d"], &["..."], &["a", "b", "..."]]
    {
        assert!(fits(shown, printed), "{shown:?}");
    }
    for shown in [&["a", "b", "c"][..], &["b", "..."], &["...", "c"], &["...", "c", "...", "b", "..."], &[]] {
        assert!(!fits(shown, printed), "{shown:?}");
    }
}

#[test]
fn lines_are_read_as_a_shell_reads_them() {
    assert_eq!(words("parse x --include 'a b.*' \"c\"'d' ''  # or y"), ["parse", "x", "--include", "a b.*", "cd", ""]);
}
