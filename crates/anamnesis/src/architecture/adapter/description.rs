//! `adapter_config.json` of PEFT.

use serde_json::{Map, Value};

use crate::architecture::metadata_builder::MetadataBuilder;
use crate::catalog::{MetadataArray, MetadataValue};
use crate::error::{AnamnesisError, Result, quoted};
use crate::json;

/// The file that describes an adapter.
pub(crate) const DESCRIPTION: &str = "adapter_config.json";

/// The members of the description that a GGUF file depends on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AdapterDescription {
    /// The model that the adapter was trained for, if it is named.
    pub base: Option<String>,
    /// The rank of its pairs; `None` if modules have ranks of their own.
    pub(super) rank: Option<u64>,
    /// The factor of the product, multiplied by the rank.
    alpha: f32,
    /// Whether the scale is alpha divided by the square root of the rank.
    is_rank_stabilised: bool,
    /// Whether the base stores its weights transposed, and products are added transposed.
    pub(super) is_transposed: bool,
    /// The tokens after which an activated adapter (aLoRA) is in effect.
    invocation: Vec<u32>,
}

impl AdapterDescription {
    pub(crate) fn read(text: &[u8]) -> Result<Self> {
        let Ok(Value::Object(members)) = json::from_slice(text) else {
            return Err(AnamnesisError::parse(format!("{DESCRIPTION} is no JSON object")));
        };
        Members(&members).described()
    }

    /// The keys of the adapter, after those of its card.
    pub(crate) fn write(&self, metadata: &mut MetadataBuilder) {
        // llama.cpp divides by the rank.
        let root = self.rank.filter(|_| self.is_rank_stabilised).map_or(1.0, |rank| (rank as f32).sqrt());
        metadata.set("adapter.lora.alpha", MetadataValue::F32(self.alpha * root));
        metadata.array("adapter.alora.invocation_tokens", MetadataArray::U32(self.invocation.clone()));
    }

    /// A note on keys whose values differ from those of llama.cpp's converter.
    pub(crate) fn note(&self) -> Option<String> {
        let text = "use_rslora divides by the square root of the rank: adapter.lora.alpha is multiplied by it, since \
                    llama.cpp divides by the rank";
        self.is_rank_stabilised.then(|| text.to_owned())
    }
}

/// The members of the document.
struct Members<'a>(&'a Map<String, Value>);

impl Members<'_> {
    fn described(&self) -> Result<AdapterDescription> {
        match self.get("peft_type").map(|kind| kind.as_str().ok_or(kind)) {
            None | Some(Ok("LORA")) => {}
            Some(Ok(kind)) => return Err(unsupported(kind, "only adapters of the type LORA have a form in GGUF")),
            Some(Err(value)) => return Err(unexpected("peft_type", value, "text")),
        }
        for (key, why) in [
            ("use_dora", "GGUF has no place for the magnitudes of DoRA"),
            ("lora_bias", "GGUF has no place for the biases of an adapter"),
        ] {
            if self.flag(key)? {
                return Err(unsupported(key, why));
            }
        }
        if self.has_entries("alpha_pattern")? {
            return Err(unsupported("alpha_pattern", "GGUF has one alpha for all modules"));
        }
        let is_rank_stabilised = self.flag("use_rslora")?;
        let has_ranks = self.has_entries("rank_pattern")?;
        if has_ranks && is_rank_stabilised {
            return Err(unsupported(
                "rank_pattern",
                "with use_rslora, modules of different ranks need different alphas",
            ));
        }
        let rank = self.get("r").ok_or_else(|| missing("r"))?;
        let rank = match rank.as_u64().filter(|rank| (1..=u64::from(u32::MAX)).contains(rank)) {
            Some(count) => count,
            None => return Err(unexpected("r", rank, "a count of at least 1")),
        };
        let alpha = self.get("lora_alpha").ok_or_else(|| missing("lora_alpha"))?;
        let finite = alpha.as_f64().map(|alpha| alpha as f32).filter(|alpha| alpha.is_finite());
        Ok(AdapterDescription {
            base: self.get("base_model_name_or_path").and_then(Value::as_str).map(str::to_owned),
            rank: (!has_ranks).then_some(rank),
            alpha: finite.ok_or_else(|| unexpected("lora_alpha", alpha, "a number"))?,
            is_rank_stabilised,
            is_transposed: self.flag("fan_in_fan_out")?,
            invocation: self.invocation()?,
        })
    }

    /// A member that is not `null`.
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| unexpected(key, value, "true or false")),
        }
    }

    fn has_entries(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            None => Ok(false),
            Some(value) => {
                value.as_object().map(|map| !map.is_empty()).ok_or_else(|| unexpected(key, value, "an object"))
            }
        }
    }

    fn invocation(&self) -> Result<Vec<u32>> {
        let key = "alora_invocation_tokens";
        let Some(value) = self.get(key) else {
            return match self.get("invocation_string").is_some_and(|text| text.as_str() != Some("")) {
                true => Err(unsupported("invocation_string", "only alora_invocation_tokens are read, not a text")),
                false => Ok(Vec::new()),
            };
        };
        let wrong = || unexpected(key, value, "a list of tokens");
        let token = |item: &Value| item.as_u64().and_then(|token| u32::try_from(token).ok()).ok_or_else(wrong);
        value.as_array().ok_or_else(wrong)?.iter().map(token).collect()
    }
}

