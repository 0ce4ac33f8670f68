//! ONNX models written by hand.

/// A field of wire type 0.
pub fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A field of wire type 2.
pub fn bytes(field: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [&varint(field << 3 | 2)[..], &varint(content.len() as u64), content].concat()
}

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut found = Vec::new();
    while value > 127 {
        found.push(value as u8 | 128);
        value >>= 7;
    }
    found.push(value as u8);
    found
}

/// The header of a tensor: type, dimensions and name.
pub fn header(name: &str, code: u64, dims: &[u64]) -> Vec<u8> {
    let dims = dims.iter().flat_map(|dim| number(1, *dim));
    dims.chain(number(2, code)).chain(bytes(8, name)).collect()
}

/// A tensor with raw data.
pub fn tensor(name: &str, code: u64, dims: &[u64], raw: &[u8]) -> Vec<u8> {
    [header(name, code, dims), bytes(9, raw)].concat()
}

pub fn floats(name: &str, dims: &[u64], values: &[f32]) -> Vec<u8> {
    tensor(name, FLOAT, dims, &super::le_bytes(values))
}

/// A tensor with external data.
pub fn external(name: &str, dims: &[u64], properties: &[(&str, &str)]) -> Vec<u8> {
    let entries = properties.iter().flat_map(|(key, value)| bytes(13, [bytes(1, key), bytes(2, value)].concat()));
    header(name, FLOAT, dims).into_iter().chain(entries).chain(number(14, 1)).collect()
}

/// A node with integer attributes.
pub fn node(operator: &str, domain: &str, inputs: &[&str], settings: &[(&str, i64)]) -> Vec<u8> {
    let inputs = inputs.iter().flat_map(|input| bytes(1, input));
    let settings = settings
        .iter()
        .flat_map(|(name, value)| bytes(5, [bytes(1, name), number(3, value.cast_unsigned()), number(20, 2)].concat()));
    let named = [bytes(2, format!("{operator}.out")), bytes(4, operator), bytes(7, domain)].concat();
    inputs.chain(named).chain(settings).collect()
}

/// A graph of nodes and tensors.
pub fn graph(nodes: &[Vec<u8>], tensors: &[Vec<u8>]) -> Vec<u8> {
    let nodes = nodes.iter().flat_map(|node| bytes(1, node));
    nodes.chain(tensors.iter().flat_map(|tensor| bytes(5, tensor))).collect()
}

/// A model with one graph.
pub fn model(graph: &[u8]) -> Vec<u8> {
    [number(1, 9), bytes(8, number(2, 21)), bytes(7, graph)].concat()
}

pub const FLOAT: u64 = 1;
pub const UINT8: u64 = 2;
pub const INT8: u64 = 3;
pub const INT64: u64 = 7;
