//! Gemma 4, also with experts, and its assistant for speculative decoding.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;
use serde_json::{Map, Value, json};

pub(super) static DECODER_MODEL: Architecture = Architecture {
    name: "gemma4",
    classes: &[class("Gemma4ForCausalLM", "gemma4_text"), class("Gemma4ForConditionalGeneration", "gemma4")],
    keys: &[COMMON, KEYS],
    restore: Some(restored),
    ..GEMMA4
};

/// Gemma 4 with vision and audio in one model. Some of its tokens are never generated.
pub(super) static UNIFIED: Architecture = Architecture {
    name: "gemma4",
    classes: &[class("Gemma4UnifiedForConditionalGeneration", "gemma4_unified")],
    keys: &[COMMON, KEYS],
    tokenizer: TokenizerRules { suppressed: true, ..GEMMA4.tokenizer },
    not_held: Some("the vision and audio parts, which its class needs"),
    restore: None,
    ..GEMMA4
};

fn restored(file: &Gguf<'_>, config: &mut Map<String, Value>) -> Result<usize> {
    restore::keys(file, config);
    for key in
        ["num_local_experts", "num_experts_per_tok", "expert_intermediate_size", "rope_theta", "rope_local_base_freq"]
    {
        config.remove(key);
    }
    for (key, name) in [
        ("attention.key_length_swa", "head_dim"),
        ("attention.key_length", "global_head_dim"),
        ("expert_count", "num_experts"),
        ("expert_used_count", "top_k_experts"),
        ("expert_feed_forward_length", "moe_intermediate_size"),
    ] {
        if let Some(count) = file.count(key) {
            set(config, name, count);
        }
    }
    set(config, "enable_moe_block", file.count("expert_count").is_some());
    let inner = file.count_or_list("feed_forward_length");
    let inner = inner.as_ref().and_then(Value::as_array);
    set(config, "use_double_wide_mlp", inner.is_some());
    if let Some(inner) = inner.and_then(|inner| inner.first()) {
        set(config, "intermediate_size", inner.clone());
    }
    let kinds = file.flags("attention.sliding_window_pattern").unwrap_or_default();
    if let Some(Value::Array(heads)) = file.count_or_list("attention.head_count_kv") {
        for (is_sliding, name) in [(true, "num_key_value_heads"), (false, "num_global_key_value_heads")] {
            if let Some((_, heads)) = kinds.iter().zip(heads.iter()).find(|(kind, _)| **kind == is_sliding) {
                set(config, name, heads.clone());
            }
        }
    }
    if let Some([rows, ..]) = file.shapes.get("per_layer_token_embd.weight") {
        set(config, "vocab_size_per_layer_input", *rows);
    }
    if let Some(cap) = file.real("final_logit_softcapping") {
        set(config, "final_logit_softcapping", cap);
    }
    let values = restore::layers_with(file, "attn_v.weight");
    let mut keys_only =
        restore::layers_with(file, "attn_k.weight").zip(values).filter(|(keys, values)| *keys && !*values);
    set(config, "attention_k_eq_v", keys_only.next().is_some());
    let factors = (file.values)("rope_freqs.weight")?.unwrap_or_default();
    let rotated = factors.iter().filter(|factor| **factor == 1.0).count();
    let part = if factors.is_empty() { 1.0 } else { rotated as f64 / factors.len() as f64 };
    let full = json!({
        "rope_type": "proportional",
        "rope_theta": file.real("rope.freq_base"),
        "partial_rotary_factor": part,
    });
    let sliding = json!({"rope_type": "default", "rope_theta": file.real("rope.freq_base_swa")});
    set(config, "rope_parameters", json!({"full_attention": full, "sliding_attention": sliding}));
    Ok(0)
}

pub(super) static ASSISTANT: Architecture = Architecture {
    name: "gemma4-assistant",
    classes: &[
        class("Gemma4AssistantForCausalLM", "gemma4_assistant"),
        class("Gemma4UnifiedAssistantForCausalLM", "gemma4_unified_assistant"),
    ],
    dropped: &["masked_embedding", "model.masked_embedding"],
    rules: &[TENSORS, PROJECTIONS],
    keys: &[COMMON, KEYS, ASSISTANT_KEYS],
    ..GEMMA4
};

const GEMMA4: Architecture = Architecture {
    rules: &[TENSORS, EXPERTS_OF_LAYER],
    derived_tensors: &[DerivedTensor { name: "rope_freqs.weight", row: None, values: frequencies }],
    tokenizer: TokenizerRules { kind: VocabularyKind::Gemma4, ..BPE },
    head: Head::Never,
    ..PLAIN
};

fn is_sliding(config: &Config, layer: u64) -> Result<bool> {
    Ok(config.text_of_layer("layer_types", layer)? == Some("sliding_attention"))
}

