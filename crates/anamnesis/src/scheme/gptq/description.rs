//! The description of a GPTQ weight in the configuration, the metadata and the caller's options.

use crate::error::{AnamnesisError, Result};
use crate::quant_config::{Args, GptqFormat, ModuleConfig};
use crate::scheme::claim::Claims;
use crate::scheme::coder::Evidence;
use crate::scheme::packed::{AutoRoundPacking, ZeroPoints, auto_round_packing};

/// The description of a weight.
pub(super) struct GptqDescription {
    pub zeros: ZeroPointFormat,
    /// Whether codes of three bits are stored in bit planes.
    pub planar: bool,
    pub bits: Option<Configured>,
    pub group_size: Option<Configured>,
    pub symmetric: Option<bool>,
    /// The evidence that it is GPTQ.
    pub evidence: Evidence,
    /// The document that says that inputs are grouped in activation order, so that a group index is needed.
    pub reordered: Option<String>,
}

/// How zero points are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZeroPointFormat {
    /// The format in the description.
    Known(ZeroPoints),
    /// Not described, but written by a tool that stores them less one by default.
    Default,
    /// Unknown.
    Unknown,
}

/// A number, and the document it comes from.
pub(super) struct Configured {
    pub value: i64,
    pub source: String,
}

/// Members of `__metadata__` that AutoGPTQ writes.
const METADATA: [&str; 3] = ["gptq_bits", "gptq_group_size", "gptq_desc_act"];

/// The formats that `checkpoint_format` may name.
const FORMATS: [&str; 3] = ["gptq", "gptq_v2", "gptq_p"];

impl GptqDescription {
    pub(super) fn read(claims: &Claims<'_>, module: &ModuleConfig<'_>) -> Result<Self> {
        let args = module.args();
        if args.flag(&["is_marlin_format"])? == Some(true) {
            return Err(refused_format("marlin"));
        }
        if let Some(left) = module.exclusion().filter(|left| left.is_rule) {
            return Err(AnamnesisError::parse(format!("it is packed, but {left}")));
        }
        let metadata = |key: &str| claims.catalog.metadata.as_ref()?.get(key)?.as_string();
        let [bits, group_size, desc_act] = METADATA.map(metadata);
        let number =
            |text: Option<&str>| Some(Configured { value: text?.parse().ok()?, source: "__metadata__".to_owned() });
        let configured = |keys: &[&'static str]| -> Result<Option<Configured>> {
            // A rule that cannot be parsed may or may not match this module: the shapes decide.
            if module.undecided().is_some() {
                return Ok(None);
            }
            let found = args.needed_integer(keys)?;
            Ok(found.map(|found| Configured { value: found.value, source: found.place.document().to_owned() }))
        };
        let is_static = args.flag(&["static_groups"])? == Some(true);
        let reordered = match args.flag(&["desc_act"])? {
            Some(true) if !is_static => Some(claims.config.file().to_owned()),
            None if desc_act.is_some_and(|text| text.eq_ignore_ascii_case("true")) => Some("__metadata__".to_owned()),
            _ => None,
        };
        Ok(Self {
            planar: args
                .text(&["checkpoint_format", "format"])?
                .is_some_and(|format| format.eq_ignore_ascii_case("gptq_p")),
            zeros: zeros(claims, args, number(bits).is_some())?,
            bits: configured(&["bits"])?.or(number(bits)),
            group_size: configured(&["group_size"])?.or(number(group_size)),
            symmetric: args.flag(&["sym"])?,
            evidence: match claims.evidence(&["quant_method", "packing_format", "bits"]) {
                Evidence::Names if bits.is_some() => Evidence::Metadata(METADATA[0].to_owned()),
                evidence => evidence,
            },
            reordered,
        })
    }
}

fn zeros(claims: &Claims<'_>, args: &Args<'_>, is_auto_gptq: bool) -> Result<ZeroPointFormat> {
    let config = claims.config;
    let packing = auto_round_packing(config, args)?;
    let format = args.text(&["checkpoint_format", "format"])?.map(str::to_ascii_lowercase);
    if let Some(other) = format.as_deref().filter(|format| !FORMATS.contains(format)) {
        return Err(refused_format(other));
    }
    let described = match (packing, format.as_deref()) {
        (Some(AutoRoundPacking::GptqV1), Some("gptq_v2" | "gptq_p"))
        | (Some(AutoRoundPacking::GptqV2), Some("gptq")) => {
            let file = config.file();
            return Err(AnamnesisError::parse(format!(
                "{file} names a packing and a checkpoint_format that contradict it"
            )));
        }
        (Some(AutoRoundPacking::GptqV1), _) => ZeroPointFormat::Known(ZeroPoints::PlusOne),
        (Some(AutoRoundPacking::GptqV2), _) => ZeroPointFormat::Known(ZeroPoints::Stored),
        (Some(AutoRoundPacking::Awq), _) => return Err(refused_format("AWQ")),
        (None, Some("gptq")) => ZeroPointFormat::Known(ZeroPoints::PlusOne),
        (None, Some(_)) => ZeroPointFormat::Known(ZeroPoints::Stored),
        (None, None) if matches!(config.method(), Some("gptq" | "gptq_marlin")) || is_auto_gptq => {
            ZeroPointFormat::Default
        }
        // Older configurations have the number of bits, but no method.
        (None, None) if config.method().is_none() && args.integer(&["bits"])?.is_some() => ZeroPointFormat::Default,
        (None, None) => ZeroPointFormat::Unknown,
    };
    Ok(match config.gptq_format() {
        Some(GptqFormat::V1) => ZeroPointFormat::Known(ZeroPoints::PlusOne),
        Some(GptqFormat::V2) => ZeroPointFormat::Known(ZeroPoints::Stored),
        None => described,
    })
}

fn refused_format(format: &str) -> AnamnesisError {
    AnamnesisError::unsupported(
        format,
        "GPTQ checkpoints are read in the formats gptq, gptq_v2 and gptq_p; this one packs differently",
    )
}
