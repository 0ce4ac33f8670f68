//! The output depends only on the input: not on threads, CPU levels, byte sources or tile boundaries.

use crate::support;
use std::io::Cursor;
use std::sync::{Arc, Mutex};

use crate::support::{Contents, Folder, Model, Noise, TARGETS, Tensor, code_table, difference, rounded};
use anamnesis::{
    Checkpoint, CpuLevel, DirectoryOptions, ParseLimits, Progress, RememberOptions, TargetDtype, parse, parse_bytes,
    parse_from_reader,
};
use serde_json::{Value, json};

/// Tensors of several tiles each, with edges that no block or tile divides.
fn large_model() -> Model {
    let mut noise = Noise(1);
    let mut scales = |count: usize| (0..count).map(|_| noise.scale()).collect::<Vec<_>>();
    let mut codes = Noise(2);
    Model::new()
        .metadata("format", "pt")
        .floats("a.weight_scale_inv", &[6, 5], &scales(30))
        .tensor("a.weight", "F8_E4M3", &[701, 517], &codes.bytes(701 * 517))
        .floats("b.weight_scale", &[1009, 1], &scales(1009))
        .tensor("b.weight", "F8_E5M2", &[1009, 333], &codes.bytes(1009 * 333))
        .floats("long.weight_scale_inv", &[1, 2345], &scales(2345))
        .tensor("long.weight", "F8_E4M3", &[1, 300_111], &codes.bytes(300_111))
        .floats("experts.gate_scale_inv", &[3, 2, 2], &scales(12))
        .tensor("experts.gate", "F8_E4M3", &[3, 191, 255], &codes.bytes(3 * 191 * 255))
        .tensor("plain", "U8", &[2_500_001], &codes.bytes(2_500_001))
}

/// The same with packed schemes, which read their matrices in pieces and transpose them.
fn large_packed_model() -> Model {
    let mut noise = Noise(3);
    let group: Vec<u8> = (0..768i32).flat_map(|index| (index * 7 % 6).to_le_bytes()).collect();
    Model::new()
        .metadata("gptq_bits", "4")
        .metadata("gptq_group_size", "128")
        .tensor("gptq.qweight", "I32", &[96, 1032], &noise.bytes(96 * 1032 * 4))
        .tensor("gptq.qzeros", "I32", &[6, 129], &noise.bytes(6 * 129 * 4))
        .tensor("gptq.scales", "F16", &[6, 1032], &noise.bytes(6 * 1032 * 2))
        .tensor("gptq.g_idx", "I32", &[768], &group)
        .tensor("awq.qweight", "I32", &[768, 129], &noise.bytes(768 * 129 * 4))
        .tensor("awq.qzeros", "I32", &[6, 129], &noise.bytes(6 * 129 * 4))
        .tensor("awq.scales", "F16", &[6, 1032], &noise.bytes(6 * 1032 * 2))
        .tensor("nf4.weight", "U8", &[320_032, 1], &noise.bytes(320_032))
        .floats("nf4.weight.absmax", &[10_001], &[0.25; 10_001])
        .floats("nf4.weight.quant_map", &[16], &std::array::from_fn::<f32, 16, _>(|code| code as f32 - 7.5))
        .tensor("int8.weight", "I8", &[701, 517], &noise.bytes(701 * 517))
        .floats("int8.SCB", &[701], &[3.5; 701])
}

#[test]
fn any_number_of_threads_and_any_source_give_the_same_fp8_bytes() {
    same_bytes_everywhere(large_model().bytes());
}

#[test]
fn any_number_of_threads_and_any_source_give_the_same_bytes_of_packed_schemes() {
    let model = large_packed_model().bytes();
    assert_eq!(parse_bytes(model.clone()).unwrap().inspect().quantized, 4);
    same_bytes_everywhere(model);
}

