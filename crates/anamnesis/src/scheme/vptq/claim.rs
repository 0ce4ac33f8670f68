//! Claiming VPTQ weights by their indices.

use std::sync::Arc;

use super::decoder::{Outliers, Vectors};
use super::layer::Layer;
use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{About, Claims, Confidence, PartName, QuantScheme, Scheme, TensorRole, Weight};
use crate::scheme::coder::{
    ByColumn, Coding, ColumnOp, Prepare, Prepared, Recipe, Refine, Refined, ScaleType, TileDecoder,
};

/// The VPTQ scheme.
pub(crate) struct Vptq;

const NAME: &str = "VPTQ";
const METHOD: &str = "vptq";
const CODES: &str = ".indices";
/// The suffixes of companions, in the order of a weight's parts.
const COMPANIONS: [&str; 7] = [
    ".centroids.weight",
    ".res_centroids.weight",
    ".outlier_indices",
    ".outlier_centroids.weight",
    ".weight_scale",
    ".weight_bias",
    ".perm",
];

impl Scheme for Vptq {
    fn about(&self) -> About {
        About::Decoded(NAME, "vectors of any length, residuals, outliers, groups and permutations")
    }

    fn part_names(&self) -> Vec<PartName> {
        let confidence = |suffix: &str| match suffix {
            ".weight_bias" => Confidence::Certain,
            // Unquantised models have tables of centroids and indices too.
            _ => Confidence::IfConfigured,
        };
        let of = |suffix: &'static str| PartName::new(suffix, CODES, confidence(suffix));
        // FP8 lists the scale.
        COMPANIONS
            .iter()
            .filter(|suffix| **suffix != ".weight_scale")
            .map(|suffix| of(suffix))
            .chain([of(CODES)])
            .collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        if !claims.config.method().is_some_and(|method| method.eq_ignore_ascii_case(METHOD)) {
            return;
        }
        let codes = claims.unclaimed().filter(|(_, tensor)| {
            let module = tensor.name.strip_suffix(CODES);
            let has_centroids = |module: &str| {
                let name = format!("{module}{}", COMPANIONS[0]);
                claims.catalog.find(&name).is_some() || claims.elsewhere(&name).is_some()
            };
            let is_integer = !matches!(tensor.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F64);
            is_integer && module.is_some_and(has_centroids)
        });
        let codes: Vec<_> = codes.map(|(id, _)| id).collect();
        for id in codes {
            claim_weight(claims, id);
        }
    }
}

fn claim_weight(claims: &mut Claims<'_>, codes: TensorId) {
    let name = &claims.catalog.get(codes).name;
    let module = name.strip_suffix(CODES).unwrap_or(name);
    claims.take(codes, TensorRole::Quantized);
    let found = COMPANIONS.map(|suffix| {
        let role = match suffix {
            ".weight_scale" | ".weight_bias" => TensorRole::Scale,
            ".perm" => TensorRole::GroupIndex,
            _ => TensorRole::QuantMap,
        };
        claims.take_companion(&format!("{module}{suffix}"), role)
    });
    match weight(claims, module, codes, found) {
        Ok(weight) => claims.add(weight),
        Err(problem) => claims.refuse(problem.in_tensor(name)),
    }
}

