//! A folder of a cloud. Its list has the size and the version of every object, so that one request says which files a
//! checkpoint has. Where lists are not allowed, files are asked for by their names, as on a web server.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use anamnesis::{Existing, PositionedRead, Store, StoreEntry, StoreWrite};
use object_store::ObjectStoreExt;
use object_store::list::PaginatedListOptions;

use super::file::CloudFile;
use super::upload::{Buffers, Upload};
use super::{Bucket, key};
use crate::client::Client;
use crate::error::{RemoteError, RemoteFault};
use crate::folder::{Files, Wanted};

/// Maximum number of entries of a folder.
const MAX_ENTRIES: usize = 100_000;

/// A folder of a bucket.
pub(crate) struct CloudFolder {
    files: Files,
    bucket: Arc<Bucket>,
    /// Its key, without a slash at the end; empty for the bucket itself.
    folder: String,
    /// The object of the address, which is not optional.
    named: String,
    /// The lists of this folder and of those in it.
    lists: Arc<Mutex<HashMap<String, Arc<List>>>>,
    /// The memory of objects that are being written.
    buffers: Arc<Buffers>,
}

/// The entries of a folder, by name; `None` if they may not be listed.
type List = Option<BTreeMap<String, StoreEntry>>;

impl CloudFolder {
    pub(crate) fn new(client: &Arc<Client>, bucket: Arc<Bucket>, folder: &str, named: &str) -> Self {
        Self {
            files: Files::new(client),
            bucket,
            folder: folder.to_owned(),
            named: named.to_owned(),
            lists: Arc::default(),
            buffers: Arc::default(),
        }
    }

    /// The key of a name in this folder.
    fn key_of(&self, name: &str) -> String {
        match (self.folder.as_str(), name) {
            (folder, "") => folder.to_owned(),
            ("", name) => name.to_owned(),
            (folder, name) => format!("{folder}/{name}"),
        }
    }

    /// The list of a folder inside of this one, read once.
    fn entries(&self, folder: &str) -> Result<Arc<List>, RemoteError> {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lists.get(folder) {
            return Ok(Arc::clone(found));
        }
        let list = match self.read_list(&self.key_of(folder)) {
            Ok(list) => Some(list),
            Err(error) if error.fault() == RemoteFault::Forbidden => None,
            Err(error) => return Err(error),
        };
        let list = Arc::new(list);
        lists.insert(folder.to_owned(), Arc::clone(&list));
        Ok(list)
    }

    fn read_list(&self, folder: &str) -> Result<BTreeMap<String, StoreEntry>, RemoteError> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut list = BTreeMap::new();
        let mut page_token = None;
        loop {
            let page = self.bucket.client.repeat(|| {
                let options = PaginatedListOptions {
                    delimiter: Some("/".into()),
                    page_token: page_token.clone(),
                    ..PaginatedListOptions::default()
                };
                let prefix = Some(prefix.as_str()).filter(|prefix| !prefix.is_empty());
                self.bucket.once(self.bucket.objects.list_paginated(prefix, options))
            })?;
            let inside = |path: &str| path.strip_prefix(&*prefix).filter(|name| !name.is_empty()).map(str::to_owned);
            for folder in page.result.common_prefixes {
                list.extend(inside(folder.as_ref()).map(|name| (name, StoreEntry::Folder)));
            }
            for object in page.result.objects {
                let entry = StoreEntry::file(object.size);
                let entry = match object.e_tag {
                    Some(version) => entry.with_version(version),
                    None => entry.with_version(object.last_modified.to_rfc3339()),
                };
                list.extend(inside(object.location.as_ref()).map(|name| (name, entry)));
            }
            if list.len() > MAX_ENTRIES {
                let why = format!("the folder has more than {MAX_ENTRIES} entries");
                return Err(RemoteError::new(RemoteFault::Answer, why));
            }
            page_token = page.page_token;
            if page_token.is_none() {
                return Ok(list);
            }
        }
    }

    /// The entry of a name in the list of its folder; `None` if there is no such list.
    fn listed(&self, name: &str) -> Result<Option<Option<StoreEntry>>, RemoteError> {
        let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
        Ok(self.entries(folder)?.as_ref().as_ref().map(|list| list.get(last).cloned()))
    }

    fn wanted(&self, name: &str) -> Result<Wanted, RemoteError> {
        let transport = Arc::new(CloudFile { bucket: Arc::clone(&self.bucket), key: key(&self.key_of(name))? });
        Ok(Wanted { name: name.to_owned(), transport, bytes: None })
    }
}

impl Store for CloudFolder {
    fn entry(&self, name: &str) -> io::Result<Option<StoreEntry>> {
        if name.is_empty() {
            return Ok(Some(StoreEntry::Folder));
        }
        if let Some(entry) = self.listed(name)? {
            return Ok(entry);
        }
        let found = match name == self.named {
            true => self.files.find(&self.wanted(name)?)?,
            false => self.files.find_optional(name, |name| self.wanted(name).ok())?,
        };
        Ok(found.map(|file| file.entry()))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        match self.entries(folder)?.as_ref() {
            Some(list) => Ok(list.keys().cloned().collect()),
            None => {
                let why =
                    format!("{} does not allow to list its objects: name the file or the index", self.bucket.name);
                Err(RemoteError::new(RemoteFault::Forbidden, why).into())
            }
        }
    }

    fn lists_all(&self) -> bool {
        self.entries("").is_ok_and(|list| list.is_some())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn PositionedRead>> {
        let file = self.files.find(&self.wanted(name)?)?;
        let missing = || RemoteError::new(RemoteFault::Missing, format!("{} has no such object", self.bucket.name));
        Ok(self.files.reader(file.ok_or_else(missing)?))
    }

    fn announce(&self, names: &[String]) {
        let is_there = |name: &&String| !matches!(self.listed(name), Ok(Some(None)));
        let wanted: Vec<_> = names.iter().filter(is_there).filter_map(|name| self.wanted(name).ok()).collect();
        self.files.find_all(&wanted);
    }

    fn create(&self, name: &str, bytes: u64, existing: Existing) -> io::Result<Arc<dyn StoreWrite>> {
        let lists = Arc::clone(&self.lists);
        let forget = move || lists.lock().unwrap_or_else(PoisonError::into_inner).clear();
        // Others may have written to the folder since it was listed.
        forget();
        if existing == Existing::Refuse && self.entry(name)?.is_some() {
            return Err(RemoteError::new(RemoteFault::Exists, "exists already").into());
        }
        let key = key(&self.key_of(name))?;
        Ok(Arc::new(Upload::new(&self.bucket, &self.buffers, key, bytes, existing, Box::new(forget))))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let key = key(&self.key_of(name))?;
        let removed = self.bucket.client.repeat(|| self.bucket.once(self.bucket.objects.delete(&key)));
        self.lists.lock().unwrap_or_else(PoisonError::into_inner).clear();
        match removed {
            Err(error) if error.fault() == RemoteFault::Missing => Ok(()),
            removed => Ok(removed?),
        }
    }
}
