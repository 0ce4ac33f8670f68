//! The assembly of an architecture, as far as the check reads it.

/// A level with its instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// AVX2, registers of 256 bits.
    V3,
    /// AVX-512, registers of 512 bits.
    V4,
    /// The baseline of AArch64, registers of 128 bits.
    Neon,
}

/// Operations on single-precision floats.
const FLOAT_OPERATIONS: [&str; 4] = ["mul", "add", "sub", "div"];

/// Arrangements of full registers of AArch64.
const ARRANGEMENTS: [&str; 4] = [".16b", ".8h", ".4s", ".2d"];

/// Maximum number of moves to follow from a call to the load of the address.
const MAX_MOVES: usize = 4;

impl Level {
    /// The level of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "v3" => Some(Self::V3),
            "v4" => Some(Self::V4),
            "neon" => Some(Self::Neon),
            _ => None,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V3 => "v3",
            Self::V4 => "v4",
            Self::Neon => "neon",
        }
    }

    /// The registers of this level.
    pub(super) const fn registers(self) -> &'static str {
        match self {
            Self::V3 => "ymm",
            Self::V4 => "zmm",
            Self::Neon => "vectors",
        }
    }

    /// Whether a line computes with full registers of this level.
    pub(super) fn is_wide(self, line: &str) -> bool {
        match self {
            Self::V3 => line.contains("%ymm"),
            Self::V4 => line.contains("%zmm"),
            Self::Neon => ARRANGEMENTS.iter().any(|arrangement| line.contains(arrangement)),
        }
    }

    /// The function that a line calls, if it is a call.
    pub(super) fn callee<'a>(self, line: &'a str, lines: &[&'a str]) -> Option<&'a str> {
        let (instruction, operands) = line.split_once(char::is_whitespace)?;
        let operands = operands.trim();
        match self {
            Self::V3 | Self::V4 => {
                let calls =
                    instruction.starts_with("call") || (instruction.starts_with("jmp") && line.contains("@PLT"));
                calls.then(|| x86_callee(operands.split_whitespace().next().unwrap_or(""), lines))
            }
            Self::Neon => {
                // A tail call is a branch to a symbol.
                let calls = matches!(instruction, "bl" | "blr") || (instruction == "b" && !operands.starts_with(".L"));
                calls.then_some(operands)
            }
        }
    }

    /// The label that a line may jump to.
    pub(super) fn jump(self, line: &str) -> Option<&str> {
        let (instruction, operands) = line.split_once(char::is_whitespace)?;
        match self {
            Self::V3 | Self::V4 => operands.split_whitespace().next().filter(|_| instruction.starts_with('j')),
            Self::Neon => {
                let jumps = instruction == "b"
                    || ["b.", "cbz", "cbnz", "tbz", "tbnz"].iter().any(|it| instruction.starts_with(it));
                operands.rsplit([',', ' ', '\t']).next().filter(|_| jumps)
            }
        }
    }

    /// Whether the line after this one is reached only by jumps.
    pub(super) fn ends(self, line: &str) -> bool {
        let instruction = line.split_whitespace().next().unwrap_or("");
        let ends = match self {
            Self::V3 | Self::V4 => instruction.starts_with("ret") || matches!(instruction, "ud2" | "jmp"),
            Self::Neon => matches!(instruction, "ret" | "brk" | "b" | "br"),
        };
        ends || panics(line)
    }

    /// Whether an instruction rounds once where others round twice, or by a rule of its own.
    pub(super) fn is_fused(self, instruction: &str) -> bool {
        let starts: &[&str] = match self {
            Self::V3 | Self::V4 => &["vfm", "vfnm", "vcvtneps2bf16"],
            Self::Neon => &["fml", "fmadd", "fmsub", "fnm", "bfcvt"],
        };
        starts.iter().any(|start| instruction.starts_with(start)) && !matches!(instruction, "fnmul")
    }

    /// The vector form of a line with scalar float arithmetic: how it starts, in this level's registers.
    pub(super) fn vector_form(self, line: &str) -> Option<String> {
        let (instruction, operands) = line.split_once(char::is_whitespace)?;
        FLOAT_OPERATIONS.iter().find_map(|operation| match self {
            Self::V3 | Self::V4 => (instruction == format!("v{operation}ss")).then(|| format!("v{operation}ps")),
            Self::Neon => {
                let is_scalar = instruction == format!("f{operation}") && operands.trim().starts_with('s');
                is_scalar.then(|| format!("f{operation}\tv"))
            }
        })
    }

    /// How many vector instructions there have to be for each element that is moved by itself; 0 if there may be none.
    pub(super) const fn wide_per_move(self) -> usize {
        match self {
            Self::V3 | Self::V4 => 0,
            // A scale is loaded as an element, and the last step of a sum moves some.
            Self::Neon => 4,
        }
    }

    /// Whether a line moves a single element into or out of a vector.
    pub(super) fn moves_element(self, line: &str) -> bool {
        let instruction = line.split_whitespace().next().unwrap_or("");
        match self {
            Self::V3 | Self::V4 => {
                ["vpinsr", "vpextr", "vscatter", "vpscatter"].iter().any(|start| instruction.starts_with(start))
            }
            // An element may be an operand of vector arithmetic, `fmul v0.4s, v1.4s, v2.s[0]`, and elements of 64 bits are
            // halves of a register, which are put together.
            Self::Neon => {
                let moves = matches!(instruction, "ins" | "umov" | "smov" | "mov" | "ld1" | "st1");
                moves && [".b[", ".h[", ".s[", ".b }[", ".h }[", ".s }["].iter().any(|part| line.contains(part))
            }
        }
    }
}

