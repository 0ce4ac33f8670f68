//! The GGML block types at every level of this CPU, beside a `memcpy` of the same output size.
//!
//! Throughput is counted in elements. The slices fit into the second-level cache, so this measures the instructions.

#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use anamnesis_kernels::ggml::*;
use anamnesis_kernels::*;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const ELEMENTS: usize = 1 << 17;

/// Blocks of random bytes whose F16 scales are ordinary numbers, wherever they are.
fn blocks<B: GgmlBlock>() -> Vec<u8> {
    let bytes = ELEMENTS / B::BLOCK_ELEMENTS * B::BLOCK_BYTES;
    (0..bytes as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8 & 0x3F | 8).collect()
}

fn block<B: GgmlBlock>(criterion: &mut Criterion) {
    into::<B, Bf16>(criterion);
    into::<B, F32>(criterion);
}

fn into<B: GgmlBlock, O: Output>(criterion: &mut Criterion) {
    let blocks = blocks::<B>();
    let source = vec![1u8; ELEMENTS * O::BYTES];
    let mut out = vec![0u8; ELEMENTS * O::BYTES];
    let mut group = criterion.benchmark_group(format!("{} to {}", B::NAME, O::NAME));
    group.throughput(Throughput::Elements(ELEMENTS as u64));
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(400)).sample_size(20);
    group.bench_function("memcpy", |bencher| bencher.iter(|| black_box(&mut out).copy_from_slice(black_box(&source))));
    for level in Level::available() {
        group.bench_function(level.to_string(), |bencher| {
            bencher.iter(|| decode_blocks::<B, O>(level, black_box(&blocks), black_box(&mut out)));
        });
    }
    group.finish();
}

criterion_group!(
    ggml,
    block<Q4_0>,
    block<Q4_1>,
    block<Q5_0>,
    block<Q5_1>,
    block<Q8_0>,
    block<Q8_1>,
    block<Q2K>,
    block<Q3K>,
    block<Q4K>,
    block<Q5K>,
    block<Q6K>,
    block<Q8K>,
    block<Iq1S>,
    block<Iq1M>,
    block<Iq2Xxs>,
    block<Iq2Xs>,
    block<Iq2S>,
    block<Iq3Xxs>,
    block<Iq3S>,
    block<Iq4Nl>,
    block<Iq4Xs>,
    block<Tq1_0>,
    block<Tq2_0>,
    block<Mxfp4>,
    block<Nvfp4>,
    block<Q1_0>,
    block<Q2_0>,
);
criterion_main!(ggml);
