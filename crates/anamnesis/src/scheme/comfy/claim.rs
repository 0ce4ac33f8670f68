//! Claiming weights by their markers.

use super::float8::Float8;
use super::format::Format;
use super::weight::{Parts, weight};
use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{About, Claims, Confidence, PartName, Scheme, TensorRole};

/// The scheme of ComfyUI's formats.
pub(crate) struct Comfy;

/// The suffix of the marker tensor that describes its module.
const MARKER: &str = ".comfy_quant";

/// The name for formats that are not known.
const UNKNOWN: &str = "ComfyUI";

impl Scheme for Comfy {
    fn about(&self) -> About {
        About::Decoded(
            UNKNOWN,
            "FP8, NVFP4, MXFP8, INT8, ConvRot, W4A8 and W6A8, AWQ W4A16, SVDQuant, by marker or header",
        )
    }

    fn part_names(&self) -> Vec<PartName> {
        let certain = [
            MARKER,
            ".weight_scale_2",
            ".weight_s_rel",
            ".weight_s_channel",
            ".weight_codebook",
            ".weight_correction",
            ".weight_zeros",
            ".weight_zero",
            ".weight_proj_down",
            ".weight_proj_up",
            ".weight_smooth_factor",
        ];
        let weak = [".proj_down", ".proj_up", ".smooth_factor"];
        let certain = certain.map(|suffix| PartName::new(suffix, ".weight", Confidence::Certain));
        certain
            .into_iter()
            .chain(weak.map(|suffix| PartName::new(suffix, ".weight", Confidence::IfQuantised)))
            .collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let modules: Vec<_> = claims.config.marked().collect();
        for module in modules {
            let name = |end: &str| if module.is_empty() { end[1..].to_owned() } else { format!("{module}{end}") };
            // A marker without its weight is refused as a leftover.
            let Some(id) = claims.catalog.find(&name(".weight")) else { continue };
            if let Some(marker) = claims.find_unclaimed(&name(MARKER)) {
                claims.take(marker, TensorRole::QuantState);
            }
            if !claims.is_unclaimed(id) {
                continue;
            }
            match format(claims, module, claims.catalog.get(id)) {
                // Eight-bit floats are claimed by their own scheme.
                Ok(None) => {}
                Ok(Some(format)) => claim_weight(claims, module, id, format),
                Err(problem) => {
                    refuse(claims, module, id);
                    claims.refuse(problem.in_tensor(&claims.catalog.get(id).name));
                }
            }
        }
    }
}

fn claim_weight(claims: &mut Claims<'_>, module: &str, id: TensorId, format: Format) {
    let parts = Parts::take(claims, module, id, format);
    match weight(claims, module, &parts) {
        Ok(weight) => {
            if let Some(bits) = format.activation_bits() {
                claims.note(format!(
                    "{}: its layer also quantises activations to {bits} bits, which a decoded weight does not reproduce",
                    quoted(&weight.name)
                ));
            }
            claims.add(weight);
        }
        Err(problem) => claims.refuse(problem.in_tensor(&claims.catalog.get(id).name)),
    }
}

/// The format in the marker of a weight; `None` if it is one of eight-bit floats.
fn format(claims: &Claims<'_>, module: &str, weight: &StoredTensor) -> Result<Option<Format>> {
    let config = claims.config.module(module);
    let Some(marker) = config.marker() else { return Ok(None) };
    let format = marker.text(&["format"])?;
    let place = || marker.place().map(|place| place.to_string()).unwrap_or_default();
    if let Some(float8) = Float8::marked(&config)? {
        if float8.dtype == weight.dtype {
            return Ok(None);
        }
        let (place, format, dtype) = (place(), quoted(format.unwrap_or_default()), weight.dtype);
        return Err(AnamnesisError::parse(format!("it is {dtype}, and {place} says format is {format}")));
    }
    let named = match format {
        // INT8 weights whose marker names no format have this layout.
        None if weight.dtype == Dtype::I8 => Some(Format::Int8),
        None => None,
        Some(format) => Format::named(format),
    };
    named.map(Some).ok_or_else(|| {
        let found =
            format.map_or_else(|| "names no format".to_owned(), |format| format!("says format is {}", quoted(format)));
        let detail = format!("{} {found}, which is not decoded: this format is not known", place());
        AnamnesisError::unsupported(UNKNOWN, detail)
    })
}

/// Claims a weight that is not decoded, with all tensors of its module except the bias, which is plain data.
fn refuse(claims: &mut Claims<'_>, module: &str, weight: TensorId) {
    claims.take_refused(weight, UNKNOWN);
    let prefix = if module.is_empty() { String::new() } else { format!("{module}.") };
    let is_part = |name: &str| {
        let rest = &name[prefix.len()..];
        !rest.contains('.') && rest != "bias"
    };
    let parts =
        claims.catalog.with_prefix(&prefix).filter(|(id, tensor)| claims.is_unclaimed(*id) && is_part(&tensor.name));
    let parts: Vec<_> = parts.map(|(id, _)| id).collect();
    for part in parts {
        claims.take(part, TensorRole::Scale);
    }
}
