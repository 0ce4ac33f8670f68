//! Mamba 2: state spaces in heads and groups.

use super::change::Change;
use super::config::Config;
use super::config::Default;
use super::key::{FILE_TYPE, From, Key, LAYERS, count, counted, worked};
use super::kind::{Architecture, Class, USUAL};
use super::mamba::CONTEXT_LENGTH;
use super::rule::{Rule, layer, model};
use super::tokenizer::Family;
use crate::error::{AnamnesisError, Result};

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "mamba2",
    classes: &[Class { name: "Mamba2ForCausalLM", model_type: "mamba2", defaults: &[("n_groups", Default::Count(1))] }],
    layers: "backbone.layers.",
    rules: &[TENSORS],
    keys: &[SIZES],
    family: Family::Mamba2,
    restore: |file, config| {
        let heads = file.count("ssm.time_step_rank").filter(|heads| *heads > 0);
        if let (Some(inner), Some(heads)) = (file.count("ssm.inner_size"), heads) {
            config.insert("intermediate_size".to_owned(), inner.into());
            config.insert("num_heads".to_owned(), heads.into());
            config.insert("head_dim".to_owned(), (inner / heads).into());
        }
        if let (Some(inner), Some(width @ 1..)) = (file.count("ssm.inner_size"), file.count("embedding_length")) {
            config.insert("expand".to_owned(), (inner / width).into());
        }
        if let Some(epsilon) = file.real("attention.layer_norm_rms_epsilon") {
            config.insert("layer_norm_epsilon".to_owned(), epsilon.into());
        }
        config.insert("use_conv_bias".to_owned(), file.has("blk.0.ssm_conv1d.bias").into());
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
    layer("mixer.dt_bias", "ssm_dt.bias"),
    layer("mixer.A_log", "ssm_a").with(Change::NegativeExponentialColumn),
    layer("mixer.D", "ssm_d").with(Change::Column),
    layer("mixer.norm.*", "ssm_norm.*").with(Change::Groups("n_groups")),
    layer("mixer.out_proj.*", "ssm_out.*"),
];

const SIZES: &[Key] = &[
    counted("context_length", |_| Ok(Some(CONTEXT_LENGTH))),
    count("embedding_length", &["hidden_size", "d_model", "dim"]),
    counted("feed_forward_length", |_| Ok(Some(0))),
    counted("attention.head_count", |_| Ok(Some(0))),
    count("block_count", LAYERS),
    Key { gguf: "ssm.conv_kernel", from: From::CountOr(&["conv_kernel", "d_conv"], 4) },
    counted("ssm.inner_size", |config| inner(config).map(Some)),
    Key { gguf: "ssm.state_size", from: From::CountOr(&["state_size", "d_state"], 128) },
    counted("ssm.time_step_rank", |config| heads(config).map(Some)),
    count("ssm.group_count", &["n_groups"]),
    worked("attention.layer_norm_rms_epsilon", |config| {
        Ok(Some(config.real(&["layer_norm_epsilon", "rms_norm_eps"])?.unwrap_or(1e-5)))
    }),
    FILE_TYPE,
];

fn inner(config: &Config) -> Result<u64> {
    let width = config.count(&["hidden_size", "d_model", "dim"])?;
    let width = width.ok_or_else(|| AnamnesisError::parse("config.json tells no width of the model"))?;
    let expanded = config.count(&["mamba_expand", "expand"])?.unwrap_or(2) * width;
    match config.count(&["mamba_d_ssm", "intermediate_size", "d_inner"])? {
        Some(inner) if inner != expanded => {
            Err(AnamnesisError::parse(format!("config.json: the inner size is {inner}, the width expanded {expanded}")))
        }
        _ => Ok(expanded),
    }
}

fn heads(config: &Config) -> Result<u64> {
    let (inner, size) = (inner(config)?, config.count(&["mamba_d_head", "head_dim"])?.unwrap_or(64));
    match inner.checked_rem(size) {
        Some(0) => Ok(inner / size),
        _ => Err(AnamnesisError::parse(format!("config.json: {inner} values do not divide into heads of {size}"))),
    }
}
