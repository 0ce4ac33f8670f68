//! The inverse of the grids of the IQ types: which point a tuple of levels is, and which points are its neighbours. ggml makes
//! the same tables in `iq2xs_init_impl` and `iq3xs_init_impl`.
//!
//! Numbers are rounded to levels first. Where these levels are a point of the grid, that is the answer; where they are not,
//! the points around them are compared ([`near`](super::near)). Which those are, the nearest by distance and the next
//! nearest, is found once for all levels there can be.
//!
//! A point is its levels in sixteen bits, the first element lowest: two bits for each of eight, or four for each of four.

use std::sync::OnceLock;

use super::levels::{bits, level};
use super::near::Surroundings;
use crate::base::GROUP;
use crate::base::simd::Points;

/// Levels that are no point.
const AROUND: u32 = 1 << 31;
/// Bits for how many points there are around levels: a grid has 2048 at most.
const COUNT_BITS: u32 = 12;

/// A grid of points of `D` elements.
pub(super) struct Grid<const D: usize> {
    /// By levels: the number of the point; or, with the highest bit set, where the points around them begin in
    /// [`near`](Self::near) and how many there are.
    map: Vec<u32>,
    near: Vec<Points>,
    points: Vec<u16>,
    unit: f32,
}

/// The grid of a table, made when it is first needed.
pub(super) struct Lazy<const D: usize> {
    table: &'static [u16],
    levels: u16,
    /// Distances of points that are compared.
    distances: usize,
    /// The rough weight of a value that lies halfway between two levels.
    unit: f32,
    made: OnceLock<Grid<D>>,
}

impl<const D: usize> Lazy<D> {
    pub(super) const fn new(table: &'static [u16], levels: u16, distances: usize, unit: f32) -> Self {
        Self { table, levels, distances, unit, made: OnceLock::new() }
    }

    pub(super) fn get(&self) -> &Grid<D> {
        self.made.get_or_init(|| Grid::new(self.table, self.levels, self.distances, self.unit))
    }
}

/// A point of a table, whose levels take three bits where there are four of them.
fn spread<const D: usize>(entry: u16) -> u16 {
    let bits_there = if D == 4 { 3 } else { bits::<D>() };
    (0..D).fold(0, |point, element| {
        let level = entry >> (bits_there * element) & ((1 << bits_there) - 1);
        point | level << (bits::<D>() * element)
    })
}

impl<const D: usize> Grid<D> {
    fn new(table: &[u16], levels: u16, distances: usize, unit: f32) -> Self {
        let points: Vec<u16> = table.iter().map(|entry| spread::<D>(*entry)).collect();
        let mut grid = Self { map: vec![0; 1 << 16], near: Vec::new(), points, unit };
        let mut is_point = vec![false; 1 << 16];
        for (number, point) in grid.points.iter().enumerate() {
            grid.map[usize::from(*point)] = number as u32;
            is_point[usize::from(*point)] = true;
        }
        let mut by_distance: Vec<Vec<u16>> = Vec::new();
        for packed in 0..=u16::MAX {
            let is_possible = (0..D).all(|element| level::<D>(packed, element) < levels);
            if is_possible && !is_point[usize::from(packed)] {
                let start = (grid.near.len() as u32) << COUNT_BITS;
                let count = grid.surround(packed, distances, &mut by_distance);
                grid.map[usize::from(packed)] = AROUND | start | count as u32;
            }
        }
        grid
    }

    /// Adds the points around some levels: nearest first, points of one distance in the order of the table.
    fn surround(&mut self, packed: u16, distances: usize, by_distance: &mut Vec<Vec<u16>>) -> usize {
        by_distance.iter_mut().for_each(Vec::clear);
        for &point in &self.points {
            let apart = |element| i32::from(level::<D>(point, element)) - i32::from(level::<D>(packed, element));
            let distance = (0..D).map(|element| apart(element) * apart(element)).sum::<i32>() as usize;
            if by_distance.len() <= distance {
                by_distance.resize_with(distance + 1, Vec::new);
            }
            by_distance[distance].push(point);
        }
        let points: Vec<u16> =
            by_distance.iter().filter(|points| !points.is_empty()).take(distances).flatten().copied().collect();
        for points in points.chunks(GROUP) {
            // Places without a point repeat the first, which is no nearer than itself.
            let mut near = [[0; GROUP]; 2];
            for place in 0..GROUP {
                let [lower, upper] = points[if place < points.len() { place } else { 0 }].to_le_bytes();
                (near[0][place], near[1][place]) = (lower, upper);
            }
            self.near.push(near);
        }
        points.len()
    }

    /// The first point of the table.
    #[inline(always)]
    pub(super) fn first(&self) -> u16 {
        self.points[0]
    }

    /// The rough weight of a value that lies halfway between two levels.
    #[inline(always)]
    pub(super) fn unit(&self) -> f32 {
        self.unit
    }

    /// The number of a point.
    #[inline(always)]
    pub(super) fn number(&self, point: u16) -> u16 {
        self.map[usize::from(point)] as u16
    }

    /// Nothing for levels that are a point, or the points around them.
    #[inline(always)]
    pub(super) fn around(&self, packed: u16) -> Option<Surroundings<'_, D>> {
        let found = self.map[usize::from(packed)];
        if found & AROUND == 0 {
            return None;
        }
        let start = ((found & !AROUND) >> COUNT_BITS) as usize;
        let count = (found & ((1 << COUNT_BITS) - 1)) as usize;
        Some(Surroundings::new(&self.near[start..start + count.div_ceil(GROUP)], count))
    }
}
