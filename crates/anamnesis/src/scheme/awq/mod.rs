//! AWQ in the GEMM layout: 4-bit codes with a scale and a zero point for each output and group of inputs.
//!
//! | tensor | type | shape |
//! |---|---|---|
//! | `X.qweight` | I32 | `[in, out/8]`, column `j` in nibble `[0,4,1,5,2,6,3,7][j % 8]` |
//! | `X.qzeros` | I32 | `[groups, out/8]`, the same order |
//! | `X.scales` | F16, BF16, F32 | `[groups, out]` |
//!
//! The GEMV layouts and llm-awq pack differently and are refused by name, and so is a weight without zero points, which
//! no library writes. Weights repacked for Marlin are decoded by [`marlin`](super::marlin).

#[cfg(feature = "encode")]
mod quantiser;

use std::sync::Arc;

use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::{Args, QuantConfig};
use crate::scheme::claim::{About, Blocks, Claims, PartName, QuantScheme, Scheme, Weight};
use crate::scheme::coder::{Coding, Recipe, ScaleType};
use crate::scheme::packed::{
    AutoRoundPacking, ColumnDecoder, Dialect, Grouping, InputGroups, PART_NAMES, PackedMatrix, Parts, Words,
    ZeroPoints, auto_round_packing,
};

#[cfg(feature = "encode")]
pub(crate) use quantiser::ENCODINGS;

/// The AWQ scheme.
pub(crate) struct Awq;

impl Scheme for Awq {
    fn about(&self) -> About {
        About::Decoded("AWQ", "4 bits, GEMM layout")
    }

    fn part_names(&self) -> Vec<PartName> {
        PART_NAMES.to_vec()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        for qweight in Parts::candidates(claims) {
            let parts = Parts::take(claims, qweight);
            match awq_weight(claims, &parts) {
                Ok(weight) => claims.add(weight),
                Err(problem) => claims.refuse(problem),
            }
        }
    }
}

fn awq_weight(claims: &Claims<'_>, parts: &Parts) -> Result<Weight> {
    let tensor = claims.catalog.get(parts.qweight);
    let name = quoted(&tensor.name);
    let fail = |what: String| AnamnesisError::parse(format!("tensor {name}: {what}"));
    let in_tensor = |error: AnamnesisError| error.in_tensor(&tensor.name);
    let module = claims.config.module(parts.module(claims));
    check_config(claims.config, module.args()).map_err(in_tensor)?;
    let (qzeros, scales) = parts.needed(claims)?;
    let (scale_tensor, zero_tensor) = (claims.catalog.get(scales), claims.catalog.get(qzeros));
    if parts.g_idx.is_some() {
        return Err(fail("has a group index, which AWQ does not have".to_owned()));
    }
    let (&[inputs, words], &[zero_groups, zero_words], &[groups, outputs]) =
        (&tensor.shape[..], &zero_tensor.shape[..], &scale_tensor.shape[..])
    else {
        return Err(fail("qweight, qzeros and scales must be matrices".to_owned()));
    };
    let fits = words.checked_mul(8) == Some(outputs) && zero_words == words && zero_groups == groups;
    if !fits || groups == 0 || inputs == 0 || outputs == 0 {
        let shapes = format!("{:?}, {:?} and {:?}", tensor.shape, zero_tensor.shape, scale_tensor.shape);
        return Err(fail(format!("qweight, qzeros and scales of shapes {shapes} do not go together in 4 bits")));
    }
    let scale = ScaleType::of_float(scale_tensor.dtype).ok_or_else(|| {
        let detail = format!("{} is {}; F16, BF16 and F32 are read", quoted(&scale_tensor.name), scale_tensor.dtype);
        AnamnesisError::unsupported("AWQ", detail)
    })?;
    let group_size = module.args().needed_integer(&["group_size", "q_group_size"]).map_err(in_tensor)?;
    let grouped = InputGroups {
        inputs: inputs as u64,
        groups: groups as u64,
        configured: group_size.map(|size| size.value),
        file: group_size.map_or("the shapes", |size| size.place.document()),
        is_indexed: false,
    };
    let run = grouped.run(inputs.is_multiple_of(groups).then_some((inputs / groups) as u64)).map_err(fail)?;
    if run.checked_mul(groups as u64) != Some(inputs as u64) {
        return Err(fail(format!(
            "{groups} groups of {run} are not {inputs} inputs ({}); AWQ has whole groups",
            grouped.file
        )));
    }
    let matrix = PackedMatrix {
        words: Words::Awq,
        inputs: inputs as u64,
        outputs: outputs as u64,
        groups: groups as u64,
        grouping: Grouping::Runs(run),
        zeros: ZeroPoints::Stored,
        scale,
    };
    let description =
        if groups == 1 { "AWQ 4-bit, one group".to_owned() } else { format!("AWQ 4-bit, groups of {run}") };
    Ok(Weight {
        name: parts.output_name(claims),
        shape: vec![outputs, inputs],
        values: matrix.inputs.saturating_mul(matrix.outputs),
        scheme: QuantScheme::Awq,
        blocks: Some(Blocks { bits: 4, size: run, nested: false }),
        coding: Coding {
            format: "gemm".to_owned(),
            bits: Some(4),
            group_size: Some(run),
            block_shape: None,
            symmetric: Some(false),
            evidence: claims.evidence(&["quant_method", "packing_format"]),
        },
        parts: vec![parts.qweight, qzeros, scales],
        recipe: Recipe::Ready(Arc::new(ColumnDecoder {
            matrix,
            is_planar: false,
            dialect: Dialect::Default,
            description,
        })),
    })
}

/// Refuses a weight that the configuration describes as packed in another layout.
fn check_config(config: &QuantConfig, args: &Args<'_>) -> Result<()> {
    let refuse = |format: &str| Err(AnamnesisError::unsupported(format, "AWQ checkpoints are read in the GEMM layout"));
    if auto_round_packing(config, args)?.is_some_and(|packing| packing != AutoRoundPacking::Awq) {
        return refuse(args.text(&["packing_format", "backend"])?.unwrap_or("auto-round"));
    }
    if matches!(config.method(), Some("awq" | "awq_marlin")) {
        if args.text(&["backend"])? == Some("llm-awq") {
            return refuse("llm-awq");
        }
        let version = args.text(&["version", "format"])?.map(str::to_ascii_lowercase);
        if let Some(version) = version.filter(|version| version != "gemm") {
            return refuse(&format!("AWQ {version}"));
        }
    }
    match args.needed_integer(&["bits", "w_bit"])? {
        Some(bits) if bits.value != 4 => {
            let (bits, document) = (bits.value, bits.place.document());
            Err(AnamnesisError::unsupported("AWQ", format!("{document} says {bits} bits, AWQ is read in 4")))
        }
        _ => Ok(()),
    }
}
