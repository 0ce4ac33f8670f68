//! GLM 4: fused `gate_up_proj`, four norms per layer, RoPE on half of each head.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "glm4",
    classes: &[Class {
        name: "Glm4ForCausalLM",
        model_type: "glm4",
        defaults: &[
            BASE,
            &[
                ("vocab_size", Count(151_552)),
                ("intermediate_size", Count(13696)),
                ("num_hidden_layers", Count(40)),
                ("num_key_value_heads", Count(2)),
                ("head_dim", Count(128)),
                ("max_position_embeddings", Count(131_072)),
                ("rms_norm_eps", Real(1.5625e-7)),
                ("partial_rotary_factor", Real(0.5)),
                ("attention_bias", Flag(true)),
            ],
        ],
    }],
    rules: &[EMBED_NORM_HEAD, QKV_BIASED_ATTENTION, LAYER],
    keys: &[COMMON, KEYS],
    tokenizer: TokenizerRules {
        roles: &[("eos", "<|endoftext|>"), ("eot", "<|user|>"), ("unk", "<|endoftext|>"), ("bos", "<|endoftext|>")],
        pre: &[(PreTokenizer::Llama3, "glm4")],
        classes: &[("glm4", TokenizerClass::NoDefaults)],
        ..BPE
    },
    restore: Some(|file, config| {
        restore::partial_rotary_factor(file, config);
        Ok(0)
    }),
    ..DECODER
};

const LAYER: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_self_attn_layernorm.*", "post_attention_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("post_mlp_layernorm.*", "post_ffw_norm.*", &[HIDDEN]),
    layer("mlp.gate_up_proj.*", "ffn_up.*", &[TWO_FFN, HIDDEN]),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]),
];

const KEYS: &[Key] = &[count_fn("rope.dimension_count", half_of_head)];
