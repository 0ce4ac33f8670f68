//! Cohere 2 (Command R7B, Command A): one norm per layer, attention and feed-forward network in parallel.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "cohere2",
    classes: &[Class {
        name: "Cohere2ForCausalLM",
        model_type: "cohere2",
        defaults: &[
            BASE,
            &[
                ("vocab_size", Count(256_000)),
                ("hidden_size", Count(8192)),
                ("intermediate_size", Count(22528)),
                ("num_hidden_layers", Count(40)),
                ("num_attention_heads", Count(64)),
                ("head_dim", Quotient("hidden_size", "num_attention_heads")),
                ("max_position_embeddings", Count(8192)),
                ("layer_norm_eps", Real(1e-5)),
                ("sliding_window", Count(4096)),
                ("logit_scale", Real(0.0625)),
                ("tie_word_embeddings", Flag(true)),
                ("rms_norm_eps", Absent),
            ],
        ],
    }],
    rules: &[EMBED_NORM_HEAD, ONE_NORM, ATTENTION, GATED_FFN],
    keys: &[COMMON, KEYS],
    restore: Some(|file, config| {
        restore::layer_types(file, config, 4);
        Ok(0)
    }),
    tokenizer: TokenizerRules {
        pre: &[(PreTokenizer::Digits, "command-r")],
        classes: &[("cohere2", TokenizerClass::Registered("CohereTokenizer"))],
        ..BPE
    },
    ..DECODER
};

const ONE_NORM: &[Rule] = &[layer("input_layernorm.*", "attn_norm.*", &[HIDDEN])];

const KEYS: &[Key] = &[
    real("logit_scale", &["logit_scale"]),
    count("attention.sliding_window", &["sliding_window"]),
    count("vocab_size", &["vocab_size"]),
    count_fn("rope.dimension_count", dimensions),
    Key { gguf: "rope.scaling.type", from: ValueSource::TextFn(|_| Ok(Some("none"))) },
];

fn dimensions(config: &Config) -> Result<Option<u64>> {
    let part = config.real(&["rotary_pct"])?.unwrap_or(1.0);
    let width = config.needed("hidden_size")? as f64;
    Ok(Some((part * (width / config.divisor("num_attention_heads")? as f64)) as u64))
}
