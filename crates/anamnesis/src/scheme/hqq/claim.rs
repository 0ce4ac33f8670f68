//! Claiming HQQ weights by their codes, `X.W_q`.

use std::sync::Arc;

use super::entries::{MAX_BYTES, READ, UNREAD};
use super::state::{Configured, State};
use crate::catalog::{Dtype, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::Args;
use crate::scheme::claim::{About, Claims, Confidence, PartName, QuantScheme, Scheme, TensorRole, Weight};
use crate::scheme::coder::{Coding, Recipe, ScaleType};

/// The HQQ scheme.
pub(crate) struct Hqq;

const NAME: &str = "HQQ";
const CODES: &str = ".W_q";
const METHOD: &str = "hqq";

/// Prefixes of parts of a weight whose scales or zeros are quantised or offloaded, which is refused.
const REFUSED: [&str; 4] = ["meta", "zero_scale", "scale_q", "zero_q"];

impl Scheme for Hqq {
    fn about(&self) -> About {
        About::Decoded(NAME, "1, 2, 3, 4 and 8 bits, grouped along either axis")
    }

    fn part_names(&self) -> Vec<PartName> {
        let unique = [CODES, ".view_as_float", ".encoded_state_dict", ".stores_quant_config", ".unpack_view_dtype"];
        let common = [
            ".nbits",
            ".packing",
            ".quant_scale",
            ".quant_zero",
            ".offload_meta",
            ".channel_wise",
            ".round_zero",
            ".zero_scale",
            ".scale_q",
            ".zero_q",
            ".shape",
            ".group_size",
            ".axis",
            ".compute_dtype",
            ".optimize",
            ".zero",
            ".meta",
        ];
        let unique = unique.map(|suffix| PartName::new(suffix, CODES, Confidence::Certain));
        let common = common.map(|suffix| PartName::new(suffix, CODES, Confidence::IfConfigured));
        unique.into_iter().chain(common).chain([PartName::new(".scale", CODES, Confidence::IfPacked)]).collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let codes: Vec<_> =
            claims.unclaimed().filter(|(_, tensor)| tensor.name.ends_with(CODES)).map(|(id, _)| id).collect();
        for id in codes {
            claim_weight(claims, id);
        }
    }
}

/// The parts of a weight that are present.
struct Parts<'a> {
    /// The name of the module, with its trailing dot.
    module: &'a str,
    codes: TensorId,
    scale: Option<TensorId>,
    zero: Option<TensorId>,
    entries: [Option<TensorId>; READ.len()],
    refused: Option<TensorId>,
}

fn claim_weight(claims: &mut Claims<'_>, codes: TensorId) {
    let catalog = claims.catalog;
    let module = catalog.get(codes).name.trim_end_matches("W_q");
    claims.take(codes, TensorRole::Quantized);
    let mut take = |name: &str, role| claims.take_companion(&format!("{module}{name}"), role);
    let (scale, zero) = (take("scale", TensorRole::Scale), take("zero", TensorRole::ZeroPoint));
    let entries = READ.map(|name| take(name, TensorRole::QuantState));
    for name in UNREAD {
        take(name, TensorRole::QuantState);
    }
    let refused: Vec<_> = REFUSED
        .iter()
        .flat_map(|name| catalog.with_prefix(&format!("{module}{name}")).map(|(id, _)| id).collect::<Vec<_>>())
        .collect();
    for &id in &refused {
        claims.take(id, TensorRole::QuantState);
    }
    let parts = Parts { module, codes, scale, zero, entries, refused: refused.first().copied() };
    match weight(claims, &parts) {
        Ok(weight) => claims.add(weight),
        Err(problem) => claims.refuse(problem),
    }
}

