//! One way to mutilate a checkpoint, and the list of all of them.

use super::case::Case;
use super::subject::Subject;
use super::{configuration, metadata, names, shapes, shards, types};

type Change = Box<dyn Fn(&mut Subject) + Send + Sync>;

/// A change of one thing.
pub struct Mutation {
    /// The kind of change.
    pub class: &'static str,
    /// The tensor or the member of the configuration that is changed.
    pub part: String,
    /// What it becomes.
    pub to: String,
    change: Change,
}

impl Mutation {
    pub fn new(
        class: &'static str,
        part: impl Into<String>,
        to: impl Into<String>,
        change: impl Fn(&mut Subject) + Send + Sync + 'static,
    ) -> Self {
        Self { class, part: part.into(), to: to.into(), change: Box::new(change) }
    }

    pub fn apply(&self, subject: &mut Subject) {
        (self.change)(subject);
    }

    pub fn describe(&self) -> String {
        format!("{} {} -> {}", self.class, self.part, self.to)
    }
}

/// All mutations of a case: of its tensors, of its configuration, and of its files.
pub struct Mutations {
    pub tensors: Vec<Mutation>,
    pub configuration: Vec<Mutation>,
    pub shards: Vec<Mutation>,
}

impl Mutations {
    pub fn of(case: &Case) -> Self {
        let mut tensors = names::mutations(case);
        tensors.extend(types::mutations(case));
        tensors.extend(shapes::mutations(case));
        tensors.extend(metadata::mutations(case));
        Self { tensors, configuration: configuration::mutations(case), shards: shards::mutations(case) }
    }
}
