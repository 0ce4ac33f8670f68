//! Statistics and differences: equal to NumPy's, whatever the threads, the CPU level and the tiles.

use crate::support::{Model, Noise, fixture, le_bytes};
use anamnesis::{
    Checkpoint, CpuLevel, DiffOptions, DiffOutcome, ModelDiff, ModelStats, ParseLimits, RememberOptions, TargetDtype,
    TensorStats,
};
use serde_json::{Value, json};

fn open(name: &str) -> Checkpoint {
    Checkpoint::open(fixture(name), &ParseLimits::default()).unwrap()
}

fn from_bytes(bytes: Vec<u8>) -> Checkpoint {
    Checkpoint::from_bytes(bytes, &ParseLimits::default()).unwrap()
}

fn numpy(part: &str) -> Value {
    let text = std::fs::read_to_string(fixture("measure/numpy.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()[part].take()
}

fn stats(checkpoint: &Checkpoint) -> ModelStats {
    checkpoint.stats(&RememberOptions::new(), |_| {}).unwrap()
}

fn diff(first: &Checkpoint, second: &Checkpoint) -> ModelDiff {
    first.diff(second, &DiffOptions::new(), |_| {}).unwrap()
}

/// A float by its bits.
fn exact(value: f64) -> Value {
    json!(value.to_bits())
}

/// NumPy's results with their floats as bits.
fn with_bits(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), with_bits(value))).collect(),
        Value::String(text) => exact(text.parse().unwrap()),
        other => other.clone(),
    }
}

/// The fields that NumPy has.
fn as_json(tensor: &TensorStats) -> Value {
    let mut found = json!({
        "values": tensor.values,
        "zeros": tensor.zeros,
        "nan": tensor.nan,
        "infinite": tensor.infinite,
        "outliers": tensor.outliers,
        "histogram": {"counts": tensor.histogram.counts()},
    });
    if let Some(finite) = tensor.finite {
        found["min"] = exact(finite.min);
        found["max"] = exact(finite.max);
        found["mean"] = exact(finite.mean);
        found["deviation"] = exact(finite.deviation);
        found["histogram"]["start"] = exact(tensor.histogram.start());
        found["histogram"]["width"] = exact(tensor.histogram.width());
    }
    found
}

#[test]
fn statistics_are_those_of_numpy() {
    let found = stats(&open("measure/first.safetensors"));
    let wanted = numpy("stats");
    assert_eq!(found.tensors.len(), wanted.as_object().unwrap().len());
    for tensor in &found.tensors {
        assert_eq!(as_json(tensor), with_bits(&wanted[&tensor.name]), "{}", tensor.name);
    }
    assert!(found.tensors.iter().any(|tensor| tensor.outliers > 0));
}

#[test]
fn differences_are_those_of_numpy() {
    let found = diff(&open("measure/first.safetensors"), &open("measure/second.safetensors"));
    let wanted = numpy("diff");
    assert_eq!(found.tensors.len(), wanted.as_object().unwrap().len());
    for tensor in &found.tensors {
        let values = tensor.values().unwrap();
        // The logarithms of two systems may differ in the last bit.
        let sqnr: f64 = wanted[&tensor.name]["sqnr"].as_str().unwrap().parse().unwrap();
        let is_near = sqnr == values.sqnr || (sqnr - values.sqnr).abs() < 1e-12 * sqnr.abs();
        let sqnr = if is_near { sqnr } else { values.sqnr };
        let found = json!({
            "values": values.values,
            "different": values.different,
            "incomparable": values.incomparable,
            "max_absolute": exact(values.max_absolute),
            "mean_absolute": exact(values.mean_absolute),
            "sqnr": exact(sqnr),
            "cosine": exact(values.cosine),
        });
        assert_eq!(found, with_bits(&wanted[&tensor.name]), "{}", tensor.name);
    }
}

#[test]
fn results_depend_on_neither_threads_nor_cpu_level() {
    let (first, second) = (open("measure/first.safetensors"), open("measure/second.safetensors"));
    let (wanted, wanted_diff) = (stats(&first), diff(&first, &second));
    for threads in [1, 3, 8] {
        for level in CpuLevel::available() {
            let run = RememberOptions::new().with_threads(threads).with_cpu_level(level);
            assert_eq!(first.stats(&run, |_| {}).unwrap(), wanted, "{threads} threads at {level:?}");
            let options = DiffOptions::new().with_run(run);
            assert_eq!(first.diff(&second, &options, |_| {}).unwrap(), wanted_diff, "{threads} threads at {level:?}");
        }
    }
}