#[test]
fn any_number_of_threads_writes_the_same_shards_and_reports_all_tensors() {
    let folder = Folder::staged(&large_model().bytes(), None);
    let input = folder.path("model");
    std::fs::create_dir(&input).unwrap();
    std::fs::rename(folder.path("model.safetensors"), input.join("model.safetensors")).unwrap();
    let checkpoint = Checkpoint::open(&input, &ParseLimits::default()).unwrap();
    let plan =
        checkpoint.plan_directory(TargetDtype::BF16, &DirectoryOptions::new().with_shard_bytes(500_000)).unwrap();
    let shards: Vec<String> = plan.shards().map(|(name, _)| name.to_owned()).collect();
    assert!(shards.len() >= 4, "{shards:?}");
    let mut first = None;
    for threads in [0, 1, 2, 5, 16] {
        let out = folder.path(&format!("out-{threads}"));
        let reported = Arc::new(Mutex::new(Vec::new()));
        let report = Arc::clone(&reported);
        let options = on(threads).with_on_tensor(move |name| report.lock().unwrap().push(name.to_owned()));
        let mut last = Progress::default();
        let report = plan.write(&out, &options, |progress| last = *progress).unwrap();
        assert_eq!(report.written, shards, "in the order of the plan");
        assert_eq!((last.bytes, last.tensors), (last.total_bytes, plan.tensors().count()), "{threads} threads");
        assert_eq!(reported.lock().unwrap().len(), last.tensors);
        let contents: Vec<_> = shards.iter().map(|shard| std::fs::read(out.join(shard)).unwrap()).collect();
        assert!(*first.get_or_insert_with(|| contents.clone()) == contents, "{threads} threads");
    }
}

/// Options for so many threads; none at all for 0.
fn on(threads: usize) -> RememberOptions {
    let mut options = RememberOptions::new();
    options.threads = Some(threads);
    options
}

fn same_bytes_everywhere(model: Vec<u8>) {
    let folder = Folder::staged(&model, None);
    for target in [TargetDtype::BF16, TargetDtype::F32] {
        let whole = parse_bytes(model.clone()).unwrap().remember_to_bytes(target).unwrap();
        for level in CpuLevel::available() {
            let options = RememberOptions::new().with_cpu_level(level);
            let found = parse_bytes(model.clone()).unwrap().remember_to_bytes_with_options(target, options).unwrap();
            assert!(found == whole, "{target} at {level}");
        }
        for threads in [0, 1, 2, 3, 8] {
            let options = || on(threads);
            let in_memory = parse_bytes(model.clone()).unwrap();
            assert!(in_memory.remember_to_bytes_with_options(target, options()).unwrap() == whole, "{threads} bytes");

            let output = folder.path("out.safetensors");
            parse(folder.model()).unwrap().remember_with_options(&output, target, options()).unwrap();
            assert!(std::fs::read(&output).unwrap() == whole, "{threads} file");

            let limits = ParseLimits::default();
            let reader = Checkpoint::from_reader(Cursor::new(model.clone()), &limits).unwrap();
            reader.plan(target).unwrap().write(&output, &options(), |_| {}).unwrap();
            assert!(std::fs::read(&output).unwrap() == whole, "{threads} reader");
        }
        let streamed = parse_from_reader(&model[..]).unwrap();
        assert!(streamed.remember_to_bytes(target).unwrap() == whole, "stream");
    }
}

/// A weight with its scales, and what it decodes to by the plain formula.
struct Case {
    model: Model,
    config: Option<Value>,
    shape: Vec<usize>,
    values: Vec<f32>,
    what: String,
}

