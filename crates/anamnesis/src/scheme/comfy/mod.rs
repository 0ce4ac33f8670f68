//! ComfyUI's formats: each weight is described by a [marker](crate::quant_config::Markers) tensor that names its
//! format.
//!
//! | format | decoded by |
//! |---|---|
//! | `float8_e4m3fn`, `float8_e5m2`, `float8_e4m3fn_rowwise`, `float8_e4m3fn_blockwise` | [`fp8`](super::fp8), with the scale arrangement of [`Float8`] |
//! | all others | refused by name |
//!
//! Marked weights are claimed before every other scheme, because most of these layouts have the names and shapes of
//! another format: scales swizzled for a kernel are as many as scales in row order.

use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::{Args, ModuleConfig};
use crate::scheme::claim::{About, Claims, Confidence, PartName, Scheme, TensorRole};
use crate::scheme::coder::Arrangement;

/// The scheme of ComfyUI's refused formats.
pub(crate) struct Comfy;

/// The suffix of the marker tensor that describes its module.
const MARKER: &str = ".comfy_quant";

/// Refused formats: the name in a marker, the usual name, and why it is not decoded.
const REFUSED: [(&str, &str, &str); 10] = [
    ("nvfp4", "ComfyUI NVFP4", "its scales are in the order of a kernel"),
    ("mxfp8", "ComfyUI MXFP8", "its scales are in the order of a kernel"),
    ("int8_tensorwise", "ComfyUI INT8", "its weights may be rotated"),
    ("int8_blockwise", "ComfyUI INT8 in blocks", "its codes are integers under a grid of scales"),
    ("convrot_w4a4", "ComfyUI ConvRot W4A4", "its weights are rotated"),
    ("asym_w4a8_int8", "ComfyUI W4A8", "its weights are rotated, and have scales of scales"),
    ("w4a8", "ComfyUI W4A8", "its weights are rotated, and have scales of scales"),
    ("w4a8_int8", "ComfyUI W4A8", "its weights are rotated, and have scales of scales"),
    ("awq_w4a16", "ComfyUI AWQ W4A16", "its groups run down the columns"),
    ("svdquant_w4a4", "ComfyUI SVDQuant W4A4", "a low-rank part belongs to it"),
];

/// The name for formats that are not in the table.
const UNKNOWN: &str = "ComfyUI";

/// The type and scale arrangement of eight-bit floats that a marker describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Float8 {
    pub dtype: Dtype,
    pub arrangement: Arrangement,
}

/// The default rows and columns of a block.
const DEFAULT_BLOCK: u64 = 64;

impl Float8 {
    /// The description in the marker of a module, if it names a format of eight-bit floats.
    pub(crate) fn marked(module: &ModuleConfig<'_>) -> Result<Option<Self>> {
        let Some(marker) = module.marker() else { return Ok(None) };
        Ok(match marker.text(&["format"])? {
            Some("float8_e4m3fn") => Some(Self { dtype: Dtype::F8E4M3, arrangement: Arrangement::Tensor }),
            Some("float8_e5m2") => Some(Self { dtype: Dtype::F8E5M2, arrangement: Arrangement::Tensor }),
            Some("float8_e4m3fn_rowwise") => Some(Self { dtype: Dtype::F8E4M3, arrangement: Arrangement::Row }),
            Some("float8_e4m3fn_blockwise") => {
                let size = block_size(marker)?;
                Some(Self { dtype: Dtype::F8E4M3, arrangement: Arrangement::Block(size, size) })
            }
            _ => None,
        })
    }
}

fn block_size(marker: &Args<'_>) -> Result<u64> {
    let Some(found) = marker.integer(&["group_size"])? else { return Ok(DEFAULT_BLOCK) };
    let size = u64::try_from(found.value).ok().filter(|&size| size > 0);
    size.ok_or_else(|| {
        AnamnesisError::parse(format!("{}: group size is {}; a positive number is needed", found.place, found.value))
    })
}

impl Scheme for Comfy {
    fn about(&self) -> About {
        let mut names: Vec<_> = REFUSED.iter().map(|(_, name, _)| *name).collect();
        names.dedup();
        About::Refused(names)
    }

    fn part_names(&self) -> Vec<PartName> {
        vec![PartName::new(MARKER, ".weight", Confidence::Certain)]
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
            if let Err((format, problem)) = check(claims, module, claims.catalog.get(id)) {
                refuse(claims, module, id, format);
                claims.refuse(problem.in_tensor(&claims.catalog.get(id).name));
            }
        }
    }
}

/// Accepts a weight whose marker names a decoded format of the same type; the error holds the format's name and the
/// reason.
fn check(
    claims: &Claims<'_>,
    module: &str,
    weight: &StoredTensor,
) -> std::result::Result<(), (&'static str, AnamnesisError)> {
    let config = claims.config.module(module);
    let Some(marker) = config.marker() else { return Ok(()) };
    let unknown = |error| (UNKNOWN, error);
    let format = marker.text(&["format"]).map_err(unknown)?;
    let place = || marker.place().map(|place| place.to_string()).unwrap_or_default();
    if let Some(float8) = Float8::marked(&config).map_err(unknown)? {
        if float8.dtype == weight.dtype {
            return Ok(());
        }
        let (place, format, dtype) = (place(), quoted(format.unwrap_or_default()), weight.dtype);
        return Err(unknown(AnamnesisError::parse(format!("it is {dtype}, and {place} says format is {format}"))));
    }
    let named = match format {
        // INT8 weights whose marker names no format have this layout.
        None if weight.dtype == Dtype::I8 => "int8_tensorwise",
        None => "",
        Some(format) => format,
    };
    let known = REFUSED.iter().find(|(known, ..)| *known == named);
    let (_, name, why) = *known.unwrap_or(&("", UNKNOWN, "this format is not known"));
    let found =
        format.map_or_else(|| "names no format".to_owned(), |format| format!("says format is {}", quoted(format)));
    let detail = format!("{} {found}, which is not decoded: {why}", place());
    Err((name, AnamnesisError::unsupported(name, detail)))
}

/// Claims a weight that is not decoded, with all tensors of its module except the bias, which is plain data.
fn refuse(claims: &mut Claims<'_>, module: &str, weight: TensorId, format: &'static str) {
    claims.take_refused(weight, format);
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
