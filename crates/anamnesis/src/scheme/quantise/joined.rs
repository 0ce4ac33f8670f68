//! Layers that serving engines join to one: their weights share a global scale, of which such an engine keeps the largest.

use super::layers::encode;
use super::quantiser::{Candidate, Decision};
use crate::error::Result;
use crate::scheme::coder::TileEncoder;

/// The layers that llm-compressor gives one global scale, by their names in a module.
pub(crate) const BY_LLM_COMPRESSOR: &[&[&str]] =
    &[&["gate_proj", "up_proj"], &["q_proj", "k_proj", "v_proj"], &["q_a_proj", "kv_a_proj_with_mqa"], &["w1", "w3"]];

/// The same for ModelOpt, which joins whatever has the same input: the names that models have for these.
pub(crate) const BY_MODELOPT: &[&[&str]] = &[
    &["gate_proj", "up_proj"],
    &["q_proj", "k_proj", "v_proj"],
    &["q_a_proj", "kv_a_proj_with_mqa"],
    &["w1", "w3"],
    &["query", "key", "value"],
    &["wi_0", "wi_1"],
    &["in_proj_qkvz", "in_proj_ba"],
    &["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"],
];

/// The decision to encode a weight, with the others of its set where it is of one.
pub(crate) fn encode_joined(
    tensor: &Candidate<'_>,
    sets: &[&[&str]],
    encoder: impl TileEncoder + 'static,
) -> Result<Decision> {
    match set_of(tensor.module(), sets) {
        Some(set) => Ok(Decision::EncodeShared(Box::new(encoder), set)),
        None => encode(encoder),
    }
}

/// The set that a layer belongs to.
fn set_of(module: &str, sets: &[&[&str]]) -> Option<String> {
    let (parent, layer) = module.rsplit_once('.').unwrap_or(("", module));
    let set = sets.iter().find(|set| set.contains(&layer))?;
    Some(format!("{parent}.{}", set.join("+")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_one_module_and_one_set_belong_together() {
        let of = |module: &str| set_of(module, BY_LLM_COMPRESSOR);
        assert_eq!(of("a.0.self_attn.q_proj"), of("a.0.self_attn.v_proj"));
        assert_ne!(of("a.0.self_attn.q_proj"), of("a.1.self_attn.q_proj"));
        assert_eq!(of("a.experts.3.w1"), of("a.experts.3.w3"));
        assert_ne!(of("a.experts.3.w1"), of("a.experts.4.w3"));
        assert_ne!(of("mlp.gate_proj"), of("mlp.q_proj"));
        assert_eq!([of("a.mlp.down_proj"), of("a.w2"), of("a.self_attn.o_proj"), of("")], [const { None }; 4]);
    }
}
