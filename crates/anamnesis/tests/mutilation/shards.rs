//! Mutations of a sharded checkpoint: a missing shard or a wrong index, with three shards.

use super::case::Case;
use super::mutation::Mutation;
use super::subject::{Stored, Subject};

pub const SHARDS: usize = 3;

pub fn mutations(case: &Case) -> Vec<Mutation> {
    let mut mutations = Vec::new();
    for shard in 0..SHARDS {
        let leave_out = move |subject: &mut Subject| subject.spread.missing = Some(shard);
        mutations.push(Mutation::new("shards", format!("shard {shard}"), "not there", leave_out));
    }
    for Stored { name, .. } in case.parts() {
        for shard in 0..SHARDS {
            let part = name.clone();
            let move_part = move |subject: &mut Subject| subject.spread.moved.extend([(part.clone(), shard)]);
            mutations.push(Mutation::new("shards", name, format!("in shard {shard}"), move_part));
            let part = name.clone();
            let misplace = move |subject: &mut Subject| subject.spread.misplaced.extend([(part.clone(), shard)]);
            mutations.push(Mutation::new("index", name, format!("listed in shard {shard}"), misplace));
        }
        let part = name.clone();
        let forget = move |subject: &mut Subject| subject.spread.unlisted.extend([part.clone()]);
        mutations.push(Mutation::new("index", name, "not listed", forget));
    }
    let parts = case.parts.clone();
    let forget_all = move |subject: &mut Subject| subject.spread.unlisted.extend(parts.iter().cloned());
    mutations.push(Mutation::new("index", "all parts", "not listed", forget_all));
    mutations
}