/// Scales of `count` values in a random type: the stored type, its bytes, the values.
fn scales(noise: &mut Noise, count: usize) -> (&'static str, Vec<u8>, Vec<f32>) {
    let dtype = noise.pick(&["F32", "BF16", "F16", "F8_E8M0", "U8"]);
    let plain: Vec<f32> = (0..count).map(|_| noise.scale()).collect();
    match dtype {
        "F32" => (dtype, support::le_bytes(&plain), plain),
        "BF16" => {
            let halves: Vec<_> = plain.iter().map(|&value| half::bf16::from_f32(value)).collect();
            let bytes = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
            (dtype, bytes, halves.iter().map(|half| half.to_f32()).collect())
        }
        "F16" => {
            let halves: Vec<_> = plain.iter().map(|&value| half::f16::from_f32(value)).collect();
            let bytes = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
            (dtype, bytes, halves.iter().map(|half| half.to_f32()).collect())
        }
        _ => {
            // 255 is the only byte on which the two types differ; the fixtures cover it.
            let table = code_table("e8m0fnu");
            let bytes: Vec<u8> = (0..count).map(|_| noise.below(255) as u8).collect();
            let values = bytes.iter().map(|&byte| table[usize::from(byte)]).collect();
            (dtype, bytes, values)
        }
    }
}

fn case(noise: &mut Noise, rows: usize, cols: usize) -> Case {
    let matrices = noise.pick(&[0, 0, 0, 1, 2, 3]);
    let stack: Vec<usize> = if matrices == 0 { vec![] } else { vec![matrices] };
    let count = matrices.max(1);
    let whole = |rest: &[usize]| [&stack[..], rest].concat();
    let configured = |rows: usize, cols: usize| json!({"quantization_config": {"quant_method": "fp8", "weight_block_size": [rows, cols]}});
    let channel = json!({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {
        "weights": {"type": "float", "num_bits": 8, "strategy": "channel"}}}}});
    // Each arrangement: the block of a scale, the shape of the scales, and the configuration.
    let random_block = (1 + noise.below(rows + 3), 1 + noise.below(cols + 3));
    let (block, scale_shape, config) = match noise.below(5) {
        0 if matrices < 2 => ((rows, cols), noise.pick(&[&[][..], &[1]]).to_vec(), None),
        1 => ((1, cols), whole(&[rows, 1]), Some(channel)),
        2 => ((128, 128), whole(&[rows.div_ceil(128), cols.div_ceil(128)]), None),
        3 => ((1, 32), whole(&[rows, cols.div_ceil(32)]), Some(configured(1, 32))),
        _ => {
            let (block_rows, block_cols) = random_block;
            let grid = whole(&[rows.div_ceil(block_rows), cols.div_ceil(block_cols)]);
            (random_block, grid, Some(configured(block_rows, block_cols)))
        }
    };
    let (scale_dtype, scale_bytes, scale_values) = scales(noise, scale_shape.iter().product());
    // compressed-tensors has one eight-bit format.
    let is_grouped = config.as_ref().is_some_and(|config| config.to_string().contains("config_groups"));
    let formats = [("F8_E4M3", "e4m3fn"), ("F8_E5M2", "e5m2"), ("F8_E4M3FNUZ", "e4m3fnuz")];
    let (dtype, format) = noise.pick(if is_grouped { &formats[..1] } else { &formats });
    let table = code_table(format);
    let codes = noise.bytes(count * rows * cols);
    let (grid_rows, grid_cols) = (rows.div_ceil(block.0), cols.div_ceil(block.1));
    let value = |(index, &code): (usize, &u8)| {
        let (row, col) = (index / cols, index % cols);
        let scale_row = row / rows * grid_rows + row % rows / block.0;
        table[usize::from(code)] * scale_values[scale_row * grid_cols + col / block.1]
    };
    let values = codes.iter().enumerate().map(value).collect();
    let shape = whole(&[rows, cols]);
    let what = format!("{dtype} {shape:?}, {scale_dtype} {scale_shape:?}, blocks {block:?}");
    let model = Model::new()
        .tensor("x.weight_scale_inv", scale_dtype, &scale_shape, &scale_bytes)
        .tensor("x.weight", dtype, &shape, &codes);
    Case { model, config, shape, values, what }
}

