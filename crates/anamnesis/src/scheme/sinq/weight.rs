//! The geometry of a SINQ weight, from the sidecar and the shapes of its parts.

use std::sync::Arc;

use super::parts::{COMPANIONS, Coded, METHOD, Nibbles, OfTiles, Parts};
use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::{Args, MODULE_TABLE};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, Weight};
use crate::scheme::coder::{
    Arrangement, ByColumn, Coding, ColumnOp, Evidence, Grid, PartOrigin, Recipe, Refine, Refined, RestoredParts,
    ScaleType,
};
use crate::scheme::grouped::{Arithmetic, Formula, Grouped, Layout, Meaning, Offsets, Order, Scales, Step, Unit};

const NAME: &str = "SINQ";

/// The description of a weight in the sidecar.
struct Meta {
    bits: u8,
    unit: Unit,
    group: u64,
    rows: u64,
    cols: u64,
    /// The table of codes, if they are looked up.
    table: Option<Meaning>,
    has_coded_scales: bool,
}

impl Meta {
    fn read(args: &Args<'_>) -> Result<Self> {
        let place = || args.place().map_or_else(|| MODULE_TABLE.to_owned(), |place| place.to_string());
        let fail = |why: String| AnamnesisError::parse(format!("{}: {why}", place()));
        let bits = args.needed_integer(&["nbits"])?.map(|bits| bits.value);
        let packing = args.text(&["packing"])?;
        let unit = match (packing, bits) {
            (Some("8bit_u8"), Some(8)) | (Some("4bit_u8"), Some(4)) => Unit::Byte,
            (Some("2bit_u8"), Some(2)) | (Some("1bit_u8"), Some(1)) => Unit::Byte,
            (Some("3bit_32"), Some(3)) | (Some("5bit_32"), Some(5)) | (Some("6bit_32"), Some(6)) => Unit::Word,
            (packing, bits) => {
                let detail = format!("{}: codes of {bits:?} bits packed as {packing:?}", place());
                return Err(AnamnesisError::unsupported(NAME, detail));
            }
        };
        let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
        let group = args.needed_integer(&["group_size"])?.and_then(|size| positive(size.value));
        let group = group.ok_or_else(|| fail("group_size is missing, or not positive".to_owned()))?;
        let (rows, cols) = match args.integers(&["shape"])?.as_deref() {
            Some(&[rows, cols]) => positive(rows).zip(positive(cols)),
            _ => None,
        }
        .ok_or_else(|| fail("shape is missing, or not two positive numbers".to_owned()))?;
        if args.integer(&["axis"])?.is_some_and(|axis| axis.value != 1) || args.flag(&["view_as_float"])? == Some(true)
        {
            return Err(AnamnesisError::unsupported(NAME, format!("{}: groups of another axis or type", place())));
        }
        if args.place_of(&["awq_scale"]).is_some() {
            return Err(AnamnesisError::unsupported(NAME, format!("{}: it has an awq_scale", place())));
        }
        let method = args.text(&["method"])?.ok_or_else(|| fail("method is missing".to_owned()))?.to_ascii_lowercase();
        let table = match bits {
            _ if method.contains("nf4") => Some((Meaning::HalfNf4, 4)),
            _ if method.contains("nf3") => Some((Meaning::HalfNf3, 3)),
            _ => None,
        };
        if table.is_some_and(|(_, needed)| bits != Some(needed)) {
            return Err(fail(format!("the method {} has codes of {bits:?} bits", quoted(&method))));
        }
        Ok(Self {
            bits: bits.and_then(|bits| u8::try_from(bits).ok()).unwrap_or(8),
            unit,
            group,
            rows,
            cols,
            table: table.map(|(table, _)| table),
            has_coded_scales: method.contains("quantaux"),
        })
    }

    /// Stored rows of codes for this many rows.
    fn stored_rows(&self, rows: u64) -> u64 {
        let unit_bits = if self.unit == Unit::Byte { 8 } else { 32 };
        rows.div_ceil(unit_bits / u64::from(self.bits))
    }
}

