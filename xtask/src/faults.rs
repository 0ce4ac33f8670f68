//! Makes every system call of every writing command fail, in every way, and kills each command at random moments.

use std::process::Command;

/// Random kills by default.
const ROUNDS: usize = 1000;

/// Runs all faults, then as many kills as `--rounds` asks for.
pub(crate) fn run() -> Result<(), String> {
    let rounds = rounds(&std::env::args().skip(2).collect::<Vec<_>>())?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let test = ["test", "--workspace", "--test", "commands", "--", "--nocapture", "faults::", "kill_rounds::"];
    println!("$ AMN_FAULTS=all AMN_KILLS={rounds} cargo {}", test.join(" "));
    let mut command = Command::new(cargo);
    command.args(test).env("AMN_FAULTS", "all").env("AMN_KILLS", rounds.to_string());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("a fault was not survived".to_owned()),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

fn rounds(options: &[String]) -> Result<usize, String> {
    match options {
        [] => Ok(ROUNDS),
        [option, count] if option == "--rounds" => {
            count.parse().map_err(|_| format!("--rounds takes a number, not {count}"))
        }
        _ => Err("usage: cargo xtask faults [--rounds N]".to_owned()),
    }
}
