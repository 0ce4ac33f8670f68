//! The data of the page: names as templates with numbers, and a column per property of a tensor.

use std::collections::{HashMap, HashSet};

use anamnesis::{Checkpoint, ContentTensor, Contents, ModelStats, Result, TensorStats};
use serde_json::{Value, json};

use super::columns::{Columns, Precision};
use super::errors::Errors;
use super::picture::Picture;
use crate::commands::natural;

/// Tensors in the table; the largest, if there are more.
const MAX_TENSORS: usize = 100_000;
/// Tensors up to which real numbers have 32 bits.
const MAX_FULL: usize = 20_000;
/// Tensors with a histogram, and bins of one.
const MAX_HISTOGRAMS: usize = 8_000;
const BINS: usize = 32;
/// Tensors with a picture.
const MAX_PICTURES: usize = 24;
/// Tensors listed with values that are not finite.
const MAX_SPECIAL: usize = 1_000;
/// Most characters of a piece of a name, and numbers of a name that become columns.
const MAX_NAME_CHARS: usize = 512;
const MAX_NUMBERS: usize = 4;
/// Stands for a number in a template.
const NUMBER: &str = "\u{0}";
/// The shape of a tensor that cannot be decoded.
const NO_SHAPE: u32 = u32::MAX;

/// The measured values of a model.
pub(super) struct Measured<'a> {
    pub(super) stats: Option<&'a ModelStats>,
    pub(super) errors: Option<&'a Errors>,
}

/// The data of a page, and its columns.
pub(super) fn data(
    name: &str,
    checkpoint: &Checkpoint,
    contents: &Contents<'_>,
    measured: &Measured<'_>,
) -> Result<(Value, Vec<u8>)> {
    let listed = listed(contents);
    let precision = if listed.len() > MAX_FULL { Precision::Short } else { Precision::Full };
    let mut columns = Columns::default();
    let names = Names::of(&listed);
    columns.u32("template", names.templates_of.iter().copied());
    for (place, numbers) in names.numbers.iter().enumerate() {
        columns.u32(&format!("n{place}"), numbers.iter().copied());
    }
    let mut shapes = Shapes::default();
    columns.u32(
        "shape",
        listed.iter().map(|tensor| tensor.shape.as_deref().map_or(NO_SHAPE, |shape| shapes.place(shape))),
    );
    columns.u32("kind", listed.iter().map(|tensor| u32::try_from(tensor.kind).unwrap_or(0)));
    columns.f64("bytes", listed.iter().map(|tensor| tensor.bytes as f64));
    let mut special = serde_json::Map::new();
    if let Some(stats) = measured.stats {
        special = add_stats(&mut columns, &listed, stats, precision);
    }
    if let Some(errors) = measured.errors {
        let of = |tensor: &&ContentTensor<'_>| errors.by_name.get(tensor.name);
        let missing = f64::NAN;
        columns.real(
            "sqnr",
            precision,
            listed.iter().map(|tensor| of(tensor).map_or(missing, |error| error.sqnr) as f32),
        );
        if errors.has_largest {
            let largest = listed.iter().map(|tensor| of(tensor).map_or(missing, |error| error.largest) as f32);
            columns.real("largest", precision, largest);
        }
    }
    let pictures = match measured.stats {
        Some(stats) => add_pictures(&mut columns, checkpoint, &listed, &names.templates_of, stats)?,
        None => Vec::new(),
    };
    let (descriptions, bytes) = columns.finish();
    let kind = |kind: &anamnesis::StorageKind| json!({ "name": kind.name, "bytes": kind.bytes, "quantized": kind.is_quantized });
    let meta = json!({
        "name": name,
        "count": listed.len(),
        "kinds": contents.kinds.iter().map(kind).collect::<Value>(),
        "shapes": shapes.shapes,
        "templates": names.templates,
        "numbered": names.is_numbered,
        "columns": descriptions,
        "special": special,
        "pictures": pictures,
        "digits": if precision == Precision::Full { 4 } else { 2 },
        "approximate": precision == Precision::Short,
        "compared": measured.errors.map(|errors| json!({ "text": errors.text })),
    });
    Ok((meta, bytes))
}

