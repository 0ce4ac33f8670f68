//! DFlash and DSpark: draft models that predict blocks of tokens for another model, whose hidden states and vocabulary they use.

use serde_json::Value;

use crate::architecture::families::QWEN3;
use crate::architecture::prelude::*;

pub(super) static FLASH: Architecture = Architecture {
    name: "dflash",
    classes: &[class("DFlashDraftModel", "qwen3"), class("DFlash2DraftModel", "qwen3")],
    rules: &[OUTER, HEADS_OF_FLASH, NORMS, ATTENTION_RULES, GATED_FFN, CONVOLUTIONS],
    keys: &[COMMON, POOLING, KEYS],
    ..DRAFT
};

/// DFlash with a Markov head: every token depends on the one before it, too.
pub(super) static SPARK: Architecture = Architecture {
    name: "dflash",
    classes: &[
        class("DSparkDraftModel", "qwen3"),
        class("DSparkSpeculator", "qwen3"),
        class("Qwen3DSparkModel", "qwen3"),
        class("Lfm2DSparkDraftModel", "qwen3"),
        class("LingDSparkModel", "qwen3"),
    ],
    rules: &[OUTER, HEADS_OF_SPARK, NORMS, ATTENTION_RULES, GATED_FFN, CONVOLUTIONS],
    keys: &[COMMON, POOLING, KEYS, SPARK_KEYS],
    read_tensors: &[read(CONFIDENCE, Measure::Digest)],
    tokenizer: of_target(&[("mask", "mask_token_id"), ("mask", "dflash_config.mask_token_id")]),
    types: TypeRules::USUAL.and_tables(&[("d2t", IntegerTable::TokenIds)]),
    ..DRAFT
};

/// The assistant of Muse Glimmer.
pub(super) static MUSE: Architecture = Architecture {
    name: "dflash",
    classes: &[class("MuseGlimmerAssistantModel", "muse_glimmer_assistant")],
    rules: &[OUTER, NORMS, ATTENTION, QK_NORMS, GATED_FFN],
    keys: &[COMMON, MUSE_KEYS],
    tokenizer: of_target(&[("mask", "mask_token_id")]),
    ..DRAFT
};

pub(super) const DRAFT: Architecture = Architecture {
    layer_prefix: "layers.",
    renames: &[
        Rename::Prefix("model.", ""),
        Rename::Prefix("encoder.output_norm_enc.", "hidden_norm."),
        Rename::Prefix("encoder.fc.", "fc."),
    ],
    tokenizer: of_target(&[("mask", "dflash_config.mask_token_id")]),
    needs_target: true,
    restore: None,
    not_held: Some("the model that it predicts for"),
    ..QWEN3
};

/// The vocabulary of the target, with special tokens of the draft's configuration.
pub(super) const fn of_target(config_ids: &'static [(&'static str, &'static str)]) -> TokenizerRules {
    let overrides = TokenOverrides { config_ids, ..NO_OVERRIDES };
    TokenizerRules { kind: VocabularyKind::OfTarget, overrides, ..BPE }
}

/// The layers of the target whose hidden states are read, counted from the embedding.
fn target_layers(config: &Config) -> Result<Vec<i32>> {
    let number = |layer: u64| i32::try_from(layer).unwrap_or(i32::MAX);
    let listed = match config.get("dflash_config") {
        Some(_) => config.counts("dflash_config.target_layer_ids")?,
        None => None,
    };
    if let (None, Some(layers)) = (config.get("dflash_config"), config.counts("aux_hidden_state_layer_ids")?) {
        return Ok(layers.into_iter().map(number).collect());
    }
    let layers = match listed {
        Some(layers) => layers,
        None => config.counts("target_layer_ids")?.unwrap_or_default(),
    };
    Ok(layers.into_iter().map(|layer| number(layer.saturating_add(1))).collect())
}

const FUSED: Size = size(
    |config| {
        let hidden = match config.count(&["target_hidden_size", "target_config.hidden_size"])? {
            Some(hidden) => hidden,
            None => first(config, HIDDEN_KEYS)?,
        };
        Ok(hidden.saturating_mul(target_layers(config)?.len() as u64))
    },
    "target_hidden_size, target_layer_ids",
    "target_layers",
);
const DRAFT_VOCAB: Size = size(
    |config| match config.count(&["draft_vocab_size"])?.filter(|size| *size > 0) {
        Some(size) => Ok(size),
        None => config.needed("vocab_size"),
    },
    "draft_vocab_size, vocab_size",
    "",
);

/// Whether the draft has a vocabulary of its own.
fn has_own_vocabulary(config: &Config) -> Result<bool> {
    Ok((DRAFT_VOCAB.of)(config)? != config.needed("vocab_size")?)
}

const OWN_VOCABULARY: Need =
    Need::When("draft_vocab_size, vocab_size", |config, _| Ok(needed_if(has_own_vocabulary(config)?)));
