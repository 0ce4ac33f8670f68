//! Claiming Marlin weights.

use super::parts::{Form, PART_NAMES, Parts};
use super::weight::weight;
use crate::catalog::{Dtype, StoredTensor};
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::Args;
use crate::scheme::claim::{About, Claims, PartName, Scheme, TensorRole};

/// The Marlin scheme.
pub(crate) struct Marlin;

impl Scheme for Marlin {
    fn about(&self) -> About {
        About::Decoded("Marlin", "4 bits, as AutoGPTQ and AutoAWQ write it")
    }

    fn part_names(&self) -> Vec<PartName> {
        PART_NAMES.to_vec()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let found: Vec<_> = claims.unclaimed().filter_map(|(id, tensor)| Some((id, form(claims, tensor)?))).collect();
        let is_used = !found.is_empty() || is_configured(claims);
        for (id, form) in found {
            let parts = Parts::take(claims, id, form);
            match weight(claims, &parts) {
                Ok(weight) => claims.add(weight),
                Err(problem) => claims.refuse(problem.in_tensor(&claims.catalog.get(id).name)),
            }
        }
        if is_used {
            refuse_lone_parts(claims);
        }
    }
}

/// Whether the configuration names Marlin, of either tool.
fn is_configured(claims: &Claims<'_>) -> bool {
    let (method, args) = (claims.config.method(), claims.config.args());
    [Form::AutoGptq, Form::AutoAwq].into_iter().any(|form| !matches!(form.configured_by(method, &args), Ok(None)))
}

/// Refuses parts without a weight. Unquantised models use the names too, so this is called only for checkpoints with
/// Marlin weights.
fn refuse_lone_parts(claims: &mut Claims<'_>) {
    let suffixes = [(Form::AutoGptq.codes(), TensorRole::Quantized), (Form::AutoGptq.scales(), TensorRole::Scale)];
    for (suffix, role) in suffixes {
        let is_part = |name: &str| name.ends_with(suffix) || suffix.strip_prefix('.') == Some(name);
        let lone: Vec<_> = claims.unclaimed().filter(|(_, tensor)| is_part(&tensor.name)).map(|(id, _)| id).collect();
        for id in lone {
            claims.take(id, role);
            let name = quoted(&claims.catalog.get(id).name);
            let what = format!("tensor {name} is named like a part of a Marlin weight whose other parts are missing");
            claims.refuse(AnamnesisError::parse(what));
        }
    }
}

/// The form of a weight, if the tensor is its codes.
fn form(claims: &Claims<'_>, tensor: &StoredTensor) -> Option<Form> {
    [Form::AutoGptq, Form::AutoAwq].into_iter().find(|form| {
        let Some(base) = tensor.name.strip_suffix(form.codes()) else { return false };
        let module = claims.config.module(base.trim_end_matches('.'));
        // An unreadable configuration is reported for the weight.
        let key = form.configured_by(claims.config.method(), module.args());
        let is_configured = key.map_or(true, |key| key.is_some());
        match form {
            Form::AutoAwq => is_configured,
            Form::AutoGptq => {
                is_configured || {
                    let scales = format!("{base}{}", form.scales());
                    let is_word = matches!(tensor.dtype, Dtype::I32 | Dtype::U32);
                    is_word && (claims.catalog.find(&scales).is_some() || claims.elsewhere(&scales).is_some())
                }
            }
        }
    })
}

impl Form {
    /// The key of a configuration that names this form.
    pub(super) fn configured_by(self, method: Option<&str>, args: &Args<'_>) -> Result<Option<&'static str>> {
        let is_marlin = |text: Option<&str>| text.is_some_and(|text| text.eq_ignore_ascii_case("marlin"));
        Ok(match (self, method) {
            (Self::AutoAwq, Some("awq")) => is_marlin(args.text(&["version", "format"])?).then_some("version"),
            (Self::AutoAwq, _) => None,
            (Self::AutoGptq, Some("marlin")) => Some("quant_method"),
            (Self::AutoGptq, Some("gptq") | None) => match args.flag(&["is_marlin_format"])? {
                Some(true) => Some("is_marlin_format"),
                _ => is_marlin(args.text(&["checkpoint_format", "format"])?).then_some("checkpoint_format"),
            },
            (Self::AutoGptq, _) => None,
        })
    }
}
