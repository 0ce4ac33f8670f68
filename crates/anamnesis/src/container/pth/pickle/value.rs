//! The values of a pickle: an arena of small nodes that refer to one another by index.
//!
//! A value that is referenced a thousand times is one node. Nodes own nothing, so values of any depth are dropped
//! without recursion. Strings stay in the pickle's bytes.

use super::id::Id;
use super::intern::{InternTable, MAX_TEXT_BYTES, MAX_TUPLE_ITEMS, Slot};
use super::memory::{BLOCK_BYTES, MemoryMeter};
use crate::error::Result;
use crate::limits::Budget;

/// A range of the pickle's bytes, or of the tuple items.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    len: u32,
}

impl Span {
    fn slice<T>(self, whole: &[T]) -> &[T] {
        let start = self.start as usize;
        &whole[start..start + self.len as usize]
    }
}

#[derive(Debug, Clone, Copy)]
enum Node {
    None,
    Bool(bool),
    Int(i64),
    Float,
    LongBytes(Span),
    LongText(Span),
    Text(Span),
    /// A Python 2 string that is valid UTF-8.
    String(Span),
    /// Text that had escapes.
    OwnedText(u32),
    Bytes(Span),
    /// Bytes that had escapes; the content is not kept.
    EscapedBytes,
    Tuple(Span),
    List(u32),
    /// A set; the items are not kept.
    Set,
    Dict(u32),
    /// Module and name.
    Global(Id, Id),
    Object(u32),
    /// The object of a persistent id.
    Persistent(Id),
    /// An out-of-band buffer.
    Buffer,
}

