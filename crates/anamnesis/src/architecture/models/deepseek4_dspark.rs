//! DSpark for DeepSeek V4: the stages under `mtp.` of a checkpoint that may have its target, too. They are layers without
//! compression; the tensors around them are stored in the first and the last.

use super::deepseek::INDEXER_KEYS;
use super::deepseek4::{ATTENTION_RULES, EXPERT_RULES, FURTHER_KEYS, HYPER_CONNECTIONS, KEYS, RATIO_KEY, TEMPLATE};
use super::dflash::of_target;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "dflash",
    classes: &[class("DeepseekV4DSparkModel", "deepseek_v4")],
    layer_prefix: STAGES,
    renames: &[
        Rename::Prefix(STAGES, STAGES),
        Rename::Prefix("", TARGET),
        Rename::OutOfLayers("main_"),
        Rename::OutOfLayers("norm."),
        Rename::OutOfLayers("hc_head_"),
        Rename::OutOfLayers("markov_head."),
        Rename::OutOfLayers("confidence_head."),
    ],
    dropped: &[TARGET],
    rules: &[OUTER, ATTENTION_RULES, HYPER_CONNECTIONS, ROUTER, EXPERT_RULES],
    first_keys: TEMPLATE,
    keys: &[COMMON, KEYS, INDEXER_KEYS, FURTHER_KEYS, DRAFT_KEYS],
    tokenizer: of_target(&[("mask", NOISE)]),
    counted_layers: Some(STAGES),
    blocks_by_layer: true,
    types: TypeRules::AS_STORED,
    needs_target: true,
    restore: None,
    not_held: Some("the model that it predicts for"),
    ..DECODER
};

const STAGES: &str = "mtp.";
/// The prefix that the tensors of the target get.
const TARGET: &str = "target.";
/// The token in the places that are predicted.
const NOISE: &str = "dspark_noise_token_id";
const TARGET_LAYERS: &str = "dspark_target_layer_ids";

/// The layers of the target whose hidden states are read.
fn target_layers(config: &Config) -> Result<Vec<u64>> {
    match config.counts(TARGET_LAYERS)? {
        Some(layers) if !layers.is_empty() => Ok(layers),
        _ => Err(AnamnesisError::parse(format!("config.json: \"{TARGET_LAYERS}\": a list of layers is needed"))),
    }
}

const READ: Size = size(
    |config| Ok(first(config, HIDDEN_KEYS)?.saturating_mul(target_layers(config)?.len() as u64)),
    "hidden_size, dspark_target_layer_ids",
    "embedding_length, target_layers",
);
/// Configurations need not have the rank of the Markov head.
const RANK: Size = size(
    |config| match config.count(&["dspark_markov_rank"])? {
        Some(rank) => Ok(rank),
        None => (ANY.of)(config),
    },
    "dspark_markov_rank",
    "",
);
const HIDDEN_AND_RANK: Size = size(
    |config| match config.count(&["dspark_markov_rank"])? {
        Some(rank) => Ok(first(config, HIDDEN_KEYS)?.saturating_add(rank)),
        None => (ANY.of)(config),
    },
    "hidden_size, dspark_markov_rank",
    "",
);

const OUTER: &[Rule] = &[
    model("main_proj.weight", "fc.weight", &[HIDDEN, READ]),
    model("main_norm.weight", "enc.output_norm.weight", &[HIDDEN]),
    model("norm.weight", "output_norm.weight", &[HIDDEN]),
    model("markov_head.markov_w1.weight", "markov_w1.weight", &[VOCAB, RANK]),
    model("markov_head.markov_w2.weight", "markov_w2.weight", &[VOCAB, RANK]),
    model("confidence_head.proj.weight", "conf_proj.weight", &[ONE, HIDDEN_AND_RANK]).when(OPTIONAL),
    layer("attn_norm.*", "attn_norm.*", &[HIDDEN]),
    layer("ffn_norm.*", "ffn_norm.*", &[HIDDEN]),
];

const ROUTER: &[Rule] = &[
    layer("ffn.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]),
    layer("ffn.gate.bias", "exp_probs_b.bias", &[EXPERT_COUNT]),
    // That of images.
    layer("ffn.gate.bias_vl", "exp_probs_b_vl.bias", &[EXPERT_COUNT]).when(OPTIONAL).left_out(),
];

const DRAFT_KEYS: &[Key] = &[
    ints_fn(RATIO_KEY, |config| config.per_layer(|_| Ok(0)).map(Some)),
    count_fn("hash_layer_count", |_| Ok(Some(0))),
    removed("embedding_length_out"),
    count_fn("block_size", |config| {
        let (noise, tokens) = (config.needed(NOISE)?, config.needed("vocab_size")?);
        if noise >= tokens {
            let why = format!("config.json: \"{NOISE}\" is {noise}, there are {tokens} tokens (vocab_size)");
            return Err(AnamnesisError::parse(why));
        }
        config.divisor("dspark_block_size").map(Some)
    }),
    ints_fn("target_layers", |config| {
        let number = |layer: u64| i32::try_from(layer.saturating_add(1)).unwrap_or(i32::MAX);
        Ok(Some(target_layers(config)?.into_iter().map(number).collect()))
    }),
];