fn weight(claims: &Claims<'_>, parts: &Parts<'_>) -> Result<Weight> {
    let catalog = claims.catalog;
    let codes = catalog.get(parts.codes);
    let fail = |what: String| AnamnesisError::parse(format!("tensor {}: {what}", quoted(&codes.name)));
    if let Some(method) = claims.config.method().filter(|method| *method != METHOD) {
        return Err(fail(format!("it is named like HQQ, {} says {}", claims.config.file(), quoted(method))));
    }
    if let Some(id) = parts.refused {
        let (codes, name) = (quoted(&codes.name), quoted(&catalog.get(id).name));
        let detail = format!(
            "tensor {codes} has the companion {name}: its scales or zeros are stored in a way that is not decoded"
        );
        return Err(AnamnesisError::unsupported(NAME, detail));
    }
    let needed = |id: Option<TensorId>, end: &str| {
        id.ok_or_else(|| {
            let name = format!("{}{end}", parts.module);
            let place = claims.elsewhere(&name).map_or_else(String::new, |place| format!(": {place}"));
            fail(format!("there is no {}{place}", quoted(&name)))
        })
    };
    let (scale, zero) = (needed(parts.scale, "scale")?, needed(parts.zero, "zero")?);
    let type_of = |id: TensorId| {
        let part = catalog.get(id);
        let detail = format!("{} is {}; F32, BF16 and F16 are read", quoted(&part.name), part.dtype);
        ScaleType::of_float(part.dtype).ok_or_else(|| AnamnesisError::unsupported(NAME, detail))
    };
    let types = [type_of(scale)?, type_of(zero)?];
    for (name, id) in READ.iter().zip(parts.entries) {
        let Some(entry) = id.map(|id| catalog.get(id)) else {
            // An entry in another file may contradict the defaults.
            let name = format!("{}{name}", parts.module);
            if let Some(place) = claims.elsewhere(&name) {
                return Err(fail(format!("its {} is not here: {place}", quoted(&name))));
            }
            continue;
        };
        let needed = match *name {
            "shape" => Dtype::I64,
            "nbits" | "group_size" | "axis" => Dtype::I32,
            _ => Dtype::U8,
        };
        let rank = usize::from(matches!(*name, "shape" | "packing"));
        if entry.dtype != needed || entry.extent.bytes > MAX_BYTES || entry.shape.len() != rank {
            let (name, dtype, shape) = (quoted(&entry.name), entry.dtype, &entry.shape);
            return Err(fail(format!("{name} is {dtype} {shape:?}; a few of {needed} are needed")));
        }
    }
    let output = format!("{}weight", parts.module);
    let module = parts.module.trim_end_matches('.');
    let fields = match codes.dtype {
        Dtype::I32 => 10,
        _ => 2,
    };
    let coding = Coding {
        format: METHOD.to_owned(),
        symmetric: Some(false),
        evidence: claims.evidence(&["quant_method"]),
        ..Coding::default()
    };
    let state = State {
        codes: codes.clone(),
        scale: catalog.get(scale).clone(),
        zero: catalog.get(zero).clone(),
        types,
        entries: parts.entries.map(|id| id.map(|id| catalog.get(id).name.clone())),
        config: configured(claims, module)?,
        coding: coding.clone(),
    };
    let ids = [parts.codes, scale, zero].into_iter().chain(parts.entries.into_iter().flatten());
    Ok(Weight {
        name: output,
        shape: Vec::new(),
        // An estimate for four-bit codes, until the entries are read.
        values: codes.elements().saturating_mul(fields),
        scheme: QuantScheme::Named(NAME),
        blocks: None,
        coding,
        parts: ids.collect(),
        recipe: Recipe::Deferred(Arc::new(state)),
    })
}

/// Reads `quant_config.weight_quant_params` of the configuration, the same under the module's tag, or a flat
/// configuration.
fn configured(claims: &Claims<'_>, module: &str) -> Result<Configured> {
    let config = claims.config.module(module);
    let args = config.args();
    let tag = tag(module);
    let nested = args.inside("quant_config");
    let places: [Args<'_>; 3] =
        [nested.inside(&tag).inside("weight_quant_params"), nested.inside("weight_quant_params"), args.clone()];
    let number = |key: &'static str| -> Result<Option<(i64, String)>> {
        for place in &places {
            if let Some(found) = place.integer(&[key])? {
                return Ok(Some((found.value, found.place.to_string())));
            }
        }
        Ok(None)
    };
    Ok(Configured { numbers: [number("nbits")?, number("group_size")?, number("axis")?] })
}

/// The tag of a module in the configuration: its name without the components that all layers share.
fn tag(module: &str) -> String {
    let is_shared = |part: &&str| matches!(*part, "model" | "layers") || part.bytes().all(|byte| byte.is_ascii_digit());
    module.split('.').filter(|part| !is_shared(part)).collect::<Vec<_>>().join(".")
}