#[test]
fn quantised_weights_are_measured_as_decoded() {
    for name in ["bnb/fp4_nested_b64_bfloat16.safetensors", "gguf/iq1_m.gguf"] {
        let checkpoint = open(name);
        let plan = checkpoint.plan(TargetDtype::F32).unwrap();
        let decoded = from_bytes(plan.to_bytes(&RememberOptions::new()).unwrap());
        assert_eq!(stats(&checkpoint).tensors, stats(&decoded).tensors, "{name}");
        assert!(diff(&checkpoint, &decoded).is_equal(), "{name}");
    }
}

#[test]
fn a_weight_equals_its_decoded_form_in_the_type_of_that() {
    let checkpoint = open("bnb/fp4_nested_b64_bfloat16.safetensors");
    let decoded = checkpoint.plan(TargetDtype::BF16).unwrap().to_bytes(&RememberOptions::new()).unwrap();
    let decoded = from_bytes(decoded);
    assert!(!diff(&checkpoint, &decoded).is_equal());
    let options = DiffOptions::new().with_dtype(TargetDtype::BF16);
    assert!(checkpoint.diff(&decoded, &options, |_| {}).unwrap().is_equal());
}

#[test]
fn scales_that_are_not_finite_are_named_with_their_weight() {
    let scale = [f32::NAN, f32::INFINITY].map(f32::to_le_bytes).concat();
    let checkpoint = from_bytes(
        Model::new()
            .tensor("a.weight", "F8_E4M3", &[2, 3], &[0x38, 0x40, 0xb8, 0x38, 0x30, 0x00])
            .tensor("a.weight_scale", "F32", &[2, 1], &scale)
            .floats("good", &[1], &[1.0])
            .bytes(),
    );
    let found = stats(&checkpoint);
    let [bad] = &found.bad_scales[..] else { panic!("{:?}", found.bad_scales) };
    assert_eq!((bad.name.as_str(), bad.weight.as_deref()), ("a.weight_scale", Some("a.weight")));
    assert_eq!((bad.nan, bad.infinite), (1, 1));
    // Zero times infinity is NaN.
    assert_eq!((found.tensors[0].nan, found.tensors[0].infinite), (4, 2));
}

#[test]
fn names_shapes_and_types_that_differ_are_listed_first() {
    let first = Model::new()
        .floats("both", &[2], &[1.0, 2.0])
        .floats("first", &[1], &[1.0])
        .floats("shape", &[2, 3], &[0.0; 6])
        .tensor("ids", "I64", &[2], &[1u64, 2].map(u64::to_le_bytes).concat())
        .tensor("kind", "I32", &[2], &[0; 8])
        .bytes();
    let second = Model::new()
        .floats("both", &[2], &[1.0, 2.5])
        .floats("second", &[1], &[1.0])
        .floats("shape", &[3, 2], &[0.0; 6])
        .tensor("ids", "I64", &[2], &[1u64, 3].map(u64::to_le_bytes).concat())
        .floats("kind", &[2], &[0.0; 2])
        .bytes();
    let found = diff(&from_bytes(first), &from_bytes(second));
    assert_eq!((&found.only_in_first[..], &found.only_in_second[..]), (&["first".into()][..], &["second".into()][..]));
    let names: Vec<_> = found.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["shape", "kind", "ids", "both"]);
    assert_eq!(found.tensors[0].outcome, DiffOutcome::Shapes([vec![2, 3], vec![3, 2]]));
    assert_eq!(found.tensors[1].outcome, DiffOutcome::Types);
    assert_eq!(found.tensors[2].values().unwrap().different, 1);
    assert_eq!(found.tensors[3].values().unwrap().max_absolute, 0.5);
    assert!(!found.is_equal() && !found.is_within(1.0));
    assert!(found.tensors[3].is_within(0.5) && !found.tensors[3].is_within(0.4));
}

