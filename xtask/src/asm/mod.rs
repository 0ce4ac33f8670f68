//! The assembly check: every kernel is vectorised at every CPU level.
//!
//! A kernel that lost its inlining or alias information is still correct, but several times slower, and no test
//! notices. So the kernels crate, which instantiates every kernel for every format and output, is compiled to
//! assembly and each function of a level is checked:
//!
//! | rule | reason |
//! |---|---|
//! | a loop uses 256-bit registers at v3, 512-bit at v4, 128-bit at neon | the purpose of the level |
//! | only `memcpy`, `memset` and panics are called | other calls were not inlined |
//! | an innermost vector loop calls nothing | only partial blocks may copy bytes |
//! | no loop inserts, extracts or scatters single elements | it was vectorised across groups instead of within them |
//! | a loop uses scalar float arithmetic only for the remainder of its vectors | it was not vectorised |
//! | no FMA, no `vcvtneps2bf16` or `bfcvt` | all levels give the same bits |
//!
//! The levels v3 and v4 are those of x86-64, checked by `cargo xtask asm`; neon is the portable level of AArch64, checked
//! by `cargo xtask platforms asm`.
//!
//! The encoders of ggml's blocks are searches with scalar results and rare cases: only the first and the last rule
//! apply, and they may call [rare functions](RARELY_CALLED).
//!
//! Known exceptions are in lists, [one](KNOWN) for x86-64 and [one](KNOWN_ON_AARCH64) for AArch64.
//!
//! The kernels have no dependencies, so rustc is called directly, without a cache.

mod dialect;
mod flow;
mod function;
mod symbol;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dialect::Level;
use function::{Report, inspect};
use symbol::{functions, stamped_name};

/// Kernels that are searches.
const SEARCHES: &str = "encode::ggml::";

/// Functions that searches may call: the lazy construction of a grid, sorting of a few candidates, an exhaustive
/// search for ties, exact distances of points that are about equally near, a logarithm just below a power of two, the
/// sums of the remaining cuts, and calls through a register.
const RARELY_CALLED: [&str; 8] =
    ["once_lock", "ipnsort", "insertion_sort", "nearest_of_all", "nearest_by_bytes", "log2", "partition_m", "calls %r"];

/// Known exceptions of x86-64: kernel, fault, reason.
const KNOWN: [(&str, &str, &str); 5] = [
    ("encode::pack::packed", "no loop uses", "eight codes are packed at a time, in one word"),
    ("decode::untile::kernel", "uses vp", "tiles are transposed by words"),
    ("decode::untile::kernel", "calls memcpy", "rows of a partial panel are copied"),
    ("decode::products::kernel", "uses vfm", "sums are fused, as in the libraries that these products follow"),
    ("measure::histogram::count_near_bins", "uses vpextrw", "counters are selected by one bin at a time"),
];

/// Known exceptions of AArch64. It has no gather, and the compiler does not vectorise some loops that it does for x86-64.
const KNOWN_ON_AARCH64: [(&str, &str, &str); 15] = [
    ("cast::round::round_slice::<F32>", "no loop uses", "it is a copy"),
    ("decode::affine::coded_indexed", "moves", "scales are gathered by index"),
    ("decode::nested::nested_scales", "moves", "values are gathered from a table of 256"),
    ("decode::columns::kernel", "no loop uses", "tiles are transposed by words, in general registers"),
    ("decode::transpose::words_kernel", "no loop uses", "tiles are transposed by words, in general registers"),
    ("decode::products::kernel", "uses fm", "sums are fused, as in the libraries that these products follow"),
    ("decode::coded::calculated", "moves", "not vectorised in full: bytes are widened by elements"),
    ("decode::scaled::scaled", "moves", "not vectorised in full: bytes are widened by elements"),
    ("decode::twice::scaled_twice", "moves", "not vectorised in full: bytes are widened by elements"),
    ("decode::spread::bits_5", "moves", "not vectorised in full: the bytes of the last groups are moved by elements"),
    (
        "encode::largest::",
        "moves",
        "not vectorised in full: maxima are taken across two blocks, in halves of registers",
    ),
    ("encode::largest::largest_of_halves", "no loop uses", "the same"),
    ("measure::moments::measure_moments", "no loop uses", "not vectorised: counts and extremes of lanes are branches"),
    ("measure::histogram::count_near_bins", "moves", "counters are selected by one bin at a time"),
    ("encode::pack::packed", "no loop uses", "eight codes are packed at a time, in one word"),
];

/// The known exceptions of a level.
fn known(level: Level) -> &'static [(&'static str, &'static str, &'static str)] {
    match level {
        Level::V3 | Level::V4 => &KNOWN,
        Level::Neon => &KNOWN_ON_AARCH64,
    }
}

fn is_known(kernel: &str, fault: &str, level: Level) -> bool {
    known(level).iter().any(|(name, known, _)| kernel.starts_with(name) && fault.contains(known))
}

