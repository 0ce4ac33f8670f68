//! Which algorithm of ModelOpt the configuration says a module has.

use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::{Args, Integer, ModuleConfig, QuantConfig, Target};

/// Codes of four bits in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Nvfp4,
    Mxfp4,
    /// Integers, of two rows in a byte.
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

    /// Codes under one scale, where nobody says.
    pub(super) const fn usual_group(self) -> u64 {
        match self {
            Self::Nvfp4 => 16,
            Self::Mxfp4 => 32,
            Self::Int4 => 128,
        }
    }

    /// The type of codes as the groups of a configuration call it.
    const fn kind(self) -> &'static str {
        match self {
            Self::Nvfp4 | Self::Mxfp4 => "float",
            Self::Int4 => "int",
        }
    }

    /// What the configuration says; `None` where it says nothing of the algorithm.
    pub(super) fn told(config: &QuantConfig, module: &ModuleConfig<'_>) -> Result<Option<Self>> {
        let args = module.args();
        let place = || args.place_of(&["quant_algo"]).unwrap_or_default();
        match args.text(&["quant_algo"])? {
            Some("NVFP4" | "W4A16_NVFP4" | "NVFP4_AWQ" | "W4A8_NVFP4_FP8") => Ok(Some(Self::Nvfp4)),
            Some("MXFP4" | "W4A8_MXFP4_FP8") => Ok(Some(Self::Mxfp4)),
            Some("W4A16_AWQ") => Ok(Some(Self::Int4)),
            Some("W4A8_AWQ") => {
                let why = format!("{} says so: its weights are rounded to E4M3 once more, by a scale of all", place());
                Err(AnamnesisError::unsupported("ModelOpt W4A8_AWQ", why))
            }
            Some("NVFP4_SVD") => Err(AnamnesisError::unsupported("ModelOpt NVFP4_SVD", format!("{} says so", place()))),
            Some("MIXED_PRECISION") => {
                Err(AnamnesisError::parse(format!("{} is MIXED_PRECISION, and nothing says its own", place())))
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

/// The size of groups that the configuration says; refuses a module that its groups say is of other codes.
pub(super) fn told_group(algorithm: Algorithm, module: &ModuleConfig<'_>) -> Result<Option<u64>> {
    if let Some(why) = module.undecided() {
        return Err(AnamnesisError::parse(why));
    }
    let (target, groups) = module.groups().unwrap_or((Target::Class, &[]));
    let mut fitting = Vec::new();
    for group in groups {
        let said = (group.text(&["type"])?, group.integer(&["num_bits"])?.map(|bits| bits.value));
        let is_kind = said.0.is_none_or(|kind| kind == algorithm.kind());
        if is_kind && matches!(said.1, Some(4) | None) {
            fitting.push(group);
        }
    }
    // Which class a module is of, its name does not tell: one of them will do.
    let is_meant = if target == Target::Class { !fitting.is_empty() } else { fitting.len() == groups.len() };
    if let Some(place) = groups.first().and_then(Args::place).filter(|_| !is_meant) {
        return Err(AnamnesisError::parse(format!("{place} says it is not of four-bit {}s", algorithm.kind())));
    }
    let mut told: Option<Integer<'_>> = None;
    for args in fitting.into_iter().chain([module.args()]) {
        let Some(said) = args.integer(&["group_size"])? else { continue };
        match told {
            Some(first) if first.value != said.value => {
                let (a, b) = (first.value, said.value);
                let text = format!("{} says groups of {a}, {} says {b}", first.place, said.place);
                return Err(AnamnesisError::parse(text));
            }
            _ => told = Some(said),
        }
    }
    let Some(said) = told else { return Ok(None) };
    match u64::try_from(said.value).ok().filter(|&size| size > 0) {
        Some(size) => Ok(Some(size)),
        None => Err(AnamnesisError::parse(format!("{} says groups of {}", said.place, said.value))),
    }
}
