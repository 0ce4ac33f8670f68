//! The assembly check: every kernel is vectorised at every CPU level.
//!
//! A kernel that lost its inlining or alias information is still correct, but several times slower, and no test
//! notices. So the kernels crate, which instantiates every kernel for every format and output, is compiled to
//! assembly and each function of a level is checked:
//!
//! | rule | reason |
//! |---|---|
//! | a loop uses 256-bit registers at v3, 512-bit at v4 | the purpose of the level |
//! | only `memcpy`, `memset` and panics are called | other calls were not inlined |
//! | an innermost vector loop calls nothing | only partial blocks may copy bytes |
//! | no loop inserts, extracts or scatters single elements | it was vectorised across groups instead of within them |
//! | a loop uses scalar float arithmetic only for the remainder of its vectors | it was not vectorised |
//! | no FMA, no `vcvtneps2bf16` | all levels give the same bits |
//!
//! The encoders of ggml's blocks are searches with scalar results and rare cases: only the first and the last rule
//! apply, and they may call [rare functions](RARELY_CALLED).
//!
//! Known exceptions are in a [list](KNOWN).
//!
//! The kernels have no dependencies, so rustc is called directly, without a cache.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Kernels that are searches.
const SEARCHES: &str = "encode::ggml::";

/// Functions that searches may call: the lazy construction of a grid, sorting of a few candidates, an exhaustive
/// search for ties, a logarithm just below a power of two, the sums of the remaining cuts, and calls through a
/// register.
const RARELY_CALLED: [&str; 6] = ["once_lock", "ipnsort", "nearest_of_all", "log2", "partition_m", "calls %r"];

/// Known exceptions: kernel, fault, reason.
const KNOWN: [(&str, &str, &str); 5] = [
    ("encode::pack::packed", "no loop uses", "eight codes are packed at a time, in one word"),
    ("decode::untile::kernel", "uses vp", "tiles are transposed by words"),
    ("decode::untile::kernel", "calls memcpy", "rows of a partial panel are copied"),
    ("decode::products::kernel", "uses vfm", "sums are fused, as in the libraries that these products follow"),
    ("measure::histogram::count_near_bins", "uses vpextrw", "counters are selected by one bin at a time"),
];

fn is_known(kernel: &str, fault: &str) -> bool {
    KNOWN.iter().any(|(name, known, _)| kernel.starts_with(name) && fault.contains(known))
}

/// Whether a fault counts for a search too.
fn is_fault_of_search(fault: &str) -> bool {
    match fault.starts_with("calls ") {
        true => !RARELY_CALLED.iter().any(|name| fault.contains(name)),
        false => fault.starts_with("no loop") || ["vfm", "vfnm", "vcvtne"].iter().any(|name| fault.contains(name)),
    }
}

/// Compiles the kernels, checks every function of a level and prints a table; the error lists the faults.
pub fn run() -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        println!("asm: nothing to check, the kernels are stamped per CPU level on x86-64 only");
        return Ok(());
    }
    let mut kernels: BTreeMap<String, BTreeMap<&'static str, Report>> = BTreeMap::new();
    let file = compile()?;
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    for function in functions(&text) {
        let Some((kernel, level)) = stamped_name(function.symbol) else { continue };
        let mut report = inspect(&function.lines, level);
        if kernel.starts_with(SEARCHES) {
            report.faults.retain(|fault| is_fault_of_search(fault));
        }
        report.faults.retain(|fault| !is_known(&kernel, fault));
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
    println!("{:<60} {:>9} {:>9}", "kernel", "v3, ymm", "v4, zmm");
    for (kernel, levels) in &kernels {
        let column =
            |level| levels.get(level).map_or_else(|| "missing".into(), |report: &Report| report.wide.to_string());
        println!("{kernel:<60} {:>9} {:>9}", column("v3"), column("v4"));
        for level in ["v3", "v4"] {
            match levels.get(level) {
                Some(report) => {
                    offenders.extend(report.faults.iter().map(|fault| format!("{kernel} at {level}: {fault}")))
                }
                None => offenders.push(format!("{kernel} at {level}: no such function")),
            }
        }
    }
    if offenders.is_empty() {
        for (kernel, fault, why) in KNOWN {
            println!("known: {kernel}: {fault}: {why}");
        }
        println!("{} kernels, all others vectorised at both levels", kernels.len());
        Ok(())
    } else {
        Err(format!("{} faults in the assembly:\n  {}", offenders.len(), offenders.join("\n  ")))
    }
}

