//! Mutations of the header metadata: missing or changed.

use super::case::Case;
use super::mutation::Mutation;

/// Entries that a reader may trust.
const ENTRIES: [(&str, &str); 8] = [
    ("gptq_bits", "8"),
    ("gptq_bits", "3"),
    ("gptq_bits", "x"),
    ("gptq_group_size", "7"),
    ("format", "mlx"),
    ("format", "gptq_v2"),
    ("quantization_config", "{\"quant_method\": \"awq\"}"),
    ("tensor_names", "[\"model.norm.weight\"]"),
];

pub fn mutations(case: &Case) -> Vec<Mutation> {
    let mut mutations = vec![Mutation::new("metadata", "all", "nothing", |subject| subject.metadata.clear())];
    for key in case.subject.metadata.keys() {
        let (remove, change) = (key.clone(), key.clone());
        mutations
            .push(Mutation::new("metadata", key, "nothing", move |subject| drop(subject.metadata.remove(&remove))));
        mutations.push(Mutation::new("metadata", key, "x", move |subject| {
            subject.metadata.insert(change.clone(), "x".to_owned());
        }));
    }
    for (key, value) in ENTRIES {
        mutations.push(Mutation::new("metadata", key, value, move |subject| {
            subject.metadata.insert(key.to_owned(), value.to_owned());
        }));
    }
    mutations
}
