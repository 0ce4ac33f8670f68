//! Finding the pickles of a file.

use super::probe::reaches_global;
use super::report::{ScanReport, ScannedGlobal, ScannedLanguage, ScannedPickle};
use super::scanner::PickleScanner;
use super::{keras, saved_model};
use crate::container::pth::pickle::caps::MAX_PKL_SIZE;
use crate::container::pth::{check_pickle_size, legacy};
use crate::container::zip::{Archive, Entry, behind, consecutive, read_prefix};
use crate::container::{Format, detect_format_from_bytes, hdf5, sniff, tar};
use crate::error::{AnamnesisError, Result, printable};
use crate::io::{ReadAt, SlicedSource, Source};
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
/// Extensions of files that are looked at in a directory, in lower case: pickles, formats that contain them or describe
/// Keras models, formats of weights alone, whose files may be pickles too, and packed files, which loaders unpack.
const EXTENSIONS: [&str; 30] = [
    "distcp",
    "gguf",
    "safetensors",
    "h5",
    "hdf5",
    "keras",
    "pt",
    "pth",
    "bin",
    "ckpt",
    "nemo",
    "pkl",
    "pickle",
    "joblib",
    "dill",
    "npy",
    "npz",
    "zip",
    "torchscript",
    "tar",
    "tgz",
    "gz",
    "bz2",
    "xz",
    "lzma",
    "z",
    "lz4",
    "zst",
    "7z",
    "rar",
];
/// Files of a TensorFlow SavedModel.
const SAVED_MODEL_FILES: [&str; 2] = ["saved_model.pb", "keras_metadata.pb"];
const NPY_MAGIC: &[u8] = b"\x93NUMPY";
/// The entry of a Keras archive that has its weights.
const KERAS_WEIGHTS: &str = "model.weights.h5";

pub(super) fn scan(source: &dyn Source, limits: &ParseLimits) -> Result<ScanReport> {
    let mut report = ScanReport::default();
    let (head, mut scanner) = (source.head()?, PickleScanner::new(limits));
    let found = match tar::is_tar(&head) {
        true => tar_file(source, limits, &mut scanner, &mut report),
        false => whole(source, &head, limits, &mut scanner, &mut report),
    };
    add_problem(&mut report, found, |error| error.to_string())?;
    Ok(report)
}

/// Scans a file other than a tar file, and an archive at its end.
fn whole(
    source: &dyn Source,
    head: &[u8],
    limits: &ParseLimits,
    scanner: &mut PickleScanner,
    report: &mut ScanReport,
) -> Result<()> {
    let found = content(source, head, limits, scanner, report);
    if begins_archive(head) {
        return found;
    }
    add_problem(report, found, |error| error.to_string())?;
    archive_behind(source, limits, scanner, report)
}

fn begins_archive(head: &[u8]) -> bool {
    matches!(head, [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..])
}

/// Adds a problem of the content to the report; other errors are returned.
fn add_problem(
    report: &mut ScanReport,
    found: Result<()>,
    message: impl FnOnce(AnamnesisError) -> String,
) -> Result<()> {
    match found {
        Err(AnamnesisError::Io(error)) => return Err(AnamnesisError::Io(error)),
        Err(error) => report.problems.push(message(error)),
        Ok(()) => {}
    }
    Ok(())
}

/// Scans what a file begins with.
fn content(
    source: &dyn Source,
    head: &[u8],
    limits: &ParseLimits,
    scanner: &mut PickleScanner,
    report: &mut ScanReport,
) -> Result<()> {
    if begins_archive(head) {
        return archives(source, limits, scanner, report);
    }
    if head.starts_with(NPY_MAGIC) {
        return npy_file(source, scanner, report);
    }
    // The first bytes of every format can be those of a pickle too: the length of a safetensors header, for example.
    if let Some(format) = recognised(head)
        && !reaches_global(source, limits)?
    {
        describe(report, format);
        return if format == Format::Hdf5 { hdf5_file(source, report) } else { Ok(()) };
    }
    if let Some(kind) = sniff(head).filter(|kind| kind.is_packed())
        && !reaches_global(source, limits)?
    {
        set_kind(report, "packed file")?;
        report.problems.push(format!("it is {kind}, whose content is not scanned; unpack it first"));
        return Ok(());
    }
    if saved_model::may_be(head)
        && let Some(scanned) = saved_model::scan(source)?
    {
        set_kind(report, scanned.kind)?;
        add_program(report, scanned.language, String::new(), (source.len(), scanned.names));
        return Ok(());
    }
    stream(source, legacy::is_legacy(head), limits, scanner, report)
}

