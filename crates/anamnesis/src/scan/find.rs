//! Finding the pickles of a file.

use super::report::ScanReport;
use super::scanner::PickleScanner;
use crate::container::pth::pickle::caps::MAX_PKL_SIZE;
use crate::container::pth::{check_pickle_size, legacy};
use crate::container::zip::{Archive, Entry, consecutive, read_prefix};
use crate::error::{AnamnesisError, Result, printable};
use crate::io::{SlicedSource, Source};
use crate::limits::{Budget, ParseLimits};

/// Maximum number of consecutive pickles.
const MAX_PICKLES: usize = 1024;
/// Maximum length of an NPY header.
const MAX_NPY_HEADER: usize = 1 << 20;
/// Bytes of an archive entry that identify a pickle.
const SNIFFED_BYTES: u64 = 2;
/// Maximum size of an entry that is parsed as a pickle without any indication of one.
const MAX_GUESSED_BYTES: u64 = 16 << 20;
/// Maximum characters of an entry name in a report.
const MAX_NAME_CHARS: usize = 4096;
const NPY_MAGIC: &[u8] = b"\x93NUMPY";

pub(super) fn scan(source: &dyn Source, limits: &ParseLimits) -> Result<ScanReport> {
    let mut report = ScanReport::default();
    let mut head = vec![0; source.len().min(512) as usize];
    source.read_at(0, &mut head)?;
    let found = match &head[..] {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => archives(source, limits, &mut report),
        [b'G', b'G', b'U', b'F', ..] => set_kind(&mut report, "GGUF file"),
        head if is_safetensors(head) => set_kind(&mut report, "safetensors file"),
        head if head.starts_with(NPY_MAGIC) => npy_file(source, limits, &mut report),
        head if head.get(257..262) == Some(b"ustar") => {
            set_kind(&mut report, "tar file")?;
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

fn set_kind(report: &mut ScanReport, kind: &str) -> Result<()> {
    report.kind = kind.to_owned();
    Ok(())
}

/// A plausible header length followed by a JSON object.
fn is_safetensors(head: &[u8]) -> bool {
    matches!(head, [_, _, _, _, 0..=7, 0, 0, 0, b'{', ..])
}

/// Scans an archive, or every one of several that follow one another.
fn archives(source: &dyn Source, limits: &ParseLimits, report: &mut ScanReport) -> Result<()> {
    set_kind(report, "ZIP archive")?;
    let mut scanner = PickleScanner::new(limits);
    let whole = Archive::read(source, &mut Budget::new(limits));
    let ranges = match whole {
        Err(AnamnesisError::Parse { .. }) => consecutive(source).unwrap_or_default(),
        _ => Vec::new(),
    };
    if ranges.len() < 2 {
        return archive(source, whole?, limits, &mut scanner, report);
    }
    for range in &ranges {
        let Some(slice) = SlicedSource::new(source, range.start, range.end - range.start) else { continue };
        let before = report.pickles.len();
        let found = Archive::read(&slice, &mut Budget::new(limits))
            .and_then(|found| archive(&slice, found, limits, &mut scanner, report));
        for pickle in report.pickles.iter_mut().skip(before) {
            pickle.name = format!("archive at byte {}: {}", range.start, pickle.name);
        }
        match found {
            Ok(()) => {}
            Err(AnamnesisError::Io(error)) => return Err(AnamnesisError::Io(error)),
            Err(error) => report.problems.push(format!("the archive at byte {}: {error}", range.start)),
        }
    }
    set_kind(report, "PyTorch distributed checkpoint")
}

/// Scans every entry of an archive that is a pickle or contains one.
fn archive(
    source: &dyn Source,
    archive: Archive,
    limits: &ParseLimits,
    scanner: &mut PickleScanner,
    report: &mut ScanReport,
) -> Result<()> {
    let budget = Budget::new(limits);
    let has =
        |end: &str| archive.entries.iter().any(|entry| entry.name.split_once('/').is_some_and(|(_, name)| name == end));
    let script = has("constants.pkl") && has("data.pkl");
    set_kind(
        report,
        match (script, has("data.pkl")) {
            (true, _) => "TorchScript archive",
            (_, true) => "PyTorch archive",
            _ => "ZIP archive",
        },
    )?;
    if script {
        report.notes.push("the archive contains TorchScript code, which is not scanned".to_owned());
    }
    let loaded = LoadedPickles::of(&archive);
    for entry in &archive.entries {
        let before = report.pickles.len();
        let scanned = scan_entry(source, entry, script, &budget, (&mut *scanner, report));
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

/// The pickles of an archive that a conversion loads.
struct LoadedPickles {
    /// The folder of the object that PyTorch loads, if there is one.
    torch: Option<String>,
    /// Whether the archive contains NumPy arrays, all of which are loaded.
    arrays: bool,
    /// Whether the loaded pickles are known.
    is_known: bool,
}

impl LoadedPickles {
    fn of(archive: &Archive) -> Self {
        let mut folders = archive.entries.iter().filter_map(|entry| match entry.name.split_once('/') {
            Some((folder, "data.pkl")) => Some(folder),
            _ => None,
        });
        let torch = folders.next().map(str::to_owned);
        let arrays = archive.entries.iter().any(|entry| is_array(&entry.name));
        // With two objects, it is unknown which one is loaded.
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
    (scanner, report): (&mut PickleScanner, &mut ScanReport),
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
        let Some(start) = npy_data_offset(&head) else { return Ok(()) };
        let header = read_prefix(source, entry, start as u64, false)?;
        if !has_object_dtype(&header) {
            return Ok(());
        }
        let max_value_bytes = check_pickle_size(entry)?;
        let bytes = read_prefix(source, entry, entry.bytes, false)?;
        let name = printable(&entry.name, MAX_NAME_CHARS);
        let bytes = bytes.get(start..).unwrap_or_default();
        report.pickles.push(scanner.pickle_within(bytes, max_value_bytes, &name, start as u64, script));
        return Ok(());
    }
    let is_sure = by_name || looks_like_one()?;
    if !is_sure && (entry.bytes > MAX_GUESSED_BYTES || below.starts_with("code/")) {
        return Ok(());
    }
    entry.check_readable("ZIP", budget)?;
    let max_value_bytes = match check_pickle_size(entry) {
        Ok(max_value_bytes) => max_value_bytes,
        Err(_) if !is_sure => return Ok(()),
        Err(error) => return Err(error),
    };
    let bytes = read_prefix(source, entry, entry.bytes, false)?;
    let scanned = scanner.pickle_within(&bytes, max_value_bytes, &printable(&entry.name, MAX_NAME_CHARS), 0, script);
    // Pickles of protocol 0 have no magic: an entry that parses as one and refers to a global is one.
    if is_sure || (scanned.problem.is_none() && !scanned.globals.is_empty()) {
        let trailing_bytes = (bytes.len() as u64).saturating_sub(scanned.bytes);
        if trailing_bytes > 0 {
            report.notes.push(format!("{trailing_bytes} bytes follow the pickle {}", scanned.name));
        }
        report.pickles.push(scanned);
    }
    Ok(())
}

/// Scans consecutive pickles: a bare pickle, or a legacy stream, which ends in storages.
fn stream(source: &dyn Source, is_legacy: bool, limits: &ParseLimits, report: &mut ScanReport) -> Result<()> {
    set_kind(report, if is_legacy { "PyTorch legacy stream" } else { "pickle" })?;
    if source.len() == 0 {
        return Err(AnamnesisError::parse("the file is empty"));
    }
    let mut budget = Budget::new(limits);
    if is_legacy && let Ok(stream) = legacy::Stream::read(source, legacy::PICKLES, &mut budget) {
        let pickles = (0..legacy::PICKLES).map(|index| stream.pickle(index));
        let mut scanner = PickleScanner::new(limits);
        report.pickles.extend(pickles.map(|(start, bytes)| scanner.pickle(bytes, "", start as u64, false)));
        return Ok(());
    }
    let mut bytes = vec![0; source.len().min(MAX_PKL_SIZE) as usize];
    source.read_at(0, &mut bytes)?;
    let count = if is_legacy { legacy::PICKLES } else { MAX_PICKLES };
    let (mut at, mut scanner) = (0, PickleScanner::new(limits));
    while report.pickles.len() < count && at < bytes.len() {
        let scanned = scanner.pickle(&bytes[at..], "", at as u64, false);
        // Trailing bytes that do not parse as a pickle are not one.
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
    let trailing_bytes = source.len() - at as u64;
    if trailing_bytes > 0 && !is_legacy {
        report.notes.push(format!("{trailing_bytes} bytes follow the pickle"));
    }
    Ok(())
}

fn npy_file(source: &dyn Source, limits: &ParseLimits, report: &mut ScanReport) -> Result<()> {
    set_kind(report, "NumPy array")?;
    let mut head = vec![0; source.len().min(12) as usize];
    source.read_at(0, &mut head)?;
    let start = npy_data_offset(&head).filter(|&start| start as u64 <= source.len());
    let start = start.ok_or_else(|| AnamnesisError::parse("the header of the array is incomplete"))?;
    let mut header = vec![0; start];
    source.read_at(0, &mut header)?;
    if !has_object_dtype(&header) {
        return Ok(());
    }
    set_kind(report, "NumPy array of objects")?;
    let mut bytes = vec![0; (source.len() - start as u64).min(MAX_PKL_SIZE) as usize];
    source.read_at(start as u64, &mut bytes)?;
    report.pickles.push(PickleScanner::new(limits).pickle(&bytes, "", start as u64, false));
    Ok(())
}

/// The offset of the data of an NPY array.
fn npy_data_offset(head: &[u8]) -> Option<usize> {
    let start = match head {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => 10 + usize::from(u16::from_le_bytes([*a, *b])),
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).ok()?.checked_add(12)?
        }
        _ => return None,
    };
    (start <= MAX_NPY_HEADER).then_some(start)
}

/// Whether an NPY header contains the object type.
fn has_object_dtype(header: &[u8]) -> bool {
    let text = String::from_utf8_lossy(header);
    let parts = text.split(['\'', '"']);
    parts.into_iter().any(|part| matches!(part.trim_start_matches(['|', '<', '>', '=']), "O" | "O8" | "O4" | "object"))
}
