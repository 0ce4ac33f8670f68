//! The inverse of the grids of the IQ types: the index of a tuple of levels if it is a grid point, or else its
//! neighbouring points. ggml builds the same tables in `iq2xs_init_impl` and `iq3xs_init_impl`.
//!
//! Values are rounded to levels first. If the levels are a point of the grid, the search ends there; if not, the
//! neighbouring points are compared ([`neighbours`](super::neighbours)). The neighbours, the points of the smallest
//! distances from the tuple, are tabulated once for every possible tuple.
//!
//! A point is its levels in sixteen bits, the first element lowest: two bits for each of eight, or four for each of four.

use std::sync::OnceLock;

use super::levels::{bits, level};
use super::neighbours::Neighbours;
use crate::base::GROUP;
use crate::base::simd::Points;

/// The flag of a tuple that is no grid point.
const HAS_NEIGHBOURS: u32 = 1 << 31;
/// Bits of the neighbour count: a grid has 2048 points at most.
const COUNT_BITS: u32 = 12;

/// A grid of points of `D` elements.
pub(super) struct Grid<const D: usize> {
    /// By levels: the index of the point, or [`HAS_NEIGHBOURS`] with the start of the neighbours in
    /// [`near`](Self::near) and their count.
    map: Vec<u32>,
    near: Vec<Points>,
    points: Vec<u16>,
    unit: f32,
}

/// The grid of a table, built on first use.
pub(super) struct LazyGrid<const D: usize> {
    table: &'static [u16],
    levels: u16,
    /// How many of the smallest distinct distances count as neighbours (`nwant` of ggml).
    distances: usize,
    /// The distance in bytes of a value halfway between two levels.
    unit: f32,
    grid: OnceLock<Grid<D>>,
}

impl<const D: usize> LazyGrid<D> {
    pub(super) const fn new(table: &'static [u16], levels: u16, distances: usize, unit: f32) -> Self {
        Self { table, levels, distances, unit, grid: OnceLock::new() }
    }

    pub(super) fn get(&self) -> &Grid<D> {
        self.grid.get_or_init(|| Grid::new(self.table, self.levels, self.distances, self.unit))
    }
}

/// Unpacks a table entry, which has three bits per level for `D` = 4, to a point.
fn unpack_entry<const D: usize>(entry: u16) -> u16 {
    let entry_bits = if D == 4 { 3 } else { bits::<D>() };
    (0..D).fold(0, |point, element| {
        let level = entry >> (entry_bits * element) & ((1 << entry_bits) - 1);
        point | level << (bits::<D>() * element)
    })
}

impl<const D: usize> Grid<D> {
    fn new(table: &[u16], levels: u16, distances: usize, unit: f32) -> Self {
        let points: Vec<u16> = table.iter().map(|entry| unpack_entry::<D>(*entry)).collect();
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
                let count = grid.add_neighbours(packed, distances, &mut by_distance);
                grid.map[usize::from(packed)] = HAS_NEIGHBOURS | start | count as u32;
            }
        }
        grid
    }

    /// Appends the neighbours of a tuple: nearest first, points of equal distance in the order of the table.
    fn add_neighbours(&mut self, packed: u16, distances: usize, by_distance: &mut Vec<Vec<u16>>) -> usize {
        by_distance.iter_mut().for_each(Vec::clear);
        for &point in &self.points {
            let difference = |element| i32::from(level::<D>(point, element)) - i32::from(level::<D>(packed, element));
            let distance = (0..D).map(|element| difference(element) * difference(element)).sum::<i32>() as usize;
            if by_distance.len() <= distance {
                by_distance.resize_with(distance + 1, Vec::new);
            }
            by_distance[distance].push(point);
        }
        let points: Vec<u16> =
            by_distance.iter().filter(|points| !points.is_empty()).take(distances).flatten().copied().collect();
        for points in points.chunks(GROUP) {
            // Unused places repeat the first point, which never beats itself.
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

    /// The distance in bytes of a value halfway between two levels.
    #[inline(always)]
    pub(super) fn unit(&self) -> f32 {
        self.unit
    }

    /// The index of a point in the table.
    #[inline(always)]
    pub(super) fn index(&self, point: u16) -> u16 {
        self.map[usize::from(point)] as u16
    }

    /// The neighbours of a tuple of levels; `None` for a grid point.
    #[inline(always)]
    pub(super) fn neighbours(&self, packed: u16) -> Option<Neighbours<'_, D>> {
        let found = self.map[usize::from(packed)];
        if found & HAS_NEIGHBOURS == 0 {
            return None;
        }
        let start = ((found & !HAS_NEIGHBOURS) >> COUNT_BITS) as usize;
        let count = (found & ((1 << COUNT_BITS) - 1)) as usize;
        Some(Neighbours::new(&self.near[start..start + count.div_ceil(GROUP)], count))
    }
}