/// Adds a program other than a pickle if it refers to code. A conversion does not load it.
fn add_program(
    report: &mut ScanReport,
    language: ScannedLanguage,
    name: String,
    (bytes, globals): (u64, Vec<ScannedGlobal>),
) {
    if !globals.is_empty() {
        report.pickles.push(ScannedPickle { language, name, bytes, globals, ..ScannedPickle::default() });
    }
}

/// Scans the description of a Keras model in an HDF5 file.
fn hdf5_file(source: &dyn Source, report: &mut ScanReport) -> Result<()> {
    for (name, text) in hdf5::root_texts(source, &keras::ATTRIBUTES, keras::MAX_CONFIG_BYTES)? {
        let names = keras::names(text.as_bytes())?;
        add_program(report, ScannedLanguage::KerasModel, name.to_owned(), (text.len() as u64, names));
    }
    Ok(())
}

/// Scans an archive at the end of a file of another format.
fn archive_behind(
    source: &dyn Source,
    limits: &ParseLimits,
    scanner: &mut PickleScanner,
    report: &mut ScanReport,
) -> Result<()> {
    let Some(range) = behind(source)? else { return Ok(()) };
    report.notes.push(format!("an archive follows at byte {}", range.start));
    let Some(slice) = SlicedSource::new(source, range.start, range.end - range.start) else { return Ok(()) };
    let (before, kind) = (report.pickles.len(), std::mem::take(&mut report.kind));
    let found = Archive::read(&slice, &mut Budget::new(limits))
        .and_then(|found| archive(&slice, found, limits, scanner, report));
    report.kind = kind;
    for pickle in report.pickles.iter_mut().skip(before) {
        pickle.name = format!("archive at byte {}: {}", range.start, pickle.name);
    }
    add_problem(report, found, |error| format!("the archive at the end: {error}"))
}

/// Scans the files of a tar file, and its first bytes: the name of the first file could be a pickle.
fn tar_file(
    source: &dyn Source,
    limits: &ParseLimits,
    scanner: &mut PickleScanner,
    report: &mut ScanReport,
) -> Result<()> {
    if reaches_global(source, limits)? {
        stream(source, false, limits, scanner, report)?;
    }
    set_kind(report, "tar file")?;
    let mut end = 0u64;
    for member in tar::members(source, &mut Budget::new(limits))? {
        let slice = tar::inside(source, &member)?;
        end = end.max(member.offset.saturating_add(member.bytes));
        let (head, name) = (slice.head()?, printable(&member.name, MAX_NAME_CHARS));
        let is_sure = may_hold_pickles(&member.name, &head);
        if head.is_empty() || (!is_sure && member.bytes > MAX_GUESSED_BYTES) {
            continue;
        }
        let mut inner = ScanReport::default();
        let found = match tar::is_tar(&head) {
            true => Err(AnamnesisError::unsupported("tar", "a tar file inside of a tar file is not looked into")),
            false => whole(&slice, &head, limits, scanner, &mut inner),
        };
        add_problem(report, found, |error| format!("{name}: {error}"))?;
        // Text and other files are no pickles, unless they parse as one that refers to a global.
        if is_sure || inner.pickles.iter().any(|pickle| !pickle.globals.is_empty()) {
            report.pickles.extend(inner.pickles.into_iter().map(|pickle| ScannedPickle {
                name: if pickle.name.is_empty() { name.clone() } else { format!("{name}: {}", pickle.name) },
                ..pickle
            }));
            let lines =
                |lines: Vec<String>| lines.into_iter().map(|line| format!("{name}: {line}")).collect::<Vec<_>>();
            report.problems.extend(lines(inner.problems));
            report.notes.extend(lines(inner.notes));
        }
    }
    match SlicedSource::new(source, end, source.len().saturating_sub(end)) {
        Some(rest) => archive_behind(&rest, limits, scanner, report),
        None => Ok(()),
    }
}

/// Whether a file is a pickle or can contain one, by its extension or its first bytes.
pub(super) fn may_hold_pickles(name: &str, head: &[u8]) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()))
        || matches!(head, [0x80, 0..=5, ..] | [b'P', b'K', 3 | 5, 4 | 6, ..])
        || head.starts_with(NPY_MAGIC)
        || SAVED_MODEL_FILES.contains(&name.rsplit('/').next().unwrap_or(name))
}

/// The noun for a file of a format, without its article.
fn file_of(format: Format) -> &'static str {
    let file = format.about().file;
    file.split_once(' ').map_or(file, |(_, noun)| noun)
}

/// The format that the first bytes of a file indicate, if it is one without pickles.
fn recognised(head: &[u8]) -> Option<Format> {
    if is_safetensors(head) {
        return Some(Format::Safetensors);
    }
    let format = detect_format_from_bytes(head).ok()?;
    (!matches!(format, Format::Safetensors | Format::Pth | Format::Distributed)).then_some(format)
}

