//! The kernels for packed codes at every level of this CPU, beside a `memcpy` of the same output size.
//!
//! Throughput is counted in elements. The slices fit into the second-level cache, so this measures the instructions.

#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use anamnesis_kernels::*;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

const ELEMENTS: usize = 1 << 17;

fn bytes(count: usize) -> Vec<u8> {
    (0..count as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8).collect()
}

fn group<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(ELEMENTS as u64));
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(400)).sample_size(20);
    group
}

/// One kernel at all levels.
fn levels(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, mut kernel: impl FnMut(Level) -> usize) {
    for level in Level::available() {
        group.bench_function(format!("{name}/{level}"), |bencher| bencher.iter(|| kernel(level)));
    }
}

fn coded<P: Packing, O: Output>(criterion: &mut Criterion) {
    let packed = bytes(ELEMENTS * P::BITS / 8);
    let map = std::array::from_fn(|code| code as f32 * 0.1 - 0.7);
    let scales: Vec<f32> = (0..ELEMENTS).map(|i| 0.01 + i as f32 * 1e-5).collect();
    let zeros: Vec<f32> = (0..ELEMENTS).map(|i| (i % 16) as f32).collect();
    let source = vec![1u8; ELEMENTS * O::BYTES];
    let mut out = vec![0u8; ELEMENTS * O::BYTES];
    let mut group = group(criterion, &format!("{} to {}", P::NAME, O::NAME));
    group.bench_function("memcpy", |bencher| bencher.iter(|| black_box(&mut out).copy_from_slice(black_box(&source))));
    for block in [64, 128, 30] {
        levels(&mut group, &format!("blocks of {block}"), |level| {
            coded_blocks::<P, O>(level, &packed, &map, &[], &scales, block, black_box(&mut out))
        });
    }
    levels(&mut group, "blocks of 128 with zeros", |level| {
        coded_blocks::<P, O>(level, &packed, &map, &zeros, &scales, 128, black_box(&mut out))
    });
    levels(&mut group, "scale per element", |level| {
        affine_codes::<P, O>(level, &packed, &zeros, &scales, black_box(&mut out))
    });
    let groups: Vec<u32> = (0..ELEMENTS).map(|i| (i * 7 % 32) as u32).collect();
    levels(&mut group, "indexed", |level| {
        coded_indexed::<P, O>(level, &packed, &groups, &zeros[..32], &scales[..32], black_box(&mut out))
    });
    group.finish();
}

fn integers<O: Output>(criterion: &mut Criterion) {
    let codes = bytes(4 * ELEMENTS);
    let values = vec![0.37; ELEMENTS];
    let mut out = vec![0u8; ELEMENTS * O::BYTES];
    let mut group = group(criterion, &format!("integers to {}", O::NAME));
    levels(&mut group, "times two factors", |level| {
        scaled_twice::<O>(level, &codes, 0.37, 1.0 / 127.0, black_box(&mut out))
    });
    levels(&mut group, "fields", |level| {
        affine_fields::<O>(level, &codes, 8, 4, &values, &values, black_box(&mut out))
    });
    group.finish();
}

fn others(criterion: &mut Criterion) {
    let mut group = group(criterion, "others");
    let words = bytes(ELEMENTS * 4);
    let mut out = vec![0u8; ELEMENTS * 4];
    let mut floats = vec![0f32; ELEMENTS];
    levels(&mut group, "low nibbles unpacked", |level| {
        unpack_codes::<LowNibbles>(level, &words, black_box(&mut floats))
    });
    levels(&mut group, "3 bits unpacked", |level| unpack_codes::<Bits3>(level, &words, black_box(&mut floats)));
    let map = std::array::from_fn(|code| code as f32);
    levels(&mut group, "nested scales", |level| {
        nested_scales(level, &words[..ELEMENTS], &map, &[0.5; ELEMENTS / 256], 256, 0.1, black_box(&mut floats))
    });
    // Words of eight codes: these are counted in codes.
    for cols in [8, 32] {
        levels(&mut group, &format!("words by columns of {cols}"), |level| {
            transpose_words(level, &words[..ELEMENTS / 2], ELEMENTS / 8 / cols, cols, black_box(&mut out))
        });
        levels(&mut group, &format!("awq nibbles by columns of {cols}"), |level| {
            transpose_awq(level, &words[..ELEMENTS / 2], ELEMENTS / 8 / cols, cols, black_box(&mut out))
        });
    }
    levels(&mut group, "tiles of Marlin", |level| {
        untile_marlin(level, &words[..ELEMENTS / 2], 32, ELEMENTS / 1024 / 32, black_box(&mut out), 8 * 32 + 64)
    });
    levels(&mut group, "BF16 turned", |level| {
        transpose_columns::<Bf16>(level, &words, 64, 256, black_box(&mut out), 512, 0)
            + transpose_columns::<Bf16>(level, &words, 448, 256, black_box(&mut out), 512, 64)
    });
    levels(&mut group, "F32 turned", |level| {
        transpose_columns::<F32>(level, &words, 512, 256, black_box(&mut out), 512, 0)
    });
    group.finish();
}

criterion_group!(
    packed,
    coded<HighNibbles, Bf16>,
    coded<HighNibbles, F16>,
    coded<HighNibbles, F32>,
    coded<LowNibbles, Bf16>,
    coded<AwqNibbles, Bf16>,
    coded<Bits2, Bf16>,
    coded<Bits3, Bf16>,
    coded<Bits3, F32>,
    coded<Bytes, Bf16>,
    integers<Bf16>,
    integers<F16>,
    integers<F32>,
    others,
);
criterion_main!(packed);
