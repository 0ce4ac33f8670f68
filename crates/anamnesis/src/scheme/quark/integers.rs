//! Quark's integers with zero points: four-bit codes packed into words, in groups, and eight-bit codes.

use std::sync::Arc;

use super::parts::Parts;
use super::spec::{QuarkSpec, only};
use crate::catalog::{StoredTensor, TargetDtype, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, Weight};
use crate::scheme::coder::{Arrangement, Coding, Evidence, Grid, Recipe, Rounded, ScaleType, TileDecoder};
use crate::scheme::grouped::{Arithmetic, Grouped, Layout, Meaning, Offsets, Scales};
use crate::scheme::packed::{ColumnDecoder, Dialect, Grouping, PackedMatrix, Words, ZeroPoints};

const NAME: &str = "Quark";

/// Codes, scales and zero points of a weight, with the type of the scales.
struct Stored<'a> {
    codes: &'a StoredTensor,
    scale: &'a StoredTensor,
    zeros: &'a StoredTensor,
    kind: ScaleType,
    ids: Vec<TensorId>,
}

impl<'a> Stored<'a> {
    fn of(claims: &Claims<'a>, parts: &Parts) -> Result<Self> {
        let scale_id = parts.scale.ok_or_else(|| parts.missing(claims, "scale"))?;
        let zero_id = parts.zeros.ok_or_else(|| parts.missing(claims, "zero_point"))?;
        let ids = vec![parts.codes, scale_id, zero_id];
        let [codes, scale, zeros] = [parts.codes, scale_id, zero_id].map(|id| claims.catalog.get(id));
        let kind = ScaleType::of_float(scale.dtype).ok_or_else(|| {
            let (name, dtype) = (quoted(&scale.name), scale.dtype);
            AnamnesisError::parse(format!("{name} is {dtype}; F32, BF16 or F16 is needed"))
        })?;
        if zeros.dtype != codes.dtype {
            let (name, found) = (quoted(&zeros.name), zeros.dtype);
            return Err(AnamnesisError::parse(format!("{name} is {found}, and its codes are {}", codes.dtype)));
        }
        Ok(Self { codes, scale, zeros, kind, ids })
    }

    fn misfit(&self) -> AnamnesisError {
        let [codes, scale, zeros] = [self.codes, self.scale, self.zeros].map(|tensor| &tensor.shape);
        AnamnesisError::parse(format!(
            "codes, scales and zero points of shapes {codes:?}, {scale:?} and {zeros:?} do not go together"
        ))
    }

    fn weight(
        self,
        shape: Vec<usize>,
        coding: Coding,
        blocks: Option<Blocks>,
        decoder: Arc<dyn TileDecoder>,
    ) -> Result<Weight> {
        let values = crate::catalog::dtype::elements(&shape).ok_or_else(|| self.misfit())?;
        Ok(Weight {
            name: self.codes.name.clone(),
            shape,
            values,
            scheme: QuantScheme::Named(NAME),
            blocks,
            coding,
            parts: self.ids,
            recipe: Recipe::Ready(decoder),
        })
    }
}

