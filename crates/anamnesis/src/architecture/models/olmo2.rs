//! OLMo 2 and 3: norms after attention and feed-forward network, norms over all queries and keys.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "olmo2",
    classes: &[
        Class { name: "Olmo2ForCausalLM", model_type: "olmo2", defaults: &[BASE, OLMO] },
        Class {
            name: "Olmo3ForCausalLM",
            model_type: "olmo3",
            defaults: &[BASE, OLMO, &[("sliding_window", Count(4096)), ("rope_theta", Real(500_000.0))]],
        },
    ],
    rules: &[EMBED_NORM_HEAD, ATTENTION, QK_NORMS, NORMS, GATED_FFN],
    keys: &[COMMON, KEYS],
    restore: Some(|file, config| {
        let Some(windows) = file.flags("attention.sliding_window_pattern") else { return Ok(0) };
        let kind = |has_window: &bool| if *has_window { "sliding_attention" } else { "full_attention" };
        set(config, "layer_types", windows.iter().map(kind).collect::<Vec<_>>());
        Ok(1)
    }),
    head: Head::Always,
    tokenizer: TokenizerRules {
        pre: &[(PreTokenizer::Llama3, "dbrx")],
        classes: &[("olmo2", TokenizerClass::NoDefaults), ("olmo3", TokenizerClass::NoDefaults)],
        ..BPE
    },
    ..DECODER
};

const OLMO: &[ClassDefault] = &[("vocab_size", Count(50304)), ("rms_norm_eps", Real(1e-5))];

const QK_NORMS: &[Rule] =
    &[layer("self_attn.q_norm.*", "attn_q_norm.*", &[Q_DIM]), layer("self_attn.k_norm.*", "attn_k_norm.*", &[KV_DIM])];

const NORMS: &[Rule] = &[
    layer("post_attention_layernorm.*", "post_attention_norm.*", &[HIDDEN]),
    layer("post_feedforward_layernorm.*", "post_ffw_norm.*", &[HIDDEN]),
];

const KEYS: &[Key] = &[
    count("attention.sliding_window", &["sliding_window"]),
    Key { gguf: "attention.sliding_window_pattern", from: ValueSource::BoolsFn(windows) },
];

/// The layers with a sliding window, if the model has one.
fn windows(config: &Config) -> Result<Option<Vec<bool>>> {
    if config.get("sliding_window").is_none() {
        return Ok(None);
    }
    if let Some(kinds) = config.get("layer_types").and_then(|kinds| kinds.as_array()) {
        return Ok(Some(kinds.iter().map(|kind| kind.as_str() == Some("sliding_attention")).collect()));
    }
    // By default every fourth layer has full attention.
    let layers = config.needed("num_hidden_layers")?;
    Ok(Some((0..layers).map(|layer| (layer + 1) % 4 != 0).collect()))
}
