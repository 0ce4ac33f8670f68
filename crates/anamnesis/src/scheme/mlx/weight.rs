//! The geometry of an MLX weight, from the shapes of its parts and the configuration.

use std::sync::Arc;

use super::mode::{Kind, Mode};
use super::parts::Parts;
use crate::catalog::{Dtype, StoredTensor, TargetDtype};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, Weight};
use crate::scheme::coder::{Arrangement, Coding, Evidence, Grid, Recipe, Rounded, ScaleType, TileDecoder};
use crate::scheme::fp8::{Fp8Decoder, Fp8Format};
use crate::scheme::grouped::{Arithmetic, Formula, Grouped, Layout, Meaning, Offsets, Scales, Step};

pub(super) fn mlx_weight(claims: &Claims<'_>, parts: &Parts) -> Result<Weight> {
    let weight = claims.catalog.get(parts.weight);
    build(claims, parts, weight).map_err(|error| error.in_tensor(&weight.name))
}

fn build(claims: &Claims<'_>, parts: &Parts, weight: &StoredTensor) -> Result<Weight> {
    let module = weight.name.strip_suffix(".weight").unwrap_or(&weight.name);
    let missing = |part: &str| {
        let companion = format!("{module}.{part}");
        claims.missing(&companion)
    };
    let scale_id = parts.scales.ok_or_else(|| missing("scales"))?;
    let scales = claims.catalog.get(scale_id);
    let is_float = scales.dtype == Dtype::U8;
    let shape = Shape::of(weight, scales)?;
    let is_metal = claims.config.method() == Some("metal");
    let (mode, evidence) = mode(claims, module, is_float, is_metal, &shape)?;
    if !mode.fits(shape.words, shape.groups) {
        return Err(AnamnesisError::parse(format!(
            "{} words and {} scales a row are not {}, as {evidence} says",
            shape.words,
            shape.groups,
            mode.describe()
        )));
    }
    let scale = match (mode.kind, scales.dtype) {
        (Kind::Affine, dtype) => ScaleType::of_float(dtype),
        (Kind::Mxfp4 | Kind::Mxfp8, Dtype::U8) => Some(ScaleType::Exponent),
        (Kind::Nvfp4, Dtype::U8) => Some(ScaleType::E4m3),
        _ => None,
    };
    let Some(scale) = scale else {
        let (name, dtype, kind) = (quoted(&scales.name), scales.dtype, mode.kind.name());
        let allowed = if mode.kind == Kind::Affine { "BF16, F16 or F32" } else { "U8" };
        return Err(AnamnesisError::parse(format!("{name} is {dtype}; in the mode {kind} scales are {allowed}")));
    };
    let mut ids = vec![parts.weight, scale_id];
    let (name, biases, other) = match is_metal {
        true => ("qbiases", parts.qbiases, parts.biases),
        false => ("biases", parts.biases, parts.qbiases),
    };
    if let Some(id) = other {
        let (other, wanted) = (quoted(&claims.catalog.get(id).name), quoted(&format!("{module}.{name}")));
        return Err(AnamnesisError::parse(format!("it has {other} instead of {wanted}")));
    }
    match (mode.kind, biases) {
        (Kind::Affine, None) => return Err(missing(name)),
        (Kind::Affine, Some(id)) => {
            let biases = claims.catalog.get(id);
            if (&biases.shape, biases.dtype) != (&scales.shape, scales.dtype) {
                let [of_biases, of_scales] =
                    [biases, scales].map(|part| format!("{} {} {:?}", quoted(&part.name), part.dtype, part.shape));
                return Err(AnamnesisError::parse(format!("{of_biases} does not fit {of_scales}")));
            }
            ids.push(id);
        }
        (_, None) => {}
        (kind, Some(id)) => {
            let name = quoted(&claims.catalog.get(id).name);
            return Err(AnamnesisError::parse(format!("it has {name}, but the mode {} has no biases", kind.name())));
        }
    }
    let columns = shape.groups * mode.group;
    let output: Vec<usize> = [shape.stack, &[shape.rows as usize, columns as usize]].concat();
    let values = crate::catalog::dtype::elements(&output)
        .ok_or_else(|| AnamnesisError::parse("its number of values overflows 64 bits"))?;
    let decoder = decoder(mode, shape.rows, columns, scale);
    Ok(Weight {
        name: weight.name.clone(),
        shape: output,
        values,
        scheme: QuantScheme::Named("MLX"),
        blocks: Some(Blocks { bits: mode.bits, size: mode.group, nested: false }),
        coding: Coding {
            format: mode.kind.name().to_owned(),
            bits: Some(mode.bits),
            group_size: Some(mode.group),
            block_shape: None,
            symmetric: Some(mode.kind != Kind::Affine),
            evidence,
        },
        parts: ids,
        recipe: Recipe::Ready(match (is_metal, scale) {
            (true, ScaleType::Bf16) => Rounded::in_library(TargetDtype::BF16, decoder),
            (true, ScaleType::F16) => Rounded::in_library(TargetDtype::F16, decoder),
            _ => decoder,
        }),
    })
}

