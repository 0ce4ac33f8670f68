//! Quantising to the format of gpt-oss, by the arithmetic of ModelOpt, which exports gpt-oss models.
//!
//! | quantity | computation |
//! |---|---|
//! | which weights | stacks of experts `[experts, in, out]`; all others are kept |
//! | the scale of 32 inputs | the smallest power of two that is at least magnitude / 6, and at least 2⁻¹²⁷ |
//! | a code | value / scale rounded to E2M1, halves towards zero; zeros become −0 |

use serde_json::{Value, json};

use super::encoder::TransposedEncoder;
use super::transposed::BLOCK;
use crate::error::{Request, Result};
use crate::scheme::model_class::Layer;
use crate::scheme::quantise::{
    Candidate, Decision, Encoding, Keeping, Override, Packing, QuantisedModel, Quantiser, Task, encode,
};

/// The encodings of this scheme.
pub(crate) static ENCODINGS: [Encoding; 1] = [Encoding {
    names: &[NAME],
    about: "experts as E2M1 under powers of two, in the layout of gpt-oss",
    short: "MXFP4",
    packing: Packing::Companions,
    quantiser: &Experts,
}];

const NAME: &str = "gpt-oss";

/// The patterns of modules that gpt-oss keeps unquantised.
const KEPT: [&str; 4] = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"];

struct Experts;

impl Quantiser for Experts {
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        task.options.check_unused(NAME)?;
        let decided: Vec<_> = task.tensors.iter().map(|tensor| stack(tensor, task)).collect();
        let all = task.tensors.iter().zip(&decided);
        let misfits = all.filter_map(|(tensor, decided)| match decided {
            Ok([_, inputs, _]) if !(*inputs as u64).is_multiple_of(BLOCK) => {
                Some((tensor.name.to_owned(), *inputs as u64))
            }
            _ => None,
        });
        let tensors: Vec<_> = misfits.collect();
        if !tensors.is_empty() {
            return Err(Request::Indivisible { target: NAME.to_owned(), group: BLOCK, tensors }.into());
        }
        let decide = |(tensor, decided): (&Candidate<'_>, _)| match decided {
            Ok(shape) => encode(TransposedEncoder::new(tensor, shape)),
            Err(keeping) => Ok(Decision::Keep(keeping)),
        };
        task.tensors.iter().zip(decided).map(decide).collect()
    }

    fn loaded_by(&self) -> &'static str {
        "transformers 5.22 (decoded where there is no GPU) and vLLM, for models of gpt-oss"
    }

    /// Nothing by its class: only stacks of experts are quantised.
    fn keeps(&self, _layer: Layer) -> Option<Keeping> {
        None
    }

    fn configuration(&self, _model: &QuantisedModel<'_>) -> Option<Value> {
        Some(json!({ "modules_to_not_convert": KEPT, "quant_method": "mxfp4" }))
    }
}

/// The shape of a stack of experts, or why a tensor is kept.
fn stack(tensor: &Candidate<'_>, task: &Task<'_>) -> std::result::Result<[usize; 3], Keeping> {
    let &[experts, inputs, outputs] = tensor.shape else {
        return Err(if tensor.shape.len() == 2 { Keeping::NotALayer } else { Keeping::NotAMatrix });
    };
    let is_included = match tensor.requested {
        Some(Override::Keep) => false,
        Some(Override::Encode(_)) => !task.rules.excludes(tensor.name),
        None => task.rules.takes(tensor.name),
    };
    if !is_included {
        return Err(Keeping::Asked);
    }
    let is_expert = tensor.name.split('.').any(|part| part == "experts") && !tensor.name.ends_with("bias");
    let is_requested = tensor.requested.is_some() || !task.rules.takes_all();
    match (is_expert || is_requested, tensor.shape.contains(&0)) {
        (true, false) => Ok([experts, inputs, outputs]),
        (true, true) => Err(Keeping::Empty),
        (false, _) => Err(Keeping::NotALayer),
    }
}
