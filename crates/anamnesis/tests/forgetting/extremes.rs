//! Every finite extreme value through every encoding: the output decodes to finite values within the step size of the
//! encoding, or the tensor is refused by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::{Contents, Folder, Model, floats, rounded};
use anamnesis::{
    AnamnesisError, BlockOptions, Checkpoint, ConvertOptions, ConvertTarget, DirectoryOptions, Dtype, Importance,
    ParseLimits, TargetDtype,
};

const COLS: usize = 256;
const DTYPES: [(&str, TargetDtype); 3] =
    [("F32", TargetDtype::F32), ("F16", TargetDtype::F16), ("BF16", TargetDtype::BF16)];

/// Weights of extreme values by description, without those that a type cannot hold.
fn extremes(dtype: TargetDtype, rows: usize) -> BTreeMap<String, Vec<f32>> {
    let largest = match dtype {
        TargetDtype::F16 => 65504.0,
        TargetDtype::BF16 => f32::from_bits(0x7F7F_0000),
        _ => f32::MAX,
    };
    let smallest = match dtype {
        TargetDtype::F16 => 2f32.powi(-24),
        TargetDtype::BF16 => f32::from_bits(0x0001_0000),
        _ => f32::from_bits(1),
    };
    let usual = |place: usize| ((place * 37 % 101) as f32 - 50.0) / 64.0;
    let mut all = BTreeMap::new();
    let mut add = |name: String, value: &dyn Fn(usize) -> f32| {
        all.insert(name, (0..rows * COLS).map(value).collect());
    };
    for value in [largest, 65504.0, 65520.0, 1e6, 1e9, smallest, 1e-30, 0.0] {
        if value > largest {
            continue;
        }
        let name = format!("{value:e}").replace(['-', '.'], "_");
        add(format!("all_{name}"), &|_| value);
        add(format!("both_{name}"), &|place| if place % 2 == 0 { value } else { -value });
        add(format!("one_{name}"), &|place| if place == 300 { -value } else { usual(place) });
        add(format!("last_{name}"), &|place| if place == rows * COLS - 1 { value } else { 0.0 });
        add(format!("beside_{name}"), &|place| if place % 3 == 0 { value } else { smallest });
    }
    all
}

/// Rows of weights: GPTQ packs 32 of them, and block searches are slow.
const fn rows(is_gguf: bool) -> usize {
    if is_gguf { 2 } else { 32 }
}

fn numbers(bytes: &[u8], dtype: TargetDtype) -> Vec<f32> {
    let pairs = || bytes.as_chunks::<2>().0.iter();
    match dtype {
        TargetDtype::F16 => pairs().map(|pair| half::f16::from_le_bytes(*pair).to_f32()).collect(),
        TargetDtype::BF16 => pairs().map(|pair| half::bf16::from_le_bytes(*pair).to_f32()).collect(),
        _ => floats(bytes),
    }
}

fn layer(name: &str, is_gguf: bool) -> String {
    if is_gguf { format!("blk.0.{name}.weight") } else { format!("model.layers.0.{name}.down_proj.weight") }
}

