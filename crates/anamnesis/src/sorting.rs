//! Sorting that is compiled once, whatever is sorted: places are put in order, and the items follow.
//!
//! The sort of the standard library is compiled anew for each type and each comparison, and so is the one inside a map that is
//! collected: eight kilobytes of code each time. It is for headers of a hundred thousand names, this for all others. Equal
//! items stay in their order.

use std::cmp::Ordering;

/// Sorts by a comparison.
pub(crate) fn by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let places = places(items.len(), &|a, b| compare(&items[a], &items[b]));
    arrange(items, places);
}

/// Sorts by a key.
pub(crate) fn by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    by(items, |a, b| key(a).cmp(&key(b)));
}

/// The places of `count` items in their order.
pub(crate) fn places(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|&a, &b| compare(a, b));
    places
}

/// A map or set of these, which are put in one by one.
pub(crate) fn inserted<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut all = C::default();
    all.extend(items);
    all
}

/// Moves each item to its place, around one circle of exchanged items after the other.
fn arrange<T>(items: &mut [T], mut places: Vec<usize>) {
    for start in 0..places.len() {
        let mut at = start;
        loop {
            let from = std::mem::replace(&mut places[at], at);
            if from == start {
                break;
            }
            items.swap(at, from);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn items_are_sorted_as_the_standard_library_does() {
        for count in 0..200usize {
            let items: Vec<(usize, usize)> = (0..count).map(|index| (index * 7919 % 31, index)).collect();
            let (mut sorted, mut expected) = (items.clone(), items);
            by_key(&mut sorted, |(key, _)| std::cmp::Reverse(*key));
            expected.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
            assert_eq!(sorted, expected, "{count} items");
        }
    }

    #[test]
    fn of_equal_keys_the_last_is_kept() {
        let map: BTreeMap<&str, u8> = inserted([("b", 1), ("a", 2), ("b", 3)]);
        assert_eq!(map, BTreeMap::from([("a", 2), ("b", 3)]));
    }
}
