//! Twins of the types whose values are −1, 0 and 1, a little to one side: IQ1_S, IQ1_M.

use std::rc::Rc;

use super::grid::Grid;
use super::search::{energy, to_half, weigh, whole};

/// How far values are to one side.
const ASIDE: f32 = 0.125;

/// What a level stands for, above or below.
fn number(level: u8, is_above: bool) -> f32 {
    f32::from(level) - 1.0 + if is_above { ASIDE } else { -ASIDE }
}

fn grid() -> Rc<Grid> {
    Grid::of("iq1_s", 8, 3)
}

/// Some values under one scale: a point and a side for each eight of them. There are none where there is nothing.
struct Part {
    scale: f32,
    points: Vec<usize>,
    sides: Vec<bool>,
}

/// Where sorted values are cut in three, the side of each eight, and the scale.
struct Cut {
    first: usize,
    second: usize,
    sides: Vec<bool>,
    scale: f32,
}

/// Keeps the better of cuts.
struct Best {
    score: f32,
    cut: Option<Cut>,
}

impl Best {
    const NONE: Self = Self { score: -f32::MAX, cut: None };

    fn offer(&mut self, first: usize, second: usize, products: f32, squares: f32, sides: &[bool]) {
        if squares > 0.0 && products * products > self.score * squares {
            let scale = products / squares;
            self.score = scale * products;
            self.cut = Some(Cut { first, second, sides: sides.to_vec(), scale });
        }
    }
}

/// Sums of the first of some numbers, of the first two, and so on, from none on.
fn running(numbers: impl Iterator<Item = f32>) -> Vec<f32> {
    let mut sums = vec![0.0];
    numbers.for_each(|number| sums.push(sums[sums.len() - 1] + number));
    sums
}

/// All cuts of values that share one side.
fn one_side(values: &[f32], weights: &[f32], order: &[usize]) -> Best {
    let count = values.len();
    let products = running(order.iter().map(|&i| weights[i] * values[i]));
    let sums = running(order.iter().map(|&i| weights[i]));
    let mut best = Best::NONE;
    for first in 0..=count {
        for second in first..=count {
            for is_above in [true, false] {
                let [low, middle, high] = [0, 1, 2].map(|level| number(level, is_above));
                let product = (products[first] - products[0]) * low
                    + (products[second] - products[first]) * middle
                    + (products[count] - products[second]) * high;
                let square = (sums[first] - sums[0]) * low * low
                    + (sums[second] - sums[first]) * middle * middle
                    + (sums[count] - sums[second]) * high * high;
                best.offer(first, second, product, square, &vec![is_above; count / 8]);
            }
        }
    }
    best
}

/// All cuts of sixteen values, whose halves have a side each.
fn two_sides(values: &[f32], weights: &[f32], order: &[usize]) -> Best {
    let of_half = |half: usize, numbers: &dyn Fn(usize) -> f32| {
        let mut sums = vec![0.0];
        for &i in order {
            let last = sums[sums.len() - 1];
            sums.push(if i / 8 == half { last + numbers(i) } else { last });
        }
        sums
    };
    let products = [0, 1].map(|half| of_half(half, &|i| weights[i] * values[i]));
    let sums = [0, 1].map(|half| of_half(half, &|i| weights[i]));
    let mut best = Best::NONE;
    for first in 0..=16 {
        for second in first..=16 {
            let terms = |half: usize, is_above: bool| {
                let [low, middle, high] = [0, 1, 2].map(|level| number(level, is_above));
                let (products, sums) = (&products[half], &sums[half]);
                let product = products[16] * high - (products[first] + products[second]);
                let square = sums[16] * high * high
                    + sums[first] * (low * low - middle * middle)
                    + sums[second] * (middle * middle - high * high);
                (product, square)
            };
            for sides in [[true, true], [true, false], [false, true], [false, false]] {
                let ((product, square), (other, other_square)) = (terms(0, sides[0]), terms(1, sides[1]));
                best.offer(first, second, product + other, square + other_square, &sides);
            }
        }
    }
    best
}

