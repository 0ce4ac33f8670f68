//! What the configuration promises about one FP8 weight.

use super::Fp8Format;
use super::grid::Arrangement;
use crate::catalog::StoredTensor;
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::{Args, ModuleConfig, Target};

/// What the configuration says about a weight, as far as it does.
pub(super) struct Expectation<'a> {
    /// Accepted arrangements of scales; empty where the configuration leaves it open.
    pub(super) arrangements: Vec<Arrangement>,
    /// The document that says so.
    pub(super) source: Option<&'a str>,
    /// The format of the weights by its name, and the document that says so.
    format: Option<(&'a str, &'a str)>,
}

impl<'a> Expectation<'a> {
    pub(super) fn read(module: &ModuleConfig<'a>, tensor: &StoredTensor) -> Result<Self> {
        let args = module.args();
        let document = |args: &Args<'a>| args.place().map_or("the configuration", |place| place.document());
        let mut expectation = Self { arrangements: Vec::new(), source: None, format: None };
        if let Some((rows, cols)) = args.pair(&["weight_block_size"])? {
            expectation.arrangements.push(Arrangement::Block(rows, cols));
            expectation.source = Some(document(args));
        }
        // A target that cannot be read may mean this module: the shapes decide.
        if let Some((target, groups)) = module.groups().filter(|_| module.undecided().is_none()) {
            let mut allowed = Vec::new();
            for group in groups {
                allowed.push((group, arrangements(group, target, tensor)?));
            }
            // Which class a module is of, its name does not tell: any of them will do. Otherwise both mean this module.
            if let [(first, a), .., (last, b)] = &allowed[..]
                && let (Some(first), Some(last)) = (first.place(), last.place())
                && target != Target::Class
                && a != b
            {
                return Err(AnamnesisError::parse(format!(
                    "{first} and {last} both mean it, and contradict each other"
                )));
            }
            for (group, arrangements) in allowed.into_iter().filter(|(_, arrangements)| !arrangements.is_empty()) {
                expectation.source = expectation.source.or(Some(document(group)));
                expectation.arrangements.extend(arrangements);
            }
        }
        expectation.format = args.text(&["fmt"])?.map(|format| (format, document(args)));
        Ok(expectation)
    }

    /// Refuses a weight of another format than the configuration says.
    pub(super) fn check_format(&self, tensor: &StoredTensor, format: Fp8Format) -> Result<()> {
        let Some((name, document)) = self.format else { return Ok(()) };
        let expected = match name {
            "e4m3" | "e4m3fn" => Fp8Format::E4m3,
            "e5m2" => Fp8Format::E5m2,
            _ => return Ok(()),
        };
        if expected == format || !matches!(format, Fp8Format::E4m3 | Fp8Format::E5m2) {
            return Ok(());
        }
        let (tensor, dtype) = (quoted(&tensor.name), tensor.dtype);
        Err(AnamnesisError::parse(format!("tensor {tensor} is {dtype}, but {document} says the weights are {name}")))
    }
}

/// The arrangements of scales that the weight arguments of a group allow.
fn arrangements(group: &Args<'_>, target: Target, tensor: &StoredTensor) -> Result<Vec<Arrangement>> {
    let (kind, bits) = (group.text(&["type"])?, group.integer(&["num_bits"])?);
    if (kind, bits.map(|bits| bits.value)) != (Some("float"), Some(8)) {
        // A class may be another than this module's; a name or an expression means this module.
        return match (target, group.place(), kind.is_some() || bits.is_some()) {
            (Target::Name | Target::Expression, Some(place), true) => {
                Err(AnamnesisError::parse(format!("{place} says it is not of eight-bit floats")))
            }
            _ => Ok(Vec::new()),
        };
    }
    Ok(match group.text(&["strategy"])? {
        Some("tensor") => vec![Arrangement::Tensor, Arrangement::Matrix],
        Some("channel") => vec![Arrangement::Row],
        Some("block") => {
            group.pair(&["block_structure"])?.map(|(rows, cols)| Arrangement::Block(rows, cols)).into_iter().collect()
        }
        Some("group") => group_size(group, tensor)?.map(|size| Arrangement::Block(1, size)).into_iter().collect(),
        _ => Vec::new(),
    })
}

/// How many columns share a scale; the last group is never a short one.
fn group_size(group: &Args<'_>, tensor: &StoredTensor) -> Result<Option<u64>> {
    let Some(said) = group.integer(&["group_size"])? else { return Ok(None) };
    let columns = tensor.shape.last().map_or(1, |&columns| columns as u64);
    match u64::try_from(said.value).ok().filter(|&size| size > 0) {
        Some(size) if columns.is_multiple_of(size) => Ok(Some(size)),
        _ => {
            let (place, size) = (said.place, said.value);
            Err(AnamnesisError::parse(format!("{place} says groups of {size}, which do not divide {columns} columns")))
        }
    }
}
