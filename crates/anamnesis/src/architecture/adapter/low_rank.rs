//! The steps of a tensor's mapping as steps on the two factors of a low-rank product.

use crate::architecture::tree::{Formula, Step, Tree};
use crate::error::{AnamnesisError, Result};

/// A product B·A of the shape of a weight, or a stack of such products.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Product {
    /// `rank` by `cols`.
    pub a: Tree,
    /// `rows` by `rank`.
    pub b: Tree,
    pub rank: u64,
    pub rows: u64,
    pub cols: u64,
    /// The number of products, if they are a stack of experts.
    pub stack: Option<u64>,
}

/// A tensor of an adapter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    Product(Product),
    /// A tensor that replaces that of the base.
    Whole(Tree),
}

/// The factors of a mapped tensor; `sources` are the tensors that its tree is made of.
pub(super) fn factored(tree: &Tree, sources: &[Source]) -> Result<Source> {
    match tree {
        Tree::Tensor(index) => sources.get(*index).cloned().ok_or_else(|| no_form("an unknown tensor")),
        Tree::Constant(_) | Tree::Zeros(_) => Err(no_form("derived values")),
        Tree::Linear(_) => Err(no_form("the products of a layer")),
        Tree::Stacked(trees) => concatenated(trees, sources),
        Tree::Interleaved(trees) => {
            let each: Vec<u64> = trees.iter().map(|(_, each)| *each).collect();
            let products = products(trees.iter().map(|(tree, _)| tree), sources)?;
            let Some(first) = products.first().filter(|_| shares_a(&products)) else {
                return Err(no_form("interleaved rows of several pairs"));
            };
            let rows = products.iter().fold(0u64, |rows, product| rows.saturating_add(product.rows));
            let (cols, rank) = (first.cols, first.rank);
            let counts = each.iter().map(|each| scaled(*each, cols, rank)).collect::<Result<Vec<_>>>()?;
            let b = Tree::Interleaved(products.iter().map(|product| product.b.clone()).zip(counts).collect());
            Ok(Source::Product(Product { b, rows, ..first.clone() }))
        }
        Tree::After(tree, step) => match factored(tree, sources)? {
            Source::Whole(tree) => Ok(Source::Whole(tree.after(step.clone()))),
            Source::Product(product) => product.after(step).map(Source::Product),
        },
    }
}

/// Rows of one product, or a stack of the products of all experts.
fn concatenated(trees: &[Tree], sources: &[Source]) -> Result<Source> {
    let products = products(trees.iter(), sources)?;
    let Some(first) = products.first() else { return Err(no_form("nothing")) };
    let is_one_pair = products.len() > 1 && shares_a(&products);
    let of = |part: fn(&Product) -> &Tree| Tree::Stacked(products.iter().map(part).cloned().collect());
    if is_one_pair {
        let rows = products.iter().fold(0u64, |rows, product| rows.saturating_add(product.rows));
        return Ok(Source::Product(Product { b: of(|product| &product.b), rows, ..first.clone() }));
    }
    let is_alike = |other: &Product| {
        (other.rank, other.rows, other.cols, other.stack) == (first.rank, first.rows, first.cols, None)
    };
    if !products.iter().all(is_alike) {
        return Err(no_form("a stack of pairs of different ranks"));
    }
    let (a, b) = (of(|product| &product.a), of(|product| &product.b));
    Ok(Source::Product(Product { a, b, stack: Some(products.len() as u64), ..first.clone() }))
}

fn products<'t>(trees: impl Iterator<Item = &'t Tree>, sources: &[Source]) -> Result<Vec<Product>> {
    let product = |tree: &Tree| match factored(tree, sources)? {
        Source::Product(product) => Ok(product),
        Source::Whole(_) => Err(no_form("a whole tensor among pairs")),
    };
    trees.map(product).collect()
}

/// Whether products are rows of one.
fn shares_a(products: &[Product]) -> bool {
    products.windows(2).all(|pair| pair[0].a == pair[1].a && pair[0].stack == pair[1].stack)
}

/// A number of values in whole rows of a product, in rows of B.
fn scaled(values: u64, cols: u64, rank: u64) -> Result<u64> {
    match values.checked_rem(cols) {
        Some(0) => Ok((values / cols).saturating_mul(rank)),
        _ => Err(no_form("parts of rows")),
    }
}

/// The inverse of a transposition right before it, or one more.
fn transposed(tree: Tree, rows: u64, cols: u64) -> Tree {
    match tree {
        Tree::After(inner, Step::Transpose { rows: before, cols: across }) if (before, across) == (cols, rows) => {
            *inner
        }
        tree => tree.after(Step::Transpose { rows, cols }),
    }
}

