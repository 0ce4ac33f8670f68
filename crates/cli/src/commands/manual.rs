//! `completions` and `man`: what shells and manuals know of the command line, from its own definition.

use std::fs;
use std::path::Path;

use anamnesis::AnamnesisError;
use clap::{Command, CommandFactory};
use serde_json::json;

use super::shown;
use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::close::closest;
use crate::exit::Failure;
use crate::ui::Printer;

/// The name users type.
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

/// The command line under the name users type, its subcommands complete.
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

/// The name of a command's page, and the page.
fn page(command: &Command) -> Result<(String, String), Failure> {
    let man = clap_mangen::Man::new(command.clone())
        .source(concat!("anamnesis ", env!("CARGO_PKG_VERSION")))
        .manual("anamnesis");
    let mut text = Vec::new();
    man.render(&mut text).map_err(AnamnesisError::Io)?;
    Ok((man.get_filename(), String::from_utf8_lossy(&text).into_owned()))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    written.map_err(|error| {
        let error = std::io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        Failure::Refused { error: AnamnesisError::Io(error), advice: Some("choose another folder with --dir".into()) }
    })
}
