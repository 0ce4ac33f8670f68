//! Nemotron-H: layers of one kind each, state-space, attention or feed-forward.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;
use serde_json::{Map, Value};

/// With the keys of experts, which transformers adds to every configuration that it knows.
pub(super) static WITH_EXPERTS: Architecture = Architecture {
    name: "nemotron_h_moe",
    classes: &[class("NemotronHForCausalLM", "nemotron_h")],
    applies: |raw| is_known(raw) || raw.contains_key("num_experts_per_tok"),
    keys: &[COMMON, KEYS, MOE_KEYS, ROUTER_KEYS],
    ..BOTH
};

/// Puzzle: experts of another size and number in every layer, by a list of layers.
pub(super) static PUZZLE: Architecture = Architecture {
    name: "nemotron_h_moe",
    classes: &[class("NemotronHPuzzleForCausalLM", "nemotron_h_puzzle")],
    keys: &[COMMON, KEYS, PUZZLE_KEYS, ROUTER_KEYS],
    not_held: Some("block_configs"),
    restore: None,
    ..BOTH
};

pub(super) static DENSE_ONLY: Architecture = Architecture {
    name: "nemotron_h",
    classes: &[class("NemotronHForCausalLM", "nemotron_h")],
    applies: |raw| !is_known(raw) && !raw.contains_key("num_experts_per_tok"),
    keys: &[COMMON, KEYS, DENSE_KEYS],
    ..BOTH
};

fn is_known(raw: &Map<String, Value>) -> bool {
    raw.get("model_type").is_some_and(|kind| kind == "nemotron_h")
}

const BOTH: Architecture = Architecture {
    layer_prefix: "backbone.layers.",
    renames: &[
        Rename::Prefix("model.layers.", "backbone.layers."),
        Rename::Prefix("model.embeddings.", "backbone.embeddings."),
        Rename::Prefix("model.norm_f.", "backbone.norm_f."),
    ],
    dropped: &["mtp."],
    rules: &[TENSORS],
    tokenizer: TokenizerRules { fixed_padding: Some(8), ..BPE },
    restore: Some(restored),
    ..PLAIN
};

fn restored(file: &Gguf<'_>, config: &mut Map<String, Value>) -> Result<usize> {
    let kinds = [
        ("ssm_in.weight", "linear_attention"),
        ("attn_q.weight", "full_attention"),
        ("ffn_gate_inp.weight", "moe"),
        ("ffn_up.weight", "mlp"),
    ];
    let kind = |layer: u64| {
        let is_kind = |(tensor, _): &&(&str, &str)| file.has(&format!("blk.{layer}.{tensor}"));
        kinds.iter().find(is_kind).map_or("", |(_, kind)| *kind)
    };
    set(config, "layers_block_type", (0..file.count("block_count").unwrap_or(0)).map(kind).collect::<Vec<_>>());
    // The list of the layers; only those without experts are of this size.
    config.remove("intermediate_size");
    let mut dense = file.shapes.iter().filter(|(name, _)| name.ends_with(".ffn_up.weight"));
    if let Some((_, [inner, ..])) = dense.next() {
        set(config, "intermediate_size", *inner);
    }
    restore::most_kv_heads(file, config);
    if let (Some(inner), Some(heads @ 1..)) = (file.count("ssm.inner_size"), file.count("ssm.time_step_rank")) {
        set(config, "mamba_head_dim", inner / heads);
    }
    if let Some(size) = file.count("attention.key_length") {
        set(config, "head_dim", size);
    }
    set(config, "mamba_proj_bias", file.has_in_layers(&["ssm_in.bias", "ssm_out.bias"]));
    set(config, "use_conv_bias", file.has_in_layers(&["ssm_conv1d.bias"]));
    config.remove("hidden_act");
    Ok(0)
}

/// The kinds of layers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    States,
    Attention,
    Experts,
    Dense,
}

