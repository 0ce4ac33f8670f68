//! Llama 4: experts in every nth layer, stored transposed.

use crate::architecture::families::LLAMA;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "llama4",
    classes: &[class("Llama4ForConditionalGeneration", "llama4"), class("Llama4ForCausalLM", "llama4_text")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, FEED_FORWARD],
    keys: &[COMMON, VOCABULARY_AND_ROPE, KEYS],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Gpt4o, "llama4")], ..BPE },
    restore: Some(|file, config| {
        restore::plain(file, config)?;
        if config.remove("sliding_window").is_some_and(|window| window == 0) {
            let layers = file.count("block_count").unwrap_or(0);
            set(config, "layer_types", (0..layers).map(|_| "full_attention").collect::<Vec<_>>());
        }
        Ok(1)
    }),
    ..LLAMA
};

/// Whether a layer has experts: the last of every `interleave_moe_layer_step`, or those of `moe_layers`.
fn is_sparse(config: &Config, layer: u64) -> Result<bool> {
    if let Some(layers) = config.counts("moe_layers")? {
        return Ok(layers.contains(&layer));
    }
    let step = config.count(&["interleave_moe_layer_step"])?.unwrap_or(1);
    Ok(step > 0 && (layer + 1).is_multiple_of(step))
}

const OF: &str = "interleave_moe_layer_step, moe_layers";
const SPARSE: Need = Need::When(OF, |config, layer| Ok(needed_if(is_sparse(config, layer)?)));
const DENSE: Need = Need::When(OF, |config, layer| Ok(needed_if(!is_sparse(config, layer)?)));

const MLP: Size = size(|config| config.needed("intermediate_size_mlp"), "intermediate_size_mlp", "feed_forward_length");
const EXPERT: Size =
    size(|config| config.needed("intermediate_size"), "intermediate_size", "expert_feed_forward_length");

const FEED_FORWARD: &[Rule] = &[
    layer("feed_forward.gate_proj.*", "ffn_gate.*", &[MLP, HIDDEN]).when(DENSE),
    layer("feed_forward.up_proj.*", "ffn_up.*", &[MLP, HIDDEN]).when(DENSE),
    layer("feed_forward.down_proj.*", "ffn_down.*", &[HIDDEN, MLP]).when(DENSE),
    layer("feed_forward.router.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("feed_forward.experts.down_proj", "ffn_down_exps.weight", &[EXPERT_COUNT, HIDDEN, EXPERT])
        .with(&[Change::Transposed])
        .when(SPARSE),
    layer("feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight", &[EXPERT_COUNT, EXPERT, HIDDEN])
        .with(&[Change::Transposed, Change::First(Halves::Rows)])
        .when(SPARSE),
    layer("feed_forward.experts.gate_up_proj", "ffn_up_exps.weight", &[EXPERT_COUNT, EXPERT, HIDDEN])
        .with(&[Change::Transposed, Change::Second(Halves::Rows)])
        .when(SPARSE),
    layer("feed_forward.shared_expert.gate_proj.*", "ffn_gate_shexp.*", &[EXPERT, HIDDEN]).when(SPARSE),
    layer("feed_forward.shared_expert.up_proj.*", "ffn_up_shexp.*", &[EXPERT, HIDDEN]).when(SPARSE),
    layer("feed_forward.shared_expert.down_proj.*", "ffn_down_shexp.*", &[HIDDEN, EXPERT]).when(SPARSE),
];

const KEYS: &[Key] = &[
    count("feed_forward_length", &["intermediate_size_mlp"]),
    count("interleave_moe_layer_step", &["interleave_moe_layer_step"]),
    count("expert_feed_forward_length", &["intermediate_size"]),
    count_fn("attention.sliding_window", |config| {
        let kinds = config.texts("layer_types")?;
        Ok(kinds.is_some_and(|kinds| kinds.iter().all(|kind| *kind == "full_attention")).then_some(0))
    }),
];
