//! `amn`, the command line of anamnesis.

use std::process::ExitCode;

fn main() -> ExitCode {
    anamnesis_cli::run()
}
