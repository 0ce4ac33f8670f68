//! Claiming FP8 weights and their scales, tensor by tensor. A weight whose scale may be missing is refused.

use std::sync::Arc;

use super::expectation::{Expectation, MX_GROUP};
use super::{Fp8Decoder, Fp8Format, naming};
use crate::catalog::{Catalog, Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::Args;
use crate::scheme::claim::{About, Claims, Confidence, PartName, QuantScheme, Scheme, TensorRole, Weight};
use crate::scheme::coder::{Arrangement, Coding, Evidence, Grid, Recipe, ScaleType, Swizzled};

/// The FP8 scheme, with the naming of all libraries.
pub(crate) struct Fp8;

impl Scheme for Fp8 {
    fn about(&self) -> About {
        About::Decoded("FP8", "E4M3, E5M2 and FNUZ; one scale, per row, or per block")
    }

    fn part_names(&self) -> Vec<PartName> {
        let activation_scales =
            naming::ACTIVATION_SCALES.map(|suffix| PartName::new(suffix, ".weight", Confidence::IfQuantised));
        naming::PART_NAMES.into_iter().chain(activation_scales).collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let weights: Vec<_> = claims
            .unclaimed()
            .filter(|(_, tensor)| Fp8Format::of(tensor.dtype).is_some())
            .filter(|(_, tensor)| !is_companion(claims, tensor) && !naming::is_codes_of_another_scheme(&tensor.name))
            .filter(|(_, tensor)| !extends_a_claimed_weight(claims, &tensor.name))
            .collect();
        let mut unscaled = Vec::new();
        let mut scaled = 0;
        let mut first = None;
        for (id, tensor) in weights {
            let scales: Vec<_> =
                naming::scale_names(&tensor.name).iter().filter_map(|name| claims.find_unclaimed(name)).collect();
            match scales[..] {
                [] => unscaled.push(id),
                [scale] => {
                    scaled += 1;
                    claim_scaled(claims, id, scale);
                    check_formats(claims, tensor, &mut first);
                }
                [first, second, ..] => {
                    let [first, second] = [first, second].map(|id| quoted(&claims.catalog.get(id).name));
                    let name = quoted(&tensor.name);
                    claims.take(id, TensorRole::Quantized);
                    claims.refuse(AnamnesisError::parse(format!("tensor {name} has two scales, {first} and {second}")));
                }
            }
        }
        // Weights of other schemes count too. So do eight-bit floats that they claimed as scales: an unscaled eight-bit
        // float may be another of their scales.
        let are_scales = claims.with_role(TensorRole::Scale).any(|tensor| Fp8Format::of(tensor.dtype).is_some());
        let others_are_scaled = scaled > 0 || are_scales || claims.scaled_weight().is_some();
        claim_unscaled(claims, &unscaled, others_are_scaled);
        consume_activation_scales(claims);
        refuse_orphans(claims);
    }
}

/// Whether an eight-bit float tensor is itself a scale or a marker.
fn is_companion(claims: &Claims<'_>, tensor: &StoredTensor) -> bool {
    let scales_a_weight = |weight: String| claims.catalog.find(&weight).is_some();
    let own_scale_of = tensor.name.strip_suffix("scale").map(|module| format!("{module}weight"));
    // E8M0 tensors are scales if their name contains `scale`, or if their module has a weight.
    let is_power = || {
        let weight = claims.catalog.find(&format!("{}.weight", naming::module_of(&tensor.name)));
        tensor.name.contains("scale") || weight.is_some_and(|id| claims.catalog.get(id).name != tensor.name)
    };
    (tensor.dtype == Dtype::F8E8M0 && is_power())
        || naming::is_marker(&tensor.name)
        || naming::is_only_a_scale(&tensor.name)
        || naming::weight_of_scale(&tensor.name).is_some()
        || own_scale_of.is_some_and(scales_a_weight)
}

/// Whether a name extends a `.weight…` component under which another scheme has claimed a weight.
fn extends_a_claimed_weight(claims: &Claims<'_>, name: &str) -> bool {
    let mut parts = name.match_indices(".weight").filter(|(at, _)| name[at + 1..].contains('.'));
    parts.any(|(at, _)| claims.has_quantised(&name[..=at]))
}

fn claim_scaled(claims: &mut Claims<'_>, id: TensorId, scale: TensorId) {
    claims.take(id, TensorRole::Quantized);
    claims.take(scale, TensorRole::Scale);
    match scaled_weight(claims, id, scale) {
        Ok(weight) => claims.add(weight),
        Err(problem) => claims.refuse(problem),
    }
}

/// Refuses a mix of FNUZ and other formats among scaled weights: FNUZ exists for one family of GPUs only, so no file
/// has both.
fn check_formats<'a>(claims: &mut Claims<'a>, tensor: &'a StoredTensor, first: &mut Option<&'a StoredTensor>) {
    let first = *first.get_or_insert(tensor);
    let is_fnuz = |tensor: &StoredTensor| matches!(tensor.dtype, Dtype::F8E4M3Fnuz | Dtype::F8E5M2Fnuz);
    if is_fnuz(first) != is_fnuz(tensor) {
        let [(a, of_a), (b, of_b)] = [tensor, first].map(|tensor| (quoted(&tensor.name), tensor.dtype));
        claims.refuse(AnamnesisError::parse(format!("tensor {a} is {of_a} where {b} is {of_b}: no file has both")));
    }
}

