//! Thousands of good and damaged files through one process and through many.

use std::process::Command;

/// Files by default.
const FILES: usize = 10_000;

/// Runs the load tests with as many files as `--files` asks for.
pub(crate) fn run() -> Result<(), String> {
    let files = match &std::env::args().skip(2).collect::<Vec<_>>()[..] {
        [] => FILES,
        [option, count] if option == "--files" => {
            count.parse().map_err(|_| format!("--files takes a number, not {count}"))?
        }
        _ => return Err("usage: cargo xtask load [--files N]".to_owned()),
    };
    for (program, test) in [
        ("load", "thousands_of_files"),
        ("commands", "load::many_processes"),
        ("converting", "threads::sixty_four_threads"),
    ] {
        let arguments = ["test", "--workspace", "--test", program, "--", "--nocapture", test];
        println!("$ AMN_LOAD={files} cargo {}", arguments.join(" "));
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        match Command::new(cargo).args(arguments).env("AMN_LOAD", files.to_string()).status() {
            Ok(status) if status.success() => {}
            Ok(_) => return Err(format!("{test} failed")),
            Err(error) => return Err(format!("cargo: {error}")),
        }
    }
    Ok(())
}
