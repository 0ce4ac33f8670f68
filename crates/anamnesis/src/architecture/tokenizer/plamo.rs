//! The vocabulary of PLaMo 2 and 3: `tokenizer.jsonl`, a line per token with its score and type.

use serde_json::Value;

use super::added::bounded;
use super::request::VocabularyRequest;
use super::sentencepiece::Tokens;
use super::sources::Sources;
use super::special::key_of;
use super::token_type::{BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::error::{AnamnesisError, ModelPart, Result, quoted};

const FILE: &str = "tokenizer.jsonl";
/// The score of ids without a token.
const PADDING_SCORE: f32 = -1000.0;
/// The token that ends a turn.
const END_OF_TURN: u32 = 4;
/// The special tokens that are written, in their order.
const ROLES: [&str; 5] = ["bos", "eos", "pad", "sep", "unk"];

pub(super) fn write(
    sources: &Sources<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let Some(text) = sources.files.read(FILE)? else {
        let detail = format!("there is no {FILE}, which has the vocabulary");
        return Err(AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail));
    };
    let text = String::from_utf8(text).map_err(|_| AnamnesisError::parse(format!("{FILE} is not UTF-8")))?;
    let mut tokens = Tokens { tokens: Vec::new(), scores: Vec::new(), kinds: Vec::new() };
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let faulty =
            || AnamnesisError::parse(format!("{FILE}: line {} is no list of token, score and type", number + 1));
        let entry: Value = serde_json::from_str(line).map_err(|_| faulty())?;
        let token = entry.get(0).and_then(Value::as_str).ok_or_else(faulty)?;
        let score = entry.get(1).and_then(Value::as_f64).ok_or_else(faulty)?;
        let is_own = token.starts_with("<|plamo:") && token.ends_with("|>");
        let kind = match entry.get(2).and_then(Value::as_str) {
            Some("UNKNOWN") => UNKNOWN,
            Some("CONTROL") => CONTROL,
            Some("BYTE") => BYTE,
            _ if is_own => CONTROL,
            _ => NORMAL,
        };
        bounded(tokens.tokens.len() as u64)?;
        tokens.tokens.push(token.to_owned());
        tokens.scores.push(score as f32);
        tokens.kinds.push(kind);
    }
    let size = bounded(request.vocab_size.unwrap_or(0))?.max(tokens.tokens.len());
    let count = size - tokens.tokens.len();
    tokens.tokens.extend((1..=count).map(|number| format!("[PAD{number}]")));
    tokens.scores.resize(size, PADDING_SCORE);
    tokens.kinds.resize(size, UNUSED);
    let mut ids = Vec::new();
    for role in ROLES {
        let Some(token) = sources.settings.get(&format!("{role}_token")).and_then(Value::as_str) else { continue };
        let Some(id) = tokens.tokens.iter().position(|known| known == token) else {
            let reason = format!("tokenizer_config.json: {FILE} has no token {}", quoted(token));
            return Err(AnamnesisError::parse(reason));
        };
        ids.extend(u32::try_from(id).ok().map(|id| (role, id)));
    }
    tokens.write_list("plamo2", request, metadata);
    for (role, id) in ids.into_iter().chain([("eot", END_OF_TURN)]) {
        if let Some(name) = key_of(role) {
            metadata.number(format!("tokenizer.ggml.{name}_token_id"), id);
        }
    }
    metadata.truth("tokenizer.ggml.add_space_prefix", false);
    if request.architecture == "plamo3"
        && let Some(template) = sources.chat_template(metadata)?
    {
        template.write(metadata)?;
    }
    Ok(())
}