/// The names of refused weights, and the decoded values of the others in this type.
fn converted(
    target: ConvertTarget,
    mut weights: BTreeMap<String, Vec<u8>>,
    dtype: (&str, TargetDtype),
    options: &ConvertOptions,
) -> (Vec<String>, BTreeMap<String, Vec<f32>>) {
    let is_gguf = target.extension() == "gguf";
    let mut refused = Vec::new();
    loop {
        if weights.is_empty() {
            return (refused, BTreeMap::new());
        }
        let mut model = Model::new();
        for (name, bytes) in &weights {
            model = model.tensor(name, dtype.0, &[rows(is_gguf), COLS], bytes);
        }
        let input = Folder::staged(&model.bytes(), Some(&serde_json::json!({})));
        let model = input.model();
        let folder = model.parent().unwrap();
        let output = Folder::new();
        let path = output.path(if is_gguf { "out.gguf" } else { "out" });
        let done = match is_gguf {
            true => Checkpoint::open(&model, &ParseLimits::default())
                .and_then(|checkpoint| checkpoint.plan_convert(target, options)?.write(&path, |_| {}).map(drop)),
            false => Checkpoint::open(folder, &ParseLimits::default()).and_then(|checkpoint| {
                let plan = checkpoint.plan_convert_directory(target, options, &DirectoryOptions::new())?;
                plan.write(&path, &options.run, |_| {}).map(drop)
            }),
        };
        let file = if is_gguf { path.clone() } else { path.join("model.safetensors") };
        match done {
            Ok(()) => {
                let decoded = output.path("decoded.safetensors");
                let written = Checkpoint::open(&path, &ParseLimits::default()).unwrap();
                // Blocks are decoded to F32 at run time, other weights to their original type.
                let loaded = if is_gguf { TargetDtype::F32 } else { dtype.1 };
                let to = ConvertOptions::new().with_output_dtype(loaded.dtype()).with_threads(1);
                written.plan_convert(ConvertTarget::Safetensors, &to).unwrap().write(&decoded, |_| {}).unwrap();
                let tensors = Contents::read(&decoded).tensors;
                let of = |name: &String| (name.clone(), numbers(&tensors[name].data, loaded));
                return (refused, weights.keys().map(of).collect());
            }
            Err(AnamnesisError::Overflow { tensor, index, value, decoded, .. }) => {
                assert!(value.is_finite() && index < (rows(is_gguf) * COLS) as u64, "{target}: {value} at {index}");
                println!("{target}, {}: {tensor} {value:e} -> {decoded:e}", dtype.0);
                assert!(weights.remove(&tensor).is_some(), "{target}: {tensor}");
                assert!(!file.exists(), "{target}: {tensor} is half written");
                refused.push(tensor);
            }
            Err(error) => {
                let text = error.to_string();
                let named = weights.keys().find(|name| text.contains(&format!("{name:?}"))).cloned();
                let tensor = named.unwrap_or_else(|| panic!("{target}, {}: {text}", dtype.0));
                println!("{target}, {}: {text}", dtype.0);
                weights.remove(&tensor);
                refused.push(tensor);
            }
        }
    }
}

fn importance(names: impl Iterator<Item = String>, weight: f32) -> Arc<Importance> {
    let mut importance = Importance::default();
    importance.weights = names.map(|name| (name, vec![weight; COLS].into())).collect();
    Arc::new(importance)
}

/// Which values share a scale.
#[derive(Debug, Clone, Copy)]
enum Sharing {
    /// None: each is its own.
    Nothing,
    /// So many of a row.
    Run(usize),
    /// Rows and columns of a block.
    Block(usize, usize),
}

/// The smallest scale of F16.
const HALF: f32 = f32::from_bits((127 - 24) << 23);
/// The largest code of all encodings of eight bits and less.
const CODES: f32 = 448.0;
/// Half a step of these types, over the value.
const E4M3: f32 = 1.0 / 16.0;
const E2M1: f32 = 1.0 / 6.0;
/// Scales of E4M3 that are not normal, over the largest of them.
const E4M3_SCALES: f32 = 1.0 / 64.0 / 448.0;

/// How far an encoding may be from what it was given.
#[derive(Debug, Clone, Copy)]
struct Bound {
    sharing: Sharing,
    /// A step of its codes, over the largest value that shares their scale.
    step: f32,
    /// What is smaller than this vanishes together with its scale.
    smallest: f32,
    /// The largest value there is, beyond which all are this one.
    largest: f32,
    /// Scales of scales: a step of theirs, over the largest value of the tensor.
    outer: f32,
    /// Whether values of one sign are out of range: AutoAWQ clamps a zero point that is none of its codes, and GPTQModel gives the other
    /// sign half of a symmetric range.
    needs_both_signs: bool,
}

