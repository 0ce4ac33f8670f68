//! What configuration, metadata and caller say about one GPTQ weight.

use crate::error::{AnamnesisError, Result};
use crate::quant_config::{Args, GptqFormat, ModuleConfig};
use crate::scheme::claim::Claims;
use crate::scheme::coder::Evidence as Decided;
use crate::scheme::packed::{AutoRoundPacking, ZeroPoints, auto_round_packing};

/// What is said about a weight.
pub(super) struct Evidence {
    pub zeros: Zeros,
    /// Whether codes of three bits are said to lie in planes.
    pub planar: bool,
    pub bits: Option<Said>,
    pub group_size: Option<Said>,
    pub symmetric: Option<bool>,
    /// What says that it is GPTQ.
    pub decided: Decided,
    /// Where it is said that inputs are grouped by activation, so that only an index tells their groups.
    pub reordered: Option<String>,
}

/// What is said about zero points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zeros {
    /// How they are stored.
    Told(ZeroPoints),
    /// Nothing, by a tool that stores them less one unless they show otherwise.
    Usual,
    /// Nothing.
    Open,
}

/// A number, and where it is said.
pub(super) struct Said {
    pub value: i64,
    pub source: String,
}

/// Members of `__metadata__` that AutoGPTQ writes.
const METADATA: [&str; 3] = ["gptq_bits", "gptq_group_size", "gptq_desc_act"];

/// The formats that `checkpoint_format` may name.
const FORMATS: [&str; 3] = ["gptq", "gptq_v2", "gptq_p"];

impl Evidence {
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
        let number = |text: Option<&str>| Some(Said { value: text?.parse().ok()?, source: "__metadata__".to_owned() });
        let said = |keys: &[&'static str]| -> Result<Option<Said>> {
            // A rule that cannot be read may be one for this module: the shapes decide.
            if module.undecided().is_some() {
                return Ok(None);
            }
            let said = args.needed_integer(keys)?;
            Ok(said.map(|said| Said { value: said.value, source: said.place.document().to_owned() }))
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
                .is_some_and(|said| said.eq_ignore_ascii_case("gptq_p")),
            zeros: zeros(claims, args, number(bits).is_some())?,
            bits: said(&["bits"])?.or(number(bits)),
            group_size: said(&["group_size"])?.or(number(group_size)),
            symmetric: args.flag(&["sym"])?,
            decided: match claims.evidence(&["quant_method", "packing_format", "bits"]) {
                Decided::Names if bits.is_some() => Decided::Metadata(METADATA[0].to_owned()),
                decided => decided,
            },
            reordered,
        })
    }
}

fn zeros(claims: &Claims<'_>, args: &Args<'_>, is_auto_gptq: bool) -> Result<Zeros> {
    let config = claims.config;
    let packing = auto_round_packing(config, args)?;
    let format = args.text(&["checkpoint_format", "format"])?.map(str::to_ascii_lowercase);
    if let Some(other) = format.as_deref().filter(|format| !FORMATS.contains(format)) {
        return Err(refused_format(other));
    }
    let told = match (packing, format.as_deref()) {
        (Some(AutoRoundPacking::LessOne), Some("gptq_v2" | "gptq_p"))
        | (Some(AutoRoundPacking::AsTheyAre), Some("gptq")) => {
            let file = config.file();
            return Err(AnamnesisError::parse(format!(
                "{file} names a packing and a checkpoint_format that contradict it"
            )));
        }
        (Some(AutoRoundPacking::LessOne), _) => Zeros::Told(ZeroPoints::OneMore),
        (Some(AutoRoundPacking::AsTheyAre), _) => Zeros::Told(ZeroPoints::Stored),
        (Some(AutoRoundPacking::Awq), _) => return Err(refused_format("AWQ")),
        (None, Some("gptq")) => Zeros::Told(ZeroPoints::OneMore),
        (None, Some(_)) => Zeros::Told(ZeroPoints::Stored),
        (None, None) if matches!(config.method(), Some("gptq" | "gptq_marlin")) || is_auto_gptq => Zeros::Usual,
        // Older files say how many bits there are, and not by which method.
        (None, None) if config.method().is_none() && args.integer(&["bits"])?.is_some() => Zeros::Usual,
        (None, None) => Zeros::Open,
    };
    Ok(match config.gptq_format() {
        Some(GptqFormat::V1) => Zeros::Told(ZeroPoints::OneMore),
        Some(GptqFormat::V2) => Zeros::Told(ZeroPoints::Stored),
        None => told,
    })
}

fn refused_format(format: &str) -> AnamnesisError {
    AnamnesisError::unsupported(
        format,
        "GPTQ checkpoints are read in the formats gptq, gptq_v2 and gptq_p; this one packs differently",
    )
}
