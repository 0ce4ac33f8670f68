//! The geometry of a Marlin weight, from the shapes of its parts and the configuration.

use std::sync::Arc;

use super::decoder::Tiled;
use super::parts::{Form, Parts};
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::Args;
use crate::scheme::claim::{Blocks, Claims, QuantScheme, Weight};
use crate::scheme::coder::{Coding, Evidence, Recipe};
use crate::scheme::packed::InputGroups;

const BITS: u8 = 4;
/// The inputs and outputs of a tile.
const TILE: (u64, u64) = (16, 64);

pub(super) fn weight(claims: &Claims<'_>, parts: &Parts) -> Result<Weight> {
    let codes = claims.catalog.get(parts.codes);
    let module = claims.config.module(&parts.module);
    let args = module.args();
    if let Some(left) = module.exclusion() {
        return Err(AnamnesisError::parse(format!("it is packed, but {left}")));
    }
    let key = parts.form.configured_by(claims.config.method(), args)?;
    if key.is_none() && claims.config.is_present() {
        let file = claims.config.file();
        return Err(AnamnesisError::parse(format!("it is packed as Marlin does, and {file} does not say so")));
    }
    check(parts.form, args)?;
    if let Some(unexpected) = parts.unexpected {
        let name = quoted(&claims.catalog.get(unexpected).name);
        return Err(AnamnesisError::parse(format!("it has the companion {name}, which Marlin weights do not have")));
    }
    let scale_name = format!("{}{}", parts.module, parts.form.scales());
    let scale_id = parts.scales.ok_or_else(|| claims.missing(&scale_name))?;
    let scales = claims.catalog.get(scale_id);
    if !matches!(codes.dtype, Dtype::I32 | Dtype::U32) || scales.dtype != Dtype::F16 {
        let (name, dtype) = (quoted(&scales.name), scales.dtype);
        let text = format!("codes are {} and {name} is {dtype}; I32 and F16 are needed", codes.dtype);
        return Err(AnamnesisError::parse(text));
    }
    let misfit = || {
        AnamnesisError::parse(format!(
            "words of shape {:?} and {} of shape {:?} are not tiles of 16 inputs by 64 outputs with their scales",
            codes.shape,
            quoted(&scales.name),
            scales.shape
        ))
    };
    let (&[rows, words], &[groups, outputs]) = (&codes.shape[..], &scales.shape[..]) else { return Err(misfit()) };
    let [rows, words, groups, outputs] = [rows, words, groups, outputs].map(|size| size as u64);
    let inputs = rows.checked_mul(TILE.0).ok_or_else(misfit)?;
    let fits = outputs.checked_mul(2) == Some(words) && outputs.is_multiple_of(TILE.1);
    if !fits || rows == 0 || outputs == 0 || groups == 0 || !inputs.is_multiple_of(groups) {
        return Err(misfit());
    }
    let group_size = args.needed_integer(&["group_size", "q_group_size"])?;
    let file = group_size.map_or("the shapes", |size| size.place.document());
    let configured = group_size.map(|size| size.value);
    let grouped = InputGroups { inputs, groups, configured, file, is_indexed: false };
    let run = grouped.run(Some(inputs / groups)).map_err(AnamnesisError::parse)?;
    if run.checked_mul(groups) != Some(inputs) {
        return Err(AnamnesisError::parse(format!("{groups} groups of {run} are not {inputs} inputs ({file})")));
    }
    let values = inputs.checked_mul(outputs).ok_or_else(misfit)?;
    let name = format!("{}.weight", parts.module);
    claims.check_output(&name)?;
    let place = key.and_then(|key| args.place_of(&[key, "format"]));
    Ok(Weight {
        name,
        shape: vec![outputs as usize, inputs as usize],
        values,
        scheme: QuantScheme::Named("Marlin"),
        blocks: Some(Blocks { bits: BITS, size: run, nested: false }),
        coding: Coding {
            format: "marlin".to_owned(),
            bits: Some(BITS),
            group_size: Some(run),
            block_shape: None,
            symmetric: Some(true),
            evidence: place.map_or(Evidence::Names, Evidence::Configuration),
        },
        parts: vec![parts.codes, scale_id],
        recipe: Recipe::Ready(Arc::new(Tiled { inputs, outputs, groups })),
    })
}

/// Refuses a configuration that this layout cannot represent.
fn check(form: Form, args: &Args<'_>) -> Result<()> {
    let refuse = |what: String| Err(AnamnesisError::unsupported("Marlin", what));
    if let Some(bits) = args.needed_integer(&["bits", "w_bit"])?.filter(|bits| bits.value != i64::from(BITS)) {
        return refuse(format!("{} says {} bits, Marlin is read in {BITS}", bits.place.document(), bits.value));
    }
    let (key, has_zeros) = match form {
        Form::AutoGptq => ("sym", args.flag(&["sym"])? == Some(false)),
        Form::AutoAwq => ("zero_point", args.flag(&["zero_point"])? == Some(true)),
    };
    if has_zeros {
        return refuse(format!("{} says there are zero points, which Marlin does not store", place(args, key)));
    }
    if args.flag(&["desc_act"])? == Some(true) {
        return refuse(format!(
            "{} says inputs are in activation order, which Marlin does not store",
            place(args, "desc_act")
        ));
    }
    Ok(())
}

fn place(args: &Args<'_>, key: &'static str) -> String {
    args.place_of(&[key]).unwrap_or_default()
}
