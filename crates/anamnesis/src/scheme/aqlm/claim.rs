//! Claiming AQLM weights by their codes.

use std::sync::Arc;

use super::decoder::Additive;
use crate::catalog::{Dtype, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{About, Claims, Confidence, PartName, QuantScheme, Scheme, TensorRole, Weight};
use crate::scheme::coder::{Coding, Recipe, ScaleType};

/// The AQLM scheme.
pub(crate) struct Aqlm;

const NAME: &str = "AQLM";
const METHOD: &str = "aqlm";
const CODES: &str = ".codes";
const CODEBOOKS: &str = ".codebooks";
const SCALES: &str = ".scales";

impl Scheme for Aqlm {
    fn about(&self) -> About {
        About::Decoded(NAME, "any number of codebooks of up to 16 bits, groups of inputs and outputs")
    }

    fn part_names(&self) -> Vec<PartName> {
        vec![
            PartName::new(CODES, CODES, Confidence::Weak),
            // GPTQ lists the scales.
            PartName::new(CODEBOOKS, CODES, Confidence::IfConfigured),
        ]
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let is_named = claims.config.method().is_some_and(|method| method.eq_ignore_ascii_case(METHOD));
        let is_other = claims.config.method().is_some() && !is_named;
        if is_other {
            return;
        }
        let codes = claims.unclaimed().filter(|(_, tensor)| {
            let Some(module) = tensor.name.strip_suffix(CODES) else { return false };
            let books = format!("{module}{CODEBOOKS}");
            let is_integer = matches!(tensor.dtype, Dtype::I8 | Dtype::I16 | Dtype::U8 | Dtype::I32 | Dtype::I64);
            is_integer && (is_named || claims.catalog.find(&books).is_some() || claims.elsewhere(&books).is_some())
        });
        let codes: Vec<_> = codes.map(|(id, _)| id).collect();
        for id in codes {
            claim_weight(claims, id);
        }
    }
}

fn claim_weight(claims: &mut Claims<'_>, codes: TensorId) {
    let name = &claims.catalog.get(codes).name;
    let module = name.strip_suffix(CODES).unwrap_or(name);
    claims.take(codes, TensorRole::Quantized);
    let mut companion = |suffix: &str, role| claims.take_companion(&format!("{module}{suffix}"), role);
    let found = [companion(CODEBOOKS, TensorRole::QuantMap), companion(SCALES, TensorRole::Scale)];
    match weight(claims, module, codes, found) {
        Ok(weight) => claims.add(weight),
        Err(problem) => claims.refuse(problem.in_tensor(name)),
    }
}

fn weight(claims: &Claims<'_>, module: &str, id: TensorId, found: [Option<TensorId>; 2]) -> Result<Weight> {
    let catalog = claims.catalog;
    let needed = |id: Option<TensorId>, suffix: &str| id.ok_or_else(|| claims.missing(&format!("{module}{suffix}")));
    let (book_id, scale_id) = (needed(found[0], CODEBOOKS)?, needed(found[1], SCALES)?);
    let [codes, books, scales] = [id, book_id, scale_id].map(|id| catalog.get(id));
    let misfit = |part: &crate::catalog::StoredTensor| {
        let (name, dtype, shape) = (quoted(&part.name), part.dtype, &part.shape);
        AnamnesisError::parse(format!(
            "{name} is {dtype} {shape:?}, which does not fit codes of shape {:?}",
            codes.shape
        ))
    };
    let &[row_groups, col_groups, count] = &codes.shape[..] else { return Err(misfit(codes)) };
    let &[found, entries, outputs, inputs] = &books.shape[..] else { return Err(misfit(books)) };
    let [row_groups, col_groups, count, entries, outputs, inputs] =
        [row_groups, col_groups, count, entries, outputs, inputs].map(|size| size as u64);
    let is_nonzero = [row_groups, col_groups, count, outputs, inputs].iter().all(|size| *size > 0);
    let bits = entries.trailing_zeros();
    if found as u64 != count || !is_nonzero || !entries.is_power_of_two() || !(1..=16).contains(&bits) {
        return Err(misfit(books));
    }
    let code_bytes = if bits <= 8 { 1 } else { 2 };
    let dtype = if bits <= 8 { Dtype::I8 } else { Dtype::I16 };
    if codes.dtype != dtype {
        return Err(AnamnesisError::parse(format!("it is {}; codes of {bits} bits are {dtype}", codes.dtype)));
    }
    if !scales.shape.iter().map(|&dim| dim as u64).eq([row_groups, 1, 1, 1]) {
        return Err(misfit(scales));
    }
    let kind = |part: &crate::catalog::StoredTensor| ScaleType::of_float(part.dtype).ok_or_else(|| misfit(part));
    let (book, scale) = (kind(books)?, kind(scales)?);
    let config = claims.config.module(module);
    for (key, value) in [
        ("in_group_size", inputs),
        ("out_group_size", outputs),
        ("num_codebooks", count),
        ("nbits_per_codebook", u64::from(bits)),
    ] {
        if let Some(found) = config.args().integer(&[key])?.filter(|found| u64::try_from(found.value) != Ok(value)) {
            let (place, found) = (found.place, found.value);
            return Err(AnamnesisError::parse(format!("{place}: {key} is {found}, and its tensors have {value}")));
        }
    }
    let name = format!("{module}.weight");
    claims.check_output(&name)?;
    let overflow = || AnamnesisError::parse("its number of values overflows 64 bits");
    let rows = row_groups.checked_mul(outputs).ok_or_else(overflow)?;
    let cols = col_groups.checked_mul(inputs).ok_or_else(overflow)?;
    let decoder = Additive { col_groups, count, bits, outputs, inputs, code_bytes, book, scale };
    Ok(Weight {
        name,
        shape: vec![rows as usize, cols as usize],
        values: rows.checked_mul(cols).ok_or_else(overflow)?,
        scheme: QuantScheme::Named(NAME),
        blocks: None,
        coding: Coding {
            format: format!("{count}x{bits}"),
            evidence: claims.evidence(&["quant_method"]),
            ..Coding::default()
        },
        parts: vec![id, book_id, scale_id],
        recipe: Recipe::Ready(Arc::new(decoder)),
    })
}
