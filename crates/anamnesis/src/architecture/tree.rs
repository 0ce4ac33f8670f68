//! How a tensor is computed from other tensors, in steps that work tile by tile.

/// The computation of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    /// A tensor of the input, by its index.
    Tensor(usize),
    /// Values that are derived from the configuration.
    Constant(Vec<f32>),
    /// A number of zeros.
    Zeros(u64),
    /// Tensors, concatenated.
    Stacked(Vec<Tree>),
    /// Tensors interleaved: a number of values of each in turn.
    Interleaved(Vec<(Tree, u64)>),
    /// A tensor after a step.
    After(Box<Tree>, Step),
    /// Rows multiplied by a matrix.
    Linear(Box<Linear>),
}

/// A linear layer on every row of a tensor: the products of its `inputs` values and the rows of a matrix, with a bias for each.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Linear {
    pub rows: Tree,
    pub matrix: Tree,
    pub bias: Tree,
    pub inputs: u64,
    pub outputs: u64,
}

/// A step on a tensor whose rows have `row` values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// In every `rows` rows, the two halves alternate: the pairs of RoPE in llama.cpp.
    Pair { row: u64, rows: u64 },
    /// The inverse: in every `rows` rows, even rows come first.
    Unpair { row: u64, rows: u64 },
    /// In every `outer * inner` rows, as a matrix of `outer` by `inner` rows, the matrix is transposed.
    Swap { row: u64, outer: u64, inner: u64 },
    /// Of every `per` rows, `count` from `start` on.
    Part { row: u64, per: u64, start: u64, count: u64 },
    /// Every `step`th row from `first` on.
    Every { row: u64, step: u64, first: u64 },
    /// Every matrix of `rows` by `cols` is transposed.
    Transpose { rows: u64, cols: u64 },
    /// A formula for every value.
    Each(Formula),
    /// Every `count` rows become one.
    Fold { row: u64, count: u64, fold: Fold },
    /// `from` by `from` rows become `to` by `to`, interpolated between the corners.
    Resample { row: u64, from: u64, to: u64 },
}

/// How several rows become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fold {
    /// The scale of a batch norm from its weight and its variance.
    NormScale,
    /// The shift of a batch norm from its weight, bias, mean and variance.
    NormShift,
    Sum,
    /// The product of F32 values.
    Product,
}

/// A formula for a value x.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Formula {
    /// x + a
    Plus(f32),
    /// x + a, rounded to the type that x is stored in
    PlusStored(f32),
    /// x / a, by column
    OverColumns(Vec<f32>),
    /// x a, rounded to -1, 0 or 1, / a
    Ternary(f32),
    /// -exp(x)
    NegativeExponential,
    /// ln(-x)
    LogarithmOfNegative,
    /// exp(x)
    Exponential,
    /// ln(x)
    Logarithm,
    /// ln(1 + exp(x)) of a list of this length
    Softplus(u64),
    /// x / (1 + exp(-x)) of a list of this length
    Silu(u64),
    /// a * x, with factors for ranges of rows, each given by its end; they repeat after `period` rows.
    Times { row: u64, period: u64, factors: Vec<(u64, f32)> },
}

impl Tree {
    /// This tree after a step.
    pub(crate) fn after(self, step: Step) -> Self {
        Self::After(Box::new(self), step)
    }

    /// The indices of its input tensors, in the order they are read.
    pub(crate) fn tensors(&self) -> Vec<usize> {
        match self {
            Self::Tensor(index) => vec![*index],
            Self::Constant(_) | Self::Zeros(_) => Vec::new(),
            Self::Stacked(trees) => trees.iter().flat_map(Self::tensors).collect(),
            Self::Interleaved(trees) => trees.iter().flat_map(|(tree, _)| tree.tensors()).collect(),
            Self::After(tree, _) => tree.tensors(),
            Self::Linear(linear) => {
                [&linear.rows, &linear.matrix, &linear.bias].into_iter().flat_map(Self::tensors).collect()
            }
        }
    }

    /// Whether it has a linear layer.
    pub(crate) fn has_products(&self) -> bool {
        match self {
            Self::Tensor(_) | Self::Constant(_) | Self::Zeros(_) => false,
            Self::Stacked(trees) => trees.iter().any(Self::has_products),
            Self::Interleaved(trees) => trees.iter().any(|(tree, _)| tree.has_products()),
            Self::After(tree, _) => tree.has_products(),
            Self::Linear(_) => true,
        }
    }
}