impl Product {
    /// The transposed product: (B·A)ᵀ = Aᵀ·Bᵀ.
    pub(super) fn transposed(self) -> Self {
        let Self { a, b, rank, rows, cols, stack } = self;
        let (new_a, new_b) = (transposed(b, rows, rank), transposed(a, rank, cols));
        Self { a: new_a, b: new_b, rank, rows: cols, cols: rows, stack }
    }

    /// A step on the product as one on a factor.
    fn after(mut self, step: &Step) -> Result<Self> {
        let (cols, rank) = (self.cols, self.rank);
        let row_of = |row: u64| scaled(row, cols, rank);
        match step {
            Step::Transpose { rows, cols } => {
                return match self.stack.is_none() && (*rows, *cols) == (self.rows, self.cols) {
                    true => Ok(self.transposed()),
                    false => Err(no_form("a stack of transposed matrices")),
                };
            }
            Step::Swap { row, outer, inner } if outer.saturating_mul(*inner).saturating_mul(*row) == cols => {
                self.a = self.a.after(step.clone());
                return Ok(self);
            }
            &Step::Pair { row, rows } => self.b = self.b.after(Step::Pair { row: row_of(row)?, rows }),
            &Step::Unpair { row, rows } => self.b = self.b.after(Step::Unpair { row: row_of(row)?, rows }),
            &Step::Swap { row, outer, inner } => {
                self.b = self.b.after(Step::Swap { row: row_of(row)?, outer, inner });
            }
            &Step::Part { row, per, start, count } => {
                // The rows in a stack are those of one product.
                if per == 0 || !self.rows.is_multiple_of(per) || row != cols {
                    return Err(no_form("parts of rows"));
                }
                self.rows = self.rows / per * count;
                self.b = self.b.after(Step::Part { row: rank, per, start, count });
            }
            &Step::Every { row, step, first } => {
                if step == 0 || !self.rows.is_multiple_of(step) || row != cols {
                    return Err(no_form("parts of rows"));
                }
                self.rows /= step;
                self.b = self.b.after(Step::Every { row: rank, step, first });
            }
            Step::Each(Formula::Times { row, period, factors }) => {
                let formula = Formula::Times { row: row_of(*row)?, period: *period, factors: factors.clone() };
                self.b = self.b.after(Step::Each(formula));
            }
            Step::Each(_) | Step::Fold { .. } | Step::Resample { .. } => {
                return Err(no_form("a formula that is not linear"));
            }
        }
        Ok(self)
    }
}

fn no_form(what: &str) -> AnamnesisError {
    AnamnesisError::unsupported(
        "LoRA",
        format!("the mapping of the base needs {what}, which no pair of matrices gives"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair whose A is tensor 0 and whose B is tensor 1.
    fn pair() -> Source {
        let (a, b) = (Tree::Tensor(0), Tree::Tensor(1));
        Source::Product(Product { a, b, rank: 2, rows: 12, cols: 8, stack: None })
    }

    fn product(tree: &Tree) -> Product {
        match factored(tree, &[pair()]).unwrap() {
            Source::Product(product) => product,
            Source::Whole(_) => panic!("a product"),
        }
    }

    #[test]
    fn steps_on_rows_act_on_b_and_steps_on_columns_on_a() {
        let rows = product(&Tree::Tensor(0).after(Step::Pair { row: 8, rows: 4 }));
        assert_eq!((rows.a, rows.b), (Tree::Tensor(0), Tree::Tensor(1).after(Step::Pair { row: 2, rows: 4 })));
        let columns = Step::Swap { row: 2, outer: 2, inner: 2 };
        let swapped = product(&Tree::Tensor(0).after(columns.clone()));
        assert_eq!((swapped.a, swapped.b), (Tree::Tensor(0).after(columns), Tree::Tensor(1)));
        let half = product(&Tree::Tensor(0).after(Step::Part { row: 8, per: 12, start: 6, count: 6 }));
        assert_eq!(half.rows, 6);
    }

    #[test]
    fn a_product_transposed_twice_is_itself() {
        let Source::Product(pair) = pair() else { panic!("a product") };
        let once = pair.clone().transposed();
        assert_eq!((once.rows, once.cols), (8, 12));
        assert_eq!(once.a, Tree::Tensor(1).after(Step::Transpose { rows: 12, cols: 2 }));
        assert_eq!(once.transposed(), pair);
    }

    #[test]
    fn a_step_without_a_form_is_refused() {
        for step in [Step::Each(Formula::Plus(1.0)), Step::Part { row: 4, per: 2, start: 0, count: 1 }] {
            assert!(factored(&Tree::Tensor(0).after(step), &[pair()]).is_err());
        }
    }
}
