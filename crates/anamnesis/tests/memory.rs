//! Tests of memory bounds: a conversion uses memory independent of the file size, an inspection that of the header, a
//! slice function that of its result.
//!
//! One test in a binary of its own, because the profiler counts the whole process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::path::Path;

use anamnesis::{
    Bf16Out, Checkpoint, ConvertOptions, ConvertTarget, DiffOptions, Dtype, F32Out, HashForm, ParseLimits,
    RememberOptions, TargetDtype, dequantize_awq, dequantize_bnb4_double_quant, dequantize_fp8, dequantize_gptq,
    dequantize_per_channel_fp8, parse,
};
use support::{Folder, Model, le_bytes};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The peak bytes and the number of blocks that `work` allocated.
fn profiled<T>(work: impl FnOnce() -> T) -> (usize, u64, T) {
    let profiler = dhat::Profiler::builder().testing().build();
    let result = work();
    let stats = dhat::HeapStats::get();
    drop(profiler);
    (stats.max_bytes, stats.total_blocks, result)
}

/// A model that decodes to about `mib` MiB of BF16, a quarter of it copied.
fn staged(mib: usize) -> Folder {
    let count = mib / 4;
    let mut model = Model::new();
    for index in 0..count {
        let name = format!("layer.{index}.weight");
        model = if index % 4 == 3 {
            model.tensor(&name, "BF16", &[1024, 2048], &vec![0x3f; 4 * MIB])
        } else {
            model.floats(&format!("{name}_scale_inv"), &[8, 16], &[0.5; 128]).tensor(
                &name,
                "F8_E4M3",
                &[1024, 2048],
                &vec![0x38; 2 * MIB],
            )
        };
    }
    Folder::staged(&model.bytes(), None)
}

fn convert(input: &Path, output: &Path, threads: usize) -> (usize, u64) {
    let options = RememberOptions::new().with_threads(threads);
    let work = || parse(input).unwrap().remember_with_options(output, TargetDtype::BF16, options).unwrap();
    let (peak, blocks, ()) = profiled(work);
    (peak, blocks)
}

