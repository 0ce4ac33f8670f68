//! Help, version, and wrong usage.

use crate::folder::{Folder, MODEL};

#[test]
fn help_fits_a_screen_and_names_every_command_and_exit_code() {
    let help = Folder::empty().amn("--help").ok();
    assert!((20..=48).contains(&help.lines().count()), "{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    for word in [
        "parse",
        "inspect",
        "tree",
        "report",
        "remember",
        "convert",
        "forget",
        "verify",
        "stats",
        "diff",
        "hash",
        "show",
        "scan",
        "formats",
        "demo",
        "completions",
        "man",
        "--json",
        "--quiet",
        "--verbose",
        "--color",
        "AMN_CPU",
        "130, 143 interrupted",
    ] {
        assert!(help.contains(word), "{word} is missing in:\n{help}");
    }
}

#[test]
fn every_command_has_help() {
    for command in [
        "parse",
        "inspect",
        "info",
        "remember",
        "dequantize",
        "convert",
        "forget",
        "quantize",
        "verify",
        "stats",
        "diff",
        "hash",
        "show",
        "scan",
        "formats",
        "demo",
        "completions",
        "man",
    ] {
        let help = Folder::empty().amn(&format!("{command} --help")).ok();
        assert!(help.contains("Usage: amn "), "{help}");
    }
}

#[test]
fn help_names_a_target_of_every_family() {
    // Examples are in parentheses; targets of a family begin with the same word, except those of compressed-tensors.
    let targets: Vec<&str> = anamnesis::ConvertTarget::all().map(anamnesis::ConvertTarget::name).collect();
    for command in ["convert", "forget"] {
        let help = Folder::empty().amn(&format!("{command} --help")).ok();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = help.split_once("--to <TARGET>").unwrap().1;
        let text = text.split_once("amn formats lists all").unwrap().0;
        let examples = text.split('(').skip(1).map(|rest| rest.split(')').next().unwrap());
        let examples: Vec<&str> = examples.filter(|example| !example.contains(' ')).collect();
        for example in &examples {
            assert!(targets.contains(example), "{example} is no target");
        }
        let family =
            |target: &str| target.split(['-', '_']).next().unwrap().trim_end_matches(char::is_numeric).to_owned();
        let named: Vec<String> = examples.iter().map(|example| family(example)).collect();
        let prefixed = targets.iter().filter(|target| target.contains('-'));
        for target in prefixed {
            assert!(
                named.contains(&family(target)) || family(target).starts_with('w'),
                "{target} is of no named family"
            );
        }
    }
}

#[test]
fn both_binaries_print_the_same_version() {
    let wanted = format!("anamnesis {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(Folder::empty().amn("--version").ok(), wanted);
    let long = std::process::Command::new(env!("CARGO_BIN_EXE_anamnesis")).arg("-V").output().unwrap();
    assert_eq!(String::from_utf8(long.stdout).unwrap(), wanted);
}

#[test]
fn wrong_usage_exits_with_2_and_leaves_standard_output_alone() {
    let folder = Folder::with_model();
    for line in ["", "frobnicate", "parse", "remember x --threads 0", "inspect x --to", "parse x --unknown"] {
        let run = folder.amn(line);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "amn {line}: {run:?}");
        assert!(run.stderr.contains("Usage: amn") || run.stderr.contains("--help"), "amn {line}: {run:?}");
    }
}

#[test]
fn a_file_without_a_command_gets_a_tip() {
    let run = Folder::with_model().amn(MODEL);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains(&format!("amn inspect {MODEL}")), "{}", run.stderr);
}
