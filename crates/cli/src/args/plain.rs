//! The commonest lines, `amn inspect PATH` and `amn parse PATH` with or without `--json`, which need no parser: to define one
//! takes longer than to look into a small file.

use std::ffi::{OsStr, OsString};

use super::{Cli, Command, INSPECTED_AS, InputArgs, InspectArgs, OutputArgs, ParseArgs};

/// What such a line says; `None` of any other.
pub(super) fn read(arguments: &[OsString]) -> Option<Cli> {
    let [_, command, rest @ ..] = arguments else { return None };
    let (mut path, mut output) = (None, OutputArgs::default());
    for argument in rest {
        if argument == "--json" && !output.json {
            output.json = true;
        } else if is_path(argument) && path.is_none() {
            path = Some(argument.into());
        } else {
            return None;
        }
    }
    let input = InputArgs { path: path?, ..InputArgs::default() };
    let command = match command.to_str()? {
        "inspect" => Command::Inspect(InspectArgs { input, to: INSPECTED_AS.to_owned(), ..InspectArgs::default() }),
        "parse" => Command::Parse(ParseArgs { input, ..ParseArgs::default() }),
        _ => return None,
    };
    Some(Cli { command, output })
}

/// Whether it is no option, not standard input, and not nothing.
fn is_path(argument: &OsStr) -> bool {
    !argument.is_empty() && !argument.as_encoded_bytes().starts_with(b"-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn plain_lines_are_read_as_the_parser_reads_them() {
        for line in
            ["amn inspect x", "amn parse hf:a/b", "amn inspect help", "amn inspect --json x", "amn parse x --json"]
        {
            let (plain, parsed) = (read(&typed(line)).unwrap(), Cli::parsed(&typed(line)).unwrap());
            assert_eq!(format!("{plain:?}"), format!("{parsed:?}"), "{line}");
        }
    }

    #[test]
    fn all_others_are_left_to_the_parser() {
        let unlike = ["amn", "amn info x", "amn verify x", "amn --json inspect x", "amn --json inspect"];
        let wrong = ["amn inspect", "amn inspect ", "amn inspect x y", "amn parse --json", "amn parse x --json --json"];
        let more = ["amn inspect -", "amn inspect --help", "amn parse x -l", "amn inspect -- x"];
        for line in [&unlike[..], &wrong, &more].concat() {
            assert!(read(&typed(line)).is_none(), "{line}");
        }
    }
}
