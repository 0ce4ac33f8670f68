//! Falcon H1: attention and a Mamba 2 mixer in parallel. Its multipliers are folded into the weights.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "falcon-h1",
    classes: &[Class {
        name: "FalconH1ForCausalLM",
        model_type: "falcon_h1",
        defaults: &[
            BASE,
            &[
                ("vocab_size", Count(128_000)),
                ("intermediate_size", Count(14336)),
                ("num_key_value_heads", Count(8)),
                ("max_position_embeddings", Count(8192)),
                ("rms_norm_eps", Real(1e-5)),
                ("mamba_d_ssm", Count(1024)),
                ("mamba_n_heads", Count(128)),
                ("mamba_n_groups", Count(1)),
                ("mamba_d_state", Count(256)),
                ("mamba_d_conv", Count(4)),
                ("mamba_conv_bias", Flag(true)),
            ],
        ],
    }],
    rules: &[TENSORS],
    keys: &[KEYS],
    restore: Some(|file, config| {
        for name in [
            "embedding_multiplier",
            "lm_head_multiplier",
            "attention_in_multiplier",
            "attention_out_multiplier",
            "key_multiplier",
            "ssm_in_multiplier",
            "ssm_out_multiplier",
        ] {
            set(config, name, 1.0);
        }
        set(config, "mlp_multipliers", vec![1.0; 2]);
        set(config, "ssm_multipliers", vec![1.0; 5]);
        if let Some(size) = file.count("attention.key_length") {
            set(config, "head_dim", size);
        }
        if let (Some(inner), Some(heads @ 1..)) = (file.count("ssm.inner_size"), file.count("ssm.time_step_rank")) {
            set(config, "mamba_d_head", inner / heads);
        }
        set(config, "mamba_rms_norm", file.has_in_layers(&["ssm_norm.weight"]));
        set(config, "mamba_conv_bias", file.has_in_layers(&["ssm_conv1d.bias"]));
        set(config, "mamba_proj_bias", file.has_in_layers(&["ssm_in.bias"]));
        set(config, "projectors_bias", file.has_in_layers(&["ssm_out.bias"]));
        Ok(0)
    }),
    restore_note: Some("the multipliers of the model are part of its weights, and 1 in the configuration"),
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Llama3, "falcon-h1")], ..BPE },
    ..DECODER
};

const IN: Factor = Factor::Key("attention_in_multiplier");

const TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN])
        .with(&[Change::Times(Factor::Key("embedding_multiplier"))]),
    model("model.final_layernorm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN])
        .with(&[Change::Times(Factor::Key("lm_head_multiplier"))])
        .when(UNTIED),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("pre_ff_layernorm.weight", "ffn_norm", &[HIDDEN]),
    layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]).with(&[Change::Times(IN)]).biased(ATTENTION_BIAS),
    layer("self_attn.k_proj.*", "attn_k.*", &[KV_DIM, HIDDEN])
        .with(&[Change::Times(IN), Change::Times(Factor::Key("key_multiplier"))])
        .biased(ATTENTION_BIAS),
    layer("self_attn.v_proj.*", "attn_v.*", &[KV_DIM, HIDDEN]).with(&[Change::Times(IN)]).biased(ATTENTION_BIAS),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM])
        .with(&[Change::Times(Factor::Key("attention_out_multiplier"))])
        .biased(ATTENTION_BIAS),
    layer("feed_forward.gate_proj.*", "ffn_gate.*", &[FFN, HIDDEN])
        .with(&[Change::Times(Factor::Item("mlp_multipliers", 0))])
        .biased(MLP_BIAS),
    layer("feed_forward.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).biased(MLP_BIAS),
    layer("feed_forward.down_proj.*", "ffn_down.*", &[HIDDEN, FFN])
        .with(&[Change::Times(Factor::Item("mlp_multipliers", 1))])
        .biased(MLP_BIAS),
    layer("mamba.in_proj.*", "ssm_in.*", &[STATE_INPUTS, HIDDEN])
        .with(&[Change::Times(Factor::Key("ssm_in_multiplier")), Change::TimesStateSpace])
        .biased(PROJECTION_BIAS),
    layer("mamba.conv1d.bias", "ssm_conv1d.bias", &[CONVOLVED]).when(CONV_BIAS),
    layer("mamba.conv1d.weight", "ssm_conv1d.weight", &[CONVOLVED, KERNEL]).with(&[Change::WithoutMiddle]),
    layer("mamba.dt_bias", "ssm_dt.bias", &[STATE_HEADS]),
    layer("mamba.A_log", "ssm_a", &[STATE_HEADS, ONE]).with(&[Change::NegativeExponential, Change::Column]),
    layer("mamba.D", "ssm_d", &[STATE_HEADS, ONE]).with(&[Change::Column]),
    layer("mamba.norm.*", "ssm_norm.*", &[GROUPS, GROUP]).with(&[Change::Groups("mamba_n_groups")]).when(NORMED),
    layer("mamba.out_proj.*", "ssm_out.*", &[HIDDEN, STATE_INNER])
        .with(&[Change::Times(Factor::Key("ssm_out_multiplier"))])
        .biased(OUTPUT_BIAS),
];

