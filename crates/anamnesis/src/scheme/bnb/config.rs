//! What a model's configuration tells of BitsAndBytes weights: the members that transformers' `BitsAndBytesConfig` writes.

use serde_json::{Value, json};

use super::BnbKind;
use crate::catalog::TargetDtype;

/// The head, which loaders leave alone by themselves only where no module is named.
const HEAD: &str = "lm_head";

/// The `quantization_config` of a model. `kept` are the linear layers that are not quantised.
pub(crate) fn quantization_config(
    kind: BnbKind,
    double_quant: bool,
    dtype: TargetDtype,
    kept: &[String],
    head_is_quantised: bool,
) -> Value {
    let four_bit = kind != BnbKind::Int8;
    let compute_dtype = match (four_bit, dtype) {
        (true, TargetDtype::BF16) => "bfloat16",
        (true, TargetDtype::F16) => "float16",
        _ => "float32",
    };
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
        "bnb_4bit_use_double_quant": four_bit && double_quant,
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

    #[test]
    fn modules_are_named_where_more_than_the_head_is_kept() {
        let of = |kept: &[&str], head: bool| {
            let kept: Vec<_> = kept.iter().map(|module| (*module).to_owned()).collect();
            quantization_config(BnbKind::Nf4, true, TargetDtype::BF16, &kept, head)["llm_int8_skip_modules"].clone()
        };
        assert_eq!(of(&[], false), Value::Null);
        assert_eq!(of(&["lm_head"], false), Value::Null);
        assert_eq!(of(&["a.q"], false), json!(["a.q", "lm_head"]));
        assert_eq!(of(&["lm_head", "a.q"], false), json!(["lm_head", "a.q"]));
        // Loaders would leave a head alone that is quantised here.
        assert_eq!(of(&[], true), json!([]));
        assert_eq!(of(&["a.q"], true), json!(["a.q"]));
    }
}
