//! Recognising BitsAndBytes weights by their companions.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::four_bit::{Bnb4, MAX_QUANT_STATE_BYTES};
use super::int8::{BnbInt8, BnbInt8Decoder};
use crate::catalog::{Dtype, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{About, Blocks, Claims, Confidence, PartName, QuantScheme, Scheme, TensorRole, Weight};
use crate::scheme::coder::{Coding, Recipe};

/// The BitsAndBytes schemes.
pub(crate) struct Bnb;

/// The part of a `quant_state` tensor's name between the weight's name and the quantisation type.
const QUANT_STATE: &str = ".quant_state.bitsandbytes__";

/// Suffixes of a four-bit weight's companions, in the order in which the decoder reads them.
const COMPANIONS: [(&str, TensorRole); 4] = [
    (".absmax", TensorRole::Scale),
    (".quant_map", TensorRole::QuantMap),
    (".nested_absmax", TensorRole::NestedScale),
    (".nested_quant_map", TensorRole::QuantMap),
];

impl Scheme for Bnb {
    fn about(&self) -> About {
        About::Decoded("BitsAndBytes", "NF4 and FP4, plain and double-quantised; INT8")
    }

    fn part_names(&self) -> Vec<PartName> {
        let four_bit = COMPANIONS.iter().map(|(suffix, _)| PartName::new(suffix, "", Confidence::Certain));
        let eight_bit = [".SCB", ".weight_format"].map(|end| PartName::new(end, ".weight", Confidence::Certain));
        let states = ["bitsandbytes__nf4", "bitsandbytes__fp4"].map(|end| PartName::new(end, "", Confidence::Certain));
        four_bit.chain(eight_bit).chain(states).collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let mut four_bit = BTreeSet::new();
        let mut has_states = false;
        let mut eight_bit = Vec::new();
        for (id, tensor) in claims.unclaimed() {
            // Few names have a double underscore; only those are searched for the whole infix.
            let has_underscores = tensor.name.as_bytes().windows(2).any(|pair| pair == b"__");
            let weight = match has_underscores.then(|| tensor.name.split_once(QUANT_STATE)).flatten() {
                Some((weight, _)) => {
                    has_states = true;
                    Some(weight)
                }
                None => COMPANIONS.iter().find_map(|(suffix, _)| tensor.name.strip_suffix(suffix)),
            };
            // A companion alone does not make a weight: `claim_four_bit` also needs codes or a quant_state.
            four_bit.extend(weight);
            if tensor.name.ends_with(".SCB") {
                eight_bit.push(id);
            }
        }
        for weight in four_bit {
            claim_four_bit(claims, weight, has_states);
        }
        for scales in eight_bit {
            claim_eight_bit(claims, scales);
        }
    }
}

fn claim_four_bit(claims: &mut Claims<'_>, name: &str, has_states: bool) {
    let state_prefix = format!("{name}{QUANT_STATE}");
    let states: Vec<_> = claims.catalog.with_prefix(&state_prefix).map(|(id, _)| id).collect();
    let companions = COMPANIONS.map(|(suffix, role)| (claims.find_unclaimed(&format!("{name}{suffix}")), role));
    let found: Vec<(TensorId, TensorRole)> = companions.iter().filter_map(|(id, role)| Some(((*id)?, *role))).collect();
    let weight = claims.find_unclaimed(name);
    // Without a quant_state, codes, scales and lookup table must all be present: the names alone prove nothing.
    let has_core = weight.is_some() && companions[0].0.is_some() && companions[1].0.is_some();
    if states.is_empty() && !has_core {
        return;
    }
    for &(id, role) in &found {
        claims.take(id, role);
    }
    for &id in &states {
        claims.take(id, TensorRole::QuantState);
    }
    let Some(weight) = weight else {
        let place = claims.elsewhere(name).map_or_else(String::new, |place| format!(": {place}"));
        let text = format!("BitsAndBytes weight {} is missing, but its companions are present{place}", quoted(name));
        return claims.refuse(AnamnesisError::parse(text));
    };
    claims.take(weight, TensorRole::Quantized);
    match four_bit_weight(claims, weight, &companions, &states, has_states) {
        Ok(weight) => claims.add(weight),
        Err(problem) => claims.refuse(problem),
    }
}

fn four_bit_weight(
    claims: &Claims<'_>,
    weight: TensorId,
    companions: &[(Option<TensorId>, TensorRole); 4],
    states: &[TensorId],
    has_states: bool,
) -> Result<Weight> {
    let tensor = claims.catalog.get(weight);
    let fail = |what: String| AnamnesisError::parse(format!("tensor {} {what}", quoted(&tensor.name)));
    let missing = |suffix: &str| {
        let name = format!("{}{suffix}", tensor.name);
        let place = claims.elsewhere(&name).map_or_else(String::new, |place| format!(": {place}"));
        fail(format!("has no {}{place}", quoted(&name)))
    };
    let [(absmax, _), (map, _), (nested_absmax, _), (nested_map, _)] = companions;
    let (absmax, map) = (absmax.ok_or_else(|| missing(".absmax"))?, map.ok_or_else(|| missing(".quant_map"))?);
    let nested = match claims.catalog.get(absmax).dtype {
        Dtype::F32 => false,
        Dtype::U8 => true,
        other => return Err(fail(format!("has scales of {other}; F32 and U8 are read"))),
    };
    let mut parts = vec![weight, absmax, map];
    if nested {
        parts.push(nested_absmax.ok_or_else(|| missing(".nested_absmax"))?);
        parts.push(nested_map.ok_or_else(|| missing(".nested_quant_map"))?);
    } else if nested_absmax.is_some() || nested_map.is_some() {
        return Err(fail("has nested scales, but its own scales are not quantised".to_owned()));
    }
    let float_parts = parts[2..].iter().map(|&id| claims.catalog.get(id)).find(|part| part.dtype != Dtype::F32);
    if let Some(part) = float_parts {
        return Err(fail(format!("has {} as {}; F32 is needed", quoted(&part.name), part.dtype)));
    }
    let part_bytes = parts.iter().map(|&id| claims.catalog.get(id).extent.bytes).collect();
    let kind = match states {
        [] => match reason_for_quant_state(claims, &tensor.name, has_states) {
            Some(why) => return Err(fail(format!("has no quant_state, and {why}"))),
            None => "4-bit".to_owned(),
        },
        [state] => {
            let state = claims.catalog.get(*state);
            if state.dtype != Dtype::U8 || state.extent.bytes > MAX_QUANT_STATE_BYTES {
                return Err(fail(format!("has a quant_state of {} bytes of {}", state.extent.bytes, state.dtype)));
            }
            state.name.rsplit("__").next().unwrap_or_default().to_ascii_uppercase()
        }
        _ => return Err(fail("has two quant_states".to_owned())),
    };
    let values = tensor.extent.bytes.saturating_mul(2);
    let scale_count = claims.catalog.get(absmax).elements();
    let divides = scale_count > 0 && values.is_multiple_of(scale_count);
    let blocks = divides.then(|| Blocks { bits: 4, size: values / scale_count, nested });
    let quant_state = (!states.is_empty()).then_some(parts.len());
    parts.extend(states);
    let coding = Coding { format: kind.clone(), bits: Some(4), ..Coding::default() };
    Ok(Weight {
        name: tensor.name.clone(),
        shape: Vec::new(),
        values,
        scheme: QuantScheme::Bnb4,
        blocks,
        coding: coding.clone(),
        parts,
        recipe: Recipe::Deferred(Arc::new(Bnb4 { kind, part_bytes, quant_state, nested, coding })),
    })
}

/// Why a weight without a `quant_state` must have had one; without it, it decodes to a vector. `others`: other weights
/// have one.
fn reason_for_quant_state(claims: &Claims<'_>, weight: &str, others: bool) -> Option<String> {
    let elsewhere = ["nf4", "fp4"].iter().find_map(|kind| claims.elsewhere(&format!("{weight}{QUANT_STATE}{kind}")));
    let others = || others.then(|| "other weights of this checkpoint have theirs".to_owned());
    elsewhere.or_else(|| claims.config.declared_quantisation()).or_else(others)
}

fn claim_eight_bit(claims: &mut Claims<'_>, scales: TensorId) {
    let scale_tensor = claims.catalog.get(scales);
    let module = scale_tensor.name.trim_end_matches("SCB");
    let name = format!("{module}weight");
    let Some(weight) = claims.find_unclaimed(&name) else {
        if claims.catalog.find(&name).is_none() {
            let place = claims.elsewhere(&name).unwrap_or_else(|| "it is nowhere in this input".to_owned());
            let text = format!("scale {} has no weight {}: {place}", quoted(&scale_tensor.name), quoted(&name));
            claims.take(scales, TensorRole::Scale);
            claims.refuse(AnamnesisError::parse(text));
        }
        return;
    };
    let tensor = claims.catalog.get(weight);
    claims.take(weight, TensorRole::Quantized);
    claims.take(scales, TensorRole::Scale);
    if tensor.dtype != Dtype::I8 {
        let (name, scales) = (quoted(&tensor.name), quoted(&scale_tensor.name));
        let text = format!("tensor {name} is {}; with the scales {scales} it must be I8", tensor.dtype);
        return claims.refuse(AnamnesisError::parse(text));
    }
    let format = claims.find_unclaimed(&format!("{module}weight_format"));
    if let Some(format) = format {
        claims.take(format, TensorRole::QuantState);
    }
    let &[rows, cols] = &tensor.shape[..] else {
        let text = format!("tensor {} has shape {:?}; a matrix is needed", quoted(&tensor.name), tensor.shape);
        return claims.refuse(AnamnesisError::parse(text));
    };
    if scale_tensor.dtype != Dtype::F32 || scale_tensor.elements() != rows as u64 {
        let name = quoted(&scale_tensor.name);
        let text =
            format!("scale {name} is {} {:?}; {rows} rows need as many F32", scale_tensor.dtype, scale_tensor.shape);
        return claims.refuse(AnamnesisError::parse(text));
    }
    let decoder = BnbInt8Decoder { cols: cols as u64 };
    let mut parts = vec![weight, scales];
    let recipe = match format {
        None => Recipe::Ready(Arc::new(decoder)),
        Some(format) => {
            parts.push(format);
            Recipe::Deferred(Arc::new(BnbInt8 { shape: tensor.shape.clone(), decoder }))
        }
    };
    claims.add(Weight {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        values: tensor.elements(),
        scheme: QuantScheme::BnbInt8,
        blocks: None,
        coding: Coding {
            format: "INT8".to_owned(),
            bits: Some(8),
            block_shape: Some((1, cols as u64)),
            symmetric: Some(true),
            ..Coding::default()
        },
        parts,
        recipe,
    });
}