fn missing(key: &str) -> AnamnesisError {
    AnamnesisError::parse(format!("{DESCRIPTION} has no {}", quoted(key)))
}

fn unexpected(key: &str, value: &Value, wanted: &str) -> AnamnesisError {
    let shown: String = value.to_string().chars().take(60).collect();
    AnamnesisError::parse(format!("{DESCRIPTION}: {} is {shown}, {wanted} is needed", quoted(key)))
}

fn unsupported(what: &str, why: &str) -> AnamnesisError {
    AnamnesisError::unsupported(what, format!("{DESCRIPTION}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<AdapterDescription, String> {
        AdapterDescription::read(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn values_that_gguf_cannot_hold_are_refused_by_name() {
        for (members, name) in [
            (r#""r": 4"#, "lora_alpha"),
            (r#""lora_alpha": 8"#, "\"r\""),
            (r#""r": 0, "lora_alpha": 8"#, "\"r\" is 0"),
            (r#""r": -4, "lora_alpha": 8"#, "\"r\" is -4"),
            (r#""r": 4, "lora_alpha": "8""#, "lora_alpha"),
            (r#""r": 4, "lora_alpha": 1e300"#, "lora_alpha"),
            (r#""r": 4, "lora_alpha": 8, "use_dora": true"#, "use_dora"),
            (r#""r": 4, "lora_alpha": 8, "lora_bias": true"#, "lora_bias"),
            (r#""r": 4, "lora_alpha": 8, "alpha_pattern": {"q_proj": 2}"#, "alpha_pattern"),
            (r#""r": 4, "lora_alpha": 8, "rank_pattern": {"q_proj": 2}, "use_rslora": true"#, "rank_pattern"),
            (r#""r": 4, "lora_alpha": 8, "peft_type": "LOHA""#, "LOHA"),
            (r#""r": 4, "lora_alpha": 8, "peft_type": 3"#, "peft_type"),
            (r#""r": 4, "lora_alpha": 8, "fan_in_fan_out": "no""#, "fan_in_fan_out"),
            (r#""r": 4, "lora_alpha": 8, "alora_invocation_tokens": [1, -1]"#, "alora_invocation_tokens"),
            (r#""r": 4, "lora_alpha": 8, "invocation_string": "x""#, "invocation_string"),
        ] {
            let error = read(&format!("{{{members}}}")).unwrap_err();
            assert!(error.contains(name) && error.contains(DESCRIPTION), "{members}: {error}");
        }
        assert!(read("[]").is_err());
    }

    #[test]
    fn a_rank_stabilised_alpha_is_multiplied_by_the_root_of_the_rank() {
        for (stabilised, alpha) in [(false, 8.0), (true, 16.0)] {
            let read = read(&format!(r#"{{"r": 4, "lora_alpha": 8, "use_rslora": {stabilised}}}"#)).unwrap();
            let mut metadata = MetadataBuilder::default();
            read.write(&mut metadata);
            assert_eq!(metadata.entries(), [("adapter.lora.alpha".to_owned(), MetadataValue::F32(alpha))]);
            assert_eq!(read.note().is_some(), stabilised);
        }
    }
}
