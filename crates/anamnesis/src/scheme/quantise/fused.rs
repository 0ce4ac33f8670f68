//! Layers that serving engines fuse into one, such as q, k and v. Their weights share a global scale, because the
//! engine keeps only the largest global scale of the fused layer.

use super::layers::encode;
use super::quantiser::{Candidate, Decision};
use crate::error::Result;
use crate::scheme::coder::TileEncoder;

/// The sets of layers of a module to which llm-compressor gives a common global scale.
pub(crate) const BY_LLM_COMPRESSOR: &[&[&str]] =
    &[&["gate_proj", "up_proj"], &["q_proj", "k_proj", "v_proj"], &["q_a_proj", "kv_a_proj_with_mqa"], &["w1", "w3"]];

/// The same for ModelOpt, which gives a common global scale to all layers with the same input; these are their usual
/// names.
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

/// The decision to encode a weight; if its layer is in one of `sets`, with the global scale of the set.
pub(crate) fn encode_fused(
    tensor: &Candidate<'_>,
    sets: &[&[&str]],
    encoder: impl TileEncoder + 'static,
) -> Result<Decision> {
    match set_of(tensor.module(), sets) {
        Some(set) => Ok(Decision::EncodeShared(Box::new(encoder), set)),
        None => encode(encoder),
    }
}

/// The name of the set that a layer belongs to.
fn set_of(module: &str, sets: &[&[&str]]) -> Option<String> {
    let (parent, layer) = module.rsplit_once('.').unwrap_or(("", module));
    let set = sets.iter().find(|set| set.contains(&layer))?;
    Some(format!("{parent}.{}", set.join("+")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_one_module_and_one_set_share_a_name() {
        let of = |module: &str| set_of(module, BY_LLM_COMPRESSOR);
        assert_eq!(of("a.0.self_attn.q_proj"), of("a.0.self_attn.v_proj"));
        assert_ne!(of("a.0.self_attn.q_proj"), of("a.1.self_attn.q_proj"));
        assert_eq!(of("a.experts.3.w1"), of("a.experts.3.w3"));
        assert_ne!(of("a.experts.3.w1"), of("a.experts.4.w3"));
        assert_ne!(of("mlp.gate_proj"), of("mlp.q_proj"));
        assert_eq!([of("a.mlp.down_proj"), of("a.w2"), of("a.self_attn.o_proj"), of("")], [const { None }; 4]);
    }
}