/// A weight of four-bit codes in words, in AWQ's order.
pub(super) fn words(claims: &Claims<'_>, parts: &Parts, specs: &[QuarkSpec<'_>]) -> Result<Weight> {
    let Some(spec) = only(specs, &["uint4", "int4"])? else {
        return Err(AnamnesisError::parse(
            "it is packed in words, and no configuration says whether they are uint4 or int4",
        ));
    };
    spec.needs("qscheme", "per_group")?;
    spec.needs("zero_point_type", "int32")?;
    spec.needs_axis(&[1, -1])?;
    let order = claims.config.args().inside("export").text(&["pack_method"])?;
    if let Some(order) = order.filter(|&order| order != "reorder") {
        return Err(AnamnesisError::unsupported(NAME, format!("pack_method {} is not decoded", quoted(order))));
    }
    let mut stored = Stored::of(claims, parts)?;
    // The decoder of packed columns reads zero points before scales.
    stored.ids.swap(1, 2);
    let (&[inputs, words], &[groups, outputs], &[zero_groups, zero_words]) =
        (&stored.codes.shape[..], &stored.scale.shape[..], &stored.zeros.shape[..])
    else {
        return Err(stored.misfit());
    };
    let fits = words.checked_mul(8) == Some(outputs) && zero_words == words && zero_groups == groups;
    if !fits || groups == 0 || inputs == 0 || outputs == 0 || !inputs.is_multiple_of(groups) {
        return Err(stored.misfit());
    }
    let run = (inputs / groups) as u64;
    if let Some(size) = spec.group_size()?.filter(|&size| size != run as i64) {
        let text = format!("{inputs} inputs have {groups} groups, {} says groups of {size}", spec.place());
        return Err(AnamnesisError::parse(text));
    }
    let is_signed = spec.dtype == "int4";
    let matrix = PackedMatrix {
        words: Words::Awq,
        inputs: inputs as u64,
        outputs: outputs as u64,
        groups: groups as u64,
        grouping: Grouping::Runs(run),
        zeros: ZeroPoints::Stored,
        scale: stored.kind,
    };
    let coding = Coding {
        format: spec.dtype.to_owned(),
        bits: Some(4),
        group_size: Some(run),
        block_shape: None,
        symmetric: Some(is_signed),
        evidence: Evidence::Configuration(spec.place()),
    };
    let description = format!("Quark {}, groups of {run}", spec.dtype);
    let decoder = ColumnDecoder { matrix, is_planar: false, dialect: Dialect::Quark { is_signed }, description };
    let blocks = Some(Blocks { bits: 4, size: run, nested: false });
    stored.weight(vec![outputs, inputs], coding, blocks, Arc::new(decoder))
}

/// A weight of eight-bit codes in two's complement.
pub(super) fn bytes(claims: &Claims<'_>, parts: &Parts, specs: &[QuarkSpec<'_>]) -> Result<Weight> {
    let spec = only(specs, &["int8"])?;
    let stored = Stored::of(claims, parts)?;
    let &[rows, columns] = &stored.codes.shape[..] else { return Err(stored.misfit()) };
    let (qscheme, arrangement) = match stored.scale.shape[..] {
        [] | [1] if rows != 1 || stored.scale.shape.is_empty() => ("per_tensor", Arrangement::Tensor),
        [count] if count == rows => ("per_channel", Arrangement::Row),
        _ => return Err(stored.misfit()),
    };
    if stored.zeros.shape != stored.scale.shape || rows == 0 || columns == 0 {
        return Err(stored.misfit());
    }
    let mut evidence = claims.evidence(&["quant_method"]);
    if let Some(spec) = spec {
        spec.needs("qscheme", qscheme)?;
        if qscheme == "per_channel" {
            spec.needs_axis(&[0, -2])?;
        }
        evidence = Evidence::Configuration(spec.place());
    }
    let [rows_u, columns_u] = [rows as u64, columns as u64];
    let grid = match arrangement {
        Arrangement::Row => Grid::new(rows_u, columns_u, 1, columns_u, arrangement),
        _ => Grid::new(rows_u, columns_u, rows_u, columns_u, arrangement),
    };
    let decoder = Grouped {
        layout: Layout::bytes(8, columns_u),
        meaning: Meaning::Signed,
        grid,
        scales: Scales { kind: stored.kind, global: None },
        offsets: Offsets::Stored { kind: ScaleType::I8, plus: 0 },
        is_indexed: false,
        arithmetic: Arithmetic::default(),
        description: format!("Quark int8, {}", qscheme.replace('_', " ")),
    };
    let coding =
        Coding { format: "int8".to_owned(), bits: Some(8), symmetric: Some(true), evidence, ..Coding::default() };
    stored.weight(vec![rows, columns], coding, None, Rounded::in_library(TargetDtype::F32, Arc::new(decoder)))
}
