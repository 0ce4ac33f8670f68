//! Integer codes are repacked between GPTQ, AWQ, MLX and compressed-tensors where they represent the same values.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{Contents, Folder, Model, fixture};
use anamnesis::{
    Checkpoint, ConvertOptions, ConvertStats, ConvertTarget, DirectoryOptions, GroupSize, OpenOptions, ParseLimits,
    Rounding,
};
use serde_json::{Value, json};

const TARGETS: [&str; 13] = [
    "mlx-2bit",
    "mlx-3bit",
    "mlx-4bit",
    "mlx-8bit",
    "gptq-2bit-v2",
    "gptq-3bit",
    "gptq-4bit-asym",
    "gptq-4bit-v2-asym",
    "gptq-8bit",
    "awq-4bit",
    "w4a16",
    "w4a16-asym",
    "w8a16",
];

fn options(group: Option<&str>, same_codes: bool) -> ConvertOptions {
    let mut options = ConvertOptions::new();
    options.quantise.groups.size = group.map(|size| size.parse::<GroupSize>().unwrap());
    options.quantise.groups.same_codes = same_codes;
    options
}

/// Converts a directory if the target keeps its codes, or always.
fn convert(from: &Path, target: &str, options: &ConvertOptions, to: &Path, anyway: bool) -> Option<ConvertStats> {
    let before = Checkpoint::open(from, &ParseLimits::default()).ok()?;
    let target = ConvertTarget::parse(target).unwrap();
    let plan = before.plan_convert_directory(target, options, &DirectoryOptions::new()).ok()?;
    if plan.stats().repacked == 0 && !anyway {
        return None;
    }
    plan.write(to, &options.run, |_| {}).unwrap();
    Some(plan.stats())
}

/// All weights of a directory, decoded with this arithmetic.
fn decoded(directory: &Path, rounding: Rounding) -> Vec<(String, Vec<u32>)> {
    let options = OpenOptions::new().with_rounding(rounding);
    let checkpoint = Checkpoint::open_with(directory, &options).unwrap();
    let bits = |name: &str| checkpoint.decode::<f32>(name).unwrap().iter().map(|value| value.to_bits()).collect();
    let mut all: Vec<_> = checkpoint.weights().iter().map(|weight| (weight.name.clone(), bits(&weight.name))).collect();
    all.sort();
    all
}

/// The bits per code of the first weight, as in names of targets.
fn bits(directory: &Path) -> Option<char> {
    let checkpoint = Checkpoint::open(directory, &ParseLimits::default()).unwrap();
    let bits = checkpoint.weights().first()?.coding.bits?;
    char::from_digit(bits.into(), 10)
}

#[test]
fn repacked_weights_of_every_fixture_decode_to_the_same_bits() {
    let mut found = BTreeSet::new();
    for scheme in ["gptq", "awq", "mlx", "compressed_tensors"] {
        for entry in std::fs::read_dir(fixture(scheme)).unwrap() {
            let path = entry.unwrap().path();
            let Some(name) = path.to_str().and_then(|path| path.strip_suffix(".config.json")) else { continue };
            let folder = Folder::new();
            let from = folder.path("from");
            std::fs::create_dir(&from).unwrap();
            std::fs::copy(&path, from.join("config.json")).unwrap();
            std::fs::copy(format!("{name}.safetensors"), from.join("model.safetensors")).unwrap();
            let bits = bits(&from);
            let targets = TARGETS.into_iter().filter(|target| bits.is_some_and(|bits| target.contains(bits)));
            for (target, group) in targets.flat_map(|target| ["channel", "32"].map(|group| (target, group))) {
                for same_codes in [true, false] {
                    let to = folder.path(&format!("{target}-{group}-{same_codes}"));
                    match convert(&from, target, &options(Some(group), same_codes), &to, false) {
                        Some(stats) if stats.dequantized == 0 && stats.quantized == 0 => {}
                        // Some of its weights are decoded, and no fewer with stricter conditions.
                        _ => break,
                    }
                    found.insert((scheme, target, same_codes));
                    assert_eq!(decoded(&from, Rounding::Once), decoded(&to, Rounding::Once), "{name} to {target}");
                    if !same_codes {
                        let [from, to] = [&from, &to].map(|directory| decoded(directory, Rounding::AsLibrary));
                        assert_eq!(from, to, "{name} to {target}, as the libraries calculate");
                    }
                }
            }
        }
    }
    for (scheme, target) in [
        ("gptq", "mlx-2bit"),
        ("gptq", "mlx-3bit"),
        ("gptq", "mlx-4bit"),
        ("gptq", "mlx-8bit"),
        ("gptq", "w4a16"),
        ("gptq", "w4a16-asym"),
        ("gptq", "gptq-4bit-v2-asym"),
    ] {
        assert!(found.contains(&(scheme, target, true)), "{scheme} to {target} is not among {found:?}");
    }
    // The same arithmetic needs no permission.
    for (scheme, target) in [("gptq", "w4a16"), ("awq", "gptq-4bit-asym"), ("awq", "w4a16-asym"), ("gptq", "awq-4bit")]
    {
        assert!(found.contains(&(scheme, target, false)), "{scheme} to {target} is not among {found:?}");
    }
}