/// Compiles the crate and returns the path of the assembly.
fn compile() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let directory = target.join("asm");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let assembly = directory.join("anamnesis_kernels.s");
    let mut emit = OsString::from("--emit=asm=");
    emit.push(&assembly);
    let mut compiler = rustc("anamnesis_kernels", "rlib", &root.join("crates/kernels/src/lib.rs"));
    compiler.args(["--cfg", "feature=\"encode\"", "--cfg", "feature=\"levels\""]);
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

/// One function of an assembly file.
struct Function<'a> {
    symbol: &'a str,
    lines: Vec<&'a str>,
}

/// Splits an assembly file into its functions.
fn functions(text: &str) -> Vec<Function<'_>> {
    let mut functions: Vec<Function<'_>> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let label = line.strip_suffix(':').filter(|label| !label.starts_with([' ', '\t', '.', 'L']));
        if let Some(symbol) = label {
            functions.push(Function { symbol, lines: Vec::new() });
            inside = true;
        } else if line.trim_start().starts_with(".cfi_endproc") {
            inside = false;
        } else if let Some(function) = functions.last_mut().filter(|_| inside) {
            function.lines.push(line.trim());
        }
    }
    functions
}

/// The kernel and level of a symbol: its path up to `v3` or `v4`, then its type arguments.
fn stamped_name(symbol: &str) -> Option<(String, &'static str)> {
    let names = identifiers(symbol.trim_start_matches('_').strip_prefix('R')?);
    let (position, level) = names.iter().enumerate().find_map(|(i, name)| match *name {
        "v3" => Some((i, "v3")),
        "v4" => Some((i, "v4")),
        _ => None,
    })?;
    if names.first() != Some(&"anamnesis_kernels") {
        return None;
    }
    let types: Vec<_> =
        names[position..].iter().copied().filter(|name| name.starts_with(|c: char| c.is_uppercase())).collect();
    let path = names[1..position].join("::");
    Some((if types.is_empty() { path } else { format!("{path}::<{}>", types.join(", ")) }, level))
}

/// The identifiers of a mangled (v0) symbol, in order. Back references are skipped.
fn identifiers(mut mangled: &str) -> Vec<&str> {
    let mut names = Vec::new();
    while let Some(first) = mangled.chars().next() {
        if first.is_ascii_digit() {
            let digits = mangled.find(|c: char| !c.is_ascii_digit()).unwrap_or(mangled.len());
            let (length, rest) = mangled.split_at(digits);
            let rest = rest.strip_prefix('_').unwrap_or(rest);
            let Some((name, rest)) = length.parse().ok().and_then(|length| rest.split_at_checked(length)) else {
                break;
            };
            names.push(name);
            mangled = rest;
        } else if first == 'B' || first == 's' {
            // A back reference or a disambiguator: base-62 digits up to an underscore.
            mangled = mangled.split_once('_').map_or("", |(_, rest)| rest);
        } else {
            mangled = mangled.get(first.len_utf8()..).unwrap_or("");
        }
    }
    names
}

/// The check of one function.
struct Report {
    /// Instructions inside loops that use the level's widest registers.
    wide: usize,
    faults: Vec<String>,
}