/// A value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'p> {
    None,
    Bool(bool),
    Int(i64),
    /// An integer of more than eight bytes.
    Long,
    Float,
    Text(&'p str),
    Bytes,
    Tuple(&'p [Id]),
    List(&'p [Id]),
    Set,
    Dict(&'p [(Id, Id)]),
    Global(Global<'p>),
    Object(&'p Object),
    Persistent(Id),
    Buffer,
}

/// A global: a module attribute that a pickle refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Global<'p> {
    pub(crate) module: &'p str,
    pub(crate) name: &'p str,
}

impl Global<'_> {
    pub(crate) fn is(&self, module: &str, name: &str) -> bool {
        self.module == module && self.name == name
    }
}

/// A byte string as encoded in the pickle.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RawBytes<'p> {
    /// Verbatim, at this offset of the pickle.
    Plain { start: u64, bytes: u64 },
    /// As Latin-1 text.
    Text { start: u64, text: &'p str },
}

/// The recorded call of a global; nothing is executed.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    /// The global.
    pub(crate) callable: Id,
    /// A tuple.
    pub(crate) args: Id,
    pub(crate) state: Option<Id>,
    /// Items and attributes, which few objects have.
    additions: Option<Box<AddedItems>>,
}

/// Items that a pickle adds to an object after its construction.
#[derive(Debug, Clone, Default)]
struct AddedItems {
    items: Vec<(Id, Id)>,
    appended: Vec<Id>,
}

impl Object {
    /// Items by key.
    pub(crate) fn items(&self) -> &[(Id, Id)] {
        self.additions.as_deref().map_or(&[], |additions| &additions.items)
    }

    /// Items in order.
    pub(crate) fn appended(&self) -> &[Id] {
        self.additions.as_deref().map_or(&[], |additions| &additions.appended)
    }
}

/// All values of a pickle.
#[derive(Debug)]
pub(crate) struct PickleValues<'a> {
    bytes: &'a [u8],
    nodes: Vec<Node>,
    tuple_items: Vec<Id>,
    lists: Vec<Vec<Id>>,
    dicts: Vec<Vec<(Id, Id)>>,
    objects: Vec<Object>,
    owned: Vec<Vec<u8>>,
    recent: InternTable,
    spent: MemoryMeter,
}

/// Shared nodes of immutable values: `None`, bools, the empty tuple, 0 to 255.
const NONE: Id = Id(0);
const FALSE: Id = Id(1);
const TRUE: Id = Id(2);
const EMPTY_TUPLE: Id = Id(3);
const FIRST_SMALL_INT: u32 = 4;

impl<'a> PickleValues<'a> {
    /// No values, and a memory limit of `max_value_bytes` bytes.
    pub(super) fn new(bytes: &'a [u8], max_value_bytes: u64) -> Self {
        let mut nodes = vec![Node::None, Node::Bool(false), Node::Bool(true), Node::Tuple(Span { start: 0, len: 0 })];
        nodes.extend((0..=255).map(Node::Int));
        Self {
            bytes,
            nodes,
            tuple_items: Vec::new(),
            lists: Vec::new(),
            dicts: Vec::new(),
            objects: Vec::new(),
            owned: Vec::new(),
            recent: InternTable::new(),
            spent: MemoryMeter::new(max_value_bytes),
        }
    }

    /// Charges memory other than values.
    pub(super) fn charge(&mut self, bytes: usize, budget: &mut Budget) -> Result<()> {
        self.spent.charge(bytes, budget)
    }

    /// Reserves capacity in a list other than values.
    pub(super) fn reserve<T>(&mut self, items: &mut Vec<T>, more: usize, budget: &mut Budget) -> Result<()> {
        self.spent.reserve(items, more, budget)
    }

    fn push(&mut self, node: Node, budget: &mut Budget) -> Result<Id> {
        self.spent.reserve(&mut self.nodes, 1, budget)?;
        // The working set holds far fewer than 2^32 nodes.
        let id = Id(self.nodes.len() as u32);
        self.nodes.push(node);
        Ok(id)
    }

    pub(super) fn none() -> Id {
        NONE
    }

    pub(super) fn bool(value: bool) -> Id {
        if value { TRUE } else { FALSE }
    }

    pub(super) fn new_int(&mut self, value: i64, budget: &mut Budget) -> Result<Id> {
        match u8::try_from(value) {
            Ok(small) => Ok(Id(FIRST_SMALL_INT + u32::from(small))),
            Err(_) => self.push(Node::Int(value), budget),
        }
    }

    pub(super) fn new_float(&mut self, budget: &mut Budget) -> Result<Id> {
        self.push(Node::Float, budget)
    }

    pub(super) fn new_buffer(&mut self, budget: &mut Budget) -> Result<Id> {
        self.push(Node::Buffer, budget)
    }

    pub(super) fn new_persistent(&mut self, pid: Id, budget: &mut Budget) -> Result<Id> {
        let slot = InternTable::slot(b'Q', [pid.0].into_iter());
        let is_same = |node| matches!(node, Node::Persistent(known) if known == pid);
        self.intern(slot, |_, node| is_same(node), |values, budget| values.push(Node::Persistent(pid), budget), budget)
    }

    /// The value in a slot if it is equal, or a new one that replaces it.
    fn intern(
        &mut self,
        slot: Slot,
        is_same: impl FnOnce(&Self, Node) -> bool,
        make: impl FnOnce(&mut Self, &mut Budget) -> Result<Id>,
        budget: &mut Budget,
    ) -> Result<Id> {
        let known = self.recent.get(slot);
        if let Some(id) = known.filter(|id| is_same(self, self.nodes[id.0 as usize])) {
            return Ok(id);
        }
        let id = make(self, budget)?;
        self.recent.set(slot, id);
        Ok(id)
    }

    /// The position of a part of the pickle's bytes.
    fn span(&self, part: &'a [u8]) -> Span {
        // The part is a slice of `bytes`, which has less than 2^32 bytes.
        Span { start: (part.as_ptr() as usize - self.bytes.as_ptr() as usize) as u32, len: part.len() as u32 }
    }

    pub(super) fn new_long_bytes(&mut self, part: &'a [u8], budget: &mut Budget) -> Result<Id> {
        self.push(Node::LongBytes(self.span(part)), budget)
    }

    pub(super) fn new_long_text(&mut self, part: &'a [u8], budget: &mut Budget) -> Result<Id> {
        self.push(Node::LongText(self.span(part)), budget)
    }

    /// A string in the pickle's bytes, which must be UTF-8.
    pub(super) fn new_text(&mut self, part: &'a [u8], budget: &mut Budget) -> Result<Id> {
        let make = |values: &mut Self, budget: &mut Budget| values.push(Node::Text(values.span(part)), budget);
        if part.len() > MAX_TEXT_BYTES {
            return make(self, budget);
        }
        let slot = InternTable::slot(b'X', part.iter().map(|&byte| byte.into()));
        let is_same = |values: &Self, node| matches!(node, Node::Text(span) if span.slice(values.bytes) == part);
        self.intern(slot, is_same, make, budget)
    }

    /// A Python 2 string that is valid UTF-8.
    pub(super) fn new_string(&mut self, part: &'a [u8], budget: &mut Budget) -> Result<Id> {
        self.push(Node::String(self.span(part)), budget)
    }

    pub(super) fn new_bytes(&mut self, part: &'a [u8], budget: &mut Budget) -> Result<Id> {
        self.push(Node::Bytes(self.span(part)), budget)
    }

    pub(super) fn new_escaped_bytes(&mut self, budget: &mut Budget) -> Result<Id> {
        self.push(Node::EscapedBytes, budget)
    }

    pub(super) fn new_owned_text(&mut self, text: String, budget: &mut Budget) -> Result<Id> {
        let index = self.own(text.into_bytes(), budget)?;
        self.push(Node::OwnedText(index), budget)
    }

    fn own(&mut self, bytes: Vec<u8>, budget: &mut Budget) -> Result<u32> {
        self.spent.charge(bytes.capacity() + BLOCK_BYTES, budget)?;
        self.spent.reserve(&mut self.owned, 1, budget)?;
        self.owned.push(bytes);
        Ok(self.owned.len() as u32 - 1)
    }

    pub(super) fn new_tuple(&mut self, items: &[Id], budget: &mut Budget) -> Result<Id> {
        if items.is_empty() {
            return Ok(EMPTY_TUPLE);
        }
        let make = |values: &mut Self, budget: &mut Budget| {
            values.spent.reserve(&mut values.tuple_items, items.len(), budget)?;
            let span = Span { start: values.tuple_items.len() as u32, len: items.len() as u32 };
            values.tuple_items.extend_from_slice(items);
            values.push(Node::Tuple(span), budget)
        };
        if items.len() > MAX_TUPLE_ITEMS {
            return make(self, budget);
        }
        // Tuples are equal if their items are identical, even if the items change later.
        let slot = InternTable::slot(b't', items.iter().map(|item| item.0));
        let is_same =
            |values: &Self, node| matches!(node, Node::Tuple(span) if span.slice(&values.tuple_items) == items);
        self.intern(slot, is_same, make, budget)
    }

    pub(super) fn new_list(&mut self, items: &[Id], budget: &mut Budget) -> Result<Id> {
        let mut list = Vec::new();
        self.spent.reserve(&mut self.lists, 1, budget)?;
        self.spent.reserve(&mut list, items.len(), budget)?;
        list.extend_from_slice(items);
        self.lists.push(list);
        self.push(Node::List(self.lists.len() as u32 - 1), budget)
    }

    pub(super) fn new_set(&mut self, budget: &mut Budget) -> Result<Id> {
        self.push(Node::Set, budget)
    }

    pub(super) fn new_dict(&mut self, budget: &mut Budget) -> Result<Id> {
        self.spent.reserve(&mut self.dicts, 1, budget)?;
        self.dicts.push(Vec::new());
        self.push(Node::Dict(self.dicts.len() as u32 - 1), budget)
    }

    /// A global. Module and name are stored once: a pickle can repeat long ones.
    pub(super) fn new_global(&mut self, module: Id, name: Id, budget: &mut Budget) -> Result<Id> {
        let slot = InternTable::slot(b'c', [module.0, name.0].into_iter());
        let is_same = |node| matches!(node, Node::Global(a, b) if (a, b) == (module, name));
        let make = |values: &mut Self, budget: &mut Budget| values.push(Node::Global(module, name), budget);
        self.intern(slot, |_, node| is_same(node), make, budget)
    }

    pub(super) fn new_object(&mut self, callable: Id, args: Id, budget: &mut Budget) -> Result<Id> {
        self.spent.reserve(&mut self.objects, 1, budget)?;
        self.objects.push(Object { callable, args, state: None, additions: None });
        self.push(Node::Object(self.objects.len() as u32 - 1), budget)
    }

    /// Appends items to a list or an object; `None` for any other value.
    pub(super) fn append(&mut self, target: Id, items: &[Id], budget: &mut Budget) -> Result<Option<()>> {
        let list = match self.nodes[target.0 as usize] {
            Node::List(index) => &mut self.lists[index as usize],
            Node::Set => return Ok(Some(())),
            Node::Object(index) => &mut additions(&mut self.objects[index as usize], &mut self.spent, budget)?.appended,
            _ => return Ok(None),
        };
        self.spent.reserve(list, items.len(), budget)?;
        list.extend_from_slice(items);
        Ok(Some(()))
    }

    /// Adds alternating keys and values to a dict or an object; `None` for any other value.
    pub(super) fn set_items(&mut self, target: Id, items: &[Id], budget: &mut Budget) -> Result<Option<()>> {
        let entries = match self.nodes[target.0 as usize] {
            Node::Dict(index) => &mut self.dicts[index as usize],
            Node::Object(index) => &mut additions(&mut self.objects[index as usize], &mut self.spent, budget)?.items,
            _ => return Ok(None),
        };
        let (pairs, _) = items.as_chunks::<2>();
        self.spent.reserve(entries, pairs.len(), budget)?;
        entries.extend(pairs.iter().map(|&[key, value]| (key, value)));
        Ok(Some(()))
    }

    /// Sets the state of an object; `None` if the value is not an object or has a state.
    pub(super) fn build(&mut self, target: Id, state: Id) -> Option<()> {
        let Node::Object(index) = self.nodes[target.0 as usize] else { return None };
        let object = &mut self.objects[index as usize];
        if object.state.is_some() {
            return None;
        }
        object.state = Some(state);
        Some(())
    }

    /// Size of the pickle in bytes.
    pub(crate) fn pickle_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// All values, including those that the pickle discarded.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        (0..self.nodes.len() as u32).map(Id)
    }

    pub(crate) fn get(&self, id: Id) -> Value<'_> {
        let text = |bytes| std::str::from_utf8(bytes).map_or(Value::Bytes, Value::Text);
        match self.nodes[id.0 as usize] {
            Node::None => Value::None,
            Node::Bool(value) => Value::Bool(value),
            Node::Int(value) => Value::Int(value),
            Node::Float => Value::Float,
            Node::LongBytes(_) | Node::LongText(_) => Value::Long,
            Node::Text(span) | Node::String(span) => text(span.slice(self.bytes)),
            Node::OwnedText(index) => text(&self.owned[index as usize]),
            Node::Bytes(_) | Node::EscapedBytes => Value::Bytes,
            Node::Tuple(span) => Value::Tuple(span.slice(&self.tuple_items)),
            Node::List(index) => Value::List(&self.lists[index as usize]),
            Node::Set => Value::Set,
            Node::Dict(index) => Value::Dict(&self.dicts[index as usize]),
            Node::Global(module, name) => {
                let [module, name] = [module, name].map(|text| self.text(text).unwrap_or_default());
                Value::Global(Global { module, name })
            }
            Node::Object(index) => Value::Object(&self.objects[index as usize]),
            Node::Persistent(pid) => Value::Persistent(pid),
            Node::Buffer => Value::Buffer,
        }
    }

    pub(crate) fn text(&self, id: Id) -> Option<&str> {
        if let Value::Text(text) = self.get(id) { Some(text) } else { None }
    }

    pub(crate) fn int(&self, id: Id) -> Option<i64> {
        if let Value::Int(value) = self.get(id) { Some(value) } else { None }
    }

    pub(crate) fn tuple(&self, id: Id) -> Option<&[Id]> {
        if let Value::Tuple(items) = self.get(id) { Some(items) } else { None }
    }

    pub(crate) fn global(&self, id: Id) -> Option<Global<'_>> {
        if let Value::Global(global) = self.get(id) { Some(global) } else { None }
    }

    /// The encoding of a byte string; `None` for any other value, or if it has escapes.
    pub(crate) fn raw_bytes(&self, id: Id) -> Option<RawBytes<'_>> {
        match self.nodes[id.0 as usize] {
            Node::Bytes(span) | Node::String(span) => {
                Some(RawBytes::Plain { start: span.start.into(), bytes: span.len.into() })
            }
            Node::Text(span) => {
                let text = std::str::from_utf8(span.slice(self.bytes)).ok()?;
                Some(RawBytes::Text { start: span.start.into(), text })
            }
            _ => None,
        }
    }

    /// An integer of up to sixteen bytes.
    pub(crate) fn wide_int(&self, id: Id) -> Option<i128> {
        match self.nodes[id.0 as usize] {
            Node::Int(value) => Some(value.into()),
            Node::LongBytes(span) => {
                let bytes = span.slice(self.bytes);
                let mut value = [if *bytes.last()? >= 0x80 { 0xff } else { 0 }; 16];
                value.get_mut(..bytes.len())?.copy_from_slice(bytes);
                Some(i128::from_le_bytes(value))
            }
            Node::LongText(span) => std::str::from_utf8(span.slice(self.bytes)).ok()?.parse().ok(),
            _ => None,
        }
    }
}

/// The added items of an object, created on first use.
fn additions<'o>(object: &'o mut Object, spent: &mut MemoryMeter, budget: &mut Budget) -> Result<&'o mut AddedItems> {
    if object.additions.is_none() {
        spent.charge(size_of::<AddedItems>() + BLOCK_BYTES, budget)?;
    }
    Ok(object.additions.get_or_insert_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_takes_sixteen_bytes() {
        assert_eq!(size_of::<Node>(), 16);
    }
}
