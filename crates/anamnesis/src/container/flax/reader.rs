//! Reading the tree of a file: the arrays with their names.

use super::array::{Array, Element};
use super::value::Head;
use crate::catalog::dtype::elements;
use crate::container::cursor::Cursor;
use crate::error::{AnamnesisError, Result, quoted};
use crate::limits::Budget;

/// Maximum depth of maps and lists.
const MAX_DEPTH: usize = 64;
const MAX_KEY_BYTES: u64 = 65_535;
/// Maximum number of arrays: a few bytes of a file are one, and each takes several hundred bytes of memory.
const FLAX_MAX_ARRAYS: usize = 1 << 18;
/// Maximum bytes of all names: each has the keys of all levels above it.
const MAX_NAMES_BYTES: u64 = 64 << 20;
const MAX_RANK: u64 = 64;
/// Maximum number of names in a note.
const MAX_NOTED: usize = 8;
/// The key that marks an array in chunks.
const CHUNKED: &str = "__msgpack_chunked_array__";

/// The leaves of a file.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) arrays: Vec<(String, Array)>,
    /// The number of values that are no arrays, and the first of their names.
    pub(super) other_leaves: usize,
    pub(super) other_names: Vec<String>,
    /// Why arrays are not read.
    pub(super) refused: Vec<String>,
}

/// An array, or the name of its type if that is not read.
type Read = std::result::Result<Array, String>;

/// The type and the pieces of an array in chunks, or the name of its type if that is not read.
type Chunks = std::result::Result<(Element, Vec<(u64, u64)>), String>;

/// A leaf or the children of a map.
enum Node {
    Array(Read),
    Other,
}

struct Reader<'c, 's, 'b> {
    cursor: &'c mut Cursor<'s>,
    budget: &'b mut Budget,
    tree: Tree,
    names_bytes: u64,
}

/// Reads a whole file.
pub(super) fn read(cursor: &mut Cursor<'_>, budget: &mut Budget) -> Result<Tree> {
    let mut reader = Reader { cursor, budget, tree: Tree::default(), names_bytes: 0 };
    match Head::read(reader.cursor)? {
        Head::Map(pairs) => reader.map("", pairs, 1)?,
        _ => return Err(AnamnesisError::parse("parameters of Flax are a map of MessagePack")),
    }
    match reader.cursor.remaining() {
        0 => Ok(reader.tree),
        bytes => Err(AnamnesisError::parse(format!("{bytes} bytes follow the map"))),
    }
}