/// Whether a fault counts for a search too.
fn is_fault_of_search(fault: &str) -> bool {
    match fault.starts_with("calls ") {
        true => !RARELY_CALLED.iter().any(|name| fault.contains(name)),
        false => {
            fault.starts_with("no loop")
                || ["vfm", "vfnm", "vcvtne", "fml", "fmadd", "fmsub", "bfcvt"].iter().any(|name| fault.contains(name))
        }
    }
}

/// Checks the levels of x86-64.
pub(crate) fn run() -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        println!("asm: nothing to check, the kernels are stamped per CPU level on x86-64 only");
        return Ok(());
    }
    check(&[Level::V3, Level::V4], None)
}

/// Checks the kernels of AArch64, compiled for a target of that architecture.
pub(crate) fn run_for_aarch64(target: &str) -> Result<(), String> {
    check(&[Level::Neon], Some(target))
}

/// Compiles the kernels, checks every function of these levels and prints a table; the error lists the faults.
fn check(levels: &[Level], target: Option<&str>) -> Result<(), String> {
    let mut kernels: BTreeMap<String, BTreeMap<Level, Report>> = BTreeMap::new();
    let file = compile(target)?;
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    for function in functions(&text) {
        let Some((kernel, level)) = stamped_name(function.symbol) else { continue };
        let mut report = inspect(&function.lines, level);
        if kernel.starts_with(SEARCHES) {
            report.faults.retain(|fault| is_fault_of_search(fault));
        }
        report.faults.retain(|fault| !is_known(&kernel, fault, level));
        kernels.entry(kernel).or_default().insert(level, report);
    }
    if kernels.is_empty() {
        return Err("no stamped function found in the assembly".into());
    }
    // A room that a feature left out would pass unchecked.
    for room in ["decode::", SEARCHES, "encode::grouped::", "measure::", "cast::"] {
        if !kernels.keys().any(|kernel| kernel.starts_with(room)) {
            return Err(format!("no kernel of {room} is in the assembly"));
        }
    }
    let mut offenders = Vec::new();
    let columns =
        |cells: &mut dyn Iterator<Item = String>| cells.map(|cell| format!(" {cell:>13}")).collect::<String>();
    println!("{:<60}{}", "kernel", columns(&mut levels.iter().map(|it| format!("{}, {}", it.name(), it.registers()))));
    for (kernel, reports) in &kernels {
        let cell = |level| reports.get(level).map_or_else(|| "missing".into(), |report| report.wide.to_string());
        println!("{kernel:<60}{}", columns(&mut levels.iter().map(cell)));
        for level in levels {
            let place = format!("{kernel} at {}", level.name());
            match reports.get(level) {
                Some(report) => offenders.extend(report.faults.iter().map(|fault| format!("{place}: {fault}"))),
                None => offenders.push(format!("{place}: no such function")),
            }
        }
    }
    if offenders.is_empty() {
        for (kernel, fault, why) in levels.first().map_or(&[][..], |level| known(*level)) {
            println!("known: {kernel}: {fault}: {why}");
        }
        println!("{} kernels, all others vectorised at {} levels", kernels.len(), levels.len());
        Ok(())
    } else {
        Err(format!("{} faults in the assembly:\n  {}", offenders.len(), offenders.join("\n  ")))
    }
}

/// Compiles the crate and returns the path of the assembly.
fn compile(target: Option<&str>) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let builds = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let directory = builds.join("asm").join(target.unwrap_or_default());
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let assembly = directory.join("anamnesis_kernels.s");
    let mut emit = OsString::from("--emit=asm=");
    emit.push(&assembly);
    let mut compiler = rustc("anamnesis_kernels", "rlib", &root.join("crates/kernels/src/lib.rs"));
    compiler.args(["--cfg", "feature=\"encode\"", "--cfg", "feature=\"levels\""]);
    if let Some(target) = target {
        compiler.args(["--target", target]);
    }
    call(compiler.current_dir(&directory).arg(emit))?;
    Ok(assembly)
}

/// rustc with the settings of the release profile.
fn rustc(name: &str, kind: &str, source: &Path) -> Command {
    let mut command = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command.args(["--edition=2024", "--crate-name", name, "--crate-type", kind]);
    command.args(["-Copt-level=3", "-Ccodegen-units=1", "-Cpanic=abort", "-Csymbol-mangling-version=v0"]);
    command.arg(source);
    command
}

fn call(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_may_call_rare_functions_only() {
        let rare = ["calls log2@GOTPCREL(%rip)", "uses vpextrb in a loop"];
        assert_eq!(rare.map(is_fault_of_search), [false, false]);
        let faults = ["calls closure", "no loop uses zmm", "uses vfmadd213ps"];
        assert_eq!(faults.map(is_fault_of_search), [true, true, true]);
    }
}