impl Bound {
    fn of(target: &str, dtype: TargetDtype) -> Self {
        let integers = |bits: u32| 2.0 / (2f32.powi(bits as i32) - 1.0);
        let bits = || target.chars().find_map(|digit| digit.to_digit(10)).unwrap();
        // Scales are of the weight's type, and times so much the largest code.
        let rounding = match dtype {
            TargetDtype::F16 => 2f32.powi(-11),
            TargetDtype::BF16 => 2f32.powi(-8),
            _ => 0.0,
        };
        let smallest = CODES * if dtype == TargetDtype::F16 { HALF } else { f32::MIN_POSITIVE };
        let bound =
            |sharing, step| Self { sharing, step, smallest, largest: f32::MAX, outer: 0.0, needs_both_signs: false };
        let run = |values, step| bound(Sharing::Run(values), step);
        // The scale of a block is of F16, and times so much that of its codes.
        let blocks = |values, step, times: f32| Self { smallest: times * HALF, ..run(values, step) };
        let nvfp4 = || Self { outer: E4M3_SCALES, ..run(16, E2M1 + E4M3) };
        match target {
            "bnb-nf4" => run(64, 0.152),
            "bnb-fp4" => run(64, 0.167),
            "bnb-int8" => blocks(COLS, integers(8), 1.0),
            "fp8" | "fp8-block" => bound(Sharing::Block(128, 128), E4M3),
            "fp8-cast" => Self { smallest: 2f32.powi(-10), largest: 448.0, ..bound(Sharing::Nothing, E4M3) },
            "fp8-e5m2" => Self { smallest: 2f32.powi(-17), ..bound(Sharing::Nothing, 2.0 * E4M3) },
            "fp8-tensor" | "modelopt-fp8" => bound(Sharing::Block(usize::MAX, COLS), E4M3),
            "fp8-channel" | "quanto-float8" => run(COLS, E4M3),
            "quanto-float8-e5m2" => run(COLS, 2.0 * E4M3),
            "w8a8" | "quanto-int8" => run(COLS, integers(8)),
            "mxfp4" | "mlx-mxfp4" | "mxfp4_moe" => run(32, 0.251),
            "mxfp8" | "mlx-mxfp8" | "modelopt-mxfp8" => run(32, 0.125),
            "nvfp4" | "modelopt-nvfp4" | "comfy-nvfp4" => nvfp4(),
            // Scales and their reciprocals are rounded to the type of the weight.
            "comfy-fp8" => bound(Sharing::Block(usize::MAX, COLS), E4M3 + 2.0 * rounding),
            "comfy-fp8-row" => Self { smallest: smallest.max(1e-12), ..run(COLS, E4M3) },
            "comfy-mxfp8" => run(32, 0.125),
            "comfy-int8" => bound(Sharing::Block(usize::MAX, COLS), integers(8) + 2.0 * rounding),
            "comfy-int8-row" => run(COLS, integers(8) + 2.0 * rounding),
            // The largest positive value has no code: it is a step too far.
            "eetq" => Self { smallest: 128.0 * HALF, ..run(COLS, 2.0 * integers(8)) },
            "mlx-nvfp4" => Self { smallest: 6.0 * 2f32.powi(-9), largest: 6.0 * 448.0, ..run(16, E2M1 + E4M3) },
            "q4_0" => blocks(32, integers(4), 8.0),
            "q4_1" => blocks(32, integers(4), 16.0),
            "q5_0" => blocks(32, integers(5), 16.0),
            "q5_1" => blocks(32, integers(5), 32.0),
            "q8_0" => blocks(32, integers(8), 127.0),
            "q2_k" => blocks(COLS, integers(2), 15.0 * 3.0),
            "iq4_nl" => blocks(32, integers(4), 127.0),
            "iq4_xs" => blocks(COLS, integers(4), 32.0 * 127.0),
            "tq1_0" | "tq2_0" => blocks(COLS, 0.501, 1.0),
            _ if target.starts_with("w") => run(128, integers(bits())),
            _ if target.starts_with("gptq") || target.starts_with("awq") => {
                Self { needs_both_signs: !target.ends_with("asym"), ..blocks(128, integers(bits()), 255.0) }
            }
            // MLX has no smaller scales, and rounds scales and biases.
            _ if target.starts_with("mlx") => {
                Self { smallest: 1e-7 * 2f32.powi(bits() as i32), ..run(64, integers(bits()) + rounding) }
            }
            // Nor has HQQ, whose scales are reciprocals.
            _ if target.starts_with("hqq") => {
                Self { smallest: 2f32.powi(bits() as i32) / 2e4, ..run(64, integers(bits())) }
            }
            _ if target.starts_with("iq") => blocks(COLS, 1.0, 500.0),
            _ if target.starts_with("q") && target.contains("_k") => blocks(COLS, integers(bits()), 4096.0),
            _ => panic!("nothing is known of the steps of {target}"),
        }
    }

