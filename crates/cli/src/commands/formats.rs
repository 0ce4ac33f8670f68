//! `formats`: lists the supported formats, schemes, targets and types.

use anamnesis::{Architecture, BlockType, ConvertTarget, Format};
use serde_json::json;

use crate::exit::Failure;
use crate::ui::{Column, Page, Printer, Table};

/// Line width of lists.
const LINE_CHARS: usize = 78;
/// Indentation of every line.
const INDENT: usize = 2;

pub(super) fn run(printer: &Printer) -> Result<(), Failure> {
    // These lists are never cut, only wrapped.
    let page = printer.page();
    let page = Page { columns: page.columns.saturating_sub(INDENT), ..page };
    let wrapped = |names: &mut dyn Iterator<Item = &'static str>| wrapped(names, page.columns.min(LINE_CHARS));
    let sections = [
        ("Files", files().render(page)),
        ("Decoded", decoded().render(page)),
        ("Block types of GGUF, decoded", wrapped(&mut anamnesis::block_types().map(BlockType::name))),
        ("Recognised and refused", wrapped(&mut anamnesis::refused_schemes())),
        ("Written: amn convert --to, amn forget --to", targets().render(page)),
        ("Types of decoded weights", decoded_types().join("  ")),
        (
            "Model classes that amn convert --to gguf names like llama.cpp",
            wrapped(&mut classes(Architecture::all()).into_iter()),
        ),
        (
            "Model classes whose vision or audio tower amn convert --to gguf --mmproj writes",
            wrapped(&mut classes(Architecture::projectors()).into_iter()),
        ),
    ];
    for (index, (title, text)) in sections.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        printer.text(format_args!("{gap}{}", page.style.heading(title)))?;
        for line in text.lines() {
            printer.text(format_args!("  {line}"))?;
        }
    }
    printer.document("formats", document())
}

fn files() -> Table {
    let mut table =
        Table::new([Column::Left("FORMAT"), Column::Left("ENDINGS"), Column::Left("READ"), Column::Left("WRITTEN")]);
    let yes_no = |can: bool| if can { "yes" } else { "no" }.to_owned();
    for support in anamnesis::formats() {
        let endings: Vec<_> = support.format.extensions().iter().map(|ending| format!(".{ending}")).collect();
        let name = support.format.name().to_owned();
        table.row([name, endings.join(" "), yes_no(support.reads), yes_no(support.writes)]);
    }
    table
}

fn decoded() -> Table {
    let mut table = Table::new([Column::Left("SCHEME"), Column::Wrapped("FORMS")]);
    for scheme in anamnesis::decoded_schemes() {
        table.row([scheme.name.to_owned(), scheme.forms.to_owned()]);
    }
    table
}

fn targets() -> Table {
    let mut table =
        Table::new([Column::Left("TARGET"), Column::Left("FILE"), Column::Left("COMMANDS"), Column::Wrapped("WRITES")]);
    for target in ConvertTarget::all() {
        let (name, file, about) = (target.name(), format!(".{}", target.extension()), target.about());
        table.row([name.to_owned(), file, commands(target).join(", "), about.to_owned()]);
    }
    table
}

/// The commands that accept a target.
fn commands(target: ConvertTarget) -> &'static [&'static str] {
    if target.is_quantized() { &["convert", "forget"] } else { &["convert"] }
}

/// The names accepted by `--to` of `inspect` and `remember`.
fn decoded_types() -> Vec<String> {
    anamnesis::decoded_types().iter().map(|dtype| dtype.to_string().to_ascii_lowercase()).collect()
}

/// The model classes of transformers that architectures are for, sorted.
fn classes(of: impl Iterator<Item = &'static Architecture>) -> Vec<&'static str> {
    let mut classes: Vec<_> = of.flat_map(Architecture::classes).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Names, wrapped.
fn wrapped(names: &mut dyn Iterator<Item = &'static str>, columns: usize) -> String {
    let mut lines = vec![String::new()];
    for name in names {
        let length = lines.last().map_or(0, |line| line.chars().count());
        if length > 0 && length + 2 + name.chars().count() > columns {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            let gap = if line.is_empty() { "" } else { "  " };
            *line += &format!("{gap}{name}");
        }
    }
    lines.join("\n")
}

fn document() -> serde_json::Value {
    let name = |format: Format| format!("{format:?}").to_lowercase();
    let files = anamnesis::formats().map(|support| {
        json!({
            "format": name(support.format),
            "extensions": support.format.extensions(),
            "reads": support.reads,
            "writes": support.writes,
        })
    });
    let schemes = anamnesis::decoded_schemes().map(|scheme| json!({ "name": scheme.name, "forms": scheme.forms }));
    let blocks = anamnesis::block_types()
        .map(|block| json!({ "name": block.name(), "elements": block.block_elements(), "bytes": block.block_bytes() }));
    let targets = ConvertTarget::all().map(|target| {
        json!({
            "name": target.name(),
            "extension": target.extension(),
            "about": target.about(),
            "commands": commands(target),
        })
    });
    json!({
        "formats": files.collect::<Vec<_>>(),
        "decoded": schemes.collect::<Vec<_>>(),
        "block_types": blocks.collect::<Vec<_>>(),
        "refused": anamnesis::refused_schemes().collect::<Vec<_>>(),
        "targets": targets.collect::<Vec<_>>(),
        "decoded_types": decoded_types(),
        "model_classes": classes(Architecture::all()),
        "projector_classes": classes(Architecture::projectors()),
    })
}
