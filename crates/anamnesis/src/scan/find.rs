//! Where the pickles of a file are.

use super::report::ScanReport;
use super::watch::Watch;
use crate::container::pth::pickle::caps::MAX_PKL_SIZE;
use crate::container::pth::{check_pickle_size, legacy};
use crate::container::zip::{Archive, Entry, read_prefix};
use crate::error::{AnamnesisError, Result, printable};
use crate::io::Source;
use crate::limits::{Budget, ParseLimits};

/// Pickles that may follow one another in a file.
const MAX_PICKLES: usize = 1024;
/// Longest NPY header that is looked into.
const MAX_NPY_HEADER: usize = 1 << 20;
/// Bytes of an archive's entry that tell whether it is a pickle.
const SNIFFED_BYTES: u64 = 2;
/// Longest entry that is tried as a pickle although nothing says that it is one.
const MAX_GUESSED_BYTES: u64 = 16 << 20;
/// Longest name of an entry in a report, in characters.
const MAX_NAME_CHARS: usize = 4096;
const NPY_MAGIC: &[u8] = b"\x93NUMPY";

pub(super) fn scan(source: &dyn Source, limits: &ParseLimits) -> Result<ScanReport> {
    let mut report = ScanReport::default();
    let mut head = vec![0; source.len().min(512) as usize];
    source.read_at(0, &mut head)?;
    let found = match &head[..] {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => archive(source, limits, &mut report),
        [b'G', b'G', b'U', b'F', ..] => named(&mut report, "GGUF file"),
        head if is_safetensors(head) => named(&mut report, "safetensors file"),
        head if head.starts_with(NPY_MAGIC) => npy_file(source, limits, &mut report),
        head if head.get(257..262) == Some(b"ustar") => {
            named(&mut report, "tar file")?;
            Err(AnamnesisError::unsupported("tar", "its pickles are not looked into; unpack it first"))
        }
        head => stream(source, legacy::is_legacy(head), limits, &mut report),
    };
    match found {
        Ok(()) => {}
        Err(AnamnesisError::Io(error)) => return Err(AnamnesisError::Io(error)),
        Err(error) => report.problems.push(error.to_string()),
    }
    Ok(report)
}

fn named(report: &mut ScanReport, kind: &str) -> Result<()> {
    report.kind = kind.to_owned();
    Ok(())
}

/// A length that is no more than a header can be, and an object behind it.
fn is_safetensors(head: &[u8]) -> bool {
    matches!(head, [_, _, _, _, 0..=7, 0, 0, 0, b'{', ..])
}

/// Every entry of an archive that is a pickle or holds one.
fn archive(source: &dyn Source, limits: &ParseLimits, report: &mut ScanReport) -> Result<()> {
    named(report, "ZIP archive")?;
    let mut budget = Budget::new(limits);
    let archive = Archive::read(source, &mut budget)?;
    let has =
        |end: &str| archive.entries.iter().any(|entry| entry.name.split_once('/').is_some_and(|(_, name)| name == end));
    let script = has("constants.pkl") && has("data.pkl");
    named(
        report,
        match (script, has("data.pkl")) {
            (true, _) => "TorchScript archive",
            (_, true) => "PyTorch archive",
            _ => "ZIP archive",
        },
    )?;
    if script {
        report.notes.push("the archive holds TorchScript code, which is never looked at".to_owned());
    }
    let loaded = Loaded::of(&archive);
    let mut watch = Watch::new(limits);
    for entry in &archive.entries {
        let before = report.pickles.len();
        let scanned = scan_entry(source, entry, script, &budget, (&mut watch, report));
        for pickle in report.pickles.iter_mut().skip(before) {
            pickle.loaded = loaded.has(&entry.name);
        }
        match scanned {
            Ok(()) => {}
            Err(AnamnesisError::Io(error)) => return Err(AnamnesisError::Io(error)),
            Err(error) => report.problems.push(format!("{}: {error}", printable(&entry.name, MAX_NAME_CHARS))),
        }
    }
    Ok(())
}

/// Which pickles of an archive a conversion reads.
struct Loaded {
    /// The folder of the object that PyTorch loads, where there is one.
    torch: Option<String>,
    /// Whether the archive holds NumPy arrays, each of which is read.
    arrays: bool,
    /// Whether that is all there is to tell.
    is_known: bool,
}

impl Loaded {
    fn of(archive: &Archive) -> Self {
        let mut folders = archive.entries.iter().filter_map(|entry| match entry.name.split_once('/') {
            Some((folder, "data.pkl")) => Some(folder),
            _ => None,
        });
        let torch = folders.next().map(str::to_owned);
        let arrays = archive.entries.iter().any(|entry| is_array(&entry.name));
        // Of two objects nobody knows which is meant.
        let is_known = folders.next().is_none() && (torch.is_some() || arrays);
        Self { torch, arrays, is_known }
    }

    fn has(&self, name: &str) -> bool {
        let of_torch = |folder: &String| {
            let below = name.strip_prefix(folder.as_str()).and_then(|rest| rest.strip_prefix('/'));
            matches!(below, Some("data.pkl" | "constants.pkl"))
        };
        !self.is_known || self.torch.as_ref().is_some_and(of_torch) || (self.arrays && is_array(name))
    }
}

fn is_array(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".npy")
}