/// A model of two matrices, quantised.
fn quantised(folder: &Folder, target: &str, group: Option<&str>) -> std::path::PathBuf {
    let source = folder.path("source");
    std::fs::create_dir_all(&source).unwrap();
    let value = |index: usize| ((index * 7919 % 1009) as f32 - 504.0) / (700 + index / 64 * 31) as f32;
    let values: Vec<u8> =
        (0..64 * 256).flat_map(|index| ((value(index).to_bits() >> 16) as u16).to_le_bytes()).collect();
    let [up, down] = ["up", "down"].map(|name| format!("model.layers.0.mlp.{name}_proj.weight"));
    let model = Model::new().tensor(&up, "BF16", &[64, 256], &values).tensor(&down, "BF16", &[128, 128], &values);
    std::fs::write(source.join("model.safetensors"), model.bytes()).unwrap();
    std::fs::write(source.join("config.json"), "{}").unwrap();
    let output = folder.path("quantised");
    convert(&source, target, &options(group, false), &output, true).unwrap();
    output
}

fn contents(directory: &Path) -> Contents {
    Contents::read(directory.join("model.safetensors"))
}

#[test]
fn codes_and_scales_round_trip() {
    for (target, over, group) in [
        ("gptq-2bit", "mlx-2bit", Some("64")),
        ("gptq-3bit-v2", "mlx-3bit", Some("32")),
        ("gptq-4bit", "mlx-4bit", None),
        ("gptq-8bit", "mlx-8bit", Some("128")),
        ("gptq-4bit", "w4a16", None),
        ("gptq-4bit-asym", "w4a16-asym", None),
        ("gptq-8bit-v2-asym", "w8a16-asym", Some("64")),
        ("w4a16", "mlx-4bit", Some("64")),
        ("awq-4bit", "gptq-4bit-v2-asym", None),
        ("awq-4bit", "w4a16-asym", Some("64")),
        ("gptq-4bit", "awq-4bit", None),
    ] {
        let folder = Folder::new();
        let before = quantised(&folder, target, group);
        let (there, back) = (folder.path("there"), folder.path("back"));
        let options = options(group.or(Some("128")), true);
        for (from, target, to) in [(&before, over, &there), (&there, target, &back)] {
            let stats = convert(from, target, &options, to, true).unwrap();
            let found = (stats.repacked, stats.dequantized, stats.quantized);
            assert_eq!(found, (2, 0, 0), "{target} with {over} between");
        }
        assert_eq!(decoded(&before, Rounding::Once), decoded(&there, Rounding::Once), "{target} to {over}");
        assert_eq!(contents(&before).tensors, contents(&back).tensors, "{target} with {over} between");
    }
}

#[test]
fn groups_can_be_divided_but_not_merged() {
    let folder = Folder::new();
    let before = quantised(&folder, "gptq-4bit", None);
    let (smaller, larger) = (folder.path("smaller"), folder.path("larger"));
    let stats = convert(&before, "mlx-4bit", &options(None, true), &smaller, true).unwrap();
    assert_eq!(stats.repacked, 2, "128 to 64");
    assert_eq!(decoded(&before, Rounding::Once), decoded(&smaller, Rounding::Once));
    let stats = convert(&smaller, "gptq-4bit", &options(None, true), &larger, true).unwrap();
    assert_eq!((stats.repacked, stats.quantized), (0, 2), "64 to 128");
}