/// Checks one function.
fn inspect(lines: &[&str], level: &str) -> Report {
    let register = if level == "v3" { "%ymm" } else { "%zmm" };
    let flow = Flow::of(lines);
    let mut report = Report { wide: 0, faults: Vec::new() };
    for (i, line) in lines.iter().enumerate() {
        let mut words = line.split_whitespace();
        let Some(instruction) = words.next().filter(|word| !word.starts_with(['.', '#'])) else { continue };
        if line.contains(register) && flow.in_loop(i) {
            report.wide += 1;
        }
        if instruction.starts_with("call") || (instruction.starts_with("jmp") && line.contains("@PLT")) {
            let callee = callee(words.next().unwrap_or(""), lines);
            let copies = ["memcpy", "memset", "memmove", "bzero"].iter().any(|name| callee.starts_with(name));
            if !copies && !panics(line) {
                report.faults.push(format!("calls {callee}"));
            } else if copies && flow.innermost(i).is_some_and(|body| body.iter().any(|i| lines[*i].contains(register)))
            {
                report.faults.push(format!("calls {callee} among the vectors of an innermost loop"));
            }
        }
        if instruction.starts_with("vfm") || instruction.starts_with("vfnm") || instruction == "vcvtneps2bf16" {
            report.faults.push(format!("uses {instruction}"));
        }
        if !flow.in_loop(i) {
            continue;
        }
        if let Some(operation) = ["vmul", "vadd", "vsub", "vdiv"].iter().find(|name| instruction == format!("{name}ss"))
        {
            // The remainder of a vector loop may be scalar.
            let vector = format!("{operation}ps");
            let vectors =
                |(j, line): (usize, &&str)| flow.in_loop(j) && line.starts_with(&vector) && line.contains(register);
            if !lines.iter().enumerate().any(vectors) {
                report.faults.push(format!("uses {instruction} in a loop and no {vector}"));
            }
        }
        if ["vpinsr", "vpextr", "vscatter", "vpscatter"].iter().any(|name| instruction.starts_with(name)) {
            report.faults.push(format!("uses {instruction} in a loop"));
        }
    }
    report.faults.sort();
    report.faults.dedup();
    if report.wide == 0 {
        report.faults.push(format!("no loop uses {}", &register[1..]));
    }
    report
}

/// Maximum number of moves to follow from a call to the load of the address.
const MAX_MOVES: usize = 4;

/// The name of a called function, also if its address is in a register.
fn callee<'a>(operand: &'a str, lines: &[&'a str]) -> &'a str {
    let operand = operand.trim_start_matches('*');
    named(operand, lines, MAX_MOVES).unwrap_or(operand).trim_start_matches('_')
}

fn named<'a>(place: &str, lines: &[&'a str], moves: usize) -> Option<&'a str> {
    let sources = || {
        let moved = |line: &&'a str| line.strip_prefix("movq")?.trim().rsplit_once(", ");
        lines.iter().filter_map(moved).filter(|(_, to)| *to == place).map(|(from, _)| from)
    };
    let direct = sources().find_map(|from| from.strip_suffix("@GOTPCREL(%rip)"));
    direct.or_else(|| sources().filter(|_| moves > 0).find_map(|from| named(from, lines, moves - 1)))
}

/// Whether a call does not return.
fn panics(line: &str) -> bool {
    line.contains("panic") || line.contains("slice_index_fail")
}

/// The natural loops of a function's control flow graph, as sets of lines by their first line.
///
/// The order of lines is not sufficient: the compiler moves cold blocks out of a loop and others into it.
struct Flow {
    loops: BTreeMap<usize, BTreeSet<usize>>,
}

impl Flow {
    fn of(lines: &[&str]) -> Self {
        let labels: BTreeMap<&str, usize> =
            lines.iter().enumerate().filter_map(|(i, line)| Some((line.strip_suffix(':')?, i))).collect();
        let successors: Vec<Vec<usize>> =
            lines.iter().enumerate().map(|(i, line)| successors_of(line, i, lines.len(), &labels)).collect();
        let mut predecessors = vec![Vec::new(); lines.len()];
        for (from, all) in successors.iter().enumerate() {
            for to in all {
                predecessors[*to].push(from);
            }
        }
        let mut loops: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (from, header) in back_edges(&successors) {
            let body = loops.entry(header).or_insert_with(|| BTreeSet::from([header]));
            let mut pending = vec![from];
            while let Some(line) = pending.pop() {
                if body.insert(line) {
                    pending.extend(&predecessors[line]);
                }
            }
        }
        Self { loops }
    }

    fn in_loop(&self, line: usize) -> bool {
        self.loops.values().any(|body| body.contains(&line))
    }

    /// The loop around a line, if no other loop is inside it.
    fn innermost(&self, line: usize) -> Option<&BTreeSet<usize>> {
        let (header, body) =
            self.loops.iter().filter(|(_, body)| body.contains(&line)).min_by_key(|(_, body)| body.len())?;
        (!self.loops.keys().any(|other| other != header && body.contains(other))).then_some(body)
    }
}