/// The mode in the configuration; without a configuration, the only mode that fits the shapes.
fn mode(
    claims: &Claims<'_>,
    module: &str,
    is_float: bool,
    is_metal: bool,
    shape: &Shape<'_>,
) -> Result<(Mode, Evidence)> {
    let config = claims.config.module(module);
    if let Some(left) = config.exclusion() {
        return Err(AnamnesisError::parse(format!("it is packed in words, but {left}")));
    }
    if is_metal {
        let place = config.args().place_of(&["quant_method"]);
        return Ok((Mode::configured_by_metal(&config)?, place.map_or(Evidence::Names, Evidence::Configuration)));
    }
    if claims.config.is_mlx() {
        let place = config.args().place_of(&["bits", "group_size", "mode"]);
        return Ok((Mode::configured(&config)?, place.map_or(Evidence::Names, Evidence::Configuration)));
    }
    if claims.config.is_present() {
        let evidence = config.evidence().unwrap_or_else(|| claims.config.file().to_owned());
        return Err(AnamnesisError::parse(format!(
            "it is packed as MLX does, and the configuration describes no quantisation of MLX ({evidence})"
        )));
    }
    match Mode::fitting(is_float, shape.words, shape.groups)[..] {
        [mode] => Ok((mode, Evidence::Names)),
        [] => Err(AnamnesisError::parse(format!(
            "{} words and {} scales a row fit no mode of MLX",
            shape.words, shape.groups
        ))),
        [first, .., last] => Err(AnamnesisError::parse(format!(
            "{} words and {} scales a row may be {} or {}, and there is no configuration",
            shape.words,
            shape.groups,
            first.describe(),
            last.describe()
        ))),
    }
}

pub(super) fn decoder(mode: Mode, rows: u64, columns: u64, scale: ScaleType) -> Arc<dyn TileDecoder> {
    let grid = Grid::new(rows, columns, 1, mode.group, Arrangement::Block(1, mode.group));
    let (meaning, offsets, formula) = match mode.kind {
        Kind::Mxfp8 => return Arc::new(Fp8Decoder::new(Fp8Format::E4m3, grid, Some(scale))),
        Kind::Mxfp4 | Kind::Nvfp4 => (Meaning::E2m1, Offsets::None, Formula::Affine),
        Kind::Affine => (Meaning::Unsigned, Offsets::Stored { kind: scale, plus: 0 }, Formula::Biased),
    };
    Arc::new(Grouped {
        layout: Layout::words(mode.bits, columns),
        meaning,
        grid,
        scales: Scales { kind: scale, global: None },
        offsets,
        is_indexed: false,
        arithmetic: Arithmetic { formula, step: Step::F32 },
        description: format!("MLX {}", mode.describe()),
    })
}

/// The common shape of words and scales: stacks of matrices with the same rows.
struct Shape<'a> {
    stack: &'a [usize],
    rows: u64,
    /// Words per row.
    words: u64,
    /// Scales per row.
    groups: u64,
}

impl<'a> Shape<'a> {
    fn of(weight: &'a StoredTensor, scales: &StoredTensor) -> Result<Self> {
        match (&weight.shape[..], &scales.shape[..]) {
            ([stack @ .., rows, words], [above @ .., groups])
                if above == &weight.shape[..weight.shape.len() - 1] && *groups > 0 && *rows > 0 =>
            {
                Ok(Self { stack, rows: *rows as u64, words: *words as u64, groups: *groups as u64 })
            }
            (shape, of_scales) => Err(AnamnesisError::parse(format!(
                "words of shape {shape:?} and {} of shape {of_scales:?} do not go together",
                quoted(&scales.name)
            ))),
        }
    }
}
