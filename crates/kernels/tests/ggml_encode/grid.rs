//! The points of a grid, and the search for one near to some values.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A grid: its points as levels from zero on, and how many of the nearest distances are looked at.
pub struct Grid {
    pub points: Vec<Vec<u8>>,
    distances: usize,
    /// What was found before: searching is slow.
    near: RefCell<HashMap<Vec<u8>, Rc<Vec<usize>>>>,
}

thread_local! {
    static GRIDS: RefCell<HashMap<&'static str, Rc<Grid>>> = RefCell::default();
}

impl Grid {
    /// The grid of a type, from what ggml decodes its points to.
    pub fn of(name: &'static str, places: usize, distances: usize) -> Rc<Self> {
        let read = || {
            let path = format!("{}/tests/data/ggml/{name}.grid.i8", env!("CARGO_MANIFEST_DIR"));
            let decoded: Vec<i8> = std::fs::read(path).unwrap().iter().map(|byte| byte.cast_signed()).collect();
            let mut all = decoded.clone();
            all.sort_unstable();
            all.dedup();
            let level = |value: &i8| all.binary_search(value).unwrap() as u8;
            let points = decoded.chunks(places).map(|point| point.iter().map(level).collect()).collect();
            Rc::new(Self { points, distances, near: RefCell::default() })
        };
        GRIDS.with_borrow_mut(|grids| Rc::clone(grids.entry(name).or_insert_with(read)))
    }

    /// The point with these levels, if there is one.
    pub fn find(&self, levels: &[u8]) -> Option<usize> {
        self.points.iter().position(|point| point == levels)
    }

    /// The points at the least distances from some levels, the nearest first and of those the first.
    pub fn near(&self, levels: &[u8]) -> Rc<Vec<usize>> {
        let search = || {
            let apart = |a: u8, b: u8| (i32::from(a) - i32::from(b)).pow(2);
            let distance = |point: &[u8]| point.iter().zip(levels).map(|(&a, &b)| apart(a, b)).sum::<i32>();
            let mut all: Vec<(i32, usize)> =
                self.points.iter().enumerate().map(|(index, point)| (distance(point), index)).collect();
            all.sort_unstable();
            let mut distances: Vec<i32> = all.iter().map(|(distance, _)| *distance).collect();
            distances.dedup();
            let furthest = distances[self.distances.min(distances.len()) - 1];
            Rc::new(all.iter().take_while(|(distance, _)| *distance <= furthest).map(|(_, index)| *index).collect())
        };
        Rc::clone(self.near.borrow_mut().entry(levels.to_vec()).or_insert_with(search))
    }

    /// Of the points near to some levels, the first with the least weighted error under a scale; `number` is what a level stands
    /// for.
    pub fn best(
        &self,
        levels: &[u8],
        values: &[f32],
        weights: &[f32],
        scale: f32,
        number: impl Fn(u8) -> f32,
    ) -> usize {
        let mut best = (f32::MAX, None);
        for &index in self.near(levels).iter() {
            let mut error = 0.0;
            for ((&level, value), weight) in self.points[index].iter().zip(values).zip(weights) {
                let apart = scale * number(level) - value;
                error += weight * apart * apart;
            }
            if error < best.0 {
                best = (error, Some(index));
            }
        }
        best.1.unwrap()
    }
}
