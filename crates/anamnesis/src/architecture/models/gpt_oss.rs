//! gpt-oss: attention sinks, and experts with interleaved gate and up rows, transposed unless they are MXFP4.

use serde_json::{Value, json};

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "gpt-oss",
    classes: &[Class {
        name: "GptOssForCausalLM",
        model_type: "gpt_oss",
        defaults: &[
            BASE,
            &[
                ("vocab_size", Count(201_088)),
                ("hidden_size", Count(2880)),
                ("intermediate_size", Count(2880)),
                ("num_hidden_layers", Count(36)),
                ("num_attention_heads", Count(64)),
                ("num_key_value_heads", Count(8)),
                ("head_dim", Count(64)),
                ("max_position_embeddings", Count(131_072)),
                ("rms_norm_eps", Real(1e-5)),
                ("sliding_window", Count(128)),
                ("num_local_experts", Count(128)),
                ("num_experts_per_tok", Count(4)),
                ("rope_theta", Real(150_000.0)),
                ("attention_bias", Flag(true)),
            ],
        ],
    }],
    rules: &[EMBED_NORM_HEAD, ATTENTION, LAYER],
    keys: &[COMMON, KEYS],
    restore: Some(|file, config| {
        // `truncate` has no key in GGUF. The published models set it to false.
        let is_published = file.real("rope.scaling.factor") == Some(32.0)
            && file.count("rope.scaling.original_context_length") == Some(4096);
        if let Some(Value::Object(scaling)) = config.get_mut("rope_scaling") {
            scaling.insert("truncate".to_owned(), (!is_published).into());
        }
        Ok(0)
    }),
    packed_experts: Some(|| {
        let left = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"];
        json!({ "modules_to_not_convert": left, "quant_method": "mxfp4" })
    }),
    head: Head::Always,
    ..DECODER
};

const LAYER: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "post_attention_norm.*", &[HIDDEN]),
    layer("self_attn.sinks", "attn_sinks.weight", &[HEADS]),
    layer("mlp.router.*", "ffn_gate_inp.*", &[EXPERT_COUNT, HIDDEN]).biased(Need::Always),
    layer("mlp.experts.down_proj", "ffn_down_exps.weight", EXPERTS_DOWN).with(&[Change::Transposed]),
    layer("mlp.experts.down_proj_bias", "ffn_down_exps.bias", &[EXPERT_COUNT, HIDDEN]),
    layer("mlp.experts.gate_up_proj", "ffn_gate_exps.weight", EXPERTS_UP)
        .with(&[Change::Transposed, Change::First(Halves::AlternateRows)]),
    layer("mlp.experts.gate_up_proj", "ffn_up_exps.weight", EXPERTS_UP)
        .with(&[Change::Transposed, Change::Second(Halves::AlternateRows)]),
    layer("mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias", &[EXPERT_COUNT, EXPERT_FFN])
        .with(&[Change::First(Halves::AlternateValues)]),
    layer("mlp.experts.gate_up_proj_bias", "ffn_up_exps.bias", &[EXPERT_COUNT, EXPERT_FFN])
        .with(&[Change::Second(Halves::AlternateValues)]),
];

const KEYS: &[Key] = &[
    count("attention.sliding_window", &["sliding_window"]),
    count("expert_feed_forward_length", &["intermediate_size"]),
];
