//! Calls every kernel for every format and output, so that the assembly check finds a form of each at every level.

use std::hint::black_box;

use anamnesis_kernels::*;

fn main() {
    let level = Level::detect();
    let codes = black_box(vec![0x38; 4096]);
    let values = black_box(vec![1.0; 4096]);
    let mut bytes = vec![0; 4 * 4096];
    let mut floats = vec![0.0; 4096];

    macro_rules! formats {
        ($($format:ident)+) => {
            $(
                formats!(@outputs $format Bf16 F16 F32);
                narrow::<$format>(level, &values, &mut bytes);
                black_box(&bytes);
                widen_format8::<$format>(level, &codes, &mut floats);
                black_box(&floats);
            )+
        };
        (@outputs $format:ident $($output:ident)+) => {
            $(
                scaled::<$format, $output>(level, &codes, values[0], &mut bytes);
                black_box(&bytes);
                scaled_runs::<$format, $output>(level, &codes, &values, codes.len() / 32, &mut bytes);
                black_box(&bytes);
                scaled_block_rows::<$format, $output>(level, &codes, &values, codes.len() / 32, 1024, &mut bytes);
                black_box(&bytes);
            )+
        };
    }
    formats!(E4m3 E5m2 E4m3Fnuz E5m2Fnuz E8m0);

    let mut sums = DistanceSums::default();
    add_distance(level, &values, &bytes, &mut sums);
    black_box(&sums);

    round_slice::<Bf16>(level, &values, &mut bytes);
    black_box(&bytes);
    round_slice::<F16>(level, &values, &mut bytes);
    black_box(&bytes);
    round_slice::<F32>(level, &values, &mut bytes);
    black_box(&bytes);
    widen_bf16(level, &codes, &mut floats);
    black_box(&floats);
    widen_f16(level, &codes, &mut floats);
    black_box(&floats);
    widen_e8m0(level, &codes, &mut floats, black_box(TopExponent::Infinity));
    black_box(&floats);

    let packed = codes;
    let map = black_box([1.0; 16]);
    let block = values.len() / 32;
    let groups = black_box(vec![3; 4096]);
    macro_rules! packings {
        ($($packing:ident)+) => {
            $(
                packings!(@outputs $packing Bf16 F16 F32);
                unpack_codes::<$packing>(level, &packed, &mut floats);
                black_box(&floats);
            )+
        };
        (@outputs $packing:ident $($output:ident)+) => {
            $(
                coded_blocks::<$packing, $output>(level, &packed, &map, &values, &values, block, &mut bytes);
                black_box(&bytes);
                coded_indexed::<$packing, $output>(level, &packed, &groups, &values, &values, &mut bytes);
                black_box(&bytes);
                affine_codes::<$packing, $output>(level, &packed, &values, &values, &mut bytes);
                black_box(&bytes);
            )+
        };
    }
    packings!(LowNibbles HighNibbles AwqNibbles Bits2 Bits3 Bytes);

    macro_rules! outputs {
        ($($output:ident)+) => {
            $(
                affine_fields::<$output>(level, &packed, values[0] as u32, 4, &values, &values, &mut bytes);
                black_box(&bytes);
                scaled_twice::<$output>(level, &packed, values[0], values[1], &mut bytes);
                black_box(&bytes);
                turn_columns::<$output>(level, &packed, block, 8, &mut bytes, block, 0);
                black_box(&bytes);
            )+
        };
    }
    outputs!(Bf16 F16 F32);
    nested_scales(level, &packed, &black_box([1.0; 256]), &values, block, values[0], &mut floats);
    black_box(&floats);
    transpose_words(level, &packed, block, 8, &mut bytes);
    black_box(&bytes);
    transpose_awq(level, &packed, block, 8, &mut bytes);
    black_box(&bytes);
    untile_marlin(level, &packed, block, 8, &mut bytes, 8 * block);
    black_box(&bytes);

    let book = black_box(Codebook::nearest(map));
    let (scaling, steps) = (black_box(Scaling::Divide), black_box(Steps::Divide));
    let halves = packed.as_chunks::<2>().0;
    macro_rules! inputs {
        ($($input:ident $values:expr),+) => {
            $(
                block_largest::<$input>(level, $values, 64, &mut floats);
                black_box(&floats);
                block_largest_number::<$input>(level, $values, 64, &mut floats);
                black_box(&floats);
                nearest_codes::<$input>(level, $values, &book, &values, 64, scaling, &mut bytes);
                black_box(&bytes);
                row_codes::<$input>(level, $values, &values, 64, steps, &mut bytes);
                black_box(&bytes);
            )+
        };
    }
    inputs!(Bf16 halves, F16 halves, F32 &values);

    macro_rules! blocks {
        ($($block:ident)+) => {
            $(
                blocks!(@outputs $block Bf16 F16 F32);
                ggml::decode_blocks_times::<ggml::$block, Bf16>(level, &packed, values[0], &mut bytes);
                black_box(&bytes);
            )+
        };
        (@outputs $block:ident $($output:ident)+) => {
            $(
                ggml::decode_blocks::<ggml::$block, $output>(level, &packed, &mut bytes);
                black_box(&bytes);
            )+
        };
    }
    blocks!(Q1_0 Q2_0 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q8_1 Q2K Q3K Q4K Q5K Q6K Q8K Iq1S Iq1M Iq2Xxs Iq2Xs Iq2S Iq3Xxs Iq3S
        Iq4Nl Iq4Xs Tq1_0 Tq2_0 Mxfp4 Nvfp4);

    macro_rules! encoded {
        ($($block:ident)+) => {
            $(
                encode_rows::<ggml::$block>(level, &values, 1024, None, &mut bytes);
                encode_rows::<ggml::$block>(level, &values, 1024, Some(&values), &mut bytes);
                black_box(&bytes);
            )+
        };
    }
    encoded!(Q1_0 Q2_0 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2K Q3K Q4K Q5K Q6K Iq1S Iq1M Iq2Xxs Iq2Xs Iq2S Iq3Xxs Iq3S Iq4Nl Iq4Xs
        Tq1_0 Tq2_0 Mxfp4 Nvfp4);
}