pub(super) fn weight(claims: &Claims<'_>, parts: &Parts) -> Result<Weight> {
    let catalog = claims.catalog;
    let codes = catalog.get(parts.codes);
    claims.check_method(NAME, METHOD)?;
    let entry = claims.config.table_entry(&parts.module);
    let meta = entry.as_ref().map(|entry| entry.inside("meta")).filter(|meta| meta.place().is_some());
    let meta = meta.ok_or_else(|| {
        AnamnesisError::unsupported(NAME, format!("no sidecar {MODULE_TABLE} describes it, which has its shape"))
    })?;
    let place = meta.place().map(|place| place.to_string()).unwrap_or_default();
    let args = claims.config.args();
    for key in ["nbits", "group_size"] {
        let [in_table, configured] = [&meta, &args].map(|args| args.integer(&[key]));
        if let (Some(a), Some(b)) = (in_table?, configured?)
            && a.value != b.value
        {
            return Err(AnamnesisError::parse(format!(
                "{place}: {key} is {}, but {} in {}",
                a.value, b.value, b.place
            )));
        }
    }
    let coded_shapes = [meta.integers(&["scale.shape"])?, meta.integers(&["zero.shape"])?];
    let meta = Meta::read(&meta)?;
    let fail = |why: String| AnamnesisError::parse(why);
    let total = meta.rows.checked_mul(meta.cols).filter(|total| total.is_multiple_of(meta.group));
    let total = total.ok_or_else(|| fail(format!("groups of {} do not divide the shape in {place}", meta.group)))?;
    let groups = total / meta.group;
    let dtype = if meta.unit == Unit::Byte { Dtype::U8 } else { Dtype::I32 };
    let stored_rows = meta.stored_rows(groups);
    let is_shape =
        |part: &StoredTensor, shape: &[u64]| part.shape.iter().map(|&dim| dim as u64).eq(shape.iter().copied());
    if codes.dtype != dtype || !is_shape(codes, &[stored_rows, meta.group]) {
        let (dtype, shape, bits) = (codes.dtype, &codes.shape, meta.bits);
        let why = format!("{dtype} {shape:?} does not hold {groups} groups of {} codes of {bits} bits", meta.group);
        return Err(fail(why));
    }
    let mut build = Build { claims, parts, ids: vec![parts.codes] };
    let tiles = meta.rows.is_multiple_of(meta.group) && meta.cols.is_multiple_of(meta.group);
    let across = meta.cols / meta.group;
    let of_tiles = tiles.then(|| [total / meta.group / meta.group, meta.group]);
    // Plain scales tell rows of groups from tiles by their number of dimensions.
    let mut is_tiled = None;
    let mut origins = Vec::new();
    for (first, coded) in [(1, &coded_shapes[0]), (5, &coded_shapes[1])] {
        let origin = match (meta.has_coded_scales, build.id(first)) {
            (false, _) => {
                let (part, tensor) = build.needed(first)?;
                let in_tiles = of_tiles.is_some_and(|[tiles, side]| is_shape(tensor, &[tiles, side, 1]));
                if tensor.dtype != Dtype::F16 || !(in_tiles || is_shape(tensor, &[groups, 1])) {
                    return Err(build.misfit(tensor, groups));
                }
                if is_tiled.replace(in_tiles).is_some_and(|other| other != in_tiles) {
                    return Err(build.misfit(tensor, groups));
                }
                build.refuse_others(first + 1..first + 4)?;
                match in_tiles {
                    true => PartOrigin::Restored(Arc::new(OfTiles { part, side: meta.group, across })),
                    false => PartOrigin::Stored(part),
                }
            }
            (true, None) => {
                let [(x, codes), (s, scales), (m, minima)] =
                    [build.needed(first + 1)?, build.needed(first + 2)?, build.needed(first + 3)?];
                let period = scales.elements();
                let is_typed = codes.dtype == Dtype::U8 && scales.dtype == Dtype::F16 && minima.dtype == Dtype::F16;
                let fits = codes.elements() == groups && scales.shape == minima.shape && period > 0;
                let is_wide =
                    is_shape(scales, &[1, period]) && codes.shape.last().map(|&dim| dim as u64) == Some(period);
                let is_listed = coded.as_ref().is_some_and(|shape| *shape == [groups as i64, 1]);
                if !is_typed || !fits || !is_wide || !is_listed {
                    return Err(build.misfit(codes, groups));
                }
                is_tiled = Some(false);
                PartOrigin::Restored(Arc::new(Coded { parts: [x, s, m], period }))
            }
            (true, Some(id)) => {
                let name = quoted(&catalog.get(id).name);
                return Err(fail(format!("it has {name}, and {place} says its scales are codes")));
            }
        };
        origins.push(origin);
    }
    let is_tiled = is_tiled == Some(true);
    let (second, scale2) = build.needed(0)?;
    let second_shape: &[u64] =
        if is_tiled { &[total / meta.group / meta.group, 1, meta.group] } else { &[1, meta.cols] };
    if scale2.dtype != Dtype::F16 || !is_shape(scale2, second_shape) {
        return Err(build.misfit(scale2, meta.cols));
    }
    let name = format!("{}.weight", parts.module);
    claims.check_output(&name)?;
    let planes = Layout::Planes { bits: meta.bits, unit: meta.unit, rows: stored_rows, order: Order::HighestFirst };
    let nibbles = Nibbles { bits: meta.bits, unit: meta.unit, rows: stored_rows, cols: meta.group };
    if meta.table.is_some() && !meta.group.is_multiple_of(2) {
        return Err(AnamnesisError::unsupported(NAME, format!("groups of {} looked up codes", meta.group)));
    }
    let grouped = Grouped {
        layout: match (meta.bits, meta.table) {
            (8, _) => Layout::bytes(8, meta.group),
            (_, Some(_)) => Layout::bytes(4, meta.group),
            _ => planes,
        },
        meaning: meta.table.unwrap_or(Meaning::Unsigned),
        grid: Grid::new(groups, meta.group, 1, meta.group, Arrangement::Row),
        scales: Scales { kind: ScaleType::F16, global: None },
        offsets: Offsets::Stored { kind: ScaleType::F16, plus: 0 },
        is_indexed: false,
        arithmetic: Arithmetic {
            formula: Formula::Affine,
            step: if meta.table.is_some() { Step::F16 } else { Step::F32 },
        },
        description: format!("SINQ {}-bit, groups of {}", meta.bits, meta.group),
    };
    let stored = if meta.table.is_some() { PartOrigin::Restored(Arc::new(nibbles)) } else { PartOrigin::Stored(0) };
    let origins = [stored].into_iter().chain(origins).collect();
    let decoder = Arc::new(RestoredParts::around(Arc::new(grouped), origins));
    let step: Arc<dyn Refine> = Arc::new(ByColumn {
        part: second,
        kind: ScaleType::F16,
        cols: meta.cols,
        rows: is_tiled.then_some(meta.group),
        op: if meta.table.is_some() { ColumnOp::HalfTimes } else { ColumnOp::Times },
    });
    Ok(Weight {
        name,
        shape: vec![meta.rows as usize, meta.cols as usize],
        values: total,
        scheme: QuantScheme::Named(NAME),
        blocks: Some(Blocks { bits: meta.bits, size: meta.group, nested: meta.has_coded_scales }),
        coding: Coding {
            format: METHOD.to_owned(),
            bits: Some(meta.bits),
            group_size: Some(meta.group),
            symmetric: Some(false),
            evidence: Evidence::Configuration(place),
            ..Coding::default()
        },
        parts: build.ids,
        recipe: Recipe::Ready(Refined::around(decoder, [meta.rows, meta.cols], vec![step])),
    })
}