    /// The largest distance from what it was, in steps of the encoding.
    fn worst(&self, source: &[f32], decoded: &[f32]) -> f32 {
        let shares = |place: usize| match self.sharing {
            Sharing::Nothing => (place, 0),
            Sharing::Run(values) => (place / values, 0),
            Sharing::Block(rows, cols) => (place / COLS / rows, place % COLS / cols),
        };
        let mut extremes: BTreeMap<_, (f32, f32)> = BTreeMap::new();
        for (place, &value) in source.iter().enumerate() {
            let (low, high) = extremes.entry(shares(place)).or_insert((value, value));
            (*low, *high) = (low.min(value), high.max(value));
        }
        let whole = source.iter().fold(0f32, |all, value| all.max(value.abs()));
        let distance = |(place, (source, decoded)): (usize, (&f32, &f32))| {
            let source = source.clamp(-self.largest, self.largest);
            let (low, high) = extremes[&shares(place)];
            if self.needs_both_signs && (low >= 0.0 || high <= 0.0) {
                return 0.0;
            }
            let allowed = low.abs().max(high.abs()) * self.step + whole * self.outer + self.smallest;
            match f64::from(decoded - source).abs() {
                0.0 => 0.0,
                distance => (distance / f64::from(allowed)) as f32,
            }
        };
        source.iter().zip(decoded).enumerate().map(distance).fold(0.0, f32::max)
    }
}

/// Tests all targets of one container.
fn check(extension: &str) {
    let (mut written, mut lost) = (0, 0);
    let mut seen = BTreeSet::new();
    for target in ConvertTarget::all().filter(|target| target.is_quantized() && target.extension() == extension) {
        // gpt-oss has no matrices, and pure mixes of one type are equal.
        if target.name() == "gpt-oss" || extension == "gguf" && !seen.insert(target.about()) {
            continue;
        }
        let is_gguf = extension == "gguf";
        for dtype in DTYPES {
            let weights = extremes(dtype.1, rows(is_gguf)).into_iter();
            let weights: BTreeMap<String, Vec<u8>> =
                weights.map(|(name, values)| (layer(&name, is_gguf), rounded(&values, dtype.1))).collect();
            let sources: BTreeMap<_, _> =
                weights.iter().map(|(name, bytes)| (name.clone(), numbers(bytes, dtype.1))).collect();
            let mut options = ConvertOptions::new().with_threads(1);
            if is_gguf {
                let importance = importance(weights.keys().cloned(), 1.0);
                options.quantise.blocks = BlockOptions::new().with_pure(true).with_importance(importance);
            }
            let (refused, decoded) = converted(target, weights, dtype, &options);
            for (name, values) in &decoded {
                let bad = values.iter().position(|value| !value.is_finite());
                assert!(bad.is_none(), "{target}, {}: {name} is {} at {bad:?}", dtype.0, values[bad.unwrap()]);
                let worst = Bound::of(target.name(), dtype.1).worst(&sources[name], values);
                assert!(worst <= 1.0, "{target}, {}: {name} is {worst} steps from what it was", dtype.0);
            }
            written += decoded.len();
            lost += refused.len();
        }
    }
    println!("{written} written, {lost} refused");
    assert!(written > 500 && lost > 100, "{written} written, {lost} refused");
}