/// Decodes a case to every type and compares it with the plain formula.
fn holds(case: &Case, seed: u64) {
    let folder = Folder::staged(&case.model.bytes(), case.config.as_ref());
    for target in TARGETS {
        let output = match folder.remember(target) {
            Ok(output) => output,
            Err(error) => panic!("seed {seed}, {}: {error}", case.what),
        };
        assert_eq!(output.names(), ["x.weight"], "seed {seed}, {}", case.what);
        let data = rounded(&case.values, target);
        let wanted = Tensor { dtype: target.to_string(), shape: case.shape.clone(), data };
        if let Some(why) = difference(&wanted, &output.tensors["x.weight"]) {
            panic!("seed {seed}, {} as {target}: {why}", case.what);
        }
    }
}

#[test]
fn random_shapes_and_scales_decode_by_the_plain_formula() {
    for seed in 0..120 {
        let mut noise = Noise(seed);
        let (rows, cols) = (1 + noise.below(300), 1 + noise.below(300));
        holds(&case(&mut noise, rows, cols), seed);
    }
}

#[test]
fn tensors_larger_than_a_tile_decode_by_the_plain_formula() {
    // Tall, wide, square, and rows long enough to be split.
    let shapes = [(70_001, 3), (3, 70_001), (515, 401), (2, 131_072), (2, 131_073), (1, 262_147)];
    for (seed, (rows, cols)) in (1000..).zip(shapes) {
        for seed in [seed, seed + 100] {
            holds(&case(&mut Noise(seed), rows, cols), seed);
        }
    }
}

#[test]
fn reading_in_small_pieces_changes_nothing() {
    /// Returns a few bytes at a time, like a slow connection.
    struct Drip(Cursor<Vec<u8>>);

    impl std::io::Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = buffer.len().min(1013);
            self.0.read(&mut buffer[..count])
        }
    }

    impl std::io::Seek for Drip {
        fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
            self.0.seek(to)
        }
    }

    let model = large_model().bytes();
    let whole = parse_bytes(model.clone()).unwrap().remember_to_bytes(TargetDtype::F16).unwrap();
    let drip = Checkpoint::from_reader(Drip(Cursor::new(model)), &ParseLimits::default()).unwrap();
    let dripped = drip.plan(TargetDtype::F16).unwrap().to_bytes(&RememberOptions::new().with_threads(2)).unwrap();
    assert!(dripped == whole);
    assert_eq!(Contents::of(&dripped).tensors.len(), 5);
}

#[test]
fn sixty_four_threads_decode_one_checkpoint_like_one() {
    for name in ["gguf/q4_k.gguf", "gguf/iq2_xs.gguf", "flax/sharded", "hdf5/archive.keras", "npz/shapes_deflated.npz"]
    {
        decode_by_many(&support::fixture(name));
    }
    for name in ["awq/gemm_g64", "bnb/fp4_nested_b64_bfloat16", "fp8/ct_block", "compressed_tensors/int8_group_asym"] {
        let model = std::fs::read(support::fixture(&format!("{name}.safetensors"))).unwrap();
        let config = std::fs::read(support::fixture(&format!("{name}.config.json"))).unwrap();
        let folder = Folder::staged(&model, Some(&serde_json::from_slice(&config).unwrap()));
        decode_by_many(folder.path("").as_path());
    }
}

/// Decodes a checkpoint in 64 threads at once, each all of it, and compares the bits with those of one thread.
fn decode_by_many(path: &std::path::Path) {
    const THREADS: usize = 64;
    let checkpoint = Checkpoint::open(path, &ParseLimits::default()).unwrap();
    let decode = || -> Vec<_> {
        let tensors = checkpoint.decoded(TargetDtype::F32).map(Result::unwrap);
        tensors.map(|tensor| (tensor.name, tensor.shape, tensor.data)).collect()
    };
    let alone = decode();
    assert!(!alone.is_empty(), "{path:?}");
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(decode)).collect();
        for thread in threads {
            // Not `assert_eq`, which would print all values.
            assert!(thread.join().unwrap() == alone, "{path:?}");
        }
    });
}