fn scan_entry(
    source: &dyn Source,
    entry: &Entry,
    script: bool,
    budget: &Budget,
    (watch, report): (&mut Watch, &mut ScanReport),
) -> Result<()> {
    let below = entry.name.split_once('/').map_or(entry.name.as_str(), |(_, name)| name);
    let is_storage = below.starts_with("data/") || below.starts_with("constants/");
    let lower = entry.name.to_ascii_lowercase();
    let by_name = lower.ends_with("pkl") || lower.ends_with(".pickle");
    let is_npy = is_array(&entry.name);
    if entry.bytes == 0 || (is_storage && !by_name) {
        return Ok(());
    }
    let looks_like_one = || -> Result<bool> {
        entry.check_readable("ZIP", budget)?;
        let head = read_prefix(source, entry, SNIFFED_BYTES, false)?;
        Ok(matches!(head[..], [0x80, 0..=5]))
    };
    if is_npy {
        entry.check_readable("ZIP", budget)?;
        let head = read_prefix(source, entry, 12, false)?;
        let Some(start) = npy_data(&head) else { return Ok(()) };
        let header = read_prefix(source, entry, start as u64, false)?;
        if !holds_objects(&header) {
            return Ok(());
        }
        let most = check_pickle_size(entry)?;
        let bytes = read_prefix(source, entry, entry.bytes, false)?;
        let name = printable(&entry.name, MAX_NAME_CHARS);
        let bytes = bytes.get(start..).unwrap_or_default();
        report.pickles.push(watch.pickle_within(bytes, most, &name, start as u64, script));
        return Ok(());
    }
    let is_sure = by_name || looks_like_one()?;
    if !is_sure && (entry.bytes > MAX_GUESSED_BYTES || below.starts_with("code/")) {
        return Ok(());
    }
    entry.check_readable("ZIP", budget)?;
    let most = match check_pickle_size(entry) {
        Ok(most) => most,
        Err(_) if !is_sure => return Ok(()),
        Err(error) => return Err(error),
    };
    let bytes = read_prefix(source, entry, entry.bytes, false)?;
    let scanned = watch.pickle_within(&bytes, most, &printable(&entry.name, MAX_NAME_CHARS), 0, script);
    // The oldest pickles begin with anything; what reads as one to its end and refers to something is one.
    if is_sure || (scanned.problem.is_none() && !scanned.globals.is_empty()) {
        let behind = (bytes.len() as u64).saturating_sub(scanned.bytes);
        if behind > 0 {
            report.notes.push(format!("{behind} bytes follow the pickle {}", scanned.name));
        }
        report.pickles.push(scanned);
    }
    Ok(())
}

/// Pickles one behind the other: a bare pickle, or a legacy stream, which ends in storages.
fn stream(source: &dyn Source, is_legacy: bool, limits: &ParseLimits, report: &mut ScanReport) -> Result<()> {
    named(report, if is_legacy { "PyTorch legacy stream" } else { "pickle" })?;
    if source.len() == 0 {
        return Err(AnamnesisError::parse("the file is empty"));
    }
    let mut budget = Budget::new(limits);
    if is_legacy && let Ok(stream) = legacy::Stream::read(source, legacy::PICKLES, &mut budget) {
        let pickles = (0..legacy::PICKLES).map(|index| stream.pickle(index));
        let mut watch = Watch::new(limits);
        report.pickles.extend(pickles.map(|(start, bytes)| watch.pickle(bytes, "", start as u64, false)));
        return Ok(());
    }
    let mut bytes = vec![0; source.len().min(MAX_PKL_SIZE) as usize];
    source.read_at(0, &mut bytes)?;
    let count = if is_legacy { legacy::PICKLES } else { MAX_PICKLES };
    let (mut at, mut watch) = (0, Watch::new(limits));
    while report.pickles.len() < count && at < bytes.len() {
        let scanned = watch.pickle(&bytes[at..], "", at as u64, false);
        // Bytes behind a pickle that make no sense as another are not one.
        if at > 0 && !is_legacy && scanned.problem.is_some() && scanned.globals.is_empty() {
            break;
        }
        let is_broken = scanned.problem.is_some();
        at += scanned.bytes as usize;
        report.pickles.push(scanned);
        if is_broken {
            break;
        }
    }
    let behind = source.len() - at as u64;
    if behind > 0 && !is_legacy {
        report.notes.push(format!("{behind} bytes follow the pickle"));
    }
    Ok(())
}

fn npy_file(source: &dyn Source, limits: &ParseLimits, report: &mut ScanReport) -> Result<()> {
    named(report, "NumPy array")?;
    let mut head = vec![0; source.len().min(12) as usize];
    source.read_at(0, &mut head)?;
    let start = npy_data(&head).filter(|&start| start as u64 <= source.len());
    let start = start.ok_or_else(|| AnamnesisError::parse("the header of the array is not whole"))?;
    let mut header = vec![0; start];
    source.read_at(0, &mut header)?;
    if !holds_objects(&header) {
        return Ok(());
    }
    named(report, "NumPy array of objects")?;
    let mut bytes = vec![0; (source.len() - start as u64).min(MAX_PKL_SIZE) as usize];
    source.read_at(start as u64, &mut bytes)?;
    report.pickles.push(Watch::new(limits).pickle(&bytes, "", start as u64, false));
    Ok(())
}

/// Where the data of an NPY array begins.
fn npy_data(head: &[u8]) -> Option<usize> {
    let start = match head {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => 10 + usize::from(u16::from_le_bytes([*a, *b])),
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).ok()?.checked_add(12)?
        }
        _ => return None,
    };
    (start <= MAX_NPY_HEADER).then_some(start)
}

/// Whether an NPY header names the type of objects anywhere.
fn holds_objects(header: &[u8]) -> bool {
    let text = String::from_utf8_lossy(header);
    let parts = text.split(['\'', '"']);
    parts.into_iter().any(|part| matches!(part.trim_start_matches(['|', '<', '>', '=']), "O" | "O8" | "O4" | "object"))
}
