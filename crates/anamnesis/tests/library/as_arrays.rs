//! Tensors as arrays of `ndarray`, and as half-precision numbers.

use crate::support::{Model, fixture};
use anamnesis::{AnamnesisError, Checkpoint, Dtype, ParseLimits, TargetDtype};
use half::{bf16, f16};
use ndarray::{Array2, ArrayD, Ix1, Ix2, IxDyn};

fn open(name: &str) -> Checkpoint {
    Checkpoint::open(fixture(name), &ParseLimits::default()).unwrap()
}

/// A quantised weight, and its name.
fn quantised() -> (Checkpoint, String) {
    let checkpoint = open("bnb/fp4_nested_b64_bfloat16.safetensors");
    let name = checkpoint.weights()[0].name.to_owned();
    (checkpoint, name)
}

#[test]
fn a_decoded_weight_is_an_array() {
    let (checkpoint, name) = quantised();
    let values: Vec<f32> = checkpoint.decode(&name).unwrap();
    let matrix: Array2<f32> = checkpoint.decode_array(&name).unwrap();
    assert_eq!(matrix.iter().copied().collect::<Vec<_>>(), values);
    let any: ArrayD<f32> = checkpoint.decode_array(&name).unwrap();
    assert_eq!(any.shape(), matrix.shape());
    let rows = checkpoint.decode_rows_array::<f32, Ix2>(&name, 1..3).unwrap();
    assert_eq!(rows, matrix.slice(ndarray::s![1..3, ..]));
    let error = checkpoint.decode_array::<f32, Ix1>(&name).unwrap_err().to_string();
    assert!(error.contains(&name), "{error}");
}

#[test]
fn half_precision_has_the_bits_of_the_bytes() {
    let (checkpoint, name) = quantised();
    let bytes = |dtype| checkpoint.decoded(dtype).map(Result::unwrap).find(|tensor| tensor.name == name).unwrap().data;
    let values: Vec<bf16> = checkpoint.decode(&name).unwrap();
    assert_eq!(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), bytes(TargetDtype::BF16));
    let values: Vec<f16> = checkpoint.decode(&name).unwrap();
    assert_eq!(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(), bytes(TargetDtype::F16));
}

#[test]
fn stored_elements_are_views_where_they_are_aligned() {
    // The header ends at a multiple of eight bytes, so a first tensor of one byte misaligns the second.
    let data: Vec<u8> = [1i32, -2, 3, -4, 5, -6].iter().flat_map(|value| value.to_le_bytes()).collect();
    for first in [0, 1] {
        let mut file =
            Model::new().tensor("a", "U8", &[first], &vec![7; first]).tensor("b", "I32", &[2, 3], &data).bytes();
        let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let padding = (8 + header).next_multiple_of(8) - (8 + header);
        file.splice(8 + header..8 + header, vec![b' '; padding]);
        file[..8].copy_from_slice(&((header + padding) as u64).to_le_bytes());
        let checkpoint = Checkpoint::from_bytes(file, &ParseLimits::default()).unwrap();
        let stored = checkpoint.stored_array::<i32, Ix2>("b").unwrap();
        assert_eq!(stored, ndarray::array![[1, -2, 3], [-4, 5, -6]]);
        let error = checkpoint.stored_array::<f32, IxDyn>("b").unwrap_err();
        assert!(matches!(error, AnamnesisError::Unsupported { .. }), "{error}");
        assert!(checkpoint.stored_array::<i32, Ix1>("b").is_err());
        assert!(checkpoint.stored_array::<i32, Ix1>("c").is_err());
    }
    assert_eq!(<bf16 as anamnesis::StoredElement>::DTYPE, Dtype::BF16);
}

#[test]
fn a_mapped_file_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    // Data begins at a multiple of 64 bytes.
    let header = format!("{:<117}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }");
    let bytes =
        [&b"\x93NUMPY\x01\0\x76\0"[..], header.as_bytes(), &crate::support::le_bytes(&[1.0, 2.0, 3.0, 4.0])].concat();
    std::fs::write(&path, bytes).unwrap();
    let checkpoint = Checkpoint::open(&path, &ParseLimits::default()).unwrap();
    let name = checkpoint.tensors()[0].name.to_owned();
    let stored = checkpoint.stored_array::<f32, Ix2>(&name).unwrap();
    assert_eq!(stored.is_view(), cfg!(target_endian = "little"));
    assert_eq!(stored, ndarray::array![[1.0, 2.0], [3.0, 4.0]]);
}