fn weight(
    claims: &Claims<'_>,
    module: &str,
    codes: TensorId,
    found: [Option<TensorId>; COMPANIONS.len()],
) -> Result<Weight> {
    let catalog = claims.catalog;
    let args = claims.config.args();
    let args = args.inside("config_for_layers").inside(module);
    if args.place().is_none() {
        let file = claims.config.file();
        return Err(AnamnesisError::unsupported(NAME, format!("config_for_layers of {file} does not describe it")));
    }
    let layer = Layer::read(&args)?;
    let has_outliers = layer.outliers > 0;
    let wanted =
        [true, layer.residuals > 0, has_outliers, has_outliers, layer.is_scaled, layer.is_scaled, layer.is_permuted];
    let shapes: [&[u64]; COMPANIONS.len()] = [
        &[layer.groups, layer.centroids.saturating_mul(layer.vector)],
        &[layer.groups, layer.residuals.saturating_mul(layer.vector)],
        &[1, layer.outlier_vectors(), layer.outliers],
        &[1, layer.outlier_centroids.saturating_mul(layer.outlier_vector)],
        &[layer.inputs],
        &[layer.inputs],
        &[layer.inputs],
    ];
    let check = |part: &StoredTensor, shape: &[u64], is_type: bool| match is_type
        && part.shape.iter().map(|&dim| dim as u64).eq(shape.iter().copied())
    {
        true => Ok(()),
        false => {
            let (name, dtype, found) = (quoted(&part.name), part.dtype, &part.shape);
            Err(AnamnesisError::parse(format!("{name} is {dtype} {found:?}; {shape:?} is needed")))
        }
    };
    let stored = catalog.get(codes);
    let is_word = matches!(stored.dtype, Dtype::I32 | Dtype::U32);
    check(stored, &[layer.groups, layer.vectors(), layer.words()], is_word)?;
    let mut ids = vec![codes];
    let mut parts = [0; COMPANIONS.len()];
    let mut kinds = [ScaleType::F16; COMPANIONS.len()];
    for (index, (suffix, id)) in COMPANIONS.iter().zip(found).enumerate() {
        let name = format!("{module}{suffix}");
        let id = match (wanted[index], id) {
            (true, Some(id)) => id,
            (false, None) => continue,
            (true, None) => {
                return Err(claims.missing(&name));
            }
            (false, Some(_)) => {
                let place = args.place().map(|place| place.to_string()).unwrap_or_default();
                return Err(AnamnesisError::parse(format!("it has {}, which {place} does not mention", quoted(&name))));
            }
        };
        let part = catalog.get(id);
        let is_index = matches!(*suffix, ".outlier_indices" | ".perm");
        let kind = ScaleType::of_float(part.dtype);
        let is_type = if is_index { matches!(part.dtype, Dtype::I16 | Dtype::U16) } else { kind.is_some() };
        check(part, shapes[index], is_type)?;
        (parts[index], kinds[index]) = (ids.len(), kind.unwrap_or(ScaleType::F16));
        ids.push(id);
    }
    let name = format!("{module}.weight");
    claims.check_output(&name)?;
    let values = layer.inputs.checked_mul(layer.outputs);
    let decoder = Vectors {
        layer,
        centroids: (parts[0], kinds[0]),
        residuals: (layer.residuals > 0).then_some((parts[1], kinds[1])),
        outliers: has_outliers.then_some(Outliers { indices: parts[2], centroids: (parts[3], kinds[3]) }),
        order: None,
    };
    let by_column = |index: usize, op| -> Arc<dyn Refine> {
        Arc::new(ByColumn { part: parts[index], kind: kinds[index], cols: layer.inputs, rows: None, op })
    };
    let steps = match layer.is_scaled {
        true => vec![by_column(4, ColumnOp::Times), by_column(5, ColumnOp::Plus)],
        false => Vec::new(),
    };
    let deferred = Permuted { decoder, steps, perm: layer.is_permuted.then_some(parts[6]) };
    Ok(Weight {
        name,
        shape: vec![layer.outputs as usize, layer.inputs as usize],
        values: values.ok_or_else(|| AnamnesisError::parse("its number of values overflows 64 bits"))?,
        scheme: QuantScheme::Named(NAME),
        blocks: None,
        coding: Coding { format: METHOD.to_owned(), evidence: claims.evidence(&["quant_method"]), ..Coding::default() },
        parts: ids,
        recipe: Recipe::Deferred(Arc::new(deferred)),
    })
}

/// A weight whose permutation is read while planning.
struct Permuted {
    decoder: Vectors,
    steps: Vec<Arc<dyn Refine>>,
    perm: Option<usize>,
}

impl Prepare for Permuted {
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared> {
        let layer = self.decoder.layer;
        let order = self.perm.map(|part| order(&read(part)?)).transpose()?;
        let decoder: Arc<dyn TileDecoder> = Arc::new(Vectors { order, ..self.decoder.clone() });
        let decoder = Refined::around(decoder, [layer.outputs, layer.inputs], self.steps.clone());
        Ok(Prepared { shape: vec![layer.outputs as usize, layer.inputs as usize], decoder, coding: None })
    }

    fn describe(&self) -> String {
        self.decoder.describe()
    }
}

/// The input of each stored column: a permutation.
fn order(stored: &[u8]) -> Result<Arc<[u16]>> {
    let columns: Vec<u16> = stored.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
    let mut is_seen = vec![false; columns.len()];
    for (column, input) in columns.iter().enumerate() {
        match is_seen.get_mut(usize::from(*input)) {
            Some(seen) if !*seen => *seen = true,
            _ => {
                let why = format!("perm has {input} for column {column}, which is no permutation of {}", columns.len());
                return Err(AnamnesisError::parse(why));
            }
        }
    }
    Ok(columns.into())
}
