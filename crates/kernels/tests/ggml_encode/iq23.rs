//! Twins of the types whose magnitudes are points of a grid: IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S.

use super::grid::Grid;
use super::search::{energy, of_scales, to_half, weigh, whole};

/// What one of these types does in its own way.
struct Kind {
    /// The name of its grid, the places of a point and the number of levels.
    grid: &'static str,
    places: usize,
    levels: i32,
    /// How many of the nearest distances are searched for points.
    distances: usize,
    /// Values under one scale.
    part: usize,
    /// Steps that are tried on either side, and how far they are apart.
    steps: i32,
    step: f32,
    /// Magnitudes up to this are nothing.
    is_nothing: fn(f32) -> bool,
    /// Whether the signs of eight values are even in number: the eighth is not stored.
    is_even: bool,
    /// Whether a first search finds where steps begin.
    is_searched: bool,
    /// Whether points are looked for again under the final scale: all of them, those of a part with one off the grid, or only
    /// those that were off.
    again: Again,
    /// What the energy is multiplied by to get the variance.
    variance: f32,
    /// What the stored scale is multiplied by.
    factor: f32,
}

#[derive(PartialEq)]
enum Again {
    All,
    AllIfAny,
    Off,
}

/// Some values under one scale: points, signs of each eight, scale.
struct Part {
    is_nothing: bool,
    scale: f32,
    points: Vec<usize>,
    signs: Vec<u8>,
}

fn number(level: u8) -> f32 {
    f32::from(2 * level + 1)
}

/// Magnitudes and signs. Where signs must be even and are not, the value that matters least changes its own.
fn split(values: &[f32], weights: &[f32], is_even: bool) -> (Vec<f32>, Vec<u8>) {
    let (mut sizes, mut all_signs) = (Vec::new(), Vec::new());
    for (values, weights) in values.chunks(8).zip(weights.chunks(8)) {
        let mut signs = 0u8;
        let mut eight: Vec<f32> = Vec::new();
        for (place, &value) in values.iter().enumerate() {
            eight.push(if value >= 0.0 { value } else { -value });
            signs |= u8::from(value < 0.0) << place;
        }
        if is_even && signs.count_ones() % 2 == 1 {
            let matter = |place: usize| weights[place] * values[place] * values[place];
            let least = (1..8).fold(0, |least, place| if matter(place) < matter(least) { place } else { least });
            eight[least] = -eight[least];
            signs ^= 1 << least;
        }
        sizes.extend(eight);
        all_signs.push(if is_even { signs & 127 } else { signs });
    }
    (sizes, all_signs)
}