/// The possible successors of a line.
fn successors_of(line: &str, index: usize, count: usize, labels: &BTreeMap<&str, usize>) -> Vec<usize> {
    let mut words = line.split_whitespace();
    let instruction = words.next().unwrap_or("");
    let jumps = instruction.starts_with('j');
    let ends = instruction.starts_with("ret") || instruction == "ud2" || instruction == "jmp" || panics(line);
    let target = words.next().filter(|_| jumps).and_then(|label| labels.get(label).copied());
    let next = Some(index + 1).filter(|next| !ends && *next < count);
    target.into_iter().chain(next).collect()
}

/// The back edges of the graph.
fn back_edges(successors: &[Vec<usize>]) -> Vec<(usize, usize)> {
    let mut edges = Vec::new();
    let mut seen = vec![false; successors.len()];
    let mut on_path = vec![false; successors.len()];
    // Each entry of the path is a line and the number of its successors already followed.
    let mut path = vec![(0, 0)];
    while let Some((line, followed)) = path.last_mut() {
        let line = *line;
        seen[line] = true;
        on_path[line] = true;
        match successors[line].get(*followed) {
            Some(next) => {
                *followed += 1;
                if on_path[*next] {
                    edges.push((line, *next));
                } else if !seen[*next] {
                    path.push((*next, 0));
                }
            }
            None => {
                on_path[line] = false;
                path.pop();
            }
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_contains_kernel_types_and_level() {
        let symbol = "_RINvNvNtCse1GA2XgrMUQ_17anamnesis_kernels6scaled6scaled2v3NtNtNtB6_5float4e4m34E4m3NtNtB6_6output4Bf16ECsBOR9aAJbdW_7stamped";
        assert_eq!(stamped_name(symbol), Some(("scaled::scaled::<E4m3, Bf16>".into(), "v3")));
        assert_eq!(stamped_name("_RNvNtCse1GA2XgrMUQ_17anamnesis_kernels6scaled6scaled"), None);
    }

    #[test]
    fn a_wide_loop_passes() {
        let lines = [".LBB0_1:", "vmulps %ymm0, %ymm1, %ymm1", "jne .LBB0_1", "callq *memcpy@GOTPCREL(%rip)", "retq"];
        let report = inspect(&lines, "v3");
        assert_eq!((report.wide, report.faults), (1, vec![]));
    }

    #[test]
    fn a_rare_block_placed_inside_a_loop_is_not_part_of_it() {
        let lines = [
            "jmp .L2",
            ".L1:",
            "callq memcpy",
            "jmp .L4",
            ".L2:",
            "testq %rax, %rax",
            "je .L1",
            "jmp .L2",
            ".L4:",
            "retq",
        ];
        let flow = Flow::of(&lines);
        assert!(!flow.in_loop(2));
        assert!(flow.innermost(5).is_some());
    }

    #[test]
    fn searches_may_call_rare_functions_only() {
        let rare = ["calls log2@GOTPCREL(%rip)", "uses vpextrb in a loop"];
        assert_eq!(rare.map(is_fault_of_search), [false, false]);
        let faults = ["calls closure", "no loop uses zmm", "uses vfmadd213ps"];
        assert_eq!(faults.map(is_fault_of_search), [true, true, true]);
    }

    #[test]
    fn a_call_through_a_register_is_resolved() {
        assert_eq!(callee("*%r15", &["movq\tmemcpy@GOTPCREL(%rip), %r15"]), "memcpy");
        let moved = ["movq\tmemcpy@GOTPCREL(%rip), %r14", "movq\t%r14, 24(%rsp)", "movq\t24(%rsp), %rax"];
        assert_eq!((callee("*%rax", &moved), callee("*%rcx", &moved)), ("memcpy", "%rcx"));
        assert_eq!(callee("*memset@GOTPCREL(%rip)", &[]), "memset@GOTPCREL(%rip)");
    }

    #[test]
    fn calls_among_vectors_and_narrow_loops_are_faults() {
        let narrow = [".L1:", "vmulss %xmm0, %xmm1, %xmm1", "jne .L1", "callq convert"];
        assert_eq!(inspect(&narrow, "v4").faults.len(), 3);
        let copying = [".L1:", "callq *memcpy@GOTPCREL(%rip)", "vmulps %zmm0, %zmm1, %zmm1", "jne .L1", "retq"];
        assert_eq!(inspect(&copying, "v4").faults.len(), 1);
    }
}
