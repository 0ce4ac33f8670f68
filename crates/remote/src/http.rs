//! A folder of a web server. Servers do not list their files in a common form, so a folder has the files of a
//! checkpoint that exist under their usual names, and those that its index names.

use std::io;
use std::sync::Arc;

use anamnesis::{PositionedRead, Store, StoreEntry};

use crate::client::Client;
use crate::error::{RemoteError, RemoteFault};
use crate::folder::{Files, Wanted};
use crate::url::Url;
use crate::web_file::WebFile;

/// The usual names of the files of a checkpoint.
const USUAL_NAMES: [&str; 28] = [
    "README.md",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "configuration.json",
    "generation_config.json",
    "hf_quant_config.json",
    "merges.txt",
    "model.safetensors",
    "model.safetensors.index.json",
    "model_index.json",
    "params.json",
    "preprocessor_config.json",
    "processor_config.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "quant_config.json",
    "quantization_config.json",
    "quantize_config.json",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
];

/// A folder of a web server.
pub(crate) struct WebFolder {
    files: Files,
    folder: Url,
    /// The file of the address, which is not optional.
    named: String,
    /// The only file, if its address has a query: a signature is for one file.
    only: Option<(String, Url)>,
}

impl WebFolder {
    pub(crate) fn new(client: &Arc<Client>, folder: Url, named: &str, only: Option<(String, Url)>) -> Self {
        Self { files: Files::new(client), folder, named: named.to_owned(), only }
    }

    fn wanted(&self, name: &str) -> Option<Wanted> {
        let url = match &self.only {
            Some((only, url)) => (only == name).then(|| url.clone())?,
            None => self.folder.below(name),
        };
        let transport = Arc::new(WebFile::new(&self.files.client, url));
        Some(Wanted { name: name.to_owned(), transport, bytes: None })
    }
}

impl Store for WebFolder {
    fn entry(&self, name: &str) -> io::Result<Option<StoreEntry>> {
        if name.is_empty() {
            return Ok(Some(StoreEntry::Folder));
        }
        let found = match (name == self.named, self.wanted(name)) {
            (true, Some(wanted)) => self.files.find(&wanted)?,
            _ => self.files.find_optional(name, |name| self.wanted(name))?,
        };
        Ok(found.map(|file| file.entry()))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        match &self.only {
            Some((only, _)) => Ok(vec![only.clone()]),
            None if !folder.is_empty() => Ok(Vec::new()),
            None => {
                let names = USUAL_NAMES.map(str::to_owned);
                self.announce(&names);
                let mut found = Vec::new();
                for name in names {
                    if self.entry(&name)?.is_some() {
                        found.push(name);
                    }
                }
                Ok(found)
            }
        }
    }

    fn lists_all(&self) -> bool {
        self.only.is_some()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn PositionedRead>> {
        let missing = || RemoteError::new(RemoteFault::Missing, format!("{} has no such file", self.folder.host()));
        let wanted = self.wanted(name).ok_or_else(missing)?;
        let file = self.files.find(&wanted)?.ok_or_else(missing)?;
        Ok(self.files.reader(file))
    }

    fn announce(&self, names: &[String]) {
        let wanted: Vec<_> = names.iter().filter_map(|name| self.wanted(name)).collect();
        self.files.find_all(&wanted);
    }
}