/// A head for the vocabulary of the target, which is the target's own.
const SHARED_HEAD: Need = Need::When("draft_vocab_size, vocab_size", |config, _| {
    Ok(if has_own_vocabulary(config)? { Presence::Surplus } else { Presence::Allowed })
});

pub(super) const OUTER: &[Rule] = &[
    model("fc.*", "fc.*", &[HIDDEN, FUSED]),
    model("hidden_norm.*", "enc.output_norm.*", &[HIDDEN]),
    model("norm.*", "output_norm.*", &[HIDDEN]),
    model("embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]).when(OWN_EMBEDDING),
    model("embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]).when(SHARED_EMBEDDING).left_out(),
];

/// The embedding, unless it is declared to be the target's.
const OWN_EMBEDDING: Need = Need::When("has_embed_tokens", |config, _| {
    Ok(if config.flag("has_embed_tokens")? == Some(false) { Presence::Surplus } else { Presence::Allowed })
});
const SHARED_EMBEDDING: Need = Need::When("has_embed_tokens", |config, _| {
    Ok(if config.flag("has_embed_tokens")? == Some(false) { Presence::Allowed } else { Presence::Surplus })
});

const SELECTOR_RANK: Size =
    size(|config| config.needed("dflash_config.selector_rank"), "dflash_config.selector_rank", "selector_rank");
const SELECTED: Need = Need::When("dflash_config.conv_kernel_size", |config, _| {
    Ok(needed_if(config.get("dflash_config.conv_kernel_size").is_some()))
});

const HEADS_OF_FLASH: &[Rule] = &[
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    model("candidate_selector.hidden_projection.weight", "selector_hidden.weight", &[SELECTOR_RANK, HIDDEN])
        .when(SELECTED),
    model("candidate_selector.predecessor_codebook", "selector_predecessor.weight", &[VOCAB, SELECTOR_RANK])
        .when(SELECTED),
    model("candidate_selector.successor_codebook", "selector_successor.weight", &[VOCAB, SELECTOR_RANK]).when(SELECTED),
];

/// The tensor of the confidence head, which vanilla exports do not have.
pub(super) const CONFIDENCE: &str = "confidence_head.proj.weight";

const HEADS_OF_SPARK: &[Rule] = &[
    model("lm_head.weight", "output.weight", &[DRAFT_VOCAB, HIDDEN]).when(OWN_VOCABULARY),
    model("lm_head.weight", "output.weight", &[DRAFT_VOCAB, HIDDEN]).when(SHARED_HEAD).left_out(),
    model("confidence_head.proj.*", "conf_proj.*", &[ONE, ANY]).when(OPTIONAL).biased(OPTIONAL),
    model("markov_head.markov_w1.*", "markov_w1.*", &[VOCAB, ANY]),
    model("markov_head.markov_w2.*", "markov_w2.*", &[DRAFT_VOCAB, ANY]),
    model("d2t", "d2t", &[DRAFT_VOCAB]).when(OWN_VOCABULARY),
    model("t2d", "t2d", &[VOCAB]).when(OPTIONAL).left_out(),
];

const KERNEL_SIZE: Size = size(
    |config| config.needed("dflash_config.conv_kernel_size"),
    "dflash_config.conv_kernel_size",
    "conv_kernel_size",
);
/// Two kernels for every group of dimensions.
const PROJECTED: Size = size(
    |config| {
        let groups = first(config, HIDDEN_KEYS)? / config.divisor("dflash_config.conv_group_size")?;
        Ok((KERNEL_SIZE.of)(config)?.saturating_mul(2).saturating_mul(groups))
    },
    "dflash_config.conv_kernel_size, dflash_config.conv_group_size, hidden_size",
    "conv_kernel_size, conv_group_size, embedding_length",
);
const TWO: Size = size(|_| Ok(2), "", "");

/// Convolutions of attention and of the feed-forward network, whose kernels depend on the hidden state.
const CONVOLUTIONS: &[Rule] = &[
    layer("attention_conv.base_kernel", "attn_conv_base", &[TWO, KERNEL_SIZE, HIDDEN]).when(SELECTED),
    layer("attention_conv.kernel_projection.weight", "attn_conv_proj.weight", &[PROJECTED, HIDDEN]).when(SELECTED),
    layer("mlp_conv.base_kernel", "ffn_conv_base", &[TWO, KERNEL_SIZE, HIDDEN]).when(SELECTED),
    layer("mlp_conv.kernel_projection.weight", "ffn_conv_proj.weight", &[PROJECTED, HIDDEN]).when(SELECTED),
];

/// The rows of every head in pairs, if positions rotate neighbours: the even ones come first.
const ROTATED: &[Change] = &[Change::HalvedRotary(&RotatedRows {
    head: HEAD_DIM,
    rotated: size(
        |config| match config.flag("rope_is_neox_style")? {
            Some(false) => config.head_size(),
            _ => Ok(0),
        },
        "rope_is_neox_style, head_dim",
        "",
    ),
})];

const ATTENTION_RULES: &[Rule] = {
    let [q, k, v, output] = attention(ATTENTION_BIAS, ATTENTION_BIAS);
    &[
        q.biased(Need::Never).with(ROTATED),
        k.biased(Need::Never).with(ROTATED),
        v.biased(Need::Never),
        output.biased(Need::Never),
        layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD_DIM]).with(ROTATED),
        layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD_DIM]).with(ROTATED),
        layer("self_attn.sinks", "attn_sinks.weight", &[HEADS]).when(OPTIONAL),
    ]
};