fn scaled_weight(claims: &Claims<'_>, id: TensorId, scale: TensorId) -> Result<Weight> {
    let (tensor, scale_tensor) = (claims.catalog.get(id), claims.catalog.get(scale));
    let format = Fp8Format::of(tensor.dtype).ok_or_else(|| AnamnesisError::parse("not an eight-bit float"))?;
    refuse_further_companions(claims, tensor)?;
    let in_tensor = |error: AnamnesisError| error.in_tensor(&tensor.name);
    let module = claims.config.module(naming::module_of(&tensor.name));
    let expectation = Expectation::read(&module, tensor).map_err(in_tensor)?;
    expectation.check_format(tensor, format)?;
    if format == Fp8Format::E8m0 {
        let (name, scale) = (quoted(&tensor.name), quoted(&scale_tensor.name));
        return Err(AnamnesisError::parse(format!("tensor {name} holds powers of two, which {scale} cannot scale")));
    }
    let scale_type = ScaleType::of(scale_tensor.dtype).ok_or_else(|| {
        let name = quoted(&scale_tensor.name);
        AnamnesisError::unsupported(
            "FP8",
            format!("scale {name} is {}; F32, BF16, F16, F8_E8M0 and U8 are read", scale_tensor.dtype),
        )
    })?;
    let grid = Grid::resolve(&tensor.shape, &scale_tensor.shape, &expectation.arrangements).map_err(|why| {
        let source = expectation.place().map_or_else(String::new, |place| format!(" ({place})"));
        AnamnesisError::parse(format!("scale {} {why}{source}", quoted(&scale_tensor.name)))
    })?;
    if let (Arrangement::Block(1, cols), ScaleType::E8m0 | ScaleType::Exponent) = (grid.arrangement, scale_type)
        && expectation.arrangements.is_empty()
        && cols != MX_GROUP
    {
        let (name, scale) = (quoted(&tensor.name), quoted(&scale_tensor.name));
        let why =
            format!("tensor {name} has a power of two for every {cols} values in {scale}, MXFP8 for every {MX_GROUP}");
        return Err(AnamnesisError::parse(why));
    }
    if expectation.arrangements.is_empty() && may_be_tiles(scale_tensor, grid.arrangement) {
        let (name, scale) = (quoted(&tensor.name), quoted(&scale_tensor.name));
        let detail = format!(
            "{scale} may hold the scales of {name} row after row, or in tiles of 128 rows as ComfyUI does: the shape fits both, and \
             no configuration, header or marker says which"
        );
        return Err(AnamnesisError::unsupported("MXFP8", detail));
    }
    let scheme = match grid.arrangement {
        Arrangement::Tensor | Arrangement::Matrix => QuantScheme::PerTensorFp8,
        Arrangement::Row | Arrangement::Column => QuantScheme::PerChannelFp8,
        Arrangement::Block(..) => QuantScheme::FineGrainedFp8,
    };
    Ok(Weight {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        scheme,
        blocks: None,
        coding: Coding {
            format: format.name().to_owned(),
            bits: Some(8),
            block_shape: match grid.arrangement {
                Arrangement::Tensor | Arrangement::Matrix => None,
                Arrangement::Row => Some((1, grid.cols)),
                Arrangement::Column => Some((grid.rows, 1)),
                Arrangement::Block(rows, cols) => Some((rows, cols)),
            },
            symmetric: Some(true),
            evidence: match expectation.arrangements.is_empty() {
                true => Evidence::Names,
                false if module.marker().is_some() => Evidence::Configuration(expectation.place().unwrap_or_default()),
                false => claims.evidence(&["quant_method", "quant_algo", "config_groups", "weight_block_size"]),
            },
            ..Coding::default()
        },
        parts: vec![id, scale],
        values: tensor.elements(),
        recipe: Recipe::Ready(Arc::new(Fp8Decoder::new(format, grid, Some(scale_type)))),
    })
}

