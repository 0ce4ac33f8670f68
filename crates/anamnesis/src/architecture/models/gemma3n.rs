//! Gemma 3n, text-only or multimodal: alternating updates (AltUp), low-rank residuals (LAuReL), embeddings for every layer.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "gemma3n",
    classes: &[class("Gemma3nForCausalLM", "gemma3n_text"), class("Gemma3nForConditionalGeneration", "gemma3n")],
    rules: &[TENSORS, ALTERNATING],
    keys: &[COMMON, KEYS],
    tokenizer: TokenizerRules {
        no_space_prefix: true,
        classes: &[
            ("gemma3n", TokenizerClass::Registered("GemmaTokenizer")),
            ("gemma3n_text", TokenizerClass::Registered("GemmaTokenizer")),
        ],
        ..PIECES_OR_BPE
    },
    head: Head::Never,
    restore: None,
    not_held: Some("vocab_size_per_layer_input: the embeddings for its layers are padded"),
    ..PLAIN
};

/// Whether a layer takes its keys and values from an earlier one. Checkpoints may have them all the same.
const OWN_KEYS: Need = Need::When("num_kv_shared_layers", |config, layer| {
    let shared = config.count(&["num_kv_shared_layers"])?.unwrap_or(0);
    let is_own = layer < config.layers()?.saturating_sub(shared);
    Ok(if is_own { Presence::Needed } else { Presence::Loose })
});

const INNER: Size = layer_size(inner, "intermediate_size", "feed_forward_length");

/// The inner size of a layer: one for all layers, or a list.
fn inner(config: &Config, layer: u64) -> Result<u64> {
    match config.get("intermediate_size").is_some_and(serde_json::Value::is_array) {
        false => config.needed("intermediate_size"),
        true => match config.count_of_layer("intermediate_size", layer)? {
            Some(inner) => Ok(inner),
            None => {
                Err(AnamnesisError::parse(format!("config.json: \"intermediate_size\" has no item for layer {layer}")))
            }
        },
    }
}

const INPUT: Size = size(
    |config| config.needed("hidden_size_per_layer_input"),
    "hidden_size_per_layer_input",
    "embedding_length_per_layer_input",
);
const ALL_INPUTS: Size = size(
    |config| Ok((INPUT.of)(config)?.saturating_mul(config.layers()?)),
    "hidden_size_per_layer_input, num_hidden_layers",
    "embedding_length_per_layer_input, block_count",
);
const RANK: Size = size(|config| config.needed("laurel_rank"), "laurel_rank", "");
const UPDATES: Size = size(|config| config.divisor("altup_num_inputs"), "altup_num_inputs", "altup.num_inputs");
const OTHER_UPDATES: Size =
    size(|config| Ok(config.divisor("altup_num_inputs")? - 1), "altup_num_inputs", "altup.num_inputs");
const SQUARED_UPDATES: Size =
    size(|config| Ok((UPDATES.of)(config)?.saturating_mul((UPDATES.of)(config)?)), UPDATES.hf, UPDATES.gguf);

const TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]).with(&[Change::PaddedToVocabulary]),
    model("model.embed_tokens_per_layer.*", "per_layer_token_embd.*", &[VOCAB, ALL_INPUTS])
        .with(&[Change::PaddedToVocabulary]),
    model("model.per_layer_model_projection.*", "per_layer_model_proj.*", &[ALL_INPUTS, HIDDEN]),
    model("model.per_layer_projection_norm.*", "per_layer_proj_norm.*", &[INPUT]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).left_out(),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "post_attention_norm.*", &[HIDDEN]),
    layer("pre_feedforward_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("post_feedforward_layernorm.*", "post_ffw_norm.*", &[HIDDEN]),
    layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]).biased(ATTENTION_BIAS),
    layer("self_attn.k_proj.*", "attn_k.*", &[KV_DIM, HIDDEN]).when(OWN_KEYS).biased(ATTENTION_BIAS),
    layer("self_attn.v_proj.*", "attn_v.*", &[KV_DIM, HIDDEN]).when(OWN_KEYS).biased(ATTENTION_BIAS),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]).biased(ATTENTION_BIAS),
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD_DIM]),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD_DIM]).when(OWN_KEYS),
    layer("mlp.gate_proj.*", "ffn_gate.*", &[INNER, HIDDEN]),
    layer("mlp.up_proj.*", "ffn_up.*", &[INNER, HIDDEN]),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, INNER]),
    layer("per_layer_input_gate.*", "inp_gate.*", &[INPUT, HIDDEN]),
    layer("per_layer_projection.*", "proj.*", &[HIDDEN, INPUT]),
    layer("post_per_layer_input_norm.*", "post_norm.*", &[HIDDEN]),
];