#[test]
fn wide_floats_are_compared_as_stored() {
    let of = |value: f64| from_bytes(Model::new().tensor("x", "F64", &[1], &value.to_le_bytes()).bytes());
    assert!(diff(&of(1.0), &of(1.0)).is_equal());
    let found = diff(&of(1.0), &of(1.0 + f64::EPSILON));
    assert_eq!(found.tensors[0].values().unwrap().different, 1);
    assert!(!found.is_equal() && found.is_within(1e-12));
    // F32 would hold neither of these.
    let found = diff(&of(1e300), &of(2e300));
    assert_eq!(found.tensors[0].values().unwrap().max_absolute, 1e300);
    let found = stats(&of(1e300));
    assert_eq!((found.tensors[0].infinite, found.tensors[0].finite.unwrap().max), (0, 1e300));
}

#[test]
fn tensors_that_are_not_floats_are_listed_and_not_measured() {
    let model = Model::new().tensor("ids", "I64", &[1], &[0; 8]).tensor("x", "F32", &[0], &le_bytes(&[]));
    let found = stats(&from_bytes(model.bytes()));
    assert_eq!(found.not_floats, ["ids"]);
    assert_eq!((found.tensors[0].values, found.tensors[0].finite), (0, None));
    assert!(found.tensors[0].histogram.counts().is_empty());
}

#[test]
fn a_model_is_compared_with_its_gguf_file_through_the_names_of_both() {
    let directory = fixture("architectures");
    let mut compared = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        let converted = path.with_extension("expected.gguf");
        if !path.is_dir() || !converted.is_file() {
            continue;
        }
        let open = |path| Checkpoint::open(path, &ParseLimits::default()).unwrap();
        let (model, converted) = (open(&path), open(&converted));
        for found in [diff(&model, &converted), diff(&converted, &model)] {
            let shown = path.display();
            assert_eq!(found.unmapped, None, "{shown}");
            let gguf_only = if model.names().contains(&found.tensors[0].name.as_str()) {
                &found.only_in_second
            } else {
                &found.only_in_first
            };
            // Scales of activations are tensors of their own in GGUF, and parts of a weight elsewhere.
            let is_weight = |name: &&String| !name.ends_with(".input_scale");
            assert_eq!(gguf_only.iter().find(is_weight), None, "{shown}");
            for tensor in &found.tensors {
                let values = tensor.values();
                assert!(values.is_some_and(|values| values.sqnr > 40.0), "{shown}: {tensor:?}");
            }
        }
        compared += 1;
    }
    assert!(compared > 10, "{compared} models");
}

#[test]
fn outliers_are_counted_wherever_they_are() {
    let mut noise = Noise(11);
    // Heavy tails; blocks of equal, of growing and of very different deviation; more outliers than are kept.
    let deviations: [fn(usize) -> f32; 4] = [
        |_| 1.0,
        |index| 1.0 + index as f32 / 1e5,
        |index| [1e-3, 1.0, 50.0][index / 4096 % 3],
        |index| {
            if index.is_multiple_of(50) { 40.0 } else { 1.0 }
        },
    ];
    for (case, deviation) in deviations.into_iter().enumerate() {
        let values: Vec<f32> =
            (0..1_000_003).map(|index| (noise.scale() / 9.75).tan() * deviation(index) - 0.3).collect();
        let found = stats(&from_bytes(Model::new().floats("x", &[values.len()], &values).bytes()));
        let finite = found.tensors[0].finite.unwrap();
        assert!(found.tensors[0].outliers > 0, "case {case}");
        let is_outlier = |value: &&f32| (f64::from(**value) - finite.mean).abs() > 6.0 * finite.deviation;
        assert_eq!(found.tensors[0].outliers, values.iter().filter(is_outlier).count() as u64, "case {case}");
    }
}

#[test]
fn the_cosine_of_a_zero_vector_is_defined() {
    let model = |values: [f32; 2]| from_bytes(Model::new().floats("x", &[2], &values).bytes());
    let cosine = |a, b| diff(&model(a), &model(b)).tensors[0].values().unwrap().cosine;
    assert_eq!(cosine([0.0, 0.0], [0.0, 0.0]), 1.0);
    assert_eq!(cosine([1e-45, 0.0], [0.0, 0.0]), 0.0);
    assert_eq!(cosine([0.0, 1e-45], [0.0, 1e-45]), 1.0);
}
