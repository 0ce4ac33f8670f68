//! AWQ: 4 bits with a scale and a zero point per group of inputs and output, in the GEMM layout.
//!
//! | tensor | type | shape |
//! |---|---|---|
//! | `X.qweight` | I32 | `[in, out/8]`, column `j` in nibble `[0,4,1,5,2,6,3,7][j % 8]` |
//! | `X.qzeros` | I32 | `[groups, out/8]`, the same order |
//! | `X.scales` | F16, BF16, F32 | `[groups, out]` |
//!
//! The GEMV layouts, Marlin and llm-awq pack differently and are refused by name, and so is a weight without zero points,
//! which no library writes.

use std::sync::Arc;

use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::packed::{ColumnDecoder, Grouping, Groups, PackedMatrix, Parts, Words, ZeroPoints};
use crate::scheme::{About, Blocks, Claims, QuantScheme, Recipe, ScaleType, Scheme, Weight};

/// The AWQ scheme.
pub(crate) struct Awq;

impl Scheme for Awq {
    fn about(&self) -> About {
        About::Decoded("AWQ", "4 bits, GEMM layout")
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
    check_config(claims)
        .map_err(|(format, detail)| AnamnesisError::unsupported(format, format!("tensor {name}: {detail}")))?;
    let (qzeros, scales) = parts.needed(claims)?;
    let (scale_tensor, zero_tensor) = (claims.catalog.get(scales), claims.catalog.get(qzeros));
    if parts.g_idx.is_some() {
        return Err(fail("has a group index, which AWQ does not know".to_owned()));
    }
    let (&[inputs, words], &[zero_groups, zero_words], &[groups, outputs]) =
        (&tensor.shape[..], &zero_tensor.shape[..], &scale_tensor.shape[..])
    else {
        return Err(fail("qweight, qzeros and scales must be matrices".to_owned()));
    };
    if !matches!(zero_tensor.dtype, Dtype::I32 | Dtype::U32) {
        return Err(fail(format!("{} is {}; I32 is needed", quoted(&zero_tensor.name), zero_tensor.dtype)));
    }
    let fits = words.checked_mul(8) == Some(outputs) && zero_words == words && zero_groups == groups;
    if !fits || groups == 0 || inputs == 0 || outputs == 0 {
        let shapes = format!("{:?}, {:?} and {:?}", tensor.shape, zero_tensor.shape, scale_tensor.shape);
        return Err(fail(format!("qweight, qzeros and scales of shapes {shapes} do not go together in 4 bits")));
    }
    let scale = ScaleType::of_float(scale_tensor.dtype).ok_or_else(|| {
        let detail = format!("{} is {}; F16, BF16 and F32 are read", quoted(&scale_tensor.name), scale_tensor.dtype);
        AnamnesisError::unsupported("AWQ", detail)
    })?;
    let config = claims.config;
    let said = config.get(&["group_size"]).or_else(|| config.get(&["q_group_size"]));
    let grouped = Groups {
        inputs: inputs as u64,
        groups: groups as u64,
        said: said.and_then(serde_json::Value::as_i64),
        file: config.file(),
        is_indexed: false,
    };
    // AWQ has whole groups only.
    let run = grouped.run(inputs.is_multiple_of(groups).then_some((inputs / groups) as u64)).map_err(fail)?;
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
        parts: vec![parts.qweight, qzeros, scales],
        recipe: Recipe::Ready(Arc::new(ColumnDecoder { matrix, description })),
    })
}

/// The format that the configuration names instead of the one that is read, with what to say about it.
fn check_config(claims: &Claims<'_>) -> std::result::Result<(), (String, String)> {
    let config = claims.config;
    let refuse = |format: &str| Err((format.to_owned(), "AWQ checkpoints are read in the GEMM layout".to_owned()));
    if let Some(packing) = config.text(&["packing_format"]).filter(|&packing| packing != "auto_round:auto_awq") {
        return refuse(packing);
    }
    match config.text(&["version"]).map(str::to_ascii_lowercase).as_deref() {
        None | Some("gemm") => {}
        Some(other) if config.method() == Some("awq") => return refuse(&format!("AWQ {other}")),
        Some(_) => {}
    }
    match config.get(&["bits"]).or_else(|| config.get(&["w_bit"])).and_then(serde_json::Value::as_i64) {
        None | Some(4) => Ok(()),
        Some(bits) => Err(("AWQ".to_owned(), format!("{} says {bits} bits, AWQ is read in 4", config.file()))),
    }
}