/// The report of a file without pickles.
fn describe(report: &mut ScanReport, format: Format) {
    *report = ScanReport { kind: file_of(format).to_owned(), ..ScanReport::default() };
}

/// Changes the report of a file that was scanned as a pickle and is none, but of a format without pickles.
pub(super) fn describe_opened(report: &mut ScanReport, format: Format) {
    let is_pickle =
        |pickle: &ScannedPickle| pickle.problem.is_none() || !pickle.globals.is_empty() || !pickle.name.is_empty();
    if !matches!(format, Format::Pth | Format::Distributed) && !report.pickles.iter().any(is_pickle) {
        describe(report, format);
    }
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
fn archives(
    source: &dyn Source,
    limits: &ParseLimits,
    scanner: &mut PickleScanner,
    report: &mut ScanReport,
) -> Result<()> {
    set_kind(report, "ZIP archive")?;
    let whole = Archive::read(source, &mut Budget::new(limits));
    let ranges = match whole {
        Err(AnamnesisError::Parse { .. }) => consecutive(source).unwrap_or_default(),
        _ => Vec::new(),
    };
    if ranges.len() < 2 {
        return archive(source, whole?, limits, scanner, report);
    }
    for range in &ranges {
        let Some(slice) = SlicedSource::new(source, range.start, range.end - range.start) else { continue };
        let before = report.pickles.len();
        let found = Archive::read(&slice, &mut Budget::new(limits))
            .and_then(|found| archive(&slice, found, limits, scanner, report));
        for pickle in report.pickles.iter_mut().skip(before) {
            pickle.name = format!("archive at byte {}: {}", range.start, pickle.name);
        }
        add_problem(report, found, |error| format!("the archive at byte {}: {error}", range.start))?;
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
    let keras = archive.entries.iter().any(|entry| entry.name == KERAS_WEIGHTS);
    set_kind(
        report,
        match (script, has("data.pkl")) {
            (true, _) => "TorchScript archive",
            (_, true) => "PyTorch archive",
            _ if keras => file_of(Format::Keras),
            _ => "ZIP archive",
        },
    )?;
    if let Some(entry) = archive.entries.iter().find(|entry| entry.name == keras::CONFIG) {
        let found = keras_config(source, entry, keras, &budget, report);
        add_problem(report, found, |error| format!("{}: {error}", keras::CONFIG))?;
    }
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
        add_problem(report, scanned, |error| format!("{}: {error}", printable(&entry.name, MAX_NAME_CHARS)))?;
    }
    Ok(())
}

/// Scans the description of the model in an archive of Keras, or in one that may be.
fn keras_config(
    source: &dyn Source,
    entry: &Entry,
    is_keras: bool,
    budget: &Budget,
    report: &mut ScanReport,
) -> Result<()> {
    entry.check_readable("Keras", budget)?;
    if entry.bytes > keras::MAX_CONFIG_BYTES {
        let (bytes, most) = (entry.bytes, keras::MAX_CONFIG_BYTES);
        return Err(AnamnesisError::limit("scan", format!("{bytes} bytes, {most} are allowed")));
    }
    let text = read_prefix(source, entry, entry.bytes, false)?;
    match keras::names(&text) {
        Ok(names) => add_program(report, ScannedLanguage::KerasModel, entry.name.clone(), (entry.bytes, names)),
        Err(error) if is_keras => return Err(error),
        Err(_) => {}
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
fn stream(
    source: &dyn Source,
    is_legacy: bool,
    limits: &ParseLimits,
    scanner: &mut PickleScanner,
    report: &mut ScanReport,
) -> Result<()> {
    set_kind(report, if is_legacy { "PyTorch legacy stream" } else { "pickle" })?;
    if source.len() == 0 {
        return Err(AnamnesisError::parse("the file is empty"));
    }
    let mut budget = Budget::new(limits);
    if is_legacy && let Ok(stream) = legacy::Stream::read(source, legacy::PICKLES, &mut budget) {
        let pickles = (0..legacy::PICKLES).map(|index| stream.pickle(index));
        report.pickles.extend(pickles.map(|(start, bytes)| scanner.pickle(bytes, "", start as u64, false)));
        return Ok(());
    }
    let mut bytes = vec![0; source.len().min(MAX_PKL_SIZE) as usize];
    source.read_at(0, &mut bytes)?;
    let count = if is_legacy { legacy::PICKLES } else { MAX_PICKLES };
    let mut at = 0;
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

fn npy_file(source: &dyn Source, scanner: &mut PickleScanner, report: &mut ScanReport) -> Result<()> {
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
    report.pickles.push(scanner.pickle(&bytes, "", start as u64, false));
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
