//! Types that a caller requests for single tensors, which override the mix, with the precedence of llama-quantize.
//!
//! The options for the embedding and for the output come first, then the first expression that matches the name.
//! Tensors with a requested type are not counted by the mix.

use std::cell::Cell;

use regex_lite::Regex;

use super::encoder::is_encoded;
use super::mix;
use crate::catalog::{BlockType, Dtype, TargetDtype, expression};
use crate::error::{Request, Result, quoted};
use crate::scheme::quantise::BlockOptions;

/// The type that a tensor is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TensorType {
    Block(BlockType),
    Float(TargetDtype),
}

impl TensorType {
    /// The type of an option. A type that weights are not written in is refused with a list of the possible types.
    fn of(dtype: Dtype) -> Result<Self> {
        match dtype {
            Dtype::Block(block) if is_encoded(block) => Ok(Self::Block(block)),
            Dtype::F16 => Ok(Self::Float(TargetDtype::F16)),
            Dtype::BF16 => Ok(Self::Float(TargetDtype::BF16)),
            Dtype::F32 => Ok(Self::Float(TargetDtype::F32)),
            other => {
                let floats = [Dtype::F32, Dtype::F16, Dtype::BF16].map(|dtype| dtype.to_string());
                let blocks = BlockType::all().filter(|block| is_encoded(*block)).map(|block| block.name().to_owned());
                let known = floats.into_iter().chain(blocks).collect();
                Err(Request::UnknownName { what: "type that weights are stored in", name: other.to_string(), known }
                    .into())
            }
        }
    }
}

/// An expression with its type, and whether it has matched.
struct Pattern {
    text: String,
    expression: Regex,
    dtype: TensorType,
    /// Whether it matches any tensor.
    has_match: Cell<bool>,
    /// Whether it matches a tensor that is quantised.
    is_used: Cell<bool>,
}

/// All types that the caller requested.
pub(super) struct TensorTypes {
    pub output: Option<TensorType>,
    embedding: Option<TensorType>,
    patterns: Vec<Pattern>,
}

impl TensorTypes {
    /// Refuses types that are not written and expressions that cannot be parsed.
    pub(super) fn new(options: &BlockOptions) -> Result<Self> {
        let pattern = |(text, dtype): &(String, Dtype)| {
            let refuse = |why| Request::Malformed { what: "expression", text: text.clone(), why };
            Ok(Pattern {
                text: text.clone(),
                expression: expression(text, true).map_err(refuse)?,
                dtype: TensorType::of(*dtype)?,
                has_match: Cell::new(false),
                is_used: Cell::new(false),
            })
        };
        Ok(Self {
            output: options.output_type.map(TensorType::of).transpose()?,
            embedding: options.embedding_type.map(TensorType::of).transpose()?,
            patterns: options.tensor_types.iter().map(pattern).collect::<Result<_>>()?,
        })
    }

    /// Records a tensor of the model, so that expressions that match none can be refused.
    pub(super) fn record(&self, name: &str, is_quantised: bool) {
        for pattern in &self.patterns {
            let is_settled = pattern.is_used.get() || pattern.has_match.get() && !is_quantised;
            if !is_settled && pattern.expression.is_match(name) {
                pattern.has_match.set(true);
                pattern.is_used.set(is_quantised);
            }
        }
    }

    /// Refuses expressions that match no tensor, or only tensors that are not quantised.
    pub(super) fn check_used(&self) -> Result<()> {
        let Some(unused) = self.patterns.iter().find(|pattern| !pattern.is_used.get()) else { return Ok(()) };
        if !unused.has_match.get() {
            return Err(Request::UnusedPattern { pattern: unused.text.clone() }.into());
        }
        let what = format!("a type for tensors that fit {}", quoted(&unused.text));
        Err(Request::Contradiction { what, why: "none of them is quantised".to_owned() }.into())
    }

    /// The type that the caller requested for a tensor of this name.
    pub(super) fn of(&self, name: &str) -> Option<TensorType> {
        let named = match name {
            name if mix::is_embedding(name) => self.embedding,
            name if mix::is_output(name) => self.output,
            _ => None,
        };
        let matches = |pattern: &&Pattern| pattern.expression.is_match(name);
        named.or_else(|| self.patterns.iter().find(matches).map(|pattern| pattern.dtype))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] =
        ["blk.0.attn_v.weight", "blk.10.ffn_down.weight", "token_embd.weight", "blk.0.attn_norm.weight"];

    fn types(given: &[(&str, Dtype)]) -> Result<TensorTypes> {
        let options = given.iter().fold(BlockOptions::new(), |all, (text, dtype)| all.with_tensor_type(*text, *dtype));
        TensorTypes::new(&options)
    }

    fn check(types: &TensorTypes) -> Result<()> {
        NAMES.iter().for_each(|name| types.record(name, !name.contains("norm")));
        types.check_used()
    }

    #[test]
    fn the_first_expression_found_in_the_name_counts() {
        let given =
            [(r"blk\.\d\.ATTN_V", Dtype::F16), ("attn|^token", BlockType::Q8_0.into()), ("ffn_(up|down)", Dtype::F32)];
        let types = types(&given).unwrap();
        let of = NAMES.map(|name| types.of(name));
        let (half, full) = (TensorType::Float(TargetDtype::F16), TensorType::Float(TargetDtype::F32));
        let blocks = TensorType::Block(BlockType::Q8_0);
        assert_eq!(of, [Some(half), Some(full), Some(blocks), Some(blocks)]);
        assert!(check(&types).is_ok());
    }

    #[test]
    fn the_embedding_and_the_output_go_by_their_own_options() {
        let options = BlockOptions::new().with_tensor_type("weight", BlockType::Q4_0);
        let types =
            TensorTypes::new(&options.with_embedding_type(Dtype::BF16).with_output_type(BlockType::Q6_K)).unwrap();
        assert_eq!(types.of("token_embd.weight"), Some(TensorType::Float(TargetDtype::BF16)));
        assert_eq!(types.of("output.weight"), Some(TensorType::Block(BlockType::Q6_K)));
        assert_eq!(types.of("blk.0.attn_q.weight"), Some(TensorType::Block(BlockType::Q4_0)));
    }

    #[test]
    fn an_expression_that_matches_no_quantised_tensor_is_refused_by_name() {
        for (text, words) in
            [("atn_v", "no tensor matches the pattern \"atn_v\""), ("attn_norm", "none of them is quantised")]
        {
            let types = types(&[("attn_v", Dtype::F16), (text, Dtype::F16)]).unwrap();
            let error = check(&types).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn types_that_are_not_written_and_invalid_expressions_are_refused() {
        for dtype in
            BlockType::all().filter(|block| !is_encoded(*block)).map(Dtype::from).chain([Dtype::I32, Dtype::F64])
        {
            let error = types(&[("attn_v", dtype)]).map(drop).unwrap_err().to_string();
            assert!(
                error
                    .starts_with(&format!("\"{dtype}\" is not a known type that weights are stored in; known are F32")),
                "{error}"
            );
            assert!(TensorTypes::new(&BlockOptions::new().with_output_type(dtype)).is_err());
            assert!(TensorTypes::new(&BlockOptions::new().with_embedding_type(dtype)).is_err());
        }
        for text in ["(", "(?!a)b", "(a{1000}){1000}"] {
            assert!(types(&[(text, Dtype::F16)]).is_err(), "{text}");
        }
    }
}
