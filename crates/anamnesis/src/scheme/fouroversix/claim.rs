//! Claiming Four Over Six weights by their codes.

use std::sync::Arc;

use super::half_scales::HalfPowers;
use super::mixed::MixedBlocks;
use super::spec::{Codes, Spec};
use crate::catalog::{Dtype, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{About, Blocks, Claims, Confidence, PartName, QuantScheme, Scheme, TensorRole, Weight};
use crate::scheme::coder::{
    Arrangement, Coding, Cropped, Grid, Inner, PartOrigin, Prepare, Prepared, Recipe, Refine, Refined, RestoredParts,
    ScaleType, Swizzled, TileDecoder, TimesOver,
};
use crate::scheme::grouped::{Arithmetic, Formula, Grouped, Layout, Meaning, Offsets, Scales, Step};

/// The Four Over Six scheme.
pub(crate) struct FourOverSix;

const NAME: &str = "Four Over Six";
const METHOD: &str = "fouroversix";
const CODES: &str = ".quantized_weight_values";
/// The companions, in the order of a weight's parts.
const COMPANIONS: [&str; 3] =
    [".quantized_weight_scale_factors", ".quantized_weight_amax", ".quantized_weight_metadata"];

impl Scheme for FourOverSix {
    fn about(&self) -> About {
        About::Decoded(NAME, "nvfp4, mxfp4, if4 and nvint4, all rules of scales")
    }

    fn part_names(&self) -> Vec<PartName> {
        let of = |suffix| PartName::new(suffix, CODES, Confidence::Certain);
        [of(CODES)].into_iter().chain(COMPANIONS.map(of)).collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let codes = claims.unclaimed().filter(|(_, tensor)| tensor.name.ends_with(CODES));
        let codes: Vec<_> = codes.map(|(id, _)| id).collect();
        for id in codes {
            let name = &claims.catalog.get(id).name;
            let module = name.strip_suffix(CODES).unwrap_or(name);
            claims.take(id, TensorRole::Quantized);
            let found = COMPANIONS.map(|suffix| claims.take_companion(&format!("{module}{suffix}"), TensorRole::Scale));
            match weight(claims, module, id, found) {
                Ok(weight) => claims.add(weight),
                Err(problem) => claims.refuse(problem.in_tensor(name)),
            }
        }
    }
}

fn weight(claims: &Claims<'_>, module: &str, id: TensorId, found: [Option<TensorId>; 3]) -> Result<Weight> {
    let catalog = claims.catalog;
    let config = claims.config.module(module);
    claims.check_method(NAME, METHOD)?;
    if let Some(left) = config.exclusion() {
        return Err(AnamnesisError::parse(format!("it is packed in bytes, but {left}")));
    }
    let spec = Spec::of(&config, module)?;
    let mut ids = vec![id];
    for (suffix, id) in COMPANIONS.iter().zip(found) {
        ids.push(id.ok_or_else(|| {
            let name = format!("{module}{suffix}");
            claims.missing(&name)
        })?);
    }
    let of = |index: usize| ids.get(index).map_or_else(|| catalog.get(id), |id| catalog.get(*id));
    let [codes, scales, amax, metadata] = [0, 1, 2, 3].map(of);
    let wrong = |index: usize| {
        let part = of(index);
        let (name, dtype, shape) = (quoted(&part.name), part.dtype, &part.shape);
        AnamnesisError::parse(format!("{name} is {dtype} {shape:?}, which is not that of {}", spec.codes.name()))
    };
    let &[rows, bytes] = &codes.shape[..] else { return Err(wrong(0)) };
    let [rows, cols] = [rows as u64, (bytes as u64).saturating_mul(2)];
    if codes.dtype != Dtype::U8 || rows == 0 || cols == 0 || !cols.is_multiple_of(spec.codes.group()) {
        return Err(wrong(0));
    }
    let scale_dtype = if spec.codes == Codes::Mxfp4 { Dtype::F8E8M0 } else { Dtype::F8E4M3 };
    let groups = cols / spec.codes.group();
    let count = match spec.codes.is_swizzled() {
        true => Swizzled::padded(rows, groups).and_then(|[rows, cols]| rows.checked_mul(cols)),
        false => rows.checked_mul(groups),
    };
    if scales.dtype != scale_dtype || scales.shape.len() != 1 || Some(scales.elements()) != count {
        return Err(wrong(1));
    }
    if amax.dtype != Dtype::F32 || !matches!(amax.shape[..], [] | [1]) {
        return Err(wrong(2));
    }
    if !matches!(metadata.dtype, Dtype::I64 | Dtype::I32) || metadata.shape != [6] {
        return Err(wrong(3));
    }
    let name = format!("{module}.weight");
    claims.check_output(&name)?;
    let padded = Padded { spec, rows, cols, number_bytes: metadata.dtype.byte_size() };
    Ok(Weight {
        name,
        shape: Vec::new(),
        values: rows.saturating_mul(cols),
        scheme: QuantScheme::Named(NAME),
        blocks: Some(Blocks { bits: 4, size: spec.codes.group(), nested: spec.codes != Codes::Mxfp4 }),
        coding: Coding {
            format: spec.codes.name().to_owned(),
            bits: Some(4),
            group_size: Some(spec.codes.group()),
            symmetric: Some(true),
            evidence: claims.evidence(&["dtype", "quant_method"]),
            ..Coding::default()
        },
        parts: ids,
        recipe: Recipe::Deferred(Arc::new(padded)),
    })
}

/// A weight whose original size is read while planning.
struct Padded {
    spec: Spec,
    rows: u64,
    cols: u64,
    /// Bytes of a number of the metadata.
    number_bytes: usize,
}

/// The part indices of the largest magnitude and of the metadata.
const AMAX: usize = 2;
const METADATA: usize = 3;

impl Padded {
    /// Rows and columns of the weight, from the metadata.
    fn size(&self, stored: &[u8]) -> Result<[u64; 2]> {
        let number = |bytes: &[u8]| match *bytes {
            [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => -1,
        };
        let numbers: Vec<i64> = stored.chunks(self.number_bytes).map(number).collect();
        let [rows, cols, padded_rows, padded_cols, is_packed, is_swizzled] = numbers[..] else {
            return Err(AnamnesisError::parse("its metadata has not six numbers"));
        };
        let size = |number: i64, padded: u64| u64::try_from(number).ok().filter(|size| (1..=padded).contains(size));
        let is_padded = u64::try_from(padded_rows) == Ok(self.rows) && u64::try_from(padded_cols) == Ok(self.cols);
        let is_layout = is_packed == 1 && is_swizzled == i64::from(self.spec.codes.is_swizzled());
        match (size(rows, self.rows), size(cols, self.cols)) {
            (Some(rows), Some(cols)) if is_padded && is_layout => Ok([rows, cols]),
            _ => {
                let (rows, cols, kind) = (self.rows, self.cols, self.spec.codes.name());
                let why = format!("its metadata {numbers:?} does not describe {rows} by {cols} codes of {kind}");
                Err(AnamnesisError::parse(why))
            }
        }
    }

    /// The products of codes and scales of the padded weight.
    fn products(&self) -> Arc<dyn TileDecoder> {
        let (codes, group) = (self.spec.codes, self.spec.codes.group());
        let tiles = Swizzled { part: 1, cols: self.cols / group };
        let (kind, meaning, step, scales) = match codes {
            Codes::If4 => return Arc::new(MixedBlocks { cols: self.cols }),
            Codes::Mxfp4 => {
                let powers = PartOrigin::Restored(Arc::new(HalfPowers { exponents: tiles }));
                (ScaleType::F16, Meaning::E2m1, Step::F16, powers)
            }
            // These products are exact in half precision.
            Codes::Nvfp4 => (ScaleType::E4m3, Meaning::E2m1, Step::F32, PartOrigin::Restored(Arc::new(tiles))),
            Codes::Nvint4 => (ScaleType::E4m3, Meaning::SignedNibble, Step::F32, PartOrigin::Stored(1)),
        };
        let grouped = Grouped {
            layout: Layout::bytes(4, self.cols),
            meaning,
            grid: Grid::new(self.rows, self.cols, 1, group, Arrangement::Block(1, group)),
            scales: Scales { kind, global: None },
            offsets: Offsets::None,
            is_indexed: false,
            arithmetic: Arithmetic { formula: Formula::Affine, step },
            description: format!("{NAME} {}", codes.name()),
        };
        Arc::new(RestoredParts::around(Arc::new(grouped), vec![PartOrigin::Stored(0), scales]))
    }
}

impl Prepare for Padded {
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared> {
        let [rows, cols] = self.size(&read(METADATA)?)?;
        let inner = Inner { decoder: self.products(), elements: self.rows * self.cols, first_part: 0 };
        let cropped: Arc<dyn TileDecoder> = Arc::new(Cropped { inner, cols, stored: self.cols });
        let step: Arc<dyn Refine> = Arc::new(TimesOver { part: AMAX, divisor: self.spec.divisor });
        let steps = if self.spec.codes == Codes::Mxfp4 { Vec::new() } else { vec![step] };
        let decoder = Refined::around(cropped, [rows, cols], steps);
        Ok(Prepared { shape: vec![rows as usize, cols as usize], decoder, coding: None })
    }

    fn describe(&self) -> String {
        format!("{NAME} {}", self.spec.codes.name())
    }
}
