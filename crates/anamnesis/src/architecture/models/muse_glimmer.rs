//! Muse Glimmer: gates of attention, and norms of queries and keys that only have a factor.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "muse-glimmer",
    classes: &[class("MuseGlimmerForConditionalGeneration", "muse_glimmer")],
    rules: &[EMBED_NORM_HEAD, FOUR_NORMS, PERMUTED_ATTENTION, GATE, GATED_FFN],
    keys: &[COMMON, KEYS],
    derived_tensors: &[
        DerivedTensor {
            name: "blk.{N}.attn_q_norm.weight",
            row: None,
            values: |config| filled(config, Some("qk_scale_factor")),
        },
        DerivedTensor { name: "blk.{N}.attn_k_norm.weight", row: None, values: |config| filled(config, None) },
    ],
    tokenizer: TokenizerRules {
        pre: &[(PreTokenizer::Gpt4o, "llama4")],
        overrides: TokenOverrides { ids: &[("eot", "<|eot|>")], ..NO_OVERRIDES },
        ..BPE
    },
    restore: Some(|file, config| {
        restore::plain(file, config)?;
        if let Some(&[factor, ..]) = (file.values)("blk.0.attn_q_norm.weight")?.as_deref() {
            set(config, "qk_scale_factor", shortest(factor));
        }
        Ok(0)
    }),
    ..PLAIN
};

const GATE: &[Rule] = &[layer("self_attn.gate_proj.*", "attn_gate.*", &[Q_DIM, HIDDEN])];

/// The weights of a norm without any: a factor of the configuration, or 1.
fn filled(config: &Config, factor: Option<&str>) -> Result<Option<Vec<f32>>> {
    let factor = factor.map_or(Ok(1.0), |key| config.needed_real(key))?;
    Ok(Some(vec![factor as f32; config.head_size()? as usize]))
}

const KEYS: &[Key] = &[
    needed_real("final_logit_softcapping", "final_logit_softcapping"),
    needed_real("logit_scale", "output_multiplier"),
    needed("attention.sliding_window", "sliding_window"),
    flags_fn("attention.sliding_window_pattern", sliding_layers),
];
