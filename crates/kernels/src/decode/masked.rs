//! Values in the places that a bit mask selects, zeros in all others.

/// Places of one byte of a mask.
const PLACES: usize = 8;

/// Writes the next value of `values` wherever `mask` has a bit, lowest bit first, and zero elsewhere.
///
/// A value has `size` bytes: 1, 2, 4 or 8; any other size writes nothing. Returns how many bytes of `out` it wrote: all
/// of them if `mask` has a bit for each, and `values` a value for each bit that is set.
///
/// ```
/// use anamnesis_kernels::place_masked;
///
/// let mut out = [9; 8];
/// assert_eq!(place_masked(&[0b1000_0101], &[1, 2, 3], 1, &mut out), 8);
/// assert_eq!(out, [1, 0, 2, 0, 0, 0, 0, 3]);
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn place_masked(mask: &[u8], values: &[u8], size: usize, out: &mut [u8]) -> usize {
    match size {
        1 => of_size::<1>(mask, values, out),
        2 => of_size::<2>(mask, values, out),
        4 => of_size::<4>(mask, values, out),
        8 => of_size::<8>(mask, values, out),
        _ => 0,
    }
}

fn of_size<const SIZE: usize>(mask: &[u8], values: &[u8], out: &mut [u8]) -> usize {
    let (mut values, out) = (values.as_chunks::<SIZE>().0, out.as_chunks_mut::<SIZE>().0);
    let mut written = 0;
    for (&byte, out) in mask.iter().zip(out.chunks_mut(PLACES)) {
        // Without a branch per bit, as long as eight values are left to read from.
        if let (Some(next), Ok(out)) = (values.first_chunk(), <&mut [_; PLACES]>::try_from(&mut *out)) {
            place_eight(byte, next, out);
            values = &values[byte.count_ones() as usize..];
            written += PLACES;
            continue;
        }
        for (place, out) in out.iter_mut().enumerate() {
            *out = [0; SIZE];
            if byte >> place & 1 == 1 {
                let Some((value, others)) = values.split_first() else { return written * SIZE };
                *out = *value;
                values = others;
            }
            written += 1;
        }
    }
    written * SIZE
}

#[inline]
fn place_eight<const SIZE: usize>(byte: u8, values: &[[u8; SIZE]; PLACES], out: &mut [[u8; SIZE]; PLACES]) {
    let mut next = 0;
    for (place, out) in out.iter_mut().enumerate() {
        let bit = usize::from(byte >> place & 1);
        *out = values[next % PLACES].map(|part| part * bit as u8);
        next += bit;
    }
}

#[cfg(test)]
mod tests {
    use super::place_masked;

    #[test]
    fn every_byte_of_a_mask_places_values_of_every_size() {
        for size in [1, 2, 4, 8] {
            for spare in [0, 20 * size] {
                for byte in 0..=255u8 {
                    let masks = [byte, !byte];
                    let values: Vec<u8> = (1..=8 * size + spare).map(|value| value as u8).collect();
                    let mut out = vec![9; 16 * size];
                    assert_eq!(place_masked(&masks, &values, size, &mut out), out.len());
                    let mut next = values.chunks(size);
                    for (place, out) in out.chunks(size).enumerate() {
                        match masks[place / 8] >> (place % 8) & 1 {
                            0 => assert_eq!(out, vec![0; size]),
                            _ => assert_eq!(Some(out), next.next()),
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn short_inputs_end_the_output() {
        let mut out = [9; 8];
        assert_eq!(place_masked(&[0b0000_0111], &[1, 2], 1, &mut out), 2);
        assert_eq!(place_masked(&[], &[1, 2], 1, &mut out), 0);
        assert_eq!(place_masked(&[255], &[1; 24], 3, &mut out), 0);
        let mut five = [9; 5];
        assert_eq!(place_masked(&[0b0001_0001], &[1, 2], 1, &mut five), 5);
        assert_eq!(five, [1, 0, 0, 0, 2]);
    }
}
