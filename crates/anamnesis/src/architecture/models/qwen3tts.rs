//! Qwen 3 TTS: the talker, a Qwen 3 that reads texts and codes of audio and predicts codes. The embedding has the rows of
//! texts after their projection, then those of codes.

use serde_json::Value;

use crate::architecture::families::QWEN3;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "qwen3tts",
    classes: &[class("Qwen3TTSForConditionalGeneration", "qwen3_tts")],
    part: "talker.",
    // The predictor of further codes is in the projector's file.
    dropped: &["code_predictor."],
    rules: &[ENDS, NORMS, ATTENTION, QK_NORMS, GATED_FFN],
    keys: &[COMMON, KEYS],
    tokenizer: TokenizerRules {
        further: Some(codec_tokens),
        overrides: TokenOverrides { no_template: true, ..NO_OVERRIDES },
        ..BPE
    },
    restore: None,
    not_held: Some("the embedding of texts before its projection"),
    ..QWEN3
};

const CODES: Size = size(codes, CODES_KEY, "");
const CODES_KEY: &str = "talker_config.vocab_size";
const TEXTS: &str = "talker_config.text_vocab_size";

fn codes(config: &Config) -> Result<u64> {
    config.divisor(CODES_KEY)
}

/// The tokens of texts and codes.
const TOKENS: Size = size(
    |config| Ok(config.divisor(TEXTS)?.saturating_add(codes(config)?)),
    "talker_config.text_vocab_size, talker_config.vocab_size",
    "",
);

const ENDS: &[Rule] = &[
    model(
        "{model.codec_embedding.weight|model.text_embedding.weight|text_projection.linear_fc1.weight\
         |text_projection.linear_fc1.bias|text_projection.linear_fc2.weight|text_projection.linear_fc2.bias}",
        "token_embd.weight",
        &[TOKENS, HIDDEN],
    )
    .with(&[Change::Combined(&Combined { count: [size(|_| Ok(6), "", "")], of: embedding })]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
    model("codec_head.weight", "output.weight", &[CODES, HIDDEN]),
];

fn embedding(parts: &[Reshaped], config: &Config) -> Result<Reshaped> {
    let [codes, texts, up, up_bias, down, down_bias] = all_of(parts)?;
    match config.text(ACTIVATION)? {
        Some("silu") => texts.linear(up, up_bias)?.silu().linear(down, down_bias)?.followed_by(codes),
        Some(other) => Err(unexpected(ACTIVATION, &other.into(), "silu")),
        None => Err(missing(ACTIVATION)),
    }
}

const ACTIVATION: &str = "hidden_act";

/// The number of tokens at the end that are never generated, except for the one that ends audio.
const SUPPRESSED: i64 = 1024;

const KEYS: &[Key] = &[
    ints_fn("tokenizer.ggml.suppress_tokens", |config| {
        let last = i32::try_from((TOKENS.of)(config)?);
        let last = i64::from(last.map_err(|_| AnamnesisError::parse(format!("config.json: {TEXTS} is too large")))?);
        let end = end(config)? as i64;
        let ids = (last - SUPPRESSED..last).filter(|id| *id != end);
        Ok(Some(ids.filter_map(|id| i32::try_from(id).ok()).collect()))
    }),
    count_fn("tokenizer.ggml.eos_token_id", |config| end(config).map(Some)),
    flag_fn("tokenizer.ggml.add_eos_token", |_| Ok(Some(false))),
];

/// The token that ends audio.
fn end(config: &Config) -> Result<u64> {
    let key = "talker_config.codec_eos_token_id";
    let (id, codes) = (config.needed(key)?, codes(config)?);
    match id < codes {
        true => Ok(config.divisor(TEXTS)?.saturating_add(id)),
        false => Err(unexpected(key, &id.into(), &format!("one of {codes} codes ({CODES_KEY})"))),
    }
}

/// The most codes that names are made for.
const MOST_CODES: u64 = 1 << 20;

/// The tokens of codes, named by the keys of the configuration that have their ids, or by their number.
fn codec_tokens(config: &Config) -> Result<Vec<String>> {
    let count = codes(config)?;
    let size = usize::try_from(count).ok().filter(|_| count <= MOST_CODES);
    let size = size.ok_or_else(|| unexpected(CODES_KEY, &count.into(), &format!("at most {MOST_CODES} codes")))?;
    let mut names: Vec<Option<String>> = vec![None; size];
    let mut name = |key: &str, id: &Value, name: String| -> Result<()> {
        let place = id.as_u64().and_then(|id| usize::try_from(id).ok()).and_then(|id| names.get_mut(id));
        let place = place.ok_or_else(|| unexpected(key, id, &format!("one of {count} codes ({CODES_KEY})")))?;
        match place.replace(format!("<|{name}|>")) {
            None => Ok(()),
            Some(other) => Err(unexpected(key, id, &format!("another code than that of {other}"))),
        }
    };
    let members = config.get("talker_config").and_then(Value::as_object).into_iter().flatten();
    for (key, value) in members {
        let Some(front) = key.strip_suffix("_id") else { continue };
        let path = format!("talker_config.{key}");
        match value {
            Value::Number(number) if !number.is_f64() => name(&path, value, front.to_owned())?,
            Value::Bool(_) => return Err(unexpected(&path, value, "a code")),
            Value::Object(ids) => {
                for (own, id) in ids {
                    name(&format!("{path}.{own}"), id, format!("{front}_{own}"))?;
                }
            }
            _ => {}
        }
    }
    Ok((0..).zip(names).map(|(id, name)| name.unwrap_or_else(|| format!("<|codec_{id}|>"))).collect())
}