/// Whether powers of two for runs of a row may be stored in tiles as well as row after row: tiles are whole.
fn may_be_tiles(scale: &StoredTensor, arrangement: Arrangement) -> bool {
    let is_run = matches!(arrangement, Arrangement::Block(1, _));
    scale.dtype == Dtype::F8E8M0 && is_run && Swizzled::may_hold(&scale.shape)
}

/// Refuses a weight with a companion that changes the meaning of its codes in a way that is not decoded.
fn refuse_further_companions(claims: &Claims<'_>, tensor: &StoredTensor) -> Result<()> {
    let mut names = naming::further_companions(&tensor.name).into_iter();
    match names.find(|(name, _)| claims.catalog.find(name).is_some()) {
        None => Ok(()),
        Some((name, format)) => {
            let (tensor, name) = (quoted(&tensor.name), quoted(&name));
            let detail = format!("tensor {tensor} has the companion {name}, and is not decoded without it");
            Err(AnamnesisError::unsupported(format, detail))
        }
    }
}

/// Claims weights without a scale as plain casts, unless something in the checkpoint suggests that a scale is missing.
fn claim_unscaled(claims: &mut Claims<'_>, unscaled: &[TensorId], others_are_scaled: bool) {
    if unscaled.is_empty() {
        return;
    }
    let possible = PossibleScales::of(claims.catalog);
    for &id in unscaled {
        let tensor = claims.catalog.get(id);
        if let Err(problem) = refuse_further_companions(claims, tensor) {
            claims.take(id, TensorRole::Quantized);
            claims.refuse(problem);
            continue;
        }
        let missing = reason_for_scale(claims, tensor, &possible, others_are_scaled);
        if missing.is_none() && claims.catalog.types_are_final {
            continue;
        }
        claims.take(id, TensorRole::Quantized);
        if let Some(why) = missing {
            let names = naming::scale_names(&tensor.name);
            claims.refuse(AnamnesisError::parse(format!(
                "tensor {} ({}) has no scale: neither {} nor {} is there, and {why}",
                quoted(&tensor.name),
                tensor.dtype,
                quoted(&names[0]),
                quoted(&names[1]),
            )));
            continue;
        }
        let Some(format) = Fp8Format::of(tensor.dtype) else { continue };
        claims.add(Weight {
            name: tensor.name.clone(),
            shape: tensor.shape.clone(),
            scheme: QuantScheme::PerTensorFp8,
            blocks: None,
            coding: Coding {
                format: format.name().to_owned(),
                bits: Some(8),
                symmetric: Some(true),
                evidence: Evidence::Type,
                ..Coding::default()
            },
            parts: vec![id],
            values: tensor.elements(),
            recipe: Recipe::Ready(Arc::new(Fp8Decoder::new(format, Grid::single(tensor.elements()), None))),
        });
    }
}

