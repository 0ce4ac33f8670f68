//! `tree`: the tensors of a model with their names folded.

use std::collections::HashMap;

use anamnesis::{Contents, FoldedTensors};
use serde_json::{Value, json};

use super::{counted, natural, open, patterns};
use crate::args::{TreeArgs, TreeOrder};
use crate::exit::Failure;
use crate::ui::bars::{bar, percent};
use crate::ui::{Column, Printer, Table, size};

/// Characters of a bar, on a page that is wide enough and on others.
const BAR_CHARS: usize = 12;
const SHORT_BAR_CHARS: usize = 6;
/// Maximum number of lines in text.
const LINES_SHOWN: usize = 1000;

pub(super) fn run(args: &TreeArgs, printer: &Printer) -> Result<(), Failure> {
    let checkpoint = patterns::select(&args.choice, open::checkpoint(&args.input, printer)?)?;
    let contents = checkpoint.contents();
    let depth = args.depth.map(|depth| depth as usize);
    let mut folded = contents.folded(depth);
    sort(&mut folded, args.sort);
    let (odd, regular): (Vec<_>, Vec<_>) = folded.iter().partition(|entry| entry.is_odd);
    if printer.is_json() {
        return printer.document("tree", document(args, &contents, &folded));
    }
    print(&contents, &regular, depth.is_none(), args.sort, printer)?;
    if !odd.is_empty() {
        printer.text("\nOdd ones out: the same names, in other layers")?;
        print(&contents, &odd, true, args.sort, printer)?;
    }
    let tensors = counted(contents.tensors.len(), "tensor");
    let values = contents.values().map_or_else(String::new, |values| format!(", {} values", size::count(values)));
    printer.text(format_args!("\n{tensors}{values}, {}", size(contents.bytes())))
}

fn document(args: &TreeArgs, contents: &Contents<'_>, folded: &[FoldedTensors]) -> Value {
    json!({
        "path": args.input.path.to_string_lossy(),
        "tensor_count": contents.tensors.len(),
        "bytes": contents.bytes(),
        "values": contents.values(),
        "entries": folded.iter().map(|entry| entry_document(contents, entry)).collect::<Value>(),
    })
}

fn sort(folded: &mut [FoldedTensors], order: TreeOrder) {
    let by_name = |a: &FoldedTensors, b: &FoldedTensors| natural::compare(&a.pattern, &b.pattern);
    match order {
        TreeOrder::Name => folded.sort_by(by_name),
        TreeOrder::Size => folded.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| by_name(a, b))),
        TreeOrder::Count => folded.sort_by(|a, b| b.tensors.cmp(&a.tensors).then_with(|| by_name(a, b))),
    }
}

/// Prints full names if they fit the page; otherwise names that begin alike are listed under their common front.
fn print(
    contents: &Contents<'_>,
    entries: &[&FoldedTensors],
    has_shapes: bool,
    order: TreeOrder,
    printer: &Printer,
) -> Result<(), Failure> {
    let shown = entries.get(..LINES_SHOWN).unwrap_or(entries);
    let flat: Vec<Line<'_>> = shown.iter().map(|entry| Line::of(entry.pattern.clone(), &[entry])).collect();
    let mut table = Line::table(&flat, contents, has_shapes, false);
    if table.is_cut(printer.page()) {
        let items: Vec<Item<'_>> = shown.iter().map(|entry| (entry.pattern.split('.').collect(), *entry)).collect();
        let mut lines = Vec::new();
        nest(&items, 0, order, &mut lines);
        table = Line::table(&lines, contents, has_shapes, true);
    }
    printer.table(&table)?;
    match entries.len() - shown.len() {
        0 => Ok(()),
        more => printer.text(format_args!("and {more} more: --depth folds them, --json lists all")),
    }
}

/// A line of the table: folded tensors, or a front that several have in common.
struct Line<'a> {
    name: String,
    /// The tensors of a line without others under it.
    entry: Option<&'a FoldedTensors>,
    tensors: usize,
    bytes: u64,
}

impl<'a> Line<'a> {
    fn of(name: String, entries: &[&'a FoldedTensors]) -> Self {
        Self {
            name,
            entry: if let [entry] = entries { Some(entry) } else { None },
            tensors: entries.iter().map(|entry| entry.tensors).sum(),
            bytes: entries.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add),
        }
    }

