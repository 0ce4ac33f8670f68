//! Partitioned tensors: the keys of their slices, which are in the order-preserving code of TensorFlow
//! (`EncodeTensorNameSlice` and `OrderedCode`), and the region that puts slices together.

use super::entry::Extent;

/// The key of a slice.
pub(super) fn slice_key(name: &[u8], slice: &[Extent]) -> Vec<u8> {
    // The number 0, which no tensor's name starts with.
    let mut key = vec![0];
    for &byte in name {
        match byte {
            0 => key.extend([0, 0xff]),
            0xff => key.extend([0xff, 0]),
            byte => key.push(byte),
        }
    }
    key.extend([0, 1]);
    push_unsigned(&mut key, slice.len() as u64);
    for extent in slice {
        push_signed(&mut key, extent.start.cast_signed());
        push_signed(&mut key, extent.length.map_or(-1, u64::cast_signed));
    }
    key
}

/// `WriteNumIncreasing`: the number of bytes, then the bytes, the highest first.
fn push_unsigned(key: &mut Vec<u8>, number: u64) {
    let skipped = number.leading_zeros() / 8;
    key.push(8 - skipped as u8);
    key.extend(number.to_be_bytes().into_iter().skip(skipped as usize));
}

/// `WriteSignedNumIncreasing`: as many bytes as seven bits each need; the length is in the first bits.
fn push_signed(key: &mut Vec<u8>, number: i64) {
    let magnitude = if number < 0 { !number } else { number }.cast_unsigned();
    let bits = u64::BITS - magnitude.leading_zeros();
    let length = (bits / 7 + 1) as usize;
    let mut bytes = [if number < 0 { 0xff } else { 0 }; 10];
    bytes[2..].copy_from_slice(&number.to_be_bytes());
    let start = bytes.len() - length;
    // `length` ones from the top, over two bytes.
    let header = (0xffff_u32 << (16 - length) & 0xffff).to_be_bytes();
    bytes[start] ^= header[2];
    if let Some(second) = bytes.get_mut(start + 1) {
        *second ^= header[3];
    }
    key.extend(&bytes[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_tensorflow() {
        // From an index that TensorFlow wrote.
        let slice = [Extent { start: 2, length: Some(5) }, Extent { start: 0, length: Some(7) }];
        assert_eq!(slice_key(b"emb", &slice), b"\0emb\0\x01\x01\x02\x82\x85\x80\x87");
        assert_eq!(slice_key(b"a", &[Extent::default()]), b"\0a\0\x01\x01\x01\x80\x7f");
    }

    #[test]
    fn signed_numbers_are_those_of_the_tests_of_ordered_code() {
        for (number, wanted) in [
            (0, &[0x80][..]),
            (63, &[0xbf]),
            (64, &[0xc0, 0x40]),
            (-64, &[0x40]),
            (-65, &[0x3f, 0xbf]),
            (8191, &[0xdf, 0xff]),
            (8192, &[0xe0, 0x20, 0x00]),
            (i64::MAX, &[0xff, 0xc0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ] {
            let mut key = Vec::new();
            push_signed(&mut key, number);
            assert_eq!(key, wanted, "{number}");
        }
    }
}
