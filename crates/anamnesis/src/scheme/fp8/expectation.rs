//! The description of an FP8 weight in the configuration.

use super::Fp8Format;
use crate::catalog::StoredTensor;
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::{Args, ModuleConfig, Place, Target};
use crate::scheme::coder::Arrangement;
use crate::scheme::comfy::Float8;

/// The group size of MXFP8.
pub(super) const MX_GROUP: u64 = 32;

/// The format and scale arrangement that the configuration requires of a weight.
pub(super) struct Expectation<'a> {
    /// Accepted arrangements of scales; empty if the configuration does not determine it.
    pub(super) arrangements: Vec<Arrangement>,
    /// The document that determines the arrangements.
    source: Option<&'a str>,
    /// The name of the weights' format, and the document that has it.
    format: Option<(&'a str, &'a str)>,
    /// The place of the marker that describes the weight.
    marker: Option<Place<'a>>,
}

impl<'a> Expectation<'a> {
    pub(super) fn read(module: &ModuleConfig<'a>, tensor: &StoredTensor) -> Result<Self> {
        let args = module.args();
        let document = |args: &Args<'a>| args.place().map_or("the configuration", |place| place.document());
        let mut expectation = Self { arrangements: Vec::new(), source: None, format: None, marker: None };
        if let Some((rows, cols)) = args.pair(&["weight_block_size"])? {
            expectation.arrangements.push(Arrangement::Block(rows, cols));
            expectation.source = Some(document(args));
        }
        // FBGEMM scales outputs, which are the columns of stacked experts.
        let is_fbgemm = args.text(&["quant_method"])? == Some("fbgemm_fp8");
        if is_fbgemm {
            let arrangement = if tensor.shape.len() > 2 { Arrangement::Column } else { Arrangement::Row };
            expectation.arrangements.push(arrangement);
            expectation.source = Some(document(args));
        }
        // A target that cannot be parsed may or may not match this module: the shapes decide.
        let decided = module.groups().filter(|_| module.undecided().is_none());
        let (target, groups) = decided.unwrap_or((Target::Name, &[]));
        let mut allowed = Vec::new();
        for group in groups {
            allowed.push((group, arrangements(group, target, tensor)?));
        }
        // The class of a module is not known from its name, so any group for a class may apply. Other targets match the
        // module.
        if let [(first, a), .., (last, b)] = &allowed[..]
            && let (Some(first), Some(last)) = (first.place(), last.place())
            && target != Target::Class
            && a != b
        {
            return Err(AnamnesisError::parse(format!(
                "{first} and {last} both apply to it and contradict each other"
            )));
        }
        for (group, arrangements) in allowed.into_iter().filter(|(_, arrangements)| !arrangements.is_empty()) {
            expectation.source = expectation.source.or(Some(document(group)));
            expectation.arrangements.extend(arrangements);
        }
        let are_fp8 = groups.iter().map(is_eight_bit_float).collect::<Result<Vec<_>>>()?;
        let find =
            |wanted| groups.iter().zip(&are_fp8).find(|(_, found)| **found == Some(wanted)).map(|(group, _)| group);
        let of_group = find(true);
        if let (None, Some(place)) = (of_group, find(false).and_then(Args::place)) {
            return Err(AnamnesisError::parse(format!("{place} says its codes are not eight-bit floats")));
        }
        // compressed-tensors, ModelOpt and FBGEMM have only one eight-bit format.
        let is_modelopt = expectation.read_algorithm(module)?;
        let implied = of_group.or((is_modelopt || is_fbgemm).then_some(args)).map(|args| ("e4m3", document(args)));
        expectation.format = args.text(&["fmt"])?.map(|format| (format, document(args))).or(implied);
        expectation.read_marker(module)?;
        Ok(expectation)
    }

    /// Reads the arrangement in a marker, which the configuration must allow.
    fn read_marker(&mut self, module: &ModuleConfig<'a>) -> Result<()> {
        let Some(float8) = Float8::marked(module)? else { return Ok(()) };
        self.marker = module.marker().and_then(Args::place);
        if !self.arrangements.is_empty() && !self.arrangements.contains(&float8.arrangement) {
            let (marker, source) = (self.place_of_marker(), self.source.unwrap_or("the configuration"));
            return Err(AnamnesisError::parse(format!("{marker} and {source} contradict each other about its scales")));
        }
        self.arrangements = vec![float8.arrangement];
        Ok(())
    }

