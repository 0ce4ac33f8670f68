//! Linear quantisation as a file itself records it: integers with scales and zero points, one for the tensor or one for
//! each index of a dimension.
//!
//! A value is `(code - zero point) * scale`: the difference of integers is exact, rounded to F32, and the product is
//! rounded to F32. Such a file records all of its quantisation, so every other tensor in it is plain data whatever its
//! name.

mod decoder;
mod number;

use std::sync::Arc;

use crate::catalog::dtype::elements;
use crate::catalog::{Dtype, ScaledCodes, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{About, Claims, QuantScheme, Scheme, TensorRole, Weight};
use crate::scheme::coder::{Coding, Evidence, Recipe};

pub(crate) use decoder::{LinearDecoder, Nested, Spread, Zeros};
pub(crate) use number::Number;

/// The scheme.
pub(crate) struct Linear;

const NAME: &str = "linear";

impl Scheme for Linear {
    fn about(&self) -> About {
        About::Decoded(NAME, "integers of 4 to 64 bits with scales and zero points that the file records (TFLite)")
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let catalog = claims.catalog;
        let Some(scaled) = &catalog.scaled else { return };
        for codes in scaled {
            // A tensor that is not selected has no entry.
            let Some(id) = claims.find_unclaimed(&codes.codes) else { continue };
            claims.take(id, TensorRole::Quantized);
            match weight(claims, codes, id) {
                Ok(weight) => claims.add(weight),
                Err(problem) => claims.refuse(problem.in_tensor(&codes.codes)),
            }
        }
        let plain: Vec<TensorId> = claims.unclaimed().map(|(id, _)| id).collect();
        for id in plain {
            claims.take(id, TensorRole::Passthrough);
        }
    }
}

fn weight(claims: &mut Claims<'_>, scaled: &ScaledCodes, id: TensorId) -> Result<Weight> {
    let catalog = claims.catalog;
    let mut part = |name: &str, role| {
        let missing = || AnamnesisError::parse(format!("there is no {}", quoted(name)));
        let id = claims.find_unclaimed(name).ok_or_else(missing)?;
        claims.take(id, role);
        Ok::<_, AnamnesisError>(id)
    };
    let scales = part(&scaled.scales, TensorRole::Scale)?;
    let zeros = part(&scaled.zero_points, TensorRole::ZeroPoint)?;
    let codes = catalog.get(id);
    let [before, along, after] = match scaled.axis.map(|axis| codes.shape.split_at_checked(axis)) {
        Some(Some((before, [along, after @ ..]))) => [elements(before), Some(*along as u64), elements(after)],
        Some(_) => return Err(AnamnesisError::parse("its scales are for a dimension that it does not have")),
        None => [Some(1), Some(1), Some(codes.elements())],
    };
    let (Some(_), Some(along), Some(after)) = (before, along, after) else {
        return Err(AnamnesisError::parse("it has more than 2^64 elements"));
    };
    for (id, dtype) in [(scales, Dtype::F32), (zeros, Dtype::I64)] {
        let part = catalog.get(id);
        if part.dtype != dtype || part.elements() != along {
            let (name, shape) = (quoted(&part.name), &part.shape);
            return Err(AnamnesisError::parse(format!(
                "{name} is {} of shape {shape:?}; {along} {dtype} are needed",
                part.dtype
            )));
        }
    }
    let number = Number::of_integers(codes.dtype)
        .ok_or_else(|| AnamnesisError::parse(format!("its codes are {}; integers are needed", codes.dtype)))?;
    let decoder = LinearDecoder {
        codes: number,
        axis: along,
        inner: after,
        spread: if along > 1 { Spread::Axis } else { Spread::Tensor },
        scales: Number::F32,
        zeros: Zeros::Stored(Number::I64),
        nested: None,
        description: format!(
            "{} codes with {}",
            codes.dtype,
            if along > 1 { "a scale per channel" } else { "one scale" }
        ),
    };
    let bits = codes.dtype.byte_size() as u8 * 8;
    let coding = Coding {
        format: format!("{}, {}", codes.dtype, if along > 1 { "per channel" } else { "per tensor" }),
        bits: Some(bits),
        evidence: Evidence::Type,
        ..Coding::default()
    };
    Ok(Weight {
        name: codes.name.clone(),
        shape: codes.shape.clone(),
        values: codes.elements(),
        scheme: QuantScheme::Named(NAME),
        blocks: None,
        coding,
        parts: vec![id, scales, zeros],
        recipe: Recipe::Ready(Arc::new(decoder)),
    })
}
