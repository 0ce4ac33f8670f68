//! The grids of the IQ types the other way: which point is nearest to some numbers.
//!
//! Numbers are rounded to levels first. Where these levels are a point of the grid, that is the answer; where they are not,
//! the points around them are compared. Which those are, the nearest by distance and the next nearest, is found once for
//! all levels there can be.

use std::sync::OnceLock;

use super::lanes::LANES;

/// Points that are compared at once, by their elements: `1 + 2 × level`.
struct Near<const D: usize> {
    elements: [[i8; LANES]; D],
    points: [u16; LANES],
}

/// A grid of points of `D` elements, whose levels take `BITS` bits each.
pub(super) struct Grid<const D: usize, const BITS: usize> {
    /// By packed levels: the point, or where its surroundings begin, as a number below zero.
    map: Vec<i32>,
    /// How many of [`near`](Self::near) a surrounding has, where it begins.
    lengths: Vec<u16>,
    near: Vec<Near<D>>,
    table: &'static [u16],
}

/// The grid of a table, made when it is first needed.
pub(super) struct Lazy<const D: usize, const BITS: usize> {
    table: &'static [u16],
    levels: u16,
    /// Distances of points that are compared.
    distances: usize,
    made: OnceLock<Grid<D, BITS>>,
}

impl<const D: usize, const BITS: usize> Lazy<D, BITS> {
    pub(super) const fn new(table: &'static [u16], levels: u16, distances: usize) -> Self {
        Self { table, levels, distances, made: OnceLock::new() }
    }

    pub(super) fn get(&self) -> &Grid<D, BITS> {
        self.made.get_or_init(|| Grid::new(self.table, self.levels, self.distances))
    }
}

/// One element of packed levels.
const fn level<const BITS: usize>(packed: u16, element: usize) -> i32 {
    (packed as usize >> (BITS * element) & ((1 << BITS) - 1)) as i32
}

impl<const D: usize, const BITS: usize> Grid<D, BITS> {
    fn new(table: &'static [u16], levels: u16, distances: usize) -> Self {
        let mut grid = Self { map: vec![0; 1 << (D * BITS)], lengths: Vec::new(), near: Vec::new(), table };
        let mut is_point = vec![false; 1 << (D * BITS)];
        for (index, &point) in table.iter().enumerate() {
            grid.map[usize::from(point)] = index as i32;
            is_point[usize::from(point)] = true;
        }
        let mut by_distance: Vec<Vec<u16>> = Vec::new();
        for packed in 0..=u16::MAX >> (16 - D * BITS) {
            let is_possible = (0..D).all(|element| level::<BITS>(packed, element) < levels.into());
            if is_possible && !is_point[usize::from(packed)] {
                grid.map[usize::from(packed)] = -(grid.near.len() as i32) - 1;
                grid.surround(packed, distances, &mut by_distance);
            }
        }
        grid
    }

    /// Adds the points around some levels: nearest first, points of one distance in the order of the table.
    fn surround(&mut self, packed: u16, distances: usize, by_distance: &mut Vec<Vec<u16>>) {
        by_distance.iter_mut().for_each(Vec::clear);
        for (index, &point) in self.table.iter().enumerate() {
            let apart = |element| level::<BITS>(point, element) - level::<BITS>(packed, element);
            let distance = (0..D).map(|element| apart(element) * apart(element)).sum::<i32>() as usize;
            if by_distance.len() <= distance {
                by_distance.resize_with(distance + 1, Vec::new);
            }
            by_distance[distance].push(index as u16);
        }
        let points: Vec<u16> =
            by_distance.iter().filter(|points| !points.is_empty()).take(distances).flatten().copied().collect();
        let Some(&first) = points.first() else { return };
        let start = self.near.len();
        for points in points.chunks(LANES) {
            // Lanes without a point repeat the first, which is no nearer than itself.
            let mut near = Near { elements: [[0; LANES]; D], points: [first; LANES] };
            near.points[..points.len()].copy_from_slice(points);
            for (lane, point) in near.points.iter().enumerate() {
                for element in 0..D {
                    near.elements[element][lane] =
                        1 + 2 * level::<BITS>(self.table[usize::from(*point)], element) as i8;
                }
            }
            self.near.push(near);
        }
        self.lengths.resize(self.near.len(), 0);
        self.lengths[start] = (self.near.len() - start) as u16;
    }

    /// One element of a point, from zero on.
    #[inline(always)]
    pub(super) fn level(&self, point: u16, element: usize) -> i32 {
        level::<BITS>(self.table[usize::from(point)], element)
    }

    /// The point that levels are, or the points around them.
    #[inline(always)]
    pub(super) fn find(&self, packed: u16) -> Result<u16, Surroundings<'_, D>> {
        match self.map[usize::from(packed)] {
            point @ 0.. => Ok(point as u16),
            start => {
                let start = (-1 - start) as usize;
                Err(Surroundings(&self.near[start..start + usize::from(self.lengths[start])]))
            }
        }
    }
}

/// The points around some levels.
pub(super) struct Surroundings<'a, const D: usize>(&'a [Near<D>]);

impl<const D: usize> Surroundings<'_, D> {
    /// The point nearest to `values` with these weights under a scale, the first of several. An element counts as
    /// `numbers` says it does.
    #[inline(always)]
    pub(super) fn nearest(&self, values: &[f32; D], weights: &[f32; D], scale: f32, number: impl Fn(i8) -> f32) -> u16 {
        let (mut best, mut found) = (f32::MAX, 0);
        for near in self.0 {
            let mut distances = [0.0f32; LANES];
            for element in 0..D {
                for lane in 0..LANES {
                    let apart = scale * number(near.elements[element][lane]) - values[element];
                    distances[lane] += weights[element] * apart * apart;
                }
            }
            let least = distances
                .iter()
                .fold(f32::INFINITY, |least, &distance| if distance < least { distance } else { least });
            if least < best {
                best = least;
                found = near.points[distances.iter().position(|&distance| distance == least).unwrap_or(0)];
            }
        }
        found
    }
}
