//! The `quantization_config` of BitsAndBytes weights: the keys that transformers' `BitsAndBytesConfig` writes.

use serde_json::{Value, json};

use super::kind::BnbKind;
use crate::catalog::TargetDtype;
use crate::scheme::quantise::QuantisedModel;

/// The `quantization_config` of a model.
pub(super) fn quantization_config(kind: BnbKind, model: &QuantisedModel<'_>) -> Value {
    let four_bit = kind != BnbKind::Int8;
    let compute_dtype = match (four_bit, model.dtype) {
        (true, TargetDtype::BF16) => "bfloat16",
        (true, TargetDtype::F16) => "float16",
        _ => "float32",
    };
    json!({
        "_load_in_4bit": four_bit,
        "_load_in_8bit": !four_bit,
        "bnb_4bit_compute_dtype": compute_dtype,
        "bnb_4bit_quant_storage": "uint8",
        "bnb_4bit_quant_type": if kind == BnbKind::Nf4 { "nf4" } else { "fp4" },
        "bnb_4bit_use_double_quant": four_bit && model.options.bnb.double_quant,
        "llm_int8_enable_fp32_cpu_offload": false,
        "llm_int8_has_fp16_weight": false,
        // Without this list, loaders skip the module they take for the head, which depends on the class that is loaded.
        "llm_int8_skip_modules": model.kept_module_patterns(),
        "llm_int8_threshold": 6.0,
        "load_in_4bit": four_bit,
        "load_in_8bit": !four_bit,
        "quant_method": "bitsandbytes",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::quantise::{Keeping, QuantiseOptions};

    fn skipped(quantised: &[&'static str], kept: &[(&'static str, Keeping)], unstored: &[&'static str]) -> Value {
        let options = QuantiseOptions::default();
        let model = QuantisedModel {
            options: &options,
            quantised: quantised.to_vec(),
            others: Vec::new(),
            kept: kept.to_vec(),
            unstored: unstored.to_vec(),
            dtype: TargetDtype::BF16,
        };
        quantization_config(BnbKind::Nf4, &model)["llm_int8_skip_modules"].clone()
    }

    #[test]
    fn every_kept_layer_and_every_unstored_head_is_listed() {
        let of = |kept: &[(&'static str, Keeping)]| skipped(&["a.k.weight"], kept, &["lm_head"]);
        assert_eq!(of(&[]), json!(["lm_head"]));
        assert_eq!(of(&[("lm_head.weight", Keeping::Head)]), json!(["lm_head"]));
        assert_eq!(of(&[("a.wo.weight", Keeping::InF32)]), json!(["a.wo", "lm_head"]));
        assert_eq!(of(&[("a.norm.weight", Keeping::Norm), ("a.q.bias", Keeping::NotAMatrix)]), json!(["lm_head"]));
        assert_eq!(of(&[("embed_tokens.weight", Keeping::Embedding)]), json!(["lm_head"]));
        assert_eq!(of(&[("embeddings_project.weight", Keeping::Embedding)]), json!(["embeddings_project", "lm_head"]));
        assert_eq!(skipped(&["lm_head.weight"], &[], &["lm_head"]), json!([]));
    }

    #[test]
    fn an_entry_never_matches_a_quantised_layer() {
        let kept = [("head.weight", Keeping::Head), ("decoder.weight", Keeping::Head)];
        let found = skipped(&["a.subhead.weight", "decoder.layers.0.q.weight"], &kept, &[]);
        assert_eq!(found, json!(["^head$", "^decoder$"]));
    }
}
