//! Slices in NumPy's syntax: `name[3]`, `name[-2:, ::64]`, `name[..., 0]`.

/// One item of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Index(i64),
    Range {
        start: Option<i64>,
        stop: Option<i64>,
        step: i64,
    },
    /// As many whole dimensions as are left.
    Ellipsis,
}

/// A parsed slice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Slice(Vec<Item>);

/// The selected indices of one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    /// The first index.
    pub start: u64,
    pub step: i64,
    pub count: u64,
    /// Whether the dimension is part of the result; an index alone removes it.
    pub is_kept: bool,
}

impl Axis {
    /// The index at a position.
    pub(super) fn at(&self, position: u64) -> u64 {
        self.start.saturating_add_signed(self.step.saturating_mul(position.try_into().unwrap_or(i64::MAX)))
    }
}

impl Slice {
    /// Parses the text between the brackets.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let items = text.trim().trim_end_matches(',');
        if items.trim().is_empty() {
            return if text.trim().is_empty() { Err("the brackets are empty".to_owned()) } else { Ok(Self::default()) };
        }
        let items: Vec<Item> = items.split(',').map(|item| parse_item(item.trim())).collect::<Result<_, _>>()?;
        match items.iter().filter(|item| **item == Item::Ellipsis).count() {
            0 | 1 => Ok(Self(items)),
            _ => Err("only one ... is possible".to_owned()),
        }
    }

    /// The selected indices of every dimension.
    pub(super) fn axes(&self, shape: &[usize]) -> Result<Vec<Axis>, String> {
        let given = self.0.iter().filter(|item| **item != Item::Ellipsis).count();
        let Some(free) = shape.len().checked_sub(given) else {
            return Err(format!("it has {given} indices, and the tensor {} dimensions", shape.len()));
        };
        let whole = Item::Range { start: None, stop: None, step: 1 };
        let mut items = Vec::with_capacity(shape.len());
        for item in &self.0 {
            match item {
                Item::Ellipsis => items.extend(std::iter::repeat_n(whole, free)),
                item => items.push(*item),
            }
        }
        items.resize(shape.len(), whole);
        let lengths = shape.iter().enumerate();
        items.into_iter().zip(lengths).map(|(item, (dimension, &length))| axis(item, dimension, length)).collect()
    }
}

fn parse_item(text: &str) -> Result<Item, String> {
    if text == "..." {
        return Ok(Item::Ellipsis);
    }
    let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a whole number"));
    let optional = |text: &str| if text.is_empty() { Ok(None) } else { number(text).map(Some) };
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    match parts[..] {
        [""] => Err("an index is missing".to_owned()),
        [index] => number(index).map(Item::Index),
        [start, stop] => Ok(Item::Range { start: optional(start)?, stop: optional(stop)?, step: 1 }),
        [start, stop, step] => {
            let step = optional(step)?.unwrap_or(1);
            if step == 0 {
                return Err("the step is zero".to_owned());
            }
            Ok(Item::Range { start: optional(start)?, stop: optional(stop)?, step })
        }
        _ => Err(format!("{text:?} has too many colons")),
    }
}

/// The indices of one item; ranges are cut to the dimension, as in NumPy.
fn axis(item: Item, dimension: usize, length: usize) -> Result<Axis, String> {
    let count = i64::try_from(length).map_err(|_| "the dimension is too long".to_owned())?;
    match item {
        Item::Index(index) => {
            let place = if index < 0 { index.saturating_add(count) } else { index };
            if !(0..count).contains(&place) {
                return Err(format!("index {index} is out of range: dimension {dimension} has {length}"));
            }
            Ok(Axis { start: place.cast_unsigned(), step: 1, count: 1, is_kept: false })
        }
        Item::Range { start, stop, step } => {
            // The ends are exclusive behind the last index in the direction of the step.
            let (low, high) = if step > 0 { (0, count) } else { (-1, count - 1) };
            let place = |index: i64| {
                let index = if index < 0 { index.saturating_add(count) } else { index };
                index.clamp(low, high)
            };
            let first = start.map_or(if step > 0 { low } else { high }, place);
            let last = stop.map_or(if step > 0 { high } else { low }, place);
            let span = if step > 0 { last - first } else { first - last };
            let taken = if span <= 0 { 0 } else { (span - 1) / step.saturating_abs() + 1 };
            let start = first.max(0).cast_unsigned();
            Ok(Axis { start, step, count: taken.cast_unsigned(), is_kept: true })
        }
        Item::Ellipsis => Err("an ellipsis is not an index".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The indices that a slice takes of ten.
    fn taken(text: &str) -> Vec<u64> {
        let axes = Slice::parse(text).unwrap().axes(&[10]).unwrap();
        (0..axes[0].count).map(|position| axes[0].at(position)).collect()
    }

    #[test]
    fn ranges_are_those_of_numpy() {
        assert_eq!(taken("2:5"), [2, 3, 4]);
        assert_eq!(taken(":3"), [0, 1, 2]);
        assert_eq!(taken("-3:"), [7, 8, 9]);
        assert_eq!(taken("::4"), [0, 4, 8]);
        assert_eq!(taken("::-4"), [9, 5, 1]);
        assert_eq!(taken("8:2:-3"), [8, 5]);
        assert_eq!(taken("5:100"), [5, 6, 7, 8, 9]);
        assert_eq!(taken("100:"), [0u64; 0]);
        assert_eq!(taken("-100:2"), [0, 1]);
        assert_eq!(taken("100::-5"), [9, 4]);
        assert_eq!(taken(":-100:-1"), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(taken("5:2"), [0u64; 0]);
        assert_eq!(taken("-1"), [9]);
        assert_eq!(taken(" 1 : 3 ,"), [1, 2]);
        assert_eq!(taken("::9223372036854775807"), [0]);
        assert_eq!(taken("::-9223372036854775808"), [9]);
    }

    #[test]
    fn dimensions_that_are_not_named_are_whole() {
        let shape = |text: &str| -> Vec<u64> {
            let axes = Slice::parse(text).unwrap().axes(&[2, 3, 4]).unwrap();
            axes.iter().filter(|axis| axis.is_kept).map(|axis| axis.count).collect()
        };
        assert_eq!(shape("0"), [3, 4]);
        assert_eq!(shape("..., 0"), [2, 3]);
        assert_eq!(shape("0, ..., ::2"), [3, 2]);
        assert_eq!(shape("0, 1, 2"), [0u64; 0]);
        assert_eq!(shape("..."), [2, 3, 4]);
    }

    #[test]
    fn malformed_slices_are_refused() {
        for text in ["", " ", "a", "1.5", "1,,2", "::0", "1:2:3:4", "..., ...", "99999999999999999999", "0x1", "1 2"] {
            assert!(Slice::parse(text).is_err(), "{text}");
        }
        for text in ["10", "-11", "0, 0"] {
            assert!(Slice::parse(text).unwrap().axes(&[10]).is_err(), "{text}");
        }
        assert!(Slice::parse("0").unwrap().axes(&[]).is_err());
        assert!(Slice::parse("0").unwrap().axes(&[0]).is_err());
        assert_eq!(Slice::parse(":").unwrap().axes(&[0]).unwrap()[0].count, 0);
    }
}
