//! Towers that llama.cpp's converter has one size for: a file of zeros with the header of such a model becomes a file with the
//! header that the converter writes.

use std::io::{self, Write};
use std::sync::Arc;

use anamnesis::{
    Checkpoint, ConvertOptions, ConvertTarget, Dtype, Mount, ParseLimits, PositionedRead, Store, StoreEntry,
};
use serde_json::{Value, json};

use crate::support::{assert_mentions, fixture};

/// A header, and zeros up to a size.
struct Zeros {
    header: Vec<u8>,
    size: u64,
}

impl PositionedRead for Zeros {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        buffer.fill(0);
        let start = usize::try_from(offset).unwrap().min(self.header.len());
        let held = &self.header[start..];
        let count = held.len().min(buffer.len());
        buffer[..count].copy_from_slice(&held[..count]);
        Ok(())
    }
}

/// A directory of a model of zeros and its configuration.
struct Folder {
    config: Vec<u8>,
    model: Arc<Zeros>,
}

impl Folder {
    fn of(case: &str, change: impl FnOnce(&mut Value)) -> Self {
        let read = |name: &str| std::fs::read(fixture("large_projectors").join(case).join(name)).unwrap();
        let mut config: Value = serde_json::from_slice(&read("config.json")).unwrap();
        change(&mut config);
        let header = read("input.head");
        let tensors: Value = serde_json::from_slice(&header[8..]).unwrap();
        let ends = tensors.as_object().unwrap().values().filter_map(|tensor| tensor["data_offsets"][1].as_u64());
        let size = header.len() as u64 + ends.max().unwrap();
        Self { config: config.to_string().into_bytes(), model: Arc::new(Zeros { header, size }) }
    }

    fn plan(self, case: &str) -> anamnesis::Result<(Mount, anamnesis::ConvertPlan)> {
        let mount = Mount::new(format!("memory:{}/{case}", std::process::id()), Arc::new(self))?;
        let options = ConvertOptions::new().with_output_dtype(Dtype::F16).with_projector(true);
        let checkpoint = Checkpoint::open(mount.root(), &ParseLimits::default())?;
        Ok((mount, checkpoint.plan_convert(ConvertTarget::Gguf, &options)?))
    }
}

impl Store for Folder {
    fn entry(&self, name: &str) -> io::Result<Option<StoreEntry>> {
        Ok(match name {
            "" => Some(StoreEntry::Folder),
            "config.json" => Some(StoreEntry::file(self.config.len() as u64)),
            "model.safetensors" => Some(StoreEntry::file(self.model.size)),
            _ => None,
        })
    }

    fn list(&self, _: &str) -> io::Result<Vec<String>> {
        Ok(["config.json", "model.safetensors"].map(str::to_owned).to_vec())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn PositionedRead>> {
        match name {
            "config.json" => Ok(Arc::new(self.config.clone())),
            "model.safetensors" => Ok(Arc::<Zeros>::clone(&self.model)),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Keeps the first bytes, and ends the conversion with an error.
struct First<'a>(&'a mut Vec<u8>, usize);

impl Write for First<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() >= self.1 {
            return Err(io::Error::other("the header is written"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_header_is_that_of_the_converter() {
    let case = "step3_vl";
    let wanted = std::fs::read(fixture("large_projectors").join(case).join("f16.head")).unwrap();
    let (_mount, plan) = Folder::of(case, |_| {}).plan(case).unwrap();
    let mut made = Vec::new();
    let ended = plan.write_to(First(&mut made, wanted.len()), |_| {});
    assert!(ended.is_err() && made.len() >= wanted.len(), "{} bytes", made.len());
    made.truncate(wanted.len());
    assert!(made == wanted, "the headers differ");
}

#[test]
fn another_size_is_refused_by_its_key() {
    for (object, key, value) in [
        ("", "understand_projector_stride", json!(4)),
        ("", "understand_projector_stride", json!(null)),
        ("vision_config", "image_size", json!(364)),
        ("vision_config", "width", json!(1024)),
        ("vision_config", "layers", json!(46)),
        ("vision_config", "mlp_ratio", json!(-1)),
        ("vision_config", "mlp_ratio", json!(1e300)),
        ("vision_config", "patch_size", json!(0)),
        ("vision_config", "heads", json!(7)),
    ] {
        let name = format!("{key}/{value}");
        let folder = Folder::of("step3_vl", |config| {
            let place = if object.is_empty() { config } else { &mut config[object] };
            place[key] = value;
        });
        let error = folder.plan(&name.replace(['.', '+', '-'], "")).err().map(|error| error.to_string());
        let named = match key {
            "width" => "hidden_size",
            "layers" => "num_hidden_layers",
            other => other,
        };
        assert_mentions(&error.expect("refused"), &[named]);
    }
}
