//! Runs mutations in different surroundings and judges the results.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::case::Case;
use super::legitimate::reason;
use super::mutation::{Mutation, Mutations};
use super::shards::SHARDS;
use super::subject::{ConfigFile, Subject};
use super::tally::Tally;
use super::verdict::Verdict;
use crate::support::Noise;

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Everything.
    All,
    /// A random sample, one in this many.
    OneOf(usize),
}

impl Amount {
    /// The amount set by the environment.
    pub fn wanted() -> Self {
        match std::env::var("AMN_MUTILATIONS") {
            Ok(text) if text == "all" => Self::All,
            Ok(text) => panic!("AMN_MUTILATIONS is {text:?}; \"all\" is known"),
            Err(_) => Self::OneOf(SAMPLED),
        }
    }

    /// The seed, by default always the same.
    pub fn seed() -> u64 {
        std::env::var("AMN_SEED").map_or(1, |text| text.parse().expect("AMN_SEED is a number"))
    }

    pub fn takes(self, noise: &mut Noise) -> bool {
        match self {
            Self::All => true,
            Self::OneOf(count) => noise.below(count) == 0,
        }
    }
}

/// One in this many is tried by default, which takes a few seconds.
const SAMPLED: usize = 90;

/// The surroundings of a mutilated checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings {
    pub name: &'static str,
    pub configured: bool,
    pub shards: usize,
    /// Whether there is another weight of the same kind.
    pub twin: bool,
}

const fn surroundings(name: &'static str, configured: bool, shards: usize, twin: bool) -> Surroundings {
    Surroundings { name, configured, shards, twin }
}

/// For changes of tensors.
const ALL: [Surroundings; 5] = [
    surroundings("beside its configuration", true, 1, false),
    surroundings("without a configuration", false, 1, false),
    surroundings("beside another weight, without a configuration", false, 1, true),
    surroundings("in two shards", true, 2, false),
    surroundings("in three shards, without a configuration", false, 3, true),
];

/// For changes of the configuration.
const CONFIGURED: [Surroundings; 2] = [ALL[0], surroundings("in two shards", true, 2, true)];

/// For changes of the files.
const SHARDED: [Surroundings; 2] = [
    surroundings("in three shards", true, SHARDS, false),
    surroundings("in three shards, without a configuration", false, SHARDS, false),
];

impl Surroundings {
    fn case(&self, case: &Case) -> Case {
        let mut case = if self.twin { case.with_twin() } else { case.clone() };
        if !self.configured {
            case.subject.config = ConfigFile::Absent;
        }
        case.subject.spread.shards = self.shards;
        case
    }
}

/// Tries the mutilations of every case.
pub fn run(cases: &[Case], amount: Amount, seed: u64) -> Tally {
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Tally::default());
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else { break };
                    // Each case has its own noise, so that its sample does not depend on the worker.
                    let tally = try_case(case, amount, &mut Noise(seed.wrapping_add((index as u64) << 32)));
                    total.lock().unwrap().add(tally);
                }
            });
        }
    });
    total.into_inner().unwrap()
}

fn try_case(case: &Case, amount: Amount, noise: &mut Noise) -> Tally {
    let mut tally = Tally::default();
    let mutations = Mutations::of(case);
    let groups = [
        (&mutations.tensors, &ALL[..]),
        (&mutations.configuration, &CONFIGURED[..]),
        (&mutations.shards, &SHARDED[..]),
    ];
    for (mutations, places) in groups {
        for place in places {
            let case = place.case(case);
            let untouched = attempt(&case, &case.subject);
            let sound = !untouched.is_fault();
            tally.count(&case.name, "untouched", place.name, None, untouched);
            // A case that is refused unmodified is skipped.
            for mutation in mutations.iter().filter(|_| sound && amount.takes(noise)) {
                try_one(&case, mutation, place, &mut tally);
            }
        }
    }
    tally
}

fn try_one(case: &Case, mutation: &Mutation, place: &Surroundings, tally: &mut Tally) {
    let mut subject = case.subject.clone();
    mutation.apply(&mut subject);
    let verdict = attempt(case, &subject);
    let what = format!("{} {}", mutation.describe(), place.name);
    let legitimate = reason(case, mutation, place, &verdict);
    tally.count(&case.name, mutation.class, &what, legitimate, verdict);
}

fn attempt(case: &Case, subject: &Subject) -> Verdict {
    // A weight is lost if a part of it is still stored.
    let is_stored = |name: &str| {
        let module = name.rsplit_once('.').map_or(name, |(module, _)| module);
        subject.tensors.iter().any(|stored| stored.name.starts_with(module) && case.parts.contains(&stored.name))
    };
    let lost = |name: &str| case.truth.plain.contains_key(name) || is_stored(name);
    match catch_unwind(AssertUnwindSafe(|| subject.decode())) {
        Ok(outcome) => Verdict::of(outcome, &case.truth, lost),
        Err(_) => Verdict::Panicked,
    }
}