/// A weight of GPTQ, 32 outputs and 128 inputs in groups of 64, with these scales (F16) and this zero point, stored less one.
fn gptq(folder: &Folder, name: &str, scales: impl Fn(usize) -> u16, zero: u8) -> std::path::PathBuf {
    let words = (0..16 * 32u32).flat_map(|index| (index.wrapping_mul(2_654_435_761)).to_le_bytes());
    let zeros = [zero * 0x11; 2 * 16];
    let scales: Vec<u8> = (0..64).flat_map(|index| scales(index).to_le_bytes()).collect();
    let part = |part: &str| format!("model.layers.0.mlp.up_proj.{part}");
    let model = Model::new()
        .tensor(&part("qweight"), "I32", &[16, 32], &words.collect::<Vec<_>>())
        .tensor(&part("qzeros"), "I32", &[2, 4], &zeros)
        .tensor(&part("scales"), "F16", &[2, 32], &scales);
    let config: Value = json!({ "quantization_config":
        { "quant_method": "gptq", "bits": 4, "group_size": 64, "desc_act": false, "checkpoint_format": "gptq" } });
    let directory = folder.path(name);
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("model.safetensors"), model.bytes()).unwrap();
    std::fs::write(directory.join("config.json"), config.to_string()).unwrap();
    directory
}

/// 1, 2, 4 or 8, whose products with codes have few bits.
fn short(index: usize) -> u16 {
    0x3C00 + 0x400 * (index % 4) as u16
}

#[test]
fn exact_scales_are_repacked_without_same_codes() {
    let folder = Folder::new();
    for zero in [7, 6, 14] {
        let before = gptq(&folder, &format!("{zero}"), short, zero);
        let after = folder.path(&format!("{zero}-mlx"));
        let stats = convert(&before, "mlx-4bit", &options(None, false), &after, true).unwrap();
        assert_eq!((stats.repacked, stats.quantized), (1, 0));
        for rounding in [Rounding::Once, Rounding::AsLibrary] {
            assert_eq!(decoded(&before, rounding), decoded(&after, rounding), "{zero}");
        }
    }
}

#[test]
fn one_group_that_rounds_differently_prevents_repacking_of_a_weight() {
    let folder = Folder::new();
    // 1 + 3/1024, of which a product with 15 has more bits than F16.
    let before = gptq(&folder, "before", |index| if index == 37 { 0x3C03 } else { short(index) }, 7);
    let checkpoint = Checkpoint::open(&before, &ParseLimits::default()).unwrap();
    let target = ConvertTarget::parse("mlx-4bit").unwrap();
    let plan = checkpoint.plan_convert(target, &options(None, false)).unwrap();
    assert_eq!((plan.stats().repacked, plan.stats().nearly_repacked, plan.stats().quantized), (0, 1, 1));
    assert_eq!(checkpoint.plan_convert(target, &options(None, true)).unwrap().stats().repacked, 1);
}

#[test]
fn a_group_with_other_values_is_decoded_even_with_same_codes() {
    let folder = Folder::new();
    let plan = |directory: &Path, target: &str| {
        let checkpoint = Checkpoint::open(directory, &ParseLimits::default()).unwrap();
        let plan = checkpoint.plan_convert(ConvertTarget::parse(target).unwrap(), &options(Some("64"), true)).unwrap();
        (plan.stats().repacked, plan.stats().quantized)
    };
    // Seven times 1 + 3/1024 has more bits than F16, so that there is no such bias.
    let seven = gptq(&folder, "seven", |index| if index == 37 { 0x3C03 } else { short(index) }, 6);
    assert_eq!(plan(&seven, "mlx-4bit"), (0, 1));
    // Stored zero points may have any value; implicit ones may not.
    assert_eq!(plan(&seven, "gptq-4bit-asym"), (1, 0));
    assert_eq!(plan(&seven, "w4a16-asym"), (1, 0));
    assert_eq!(plan(&seven, "gptq-4bit"), (0, 1));
    assert_eq!(plan(&seven, "w4a16"), (0, 1));
    // A negative scale gives negative zeros only in products.
    let negative = gptq(&folder, "negative", |index| if index == 63 { 0xBC00 } else { short(index) }, 7);
    assert_eq!(plan(&negative, "mlx-4bit"), (0, 1));
    assert_eq!(plan(&negative, "w4a16"), (1, 0));
    // A bias that is not a multiple of its scale.
    let mlx = folder.path("mlx");
    convert(&gptq(&folder, "eight", short, 7), "mlx-4bit", &options(None, true), &mlx, true).unwrap();
    assert_eq!(plan(&mlx, "gptq-4bit"), (1, 0));
    let file = mlx.join("model.safetensors");
    let mut tensors = contents(&mlx).tensors;
    let biases = tensors.iter_mut().find(|(name, _)| name.ends_with(".biases")).unwrap().1;
    biases.data[21] ^= 1;
    let model = tensors
        .iter()
        .fold(Model::new(), |model, (name, tensor)| model.tensor(name, &tensor.dtype, &tensor.shape, &tensor.data));
    std::fs::write(file, model.bytes()).unwrap();
    assert_eq!(plan(&mlx, "gptq-4bit"), (0, 1));
}
