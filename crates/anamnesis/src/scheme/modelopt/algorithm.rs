//! The algorithm (`quant_algo`) and group size of a module in ModelOpt's configuration.

use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::{Args, Integer, ModuleConfig, QuantConfig, Target};

/// A four-bit algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Nvfp4,
    Mxfp4,
    /// Integers; a byte holds codes of two rows.
    Int4,
}

impl Algorithm {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nvfp4 => "NVFP4",
            Self::Mxfp4 => "MXFP4",
            Self::Int4 => "W4A16_AWQ",
        }
    }

    /// The default group size.
    pub(super) const fn default_group(self) -> u64 {
        match self {
            Self::Nvfp4 => 16,
            Self::Mxfp4 => 32,
            Self::Int4 => 128,
        }
    }

    /// The type of codes, as `config_groups` name it.
    const fn kind(self) -> &'static str {
        match self {
            Self::Nvfp4 | Self::Mxfp4 => "float",
            Self::Int4 => "int",
        }
    }

    /// The algorithm in the configuration; `None` if it has no `quant_algo`.
    pub(super) fn configured(config: &QuantConfig, module: &ModuleConfig<'_>) -> Result<Option<Self>> {
        let args = module.args();
        let place = || args.place_of(&["quant_algo"]).unwrap_or_default();
        match args.text(&["quant_algo"])? {
            Some("NVFP4" | "W4A16_NVFP4" | "NVFP4_AWQ" | "W4A8_NVFP4_FP8") => Ok(Some(Self::Nvfp4)),
            Some("MXFP4" | "W4A8_MXFP4_FP8") => Ok(Some(Self::Mxfp4)),
            Some("W4A16_AWQ") => Ok(Some(Self::Int4)),
            Some("W4A8_AWQ") => {
                let why =
                    format!("{} says so: its weights are rounded a second time, to E4M3 with a global scale", place());
                Err(AnamnesisError::unsupported("ModelOpt W4A8_AWQ", why))
            }
            Some("NVFP4_SVD") => Err(AnamnesisError::unsupported("ModelOpt NVFP4_SVD", format!("{} says so", place()))),
            Some("MIXED_PRECISION") => {
                Err(AnamnesisError::parse(format!("{} is MIXED_PRECISION, and its own algorithm is missing", place())))
            }
            Some(name) => {
                Err(AnamnesisError::parse(format!("it is packed in bytes, and {} is {}", place(), quoted(name))))
            }
            None => match config.method() {
                Some(method) if !method.starts_with("modelopt") => Err(AnamnesisError::parse(format!(
                    "it is packed as ModelOpt does, and {} says it is quantised by {}",
                    config.file(),
                    quoted(method)
                ))),
                _ => Ok(None),
            },
        }
    }
}

/// The group size in the configuration. A module whose `config_groups` have codes of another type is refused.
pub(super) fn configured_group(algorithm: Algorithm, module: &ModuleConfig<'_>) -> Result<Option<u64>> {
    if let Some(why) = module.undecided() {
        return Err(AnamnesisError::parse(why));
    }
    let (target, groups) = module.groups().unwrap_or((Target::Class, &[]));
    let mut fitting = Vec::new();
    for group in groups {
        let (kind, bits) = (group.text(&["type"])?, group.integer(&["num_bits"])?.map(|bits| bits.value));
        let is_kind = kind.is_none_or(|kind| kind == algorithm.kind());
        if is_kind && matches!(bits, Some(4) | None) {
            fitting.push(group);
        }
    }
    // The class of a module is not known from its name, so one fitting group for a class is enough.
    let applies = if target == Target::Class { !fitting.is_empty() } else { fitting.len() == groups.len() };
    if let Some(place) = groups.first().and_then(Args::place).filter(|_| !applies) {
        return Err(AnamnesisError::parse(format!("{place} says its codes are not four-bit {}s", algorithm.kind())));
    }
    let mut size: Option<Integer<'_>> = None;
    for args in fitting.into_iter().chain([module.args()]) {
        let Some(found) = args.integer(&["group_size"])? else { continue };
        match size {
            Some(first) if first.value != found.value => {
                let (a, b) = (first.value, found.value);
                let text = format!("{} says groups of {a}, {} says {b}", first.place, found.place);
                return Err(AnamnesisError::parse(text));
            }
            _ => size = Some(found),
        }
    }
    let Some(found) = size else { return Ok(None) };
    match u64::try_from(found.value).ok().filter(|&size| size > 0) {
        Some(size) => Ok(Some(size)),
        None => Err(AnamnesisError::parse(format!("{} says groups of {}", found.place, found.value))),
    }
}