/// Tensors that suggest that a weight without a scale had one.
struct PossibleScales<'a> {
    /// The tensors whose names contain `scale` or `amax`, each with the module whose weight it may belong to, sorted by
    /// module.
    scales: Vec<(&'a str, &'a str)>,
    /// An activation scale of any module.
    activations: Option<&'a str>,
}

impl<'a> PossibleScales<'a> {
    fn of(catalog: &'a Catalog) -> Self {
        let named = |(_, tensor): (_, &'a StoredTensor)| {
            let (module, last) = tensor.name.rsplit_once('.')?;
            // `X.weight.scale` and `X.weight_quantizer._amax` belong to `X` too.
            let owner = module.rsplit_once('.').filter(|(_, part)| part.starts_with("weight")).map(|(owner, _)| owner);
            let is_scale = last.contains("scale") || last.contains("amax");
            is_scale.then_some((owner.unwrap_or(module), tensor.name.as_str()))
        };
        let mut scales: Vec<_> = catalog.iter().filter_map(named).collect();
        scales.sort_unstable();
        let activations = scales.iter().map(|(_, name)| *name).find(|name| naming::is_of_inputs(name));
        Self { scales, activations }
    }
}

/// Why a weight without a scale must have had one; `None` if it is a plain cast.
fn reason_for_scale(
    claims: &Claims<'_>,
    tensor: &StoredTensor,
    possible: &PossibleScales<'_>,
    others_are_scaled: bool,
) -> Option<String> {
    if let Some(place) = naming::scale_names(&tensor.name).iter().find_map(|name| claims.elsewhere(name)) {
        return Some(place);
    }
    let module = naming::module_of(&tensor.name);
    let config = claims.config.module(module);
    if let Some(marker) = config.marker().and_then(Args::place) {
        return Some(format!("{marker} says that it is quantised"));
    }
    if config.exclusion().is_some() {
        return None;
    }
    if let Some(sign) = claims.config.declared_quantisation() {
        let unread = claims.config.ignore_problem().map_or_else(String::new, |problem| format!(" ({problem})"));
        return Some(format!("{sign}{unread}"));
    }
    let of_module = &possible.scales[possible.scales.partition_point(|(other, _)| *other < module)..];
    let of_module = of_module.iter().take_while(|(other, _)| !module.is_empty() && *other == module);
    if let Some((_, name)) = of_module.copied().find(|(_, name)| *name != tensor.name) {
        let is_of_activations = naming::module_of_activation_scale(name).is_some();
        let why = if is_of_activations { "scales its activations" } else { "is not understood" };
        return Some(format!("{} in its module {why}", quoted(name)));
    }
    // A tensor whose name extends that of a weight is a part of it.
    let extends = |other: &str| other.strip_prefix(&*tensor.name).is_some_and(|rest| rest.starts_with(['.', '_']));
    let mut parts = claims.catalog.with_prefix(&tensor.name).map(|(_, other)| other.name.as_str());
    if let Some(name) = parts.find(|name| extends(name)) {
        return Some(format!("{} in its module is not understood", quoted(name)));
    }
    // A checkpoint with activation scales was calibrated; its weights are not plain casts.
    if let Some(name) = possible.activations {
        return Some(format!("{} says that inputs are scaled", quoted(name)));
    }
    others_are_scaled.then(|| "other weights of this checkpoint have theirs".to_owned())
}

/// Claims the activation scales and markers of modules that have quantised weights, so that they are dropped.
fn consume_activation_scales(claims: &mut Claims<'_>) {
    let scales: Vec<_> = claims
        .unclaimed()
        .filter(|(_, tensor)| matches!(tensor.dtype, Dtype::F32 | Dtype::BF16 | Dtype::F16 | Dtype::F8E8M0))
        .filter(|(_, tensor)| {
            let Some(module) = naming::module_of_activation_scale(&tensor.name) else { return false };
            // Caches may have a scale per head; all others have one value.
            let axes = tensor.shape.iter().filter(|&&dim| dim != 1).count();
            if axes > usize::from(naming::is_of_a_cache(&tensor.name)) {
                return false;
            }
            // Scales of a cache are stored one module below the weights that fill it.
            let above = module.rsplit_once('.').map(|(above, _)| above);
            std::iter::once(module).chain(above).any(|module| claims.has_quantised(&format!("{module}.")))
        })
        .map(|(id, _)| id)
        .collect();
    let markers = claims.unclaimed().filter(|(_, tensor)| naming::is_marker(&tensor.name));
    let markers: Vec<_> = markers.map(|(id, _)| id).collect();
    for id in scales.into_iter().chain(markers) {
        claims.take(id, TensorRole::Scale);
    }
}