/// Whether all layers have a sliding window.
fn is_all_sliding(config: &Config) -> Result<bool> {
    config.is_set("dflash_config.use_swa")
}

/// The sliding window, if any layer has one.
fn window(config: &Config) -> Result<Option<u64>> {
    if !config.is_set("use_sliding_window")? && !is_all_sliding(config)? {
        return Ok(None);
    }
    let of_draft = config.count(&["dflash_config.swa_window_size"])?.filter(|window| *window > 0);
    Ok(of_draft.or(config.count(&["sliding_window"])?.filter(|window| *window > 0)))
}

pub(super) const KEYS: &[Key] = &[
    count_fn("rope.dimension_count", |config| match config.rope().real("partial_rotary_factor")? {
        Some(part) => Ok(Some((config.head_size()? as f64 * part) as u64)),
        None => Ok(None),
    }),
    real("attention.value_scale", &["dflash_config.attention_value_scale"]),
    count_or("block_size", &["dflash_config.block_size", "block_size"], 16),
    count("conv_kernel_size", &["dflash_config.conv_kernel_size"]),
    count("conv_group_size", &["dflash_config.conv_group_size"]),
    count("selector_rank", &["dflash_config.selector_rank"]),
    count("selector_top_k", &["dflash_config.selector_top_k"]),
    real("logit_scale", &["dflash_config.output_multiplier", "output_multiplier"]),
    real_fn("final_logit_softcapping", |config| {
        let cap = config.real(&["dflash_config.final_logit_softcapping", "final_logit_softcapping"])?;
        Ok(cap.filter(|cap| *cap > 0.0))
    }),
    real("embedding_scale", &["dflash_config.input_embedding_scale", "input_embedding_scale"]),
    ints_fn("target_layers", |config| Ok(Some(target_layers(config)?).filter(|layers| !layers.is_empty()))),
    count_fn("attention.sliding_window", window),
    flags_fn("attention.sliding_window_pattern", |config| match window(config)? {
        None => Ok(None),
        Some(_) if is_all_sliding(config)? => config.per_layer(|_| Ok(true)).map(Some),
        Some(_) => Ok(Some(sliding_layers(config)?.unwrap_or_default())),
    }),
    flag_fn("attention.causal", |config| Ok(config.flag("is_causal")?.or(config.flag("dflash_config.causal")?))),
    ints_fn("rope.dimension_sections", |config| {
        let sections = ["target_config.rope_parameters.mrope_section", "target_config.rope_scaling.mrope_section"];
        match sections.iter().any(|key| config.get(key).is_some()) {
            true => Ok(Some(vec![i32::try_from(config.head_size()? / 2).unwrap_or(i32::MAX), 0, 0, 0])),
            false => Ok(None),
        }
    }),
];

const SPARK_KEYS: &[Key] = &[
    flag_fn("sample_from_anchor", |config| {
        if let Some(kind) = config.text("markov_head_type")?.filter(|kind| *kind != "vanilla") {
            let why = format!("config.json: \"markov_head_type\" is {kind:?}, \"vanilla\" is needed");
            return Err(AnamnesisError::parse(why));
        }
        let is_other =
            ["transformer_layer_config", "aux_hidden_state_layer_ids"].iter().any(|key| config.get(key).is_some());
        Ok(Some(config.flag("sample_from_anchor")?.unwrap_or(!is_other)))
    }),
    flag_fn("has_confidence_head", |config| Ok(Some(config.measured.get(None, CONFIDENCE).is_some()))),
];

const MUSE_KEYS: &[Key] = &[
    needed("block_size", "block_size"),
    ints_fn("target_layers", |config| target_layers(config).map(Some)),
    count_fn("attention.sliding_window", |config| match config.get("layer_types") {
        Some(Value::Array(kinds)) if !kinds.is_empty() => {
            Ok(config.count(&["sliding_window"])?.filter(|window| *window > 0))
        }
        _ => Ok(None),
    }),
    flags_fn("attention.sliding_window_pattern", |config| {
        let has_window = config.count(&["sliding_window"])?.is_some_and(|window| window > 0);
        Ok(sliding_layers(config)?.filter(|kinds| has_window && !kinds.is_empty()))
    }),
];
