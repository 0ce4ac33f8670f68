//! Every fixture that can be decoded, of all schemes and containers.

use std::path::{Path, PathBuf};

use crate::support::{Folder, SIDECAR, fixture};
use anamnesis::{Checkpoint, Format, ParseLimits, TargetDtype};

/// A fixture that is opened as often as it is needed.
pub struct Input {
    pub name: String,
    path: PathBuf,
    /// Holds the model with its configuration, if it has one.
    _staged: Option<Folder>,
}

impl Input {
    fn new(path: &Path) -> Self {
        let name = path.to_string_lossy().replace('\\', "/");
        let staged = name.strip_suffix(".safetensors").map(|stem| {
            let config = std::fs::read(format!("{stem}.config.json")).ok();
            let config = config.map(|text| serde_json::from_slice(&text).unwrap());
            let folder = Folder::staged(&std::fs::read(path).unwrap(), config.as_ref());
            if let Ok(sidecar) = std::fs::read(format!("{stem}.sidecar.json")) {
                folder.write(SIDECAR, sidecar);
            }
            folder
        });
        Self { name, path: staged.as_ref().map_or_else(|| path.to_path_buf(), Folder::model), _staged: staged }
    }

    fn try_open(&self) -> Option<Checkpoint> {
        // Some fixtures must be refused.
        let checkpoint = Checkpoint::open(&self.path, &ParseLimits::default()).ok()?;
        checkpoint.plan(TargetDtype::F32).is_ok().then_some(checkpoint)
    }

    pub fn open(&self) -> Checkpoint {
        self.try_open().unwrap()
    }
}

/// All of them, in the order of their names.
pub fn all() -> Vec<Input> {
    let mut paths = Vec::new();
    for family in std::fs::read_dir(fixture("")).unwrap() {
        for entry in std::fs::read_dir(family.unwrap().path()).into_iter().flatten() {
            let path = entry.unwrap().path();
            let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            let is_model =
                path.is_dir() || Format::all().any(|format| format.extensions().contains(&extension.as_str()));
            if is_model && !path.to_string_lossy().contains(".expected.") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let inputs = paths.iter().map(|path| Input::new(path));
    inputs.filter(|input| input.try_open().is_some()).collect()
}

/// The folder with the fixtures of a scheme.
fn folder_of(scheme: &str) -> &str {
    match scheme {
        "ONNX Runtime" => "onnx_quantised",
        "linear" => "tflite",
        "GGML blocks" => "gguf",
        "ComfyUI" => "comfy",
        "Gemma quantisation" => "gemma",
        "Four Over Six" => "fouroversix",
        "BitsAndBytes" => "bnb",
        "compressed-tensors" => "compressed_tensors",
        other => other,
    }
}

#[test]
fn the_fixtures_are_of_every_scheme() {
    let inputs = all();
    for scheme in anamnesis::formats::decoded_schemes() {
        let folder = format!("/{}/", folder_of(scheme.name).to_lowercase());
        let quantised = |input: &Input| input.open().inspect(&Default::default()).quantized > 0;
        assert!(inputs.iter().filter(|input| input.name.contains(&folder)).any(quantised), "{}", scheme.name);
    }
}

#[test]
fn eight_threads_at_once_decode_every_fixture_alike() {
    let decode = |checkpoint: &Checkpoint| {
        checkpoint.decoded(TargetDtype::BF16).map(|tensor| tensor.unwrap().data).collect::<Vec<_>>()
    };
    for input in all() {
        let wanted = decode(&input.open());
        // The claims of a checkpoint are made by whichever thread asks first.
        let shared = input.open();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| decode(&shared))).collect();
            for thread in threads {
                assert!(thread.join().unwrap() == wanted, "{}", input.name);
            }
        });
    }
}