fn find(kind: &Kind, values: &[f32], weights: &[f32]) -> Part {
    let grid = Grid::of(kind.grid, kind.places, kind.distances);
    let roots: Vec<f32> = weights.iter().map(|weight| weight.sqrt()).collect();
    let (sizes, mut signs) = split(values, weights, kind.is_even);
    let count = values.len() / kind.places;
    let nothing = || Part { is_nothing: true, scale: 0.0, points: vec![0; count], signs: vec![0; values.len() / 8] };
    let largest = sizes.iter().fold(sizes[0], |largest, &size| if largest > size { largest } else { size });
    if (kind.is_nothing)(largest) {
        return nothing();
    }
    let top = (2 * kind.levels - 1) as f32;
    let (mut scale, mut from) = (largest / top, largest);
    if kind.is_searched {
        scale = of_scales(&sizes, weights, kind.levels + 1).0;
        from = scale * kind.levels as f32;
        if from <= 0.0 {
            return nothing();
        }
    }
    // The point for one run of places under a scale, and whether it is where the values are.
    let point = |run: usize, inverse: f32, scale: f32| {
        let places = run * kind.places..(run + 1) * kind.places;
        let sizes = &sizes[places.clone()];
        let level = |size: &f32| whole(0.5 * (inverse * size - 1.0)).min(kind.levels - 1).max(0) as u8;
        let levels: Vec<u8> = sizes.iter().map(level).collect();
        match grid.find(&levels) {
            Some(point) => (point, true),
            None => (grid.best(&levels, sizes, &roots[places], scale, number), false),
        }
    };
    let sums = |points: &[(usize, bool)]| {
        let (mut products, mut squares) = (0.0, 0.0);
        let numbers = points.iter().flat_map(|(point, _)| grid.points[*point].iter().map(|level| number(*level)));
        for ((number, size), weight) in numbers.zip(&sizes).zip(weights) {
            products += weight * size * number;
            squares += weight * number * number;
        }
        (products, squares)
    };
    // Before anything is found all levels are zero.
    let zero = grid.find(&vec![0; kind.places]).unwrap();
    let mut best = 0.0;
    let mut found = vec![(zero, kind.again == Again::Off); count];
    for step in -kind.steps..=kind.steps {
        let inverse = (top + step as f32 * kind.step) / from;
        let tried: Vec<(usize, bool)> = (0..count).map(|run| point(run, inverse, 1.0 / inverse)).collect();
        let (products, squares) = sums(&tried);
        if squares > 0.0 && products * products > best * squares {
            (scale, found) = (products / squares, tried);
            best = scale * products;
        }
    }
    let is_any_off = found.iter().any(|(_, is_on)| !is_on);
    if scale > 0.0 && (is_any_off || kind.again == Again::All) {
        for (run, found) in found.iter_mut().enumerate() {
            if kind.again != Again::Off || !found.1 {
                *found = point(run, 1.0 / scale, scale);
            }
        }
        let (products, squares) = sums(&found);
        if squares > 0.0 {
            scale = products / squares;
        }
    }
    if scale < 0.0 {
        scale = -scale;
        signs.iter_mut().for_each(|signs| *signs = !*signs & if kind.is_even { 127 } else { 255 });
    }
    Part { is_nothing: false, scale, points: found.iter().map(|(point, _)| *point).collect(), signs }
}

/// The bytes of a row: scale, then what `pack` makes of points, signs and the codes of the parts' scales.
fn blocks(
    kind: &Kind,
    values: &[f32],
    importance: Option<&[f32]>,
    plain: impl Fn(f32, f32) -> f32,
    pack: impl Fn(&[Part], &[u8]) -> Vec<u8>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, block) in values.chunks(256).enumerate() {
        let variance = kind.variance * energy(block) / 256.0;
        let part = |(number, values): (usize, &[f32])| {
            let weights = match importance {
                Some(all) => weigh(values, &all[256 * index + kind.part * number..][..kind.part], variance),
                None => values.iter().map(|&value| plain(variance, value)).collect(),
            };
            find(kind, values, &weights)
        };
        let parts: Vec<Part> = block.chunks(kind.part).enumerate().map(part).collect();
        let largest = parts.iter().fold(0.0, |largest, part| if largest > part.scale { largest } else { part.scale });
        let scale = largest / 31.0;
        let code = |part: &Part| whole(0.5 * (1.0 / scale * part.scale - 1.0)).clamp(0, 15) as u8;
        if largest == 0.0 {
            // What was found without a scale is stored by the types that store all signs.
            bytes.extend([0; 2]);
            let mut packed = pack(&parts, &vec![0; parts.len()]);
            packed.iter_mut().filter(|_| kind.is_even).for_each(|byte| *byte = 0);
            bytes.extend(packed);
            continue;
        }
        bytes.extend(to_half(scale * kind.factor).0.to_le_bytes());
        bytes.extend(pack(&parts, &parts.iter().map(code).collect::<Vec<u8>>()));
    }
    bytes
}

fn all<T: Copy>(parts: &[Part], of: impl Fn(&Part) -> &Vec<T>) -> Vec<T> {
    parts.iter().flat_map(|part| of(part).clone()).collect()
}

/// Two codes in a byte.
fn pairs(codes: &[u8]) -> Vec<u8> {
    codes.chunks(2).map(|pair| pair[0] | pair[1] << 4).collect()
}

/// Four times seven signs below the code of their scale.
fn signs_and_code(part: &Part, code: u8) -> [u8; 4] {
    let signs = (0..4).fold(0, |bits, eight| bits | u32::from(part.signs[eight]) << (7 * eight));
    (signs | u32::from(code) << 28).to_le_bytes()
}

