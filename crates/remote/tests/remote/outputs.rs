//! Outputs in a store: the bytes of local ones, visible when they are complete, and nothing of those that fail.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex};

use anamnesis::{
    AnamnesisError, Checkpoint, ConvertOptions, ConvertTarget, DirectoryOptions, Existing, Mount, Part, PositionedRead,
    RememberOptions, Store, StoreEntry, StoreWrite, TargetDtype,
};

use crate::samples::{safetensors, sharded};

type Files = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// Files in memory, which fail after so many bytes.
struct Memory {
    files: Files,
    most: usize,
}

struct Pending {
    files: Files,
    name: String,
    content: Mutex<Vec<u8>>,
    existing: Existing,
    most: usize,
}

impl Store for Memory {
    fn entry(&self, name: &str) -> io::Result<Option<StoreEntry>> {
        let files = self.files.lock().unwrap();
        let is_folder = name.is_empty() || files.keys().any(|file| file.starts_with(&format!("{name}/")));
        let file = files.get(name).map(|file| StoreEntry::file(file.len() as u64).with_version("1"));
        Ok(file.or(is_folder.then_some(StoreEntry::Folder)))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let files = self.files.lock().unwrap();
        let inside = files.keys().filter_map(|file| file.strip_prefix(&prefix));
        Ok(inside.map(|name| name.split('/').next().unwrap().to_owned()).collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn PositionedRead>> {
        match self.files.lock().unwrap().get(name) {
            Some(file) => Ok(Arc::new(file.clone())),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn create(&self, name: &str, bytes: u64, existing: Existing) -> io::Result<Arc<dyn StoreWrite>> {
        let content = Mutex::new(vec![0; bytes as usize]);
        let files = Arc::clone(&self.files);
        Ok(Arc::new(Pending { files, name: name.to_owned(), content, existing, most: self.most }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.lock().unwrap().remove(name);
        Ok(())
    }
}

impl StoreWrite for Pending {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let start = offset as usize;
        if start > self.most {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        self.content.lock().unwrap()[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn complete(&self) -> io::Result<()> {
        Ok(())
    }

    fn publish(&self) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        if self.existing == Existing::Refuse && files.contains_key(&self.name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        files.insert(self.name.clone(), self.content.lock().unwrap().clone());
        Ok(())
    }
}

fn store(root: &str, most: usize) -> (Files, Mount) {
    let files = Files::default();
    let mount = Mount::new(root, Arc::new(Memory { files: Arc::clone(&files), most })).unwrap();
    (files, mount)
}

fn convert(input: &Path, output: &Path, target: ConvertTarget) -> Result<(), AnamnesisError> {
    let checkpoint = Checkpoint::open(input, &Default::default())?;
    checkpoint.plan_convert(target, &ConvertOptions::new())?.write(output, |_| {}).map(drop)
}

#[test]
fn files_of_a_store_are_those_of_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("model.safetensors");
    std::fs::write(&input, safetensors("model", 7, 40_000)).unwrap();
    let (files, mount) = store("memory://files", usize::MAX);
    for (target, name) in [(ConvertTarget::Safetensors, "a.safetensors"), (ConvertTarget::Npz, "a.npz")] {
        convert(&input, &folder.path().join(name), target).unwrap();
        convert(&input, &mount.root().join(name), target).unwrap();
        assert!(files.lock().unwrap()[name] == std::fs::read(folder.path().join(name)).unwrap(), "{name}");
    }
    assert!(anamnesis::exists(&mount.root().join("a.npz")) && !anamnesis::exists(&mount.root().join("b.npz")));
    assert_eq!(anamnesis::free_bytes(mount.root()), None);
    let itself = mount.root().join("a.npz");
    assert!(convert(&itself, &itself, ConvertTarget::Npz).is_err());
}

#[test]
fn nothing_of_a_failed_output_is_visible() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("model.safetensors");
    std::fs::write(&input, safetensors("model", 7, 400_000)).unwrap();
    let (files, mount) = store("memory://failing", 1_000_000);
    let error = convert(&input, &mount.root().join("a.npz"), ConvertTarget::Npz).unwrap_err();
    assert!(error.to_string().contains("a.npz"), "{error}");
    assert!(files.lock().unwrap().is_empty());
}

#[test]
fn directories_of_a_store_are_resumed_and_written_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in sharded("", 3, 4, 9000) {
        std::fs::write(folder.path().join(&name[1..]), content).unwrap();
    }
    let checkpoint = Checkpoint::open(folder.path(), &Default::default()).unwrap();
    let plan = |part: Option<Part>| {
        let options = DirectoryOptions::new().with_shard_bytes(100_000);
        let options = part.map_or(options.clone(), |part| options.with_part(part));
        checkpoint.plan_directory(TargetDtype::F32, &options).unwrap()
    };
    let run = RememberOptions::default();
    let local = folder.path().join("local");
    plan(None).write(&local, &run, |_| {}).unwrap();
    let wanted: BTreeMap<String, Vec<u8>> = std::fs::read_dir(&local)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    assert!(wanted.len() > 3);
    let (files, mount) = store("memory://directories", usize::MAX);
    let found = |name: &str| -> BTreeMap<String, Vec<u8>> {
        let files = files.lock().unwrap();
        let inside =
            files.iter().filter_map(|(file, content)| Some((file.strip_prefix(name)?.to_owned(), content.clone())));
        inside.collect()
    };
    let whole = mount.root().join("whole");
    plan(None).write(&whole, &run, |_| {}).unwrap();
    assert!(found("whole/") == wanted);
    let again = plan(None).write(&whole, &run, |_| {});
    assert!(again.is_err(), "a folder of a store is not replaced");
    let mut refuse = RememberOptions::default();
    refuse.existing = Existing::Refuse;
    assert!(plan(None).write(&whole, &refuse, |_| {}).unwrap().written.is_empty());
    let parts = mount.root().join("parts");
    for number in [2, 1] {
        plan(Some(format!("{number}/2").parse::<Part>().unwrap())).write(&parts, &refuse, |_| {}).unwrap();
        assert_eq!(found("parts/").contains_key(".anamnesis.json"), number == 2);
    }
    assert!(found("parts/") == wanted);
}
