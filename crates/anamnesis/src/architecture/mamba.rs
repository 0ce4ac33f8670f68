//! Mamba: state spaces without attention.

use super::change::Change;
use super::config::Config;
use super::key::{FILE_TYPE, From, Key, LAYERS, count, counted, real};
use super::kind::{Architecture, Class, USUAL};
use super::rule::{Rule, layer, model};
use super::tokenizer::Family;
use crate::error::Result;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "mamba",
    classes: &[
        Class { name: "MambaForCausalLM", model_type: "mamba", defaults: &[] },
        Class { name: "FalconMambaForCausalLM", model_type: "falcon_mamba", defaults: &[] },
    ],
    layers: "backbone.layers.",
    rules: &[TENSORS],
    keys: &[SIZES],
    family: Family::Mamba,
    restore: |file, config| {
        for (key, name) in [("ssm.inner_size", "intermediate_size"), ("ssm.time_step_rank", "time_step_rank")] {
            if let Some(size) = file.count(key) {
                config.insert(name.to_owned(), size.into());
            }
        }
        if let (Some(inner), Some(width @ 1..)) = (file.count("ssm.inner_size"), file.count("embedding_length")) {
            config.insert("expand".to_owned(), (inner / width).into());
        }
        config.insert("use_conv_bias".to_owned(), file.has("blk.0.ssm_conv1d.bias").into());
        config.insert("use_bias".to_owned(), file.has("blk.0.ssm_in.bias").into());
        Ok(0)
    },
    lost: Some("the states of the model are logarithms in a checkpoint, which are rounded anew"),
    ..USUAL
};

const TENSORS: &[Rule] = &[
    model("backbone.embeddings.*", "token_embd.*"),
    model("backbone.norm_f.*", "output_norm.*"),
    model("lm_head.*", "output.*"),
    layer("norm.*", "attn_norm.*"),
    layer("mixer.in_proj.*", "ssm_in.*"),
    layer("mixer.conv1d.bias", "ssm_conv1d.bias"),
    layer("mixer.conv1d.weight", "ssm_conv1d.weight").with(Change::WithoutMiddle),
    layer("mixer.x_proj.*", "ssm_x.*"),
    layer("mixer.dt_proj.*", "ssm_dt.*"),
    layer("mixer.A_log", "ssm_a").with(Change::NegativeExponential),
    layer("mixer.D", "ssm_d"),
    layer("mixer.out_proj.*", "ssm_out.*"),
];

/// The context llama.cpp is told: state spaces have no limit of their own.
pub(super) const CONTEXT_LENGTH: u64 = 1 << 20;

const SIZES: &[Key] = &[
    counted("context_length", |_| Ok(Some(CONTEXT_LENGTH))),
    count("embedding_length", &["hidden_size", "d_model"]),
    counted("feed_forward_length", |_| Ok(Some(0))),
    counted("attention.head_count", |_| Ok(Some(0))),
    count("block_count", LAYERS),
    Key { gguf: "ssm.conv_kernel", from: From::CountOr(&["conv_kernel", "d_conv"], 4) },
    counted("ssm.inner_size", |config| inner(config).map(Some)),
    Key { gguf: "ssm.state_size", from: From::CountOr(&["state_size", "d_state"], 16) },
    counted("ssm.time_step_rank", |config| match config.count(&["time_step_rank", "dt_rank"])? {
        Some(rank) => Ok(Some(rank)),
        None => Ok(Some(width(config)?.div_ceil(16))),
    }),
    real("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon", "rms_norm_eps"]),
    Key {
        gguf: "ssm.dt_b_c_rms",
        from: From::Told(|config| Ok(Some(config.text("model_type")? == Some("falcon_mamba")))),
    },
    FILE_TYPE,
];

fn width(config: &Config) -> Result<u64> {
    match config.count(&["hidden_size", "d_model"])? {
        Some(width) => Ok(width),
        None => config.needed("hidden_size"),
    }
}

fn inner(config: &Config) -> Result<u64> {
    match config.count(&["intermediate_size", "d_inner"])? {
        Some(inner) => Ok(inner),
        None => Ok(2 * width(config)?),
    }
}
