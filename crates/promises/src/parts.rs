//! Quantised weights from their parts. An input is a configuration, a list of tensors and data, separated by NUL:
//!
//! ```text
//! {"quant_method": "gptq", "bits": 4, "group_size": 32}
//! model.up.qweight I32 4 8
//! model.up.scales F16 1 8
//! ```
//!
//! Every tensor has its bytes from the data, which is repeated, so that a change of a shape is still a file.

use anamnesis::{Dtype, MemoryTensor, MemoryTensors, OpenOptions, PositionedRead};

use crate::reading;

/// All tensors together have no more bytes.
const MAX_BYTES: usize = 1 << 16;
const MAX_TENSORS: usize = 64;

/// Tensors in memory with the options to open them.
pub(crate) fn parse(input: &[u8]) -> Option<(MemoryTensors<Vec<u8>>, OpenOptions)> {
    let mut fields = input.splitn(3, |byte| *byte == 0);
    let config = std::str::from_utf8(fields.next()?).ok()?;
    let list = std::str::from_utf8(fields.next()?).ok()?;
    let data = fields.next().filter(|data| !data.is_empty()).unwrap_or(&[0x5A]);
    let mut options = reading::options();
    if !config.is_empty() {
        options = options.with_config(config);
    }
    Some((tensors(list, data)?, options))
}

/// A file of these tensors, which are all zeros.
pub(crate) fn file(list: &str) -> Vec<u8> {
    let tensors = tensors(list, &[0]).expect("a list of tensors");
    let mut bytes = vec![0; tensors.size().expect("a size") as usize];
    tensors.read_exact_at(&mut bytes, 0).expect("bytes in memory");
    bytes
}

/// The tensors of a list.
fn tensors(list: &str, data: &[u8]) -> Option<MemoryTensors<Vec<u8>>> {
    let (mut tensors, mut at, mut room) = (Vec::new(), 0, MAX_BYTES);
    for line in list.lines().take(MAX_TENSORS) {
        let mut words = line.split(' ');
        let (name, dtype) = (words.next()?, Dtype::from_name(words.next()?)?);
        let shape = words.map(|word| word.parse().ok()).collect::<Option<Vec<usize>>>()?;
        let elements = shape.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim as u64))?;
        let bytes = usize::try_from(dtype.byte_len(elements)?).ok()?;
        room = room.checked_sub(bytes)?;
        let data = (at..at + bytes).map(|index| data[index % data.len()]).collect();
        at += bytes;
        tensors.push(MemoryTensor { name: name.to_owned(), dtype, shape, data });
    }
    MemoryTensors::new(tensors, &[].into()).ok()
}
