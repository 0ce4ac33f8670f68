//! Layers that loaders fuse: NVFP4 weights that share a global scale, as in llm-compressor and ModelOpt.

use std::collections::BTreeMap;

use crate::support::{Contents, Folder, Model, fixture, floats};
use anamnesis::convert::convert_bytes;
use anamnesis::{AnamnesisError, Checkpoint, ConvertOptions, ConvertTarget, DirectoryOptions, ParseLimits};
use serde_json::json;

/// The global scales of an output.
fn global_scales(bytes: &[u8]) -> BTreeMap<String, f32> {
    let tensors = Contents::of(bytes).tensors.into_iter();
    let is_global = |name: &str| name.ends_with("global_scale") || name.ends_with("scale_2");
    tensors.filter(|(name, _)| is_global(name)).map(|(name, tensor)| (name, floats(&tensor.data)[0])).collect()
}

#[test]
fn whole_models_are_those_of_their_library() {
    let mut cases = 0;
    for entry in std::fs::read_dir(fixture("joined")).unwrap() {
        let path = entry.unwrap().path();
        let Contents { tensors, metadata } = Contents::read(&path);
        let (mut model, mut wanted) = (Model::new(), BTreeMap::new());
        for (name, tensor) in tensors {
            match name.strip_prefix("source:") {
                Some(name) => model = model.tensor(name, &tensor.dtype, &tensor.shape, &tensor.data),
                None => drop(wanted.insert(name, tensor)),
            }
        }
        let target = ConvertTarget::parse(&metadata.unwrap()["target"]).unwrap();
        for threads in [1, 4] {
            let options = ConvertOptions::new().with_threads(threads);
            let (bytes, _) = convert_bytes(&model.bytes(), target, &options).unwrap();
            let found = Contents::of(&bytes).tensors;
            assert!(found.keys().eq(wanted.keys()), "{}: {:?}", path.display(), found.keys());
            for (name, want) in &wanted {
                let found = &found[name];
                assert_eq!((&found.dtype, &found.shape), (&want.dtype, &want.shape), "{}: {name}", path.display());
                assert!(found.data == want.data, "{}: {name}", path.display());
            }
        }
        cases += 1;
    }
    assert!(cases >= 6, "only {cases}");
}

const ATTENTION: [(&str, f32); 3] = [("q_proj", 1.0), ("k_proj", 3.0), ("v_proj", 0.25)];

fn weights(model: Model, layers: &[(&str, f32)]) -> Model {
    layers.iter().fold(model, |model, (layer, size)| {
        let values: Vec<f32> = (0..32 * 64).map(|place| size * ((place * 37 % 101) as f32 - 50.0) / 64.0).collect();
        model.floats(&format!("model.layers.0.self_attn.{layer}.weight"), &[32, 64], &values)
    })
}

#[test]
fn layers_in_different_files_share_their_scale_too() {
    let input = Folder::new();
    let parts =
        [("model-00001-of-00002.safetensors", &ATTENTION[..1]), ("model-00002-of-00002.safetensors", &ATTENTION[1..])];
    let mut map = BTreeMap::new();
    for (file, layers) in parts {
        input.write(file, weights(Model::new().metadata("format", "pt"), layers).bytes());
        map.extend(layers.iter().map(|(layer, _)| (format!("model.layers.0.self_attn.{layer}.weight"), file)));
    }
    let index = json!({ "metadata": { "total_size": 3 * 32 * 64 * 4 }, "weight_map": map });
    input.write("model.safetensors.index.json", index.to_string().as_bytes());
    input.write("config.json", json!({ "torch_dtype": "float32" }).to_string().as_bytes());
    let whole = weights(Model::new(), &ATTENTION).bytes();
    for name in ["nvfp4", "modelopt-nvfp4"] {
        let target = ConvertTarget::parse(name).unwrap();
        let options = ConvertOptions::new().with_threads(3);
        let wanted = global_scales(&convert_bytes(&whole, target, &options).unwrap().0);
        let first = wanted.values().next().unwrap();
        assert!(wanted.len() == 3 && wanted.values().all(|scale| scale == first), "{name}: {wanted:?}");
        let checkpoint = Checkpoint::open(input.path("."), &ParseLimits::default()).unwrap();
        let output = Folder::new();
        let plan = checkpoint.plan_convert_directory(target, &options, &DirectoryOptions::new()).unwrap();
        plan.write(output.path("out"), &options.run, |_| {}).unwrap();
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(output.path("out")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "safetensors") {
                found.extend(global_scales(&std::fs::read(path).unwrap()));
            }
        }
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn a_nonfinite_value_is_reported_with_its_own_tensor() {
    let mut values = vec![0.5; 32 * 64];
    values[77] = f32::NAN;
    let model =
        weights(Model::new(), &ATTENTION[..1]).floats("model.layers.0.self_attn.v_proj.weight", &[32, 64], &values);
    let target = ConvertTarget::parse("nvfp4").unwrap();
    match convert_bytes(&model.bytes(), target, &ConvertOptions::new().with_threads(1)) {
        Err(AnamnesisError::NotFinite { tensor, index: 77, .. })
            if tensor == "model.layers.0.self_attn.v_proj.weight" => {}
        other => panic!("{:?}", other.map(drop)),
    }
}

#[test]
fn codes_are_repacked_only_if_all_fused_layers_share_a_scale() {
    let target = |name| ConvertTarget::parse(name).unwrap();
    let options = ConvertOptions::new();
    let shared =
        convert_bytes(&weights(Model::new(), &ATTENTION).bytes(), target("modelopt-nvfp4"), &options).unwrap().0;
    // Each has its own scale.
    let mut apart = Model::new();
    for layer in &ATTENTION {
        let one = weights(Model::new(), std::slice::from_ref(layer)).bytes();
        let (bytes, _) = convert_bytes(&one, target("modelopt-nvfp4"), &options).unwrap();
        for (name, tensor) in Contents::of(&bytes).tensors {
            apart = apart.tensor(&name, &tensor.dtype, &tensor.shape, &tensor.data);
        }
    }
    let config = json!({ "model_type": "llama", "quantization_config":
        { "quant_method": "modelopt", "quant_algo": "W4A16_NVFP4", "group_size": 16, "ignore": [] } });
    for (bytes, stay) in [(shared, 3), (apart.bytes(), 0)] {
        let input = Folder::staged(&bytes, Some(&config));
        let checkpoint = Checkpoint::open(input.path("."), &ParseLimits::default()).unwrap();
        let plan = checkpoint.plan_convert(target("nvfp4"), &options).unwrap();
        assert_eq!(plan.stats().repacked, stay);
        let scales = global_scales(&plan.to_bytes(|_| {}).unwrap().0);
        let first = scales.values().next().unwrap();
        assert!(scales.len() == 3 && scales.values().all(|scale| scale == first), "{scales:?}");
    }
}
