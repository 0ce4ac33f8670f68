//! Options of quantising to BitsAndBytes.

/// Options of quantising to BitsAndBytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BnbOptions {
    /// Values under one scale; `None` means 64. Four-bit weights only.
    pub block_size: Option<usize>,
    /// Whether the scales are quantised too (double quantisation). Four-bit weights only.
    pub double_quant: bool,
}

impl BnbOptions {
    /// Blocks of 64, scales in F32.
    #[must_use]
    pub const fn new() -> Self {
        Self { block_size: None, double_quant: false }
    }

    /// Sets how many values share a scale.
    #[must_use]
    pub const fn with_block_size(mut self, values: usize) -> Self {
        self.block_size = Some(values);
        self
    }

    /// Quantises the scales too (double quantisation), or not.
    #[must_use]
    pub const fn with_double_quant(mut self, double_quant: bool) -> Self {
        self.double_quant = double_quant;
        self
    }
}
