//! Natural order of names: `layers.2` before `layers.10`.

use std::cmp::Ordering;

/// Compares names piece by piece, digits by value. Names that differ only in leading zeros are ordered by their
/// bytes, so that the order is total.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (pieces(a), pieces(b));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return a.cmp(b),
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(left), Some(right)) => compare_pieces(left, right),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn pieces(name: &str) -> impl Iterator<Item = &[u8]> {
    name.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
}

fn compare_pieces(a: &[u8], b: &[u8]) -> Ordering {
    let is_number = |piece: &[u8]| piece.first().is_some_and(u8::is_ascii_digit);
    if !is_number(a) || !is_number(b) {
        return a.cmp(b);
    }
    let significant = |digits: &[u8]| digits.iter().position(|&digit| digit != b'0').unwrap_or(digits.len());
    let (a, b) = (&a[significant(a)..], &b[significant(b)..]);
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn digits_compare_by_value() {
        let sorted =
            ["a", "a.2.b", "a.2.c", "a.10.b", "a.10.b.0", "a.99999999999999999999999.b", "b.007", "b.07", "b.7", "b.8"];
        for (index, first) in sorted.iter().enumerate() {
            for second in &sorted[index + 1..] {
                assert!(compare(first, second).is_lt() && compare(second, first).is_gt(), "{first} {second}");
            }
            assert!(compare(first, first).is_eq());
        }
    }
}
