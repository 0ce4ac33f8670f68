//! GLM 4.5 and 4.6: experts, and layers behind the last that guess the tokens after next.

use super::config::{Config, Default};
use super::key::{COMMON, From, Key, count, counted, real};
use super::kind::{Architecture, Class, USUAL};
use super::rule::{AROUND, ATTENTION, EXPERTS, GATED, QK_NORMS, Rule, SHARED_EXPERTS, layer};
use super::tokenizer::Family;
use crate::error::Result;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "glm4moe",
    classes: &[Class {
        name: "Glm4MoeForCausalLM",
        model_type: "glm4_moe",
        defaults: &[
            ("vocab_size", Default::Count(151_552)),
            ("hidden_size", Default::Count(4096)),
            ("intermediate_size", Default::Count(10944)),
            ("num_hidden_layers", Default::Count(46)),
            ("num_attention_heads", Default::Count(96)),
            ("num_key_value_heads", Default::Count(8)),
            ("max_position_embeddings", Default::Count(131_072)),
            ("rms_norm_eps", Default::Real(1e-5)),
            ("n_routed_experts", Default::Count(128)),
            ("num_experts_per_tok", Default::Count(8)),
            ("moe_intermediate_size", Default::Count(1408)),
            ("norm_topk_prob", Default::Flag(true)),
            ("n_group", Default::Count(1)),
            ("topk_group", Default::Count(1)),
            ("routed_scaling_factor", Default::Real(1.0)),
            ("first_k_dense_replace", Default::Count(1)),
            ("n_shared_experts", Default::Count(1)),
            ("rope_theta", Default::Real(10000.0)),
            ("partial_rotary_factor", Default::Real(0.5)),
        ],
    }],
    rules: &[AROUND, ATTENTION, QK_NORMS, LAYER, GATED, EXPERTS, SHARED_EXPERTS, NEXT],
    keys: &[COMMON, SIZES],
    family: Family::Glm4Moe,
    further_layers: Some(NEXT_LAYERS),
    restore: |file, config| {
        config.remove("num_local_experts");
        let next = file.count("nextn_predict_layers").unwrap_or(0);
        if let Some(layers) = file.count("block_count") {
            config.insert("num_hidden_layers".to_owned(), layers.saturating_sub(next).into());
        }
        let size = file.count("attention.key_length").filter(|size| *size > 0);
        if let (Some(dimensions), Some(size)) = (file.count("rope.dimension_count"), size) {
            config.insert("partial_rotary_factor".to_owned(), (dimensions as f64 / size as f64).into());
        }
        config.insert("norm_topk_prob".to_owned(), file.told("expert_weights_norm").unwrap_or(true).into());
        config.insert("use_qk_norm".to_owned(), file.has("blk.0.attn_q_norm.weight").into());
        Ok(0)
    },
    ..USUAL
};

/// The key that tells how many layers guess tokens after next.
const NEXT_LAYERS: &str = "num_nextn_predict_layers";

const LAYER: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*"),
    layer("post_attention_layernorm.*", "post_attention_norm.*"),
    layer("mlp.gate.e_score_correction_bias", "exp_probs_b.bias"),
];

const NEXT: &[Rule] = &[
    layer("eh_proj.*", "nextn.eh_proj.*"),
    layer("embed_tokens.*", "nextn.embed_tokens.*"),
    layer("enorm.*", "nextn.enorm.*"),
    layer("hnorm.*", "nextn.hnorm.*"),
    layer("shared_head.head.*", "nextn.shared_head_head.*"),
    layer("shared_head.norm.*", "nextn.shared_head_norm.*"),
];

const SIZES: &[Key] = &[
    counted("block_count", all_layers),
    counted("rope.dimension_count", |config| {
        let part = config.rope().real("partial_rotary_factor")?.unwrap_or(0.5);
        Ok(Some((config.head_size()? as f64 * part) as u64))
    }),
    count("expert_count", &["n_routed_experts"]),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count("expert_shared_count", &["n_shared_experts"]),
    count("leading_dense_block_count", &["first_k_dense_replace"]),
    counted("expert_gating_func", |_| Ok(Some(2))),
    real("expert_weights_scale", &["routed_scaling_factor"]),
    Key { gguf: "expert_weights_norm", from: From::Told(|config| config.flag("norm_topk_prob")) },
    count("nextn_predict_layers", &[NEXT_LAYERS]),
];

fn all_layers(config: &Config) -> Result<Option<u64>> {
    Ok(Some(config.needed("num_hidden_layers")? + config.count(&[NEXT_LAYERS])?.unwrap_or(0)))
}
