//! The description of a weight in the configuration.

use super::METHOD;
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::{Args, ModuleConfig, QuantConfig, Target};

/// The values that share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    Tensor,
    /// A row.
    Channel,
    /// This many columns of a row.
    Group(u64),
    /// A block of this many rows and columns.
    Block(u64, u64),
}

/// The arguments for weights in an entry of `config_groups`.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    /// The format; `None` if the configuration says only that there are several.
    pub format: Option<String>,
    pub bits: u8,
    pub is_float: bool,
    pub strategy: Strategy,
    pub symmetric: bool,
    /// Whether groups are in activation order, so that a group index is stored.
    pub reordered: bool,
    /// The version of the library that wrote the weights.
    version: Option<(u32, u32)>,
    /// Its place in the configuration, for messages.
    pub place: String,
}

/// The formats that are decoded, by this scheme or by FP8.
const FORMATS: [&str; 9] = [
    "pack-quantized",
    "int-quantized",
    "naive-quantized",
    "float-quantized",
    "nvfp4-pack-quantized",
    "mxfp4-pack-quantized",
    "mxfp6-pack-quantized",
    "mxfp8-quantized",
    "marlin-24",
];

/// The `format` of a model whose groups have formats of their own.
const MIXED: &str = "mixed-precision";

/// The first version known to pack all codes without gaps, and the last known to leave gaps.
const DENSE_SINCE: (u32, u32) = (0, 20);
const PADDED_UNTIL: (u32, u32) = (0, 11);

impl Spec {
    /// The descriptions in the groups that may apply to a module: at most one, unless the groups target classes,
    /// because a file does not record the class of a module. Empty without a configuration.
    pub(super) fn of_module(config: &QuantConfig, module: &ModuleConfig<'_>) -> Result<Vec<Self>> {
        if !config.is_present() {
            return Ok(Vec::new());
        }
        if let Some(says) =
            config.declared_quantisation().filter(|_| config.method().is_some_and(|method| method != METHOD))
        {
            return Err(AnamnesisError::parse(format!("it is packed as {METHOD} does, but {says}")));
        }
        let Some((target, groups)) = module.groups() else {
            let why = module.undecided().map_or_else(
                || format!("{} has no group of weights for it", config.file()),
                |problem| format!("its group cannot be determined: {problem}"),
            );
            return Err(AnamnesisError::parse(format!("it is packed, but {why}")));
        };
        let mut specs: Vec<Self> = Vec::new();
        for group in groups {
            match Self::read(group) {
                Ok(spec) if specs.iter().any(|other| other.is_like(&spec)) => {}
                Ok(spec) => specs.push(spec),
                // A group for a class of modules may not apply to this one.
                Err(_) if target == Target::Class && groups.len() > 1 => {}
                Err(error) => return Err(error),
            }
        }
        match &specs[..] {
            [first, .., last] if target != Target::Class => {
                let (first, last) = (&first.place, &last.place);
                Err(AnamnesisError::parse(format!("{first} and {last} both apply to it and contradict each other")))
            }
            [] => Err(AnamnesisError::parse(format!("it is packed, but no group of {} says how", config.file()))),
            _ => Ok(specs),
        }
    }

    /// Parses a group; missing members have the library's defaults.
    fn read(group: &Args<'_>) -> Result<Self> {
        let place = group.place().map_or_else(|| "the configuration".to_owned(), |place| place.to_string());
        let bits = group.needed_integer(&["num_bits"])?;
        let bits = bits.ok_or_else(|| AnamnesisError::parse(format!("{place} has no num_bits for its weights")))?.value;
        let bits = u8::try_from(bits)
            .ok()
            .filter(|bits| matches!(bits, 1..=8))
            .ok_or_else(|| AnamnesisError::unsupported(METHOD, format!("{place} says {bits} bits; 1 to 8 are read")))?;
        let is_float = match group.text(&["type"])? {
            Some("int") | None => false,
            Some("float") => true,
            Some(other) => {
                return Err(AnamnesisError::parse(format!(
                    "{place} says type {}; int and float are known",
                    quoted(other)
                )));
            }
        };
        let order = group.text(&["actorder"])?.map(str::to_ascii_lowercase);
        Ok(Self {
            format: group.text(&["format"])?.filter(|format| *format != MIXED).map(str::to_owned),
            bits,
            is_float,
            strategy: strategy(group, &place)?,
            symmetric: group.flag(&["symmetric"])?.unwrap_or(true),
            reordered: matches!(order.as_deref(), Some("group" | "dynamic")),
            version: group.text(&["version"])?.and_then(version),
            place,
        })
    }

