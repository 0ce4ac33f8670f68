//! Hy 4: DeepSeek's latent attention with a gate and learnable sinks, an indexer, and hyper-connections.

use super::deepseek::{INDEXER, INDEXER_KEYS, INDEXER_TYPES};
use crate::architecture::families::DEEPSEEK;
use crate::architecture::latent::{LATENT_ATTENTION, LATENT_KEYS, V_DIM};
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "hy_v4",
    classes: &[class("HYV4ForCausalLM", "hy_v4")],
    dropped: &["model.mtp_layers."],
    rules: &[
        EMBED_NORM_HEAD,
        NORMS,
        LATENT_ATTENTION,
        GATES,
        INDEXER,
        HYPER_CONNECTIONS,
        GATED_FFN,
        EXPERTS,
        SHARED_EXPERTS,
    ],
    keys: &[COMMON, UNGROUPED, LATENT_KEYS, KEYS, INDEXER_KEYS, INDEXER_TYPES],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::DeepSeek3, "hy_v4")], ..BPE },
    types: TypeRules::with_f32(&["hc_attn_fn", "hc_ffn_fn", "output_hc_fn"]),
    ..DEEPSEEK
};

const GATES: &[Rule] = &[
    layer("self_attn.linear_gate.*", "attn_gate.*", &[V_DIM, HIDDEN]),
    layer("self_attn.learnable_sink_param", "attn_sinks.weight", &[HEADS]),
];

const STREAMS: Size = size(|config| config.needed("hc_mult"), "hc_mult", "hyper_connection.count");
const TWO_STREAMS: Size = size(|config| Ok((STREAMS.of)(config)?.saturating_mul(2)), STREAMS.hf, STREAMS.gguf);
const ALL_STREAMS: Size = size(
    |config| Ok((STREAMS.of)(config)?.saturating_mul(first(config, HIDDEN_KEYS)?)),
    "hc_mult, hidden_size",
    "hyper_connection.count, embedding_length",
);
const TWO: Size = size(|_| Ok(2), "", "");

const HYPER_CONNECTIONS: &[Rule] = &[
    model("model.hc_head.hc_head_base", "output_hc_base.weight", &[STREAMS]),
    model("model.hc_head.hc_head_fn", "output_hc_fn.weight", &[STREAMS, ALL_STREAMS]),
    model("model.hc_head.hc_head_scale", "output_hc_scale.weight", &[ONE]),
    layer("hc_attn_layer.hc_pre.hc_base", "hc_attn_base.weight", &[TWO_STREAMS]),
    layer("hc_attn_layer.hc_pre.hc_fn", "hc_attn_fn.weight", &[TWO_STREAMS, ALL_STREAMS]),
    layer("hc_attn_layer.hc_pre.hc_scale", "hc_attn_scale.weight", &[TWO]),
    layer("hc_mlp_layer.hc_pre.hc_base", "hc_ffn_base.weight", &[TWO_STREAMS]),
    layer("hc_mlp_layer.hc_pre.hc_fn", "hc_ffn_fn.weight", &[TWO_STREAMS, ALL_STREAMS]),
    layer("hc_mlp_layer.hc_pre.hc_scale", "hc_ffn_scale.weight", &[TWO]),
];

/// One group of experts is none.
const UNGROUPED: &[Key] = &[removed("expert_group_count"), removed("expert_group_used_count"), GROUPS[0], GROUPS[1]];

const GROUPS: [Key; 2] = [
    count_fn("expert_group_count", |config| Ok(groups(config)?.map(|(groups, _)| groups))),
    count_fn("expert_group_used_count", |config| Ok(groups(config)?.map(|(_, used)| used))),
];

fn groups(config: &Config) -> Result<Option<(u64, u64)>> {
    let groups = config.count(&["n_group"])?.zip(config.count(&["topk_group"])?);
    Ok(groups.filter(|groups| *groups != (1, 1)))
}

const KEYS: &[Key] = &[
    count_fn("leading_dense_block_count", leading),
    count_fn("expert_gating_func", |_| Ok(Some(2))),
    reals_fn("swiglu_clamp_exp", |config| match config.real(&["swiglu_limit"])? {
        Some(limit) if limit > 0.0 => config.per_layer(|_| Ok(limit as f32)).map(Some),
        _ => Ok(None),
    }),
    count_fn("hyper_connection.count", |config| (STREAMS.of)(config).map(Some)),
    needed_real("hyper_connection.epsilon", "hc_eps"),
    needed_real("hyper_connection.magnitude", "hc_magnitude"),
];

/// The layers without experts, which come first.
fn leading(config: &Config) -> Result<Option<u64>> {
    let layers = config.layers()?;
    let mut leading = None;
    for layer in 0..layers {
        match (has_experts(config, layer)?, leading) {
            (true, None) => leading = Some(layer),
            (false, Some(first)) => {
                let why = format!("config.json: \"mlp_layer_types\": layer {layer} has no experts, layer {first} has");
                return Err(AnamnesisError::parse(why));
            }
            _ => {}
        }
    }
    Ok(Some(leading.unwrap_or(layers)))
}