fn kind(config: &Config, layer: u64) -> Result<Kind> {
    if let Some(Value::String(pattern)) = config.get("hybrid_override_pattern") {
        return Ok(match pattern.chars().nth(usize::try_from(layer).unwrap_or(usize::MAX)) {
            Some('M') => Kind::States,
            Some('*') => Kind::Attention,
            Some('E') => Kind::Experts,
            _ => Kind::Dense,
        });
    }
    Ok(match config.text_of_layer("layers_block_type", layer)? {
        Some("mamba" | "linear_attention") => Kind::States,
        Some("attention" | "full_attention") => Kind::Attention,
        Some("moe") => Kind::Experts,
        _ => Kind::Dense,
    })
}

const OF: &str = "layers_block_type, hybrid_override_pattern";
const STATES: Need = Need::When(OF, |config, layer| Ok(needed_if(kind(config, layer)? == Kind::States)));
const STATES_OPTIONAL: Need = Need::When(OF, |config, layer| {
    Ok(if kind(config, layer)? == Kind::States { Presence::Allowed } else { Presence::Surplus })
});
const FULL: Need = Need::When(OF, |config, layer| Ok(needed_if(kind(config, layer)? == Kind::Attention)));
const FULL_OPTIONAL: Need = Need::When(OF, |config, layer| {
    Ok(if kind(config, layer)? == Kind::Attention { Presence::Allowed } else { Presence::Surplus })
});
const SPARSE: Need = Need::When(OF, |config, layer| Ok(needed_if(kind(config, layer)? == Kind::Experts)));
const SPARSE_OPTIONAL: Need = Need::When(OF, |config, layer| {
    Ok(if kind(config, layer)? == Kind::Experts { Presence::Allowed } else { Presence::Surplus })
});
const DENSE: Need = Need::When(OF, |config, layer| Ok(needed_if(kind(config, layer)? == Kind::Dense)));

const HEAD: Size =
    size(|config| first(config, &["head_dim", "attention_head_dim"]), "head_dim", "attention.key_length");
const Q: Size =
    size(|config| Ok(heads(config)?.saturating_mul((HEAD.of)(config)?)), "num_attention_heads, head_dim", Q_DIM.gguf);
const KV: Size = size(
    |config| Ok(kv_heads(config)?.saturating_mul((HEAD.of)(config)?)),
    "num_key_value_heads, head_dim",
    KV_DIM.gguf,
);
const STATE_HEADS: Size = size(|config| config.needed("mamba_num_heads"), "mamba_num_heads", "ssm.time_step_rank");
const INNER: Size = size(
    |config| Ok(config.needed("mamba_num_heads")?.saturating_mul(config.needed("mamba_head_dim")?)),
    "mamba_num_heads, mamba_head_dim",
    "ssm.inner_size",
);
const GROUPS: Size = size(|config| config.divisor("n_groups"), "n_groups", "ssm.group_count");
const GROUP: Size =
    size(|config| Ok((INNER.of)(config)? / (GROUPS.of)(config)?), "n_groups, mamba_num_heads", "ssm.group_count");
const KERNEL: Size = size(|config| config.needed("conv_kernel"), "conv_kernel", "ssm.conv_kernel");
const CONVOLVED: Size = size(
    |config| {
        let states = config.needed("n_groups")?.saturating_mul(config.needed("ssm_state_size")?);
        Ok((INNER.of)(config)?.saturating_add(states.saturating_mul(2)))
    },
    "mamba_num_heads, mamba_head_dim, n_groups, ssm_state_size",
    "ssm.inner_size, ssm.group_count, ssm.state_size",
);
const INPUTS: Size = size(
    |config| {
        let values = (CONVOLVED.of)(config)?.saturating_add((INNER.of)(config)?);
        Ok(values.saturating_add((STATE_HEADS.of)(config)?))
    },
    "mamba_num_heads, mamba_head_dim, n_groups, ssm_state_size",
    "ssm.inner_size, ssm.group_count, ssm.state_size, ssm.time_step_rank",
);
const EXPERT_FFN: Size = layer_size(
    |config, layer| match block(config, layer, "moe_intermediate_size")? {
        Some(inner) => Ok(inner),
        None => config.needed("moe_intermediate_size"),
    },
    "moe_intermediate_size, block_configs",
    "expert_feed_forward_length",
);
/// The dimensions that experts work in: those of the model, or fewer.
const EXPERT_HIDDEN: Size = size(
    |config| config.count(&[LATENT_KEY])?.map_or_else(|| (HIDDEN.of)(config), Ok),
    "moe_latent_size, hidden_size",
    "moe_latent_size, embedding_length",
);
const LATENT_KEY: &str = "moe_latent_size";
const LATENT: Need = Need::When("moe_latent_size, layers_block_type, hybrid_override_pattern", |config, layer| {
    Ok(needed_if(config.get(LATENT_KEY).is_some() && kind(config, layer)? == Kind::Experts))
});

