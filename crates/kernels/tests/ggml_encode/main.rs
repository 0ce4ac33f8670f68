//! Numbers to the block types of GGML at every level of this CPU, against naive twins that do what ggml does, one value after
//! the other.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_range_loop,
    reason = "twins are written as plainly as can be"
)]

mod grid;
mod iq1;
mod iq23;
mod iq4;
mod legacy;
mod numbers;
mod search;
mod simple;
mod super_blocks;

use anamnesis_kernels::ggml::*;
use anamnesis_kernels::{EncodeBlocks, Level, encode_rows};
use proptest::prelude::*;

/// The bytes of one row, from the twin of its type.
type Twin = fn(&[f32], Option<&[f32]>) -> Vec<u8>;

/// Whether a type takes values without importance, and has no searches that give up on huge ones.
fn is_lenient(name: &str) -> (bool, bool) {
    (!["IQ1_S", "IQ2_XXS", "IQ2_XS"].contains(&name), !["IQ1", "IQ2", "IQ3"].contains(&&name[..3]))
}

/// Compares a type with its twin, with and without importance: a row of values of each of so many kinds, up to 768 of them where
/// that is all kinds, else 256.
fn agrees<B: EncodeBlocks>(twin: Twin, kinds: usize, seed: u64) -> Result<(), TestCaseError> {
    let mut random = numbers::Random::new(seed);
    let cols = 256 * (1 + random.below(if kinds < numbers::KINDS.len() { 1 } else { 3 }));
    let first = random.below(numbers::KINDS.len());
    let (takes_none, takes_huge) = is_lenient(B::NAME);
    let some = numbers::KINDS.into_iter().cycle().skip(first).take(kinds);
    for kind in some.filter(|kind| takes_huge || *kind != "huge") {
        let values: Vec<f32> = (0..cols).map(|place| numbers::value(kind, place, &mut random)).collect();
        let weights: Vec<f32> = (0..cols).map(|_| numbers::weight(&mut random)).collect();
        for weights in [None, Some(&weights[..])].into_iter().skip(usize::from(!takes_none)) {
            let expected = twin(&values, weights);
            for level in Level::available() {
                let mut found = vec![0xA5; cols / B::BLOCK_ELEMENTS * B::BLOCK_BYTES];
                prop_assert_eq!(encode_rows::<B>(level, &values, cols, weights, &mut found), found.len());
                let blocks = found.chunks(B::BLOCK_BYTES).zip(expected.chunks(B::BLOCK_BYTES));
                let first = blocks.enumerate().find(|(_, (found, expected))| found != expected);
                let how = if weights.is_some() { "with importance" } else { "without importance" };
                prop_assert_eq!(first, None, "{} of {} numbers {} at {}, seed {}", B::NAME, kind, how, level, seed);
                prop_assert_eq!(found.len(), expected.len());
            }
        }
    }
    Ok(())
}

/// `twins!(cases of so many kinds of values; test: Type = twin, …)`: a test for each type.
macro_rules! twins {
    ($cases:literal of $kinds:literal; $($test:ident: $type:ident = $twin:path,)+) => {
        proptest! {
            #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases($cases) })]

            $(
                #[test]
                fn $test(seed in any::<u64>()) {
                    agrees::<$type>($twin, $kinds, seed)?;
                }
            )+
        }
    };
}

twins! {
    2 of 14;
    q1_0_is_encoded_as_its_twin: Q1_0 = simple::q1_0,
    q2_0_is_encoded_as_its_twin: Q2_0 = simple::q2_0,
    q4_0_is_encoded_as_its_twin: Q4_0 = legacy::q4_0,
    q4_1_is_encoded_as_its_twin: Q4_1 = legacy::q4_1,
    q5_0_is_encoded_as_its_twin: Q5_0 = legacy::q5_0,
    q5_1_is_encoded_as_its_twin: Q5_1 = legacy::q5_1,
    q8_0_is_encoded_as_its_twin: Q8_0 = legacy::q8_0,
    q2_k_is_encoded_as_its_twin: Q2K = super_blocks::q2_k,
    q3_k_is_encoded_as_its_twin: Q3K = super_blocks::q3_k,
    q4_k_is_encoded_as_its_twin: Q4K = super_blocks::q4_k,
    q5_k_is_encoded_as_its_twin: Q5K = super_blocks::q5_k,
    q6_k_is_encoded_as_its_twin: Q6K = super_blocks::q6_k,
    iq4_nl_is_encoded_as_its_twin: Iq4Nl = iq4::iq4_nl,
    iq4_xs_is_encoded_as_its_twin: Iq4Xs = iq4::iq4_xs,
    tq1_0_is_encoded_as_its_twin: Tq1_0 = simple::tq1_0,
    tq2_0_is_encoded_as_its_twin: Tq2_0 = simple::tq2_0,
    mxfp4_is_encoded_as_its_twin: Mxfp4 = simple::mxfp4,
    nvfp4_is_encoded_as_its_twin: Nvfp4 = simple::nvfp4,
}

twins! {
    1 of 7;
    iq1_s_is_encoded_as_its_twin: Iq1S = iq1::iq1_s,
    iq1_m_is_encoded_as_its_twin: Iq1M = iq1::iq1_m,
    iq2_xxs_is_encoded_as_its_twin: Iq2Xxs = iq23::iq2_xxs,
    iq2_xs_is_encoded_as_its_twin: Iq2Xs = iq23::iq2_xs,
    iq2_s_is_encoded_as_its_twin: Iq2S = iq23::iq2_s,
    iq3_xxs_is_encoded_as_its_twin: Iq3Xxs = iq23::iq3_xxs,
    iq3_s_is_encoded_as_its_twin: Iq3S = iq23::iq3_s,
}