fn find(values: &[f32], weights: &[f32], nothing: f32, cuts: impl Fn(&[f32], &[f32], &[usize]) -> Best) -> Part {
    let count = values.len();
    let none = Part { scale: 0.0, points: vec![], sides: vec![true; count / 8] };
    if values.iter().fold(0.0f32, |largest, value| largest.max(value.abs())) < nothing {
        return none;
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| values[a].partial_cmp(&values[b]).unwrap());
    let Some(Cut { first, second, mut sides, mut scale }) = cuts(values, weights, &order).cut else { return none };
    let mut levels = vec![0; count];
    for (rank, &place) in order.iter().enumerate() {
        levels[place] = u8::from(rank >= first) + u8::from(rank >= second);
    }
    if scale < 0.0 {
        levels.iter_mut().for_each(|level| *level = 2 - *level);
        sides.iter_mut().for_each(|side| *side = !*side);
        scale = -scale;
    }
    let grid = grid();
    let mut is_on_grid = true;
    let mut points = Vec::new();
    for (run, levels) in levels.chunks(8).enumerate() {
        points.push(grid.find(levels).unwrap_or_else(|| {
            is_on_grid = false;
            let number = |level| number(level, sides[run]);
            grid.best(levels, &values[8 * run..][..8], &weights[8 * run..][..8], scale, number)
        }));
    }
    if !is_on_grid {
        let (mut products, mut squares) = (0.0, 0.0);
        for place in 0..count {
            let number = number(grid.points[points[place / 8]][place % 8], sides[place / 8]);
            products += weights[place] * number * values[place];
            squares += weights[place] * number * number;
        }
        if products > 0.0 && squares > 0.0 {
            scale = products / squares;
        }
    }
    Part { scale, points, sides }
}

fn largest(parts: &[Part]) -> f32 {
    parts.iter().fold(0.0, |largest, part| if largest > part.scale { largest } else { part.scale })
}

/// The three-bit code of a part's scale under that of all.
fn code(part: &Part, scale: f32) -> u8 {
    whole(0.5 * (1.0 / scale * part.scale - 1.0)).clamp(0, 7) as u8
}

/// The point of a run, the first where there is none.
fn point(part: &Part, run: usize) -> usize {
    part.points.get(run).copied().unwrap_or(0)
}

pub fn iq1_s(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let importance = importance.unwrap();
    let mut bytes = Vec::new();
    for (block, importance) in values.chunks(256).zip(importance.chunks(256)) {
        let variance = 2.0 * energy(block) / 256.0;
        let parts = block.chunks(32).zip(importance.chunks(32));
        let parts: Vec<Part> =
            parts.map(|(part, weights)| find(part, &weigh(part, weights, variance), 1e-12, one_side)).collect();
        let largest = largest(&parts);
        let scale = largest / 15.0;
        bytes.extend(to_half(scale * 1.125).0.to_le_bytes());
        bytes.extend(parts.iter().flat_map(|part| (0..4).map(|run| point(part, run) as u8)));
        for part in &parts {
            let high = (0..4).fold(0, |bits, run| bits | (point(part, run) >> 8) << (3 * run)) as u16;
            let code = u16::from(code(part, scale)) | u16::from(!part.sides[0]) << 3;
            bytes.extend((high | if largest == 0.0 { 0 } else { code << 12 }).to_le_bytes());
        }
    }
    bytes
}

pub fn iq1_m(values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, block) in values.chunks(256).enumerate() {
        let variance = 2.0 * energy(block) / 256.0;
        let weights: Vec<f32> = match importance {
            Some(importance) => weigh(block, &importance[256 * index..][..256], variance),
            None => block.iter().map(|value| value * value).collect(),
        };
        let parts = block.chunks(16).zip(weights.chunks(16));
        let parts: Vec<Part> = parts.map(|(part, weights)| find(part, weights, 1e-7, two_sides)).collect();
        let largest = largest(&parts);
        let mut scale = largest / 15.0;
        let codes: Vec<u8> = parts.iter().map(|part| if largest == 0.0 { 0 } else { code(part, scale) }).collect();
        bytes.extend(parts.iter().flat_map(|part| (0..2).map(|run| point(part, run) as u8)));
        for part in &parts {
            let side = |run: usize| if largest == 0.0 { 0 } else { u8::from(!part.sides[run]) << 3 };
            let high = |run: usize| (point(part, run) >> 8) as u8 | side(run);
            bytes.push(high(0) | high(1) << 4);
        }
        let mut words: Vec<u16> =
            codes.chunks(4).map(|four| (0..4).fold(0, |bits, n| bits | u16::from(four[n]) << (3 * n))).collect();
        if largest > 0.0 {
            let (mut products, mut squares) = (0.0, 0.0);
            for place in 0..256 {
                let (part, run) = (&parts[place / 16], place % 16 / 8);
                let level = grid().points[point(part, run)][place % 8];
                let number = number(level, part.sides[run]) * f32::from(2 * codes[place / 16] + 1);
                products += weights[place] * number * block[place];
                squares += weights[place] * number * number;
            }
            scale = if squares > 0.0 { products / squares } else { scale };
            let half = to_half(scale * 1.1125).0;
            words.iter_mut().enumerate().for_each(|(n, word)| *word |= (half >> (4 * n) & 15) << 12);
        }
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    bytes
}
