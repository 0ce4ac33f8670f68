//! EAGLE 3: a draft model of one layer, for the hidden states and the vocabulary of another model.

use serde_json::{Map, Value};

use crate::architecture::families::LLAMA;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "eagle3",
    classes: &[
        class("LlamaForCausalLMEagle3", "llama"),
        class("Eagle3LlamaForCausalLM", "llama"),
        class("Eagle3Speculator", "llama"),
        class("Eagle3DraftModel", "llama"),
        class("LlamaForCausalLM", "llama"),
    ],
    applies: is_draft,
    renames: &[Rename::Prefix("midlayer.", "model.layers.0."), Rename::Prefix("layers.0.", "model.layers.0.")],
    rules: &[OUTER, NORM_RULES, ATTENTION_RULES, GATED_FFN],
    first_keys: FIRST_KEYS,
    types: TypeRules::USUAL.and_tables(&[("d2t", IntegerTable::TokenIds)]),
    needs_target: true,
    restore: None,
    not_held: Some("t2d, and the model that it predicts for"),
    ..LLAMA
};

/// Whether a configuration is that of a draft model with a vocabulary of its own.
pub(super) fn is_draft(raw: &Map<String, Value>) -> bool {
    let inner = raw.get("transformer_layer_config").and_then(Value::as_object);
    let get = |key: &str| inner.and_then(|inner| inner.get(key)).or_else(|| raw.get(key));
    get("draft_vocab_size").is_some() && get("num_hidden_layers").and_then(Value::as_u64) == Some(1)
}

const DRAFT_VOCAB: Size = size(|config| config.needed("draft_vocab_size"), "draft_vocab_size", "");
const FUSED: Size = size(
    |config| Ok(hidden(config)?.saturating_mul(layers(config)?.len() as u64)),
    "target_hidden_size, eagle_aux_hidden_state_layer_ids",
    "target_hidden_size, target_layers",
);
const NORMED: Need = Need::Flag("norm_before_fc");

const OUTER: &[Rule] = &[
    model("fc.*", "fc.*", &[HIDDEN, FUSED]),
    model("input_norm.*", "enc.output_norm.*", &[FUSED]).when(NORMED),
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    model("embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
    model("norm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[DRAFT_VOCAB, HIDDEN]),
    model("d2t", "d2t", &[DRAFT_VOCAB]),
    model("t2d", "t2d", &[VOCAB]).when(OPTIONAL).left_out(),
];

const NORM_RULES: &[Rule] = &[
    layer("hidden_norm.*", "attn_norm_2.*", &[HIDDEN]),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]),
];

/// Attention over the embedding and the hidden state, side by side.
const ATTENTION_RULES: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, TWO_HIDDEN])
        .with(&[Change::Rotary("num_attention_heads")])
        .biased(ATTENTION_BIAS),
    layer("self_attn.k_proj.*", "attn_k.*", &[KV_DIM, TWO_HIDDEN])
        .with(&[Change::Rotary("num_key_value_heads")])
        .biased(ATTENTION_BIAS),
    layer("self_attn.v_proj.*", "attn_v.*", &[KV_DIM, TWO_HIDDEN]).biased(ATTENTION_BIAS),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]).biased(ATTENTION_BIAS),
];

const FIRST_KEYS: &[Key] = &[
    ints_fn("target_layers", |config| layers(config).map(Some)),
    count_fn("target_hidden_size", |config| hidden(config).map(Some)),
    flag_fn("norm_before_residual", |config| config.is_set("norm_before_residual").map(Some)),
    flag_fn("norm_before_fc", |config| config.is_set("norm_before_fc").map(Some)),
];

/// The layers of the target whose hidden states are read.
fn layers(config: &Config) -> Result<Vec<i32>> {
    let ids = config.counts("eagle_aux_hidden_state_layer_ids")?.filter(|ids| !ids.is_empty());
    let ids = match ids {
        Some(ids) => ids,
        None => {
            let layers = config.needed("target_config.num_hidden_layers")?;
            vec![2, layers / 2, layers.saturating_sub(3)]
        }
    };
    Ok(ids.into_iter().map(|id| i32::try_from(id).unwrap_or(i32::MAX)).collect())
}

/// The hidden size of the target.
fn hidden(config: &Config) -> Result<u64> {
    match config.count(&["target_hidden_size"])? {
        Some(size) => Ok(size),
        None => config.needed("target_config.hidden_size"),
    }
}