/// How many tensors are left out of the table.
pub(super) fn left_out(contents: &Contents<'_>) -> usize {
    contents.tensors.len().saturating_sub(MAX_TENSORS)
}

/// The tensors of the table, in natural order of their names.
fn listed<'a, 'b>(contents: &'b Contents<'a>) -> Vec<&'b ContentTensor<'a>> {
    let mut listed: Vec<_> = contents.tensors.iter().collect();
    if listed.len() > MAX_TENSORS {
        listed.select_nth_unstable_by_key(MAX_TENSORS, |tensor| (std::cmp::Reverse(tensor.bytes), tensor.name));
        listed.truncate(MAX_TENSORS);
    }
    listed.sort_by(|a, b| natural::compare(a.name, b.name));
    listed
}

/// Names as templates, whose numbers are columns.
#[derive(Default)]
struct Names {
    templates: Vec<String>,
    /// Whether the marks in a template are numbers.
    is_numbered: Vec<bool>,
    templates_of: Vec<u32>,
    numbers: Vec<Vec<u32>>,
}

impl Names {
    fn of(tensors: &[&ContentTensor<'_>]) -> Self {
        let mut names = Self::default();
        let mut known: HashMap<(String, bool), u32> = HashMap::new();
        for (index, tensor) in tensors.iter().enumerate() {
            let (template, numbers) = template(tensor.name);
            let is_numbered = !numbers.is_empty();
            let next = u32::try_from(names.templates.len()).unwrap_or(0);
            let place = *known.entry((template.clone(), is_numbered)).or_insert_with(|| {
                names.templates.push(template);
                names.is_numbered.push(is_numbered);
                next
            });
            names.templates_of.push(place);
            while names.numbers.len() < numbers.len() {
                names.numbers.push(vec![0; index]);
            }
            for (column, numbers_of) in names.numbers.iter_mut().enumerate() {
                numbers_of.push(numbers.get(column).copied().unwrap_or(0));
            }
        }
        names
    }
}

/// A name with marks in place of its numbers; without numbers if they are too many.
fn template(name: &str) -> (String, Vec<u32>) {
    let number = |piece: &str| {
        let is_plain = piece.bytes().all(|byte| byte.is_ascii_digit()) && (piece == "0" || !piece.starts_with('0'));
        piece.parse().ok().filter(|_| is_plain)
    };
    let numbers: Vec<u32> = name.split('.').filter_map(number).collect();
    if numbers.is_empty() || numbers.len() > MAX_NUMBERS || name.contains(NUMBER) || name.len() > MAX_NAME_CHARS {
        return (name.chars().take(MAX_NAME_CHARS).collect(), Vec::new());
    }
    let mark = |piece| if number(piece).is_some() { NUMBER } else { piece };
    (name.split('.').map(mark).collect::<Vec<_>>().join("."), numbers)
}

/// Distinct shapes.
#[derive(Default)]
struct Shapes {
    shapes: Vec<Vec<usize>>,
    known: HashMap<Vec<usize>, u32>,
}

impl Shapes {
    fn place(&mut self, shape: &[usize]) -> u32 {
        if let Some(&place) = self.known.get(shape) {
            return place;
        }
        let place = u32::try_from(self.shapes.len()).unwrap_or(NO_SHAPE);
        self.shapes.push(shape.to_vec());
        self.known.insert(shape.to_vec(), place);
        place
    }
}

/// Adds statistics and histograms, and returns the tensors with values that are not finite.
fn add_stats(
    columns: &mut Columns,
    listed: &[&ContentTensor<'_>],
    stats: &ModelStats,
    precision: Precision,
) -> serde_json::Map<String, Value> {
    let by_name: HashMap<&str, &TensorStats> =
        stats.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let of: Vec<Option<&TensorStats>> = listed.iter().map(|tensor| by_name.get(tensor.name).copied()).collect();
    let mut column = |name: &str, read: fn(&anamnesis::FiniteStats) -> f32| {
        let values = of.iter().map(|tensor| tensor.and_then(|tensor| tensor.finite.as_ref()).map_or(f32::NAN, read));
        columns.real(name, precision, values);
    };
    column("min", |finite| finite.min as f32);
    column("max", |finite| finite.max as f32);
    column("mean", |finite| finite.mean as f32);
    column("deviation", |finite| finite.deviation as f32);
    let mut places: Vec<usize> = (0..listed.len()).filter(|&place| of[place].is_some()).collect();
    places.sort_by_key(|&place| (std::cmp::Reverse(listed[place].bytes), place));
    places.truncate(MAX_HISTOGRAMS);
    places.sort_unstable();
    let histograms: Vec<_> = places.iter().filter_map(|&place| of[place]).map(|tensor| &tensor.histogram).collect();
    columns.u32("hist_tensor", places.iter().map(|&place| u32::try_from(place).unwrap_or(0)));
    columns.real("hist_start", Precision::Full, histograms.iter().map(|histogram| histogram.start() as f32));
    columns.real("hist_width", Precision::Full, histograms.iter().map(|histogram| histogram.width() as f32));
    let mut bins = Vec::with_capacity(histograms.len() * BINS);
    for histogram in histograms {
        let counts = histogram.counts();
        let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
        let level = |count: &u64| ((*count as f64 / most * 255.0).round() as u8).max(u8::from(*count > 0));
        bins.extend((0..BINS).map(|bin| counts.get(bin).map_or(0, level)));
    }
    columns.u8("hist_bins", &bins);
    let is_special = |tensor: &TensorStats| tensor.nan > 0 || tensor.infinite > 0;
    let special = of.iter().enumerate().filter_map(|(place, tensor)| Some((place, (*tensor)?)));
    let special = special.filter(|(_, tensor)| is_special(tensor)).take(MAX_SPECIAL);
    special.map(|(place, tensor)| (place.to_string(), json!([tensor.nan, tensor.infinite]))).collect()
}

/// Adds pictures of the largest tensor of every template.
fn add_pictures(
    columns: &mut Columns,
    checkpoint: &Checkpoint,
    listed: &[&ContentTensor<'_>],
    templates: &[u32],
    stats: &ModelStats,
) -> Result<Vec<Value>> {
    let measured: HashSet<&str> = stats.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let mut largest: HashMap<u32, usize> = HashMap::new();
    for (place, template) in templates.iter().enumerate() {
        let best = largest.entry(*template).or_insert(place);
        if listed[place].bytes > listed[*best].bytes {
            *best = place;
        }
    }
    let mut places: Vec<usize> = largest.into_values().collect();
    places.sort_by_key(|&place| (std::cmp::Reverse(listed[place].bytes), place));
    let (mut pictures, mut cells) = (Vec::new(), Vec::new());
    for place in places {
        if pictures.len() == MAX_PICTURES {
            break;
        }
        let tensor = listed[place];
        let Some(shape) = tensor.shape.as_deref().filter(|_| measured.contains(tensor.name)) else { continue };
        let Some(picture) = Picture::of(checkpoint, tensor.name, shape)? else { continue };
        pictures.push(json!({ "tensor": place, "rows": picture.rows, "columns": picture.columns, "low": picture.low,
            "high": picture.high, "signed": picture.is_signed, "of": picture.of, "at": cells.len() }));
        cells.extend(picture.cells);
    }
    columns.u8("pictures", &cells);
    Ok(pictures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_templates_and_numbers() {
        assert_eq!(template("a.10.b.0"), (format!("a.{NUMBER}.b.{NUMBER}"), vec![10, 0]));
        for name in ["a", "a.01.b", "a.4294967296", "0.1.2.3.4", "a.\u{0}.1", "", "a.-1"] {
            assert_eq!(template(name), (name.to_owned(), Vec::new()), "{name}");
        }
    }
}