#[test]
fn every_extreme_in_every_dialect_of_safetensors_is_finite_or_refused() {
    check("safetensors");
}

#[test]
fn every_extreme_in_every_mix_of_blocks_is_finite_or_refused() {
    check("gguf");
}

#[test]
fn an_importance_too_large_for_the_sums_is_refused_with_the_tensor() {
    let values: Vec<f32> = (0..rows(true) * COLS).map(|place| ((place * 37 % 101) as f32 - 50.0) / 64.0).collect();
    let name = layer("ffn_down", true);
    let mut refused = 0;
    for target in ConvertTarget::all().filter(|target| target.is_quantized() && target.extension() == "gguf") {
        let mut options = ConvertOptions::new().with_threads(1);
        let importance = importance([name.clone()].into_iter(), 3e38);
        options.quantise.blocks = BlockOptions::new().with_pure(true).with_importance(importance);
        let weights = BTreeMap::from([(name.clone(), rounded(&values, TargetDtype::F32))]);
        let (lost, decoded) = converted(target, weights, DTYPES[0], &options);
        assert!(decoded.values().flatten().all(|value| value.is_finite()), "{target}");
        refused += lost.len();
    }
    assert!(refused > 0);
}

#[test]
fn overflowing_values_are_written_and_counted_if_allowed() {
    let mut values = vec![0.5; rows(true) * COLS];
    values[300] = 1e6;
    let model = Model::new().floats(&layer("ffn_down", true), &[rows(true), COLS], &values);
    let checkpoint = Checkpoint::from_bytes(model.bytes(), &ParseLimits::default()).unwrap();
    let target = ConvertTarget::parse("q4_0").unwrap();
    let mut options = ConvertOptions::new().with_measure(true);
    options.quantise.blocks = BlockOptions::new().with_pure(true);
    let error = checkpoint.plan_convert(target, &options).unwrap().to_bytes(|_| {}).unwrap_err();
    let text = r#"tensor "blk.0.ffn_down.weight": value 288 is 5e-1, which Q4_0 would hold as NaN"#;
    assert_eq!(error.to_string(), text);
    let options = options.with_allow_nonfinite(true);
    let (_, report) = checkpoint.plan_convert(target, &options).unwrap().to_bytes(|_| {}).unwrap();
    assert_eq!(report.overflowed, 32);
    assert!(report.errors.iter().all(|error| error.mean_absolute.is_finite() && error.cosine.is_finite()));
}

#[test]
fn a_per_tensor_type_cannot_overflow_either() {
    let model = Model::new().floats(&layer("ffn_down", true), &[rows(true), COLS], &vec![1e6; rows(true) * COLS]);
    let checkpoint = Checkpoint::from_bytes(model.bytes(), &ParseLimits::default()).unwrap();
    for (dtype, is_held) in [(Dtype::F16, false), (Dtype::BF16, true), (Dtype::F32, true)] {
        let mut options = ConvertOptions::new();
        options.quantise.blocks = BlockOptions::new().with_tensor_type("ffn_down", dtype);
        let result = checkpoint.plan_convert(ConvertTarget::parse("q8_0").unwrap(), &options).unwrap().to_bytes(|_| {});
        assert_eq!(result.is_ok(), is_held, "{dtype}");
        assert!(is_held || matches!(result, Err(AnamnesisError::Overflow { .. })));
    }
}
