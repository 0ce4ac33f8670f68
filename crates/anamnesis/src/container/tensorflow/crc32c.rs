//! CRC-32C (Castagnoli), in the masked form of LevelDB and TensorFlow.

/// The polynomial, lowest bit first.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// Added to the rotated checksum by masking.
const MASK: u32 = 0xa282_ead8;

/// `TABLES[n][byte]` is the checksum of a byte followed by `n` zeros.
const TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut number = 1;
    while number < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[number - 1][byte];
            tables[number][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        number += 1;
    }
    tables
};

/// The checksum of bytes, eight at a time.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut crc = !0u32;
    for word in words {
        let [a, b, c, d] = (crc ^ u32::from_le_bytes([word[0], word[1], word[2], word[3]])).to_le_bytes();
        let table = |number: usize, byte: u8| TABLES[number][usize::from(byte)];
        crc = table(7, a) ^ table(6, b) ^ table(5, c) ^ table(4, d);
        crc ^= table(3, word[4]) ^ table(2, word[5]) ^ table(1, word[6]) ^ table(0, word[7]);
    }
    for byte in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    !crc
}

/// The checksum of two pieces, from those of the pieces.
pub(super) fn combine(first: u32, second: u32, second_bytes: u64) -> u32 {
    // A zero byte multiplies the remainder by x^8; its powers are found by squaring.
    let (mut factor, mut product) = (power_of_x(8), first);
    let mut left = second_bytes;
    while left > 0 {
        if left & 1 == 1 {
            product = multiply(factor, product);
        }
        factor = multiply(factor, factor);
        left >>= 1;
    }
    product ^ second
}

/// The product of two polynomials modulo the polynomial; the highest bit is x^0.
fn multiply(a: u32, b: u32) -> u32 {
    let (mut b, mut product) = (b, 0);
    for bit in (0..32).rev() {
        if a >> bit & 1 == 1 {
            product ^= b;
        }
        b = if b & 1 == 1 { b >> 1 ^ POLYNOMIAL } else { b >> 1 };
    }
    product
}

fn power_of_x(exponent: u32) -> u32 {
    (0..exponent).fold(1 << 31, |power, _| if power & 1 == 1 { power >> 1 ^ POLYNOMIAL } else { power >> 1 })
}

/// The masked form, in which checksums are stored.
pub(super) const fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_rfc_3720() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|at| at as u8)), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn pieces_combine_to_the_whole() {
        let bytes: Vec<u8> = (0..1000u32).map(|number| (number * 37) as u8).collect();
        for cut in [0, 1, 7, 8, 500, 999, 1000] {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(combine(crc32c(first), crc32c(second), second.len() as u64), crc32c(&bytes), "{cut}");
        }
    }
}
