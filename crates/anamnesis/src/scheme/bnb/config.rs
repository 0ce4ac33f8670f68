//! What a model's configuration tells of BitsAndBytes weights: the members that transformers' `BitsAndBytesConfig` writes.

use serde_json::{Value, json};

use super::options::BnbKind;
use crate::catalog::TargetDtype;
use crate::scheme::{Keeping, Made};

/// The head, which loaders leave alone by themselves only where no module is named.
const HEAD: &str = "lm_head";
const HEAD_WEIGHT: &str = "lm_head.weight";

/// The `quantization_config` of a model.
pub(super) fn quantization_config(kind: BnbKind, made: &Made<'_>) -> Value {
    let four_bit = kind != BnbKind::Int8;
    let compute_dtype = match (four_bit, made.dtype) {
        (true, TargetDtype::BF16) => "bfloat16",
        (true, TargetDtype::F16) => "float16",
        _ => "float32",
    };
    let head_is_quantised = made.quantised.contains(&HEAD_WEIGHT);
    // Embeddings and the like are no linear layers, so that loaders do not ask for them.
    let is_layer = |keeping: &Keeping| matches!(keeping, Keeping::Head | Keeping::Asked);
    let kept = made.kept.iter().filter(|(_, keeping)| is_layer(keeping));
    let kept: Vec<_> = kept.filter_map(|(name, _)| name.strip_suffix(".weight").map(str::to_owned)).collect();
    let is_told = head_is_quantised || kept.iter().any(|module| module != HEAD);
    let skipped = is_told.then(|| {
        let has_head = kept.iter().any(|module| module == HEAD);
        let head = (!has_head && !head_is_quantised).then(|| HEAD.to_owned());
        kept.iter().cloned().chain(head).collect::<Vec<_>>()
    });
    json!({
        "_load_in_4bit": four_bit,
        "_load_in_8bit": !four_bit,
        "bnb_4bit_compute_dtype": compute_dtype,
        "bnb_4bit_quant_storage": "uint8",
        "bnb_4bit_quant_type": if kind == BnbKind::Nf4 { "nf4" } else { "fp4" },
        "bnb_4bit_use_double_quant": four_bit && made.options.bnb.double_quant,
        "llm_int8_enable_fp32_cpu_offload": false,
        "llm_int8_has_fp16_weight": false,
        "llm_int8_skip_modules": skipped,
        "llm_int8_threshold": 6.0,
        "load_in_4bit": four_bit,
        "load_in_8bit": !four_bit,
        "quant_method": "bitsandbytes",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::QuantiseOptions;

    #[test]
    fn modules_are_named_where_more_than_the_head_is_kept() {
        let options = QuantiseOptions::default();
        let of = |kept: &[&'static str], head: bool| {
            let kept = kept.iter().map(|name| (*name, Keeping::Asked)).collect();
            let quantised = if head { vec![HEAD_WEIGHT] } else { Vec::new() };
            let made = Made { options: &options, quantised, others: Vec::new(), kept, dtype: TargetDtype::BF16 };
            quantization_config(BnbKind::Nf4, &made)["llm_int8_skip_modules"].clone()
        };
        assert_eq!(of(&[], false), Value::Null);
        assert_eq!(of(&["lm_head.weight"], false), Value::Null);
        assert_eq!(of(&["a.q.weight"], false), json!(["a.q", "lm_head"]));
        assert_eq!(of(&["lm_head.weight", "a.q.weight"], false), json!(["lm_head", "a.q"]));
        // Loaders would leave a head alone that is quantised here.
        assert_eq!(of(&[], true), json!([]));
        assert_eq!(of(&["a.q.weight"], true), json!(["a.q"]));
    }
}