#[test]
fn memory_is_bounded_by_threads_and_headers_not_by_files() {
    let (small, large) = (staged(16), staged(64));
    let (peak, _) = convert(&large.model(), &large.path("out"), 2);
    assert!(std::fs::metadata(large.path("out")).unwrap().len() >= 64 * MIB as u64);
    assert!(peak <= 4 * MIB, "two threads held {peak} bytes");

    // With one thread, memory does not depend on scheduling.
    let (small_peak, small_blocks) = convert(&small.model(), &small.path("out"), 1);
    let (large_peak, large_blocks) = convert(&large.model(), &large.path("out"), 1);
    let growth = large_peak.saturating_sub(small_peak);
    assert!(growth <= 128 * KIB, "four times the file held {growth} bytes more");

    // 36 MiB more in tiles of 256 KiB (decoded), 12 MiB in tiles of 4 MiB (copied), and 12 tensors more in the header.
    let tiles = 36 * 4 + 3;
    let more = large_blocks.saturating_sub(small_blocks);
    assert!(more <= 4 * tiles + 12 * 64, "{more} blocks more for {tiles} tiles more");

    // Quantising with scales that need all values first.
    let quantise = |folder: &Folder, threads| {
        let options = ConvertOptions::new().with_threads(threads).with_double_quant(true).with_measure(true);
        let work =
            || anamnesis::convert::convert(&folder.model(), ConvertTarget::BnbNf4, &folder.path("nf4"), &options);
        let (peak, _, stats) = profiled(work);
        assert!(stats.unwrap().quantized > 0);
        peak
    };
    let twice = staged(32);
    let peak = quantise(&small, 2);
    assert!(peak <= 8 * MIB, "two threads held {peak} bytes while quantising");
    let growth = quantise(&twice, 1).saturating_sub(quantise(&small, 1));
    assert!(growth <= 128 * KIB, "quantising twice the file held {growth} bytes more");

    // Statistics, differences and hashes write nothing.
    let measure = |folder: &Folder, threads| {
        let checkpoint = Checkpoint::open_file(folder.model(), &ParseLimits::default()).unwrap();
        let run = RememberOptions::new().with_threads(threads);
        let (peak, ..) = profiled(|| {
            assert!(checkpoint.stats(&run, |_| {}).unwrap().tensors.len() >= 2);
            let options = DiffOptions::new().with_run(run.clone());
            assert!(checkpoint.diff(&checkpoint, &options, |_| {}).unwrap().is_equal());
            for form in [HashForm::Stored, HashForm::Decoded(TargetDtype::F32)] {
                assert!(checkpoint.hash(form, &run, |_| {}).unwrap().tensors.len() >= 2);
            }
        });
        peak
    };
    // Stored bytes are hashed in pieces of 4 MiB.
    let peak = measure(&small, 2);
    assert!(peak <= 10 * MIB, "two threads held {peak} bytes while measuring");
    let growth = measure(&twice, 1).saturating_sub(measure(&small, 1));
    assert!(growth <= 128 * KIB, "measuring twice the file held {growth} bytes more");

    let header = parse(large.model()).unwrap().header.header_size;
    let (peak, _, info) = profiled(|| parse(large.model()).unwrap().inspect());
    assert_eq!((info.quantized, info.passthrough), (12, 4));
    assert!(peak <= 16 * header + 16 * KIB, "inspecting a header of {header} bytes held {peak}");

    let (weight, scale) = (vec![0x38; 512 * 1024], le_bytes(&[0.5; 512]));
    let output = weight.len() * 4;
    let (peak, _, values) =
        profiled(|| dequantize_fp8::<F32Out>(&weight, &scale[..128], 512, 1024, Dtype::F32).unwrap());
    assert_eq!(values.len(), output);
    // In addition to the output, the chunk that is appended to it.
    let most = output + 132 * KIB;
    assert!(peak <= most, "blocks: {peak} for {output}");
    let (peak, _, values) =
        profiled(|| dequantize_per_channel_fp8::<F32Out>(&weight, &scale, 512, 1024, Dtype::F32).unwrap());
    assert_eq!(values.len(), output);
    assert!(peak <= most, "rows: {peak} for {output}");

    // A row of 4 million values with a scale per 16: a tile reads only the scales of its part of the row.
    let model = Model::new().floats("a.weight_scale_inv", &[2, 1 << 18], &vec![0.5; 2 << 18]).tensor(
        "a.weight",
        "F8_E4M3",
        &[2, 4 << 20],
        &vec![0x38; 8 << 20],
    );
    let config = serde_json::json!({"quantization_config": {"quant_method": "fp8", "weight_block_size": [1, 16]}});
    let folder = Folder::staged(&model.bytes(), Some(&config));
    let (peak, _) = convert(&folder.model(), &folder.path("out"), 1);
    assert!(peak <= 2 * MIB, "long rows held {peak} bytes");
    let values = std::fs::read(folder.path("out")).unwrap();
    assert!(values[values.len() - (16 << 20)..].chunks_exact(2).all(|value| value == [0x00, 0x3f]), "not all 0.5");

    // The documented scratch memory of the slice functions: a chunk of output, and a few rows of floats or the scales.
    let (inputs, outputs) = (512, 1024);
    let output = inputs * outputs * 2;
    let (codes, zeros, scales) =
        (vec![0x55; inputs * outputs / 2], vec![0x11; 4 * outputs / 2], vec![0x2c; 4 * outputs * 2]);
    for index in [None, Some(&le_indices(inputs)[..])] {
        let (peak, ..) = profiled(|| {
            dequantize_gptq::<Bf16Out>(&codes, &scales, &zeros, index, inputs, outputs, 128, 4, Dtype::F16).unwrap()
        });
        assert!(peak <= output + 132 * KIB + 5 * outputs * 4, "GPTQ: {peak} for {output}");
    }
    let (peak, ..) =
        profiled(|| dequantize_awq::<Bf16Out>(&codes, &scales, &zeros, inputs, outputs, 128, 4, Dtype::F16).unwrap());
    assert!(peak <= output + 132 * KIB + 5 * outputs * 4, "AWQ: {peak} for {output}");
    // Down to one nested scale per scale.
    for (block, nested_block) in [(64, 256), (64, 2), (32, 1), (4096, 256), (2, 1)] {
        let (elements, blocks) = (inputs * outputs, inputs * outputs / block);
        let (map, nested_map) = (le_bytes(&[0.5; 16]), le_bytes(&[0.25; 256]));
        let (absmax, nested) = (vec![0x55; blocks], le_bytes(&vec![1.0; blocks.div_ceil(nested_block)]));
        let decode = dequantize_bnb4_double_quant::<Bf16Out>;
        let (peak, _, values) = profiled(|| {
            decode(&codes, &absmax, &map, &nested, &nested_map, 0.25, elements, block, nested_block).unwrap()
        });
        assert!(values.chunks_exact(2).all(|value| value == [0x80, 0x3e]), "0.5 × (0.25 × 1 + 0.25) everywhere");
        let allowed = output + 132 * KIB + blocks * 4 + block * 4;
        assert!(peak <= allowed, "double-quant {block}, {nested_block}: {peak} for {output}");
    }
}

/// An ascending group index, in groups of 128.
fn le_indices(inputs: usize) -> Vec<u8> {
    (0..inputs as u32).flat_map(|input| (input / 128).to_le_bytes()).collect()
}