/// The value of a key for layers with full attention: a key of its own, or that of the first such layer in `per_layer_config`.
fn of_full_layers(config: &Config, own: &str, key: &str) -> Result<Option<u64>> {
    if let Some(value) = config.count(&[own])? {
        return Ok(Some(value));
    }
    let layers = config.get("per_layer_config").and_then(Value::as_object);
    for (layer, values) in layers.into_iter().flatten() {
        let Ok(layer) = layer.parse() else { continue };
        let is_full = config.text_of_layer("layer_types", layer)? == Some("full_attention");
        if let Some(value) = values.get(key).and_then(Value::as_u64).filter(|_| is_full) {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// The size of a head in layers with full attention.
fn full_head(config: &Config) -> Result<u64> {
    match of_full_layers(config, "global_head_dim", "head_dim")? {
        Some(size) => Ok(size),
        None => Err(AnamnesisError::parse("config.json has no \"global_head_dim\"")),
    }
}

fn head_of(config: &Config, layer: u64) -> Result<u64> {
    if is_sliding(config, layer)? { config.needed("head_dim") } else { full_head(config) }
}

fn kv_heads_of(config: &Config, layer: u64) -> Result<u64> {
    let full = of_full_layers(config, "num_global_key_value_heads", "num_key_value_heads")?;
    match full {
        Some(full) if !is_sliding(config, layer)? => Ok(full),
        _ => config.needed("num_key_value_heads"),
    }
}

/// Whether a layer takes its keys and values from an earlier one.
fn is_shared(config: &Config, layer: u64) -> Result<bool> {
    let shared = config.count(&["num_kv_shared_layers"])?.unwrap_or(0);
    Ok(layer >= config.layers()?.saturating_sub(shared))
}

fn inner_of(config: &Config, layer: u64) -> Result<u64> {
    let is_double = config.flag("use_double_wide_mlp")?.unwrap_or(false) && is_shared(config, layer)?;
    Ok(config.needed("intermediate_size")?.saturating_mul(if is_double { 2 } else { 1 }))
}

const OF_HEADS: &str = "layer_types, head_dim, global_head_dim, per_layer_config, num_attention_heads";
const HEAD: Size =
    layer_size(head_of, "layer_types, head_dim, global_head_dim, per_layer_config", "attention.key_length");
const QUERIES: Size = layer_size(
    |config, layer| Ok(config.divisor("num_attention_heads")?.saturating_mul(head_of(config, layer)?)),
    OF_HEADS,
    "attention.head_count, attention.key_length",
);
const KEYS_OR_VALUES: Size = layer_size(
    |config, layer| Ok(kv_heads_of(config, layer)?.saturating_mul(head_of(config, layer)?)),
    "layer_types, head_dim, global_head_dim, per_layer_config, num_key_value_heads",
    "attention.head_count_kv, attention.key_length",
);
const INNER: Size =
    layer_size(inner_of, "intermediate_size, use_double_wide_mlp, num_kv_shared_layers", "feed_forward_length");
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
const INPUT_TOKENS: Size = size(|config| config.needed("vocab_size_per_layer_input"), "vocab_size_per_layer_input", "");
const TOKENS: Size =
    size(|config| Ok(config.needed("vocab_size")?.min(config.vocabulary.unwrap_or(u64::MAX))), VOCAB.hf, VOCAB.gguf);
const TWO_EXPERT_FFN: Size =
    size(|config| Ok((EXPERT_FFN.of)(config)?.saturating_mul(2)), EXPERT_FFN.hf, EXPERT_FFN.gguf);

/// Keys and values, which some layers share and some have only one of.
const LOOSE: Need = Need::When("num_kv_shared_layers, attention_k_eq_v", |_, _| Ok(Presence::Loose));

const TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[TOKENS, HIDDEN]).with(&[Change::CutToVocabulary]),
    model("model.embed_tokens_per_layer.*", "per_layer_token_embd.*", &[INPUT_TOKENS, ALL_INPUTS]).when(OPTIONAL),
    model("model.per_layer_model_projection.*", "per_layer_model_proj.*", &[ALL_INPUTS, HIDDEN]).when(OPTIONAL),
    model("model.per_layer_projection_norm.*", "per_layer_proj_norm.*", &[INPUT]).when(OPTIONAL),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).left_out(),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "post_attention_norm.*", &[HIDDEN]),
    layer("pre_feedforward_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("post_feedforward_layernorm.*", "post_ffw_norm.*", &[HIDDEN]),
    layer("layer_scalar", "layer_output_scale.weight", &[ONE]).when(OPTIONAL),
    layer("self_attn.q_proj.*", "attn_q.*", &[QUERIES, HIDDEN]),
    layer("self_attn.k_proj.*", "attn_k.*", &[KEYS_OR_VALUES, HIDDEN]).when(LOOSE),
    layer("self_attn.v_proj.*", "attn_v.*", &[KEYS_OR_VALUES, HIDDEN]).when(LOOSE),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, QUERIES]),
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD]),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD]).when(LOOSE),
    layer("mlp.gate_proj.*", "ffn_gate.*", &[INNER, HIDDEN]),
    layer("mlp.up_proj.*", "ffn_up.*", &[INNER, HIDDEN]),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, INNER]),
    layer("per_layer_input_gate.*", "inp_gate.*", &[INPUT, HIDDEN]).when(OPTIONAL),
    layer("per_layer_projection.*", "proj.*", &[HIDDEN, INPUT]).when(OPTIONAL),
    layer("post_per_layer_input_norm.*", "post_norm.*", &[HIDDEN]).when(OPTIONAL),
];