/// The parts of a weight, numbered as they are used.
struct Build<'a> {
    claims: &'a Claims<'a>,
    parts: &'a Parts,
    ids: Vec<TensorId>,
}

impl<'a> Build<'a> {
    fn id(&self, index: usize) -> Option<TensorId> {
        self.parts.companions.get(index).copied().flatten()
    }

    /// A companion that must be present, and its number among the parts.
    fn needed(&mut self, index: usize) -> Result<(usize, &'a StoredTensor)> {
        let id = self.id(index).ok_or_else(|| {
            let name = format!("{}{}", self.parts.module, COMPANIONS.get(index).copied().unwrap_or_default());
            self.claims.missing(&name)
        })?;
        self.ids.push(id);
        Ok((self.ids.len() - 1, self.claims.catalog.get(id)))
    }

    /// Refuses companions that belong to another form of the scales.
    fn refuse_others(&self, indices: std::ops::Range<usize>) -> Result<()> {
        match indices.into_iter().find_map(|index| self.id(index)) {
            None => Ok(()),
            Some(id) => {
                let name = quoted(&self.claims.catalog.get(id).name);
                Err(AnamnesisError::parse(format!("it has {name}, and its method has no scales as codes")))
            }
        }
    }

    fn misfit(&self, part: &StoredTensor, needed: u64) -> AnamnesisError {
        let (name, dtype, shape) = (quoted(&part.name), part.dtype, &part.shape);
        AnamnesisError::parse(format!("{name} is {dtype} {shape:?}, which does not fit {needed} scales"))
    }
}