/// The name of a called function, also if its address is in a register.
fn x86_callee<'a>(operand: &'a str, lines: &[&'a str]) -> &'a str {
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
pub(super) fn panics(line: &str) -> bool {
    line.contains("panic") || line.contains("slice_index_fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_through_a_register_is_resolved() {
        assert_eq!(x86_callee("*%r15", &["movq\tmemcpy@GOTPCREL(%rip), %r15"]), "memcpy");
        let moved = ["movq\tmemcpy@GOTPCREL(%rip), %r14", "movq\t%r14, 24(%rsp)", "movq\t24(%rsp), %rax"];
        assert_eq!((x86_callee("*%rax", &moved), x86_callee("*%rcx", &moved)), ("memcpy", "%rcx"));
        assert_eq!(x86_callee("*memset@GOTPCREL(%rip)", &[]), "memset@GOTPCREL(%rip)");
    }

    #[test]
    fn instructions_of_aarch64_are_distinguished() {
        let neon = Level::Neon;
        assert!(neon.is_wide("fmul\tv0.4s, v1.4s, v2.s[0]") && !neon.is_wide("fmul\ts0, s1, s2"));
        assert_eq!(neon.vector_form("fmul\ts0, s1, s2").as_deref(), Some("fmul\tv"));
        assert_eq!(neon.vector_form("fmul\tv0.4s, v1.4s, v2.4s"), None);
        let moved = ["mov\tv0.h[3], w8", "umov\tw8, v0.b[1]", "ld1\t{ v0.b }[1], [x8]", "fmul\tv0.4s, v1.4s, v2.s[0]"];
        assert_eq!(moved.map(|line| neon.moves_element(line)), [true, true, true, false]);
        assert_eq!(["fmla", "fmadd", "fmul"].map(|name| neon.is_fused(name)), [true, true, false]);
        assert_eq!(neon.callee("bl\tmemcpy", &[]), Some("memcpy"));
        assert_eq!((neon.callee("b\tmemcpy", &[]), neon.callee("b\t.LBB0_1", &[])), (Some("memcpy"), None));
    }
}