const ALTERNATING: &[Rule] = &[
    model("model.altup_projections.{X}.weight", "altup_proj.weight", &[OTHER_UPDATES, HIDDEN, HIDDEN]),
    model("model.altup_unembed_projections.{X}.weight", "altup_unembd_proj.weight", &[OTHER_UPDATES, HIDDEN, HIDDEN]),
    layer("altup.correct_output_scale", "altup_correct_scale.weight", &[HIDDEN]),
    layer("altup.correction_coefs.*", "altup_correct_coef.*", &[UPDATES, UPDATES]),
    layer("altup.modality_router.*", "altup_router.*", &[UPDATES, HIDDEN]),
    layer("altup.prediction_coefs.*", "altup_predict_coef.*", &[SQUARED_UPDATES, UPDATES]),
    layer("altup.router_norm.*", "altup_router_norm.*", &[HIDDEN]),
    layer("laurel.linear_left.*", "laurel_l.*", &[RANK, HIDDEN]),
    layer("laurel.linear_right.*", "laurel_r.*", &[HIDDEN, RANK]),
    layer("laurel.post_laurel_norm.*", "laurel_post_norm.*", &[HIDDEN]),
];

const KEYS: &[Key] = &[
    real("final_logit_softcapping", &["final_logit_softcapping"]),
    count("attention.sliding_window", &["sliding_window"]),
    needed("altup.active_idx", "altup_active_idx"),
    count_fn("altup.num_inputs", updates),
    count_fn("embedding_length_per_layer_input", |config| (INPUT.of)(config).map(Some)),
    needed("attention.shared_kv_layers", "num_kv_shared_layers"),
    reals_fn("activation_sparsity_scale", sparsity),
    flags_fn("attention.sliding_window_pattern", sliding_layers),
];

/// llama.cpp has models with four inputs of AltUp only.
fn updates(config: &Config) -> Result<Option<u64>> {
    match config.needed("altup_num_inputs")? {
        4 => Ok(Some(4)),
        other => Err(AnamnesisError::parse(format!("config.json: \"altup_num_inputs\" is {other}, 4 is needed"))),
    }
}

/// The numbers of standard deviations below which a normal distribution has these shares of its values.
fn sparsity(config: &Config) -> Result<Option<Vec<f32>>> {
    let Some(shares) = config.reals("activation_sparsity_pattern")? else {
        return Err(AnamnesisError::parse("config.json has no \"activation_sparsity_pattern\""));
    };
    if let Some(share) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
        let why = format!("config.json: \"activation_sparsity_pattern\" has the share {share}, 0 to 1 are possible");
        return Err(AnamnesisError::parse(why));
    }
    Ok(Some(shares.into_iter().map(|share| normal_quantile(share as f32)).collect()))
}

/// The number of standard deviations, in the steps of torch: each result is rounded to F32.
fn normal_quantile(share: f32) -> f32 {
    inverse_error_function(2.0 * share - 1.0) * std::f32::consts::SQRT_2
}

/// The inverse of the error function, rounded once.
fn inverse_error_function(value: f32) -> f32 {
    // Beyond 6 the error function of an F64 is 1.
    const LARGEST: f64 = 6.0;
    let wanted = f64::from(value.abs());
    if wanted == 0.0 || wanted >= 1.0 {
        return if wanted == 0.0 { 0.0 } else { f32::INFINITY.copysign(value) };
    }
    let (mut low, mut high) = (0.0, LARGEST);
    for _ in 0..f64::MANTISSA_DIGITS + 3 {
        let middle = (low + high) / 2.0;
        if error_function(middle) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    (high as f32).copysign(value)
}

/// The error function of a positive number, as a series of positive terms.
fn error_function(value: f64) -> f64 {
    let (mut term, mut sum, mut number) = (value, value, 1.0);
    while term > sum * f64::EPSILON / 4.0 {
        number += 2.0;
        term *= 2.0 * value * value / number;
        sum += term;
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI * (-value * value).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `torch.distributions.Normal(0, 1).icdf(share)` in F32.
    #[test]
    fn quantiles_are_those_of_torch() {
        for (share, quantile) in QUANTILES {
            assert_eq!(normal_quantile(share), quantile, "{share}");
        }
        assert_eq!((normal_quantile(0.0), normal_quantile(1.0)), (f32::NEG_INFINITY, f32::INFINITY));
    }

    const QUANTILES: [(f32, f32); 6] =
        [(0.05, -1.6448536), (0.3, -0.5244005), (0.5, 0.0), (0.9, 1.2815515), (0.95, 1.6448536), (0.999, 3.0902362)];
}