const PROJECTION_BIAS: Need = Need::Flag("mamba_proj_bias");
const OUTPUT_BIAS: Need = Need::Flag("projectors_bias");
const CONV_BIAS: Need = Need::Flag("mamba_conv_bias");
const NORMED: Need = Need::Flag("mamba_rms_norm");

const STATE_INNER: Size = size(state_space::inner, "mamba_d_ssm, mamba_expand, hidden_size", "ssm.inner_size");
const STATE_HEADS: Size = size(|config| config.needed("mamba_n_heads"), "mamba_n_heads", "ssm.time_step_rank");
const GROUPS: Size = size(|config| config.divisor("mamba_n_groups"), "mamba_n_groups", "ssm.group_count");
const GROUP: Size = size(
    |config| Ok(state_space::inner(config)? / config.divisor("mamba_n_groups")?),
    "mamba_n_groups, mamba_d_ssm",
    "ssm.group_count, ssm.inner_size",
);
const KERNEL: Size = size(|config| config.needed("mamba_d_conv"), "mamba_d_conv", "ssm.conv_kernel");
const CONVOLVED: Size =
    size(convolved, "mamba_d_ssm, mamba_n_groups, mamba_d_state", "ssm.inner_size, ssm.group_count, ssm.state_size");
const STATE_INPUTS: Size = size(
    |config| {
        let values = convolved(config)?.saturating_add(state_space::inner(config)?);
        Ok(values.saturating_add(config.needed("mamba_n_heads")?))
    },
    "mamba_d_ssm, mamba_n_groups, mamba_d_state, mamba_n_heads",
    "ssm.inner_size, ssm.group_count, ssm.state_size, ssm.time_step_rank",
);

/// The channels of the convolution: x, and B and C of every group.
fn convolved(config: &Config) -> Result<u64> {
    let states = config.needed("mamba_n_groups")?.saturating_mul(config.needed("mamba_d_state")?);
    Ok(state_space::inner(config)?.saturating_add(states.saturating_mul(2)))
}

const KEYS: &[Key] = &[
    count("context_length", CONTEXT_KEYS),
    count("embedding_length", HIDDEN_KEYS),
    count("feed_forward_length", FFN_KEYS),
    count("attention.head_count", HEAD_KEYS),
    count("block_count", LAYER_KEYS),
    count("ssm.conv_kernel", &["mamba_d_conv"]),
    count("ssm.inner_size", &["mamba_d_ssm"]),
    count("ssm.state_size", &["mamba_d_state"]),
    count("ssm.time_step_rank", &["mamba_n_heads"]),
    count("ssm.group_count", &["mamba_n_groups"]),
    real("attention.layer_norm_rms_epsilon", EPSILON_KEYS),
    FILE_TYPE,
    count("vocab_size", &["vocab_size"]),
    count("attention.head_count_kv", KV_HEAD_KEYS),
    count_fn("attention.key_length", |config| config.head_size().map(Some)),
    count_fn("attention.value_length", |config| config.head_size().map(Some)),
    real_fn("rope.freq_base", |config| config.rope().theta()),
];
