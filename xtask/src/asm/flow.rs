//! The loops of a function.

use std::collections::{BTreeMap, BTreeSet};

use super::dialect::Level;

/// The natural loops of a function's control flow graph, as sets of lines by their first line.
///
/// The order of lines is not sufficient: the compiler moves cold blocks out of a loop and others into it.
pub(super) struct Flow {
    loops: BTreeMap<usize, BTreeSet<usize>>,
}

impl Flow {
    pub(super) fn of(lines: &[&str], level: Level) -> Self {
        let labels: BTreeMap<&str, usize> =
            lines.iter().enumerate().filter_map(|(i, line)| Some((line.strip_suffix(':')?, i))).collect();
        let successors: Vec<Vec<usize>> =
            lines.iter().enumerate().map(|(i, line)| successors_of(line, i, lines.len(), &labels, level)).collect();
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

    pub(super) fn in_loop(&self, line: usize) -> bool {
        self.loops.values().any(|body| body.contains(&line))
    }

    /// The loop around a line, if no other loop is inside it.
    pub(super) fn innermost(&self, line: usize) -> Option<&BTreeSet<usize>> {
        let (header, body) =
            self.loops.iter().filter(|(_, body)| body.contains(&line)).min_by_key(|(_, body)| body.len())?;
        (!self.loops.keys().any(|other| other != header && body.contains(other))).then_some(body)
    }
}

/// The possible successors of a line.
fn successors_of(line: &str, index: usize, count: usize, labels: &BTreeMap<&str, usize>, level: Level) -> Vec<usize> {
    let target = level.jump(line).and_then(|label| labels.get(label).copied());
    let next = Some(index + 1).filter(|next| !level.ends(line) && *next < count);
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
        let flow = Flow::of(&lines, Level::V3);
        assert!(!flow.in_loop(2));
        assert!(flow.innermost(5).is_some());
    }

    #[test]
    fn branches_of_aarch64_are_followed() {
        let lines = ["cbz\tx1, .L2", ".L1:", "subs\tx1, x1, #8", "b.ne\t.L1", "tbnz\tw0, #3, .L1", ".L2:", "ret"];
        let flow = Flow::of(&lines, Level::Neon);
        assert_eq!([0, 2, 4, 6].map(|line| flow.in_loop(line)), [false, true, true, false]);
    }
}
