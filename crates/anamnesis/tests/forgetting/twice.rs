//! Quantising is idempotent: decode(encode(decode(x))) = decode(x).

use std::path::Path;

use crate::support::{Folder, Model, Noise};
use anamnesis::{Checkpoint, ConvertOptions, ConvertTarget, DirectoryOptions, ParseLimits};
use serde_json::json;

const NAME: &str = "model.layers.0.mlp.down_proj.weight";
const SHAPE: [usize; 2] = [128, 256];

/// The targets that are not idempotent in their library, and why.
const REASONS: [(&str, &str); 5] = [
    (
        "w8a8 w8a16 w4a16 w3a16 w2a16 gptq-2bit gptq-3bit gptq-4bit gptq-8bit gptq-2bit-v2 gptq-3bit-v2 gptq-4bit-v2 \
         gptq-8bit-v2 eetq",
        "scales are the largest magnitude over half of all codes, which a positive one does not reach: 127.5 or 128 and not 127",
    ),
    (
        "w8a16-asym w4a16-asym nvfp4 comfy-nvfp4 comfy-fp8-row hqq-1bit hqq-2bit hqq-4bit hqq-8bit",
        "scales are quotients in F32, and what is multiplied by them has another quotient in its last bit",
    ),
    (
        "mlx-3bit mlx-4bit mlx-5bit mlx-6bit mlx-8bit",
        "a scale is moved so that zero has a code, and moved again from where it is",
    ),
    ("awq-4bit", "everything is rounded to F16, scales too"),
    (
        "q5_k_m q5_k_s q3_k_m q3_k_s q3_k_l q2_k iq4_xs iq4_nl iq3_m iq3_s iq3_xs",
        "ggml searches scales by an error that is weighed by the values it finds",
    ),
];

/// Encodes values as a directory or a file, and decodes them.
fn coded(target: ConvertTarget, name: &str, shape: &[usize], values: &[f32]) -> Option<Vec<f32>> {
    let model = Model::new().floats(name, shape, values);
    // Without a model type: libraries that decode only to BF16 need not load F32.
    let config = if target.extension() == "gguf" { json!({ "model_type": "llama" }) } else { json!({}) };
    let input = Folder::staged(&model.bytes(), Some(&config));
    let folder = Folder::new();
    let options = ConvertOptions::new();
    let open = |path: &Path| Checkpoint::open(path, &ParseLimits::default()).unwrap();
    let made = if target.extension() == "gguf" {
        let made = folder.path("made.gguf");
        // Some need an importance matrix.
        let plan = open(&input.model()).plan_convert(target, &options).ok()?;
        plan.write(&made, |_| {}).unwrap();
        made
    } else {
        let made = folder.path("made");
        let checkpoint = open(input.model().parent().unwrap());
        let plan = checkpoint.plan_convert_directory(target, &options, &DirectoryOptions::new()).unwrap();
        assert_eq!(plan.stats().quantized, 1, "{target}");
        plan.write(&made, &options.run, |_| {}).unwrap();
        made
    };
    Some(open(&made).decode::<f32>(name).unwrap_or_else(|error| panic!("{target}: {error}")))
}

#[test]
fn encoding_decoded_values_is_idempotent() {
    let mut noise = Noise(21);
    println!("seed 21");
    let mut faults = Vec::new();
    for target in ConvertTarget::all().filter(|target| target.is_quantized()) {
        let (name, shape) = match target.name() {
            "gpt-oss" => ("model.layers.0.mlp.experts.down_proj", vec![2, 64, 256]),
            _ => (NAME, SHAPE.to_vec()),
        };
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| noise.scale() * noise.scale() / 500.0).collect();
        let Some(once) = coded(target, name, &shape, &values) else { continue };
        let again = coded(target, name, &shape, &once).unwrap();
        let differing = once.iter().zip(&again).filter(|(a, b)| a.to_bits() << 1 != b.to_bits() << 1).count();
        let why = REASONS.iter().find(|(names, _)| names.split(' ').any(|name| name == target.name()));
        match (differing, why) {
            (0, None) => {}
            (0, Some((_, why))) => faults.push(format!("{target} is the same again, although {why}")),
            (_, Some(_)) => {}
            (_, None) => faults.push(format!("{target}: {differing} of {} differ", once.len())),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
