//! Falcon H1: attention and state spaces side by side. Its many multipliers become part of the weights.

use super::change::{Change, Factor};
use super::config::Default;
use super::key::{
    CONTEXT, FILE_TYPE, HEADS, INNER, KV_HEADS, Key, LAYERS, RMS_EPSILON, WIDTH, count, counted, real, worked,
};
use super::kind::{Architecture, Class, USUAL};
use super::rule::{Rule, layer, model};

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "falcon-h1",
    classes: &[Class {
        name: "FalconH1ForCausalLM",
        model_type: "falcon_h1",
        defaults: &[
            ("vocab_size", Default::Count(128_000)),
            ("hidden_size", Default::Count(4096)),
            ("intermediate_size", Default::Count(14336)),
            ("num_hidden_layers", Default::Count(32)),
            ("num_attention_heads", Default::Count(32)),
            ("num_key_value_heads", Default::Count(8)),
            ("max_position_embeddings", Default::Count(8192)),
            ("rms_norm_eps", Default::Real(1e-5)),
            ("rope_theta", Default::Real(10000.0)),
        ],
    }],
    rules: &[TENSORS],
    keys: &[SIZES],
    restore: |file, config| {
        for name in [
            "embedding_multiplier",
            "lm_head_multiplier",
            "attention_in_multiplier",
            "attention_out_multiplier",
            "key_multiplier",
            "ssm_in_multiplier",
            "ssm_out_multiplier",
        ] {
            config.insert(name.to_owned(), 1.0.into());
        }
        config.insert("mlp_multipliers".to_owned(), vec![1.0; 2].into());
        config.insert("ssm_multipliers".to_owned(), vec![1.0; 5].into());
        for (key, name) in [("attention.key_length", "head_dim")] {
            if let Some(size) = file.count(key) {
                config.insert(name.to_owned(), size.into());
            }
        }
        if let (Some(inner), Some(heads @ 1..)) = (file.count("ssm.inner_size"), file.count("ssm.time_step_rank")) {
            config.insert("mamba_d_head".to_owned(), (inner / heads).into());
        }
        config.insert("mamba_rms_norm".to_owned(), file.has("blk.0.ssm_norm.weight").into());
        config.insert("mamba_conv_bias".to_owned(), file.has("blk.0.ssm_conv1d.bias").into());
        Ok(0)
    },
    lost: Some("the multipliers of the model are part of its weights, and 1 in the configuration"),
    ..USUAL
};

const IN: Factor = Factor::Key("attention_in_multiplier");

const TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*").with(Change::Times(&[Factor::Key("embedding_multiplier")])),
    model("model.final_layernorm.*", "output_norm.*"),
    model("lm_head.*", "output.*").with(Change::Times(&[Factor::Key("lm_head_multiplier")])),
    layer("input_layernorm.*", "attn_norm.*"),
    layer("pre_ff_layernorm.weight", "ffn_norm"),
    layer("self_attn.q_proj.*", "attn_q.*").with(Change::Times(&[IN])),
    layer("self_attn.k_proj.*", "attn_k.*").with(Change::Times(&[IN, Factor::Key("key_multiplier")])),
    layer("self_attn.v_proj.*", "attn_v.*").with(Change::Times(&[IN])),
    layer("self_attn.o_proj.*", "attn_output.*").with(Change::Times(&[Factor::Key("attention_out_multiplier")])),
    layer("feed_forward.gate_proj.*", "ffn_gate.*").with(Change::Times(&[Factor::Item("mlp_multipliers", 0)])),
    layer("feed_forward.up_proj.*", "ffn_up.*"),
    layer("feed_forward.down_proj.*", "ffn_down.*").with(Change::Times(&[Factor::Item("mlp_multipliers", 1)])),
    layer("mamba.in_proj.*", "ssm_in.*").with(Change::TimesStateSpace(Factor::Key("ssm_in_multiplier"))),
    layer("mamba.conv1d.bias", "ssm_conv1d.bias"),
    layer("mamba.conv1d.weight", "ssm_conv1d.weight").with(Change::WithoutMiddle),
    layer("mamba.dt_bias", "ssm_dt.bias"),
    layer("mamba.A_log", "ssm_a").with(Change::NegativeExponentialColumn),
    layer("mamba.D", "ssm_d").with(Change::Column),
    layer("mamba.norm.*", "ssm_norm.*").with(Change::Groups("mamba_n_groups")),
    layer("mamba.out_proj.*", "ssm_out.*").with(Change::Times(&[Factor::Key("ssm_out_multiplier")])),
];

const SIZES: &[Key] = &[
    count("context_length", CONTEXT),
    count("embedding_length", WIDTH),
    count("feed_forward_length", INNER),
    count("attention.head_count", HEADS),
    count("block_count", LAYERS),
    count("ssm.conv_kernel", &["mamba_d_conv"]),
    count("ssm.inner_size", &["mamba_d_ssm"]),
    count("ssm.state_size", &["mamba_d_state"]),
    count("ssm.time_step_rank", &["mamba_n_heads"]),
    count("ssm.group_count", &["mamba_n_groups"]),
    real("attention.layer_norm_rms_epsilon", RMS_EPSILON),
    FILE_TYPE,
    count("vocab_size", &["vocab_size"]),
    count("attention.head_count_kv", KV_HEADS),
    counted("attention.key_length", |config| config.head_size().map(Some)),
    counted("attention.value_length", |config| config.head_size().map(Some)),
    worked("rope.freq_base", |config| config.rope().theta()),
];