/// Refuses scales whose weight is missing. A tensor whose name merely ends in `scale` is plain data.
fn refuse_orphans(claims: &mut Claims<'_>) {
    let bare = claims.with_role(TensorRole::Scale).filter(|tensor| tensor.name.ends_with(BARE_SCALE));
    let mut bare: Vec<_> = bare.map(|tensor| (tensor.dtype, tensor.shape.len())).collect();
    bare.dedup();
    let orphans: Vec<_> = claims
        .unclaimed()
        .filter_map(|(id, tensor)| {
            if let Some(stack) = stack_of_scale(claims, tensor) {
                return Some((id, tensor, stack));
            }
            if let Some(weight) = weight_of_bare_scale(claims, &bare, tensor) {
                return Some((id, tensor, weight));
            }
            let weight = naming::weight_of_scale(&tensor.name)?;
            let is_certain = tensor.name.ends_with("_scale_inv") || claims.config.is_present();
            (is_certain && claims.catalog.find(&weight).is_none()).then_some((id, tensor, weight))
        })
        .collect();
    for (id, tensor, weight) in orphans {
        let place = match claims.catalog.find(&weight) {
            Some(id) => format!("the tensor of that name is {}", claims.catalog.get(id).dtype),
            None => claims.elsewhere(&weight).unwrap_or_else(|| "it is nowhere in this input".to_owned()),
        };
        claims.take(id, TensorRole::Scale);
        let name = quoted(&tensor.name);
        claims.refuse(AnamnesisError::parse(format!("scale {name} has no weight {}: {place}", quoted(&weight))));
    }
}

/// The suffix of scales in DeepSeek's own releases and HQQ, which unquantised models use too.
const BARE_SCALE: &str = ".scale";

/// The name of the missing weight that a tensor `X.scale` scaled. It is a scale if other weights have scales of the
/// same type and rank (`others`), or if the configuration names a method that uses this suffix and the tensor is the
/// only one of its module, except for a bias, and not a vector, which norms have.
fn weight_of_bare_scale(claims: &Claims<'_>, others: &[(Dtype, usize)], tensor: &StoredTensor) -> Option<String> {
    let prefix =
        tensor.name.strip_suffix(&BARE_SCALE[1..]).filter(|prefix| prefix.is_empty() || prefix.ends_with('.'))?;
    let weight = format!("{prefix}weight");
    if claims.catalog.find(&weight).is_some() {
        return None;
    }
    let is_like_others = others.contains(&(tensor.dtype, tensor.shape.len()));
    let is_configured = || {
        let is_method = claims.config.method().is_some_and(|method| method.contains("fp8") || method == "hqq");
        let is_vector = tensor.shape.len() == 1 && tensor.elements() > 1;
        let is_left =
            |other: &StoredTensor| other.name == tensor.name || other.name.strip_prefix(prefix) == Some("bias");
        let is_alone = || claims.catalog.with_prefix(prefix).all(|(_, other)| is_left(other));
        is_method && !is_vector && ScaleType::of(tensor.dtype).is_some() && is_alone()
    };
    (is_like_others || is_configured()).then_some(weight)
}

/// The name of the stacked experts that a tensor scales, if it is named and shaped like FBGEMM's scales of experts.
fn stack_of_scale(claims: &Claims<'_>, tensor: &StoredTensor) -> Option<String> {
    let is_fbgemm = claims.config.method() == Some("fbgemm_fp8") && tensor.shape.len() > 2;
    tensor.name.strip_suffix("_scale").filter(|_| is_fbgemm).map(str::to_owned)
}
