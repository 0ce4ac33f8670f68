//! The sizes of a model's layers, from the members of its configuration that name them.

use std::collections::BTreeMap;

/// Members whose value is a dimension of matrices.
const SIZES: [&str; 10] = [
    "hidden_size",
    "intermediate_size",
    "vocab_size",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "n_embd",
    "n_inner",
    "d_model",
    "d_ff",
    "ffn_dim",
];
const HEAD_SIZE: &str = "head_dim";
/// Members whose value, times the size of a head, is a dimension.
const HEADS: [&str; 3] = ["num_attention_heads", "num_key_value_heads", "n_head"];
/// The most numbers that are recorded for a document.
const MOST: usize = 256;

/// The numbers of a document that name sizes, by the object they are in.
#[derive(Debug, Default)]
pub(super) struct SizeMembers {
    objects: BTreeMap<String, Vec<(&'static str, u64)>>,
    count: usize,
}

impl SizeMembers {
    /// Records a number at a path of keys.
    pub(super) fn add(&mut self, path: &[String], number: u64) {
        let Some((key, outer)) = path.split_last() else { return };
        let mut known = SIZES.iter().chain(&HEADS).chain([&HEAD_SIZE]);
        let Some(key) = known.find(|known| *known == key).filter(|_| self.count < MOST) else { return };
        self.count += 1;
        self.objects.entry(outer.join(".")).or_default().push((key, number));
    }

    /// All dimensions of matrices, in order.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let mut sizes = Vec::new();
        for members in self.objects.values() {
            let value = |key: &str| members.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
            sizes.extend(SIZES.iter().filter_map(|key| value(key)));
            let heads = value("num_attention_heads").or(value("n_head"));
            let width = value("hidden_size").or(value("n_embd"));
            let derived = width.zip(heads).and_then(|(width, heads)| width.checked_div(heads));
            if let Some(head) = value(HEAD_SIZE).or(derived) {
                sizes.extend(HEADS.iter().filter_map(|key| value(key)?.checked_mul(head)));
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}
