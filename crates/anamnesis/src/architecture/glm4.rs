//! GLM 4: gate and up in one tensor, four norms in a layer, positions that turn half of a head.

use super::config::DefaultValue;
use super::key::{COMMON, Key, counted};
use super::kind::{Architecture, Class, USUAL};
use super::rule::{AROUND, HALF_BIASED_ATTENTION, Rule, layer};
use super::size::{GATE_AND_UP, INNER, WIDTH};
use super::tokenizer::Family;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "glm4",
    classes: &[Class {
        name: "Glm4ForCausalLM",
        model_type: "glm4",
        defaults: &[
            ("vocab_size", DefaultValue::Count(151_552)),
            ("hidden_size", DefaultValue::Count(4096)),
            ("intermediate_size", DefaultValue::Count(13696)),
            ("num_hidden_layers", DefaultValue::Count(40)),
            ("num_attention_heads", DefaultValue::Count(32)),
            ("num_key_value_heads", DefaultValue::Count(2)),
            ("head_dim", DefaultValue::Count(128)),
            ("max_position_embeddings", DefaultValue::Count(131_072)),
            ("rms_norm_eps", DefaultValue::Real(1.5625e-7)),
            ("rope_theta", DefaultValue::Real(10000.0)),
            ("partial_rotary_factor", DefaultValue::Real(0.5)),
            ("attention_bias", DefaultValue::Flag(true)),
        ],
    }],
    rules: &[AROUND, HALF_BIASED_ATTENTION, LAYER],
    keys: &[COMMON, SIZES],
    family: Family::Glm4,
    restore: |file, config| {
        if let (Some(dimensions), Some(size @ 1..)) =
            (file.count("rope.dimension_count"), file.count("attention.key_length"))
        {
            config.insert("partial_rotary_factor".to_owned(), (dimensions as f64 / size as f64).into());
        }
        Ok(0)
    },
    ..USUAL
};

const LAYER: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[WIDTH]),
    layer("post_self_attn_layernorm.*", "post_attention_norm.*", &[WIDTH]),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[WIDTH]),
    layer("post_mlp_layernorm.*", "post_ffw_norm.*", &[WIDTH]),
    layer("mlp.gate_up_proj.*", "ffn_up.*", &[GATE_AND_UP, WIDTH]),
    layer("mlp.down_proj.*", "ffn_down.*", &[WIDTH, INNER]),
];

const SIZES: &[Key] = &[counted("rope.dimension_count", |config| {
    let part = config.rope().real("partial_rotary_factor")?.unwrap_or(0.5);
    Ok(Some((config.head_size()? as f64 * part) as u64))
})];
