//! Directories of several models, as diffusers writes them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::checkpoint::{CLEAN_CONFIG, CONFIG, Tensor, safetensors, shards};
use crate::folder::Folder;

/// The name of the directory.
pub const NAME: &str = "Image-1-FP8";
const SCHEDULER: &str = r#"{"_class_name": "FlowMatchEulerDiscreteScheduler"}"#;
const VAE_CONFIG: &str = r#"{"_class_name": "AutoencoderKL"}"#;

fn index() -> Value {
    json!({
        "_class_name": "ImagePipeline",
        "_diffusers_version": "0.36.0",
        "force_zeros": true,
        "safety_checker": [null, null],
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "transformer": ["diffusers", "ImageTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    })
}

/// A folder with the directory in it.
fn folder() -> Folder {
    let folder = Folder::empty();
    write(&folder.path(NAME));
    folder
}

/// Writes a quantised transformer, a plain VAE, a scheduler and a tokenizer.
pub fn write(root: &Path) {
    let write = |name: &str, bytes: &[u8]| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    write("model_index.json", index().to_string().as_bytes());
    write("README.md", b"# Image");
    write("image-1.safetensors", &safetensors(&[Tensor::bf16("all_in_one", 4)]));
    write("transformer/diffusion_pytorch_model.safetensors", &safetensors(&shards().concat()));
    write("transformer/config.json", CONFIG.as_bytes());
    let vae = [Tensor::bf16("decoder.norm.weight", 8), Tensor::f32("decoder.attn.to_q.weight", [32, 16], 0.5)];
    write("vae/diffusion_pytorch_model.safetensors", &safetensors(&vae));
    write("vae/config.json", VAE_CONFIG.as_bytes());
    write("scheduler/scheduler_config.json", SCHEDULER.as_bytes());
    write("tokenizer/vocab.json", b"{}");
}

/// Every file below a directory with its bytes.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name().into_string().unwrap())).unwrap();
        match path.is_dir() {
            true => found.extend(files(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes))),
            false => drop(found.insert(name, fs::read(path).unwrap())),
        }
    }
    found
}

#[test]
fn every_component_is_decoded_and_everything_else_copied() {
    let folder = folder();
    let text = folder.amn(&format!("remember {NAME}")).ok();
    for line in ["transformer (ImageTransformer2DModel)", "vae (AutoencoderKL)", "Image-1-bf16", "4 files copied"] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    assert!(text.contains("left out image-1.safetensors"), "{text}");
    let (input, output) = (files(&folder.path(NAME)), files(&folder.path("Image-1-bf16")));
    let wanted = [
        "README.md",
        "model_index.json",
        "scheduler/scheduler_config.json",
        "tokenizer/vocab.json",
        "transformer/config.json",
        "transformer/diffusion_pytorch_model.safetensors",
        "vae/config.json",
        "vae/diffusion_pytorch_model.safetensors",
    ];
    assert_eq!(output.keys().collect::<Vec<_>>(), wanted);
    for name in ["README.md", "model_index.json", "scheduler/scheduler_config.json", "vae/config.json"] {
        assert_eq!(output[name], input[name], "{name}");
    }
    assert_eq!(output["transformer/config.json"], CLEAN_CONFIG.as_bytes());
    assert!(folder.amn("verify Image-1-bf16/transformer").ok().ends_with("sound\n"));
    // The same command finds its work done; other files are not replaced.
    folder.amn(&format!("remember {NAME}")).ok();
    assert_eq!(files(&folder.path("Image-1-bf16")), output);
    fs::write(folder.path("Image-1-bf16/README.md"), "mine").unwrap();
    let text = folder.amn(&format!("remember {NAME}")).refused();
    assert!(text.contains("README.md") && text.contains("--force"), "{text}");
    folder.amn(&format!("remember {NAME} --force")).ok();
    assert_eq!(files(&folder.path("Image-1-bf16")), output);
}

#[test]
fn a_component_that_is_refused_leaves_nothing() {
    let folder = folder();
    let stray = [Tensor::fp8("decoder.conv.weight", [4, 4], 1), Tensor::f32("other.weight_scale_inv", [1, 1], 1.0)];
    fs::write(folder.path(NAME).join("vae/diffusion_pytorch_model.safetensors"), safetensors(&stray)).unwrap();
    let text = folder.amn(&format!("remember {NAME}")).refused();
    assert!(text.contains("other.weight_scale_inv"), "{text}");
    assert_eq!(folder.names(), [NAME]);
}