const IQ2: Kind = Kind {
    grid: "iq2_xs",
    places: 8,
    levels: 3,
    distances: 2,
    part: 16,
    steps: 9,
    step: 0.1,
    is_nothing: |largest| largest < 1e-15,
    is_even: true,
    is_searched: false,
    again: Again::Off,
    variance: 1.0,
    factor: 1.0,
};

const IQ3: Kind = Kind {
    grid: "iq3_xxs",
    places: 4,
    levels: 8,
    part: 32,
    steps: 15,
    step: 0.2,
    is_nothing: |largest| largest < 1e-8,
    variance: 2.0,
    factor: 1.0125,
    ..IQ2
};

pub fn iq2_xxs(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let kind = Kind { grid: "iq2_xxs", part: 32, steps: 6, is_searched: true, again: Again::All, ..IQ2 };
    blocks(
        &kind,
        values,
        importance,
        |_, _| 1.0,
        |parts, codes| {
            let of_part = |(part, &code): (&Part, &u8)| {
                let points: Vec<u8> = part.points.iter().map(|point| *point as u8).collect();
                [points, signs_and_code(part, code).to_vec()].concat()
            };
            parts.iter().zip(codes).flat_map(of_part).collect()
        },
    )
}

pub fn iq2_xs(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    blocks(
        &IQ2,
        values,
        importance,
        |_, _| 1.0,
        |parts, codes| {
            let words = all(parts, |part| &part.points).into_iter().zip(all(parts, |part| &part.signs));
            let words = words.flat_map(|(point, signs)| (point as u16 | u16::from(signs) << 9).to_le_bytes());
            [words.collect(), pairs(codes)].concat()
        },
    )
}

pub fn iq2_s(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let is_nothing = |largest| largest < 1e-8;
    let kind = Kind { grid: "iq2_s", distances: 1, is_nothing, is_even: false, variance: 2.0, factor: 0.9875, ..IQ2 };
    blocks(
        &kind,
        values,
        importance,
        |variance, value| 0.25 * variance + value * value,
        |parts, codes| {
            let points = all(parts, |part| &part.points);
            let low = points.iter().map(|point| *point as u8).collect();
            let high = |four: &[usize]| (0..4).fold(0, |bits, n| bits | ((four[n] >> 8) as u8) << (2 * n));
            [low, all(parts, |part| &part.signs), points.chunks(4).map(high).collect(), pairs(codes)].concat()
        },
    )
}

pub fn iq3_xxs(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    blocks(
        &IQ3,
        values,
        importance,
        |_, value| value * value,
        |parts, codes| {
            let points: Vec<u8> = all(parts, |part| &part.points).iter().map(|point| *point as u8).collect();
            let rest = parts.iter().zip(codes).flat_map(|(part, &code)| signs_and_code(part, code)).collect();
            [points, rest].concat()
        },
    )
}

pub fn iq3_s(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let is_nothing = |largest| largest == 0.0;
    let kind = Kind {
        grid: "iq3_s",
        distances: 3,
        steps: 9,
        is_nothing,
        is_even: false,
        again: Again::AllIfAny,
        factor: 1.033,
        ..IQ3
    };
    blocks(
        &kind,
        values,
        importance,
        |_, value| value * value,
        |parts, codes| {
            let points = all(parts, |part| &part.points);
            let high = |eight: &[usize]| (0..8).fold(0, |bits, n| bits | ((eight[n] >> 8) as u8) << n);
            // ggml does not step over a part of zeros: those behind it move up, but for their high bits.
            let kept = || parts.iter().filter(|part| !part.is_nothing);
            let mut low: Vec<u8> = kept().flat_map(|part| part.points.iter().map(|point| *point as u8)).collect();
            let mut signs: Vec<u8> = kept().flat_map(|part| part.signs.clone()).collect();
            low.resize(64, 0);
            signs.resize(32, 0);
            [low, points.chunks(8).map(high).collect(), signs, pairs(codes)].concat()
        },
    )
}
