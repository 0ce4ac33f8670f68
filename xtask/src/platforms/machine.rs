//! A machine with an operating system: how programs are built for it and run.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Folder, failed};
use crate::python::execute;

/// The profile of the builds.
const PROFILE: &str = "platforms";

/// Crates that are not for these machines.
const EXCLUDED: [&str; 2] = ["anamnesis-python", "xtask"];

/// The test programs of the library and its kernels. Those that measure memory or time say nothing on an emulator.
const LIBRARY_TESTS: [&str; 20] = [
    "containers",
    "converting",
    "forgetting",
    "hostile",
    "library",
    "schemes",
    "distance",
    "encode",
    "encoded",
    "ggml",
    "ggml_encode",
    "golden",
    "grouped",
    "levels",
    "measure",
    "nan",
    "packed",
    "random",
    "ruled",
    "traps",
];

/// The modules of the command line's tests that are run: commands that write, read and measure.
const COMMAND_TESTS: [&str; 24] = [
    "answering::",
    "components::",
    "configuring::",
    "converting::",
    "demo::",
    "describing::",
    "directories::",
    "documents::",
    "folding::",
    "foreign::",
    "gguf::",
    "gguf_options::",
    "listing::",
    "looking::",
    "mixing::",
    "reading::",
    "refusing::",
    "resuming::",
    "scanning::",
    "spooling::",
    "streams::",
    "towers::",
    "verifying::",
    "writing::",
];

/// A test with scales of ∞ / ∞: the sign of that NaN is the CPU's, also in the bytes of ggml.
const NAN_OF_CPU: &str = "nonfinite::iq4_nl";

/// A function that Rust's random numbers need and Wine 8 lacks.
const RANDOM: &str = "\
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count) {
    return SystemFunction036(bytes, (ULONG)count);
}
";

/// A machine.
pub(super) struct Machine {
    pub(super) name: &'static str,
    pub(super) target: &'static str,
    /// Files that have to exist, and the packages that have them.
    pub(super) tools: &'static [(&'static str, &'static str)],
    linker: &'static str,
    /// A shell command that runs the program that follows it.
    runner: String,
    /// Tests that do not apply, by parts of their names.
    skipped: &'static [&'static str],
}

