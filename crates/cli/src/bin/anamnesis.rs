//! `anamnesis`, the long name of `amn`.

use std::process::ExitCode;

fn main() -> ExitCode {
    anamnesis_cli::run()
}