/// A count in the description of a layer.
fn block(config: &Config, layer: u64, key: &str) -> Result<Option<u64>> {
    let Some(Value::Array(blocks)) = config.get("block_configs") else { return Ok(None) };
    let block = usize::try_from(layer).ok().and_then(|layer| blocks.get(layer)?.get(key));
    match block {
        None | Some(Value::Null) => Ok(Some(0)),
        Some(count) => match count.as_u64() {
            Some(count) => Ok(Some(count)),
            None => {
                let why =
                    format!("config.json: \"block_configs\": \"{key}\" of layer {layer} is {count}, a count is needed");
                Err(AnamnesisError::parse(why))
            }
        },
    }
}
const SHARED: Size = size(
    |config| config.needed("moe_shared_expert_intermediate_size"),
    "moe_shared_expert_intermediate_size",
    "expert_shared_feed_forward_length",
);
const EXPERTS: Size = size(|config| config.needed("n_routed_experts"), "n_routed_experts", "expert_count");

const TENSORS: &[Rule] = &[
    model("backbone.embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("backbone.norm_f.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("norm.*", "attn_norm.*", &[HIDDEN]),
    layer("mixer.in_proj.*", "ssm_in.*", &[INPUTS, HIDDEN]).when(STATES).biased(STATES_OPTIONAL),
    layer("mixer.conv1d.bias", "ssm_conv1d.bias", &[CONVOLVED]).when(STATES_OPTIONAL),
    layer("mixer.conv1d.weight", "ssm_conv1d.weight", &[CONVOLVED, KERNEL]).with(&[Change::WithoutMiddle]).when(STATES),
    layer("mixer.dt_bias", "ssm_dt.bias", &[STATE_HEADS]).when(STATES),
    layer("mixer.A_log", "ssm_a", &[STATE_HEADS, ONE])
        .with(&[Change::NegativeExponential, Change::Column])
        .when(STATES),
    layer("mixer.D", "ssm_d", &[STATE_HEADS, ONE]).with(&[Change::Column]).when(STATES),
    layer("mixer.norm.*", "ssm_norm.*", &[GROUPS, GROUP]).with(&[Change::Groups("n_groups")]).when(STATES),
    layer("mixer.out_proj.*", "ssm_out.*", &[HIDDEN, INNER]).when(STATES).biased(STATES_OPTIONAL),
    layer("mixer.q_proj.*", "attn_q.*", &[Q, HIDDEN])
        .with(&[Change::Rotary("num_attention_heads")])
        .when(FULL)
        .biased(FULL_OPTIONAL),
    layer("mixer.k_proj.*", "attn_k.*", &[KV, HIDDEN])
        .with(&[Change::Rotary("num_key_value_heads")])
        .when(FULL)
        .biased(FULL_OPTIONAL),
    layer("mixer.v_proj.*", "attn_v.*", &[KV, HIDDEN]).when(FULL).biased(FULL_OPTIONAL),
    layer("mixer.o_proj.*", "attn_output.*", &[HIDDEN, Q]).when(FULL).biased(FULL_OPTIONAL),
    layer("mixer.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).when(DENSE),
    layer("mixer.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).when(DENSE),
    layer("mixer.gate.weight", "ffn_gate_inp.weight", &[EXPERTS, HIDDEN]).when(SPARSE),
    layer("mixer.gate.e_score_correction_bias", "exp_probs_b.bias", &[EXPERTS]).when(SPARSE_OPTIONAL),
    layer("mixer.experts.{X}.down_proj.weight", "ffn_down_exps.weight", &[EXPERTS, EXPERT_HIDDEN, EXPERT_FFN])
        .when(SPARSE),
    layer("mixer.experts.{X}.up_proj.weight", "ffn_up_exps.weight", &[EXPERTS, EXPERT_FFN, EXPERT_HIDDEN]).when(SPARSE),
    layer("mixer.fc1_latent_proj.weight", "ffn_latent_down.weight", &[EXPERT_HIDDEN, HIDDEN]).when(LATENT),
    layer("mixer.fc2_latent_proj.weight", "ffn_latent_up.weight", &[HIDDEN, EXPERT_HIDDEN]).when(LATENT),
    layer("mixer.shared_experts.up_proj.*", "ffn_up_shexp.*", &[SHARED, HIDDEN]).when(SPARSE_OPTIONAL),
    layer("mixer.shared_experts.down_proj.*", "ffn_down_shexp.*", &[HIDDEN, SHARED]).when(SPARSE_OPTIONAL),
];

const KEYS: &[Key] = &[
    removed("attention.key_length"),
    removed("attention.value_length"),
    count("vocab_size", &["vocab_size"]),
    count_fn("rope.dimension_count", |config| config.share_of_width().map(Some)),
    count("ssm.conv_kernel", &["conv_kernel"]),
    count("ssm.state_size", &["ssm_state_size"]),
    count("ssm.group_count", &["n_groups"]),
    count_fn("ssm.inner_size", |config| (INNER.of)(config).map(Some)),
    count("ssm.time_step_rank", &["mamba_num_heads"]),
    ints_fn("attention.head_count_kv", |config| {
        let heads = kv_heads(config)? as i32;
        config.per_layer(|layer| Ok(if kind(config, layer)? == Kind::Attention { heads } else { 0 })).map(Some)
    }),
    flag_fn("rope.scaling.finetuned", |_| Ok(Some(false))),
    count_fn("context_length", |_| Ok(Some(CONTEXT_LENGTH))),
    count_fn("attention.key_length", |config| (HEAD.of)(config).map(Some)),
    count_fn("attention.value_length", |config| (HEAD.of)(config).map(Some)),
];

const MOE_KEYS: &[Key] = &[
    ints_fn("feed_forward_length", |config| {
        let inner = config.needed("moe_intermediate_size")? as i32;
        config.per_layer(|layer| Ok(if kind(config, layer)? == Kind::Experts { inner } else { 0 })).map(Some)
    }),
    count("expert_used_count", &["num_experts_per_tok"]),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
];

const PUZZLE_KEYS: &[Key] = &[
    ints_fn("feed_forward_length", |config| of_blocks(config, "moe_intermediate_size")),
    ints_fn("expert_feed_forward_length", |config| of_blocks(config, "moe_intermediate_size")),
    ints_fn("expert_used_count", |config| of_blocks(config, "num_experts_per_tok")),
];

/// A count of every layer; 0 for layers without one.
fn of_blocks(config: &Config, key: &str) -> Result<Option<Vec<i32>>> {
    let count = |layer| Ok(i32::try_from(block(config, layer, key)?.unwrap_or(0)).unwrap_or(i32::MAX));
    config.per_layer(count).map(Some)
}

const ROUTER_KEYS: &[Key] = &[
    count("expert_shared_feed_forward_length", &["moe_shared_expert_intermediate_size"]),
    count("expert_count", &["n_routed_experts"]),
    count("expert_shared_count", &["n_shared_experts"]),
    flag("expert_weights_norm", "norm_topk_prob"),
    real("expert_weights_scale", &["routed_scaling_factor"]),
    count("expert_group_count", &["n_group"]),
    count("moe_latent_size", &["moe_latent_size"]),
];

const DENSE_KEYS: &[Key] = &[ints_fn("feed_forward_length", |config| {
    let inner = first(config, &["intermediate_size", "n_inner", "hidden_dim"])? as i32;
    config.per_layer(|layer| Ok(if kind(config, layer)? == Kind::Dense { inner } else { 0 })).map(Some)
})];
