//! Claiming flattened tensor subclasses by their descriptions in the metadata.

use super::description::Description;
use super::layouts::{Part, Parts, layout};
use crate::catalog::{Dtype, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::QuantConfig;
use crate::scheme::claim::{About, Claims, Confidence, PartName, QuantScheme, Scheme, TensorRole, Weight};
use crate::scheme::coder::{Coding, Evidence, Recipe};

/// The torchao scheme.
pub(crate) struct Torchao;

pub(super) const NAME: &str = "torchao";
const CODES: &str = "_qdata";

/// Scales and zero points of activations, which mean nothing for a decoded weight.
const ACTIVATION_PARTS: [&str; 3] = ["act_quant_scale", "act_quant_zero_point", "act_per_tensor_scale"];

impl Scheme for Torchao {
    fn about(&self) -> About {
        About::Decoded(NAME, "Float8Tensor, Int8Tensor, IntxUnpackedToInt8Tensor, MXTensor, NVFP4Tensor")
    }

    fn part_names(&self) -> Vec<PartName> {
        let suffixes = [
            "._weight_qdata",
            "._weight_scale",
            "._weight_zero_point",
            "._weight_scale_and_zero",
            "._weight_per_tensor_scale",
            "._weight_act_per_tensor_scale",
            "._weight_act_pre_scale",
            "._weight_act_quant_scale",
            "._weight_act_quant_zero_point",
        ];
        let of_weights = suffixes.map(|suffix| PartName::new(suffix, "._weight_qdata", Confidence::Certain));
        of_weights.into_iter().chain([PartName::new(CODES, CODES, Confidence::IfPacked)]).collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        for description in descriptions(claims) {
            claim_tensor(claims, &description);
        }
        refuse_undescribed(claims);
    }
}

/// The tensors that the metadata describes.
fn descriptions(claims: &Claims<'_>) -> Vec<Description> {
    let entries = claims.catalog.metadata.iter().flat_map(|metadata| metadata.iter());
    entries.filter_map(|(name, value)| Description::read(name, value.as_string()?)).collect()
}

fn claim_tensor(claims: &mut Claims<'_>, description: &Description) {
    let catalog = claims.catalog;
    let Some(prefix) = description.prefix() else { return };
    // Parts of another tensor may have the same prefix: `_weight_scale` is the prefix of `weight`'s scale and of a
    // tensor `weight_scale`.
    let stored = catalog.with_prefix(&prefix).filter(|(id, _)| claims.is_unclaimed(*id));
    let stored: Vec<(TensorId, String)> =
        stored.map(|(id, tensor)| (id, tensor.name[prefix.len()..].to_owned())).collect();
    let Some((codes, _)) = stored.iter().find(|(_, part)| part == "qdata").or(stored.first()).cloned() else {
        // The tensor is in another file, or has been decoded before.
        return;
    };
    for (id, part) in &stored {
        let role = match part.as_str() {
            _ if *id == codes => TensorRole::Quantized,
            part if part.contains("zero_point") => TensorRole::ZeroPoint,
            _ => TensorRole::Scale,
        };
        claims.take(*id, role);
    }
    match weight(claims, description, &prefix, &stored) {
        Ok(weight) => claims.add(weight),
        Err(problem) => claims.refuse(problem),
    }
}

fn weight(
    claims: &Claims<'_>,
    description: &Description,
    prefix: &str,
    stored: &[(TensorId, String)],
) -> Result<Weight> {
    let catalog = claims.catalog;
    let name = &description.name;
    let fail = |what: String| AnamnesisError::parse(format!("tensor {}: {what}", quoted(name)));
    if let Some(method) = claims.config.method().filter(|method| *method != NAME) {
        return Err(fail(format!("it is described as torchao's, {} says {}", claims.config.file(), quoted(method))));
    }
    if catalog.find(name).is_some() {
        return Err(fail("it is stored both whole and in parts".to_owned()));
    }
    for part in &description.parts {
        if !stored.iter().any(|(_, found)| found == part) {
            let part = format!("{prefix}{part}");
            let place = claims.elsewhere(&part).map_or_else(String::new, |place| format!(": {place}"));
            return Err(fail(format!("there is no {}{place}", quoted(&part))));
        }
    }
    if let Some((_, part)) = stored.iter().find(|(_, part)| !description.parts.contains(part)) {
        let part = quoted(&format!("{prefix}{part}"));
        return Err(fail(format!("it has {part}, and its description in __metadata__ does not list it")));
    }
    let of_weight = stored.iter().filter(|(_, part)| !ACTIVATION_PARTS.contains(&part.as_str()));
    let parts = Parts(of_weight.map(|(id, name)| Part { id: *id, name, tensor: catalog.get(*id) }).collect());
    let layout = layout(description, &parts, &configured_floats(claims.config))?;
    Ok(Weight {
        name: name.clone(),
        values: layout.shape.iter().fold(1, |product, &dim| product.saturating_mul(dim as u64)),
        shape: layout.shape,
        scheme: QuantScheme::Named(NAME),
        blocks: None,
        coding: Coding {
            format: description.kind.clone(),
            bits: Some(layout.bits),
            block_shape: layout.block,
            symmetric: layout.symmetric,
            evidence: Evidence::Metadata(name.clone()),
            ..Coding::default()
        },
        parts: layout.parts,
        recipe: Recipe::Ready(layout.decoder),
    })
}

/// The types of eight-bit floats in the configuration: from `weight_dtype`, or else from the name of the quantisation,
/// whose default is E4M3.
fn configured_floats(config: &QuantConfig) -> Vec<Dtype> {
    let args = config.args();
    let named = |text: &str| match text {
        text if text.contains("e4m3") => Some(Dtype::F8E4M3),
        text if text.contains("e5m2") => Some(Dtype::F8E5M2),
        _ => None,
    };
    let keys = ["quant_type", "quant_type_kwargs"].into_iter();
    let types: Vec<_> = keys.flat_map(|outer| args.texts_within(outer, "weight_dtype")).filter_map(named).collect();
    if !types.is_empty() {
        return types;
    }
    let names = args.texts_within("quant_type", "_type");
    let is_float8 = |text: &str| ["float8", "fp8"].iter().any(|start| text.to_ascii_lowercase().starts_with(start));
    let dtype = |text: &str| named(text).or_else(|| is_float8(text).then_some(Dtype::F8E4M3));
    names.into_iter().filter_map(dtype).collect()
}

/// Refuses codes that the metadata does not describe.
fn refuse_undescribed(claims: &mut Claims<'_>) {
    let undescribed: Vec<_> = claims
        .unclaimed()
        .filter(|(_, tensor)| {
            let last = tensor.name.rsplit('.').next().unwrap_or_default();
            last.starts_with('_') && last.ends_with(CODES)
        })
        .collect();
    for (id, tensor) in undescribed {
        claims.take(id, TensorRole::Quantized);
        let base = tensor.name.trim_end_matches(CODES);
        let companions: Vec<_> = claims.catalog.with_prefix(base).filter(|(id, _)| claims.is_unclaimed(*id)).collect();
        for (id, _) in companions {
            claims.take(id, TensorRole::Scale);
        }
        let detail =
            format!("tensor {} is a part of a tensor that __metadata__ does not describe", quoted(&tensor.name));
        claims.refuse(AnamnesisError::unsupported(NAME, detail));
    }
}
