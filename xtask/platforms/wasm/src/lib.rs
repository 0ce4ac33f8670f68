//! The library as a WebAssembly module, for the tests on that platform: the host puts files into memory and gets the
//! decoded or quantised model.
//!
//! The host fills the buffer of [`reserve`] before a call, and reads the bytes at [`result`] afterwards.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anamnesis::{
    Checkpoint, ConvertOptions, ConvertTarget, Mount, OpenOptions, PositionedRead, RememberOptions, Store, StoreEntry,
    TargetDtype,
};
use serde_json::Value;

/// The address of the store.
const ROOT: &str = "memory:files";

static STATE: Mutex<State> = Mutex::new(State { buffer: Vec::new(), result: Vec::new(), files: BTreeMap::new() });

struct State {
    buffer: Vec<u8>,
    result: Vec<u8>,
    files: BTreeMap<String, Arc<Vec<u8>>>,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allocates the buffer for the next call.
#[unsafe(no_mangle)]
pub extern "C" fn reserve(bytes: usize) -> *mut u8 {
    let mut state = state();
    state.buffer = vec![0; bytes];
    state.buffer.as_mut_ptr()
}

/// Removes all files.
#[unsafe(no_mangle)]
pub extern "C" fn clear() {
    state().files.clear();
}

/// Adds a file: the buffer has its name, of so many bytes, and then its content.
#[unsafe(no_mangle)]
pub extern "C" fn add_file(name_bytes: usize) {
    let mut state = state();
    let mut name = std::mem::take(&mut state.buffer);
    let content = name.split_off(name_bytes.min(name.len()));
    state.files.insert(String::from_utf8_lossy(&name).into_owned(), Arc::new(content));
}

/// Follows the request in the buffer. Returns whether it succeeded: the result is a model, or the text of an error.
#[unsafe(no_mangle)]
pub extern "C" fn run() -> bool {
    let (request, files) = {
        let mut state = state();
        (std::mem::take(&mut state.buffer), state.files.clone())
    };
    let answer = follow(&request, files);
    let is_ok = answer.is_ok();
    state().result = answer.unwrap_or_else(String::into_bytes);
    is_ok
}

/// The start of the result.
#[unsafe(no_mangle)]
pub extern "C" fn result() -> *const u8 {
    state().result.as_ptr()
}

/// The bytes of the result.
#[unsafe(no_mangle)]
pub extern "C" fn result_bytes() -> usize {
    state().result.len()
}

/// `{"open": "model.gguf", "dtype": "BF16"}`, or `"target"` with the name of an encoding in place of the type.
fn follow(request: &[u8], files: BTreeMap<String, Arc<Vec<u8>>>) -> Result<Vec<u8>, String> {
    let request: Value = serde_json::from_slice(request).map_err(|error| error.to_string())?;
    let mount = Mount::new(ROOT, Arc::new(Files(files))).map_err(|error| error.to_string())?;
    let path = match request["open"].as_str() {
        None | Some("") => mount.root().to_path_buf(),
        Some(name) => mount.root().join(name),
    };
    let is = |key: &str| request[key] == true;
    let options = OpenOptions::new().with_all(is("all")).with_skip_unsupported(is("skip_unsupported"));
    let options = match request["select"].as_str() {
        Some(select) => options.with_select(select),
        None => options,
    };
    let answer = Checkpoint::open_with(&path, &options).and_then(|checkpoint| match request["target"].as_str() {
        Some(target) => {
            let options = ConvertOptions::new().with_allow_nonfinite(true);
            checkpoint.plan_convert(ConvertTarget::parse(target)?, &options)?.to_bytes(|_| {}).map(|(bytes, _)| bytes)
        }
        None => {
            let dtype: TargetDtype = request["dtype"].as_str().unwrap_or_default().parse()?;
            checkpoint.plan(dtype)?.to_bytes(&RememberOptions::new())
        }
    });
    answer.map_err(|error| error.to_string())
}

/// Files in memory.
struct Files(BTreeMap<String, Arc<Vec<u8>>>);

impl Store for Files {
    fn entry(&self, name: &str) -> io::Result<Option<StoreEntry>> {
        let is_folder = name.is_empty() || self.0.keys().any(|file| file.starts_with(&format!("{name}/")));
        let file = self.0.get(name).map(|bytes| StoreEntry::file(bytes.len() as u64));
        Ok(file.or(is_folder.then_some(StoreEntry::Folder)))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let inside = |file: &String| {
            let rest = if folder.is_empty() { file } else { file.strip_prefix(folder)?.strip_prefix('/')? };
            rest.split('/').next().map(str::to_owned)
        };
        let mut names: Vec<_> = self.0.keys().filter_map(inside).collect();
        names.dedup();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn PositionedRead>> {
        let found = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::clone(found) as Arc<dyn PositionedRead>)
    }
}