/// AArch64 with Linux.
pub(super) fn aarch64() -> Machine {
    Machine {
        name: "aarch64",
        target: "aarch64-unknown-linux-gnu",
        tools: &[
            ("/usr/bin/qemu-aarch64", "qemu-user"),
            ("/usr/bin/aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
            ("/usr/aarch64-linux-gnu/lib/libc.so.6", "libc6-dev-arm64-cross"),
        ],
        linker: "aarch64-linux-gnu-gcc",
        runner: "qemu-aarch64 -L /usr/aarch64-linux-gnu".to_owned(),
        skipped: &[NAN_OF_CPU],
    }
}

/// IBM Z with Linux: big-endian.
pub(super) fn s390x() -> Machine {
    Machine {
        name: "s390x",
        target: "s390x-unknown-linux-gnu",
        tools: &[
            ("/usr/bin/qemu-s390x", "qemu-user"),
            ("/usr/bin/s390x-linux-gnu-gcc", "gcc-s390x-linux-gnu"),
            ("/usr/s390x-linux-gnu/lib/libc.so.6", "libc6-dev-s390x-cross"),
        ],
        linker: "s390x-linux-gnu-gcc",
        runner: "qemu-s390x -L /usr/s390x-linux-gnu".to_owned(),
        // QEMU before 8.0.4 multiplies two floats into a double wrongly (MDEB, MDEBR): sums of squares are wrong there.
        skipped: &[
            NAN_OF_CPU,
            "the_measured_error_is_that_of_the_file",
            "differences_are_those_of_numpy",
            "sums_are_those_of_a_plain_loop_at_every_level",
        ],
    }
}

/// 32-bit x86 with Linux: this machine runs it, with a C library of its own.
pub(super) fn i686() -> Machine {
    Machine {
        name: "i686",
        target: "i686-unknown-linux-gnu",
        tools: &[
            ("/usr/bin/i686-linux-gnu-gcc", "gcc-i686-linux-gnu"),
            ("/usr/i686-linux-gnu/lib/ld-linux.so.2", "libc6-dev-i386-cross"),
        ],
        linker: "i686-linux-gnu-gcc",
        runner: "/usr/i686-linux-gnu/lib/ld-linux.so.2 --library-path /usr/i686-linux-gnu/lib".to_owned(),
        skipped: &[],
    }
}

/// Windows on x86-64.
pub(super) fn windows(folder: &Folder) -> Machine {
    let prefix = folder.root.join("wine");
    Machine {
        name: "windows",
        target: "x86_64-pc-windows-gnu",
        tools: &[
            ("/usr/bin/x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64-win32"),
            ("/usr/lib/wine/wine64", "wine64"),
            ("/usr/bin/wine", "wine"),
        ],
        linker: "x86_64-w64-mingw32-gcc",
        runner: format!("env WINEDEBUG=-all WINEPREFIX={} /usr/lib/wine/wine64", prefix.display()),
        // Windows has no locks that readers may ignore, by which leftovers of a killed process are recognised; Wine does not
        // always start several processes at once.
        skipped: &["leftovers_of_a_killed_run_are_removed", "equal_concurrent_commands_leave_one_complete_output"],
    }
}

impl Machine {
    fn is_windows(&self) -> bool {
        self.name == "windows"
    }

    /// cargo for this target; programs are run by the runner.
    fn cargo(&self, folder: &Folder, task: &str) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let variable = |end: &str| format!("CARGO_TARGET_{}_{end}", self.target.to_uppercase().replace('-', "_"));
        command.current_dir(&folder.project).env(variable("LINKER"), self.linker).env(variable("RUNNER"), &self.runner);
        command.args([task, "--workspace", "--profile", PROFILE, "--target", self.target]);
        command.arg("--target-dir").arg(folder.target());
        for name in EXCLUDED {
            command.args(["--exclude", name]);
        }
        command
    }

    /// Starts what the runner needs.
    pub(super) fn prepare(&self, folder: &Folder) -> Result<(), String> {
        if !self.is_windows() {
            return Ok(());
        }
        let prefix = folder.root.join("wine");
        std::fs::create_dir_all(&prefix).map_err(|error| failed(&prefix, &error))?;
        // Its services are started once, outlast a build, and are by themselves: otherwise they keep the pipes of the first
        // program open.
        let start = format!(
            "/usr/lib/wine/wineserver64 -p3600; setsid /usr/lib/wine/wine64 wineboot -i; setsid {} cmd /c exit",
            self.runner
        );
        let quiet = |command: &mut Command| {
            command.env("WINEPREFIX", &prefix).env("WINEDEBUG", "-all");
            execute(command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()))
        };
        quiet(Command::new("sh").args(["-c", &start]))?;
        let source = folder.root.join("random.c");
        std::fs::write(&source, RANDOM).map_err(|error| failed(&source, &error))?;
        let library = prefix.join("drive_c/windows/system32/bcryptprimitives.dll");
        if library.exists() {
            return Ok(());
        }
        execute(Command::new(self.linker).args(["-shared", "-o"]).arg(&library).arg(&source).arg("-ladvapi32"))
    }

    /// Builds the command line and returns a script that runs it.
    pub(super) fn build(&self, folder: &Folder) -> Result<PathBuf, String> {
        execute(self.cargo(folder, "build").args(["--bin", "amn"]))?;
        let name = if self.is_windows() { "amn.exe" } else { "amn" };
        let program = folder.target().join(self.target).join(PROFILE).join(name);
        let text = format!("#!/bin/sh\nexec {} {} \"$@\"\n", self.runner, program.display());
        folder.script(&format!("amn-{}", self.name), &text)
    }

    /// Runs the tests of the library on the machine.
    pub(super) fn test_library(&self, folder: &Folder) -> Result<(), String> {
        let mut command = self.cargo(folder, "test");
        command.args(["--no-fail-fast", "--lib"]);
        for name in LIBRARY_TESTS {
            command.args(["--test", name]);
        }
        self.execute_tests(&mut command, &[])
    }

    /// Runs the tests of the command line with the program of the machine: natively, except on Windows, where they have
    /// to look for other things.
    pub(super) fn test_command_line(&self, folder: &Folder, program: &Path) -> Result<(), String> {
        let mut command = match self.is_windows() {
            true => self.cargo(folder, "test"),
            false => {
                let mut native = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
                native.current_dir(&folder.project).env("AMN_PROGRAM", program).args(["test", "--workspace"]);
                native
            }
        };
        self.execute_tests(command.args(["--test", "commands"]), &COMMAND_TESTS)
    }

    fn execute_tests(&self, command: &mut Command, filters: &[&str]) -> Result<(), String> {
        command.arg("--").args(filters);
        for name in self.skipped {
            command.args(["--skip", name]);
        }
        execute(command)
    }
}