    fn table(lines: &[Self], contents: &Contents<'_>, has_shapes: bool, is_narrow: bool) -> Table {
        let whole = contents.bytes();
        let width = if is_narrow { SHORT_BAR_CHARS } else { BAR_CHARS };
        let mut columns = vec![Column::Flexible("NAME")];
        columns.extend(has_shapes.then_some(Column::Left("SHAPE")));
        columns.extend([Column::Right("COUNT"), Column::Flexible("TYPE")]);
        columns.extend([Column::Right("SIZE"), Column::Left("SHARE")]);
        let mut table = Table::new(columns);
        for line in lines {
            let shape = || match line.entry {
                Some(entry) => entry.shape.as_ref().map_or_else(|| "[?]".to_owned(), |shape| format!("{shape:?}")),
                None => String::new(),
            };
            let mut cells = vec![line.name.clone()];
            cells.extend(has_shapes.then(shape));
            let mut kinds = line.entry.map_or_else(Vec::new, |entry| kinds(contents, entry));
            if is_narrow {
                // The blocks and groups of a scheme come after a comma.
                kinds.iter_mut().for_each(|kind| *kind = kind.split(',').next().unwrap_or(kind));
                kinds.dedup();
            }
            let kinds = kinds.join(", ");
            let share = format!("{} {}", percent(line.bytes, whole), bar(line.bytes, whole, width));
            cells.extend([format!("×{}", line.tensors), kinds, size(line.bytes), share]);
            table.row(cells);
        }
        table
    }
}

/// The pieces of a name that are not printed yet, and its tensors.
type Item<'a> = (Vec<&'a str>, &'a FoldedTensors);

/// Lists items under the fronts they have in common.
fn nest<'a>(items: &[Item<'a>], indent: usize, order: TreeOrder, lines: &mut Vec<Line<'a>>) {
    let mut groups: Vec<Vec<Item<'a>>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (pieces, entry) in items {
        let first = pieces.first().copied().unwrap_or_default();
        let place = *places.entry(first).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push((pieces.clone(), entry)),
            None => groups.push(vec![(pieces.clone(), entry)]),
        }
    }
    let mut groups: Vec<_> = groups.iter().map(|group| (front(group), group)).collect();
    let sum = |group: &[Item<'_>]| group.iter().map(|(_, entry)| entry.bytes).fold(0, u64::saturating_add);
    if order == TreeOrder::Size {
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(sum(group)));
    }
    for (length, group) in groups {
        let name = group.first().and_then(|(pieces, _)| pieces.get(..length)).unwrap_or_default().join(".");
        let entries: Vec<&FoldedTensors> = group.iter().map(|(_, entry)| *entry).collect();
        lines.push(Line::of(format!("{:indent$}{name}", ""), &entries));
        if group.len() > 1 {
            let rest = |(pieces, entry): &Item<'a>| (pieces.get(length..).unwrap_or_default().to_vec(), *entry);
            nest(&group.iter().map(rest).collect::<Vec<_>>(), indent + INDENT, order, lines);
        }
    }
}

/// Spaces per level.
const INDENT: usize = 2;

/// How many pieces all names of a group have in common; a name by itself is one piece.
fn front(group: &[Item<'_>]) -> usize {
    let Some((first, _)) = group.first() else { return 0 };
    let is_common = |place: &usize| group.iter().all(|(pieces, _)| pieces.get(*place) == first.get(*place));
    (0..first.len()).take_while(is_common).count().max(1)
}

fn kinds<'a>(contents: &'a Contents<'_>, entry: &FoldedTensors) -> Vec<&'a str> {
    entry.kinds.iter().filter_map(|&kind| contents.kinds.get(kind)).map(|kind| kind.name.as_str()).collect()
}

fn entry_document(contents: &Contents<'_>, entry: &FoldedTensors) -> Value {
    json!({
        "pattern": entry.pattern,
        "shape": entry.shape,
        "storage": kinds(contents, entry),
        "tensors": entry.tensors,
        "bytes": entry.bytes,
        "values": entry.values,
        "odd": entry.is_odd,
    })
}
