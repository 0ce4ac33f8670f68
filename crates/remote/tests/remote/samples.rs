//! Models for tests.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anamnesis::{Checkpoint, Dtype, OpenOptions};
use anamnesis_remote::{Remote, RemoteMount, RemoteOptions};

/// The fixtures of the library.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../anamnesis/tests/fixtures")
}

/// A safetensors file with tensors of BF16, whose bytes differ everywhere.
pub fn safetensors(prefix: &str, tensors: usize, elements: usize) -> Vec<u8> {
    let mut header = String::from("{");
    for tensor in 0..tensors {
        let (start, end) = (tensor * elements * 2, (tensor + 1) * elements * 2);
        let comma = if tensor == 0 { "" } else { "," };
        header += &format!(
            "{comma}\"{prefix}.{tensor:05}.weight\":{{\"dtype\":\"BF16\",\"shape\":[{elements}],\"data_offsets\":[{start},{end}]}}"
        );
    }
    header += "}";
    while header.len() % 8 != 0 {
        header += " ";
    }
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes());
    let mut state = 0x9E37_79B9_u32;
    for _ in 0..tensors * elements {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Finite values of either sign.
        file.extend(((state >> 16) as u16 & 0xBFFF).to_le_bytes());
    }
    file
}

/// The length of the header of a safetensors file.
pub fn header_bytes(file: &[u8]) -> u64 {
    8 + u64::from_le_bytes(file[..8].try_into().unwrap())
}

/// The files of a sharded checkpoint below a folder.
pub fn sharded(folder: &str, shards: usize, tensors: usize, elements: usize) -> HashMap<String, Vec<u8>> {
    let mut files = HashMap::new();
    let mut map = Vec::new();
    for shard in 1..=shards {
        let name = format!("model-{shard:05}-of-{shards:05}.safetensors");
        let prefix = format!("model.layers.{shard}");
        map.extend((0..tensors).map(|tensor| format!("\"{prefix}.{tensor:05}.weight\":\"{name}\"")));
        files.insert(format!("{folder}/{name}"), safetensors(&prefix, tensors, elements));
    }
    let index = format!("{{\"weight_map\":{{{}}}}}", map.join(","));
    files.insert(format!("{folder}/model.safetensors.index.json"), index.into_bytes());
    files.insert(format!("{folder}/config.json"), b"{\"model_type\": \"none\"}".to_vec());
    files
}

/// Settings without long pauses.
pub fn options() -> RemoteOptions {
    let mut options = RemoteOptions::default();
    options.timeout = Duration::from_secs(5);
    options.pause = Duration::from_millis(1);
    options
}

pub fn remote() -> Remote {
    Remote::new(options()).unwrap()
}

pub fn mount(remote: &Remote, address: &str) -> RemoteMount {
    remote.mount(Path::new(address)).unwrap().unwrap()
}

/// The bytes of a conversion to a safetensors file with plain floats.
pub fn converted(path: &Path) -> Result<Vec<u8>, anamnesis::AnamnesisError> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output.safetensors");
    let checkpoint = Checkpoint::open_with(path, &OpenOptions::new())?;
    let options = anamnesis::ConvertOptions::new().with_output_dtype(Dtype::F32);
    let plan = checkpoint.plan_convert(anamnesis::ConvertTarget::Safetensors, &options)?;
    let done = plan.write(&output, |_| {});
    assert!(done.is_ok() || std::fs::read_dir(folder.path()).unwrap().count() == 0, "something is left");
    done?;
    Ok(std::fs::read(output).unwrap())
}