    /// The place of the marker that describes the weight; empty if there is none.
    fn place_of_marker(&self) -> String {
        self.marker.map(|place| place.to_string()).unwrap_or_default()
    }

    /// The place that determines the arrangement of scales, for messages.
    pub(super) fn place(&self) -> Option<String> {
        self.marker.map(|place| place.to_string()).or_else(|| self.source.map(str::to_owned))
    }

    /// Whether ModelOpt's `quant_algo` is an FP8 algorithm. Another one is refused, unless the module is excluded from
    /// it.
    fn read_algorithm(&mut self, module: &ModuleConfig<'a>) -> Result<bool> {
        let args = module.args();
        match args.text(&["quant_algo"])? {
            Some("MXFP8") => {
                self.arrangements.push(Arrangement::Block(1, MX_GROUP));
                self.source = self.source.or(args.place().map(|place| place.document()));
                Ok(true)
            }
            Some(algorithm) if algorithm.starts_with("FP8") => Ok(true),
            Some(algorithm) if algorithm != "MIXED_PRECISION" && module.exclusion().is_none() => {
                let (place, algorithm) = (args.place_of(&["quant_algo"]).unwrap_or_default(), quoted(algorithm));
                Err(AnamnesisError::parse(format!("its codes are eight-bit floats, and {place} is {algorithm}")))
            }
            _ => Ok(false),
        }
    }

    /// Refuses a weight of another format than the configured one.
    pub(super) fn check_format(&self, tensor: &StoredTensor, format: Fp8Format) -> Result<()> {
        let Some((name, document)) = self.format else { return Ok(()) };
        let expected = match name {
            "e4m3" | "e4m3fn" => Fp8Format::E4m3,
            "e5m2" => Fp8Format::E5m2,
            "e4m3fnuz" => Fp8Format::E4m3Fnuz,
            "e5m2fnuz" => Fp8Format::E5m2Fnuz,
            _ => return Ok(()),
        };
        if expected == format {
            return Ok(());
        }
        let (tensor, dtype) = (quoted(&tensor.name), tensor.dtype);
        Err(AnamnesisError::parse(format!("tensor {tensor} is {dtype}, but {document} says the weights are {name}")))
    }
}

/// The arrangements of scales that the weight arguments of a group allow.
fn arrangements(group: &Args<'_>, target: Target, tensor: &StoredTensor) -> Result<Vec<Arrangement>> {
    let is_eight_bit_float = is_eight_bit_float(group)?;
    if is_eight_bit_float != Some(true) {
        // A class may not be this module's; a name or an expression matches this module.
        return match (target, group.place(), is_eight_bit_float) {
            (Target::Name | Target::Expression, Some(place), Some(false)) => {
                Err(AnamnesisError::parse(format!("{place} says its codes are not eight-bit floats")))
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

/// Whether a group describes eight-bit floats; `None` if it has neither a type nor a number of bits.
fn is_eight_bit_float(group: &Args<'_>) -> Result<Option<bool>> {
    let kind = group.text(&["type"])?;
    let bits = group.integer(&["num_bits"])?.map(|bits| bits.value);
    Ok((kind.is_some() || bits.is_some()).then_some((kind, bits) == (Some("float"), Some(8))))
}

/// How many columns share a scale. A group size that does not divide the columns is refused.
fn group_size(group: &Args<'_>, tensor: &StoredTensor) -> Result<Option<u64>> {
    let Some(found) = group.integer(&["group_size"])? else { return Ok(None) };
    let columns = tensor.shape.last().map_or(1, |&columns| columns as u64);
    match u64::try_from(found.value).ok().filter(|&size| size > 0) {
        Some(size) if columns.is_multiple_of(size) => Ok(Some(size)),
        _ => {
            let (place, size) = (found.place, found.value);
            Err(AnamnesisError::parse(format!("{place} says groups of {size}, which do not divide {columns} columns")))
        }
    }
}
