//! Writing BF16 tensors as NF4 weights to a safetensors file.
//!
//! Matrices that divide into whole blocks are encoded, other tensors are stored as BF16:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `X.weight` | U8 `[n/2, 1]` | codes, the high nibble first |
//! | `X.weight.absmax` | F32 `[n/64]` | one scale per block |
//! | `X.weight.quant_map` | F32 `[16]` | [`NF4_CODEBOOK`] |
//! | `X.weight.quant_state.bitsandbytes__nf4` | U8 | JSON: `quant_type`, `blocksize`, `shape`, `nested` |
//!
//! The file appears complete or not at all.

use std::path::Path;

pub use super::bnb::NF4_BLOCK_SIZE;
use super::bnb::{NF4_CODEBOOK, encode_bnb4_compute_absmax};
use crate::catalog::Dtype;
use crate::compat::in_memory::{InMemory, Put};
use crate::container::OutputTensor;
use crate::error::{AnamnesisError, Result, quoted};

/// A BF16 tensor to be written.
#[derive(Debug, Clone)]
pub struct BnbWriteInput<'a> {
    /// Its name; an encoded tensor gets the suffix `.weight` unless it has it already.
    pub name: &'a str,
    /// Its shape.
    pub shape: &'a [usize],
    /// Its values, little-endian, row-major.
    pub bf16_data: &'a [u8],
}

/// The number of encoded tensors and of tensors stored as BF16.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct BnbNf4WriteStats {
    /// Encoded tensors.
    pub quantized: usize,
    /// Tensors stored as BF16.
    pub passthrough: usize,
}

/// Whether a tensor of this shape is encoded: a matrix whose values divide into whole blocks.
///
/// ```
/// use anamnesis::lethe::bnb_writer::is_eligible_for_nf4;
/// assert!(is_eligible_for_nf4(&[4, 32]));
/// assert!(!is_eligible_for_nf4(&[128]) && !is_eligible_for_nf4(&[3, 32]));
/// ```
pub fn is_eligible_for_nf4(shape: &[usize]) -> bool {
    let &[rows, cols] = shape else { return false };
    rows.checked_mul(cols).is_some_and(|values| values > 0 && values.is_multiple_of(NF4_BLOCK_SIZE))
}