    /// Whether another group describes weights in the same way.
    fn is_like(&self, other: &Self) -> bool {
        let key = |spec: &Self| (spec.bits, spec.is_float, spec.strategy, spec.symmetric, spec.reordered);
        key(self) == key(other) && self.format == other.format
    }

    /// Refuses weights whose format is not one of `stored_as`.
    pub(super) fn check_format(&self, stored_as: &[&str]) -> Result<()> {
        let Some(format) = self.format.as_deref() else { return Ok(()) };
        if stored_as.contains(&format) {
            return Ok(());
        }
        let what = format!("{} says format {}", self.place, quoted(format));
        Err(match FORMATS.contains(&format) || format == "dense" {
            true => AnamnesisError::parse(format!("{what}, but it is stored as {} is", stored_as.join(" or "))),
            false => AnamnesisError::unsupported(format, format!("{what}, which is not decoded")),
        })
    }

    /// Refuses weights of another type, or of bits that `bits` does not accept.
    pub(super) fn check_type(&self, is_float: bool, bits: impl Fn(u8) -> bool) -> Result<()> {
        if self.is_float == is_float && bits(self.bits) {
            return Ok(());
        }
        let (place, bits, kind) = (&self.place, self.bits, if self.is_float { "float" } else { "int" });
        Err(AnamnesisError::parse(format!(
            "{place} says {bits} bits of type {kind}, but the tensors do not store these"
        )))
    }

    /// Whether the version of the library that wrote the weights leaves no gaps between codes; `None` if unknown.
    pub(super) fn packs_densely(&self) -> Option<bool> {
        match self.version? {
            version if version >= DENSE_SINCE => Some(true),
            version if version <= PADDED_UNTIL => Some(false),
            _ => None,
        }
    }

    /// Whether the version of the library that wrote the weights never writes a group index.
    pub(super) fn omits_group_index(&self) -> bool {
        self.version.is_some_and(|version| version >= DENSE_SINCE)
    }
}

fn strategy(group: &Args<'_>, place: &str) -> Result<Strategy> {
    let size = group.integer(&["group_size"])?.map(|size| size.value);
    let fail = |what: String| AnamnesisError::parse(format!("{place} says {what}"));
    let positive = |size: Option<i64>| size.and_then(|size| u64::try_from(size).ok()).filter(|&size| size > 0);
    let text = match (group.text(&["strategy"])?, size) {
        (Some(text), _) => text,
        (None, None) => "tensor",
        (None, Some(-1)) => "channel",
        (None, Some(_)) => "group",
    };
    let strategy = match text {
        "tensor" => Strategy::Tensor,
        "channel" => Strategy::Channel,
        "group" | "tensor_group" => {
            let size = positive(size).ok_or_else(|| fail(format!("strategy {text} and groups of {size:?}")))?;
            return Ok(Strategy::Group(size));
        }
        "block" => {
            let block = group.pair(&["block_structure"])?;
            let (rows, cols) = block.ok_or_else(|| fail("strategy block and no block_structure".to_owned()))?;
            Strategy::Block(rows, cols)
        }
        other => {
            let detail = format!("{place} says strategy {}; tensor, channel, group and block are read", quoted(other));
            return Err(AnamnesisError::unsupported(METHOD, detail));
        }
    };
    match positive(size) {
        Some(size) => Err(fail(format!("strategy {text} and groups of {size}"))),
        None => Ok(strategy),
    }
}

/// The first two numbers of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_read_up_to_their_first_two_numbers() {
        assert_eq!(version("0.20.0"), Some((0, 20)));
        assert_eq!(version("0.9.3.dev12+g1a2b"), Some((0, 9)));
        assert_eq!(version("1.0"), Some((1, 0)));
        for text in ["", "0", "gemm", "0.x.1", "v0.1"] {
            assert_eq!(version(text), None, "{text}");
        }
    }
}
