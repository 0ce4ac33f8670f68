//! The checksum of the newer structures: `hashlittle` of Bob Jenkins' lookup3, which HDF5 calls
//! `H5_checksum_lookup3`.

/// Bytes that are mixed at a time.
const BLOCK: usize = 12;

pub(super) fn lookup3(data: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(data.len() as u32);
    let mut state = [start; 3];
    // The last block is mixed in another way, even if it is whole.
    let last = data.len().saturating_sub(1) / BLOCK * BLOCK;
    let (front, back) = data.split_at(last);
    for block in front.chunks_exact(BLOCK) {
        add(&mut state, block);
        mix(&mut state);
    }
    if !back.is_empty() {
        add(&mut state, back);
        finish(&mut state);
    }
    state[2]
}

/// Adds three little-endian words; bytes past the end are zeros.
fn add(state: &mut [u32; 3], block: &[u8]) {
    for (word, bytes) in state.iter_mut().zip(block.chunks(4)) {
        let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
        *word = word.wrapping_add(number);
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: &mut u32, z: &mut u32, bits: u32| {
        *x = x.wrapping_sub(*z) ^ z.rotate_left(bits);
        *z = z.wrapping_add(*y);
    };
    step(a, b, c, 4);
    step(b, c, a, 6);
    step(c, a, b, 8);
    step(a, b, c, 16);
    step(b, c, a, 19);
    step(c, a, b, 4);
}

fn finish([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: &u32, bits: u32| *x = (*x ^ *y).wrapping_sub(y.rotate_left(bits));
    step(c, b, 14);
    step(a, c, 11);
    step(b, a, 25);
    step(c, b, 16);
    step(a, c, 4);
    step(b, a, 14);
    step(c, b, 24);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_tests_of_lookup3() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
