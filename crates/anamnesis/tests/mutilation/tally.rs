//! Counting outcomes, and listing the faults by class.

use std::collections::BTreeMap;
use std::fmt;

use super::verdict::Verdict;

#[derive(Debug, Default)]
pub struct Tally {
    tries: usize,
    correct: usize,
    refused: usize,
    /// Different values that are legitimate.
    legitimate: BTreeMap<&'static str, usize>,
    wrong: usize,
    orphans: usize,
    lost: usize,
    panicked: usize,
    /// By family, mutation and kind of fault: the count, and the first few.
    faults: BTreeMap<String, (usize, Vec<String>)>,
}

/// Faults that are shown of each class.
const SHOWN: usize = 2;

impl Tally {
    /// Counts one try of a case; `class` and `what` name the mutilation.
    pub fn count(&mut self, case: &str, class: &str, what: &str, legitimate: Option<&'static str>, verdict: Verdict) {
        self.tries += 1;
        let (kind, detail) = match (verdict, legitimate) {
            (Verdict::Correct, _) => return self.correct += 1,
            (Verdict::Refused(_), _) => return self.refused += 1,
            (Verdict::Wrong(_) | Verdict::Lost(_) | Verdict::Orphan(_), Some(reason)) => {
                *self.legitimate.entry(reason).or_default() += 1;
                if std::env::var("AMN_REASONS").is_ok() {
                    println!("REASON\t{reason}\t{case}\t{class}\t{what}");
                }
                return;
            }
            (Verdict::Wrong(detail), None) => {
                self.wrong += 1;
                ("wrong", detail)
            }
            (Verdict::Orphan(detail), None) => {
                self.orphans += 1;
                ("orphan", detail)
            }
            (Verdict::Lost(detail), None) => {
                self.lost += 1;
                ("lost", detail)
            }
            (Verdict::Panicked, _) => {
                self.panicked += 1;
                ("panicked", String::new())
            }
        };
        let family = case.rsplit_once('/').map_or(case, |(family, _)| family);
        let (count, shown) = self.faults.entry(format!("{kind}: {family}: {class}")).or_default();
        *count += 1;
        if shown.len() < SHOWN {
            shown.push(format!("{case}, {what}: {detail}"));
        }
    }

    pub fn add(&mut self, other: Self) {
        self.tries += other.tries;
        self.correct += other.correct;
        self.refused += other.refused;
        self.wrong += other.wrong;
        self.orphans += other.orphans;
        self.lost += other.lost;
        self.panicked += other.panicked;
        for (reason, count) in other.legitimate {
            *self.legitimate.entry(reason).or_default() += count;
        }
        for (class, (count, shown)) in other.faults {
            let mine = self.faults.entry(class).or_default();
            mine.0 += count;
            mine.1.extend(shown);
            mine.1.truncate(SHOWN);
        }
    }

    pub fn tries(&self) -> usize {
        self.tries
    }

    pub fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked: usize = self.legitimate.values().sum();
        let Self { tries, correct, refused, wrong, orphans, lost, panicked, .. } = self;
        writeln!(
            f,
            "{tries} tries: {correct} correct, {refused} refused, {asked} as asked for, {wrong} wrong, {orphans} orphans, \
             {lost} lost, {panicked} panicked"
        )?;
        for (reason, count) in &self.legitimate {
            writeln!(f, "as asked for, {count}: {reason}")?;
        }
        for (class, (count, shown)) in &self.faults {
            writeln!(f, "{class} ({count})")?;
            for line in shown {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}