const EXPERTS_OF_LAYER: &[Rule] = &[
    layer("router.proj.*", "ffn_gate_inp.*", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("router.scale", "ffn_gate_inp.scale", &[HIDDEN]).when(SPARSE),
    layer("router.per_expert_scale", "ffn_down_exps.scale", &[EXPERT_COUNT]).when(SPARSE),
    layer("experts.gate_up_proj", "ffn_gate_up_exps.weight", &[EXPERT_COUNT, TWO_EXPERT_FFN, HIDDEN]).when(SPARSE),
    layer("experts.down_proj", "ffn_down_exps.weight", &[EXPERT_COUNT, HIDDEN, EXPERT_FFN]).when(SPARSE),
    layer("pre_feedforward_layernorm_2.*", "pre_ffw_norm_2.*", &[HIDDEN]).when(SPARSE),
    layer("post_feedforward_layernorm_1.*", "post_ffw_norm_1.*", &[HIDDEN]).when(SPARSE),
    layer("post_feedforward_layernorm_2.*", "post_ffw_norm_2.*", &[HIDDEN]).when(SPARSE),
];

const BACKBONE: Size =
    size(|config| config.needed("backbone_hidden_size"), "backbone_hidden_size", "embedding_length_out");
const TWO_BACKBONES: Size = size(|config| Ok((BACKBONE.of)(config)?.saturating_mul(2)), BACKBONE.hf, BACKBONE.gguf);

const PROJECTIONS: &[Rule] = &[
    model("pre_projection.*", "nextn.pre_projection.*", &[HIDDEN, TWO_BACKBONES]),
    model("post_projection.*", "nextn.post_projection.*", &[BACKBONE, HIDDEN]),
];

const KEYS: &[Key] = &[
    real_fn("final_logit_softcapping", |config| {
        Ok(config.real(&["final_logit_softcapping"])?.filter(|cap| *cap != 0.0))
    }),
    count("attention.sliding_window", &["sliding_window"]),
    needed("attention.shared_kv_layers", "num_kv_shared_layers"),
    count_or("embedding_length_per_layer_input", &["hidden_size_per_layer_input"], 0),
    flags_fn("attention.sliding_window_pattern", sliding_layers),
    count_fn("attention.key_length", |config| full_head(config).map(Some)),
    count_fn("attention.value_length", |config| full_head(config).map(Some)),
    needed("attention.key_length_swa", "head_dim"),
    needed("attention.value_length_swa", "head_dim"),
    count("expert_feed_forward_length", &["expert_intermediate_size", "moe_intermediate_size"]),
    ints_fn("feed_forward_length", |config| match config.flag("use_double_wide_mlp")? {
        Some(true) => config.per_layer(|layer| Ok(inner_of(config, layer)? as i32)).map(Some),
        _ => Ok(None),
    }),
    ints_fn("attention.head_count_kv", |config| {
        match of_full_layers(config, "num_global_key_value_heads", "num_key_value_heads")? {
            Some(_) => config.per_layer(|layer| Ok(kv_heads_of(config, layer)? as i32)).map(Some),
            None => Ok(None),
        }
    }),
    count_fn("rope.dimension_count", |config| full_head(config).map(Some)),
    count_fn("rope.dimension_count_swa", |config| {
        let part = config.real(&["rope_parameters.partial_rotary_factor"])?.unwrap_or(1.0);
        Ok(Some((config.needed("head_dim")? as f64 * part) as u64))
    }),
];

const ASSISTANT_KEYS: &[Key] =
    &[needed("embedding_length_out", "backbone_hidden_size"), count("nextn_predict_layers", LAYER_KEYS)];

/// The largest head that is credible.
const LARGEST_HEAD: u64 = 1 << 16;

/// The divisors of RoPE's frequencies in layers with full attention: the dimensions that it does not rotate have large ones.
fn frequencies(config: &Config) -> Result<Option<Vec<f32>>> {
    const PART: &str = "rope_parameters.full_attention.partial_rotary_factor";
    let size = full_head(config)?;
    let Some(part) = config.real(&[PART])? else {
        return Err(AnamnesisError::parse(format!("config.json has no \"{PART}\"")));
    };
    if size > LARGEST_HEAD || !(0.0..=1.0).contains(&part) {
        let why = format!("config.json: heads of {size} (global_head_dim) with a part of {part} rotated ({PART})");
        return Err(AnamnesisError::parse(why));
    }
    let (all, rotated) = (size / 2, (size as f64 * part / 2.0) as u64);
    Ok(Some((0..all).map(|dimension| if dimension < rotated { 1.0 } else { 1e30 }).collect()))
}