#[test]
fn forget_quantises_the_components_that_have_weights_for_it() {
    let folder = folder();
    folder.amn(&format!("remember {NAME} -o plain --to f32")).ok();
    let run = folder.amn("forget plain --to comfy-int8 -o small --json");
    let document = run.json();
    let components = document["components"].as_array().unwrap();
    let names: Vec<_> = components.iter().map(|component| component["component"].as_str().unwrap()).collect();
    assert_eq!(names, ["transformer", "vae"]);
    assert_eq!(
        (&document["pipeline"], &components[0]["class"]),
        (&json!("ImagePipeline"), &json!("ImageTransformer2DModel"))
    );
    let inspected = folder.amn("inspect small --json").json();
    let scheme = |index: usize| inspected["components"][index]["scheme"].as_str().unwrap_or_default().to_owned();
    assert_eq!((scheme(0), scheme(1)), (String::new(), String::new()), "a scheduler and a tokenizer have no weights");
    assert!(scheme(2).contains("INT8"), "{}", scheme(2));
    // Nothing but norms: an output without a quantised weight is refused as a whole.
    let only = [Tensor::bf16("norm.weight", 8)];
    for component in ["transformer", "vae"] {
        fs::write(folder.path("plain").join(component).join("diffusion_pytorch_model.safetensors"), safetensors(&only))
            .unwrap();
    }
    let text = folder.amn("forget plain --to comfy-int8 -o none").refused();
    assert!(text.contains("no weight of any component"), "{text}");
    assert!(!folder.path("none").exists());
}

#[test]
fn inspect_shows_every_component() {
    let folder = folder();
    let text = folder.amn(&format!("inspect {NAME}")).ok();
    let wanted = ["Pipeline:    ImagePipeline", "transformer", "FP8", "vae", "no weights", "scheduler", "tokenizer"];
    for word in wanted {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
    let document = folder.amn(&format!("inspect {NAME} --json")).json();
    assert_eq!(document["components"].as_array().unwrap().len(), 4);
    assert_eq!(document["parameters"]["total"], 6 * 130 * 7 + 16 + 8 + 32 * 16);
    // A component is a model like any other.
    assert!(folder.amn(&format!("inspect {NAME}/transformer")).ok().contains("FP8"));
}

#[test]
fn an_output_that_holds_one_model_is_refused() {
    let folder = folder();
    for line in
        ["remember {} -o one.safetensors", "forget {} --to q8_0", "convert {} --to gguf", "inspect {} --metadata"]
    {
        let run = folder.amn(&line.replace("{}", NAME));
        let text = run.refused();
        assert!(text.contains("several models"), "{line}: {text}");
    }
    assert_eq!(folder.names(), [NAME]);
    let text = folder.amn(&format!("remember {NAME} -o {NAME} --force")).refused();
    assert!(text.contains("the output is the input itself"), "{text}");
}

#[test]
fn a_dry_run_writes_nothing() {
    let folder = folder();
    let text = folder.amn(&format!("remember {NAME} --dry-run")).ok();
    assert!(text.replace('\\', "/").contains("Would write Image-1-bf16/transformer ("), "{text}");
    assert_eq!(folder.names(), [NAME]);
}

#[test]
fn names_that_leave_the_directory_are_refused() {
    for name in ["../outside", "a/b", ".."] {
        let folder = folder();
        let mut index = index();
        index[name] = json!(["diffusers", "AutoencoderKL"]);
        fs::write(folder.path(NAME).join("model_index.json"), index.to_string()).unwrap();
        let text = folder.amn(&format!("inspect {NAME}")).refused();
        assert!(text.contains("model_index.json"), "{name}: {text}");
    }
    let folder = folder();
    fs::remove_dir_all(folder.path(NAME).join("scheduler")).unwrap();
    let text = folder.amn(&format!("remember {NAME}")).refused();
    assert!(text.contains("scheduler"), "{text}");
    fs::write(folder.path(NAME).join("model_index.json"), "[]").unwrap();
    assert!(folder.amn(&format!("inspect {NAME}")).refused().contains("model_index.json"));
}