impl Reader<'_, '_, '_> {
    /// Reads the entries of a map; `name` is that of the map itself.
    fn map(&mut self, name: &str, pairs: u64, depth: usize) -> Result<()> {
        self.check_depth(depth)?;
        for number in 0..pairs {
            let key = self.key()?;
            if key == CHUNKED && number > 0 {
                return Err(
                    AnamnesisError::parse("the mark of an array in chunks is not its first entry").in_tensor(name)
                );
            }
            if key == CHUNKED {
                let array = self.chunked(pairs).map_err(|error| error.in_tensor(name))?;
                return self.leaf(name.to_owned(), Node::Array(array));
            }
            let child = if name.is_empty() { key } else { format!("{name}.{key}") };
            self.child(child, depth)?;
        }
        Ok(())
    }

    fn check_depth(&self, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(AnamnesisError::limit("MAX_DEPTH", format!("more than {MAX_DEPTH} levels of maps and lists")));
        }
        Ok(())
    }

    /// Reads one value of a map or a list.
    fn child(&mut self, name: String, depth: usize) -> Result<()> {
        self.names_bytes += name.len() as u64;
        if self.names_bytes > MAX_NAMES_BYTES {
            let why = format!("{} bytes of names, {MAX_NAMES_BYTES} are allowed", self.names_bytes);
            return Err(AnamnesisError::limit("MAX_NAMES_BYTES", why));
        }
        match Head::read(self.cursor)? {
            Head::Map(pairs) => self.map(&name, pairs, depth + 1),
            Head::Array(items) => {
                self.check_depth(depth + 1)?;
                (0..items).try_for_each(|item| self.child(format!("{name}.{item}"), depth + 1))
            }
            head => {
                let node = self.value(head).map_err(|error| error.in_tensor(&name))?;
                self.leaf(name, node)
            }
        }
    }

    fn leaf(&mut self, name: String, node: Node) -> Result<()> {
        let tree = &mut self.tree;
        let leaves = tree.arrays.len() + tree.other_leaves + tree.refused.len() + 1;
        self.budget.items(leaves as u64, "values")?;
        self.budget.working_set((size_of::<(String, Array)>() + name.len()) as u64, "a value's entry")?;
        if tree.arrays.len() + tree.refused.len() >= FLAX_MAX_ARRAYS && matches!(node, Node::Array(_)) {
            return Err(AnamnesisError::limit("FLAX_MAX_ARRAYS", format!("more than {FLAX_MAX_ARRAYS} arrays")));
        }
        match node {
            Node::Array(Ok(array)) => tree.arrays.push((name, array)),
            Node::Array(Err(kind)) => tree.refused.push(format!("array {} has type {}", quoted(&name), quoted(&kind))),
            Node::Other => {
                tree.other_leaves += 1;
                if tree.other_names.len() < MAX_NOTED {
                    tree.other_names.push(name);
                }
            }
        }
        Ok(())
    }

    /// A value that is neither a map nor a list.
    fn value(&mut self, head: Head) -> Result<Node> {
        match head {
            Head::Extension(1 | 3, bytes) => Ok(Node::Array(self.array(bytes)?)),
            Head::Text(bytes) | Head::Bytes(bytes) | Head::Extension(_, bytes) => {
                self.cursor.jump(bytes)?;
                Ok(Node::Other)
            }
            _ => Ok(Node::Other),
        }
    }

    /// A key, which is text or seldom an integer.
    fn key(&mut self) -> Result<String> {
        match Head::read(self.cursor)? {
            Head::Text(bytes) => self.text(bytes),
            Head::Integer(number) => Ok(number.to_string()),
            _ => Err(AnamnesisError::parse("a key is neither text nor an integer")),
        }
    }

    fn text(&mut self, bytes: u64) -> Result<String> {
        if bytes > MAX_KEY_BYTES {
            let why = format!("{bytes} bytes of text, {MAX_KEY_BYTES} are allowed");
            return Err(AnamnesisError::limit("MAX_KEY_BYTES", why));
        }
        let text = str::from_utf8(self.cursor.take(bytes as usize)?);
        Ok(text.map_err(|error| AnamnesisError::parse(format!("a text is not UTF-8: {error}")))?.to_owned())
    }

    /// The array in an extension of so many bytes.
    fn array(&mut self, bytes: u64) -> Result<Read> {
        let end = self.cursor.position() + bytes;
        let fault = || AnamnesisError::parse("an array is not a shape, a type and bytes");
        let Head::Array(3) = Head::read(self.cursor)? else { return Err(fault()) };
        let Head::Array(rank) = Head::read(self.cursor)? else { return Err(fault()) };
        if rank > MAX_RANK {
            return Err(AnamnesisError::parse(format!("it has {rank} dimensions, {MAX_RANK} are allowed")));
        }
        let mut shape = Vec::with_capacity(rank as usize);
        for _ in 0..rank {
            shape.push(self.size()?);
        }
        let kind = match Head::read(self.cursor)? {
            Head::Text(bytes) | Head::Bytes(bytes) => self.text(bytes)?,
            _ => return Err(fault()),
        };
        let Head::Bytes(data) = Head::read(self.cursor)? else { return Err(fault()) };
        let start = self.cursor.position();
        if start + data != end {
            return Err(AnamnesisError::parse(format!("its data ends at byte {}, its value at {end}", start + data)));
        }
        self.cursor.jump(data)?;
        let Some(element) = Element::of(&kind) else { return Ok(Err(kind)) };
        check_size(element, &shape, data)?;
        let pieces = if data == 0 { Vec::new() } else { vec![(start, data)] };
        Ok(Ok(Array { element, shape, pieces }))
    }

    fn size(&mut self) -> Result<usize> {
        match Head::read(self.cursor)? {
            Head::Integer(size) => {
                usize::try_from(size).map_err(|_| AnamnesisError::parse(format!("a dimension is {size}")))
            }
            _ => Err(AnamnesisError::parse("a dimension is not a number")),
        }
    }

    /// An array in chunks, behind the key that marks it: its shape, and its chunks in numeric order.
    fn chunked(&mut self, pairs: u64) -> Result<Read> {
        let fault = |why: &str| AnamnesisError::parse(format!("an array in chunks {why}"));
        if Head::read(self.cursor)? != Head::Bool || pairs != 3 {
            return Err(fault("has other entries than a mark, a shape and chunks"));
        }
        let (mut shape, mut chunks) = (None, None);
        for _ in 0..2 {
            let key = self.key()?;
            let Head::Map(items) = Head::read(self.cursor)? else { return Err(fault("has an entry that is no map")) };
            match key.as_str() {
                "shape" if shape.is_none() && items <= MAX_RANK => {
                    let mut sizes = vec![None; items as usize];
                    for _ in 0..items {
                        let place = self.key()?.parse::<usize>().ok();
                        let size = self.size()?;
                        match place.and_then(|place| sizes.get_mut(place)) {
                            Some(place @ None) => *place = Some(size),
                            _ => return Err(fault("has a shape with other keys than its numbers")),
                        }
                    }
                    shape = sizes.into_iter().collect::<Option<Vec<usize>>>();
                }
                "chunks" if chunks.is_none() => chunks = Some(self.chunks(items)?),
                _ => return Err(fault("has other entries than a mark, a shape and chunks")),
            }
        }
        let (Some(shape), Some(chunks)) = (shape, chunks) else { return Err(fault("has no shape or no chunks")) };
        let (element, pieces) = match chunks {
            Ok(chunks) => chunks,
            Err(kind) => return Ok(Err(kind)),
        };
        check_size(element, &shape, pieces.iter().map(|(_, bytes)| bytes).sum())?;
        Ok(Ok(Array { element, shape, pieces }))
    }

    fn chunks(&mut self, items: u64) -> Result<Chunks> {
        let fault = |why: &str| AnamnesisError::parse(format!("an array in chunks {why}"));
        self.budget.working_set(items.saturating_mul(32), "the chunks of an array")?;
        let mut found = std::collections::BTreeMap::new();
        let mut element = None;
        for _ in 0..items {
            let number = self.key()?.parse::<u64>().map_err(|_| fault("has a chunk without a number"))?;
            let Head::Extension(1, bytes) = Head::read(self.cursor)? else { return Err(fault("has another chunk")) };
            let chunk = match self.array(bytes)? {
                Ok(chunk) => chunk,
                Err(kind) => return Ok(Err(kind)),
            };
            if element.replace(chunk.element).is_some_and(|other| other != chunk.element) {
                return Err(fault("has chunks of several types"));
            }
            if number >= items || found.insert(number, chunk.pieces).is_some() {
                return Err(fault("has chunks with other numbers than their places"));
            }
        }
        match element {
            Some(element) => Ok(Ok((element, found.into_values().flatten().collect()))),
            None => Err(fault("has no chunks")),
        }
    }
}

fn check_size(element: Element, shape: &[usize], bytes: u64) -> Result<()> {
    if elements(shape).and_then(|elements| element.dtype.byte_len(elements)) == Some(bytes) {
        return Ok(());
    }
    let dtype = element.dtype;
    Err(AnamnesisError::parse(format!("its shape {shape:?} of {dtype} does not take its {bytes} bytes")))
}
