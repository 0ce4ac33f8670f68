//! The operations that read codes, and at which places they read what.

use crate::catalog::Operation;

/// How an operation reads the codes of a weight: the places of its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) codes: usize,
    pub(super) scale: usize,
    pub(super) zero: Option<usize>,
    pub(super) axis: Axis,
    /// A second factor of all scales, as the bias of a convolution has.
    pub(super) factor: Option<usize>,
}

/// The axis along which there are several scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    /// The setting `axis`.
    Setting,
    First,
    Last,
    /// The last but one.
    Rows,
    /// The first of transposed matrices, otherwise the last.
    Transposed,
}

/// The domain of the operators that only ONNX Runtime has.
const CONTRIBUTED: &str = "com.microsoft.";

const fn reading(codes: usize, scale: usize, zero: usize, axis: Axis) -> Reading {
    Reading { codes, scale, zero: Some(zero), axis, factor: None }
}

const fn bias(codes: usize, scale: usize, factor: usize) -> Reading {
    Reading { codes, scale, zero: None, axis: Axis::First, factor: Some(factor) }
}

/// The places of linearly quantised operands, by operator without its domain. Biases follow their weights.
const READINGS: [(&str, &[Reading]); 8] = [
    ("DequantizeLinear", &[reading(0, 1, 2, Axis::Setting)]),
    ("QLinearMatMul", &[reading(3, 4, 5, Axis::Last), reading(0, 1, 2, Axis::Rows)]),
    ("QLinearConv", &[reading(3, 4, 5, Axis::First), bias(8, 4, 1)]),
    ("QGemm", &[reading(3, 4, 5, Axis::Transposed), bias(6, 4, 1)]),
    ("QLinearAdd", TWO),
    ("QLinearMul", TWO),
    ("DynamicQuantizeMatMul", &[reading(1, 2, 3, Axis::Last)]),
    ("MatMulIntegerToFloat", &[reading(1, 3, 5, Axis::Last)]),
];

/// Two quantised operands.
const TWO: &[Reading] = &[reading(0, 1, 2, Axis::Last), reading(3, 4, 5, Axis::Last)];

/// The group of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    /// It reads codes with the scales and zero points at these places.
    Linear(&'static [Reading]),
    /// It reads packed codes in blocks: `MatMulNBits`.
    Packed,
    /// It reads NF4 or FP4 codes: `MatMulBnb4`.
    Table,
    /// It reads some rows: `GatherBlockQuantized`.
    Gather,
    /// It reads codes whose scales are found by their names, along this axis.
    ByName(Axis),
    /// It quantises activations: its operands are no weights.
    Quantise,
    /// Any other operator of the default domain. It moves codes, or computes with integers.
    Plain,
    /// Any other operator, whose arithmetic is not known.
    Unknown,
}

impl Operator {
    pub(super) fn of(operation: &Operation) -> Self {
        let contributed = operation.kind.strip_prefix(CONTRIBUTED);
        let name = contributed.unwrap_or(&operation.kind);
        if contributed.is_none() && name.contains('.') {
            return Self::Unknown;
        }
        match (contributed.is_some(), name) {
            (true, "MatMulNBits") => return Self::Packed,
            (true, "MatMulBnb4") => return Self::Table,
            (true, "GatherBlockQuantized") => return Self::Gather,
            (_, "MatMulInteger") => return Self::ByName(Axis::Last),
            (_, "ConvInteger") => return Self::ByName(Axis::First),
            (_, "QuantizeLinear" | "DynamicQuantizeLinear") => return Self::Quantise,
            _ => {}
        }
        match READINGS.iter().find(|(known, _)| *known == name) {
            Some((_, readings)) => Self::Linear(readings),
            None if name.starts_with("QLinear") => Self::ByName(Axis::Last),
            None if contributed.is_some() => Self::Unknown,
            None => Self::Plain,
        }
    }
}
