//! The check of one function.

use super::dialect::{Level, panics};
use super::flow::Flow;

/// The check of one function.
pub(super) struct Report {
    /// Instructions inside loops that use the level's full registers.
    pub(super) wide: usize,
    pub(super) faults: Vec<String>,
}

/// Checks one function.
pub(super) fn inspect(lines: &[&str], level: Level) -> Report {
    let flow = Flow::of(lines, level);
    let mut report = Report { wide: 0, faults: Vec::new() };
    let mut moved = 0;
    for (i, line) in lines.iter().enumerate() {
        let mut words = line.split_whitespace();
        let Some(instruction) = words.next().filter(|word| !word.starts_with(['.', '#', '/'])) else { continue };
        if level.is_wide(line) && flow.in_loop(i) {
            report.wide += 1;
        }
        if let Some(callee) = level.callee(line, lines) {
            let copies = ["memcpy", "memset", "memmove", "bzero"].iter().any(|name| callee.starts_with(name));
            if !copies && !panics(line) {
                report.faults.push(format!("calls {callee}"));
            } else if copies && flow.innermost(i).is_some_and(|body| body.iter().any(|i| level.is_wide(lines[*i]))) {
                report.faults.push(format!("calls {callee} among the vectors of an innermost loop"));
            }
        }
        if level.is_fused(instruction) {
            report.faults.push(format!("uses {instruction}"));
        }
        if !flow.in_loop(i) {
            continue;
        }
        if let Some(vector) = level.vector_form(line) {
            // The remainder of a vector loop may be scalar.
            let vectors =
                |(j, line): (usize, &&str)| flow.in_loop(j) && line.starts_with(&vector) && level.is_wide(line);
            if !lines.iter().enumerate().any(vectors) {
                report.faults.push(format!("uses scalar {instruction} in a loop and no {}", vector.replace('\t', " ")));
            }
        }
        if level.moves_element(line) {
            moved += 1;
            if level.wide_per_move() == 0 {
                report.faults.push(format!("uses {instruction} in a loop"));
            }
        }
    }
    report.faults.sort();
    report.faults.dedup();
    if moved * level.wide_per_move() > report.wide {
        report.faults.push(format!("moves {moved} single elements in loops"));
    }
    if report.wide == 0 {
        report.faults.push(format!("no loop uses {}", level.registers()));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_loop_passes() {
        let lines = [".LBB0_1:", "vmulps %ymm0, %ymm1, %ymm1", "jne .LBB0_1", "callq *memcpy@GOTPCREL(%rip)", "retq"];
        let report = inspect(&lines, Level::V3);
        assert_eq!((report.wide, report.faults), (1, vec![]));
        let lines = [".LBB0_1:", "fmul\tv0.4s, v1.4s, v2.4s", "b.ne\t.LBB0_1", "bl\tmemcpy", "ret"];
        let report = inspect(&lines, Level::Neon);
        assert_eq!((report.wide, report.faults), (1, vec![]));
    }

    #[test]
    fn calls_among_vectors_and_narrow_loops_are_faults() {
        let narrow = [".L1:", "vmulss %xmm0, %xmm1, %xmm1", "jne .L1", "callq convert"];
        assert_eq!(inspect(&narrow, Level::V4).faults.len(), 3);
        let copying = [".L1:", "callq *memcpy@GOTPCREL(%rip)", "vmulps %zmm0, %zmm1, %zmm1", "jne .L1", "retq"];
        assert_eq!(inspect(&copying, Level::V4).faults.len(), 1);
        let narrow = [".L1:", "fmul\ts0, s1, s2", "mov\tv0.h[3], w8", "b.ne\t.L1", "bl\tconvert"];
        assert_eq!(inspect(&narrow, Level::Neon).faults.len(), 4);
    }
}
