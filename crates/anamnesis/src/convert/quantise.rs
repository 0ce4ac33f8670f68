//! The quantisation that a conversion asks for.

use super::rules::Rules;
use crate::catalog::{Metadata, NamePatterns};
use crate::container::Container;
use crate::io::Source;
use crate::pipeline::{Checks, RememberOptions};
use crate::scheme::{Encoding, ModelClass, QuantiseOptions};

/// Which weights are quantised, and how.
pub(crate) struct Quantise<'a> {
    pub encoding: &'static Encoding,
    pub options: &'a QuantiseOptions,
    /// Patterns of weights to quantise and weights to keep.
    pub chosen: &'a NamePatterns,
    /// The caller's rules for individual weights.
    pub rules: &'a Rules,
    /// Metadata of the input.
    pub metadata: Option<&'a Metadata>,
    /// The class of the model.
    pub class: ModelClass<'a>,
    pub checks: Checks,
    /// The container of the output.
    pub container: &'a dyn Container,
    /// Whether blocks that are not quantised again stay as they are stored.
    pub keeps_blocks: bool,
    /// Whether tensors keep their stored order.
    pub in_stored_order: bool,
    /// Files of the input, and the options for reading them while planning.
    pub sources: &'a [Box<dyn Source>],
    pub run: &'a RememberOptions,
}
