//! What a tensor is made of: other tensors, and what is done to them, in steps that go tile by tile.

/// How the values of one tensor come about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    /// A tensor of the input, by its place among those given.
    Tensor(usize),
    /// Values that the configuration tells.
    Constant(Vec<f32>),
    /// Tensors of equal size, one behind the other.
    Stacked(Vec<Tree>),
    /// So many values of each, in turn, until all are used.
    Interleaved(Vec<(Tree, u64)>),
    /// A tensor after a step.
    After(Box<Tree>, Step),
}

/// One thing that is done to a tensor, whose rows have `row` values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// In every `rows` rows, the halves alternate: as llama.cpp pairs the dimensions of rotary positions.
    Pair { row: u64, rows: u64 },
    /// The way back: in every `rows` rows, those in even places come first.
    Unpair { row: u64, rows: u64 },
    /// Of every `per` rows, `count` from `start` on.
    Part { row: u64, per: u64, start: u64, count: u64 },
    /// Every `step`th row from `first` on.
    Every { row: u64, step: u64, first: u64 },
    /// Every matrix of `rows` by `cols` has rows and columns exchanged.
    Transpose { rows: u64, cols: u64 },
    /// A change of every value.
    Each(Formula),
}

/// What becomes of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Formula {
    /// It plus a number.
    Plus(f32),
    /// The negative of its exponential.
    NegativeExponential,
    /// The logarithm of its negative.
    LogarithmOfNegative,
    /// It times a number, by its row: ranges of rows by where they end.
    Times { row: u64, factors: Vec<(u64, f32)> },
}

impl Tree {
    /// This tree after a step.
    pub(crate) fn after(self, step: Step) -> Self {
        Self::After(Box::new(self), step)
    }

    /// The places of the tensors it is made of, in the order their bytes are asked for.
    pub(crate) fn tensors(&self) -> Vec<usize> {
        match self {
            Self::Tensor(index) => vec![*index],
            Self::Constant(_) => Vec::new(),
            Self::Stacked(trees) => trees.iter().flat_map(Self::tensors).collect(),
            Self::Interleaved(trees) => trees.iter().flat_map(|(tree, _)| tree.tensors()).collect(),
            Self::After(tree, _) => tree.tensors(),
        }
    }
}
