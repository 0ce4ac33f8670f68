//! Every kernel at every level of this CPU, beside a `memcpy` of the same output size.
//!
//! Throughput is counted in elements. The slices fit into the second-level cache, so this measures the instructions;
//! whether they outrun memory is for the benches of the whole pipeline.

#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use anamnesis_kernels::*;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

const ROWS: usize = 32;
const COLS: usize = 4096;
const ELEMENTS: usize = ROWS * COLS;

/// All codes but NaN, in no order.
fn codes() -> Vec<u8> {
    (0..ELEMENTS as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8 % 0x7F).collect()
}

fn group<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(ELEMENTS as u64));
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(800)).sample_size(20);
    group
}

/// One kernel at all levels.
fn levels(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, mut kernel: impl FnMut(Level) -> usize) {
    for level in Level::available() {
        group.bench_function(format!("{name}/{level}"), |bencher| bencher.iter(|| kernel(level)));
    }
}

fn decode<F: Format8, O: Output>(criterion: &mut Criterion) {
    let codes = codes();
    let scales: Vec<f32> = (0..COLS).map(|i| 0.01 + i as f32 * 1e-5).collect();
    let source = vec![1u8; ELEMENTS * O::BYTES];
    let mut out = vec![0u8; ELEMENTS * O::BYTES];
    let mut group = group(criterion, &format!("{} to {}", F::NAME, O::NAME));
    group.bench_function("memcpy", |bencher| bencher.iter(|| black_box(&mut out).copy_from_slice(black_box(&source))));
    levels(&mut group, "one scale", |level| scaled::<F, O>(level, &codes, 0.37, black_box(&mut out)));
    levels(&mut group, "scale per row", |level| {
        let rows = codes.chunks(COLS).zip(out.chunks_mut(COLS * O::BYTES)).zip(&scales);
        rows.map(|((codes, out), scale)| scaled::<F, O>(level, codes, *scale, black_box(out))).sum()
    });
    for run in [16, 32, 128] {
        levels(&mut group, &format!("runs of {run}"), |level| {
            let rows = codes.chunks(COLS).zip(out.chunks_mut(COLS * O::BYTES));
            rows.map(|(codes, out)| scaled_runs::<F, O>(level, codes, &scales, run, black_box(out))).sum()
        });
    }
    levels(&mut group, "rows of blocks of 128", |level| {
        scaled_block_rows::<F, O>(level, &codes, &scales, 128, COLS, black_box(&mut out))
    });
    group.finish();
}

fn round<O: Output>(criterion: &mut Criterion) {
    let values: Vec<f32> = codes().into_iter().map(|code| f32::from(code) * 0.37).collect();
    let mut out = vec![0u8; ELEMENTS * O::BYTES];
    let mut group = group(criterion, "f32 rounded");
    levels(&mut group, O::NAME, |level| round_slice::<O>(level, &values, black_box(&mut out)));
    group.finish();
}

fn encode<F: Format8>(criterion: &mut Criterion) {
    let values: Vec<f32> = codes().into_iter().map(|code| f32::from(code) * 0.37).collect();
    let mut out = vec![0u8; ELEMENTS];
    let mut group = group(criterion, "f32 encoded");
    levels(&mut group, F::NAME, |level| narrow::<F>(level, &values, black_box(&mut out)));
    group.finish();
}

fn widen(criterion: &mut Criterion) {
    let bytes = codes().repeat(2);
    let mut out = vec![0f32; ELEMENTS];
    let mut group = group(criterion, "widened to f32");
    levels(&mut group, "bf16", |level| widen_bf16(level, &bytes, black_box(&mut out)));
    levels(&mut group, "f16", |level| widen_f16(level, &bytes, black_box(&mut out)));
    levels(&mut group, "e8m0", |level| widen_e8m0(level, &bytes, black_box(&mut out), TopExponent::Nan));
    group.finish();
}

criterion_group!(
    kernels,
    decode<E4m3, Bf16>,
    decode<E4m3, F16>,
    decode<E4m3, F32>,
    decode<E5m2, Bf16>,
    decode<E4m3Fnuz, Bf16>,
    decode<E8m0, Bf16>,
    round<Bf16>,
    round<F16>,
    round<F32>,
    encode<E4m3>,
    encode<E5m2>,
    encode<E8m0>,
    widen,
);
criterion_main!(kernels);
