//! `completions` and `man`: shell completions and manual pages, generated from the definition of the command line.

use std::fs;
use std::path::Path;

use anamnesis::AnamnesisError;
use clap::{Command, CommandFactory};
use serde_json::json;

use super::shown;
use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::exit::Failure;
use crate::suggest::closest;
use crate::ui::Printer;

/// The usual name of the binary.
const BINARY: &str = "amn";

pub(super) fn completions(args: &CompletionsArgs, printer: &Printer) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition(), BINARY, &mut script);
    let script = String::from_utf8_lossy(&script);
    printer.text(script.trim_end())?;
    printer.document("completions", json!({ "shell": args.shell.to_string(), "script": script }))
}

pub(super) fn man(args: &ManArgs, printer: &Printer) -> Result<(), Failure> {
    let definition = definition();
    let pages = match &args.topic {
        Some(topic) => vec![page(find(&definition, topic)?)?],
        None if args.dir.is_none() => vec![page(&definition)?],
        None => {
            let commands = definition.get_subcommands().filter(|command| command.get_name() != "help");
            std::iter::once(&definition).chain(commands).map(page).collect::<Result<_, _>>()?
        }
    };
    if let Some(folder) = &args.dir {
        for (name, text) in &pages {
            write(&folder.join(name), text)?;
        }
        printer.text(format_args!("{} in {}", super::counted(pages.len(), "page"), shown(folder)))?;
    } else {
        for (_, text) in &pages {
            printer.text(text.trim_end())?;
        }
    }
    let pages: Vec<_> = pages.iter().map(|(name, text)| json!({ "name": name, "text": text })).collect();
    printer.document("man", json!({ "dir": args.dir.as_deref().map(Path::to_string_lossy), "pages": pages }))
}

/// The definition of the command line with complete subcommands.
fn definition() -> Command {
    let mut definition = Cli::command().name(BINARY).bin_name(BINARY).display_name(BINARY);
    definition.build();
    definition
}

fn find<'a>(definition: &'a Command, topic: &str) -> Result<&'a Command, Failure> {
    definition.find_subcommand(topic).ok_or_else(|| {
        let names = definition.get_subcommands().map(Command::get_name);
        let meant = closest(topic, names, 1);
        let tip = meant.first().map_or_else(String::new, |name| format!("; did you mean {name}?"));
        Failure::Usage(format!("there is no command \"{topic}\"{tip}"))
    })
}

/// The file name and text of a command's page.
fn page(command: &Command) -> Result<(String, String), Failure> {
    let man = clap_mangen::Man::new(command.clone())
        .source(concat!("anamnesis ", env!("CARGO_PKG_VERSION")))
        .manual("anamnesis");
    let mut text = Vec::new();
    render(&man, command, &mut text).map_err(AnamnesisError::Io)?;
    let text = String::from_utf8_lossy(&text);
    // Every section repeats the preamble of a page.
    let sections = text.replace(PREAMBLE, "");
    Ok((man.get_filename(), format!("{PREAMBLE}{sections}")))
}

/// The preamble of a page.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// Renders a page. The text after the help contains preformatted lines, so it is rendered here.
fn render(man: &clap_mangen::Man, command: &Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    page.extend(sections(&after, examples(command.get_name())).bytes());
    match command.get_version() {
        Some(_) => man.render_version_section(page),
        None => Ok(()),
    }
}

/// The text after the help, and examples, as sections.
fn sections(after: &str, examples: &str) -> String {
    let mut text = String::new();
    let (titled, notes): (Vec<_>, Vec<_>) = after.split("\n\n").partition(|part| title(part).is_some());
    let mut add = |title: &str, lines: &str| {
        let lines: Vec<_> = lines.lines().map(roff_line).collect();
        text += &format!(".SH {title}\n.nf\n{}\n.fi\n", lines.join("\n"));
    };
    if !after.is_empty() && !notes.is_empty() {
        add("NOTES", &notes.join("\n\n"));
    }
    let of = |wanted: &str| titled.iter().find_map(|part| title(part).filter(|(name, _)| *name == wanted));
    if let Some((_, lines)) = of("Environment") {
        add("ENVIRONMENT", lines);
    }
    add("EXAMPLES", of("Examples").map_or(examples, |(_, lines)| lines));
    add("EXIT STATUS", of("Exit codes").map_or(EXIT_CODES, |(_, lines)| lines));
    text
}

/// A paragraph that starts with a title, and its lines.
fn title(part: &str) -> Option<(&str, &str)> {
    let (first, lines) = part.split_once('\n')?;
    Some((first.strip_suffix(':')?, lines))
}

const EXIT_CODES: &str = "  0 done   1 a file is at fault, of the input or of the output\n\
\x20 2 the command line is at fault   130, 143 interrupted";

/// Examples for commands whose help has none.
fn examples(command: &str) -> &'static str {
    match command {
        "parse" => "  amn parse model.safetensors --list\n  amn parse model.gguf --sort size",
        "inspect" => "  amn inspect hf:org/name\n  amn inspect model.gguf --metadata llama.context_length",
        "tree" => "  amn tree model.safetensors\n  amn tree Llama-3.1-8B --depth 2",
        "report" => "  amn report model.gguf -o report.html\n  amn report Llama-3.1-8B-FP8 Llama-3.1-8B -o report.html",
        "stats" => "  amn stats model.safetensors\n  amn stats Llama-3.1-8B --fail-on nan",
        "diff" => "  amn diff Llama-3.1-8B-FP8 Llama-3.1-8B\n  amn diff a.gguf b.gguf --tolerance 0.01",
        "hash" => "  amn hash model.safetensors\n  amn hash Llama-3.1-8B --decoded",
        "show" => "  amn show model.gguf blk.0.attn_q.weight[:4,:8]\n  amn show model.gguf output.weight -o output.npy",
        "remember" => "  amn remember model.safetensors --to f32\n  amn remember Llama-3.1-8B-FP8 --dry-run",
        "convert" => {
            "  amn convert model.gguf --to safetensors\n  amn convert model.safetensors --to npz --out-dtype f32"
        }
        "forget" => {
            "  amn forget Llama-3.1-8B --to bnb-nf4 --double-quant\n  amn forget model.safetensors --to bnb-int8"
        }
        "verify" => "  amn verify Llama-3.1-8B-bf16\n  amn verify --provenance statement.json",
        "scan" => "  amn scan model.pth\n  amn scan hf:org/name",
        "formats" => "  amn formats\n  amn formats --json",
        "demo" => "  amn demo",
        "completions" => "  amn completions bash",
        _ => "  amn man remember\n  amn man --dir pages",
    }
}

/// A literal line in roff.
fn roff_line(line: &str) -> String {
    let escaped = line.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    written.map_err(|error| {
        let error = std::io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        Failure::Refused { error: AnamnesisError::Io(error), advice: Some("choose another folder with --dir".into()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_can_be_typed() {
        for command in definition().get_subcommands().map(Command::get_name).filter(|name| *name != "help") {
            for line in examples(command).lines() {
                let words = line.split_whitespace();
                assert!(line.contains(&format!("amn {command}")), "{line}");
                assert!(Cli::command().try_get_matches_from(words).is_ok(), "{line}");
            }
        }
    }

    #[test]
    fn lines_of_a_page_are_not_roff_requests() {
        assert_eq!(roff_line(".nf a-b\\c"), "\\&.nf a\\-b\\ec");
        assert_eq!(roff_line("'x"), "\\&'x");
    }
}
