//! The description of a layer in `config_for_layers`.

use crate::error::{AnamnesisError, Result};
use crate::quant_config::Args;

/// The geometry of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Layer {
    pub inputs: u64,
    pub outputs: u64,
    /// Outputs of a vector.
    pub vector: u64,
    pub centroids: u64,
    /// Zero without residuals.
    pub residuals: u64,
    pub groups: u64,
    /// Columns of a group.
    pub group_size: u64,
    /// Outlier columns, the outputs of their vectors and their centroids; zero without outliers.
    pub outliers: u64,
    pub outlier_vector: u64,
    pub outlier_centroids: u64,
    pub is_scaled: bool,
    pub is_permuted: bool,
}

impl Layer {
    /// Reads the members of a layer's object.
    pub(super) fn read(args: &Args<'_>) -> Result<Self> {
        let place = || args.place().map_or_else(|| "the configuration".to_owned(), |place| place.to_string());
        let fail = |why: String| AnamnesisError::parse(format!("{}: {why}", place()));
        let number = |key: &'static str| {
            let found = args.needed_integer(&[key])?.and_then(|found| u64::try_from(found.value).ok());
            found.ok_or_else(|| fail(format!("{key} is missing, or not a number of this layer")))
        };
        // The first number is that of outliers, the second the main one; −1 is none.
        let pair = |key: &'static str| match args.integers(&[key])?.as_deref() {
            Some(&[outlier, main]) => Ok([outlier, main].map(|number| u64::try_from(number).unwrap_or(0))),
            _ => Err(fail(format!("{key} is missing, or not two numbers"))),
        };
        let flag = |key: &'static str, default: bool| Ok::<_, AnamnesisError>(args.flag(&[key])?.unwrap_or(default));
        let [outlier_vector, vector] = pair("vector_lens")?;
        let [outlier_centroids, centroids] = pair("num_centroids")?;
        let [outlier_residuals, residuals] = pair("num_res_centroids")?;
        let layer = Self {
            inputs: number("in_features")?,
            outputs: number("out_features")?,
            vector,
            centroids,
            residuals,
            groups: number("group_num")?,
            group_size: number("group_size")?,
            outliers: number("outlier_size")?,
            outlier_vector,
            outlier_centroids,
            is_scaled: flag("enable_norm", true)?,
            is_permuted: flag("enable_perm", true)?,
        };
        if outlier_residuals > 0 {
            return Err(fail("outliers have residuals, which are not known".to_owned()));
        }
        if flag("indices_as_float", false)? || !flag("is_indice_packed", true)? {
            return Err(AnamnesisError::unsupported("VPTQ", format!("{}: indices are not packed in words", place())));
        }
        let is_count = |count: u64| count.is_power_of_two() && (2..=1 << 16).contains(&count);
        let are_counts = is_count(centroids) && (residuals == 0 || is_count(residuals));
        let has_outliers = layer.outliers == 0 || (outlier_vector > 0 && (1..=1 << 16).contains(&outlier_centroids));
        let columns =
            layer.groups.checked_mul(layer.group_size).and_then(|columns| columns.checked_add(layer.outliers));
        let is_filled = vector > 0 && layer.outputs > 0 && layer.groups > 0 && layer.group_size > 0;
        match are_counts && has_outliers && is_filled && columns == Some(layer.inputs) && layer.inputs <= 1 << 16 {
            true => Ok(layer),
            false => Err(fail("its numbers do not describe a layer".to_owned())),
        }
    }

    /// Bits of a main index, and of a residual one.
    pub(super) const fn bits(&self) -> [u32; 2] {
        [self.centroids.trailing_zeros(), if self.residuals == 0 { 0 } else { self.residuals.trailing_zeros() }]
    }

    /// Words of a row of indices.
    pub(super) const fn words(&self) -> u64 {
        let [main, residual] = self.bits();
        (self.group_size * (main + residual) as u64).div_ceil(32)
    }

    /// Rows of indices.
    pub(super) const fn vectors(&self) -> u64 {
        self.outputs.div_ceil(self.vector)
    }

    /// Rows of indices of outliers.
    pub(super) fn outlier_vectors(&self) -> u64 {
        self.outputs.div_ceil(self.outlier_vector.max(1))
    }
}