/// The statistics that writing `inputs` would give.
pub fn classify_inputs(inputs: &[BnbWriteInput<'_>]) -> BnbNf4WriteStats {
    let quantized = inputs.iter().filter(|input| is_eligible_for_nf4(input.shape)).count();
    BnbNf4WriteStats { quantized, passthrough: inputs.len() - quantized }
}

/// Writes `inputs` to a file.
///
/// ```no_run
/// use anamnesis::lethe::bnb_writer::{BnbWriteInput, write_bnb_nf4_safetensors};
/// let ones = [0x80, 0x3f].repeat(64);
/// let input = BnbWriteInput { name: "proj", shape: &[1, 64], bf16_data: &ones };
/// write_bnb_nf4_safetensors(&[input], "model-nf4.safetensors")?;
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Parse` if a shape and its data disagree, two outputs have the same name, or a value to be encoded is not finite;
/// `Io` if the file cannot be written.
pub fn write_bnb_nf4_safetensors(inputs: &[BnbWriteInput<'_>], output: impl AsRef<Path>) -> Result<()> {
    in_memory(inputs)?.write(output.as_ref())
}

/// Writes `inputs` to memory.
///
/// # Errors
/// As [`write_bnb_nf4_safetensors`].
pub fn write_bnb_nf4_safetensors_bytes(inputs: &[BnbWriteInput<'_>]) -> Result<Vec<u8>> {
    in_memory(inputs)?.into_bytes()
}

/// Number of tensors per encoded input.
const PARTS: usize = 4;

/// The file to write: the inputs are encoded one after the other.
fn in_memory(inputs: &[BnbWriteInput<'_>]) -> Result<InMemory<impl FnOnce(Put<'_>) -> Result<()>>> {
    let mut tensors = Vec::with_capacity(inputs.len() * PARTS);
    for input in inputs {
        let elements = check(input)?;
        let mut add = |name: String, dtype: Dtype, shape: Vec<usize>, bytes: usize| {
            tensors.push(OutputTensor { name, dtype, shape, bytes: bytes as u64 });
        };
        if !is_eligible_for_nf4(input.shape) {
            add(input.name.to_owned(), Dtype::BF16, input.shape.to_vec(), input.bf16_data.len());
            continue;
        }
        let end = if input.name.ends_with(".weight") { "" } else { ".weight" };
        let name = format!("{}{end}", input.name);
        let (codes, blocks, state) = (elements / 2, elements / NF4_BLOCK_SIZE, quant_state(input.shape));
        add(name.clone(), Dtype::U8, vec![codes, 1], codes);
        add(format!("{name}.absmax"), Dtype::F32, vec![blocks], blocks * 4);
        add(format!("{name}.quant_map"), Dtype::F32, vec![16], 64);
        add(format!("{name}.quant_state.bitsandbytes__nf4"), Dtype::U8, vec![state.len()], state.len());
    }
    InMemory::safetensors(&tensors, |put| fill(inputs, put))
}

/// Passes the bytes of every tensor to `put`.
fn fill(inputs: &[BnbWriteInput<'_>], put: Put<'_>) -> Result<()> {
    let map: Vec<u8> = NF4_CODEBOOK.iter().flat_map(|value| value.to_le_bytes()).collect();
    for input in inputs {
        if !is_eligible_for_nf4(input.shape) {
            put(input.bf16_data)?;
            continue;
        }
        refuse_nonfinite(input)?;
        let elements = input.bf16_data.len() / 2;
        let (codes, absmax) = encode_bnb4_compute_absmax(input.bf16_data, &map, elements, NF4_BLOCK_SIZE)?;
        for part in [&codes, &absmax, &map, quant_state(input.shape).as_bytes()] {
            put(part)?;
        }
    }
    Ok(())
}

fn quant_state(shape: &[usize]) -> String {
    let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!(r#"{{"quant_type":"nf4","blocksize":{NF4_BLOCK_SIZE},"shape":[{}],"nested":false}}"#, shape.join(","))
}

/// The number of values, after checking the shape against the data.
fn check(input: &BnbWriteInput<'_>) -> Result<usize> {
    let elements = input.shape.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
    let expected = elements.and_then(|elements| elements.checked_mul(2)).filter(|&bytes| bytes > 0);
    if expected != Some(input.bf16_data.len()) {
        let why = format!(
            "tensor {} has a bf16_data length of {} bytes, its shape {:?} needs {}",
            quoted(input.name),
            input.bf16_data.len(),
            input.shape,
            expected.map_or_else(
                || "another, with no dimension of zero and no overflow".to_owned(),
                |bytes| bytes.to_string()
            )
        );
        return Err(AnamnesisError::parse(why));
    }
    Ok(input.bf16_data.len() / 2)
}

/// Refuses non-finite values, which would decode to finite values.
fn refuse_nonfinite(input: &BnbWriteInput<'_>) -> Result<()> {
    let is_finite = |value: &[u8; 2]| u16::from_le_bytes(*value) & 0x7F80 != 0x7F80;
    match input.bf16_data.as_chunks::<2>().0.iter().position(|value| !is_finite(value)) {
        None => Ok(()),
        Some(index) => {
            let why = format!("tensor {}: value {index} is not finite and cannot be encoded", quoted(input.name));
            Err(AnamnesisError::parse(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: usize) -> Vec<u8> {
        (0..count)
            .flat_map(|index| half::bf16::from_f32((index * 37 % 101) as f32 / 50.0 - 1.0).to_le_bytes())
            .collect()
    }

    #[test]
    fn names_types_and_descriptions_are_those_of_the_loader() {
        let (matrix, vector) = (values(256), values(70));
        let inputs = [
            BnbWriteInput { name: "a.proj", shape: &[4, 64], bf16_data: &matrix },
            BnbWriteInput { name: "b.weight", shape: &[2, 128], bf16_data: &matrix },
            BnbWriteInput { name: "norm.weight", shape: &[70], bf16_data: &vector },
        ];
        let stats = classify_inputs(&inputs);
        assert_eq!((stats.quantized, stats.passthrough), (2, 1));
        let bytes = write_bnb_nf4_safetensors_bytes(&inputs).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let mut names = file.names();
        names.sort_unstable();
        let ends = ["", ".absmax", ".quant_map", ".quant_state.bitsandbytes__nf4"];
        let mut expected: Vec<String> =
            ["a.proj.weight", "b.weight"].iter().flat_map(|name| ends.map(|end| format!("{name}{end}"))).collect();
        expected.push("norm.weight".to_owned());
        assert_eq!(names, expected);
        let codes = file.tensor("a.proj.weight").unwrap();
        assert_eq!((codes.dtype(), codes.shape()), (safetensors::Dtype::U8, &[128, 1][..]));
        let absmax = file.tensor("a.proj.weight.absmax").unwrap();
        assert_eq!((absmax.dtype(), absmax.shape()), (safetensors::Dtype::F32, &[4][..]));
        let state = file.tensor("b.weight.quant_state.bitsandbytes__nf4").unwrap();
        assert_eq!(state.data(), br#"{"quant_type":"nf4","blocksize":64,"shape":[2,128],"nested":false}"#);
        assert_eq!(file.tensor("norm.weight").unwrap().data(), vector);
    }

    #[test]
    fn the_file_equals_the_bytes_and_decodes_near_the_input() {
        let matrix = values(128);
        let input = BnbWriteInput { name: "x", shape: &[2, 64], bf16_data: &matrix };
        let bytes = write_bnb_nf4_safetensors_bytes(std::slice::from_ref(&input)).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.safetensors");
        write_bnb_nf4_safetensors(&[input], &path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        let back = crate::parse(&path).unwrap().remember_to_bytes(crate::TargetDtype::BF16).unwrap();
        let back = safetensors::SafeTensors::deserialize(&back).unwrap();
        let tensor = back.tensor("x.weight").unwrap();
        assert_eq!(tensor.shape(), [2, 64]);
        let again = BnbWriteInput { name: "x", shape: &[2, 64], bf16_data: tensor.data() };
        assert_eq!(write_bnb_nf4_safetensors_bytes(&[again]).unwrap(), bytes, "what was decoded encodes to itself");
    }

    #[test]
    fn inputs_that_cannot_be_written_are_refused_by_name() {
        let data = values(64);
        let refused = |shape: &[usize], data: &[u8]| {
            let input = BnbWriteInput { name: "bad", shape, bf16_data: data };
            write_bnb_nf4_safetensors_bytes(&[input]).unwrap_err().to_string()
        };
        for shape in [&[63][..], &[0, 64], &[0], &[usize::MAX, 4], &[65]] {
            let error = refused(shape, &data);
            assert!(error.contains("bf16_data length") && error.contains("bad"), "{error}");
        }
        let mut not_finite = data.clone();
        not_finite[20..22].copy_from_slice(&[0x80, 0x7f]);
        assert!(refused(&[1, 64], &not_finite).contains("value 10"));
        let input = |name| BnbWriteInput { name, shape: &[1, 64], bf16_data: &data };
        assert!(write_bnb_nf4_safetensors_bytes(&[input("a"), input("a.weight")]).is_err(), "two of one name");
    }
}
