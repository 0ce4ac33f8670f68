//! The stack machine: executes a pickle's instructions without importing or calling anything.
//!
//! Where Python would call, an [`Object`](super::value::Object) records callable and arguments. Every global is
//! reported to a [`Watcher`] first.

use std::collections::HashMap;

use super::caps::{MAX_PICKLE_MARK_DEPTH, MAX_PICKLE_WORKING_SET};
use super::id::Id;
use super::opcodes::{Op, Reader, malformed};
use super::text::{unescaped_text, unquoted_string};
use super::value::{PickleValues, Value};
use crate::error::{AnamnesisError, Result, quoted};
use crate::limits::Budget;

/// Observer of a pickle's globals and malformed instructions; an error stops the machine.
pub(crate) trait Watcher {
    /// A global is referenced by the instruction at `position`.
    fn global(&mut self, module: &str, name: &str, position: usize) -> Result<()>;

    /// An instruction is malformed. On `Ok` it is skipped.
    fn malformed(&mut self, error: AnamnesisError) -> Result<()> {
        Err(error)
    }
}

/// The highest protocol version.
const MAX_PROTOCOL: u8 = 5;
/// Maximum bytes of a sparse memo entry.
const SPARSE_ENTRY_BYTES: usize = 40;

/// A parsed pickle.
#[derive(Debug)]
pub(crate) struct Pickle<'a> {
    pub(crate) values: PickleValues<'a>,
    /// The root value; `None` if malformed instructions were skipped and none is left.
    pub(crate) root: Option<Id>,
    /// Bytes up to and including `STOP`.
    pub(crate) bytes: usize,
}

/// Parses the pickle at the start of `bytes`.
pub(crate) fn read<'a>(bytes: &'a [u8], watcher: &mut dyn Watcher, budget: &mut Budget) -> Result<Pickle<'a>> {
    read_within(bytes, MAX_PICKLE_WORKING_SET, watcher, budget)
}

/// [`read`] with a memory limit for its values.
pub(crate) fn read_within<'a>(
    bytes: &'a [u8],
    max_value_bytes: u64,
    watcher: &mut dyn Watcher,
    budget: &mut Budget,
) -> Result<Pickle<'a>> {
    let mut machine = Machine {
        reader: Reader::new(bytes),
        values: PickleValues::new(bytes, max_value_bytes),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Memo::default(),
        frame_end: 0,
        watcher,
        budget,
    };
    loop {
        let start = machine.reader.position();
        let op = machine.reader.next()?;
        if let Err(error) = machine.check_frame(op, start) {
            machine.watcher.malformed(error)?;
        }
        if op == Op::Stop {
            let root = machine.pop(start);
            let root = match root {
                Ok(root) => Some(root),
                Err(error) => {
                    machine.watcher.malformed(error)?;
                    None
                }
            };
            let bytes = machine.reader.position();
            return Ok(Pickle { values: machine.values, root, bytes });
        }
        if let Err(error) = machine.step(op, start) {
            match error {
                AnamnesisError::Parse { .. } => machine.watcher.malformed(error)?,
                other => return Err(other),
            }
        }
    }
}

/// The memo. Indices are nearly always consecutive, so that an entry takes four bytes.
#[derive(Debug, Default)]
struct Memo {
    dense: Vec<Id>,
    sparse: HashMap<u64, Id>,
    /// Number of entries, and the index of the next `MEMOIZE`.
    count: u64,
}

impl Memo {
    fn get(&self, index: u64) -> Option<Id> {
        let dense = usize::try_from(index).ok().and_then(|index| self.dense.get(index));
        dense.or_else(|| self.sparse.get(&index)).copied()
    }

    /// Whether `index` is the next consecutive one.
    fn is_next(&self, index: u64) -> bool {
        index == self.dense.len() as u64
    }

    fn put(&mut self, index: u64, id: Id) {
        if self.get(index).is_none() {
            self.count += 1;
        }
        let place = usize::try_from(index).unwrap_or(usize::MAX);
        if let Some(entry) = self.dense.get_mut(place) {
            *entry = id;
        } else if place == self.dense.len() {
            self.dense.push(id);
        } else {
            self.sparse.insert(index, id);
        }
    }
}

struct Machine<'a, 'w> {
    reader: Reader<'a>,
    values: PickleValues<'a>,
    stack: Vec<Id>,
    /// Stack heights at the marks.
    marks: Vec<usize>,
    memo: Memo,
    /// End of the last frame.
    frame_end: usize,
    watcher: &'w mut dyn Watcher,
    budget: &'w mut Budget,
}

impl<'a> Machine<'a, '_> {
    fn step(&mut self, op: Op<'a>, at: usize) -> Result<()> {
        let id = match op {
            Op::Proto(version) if version > MAX_PROTOCOL => {
                let why = format!("protocol {version}, {MAX_PROTOCOL} is the highest");
                return Err(malformed(at, &why));
            }
            Op::Proto(_) | Op::Frame(_) | Op::Stop => return Ok(()),
            Op::Mark => return self.mark(),
            Op::Pop => return self.discard(at),
            Op::PopMark => {
                let start = self.pop_mark(at)?;
                self.stack.truncate(start);
                return Ok(());
            }
            Op::Dup => self.top(at)?,
            Op::None => PickleValues::none(),
            Op::Bool(value) => PickleValues::bool(value),
            Op::Int(value) => self.values.new_int(value, self.budget)?,
            Op::LongBytes(bytes) => self.values.new_long_bytes(bytes, self.budget)?,
            Op::LongText(digits) => self.values.new_long_text(digits, self.budget)?,
            Op::Float(_) => self.values.new_float(self.budget)?,
            Op::Text(bytes) => self.text(bytes, at)?,
            Op::EscapedText(line) => {
                let text = unescaped_text(line, at)?;
                self.values.new_owned_text(text, self.budget)?
            }
            Op::String(bytes) => self.string(bytes)?,
            Op::QuotedString(line) => match String::from_utf8(unquoted_string(line, at)?) {
                Ok(text) => self.values.new_owned_text(text, self.budget)?,
                Err(_) => self.values.new_escaped_bytes(self.budget)?,
            },
            Op::Bytes(bytes) | Op::ByteArray(bytes) => {
                self.budget.buffer(bytes.len() as u64, "a byte string of the pickle")?;
                self.values.new_bytes(bytes, self.budget)?
            }
            Op::NextBuffer => self.values.new_buffer(self.budget)?,
            Op::ReadonlyBuffer => return self.top(at).map(drop),
            Op::TupleOf(count) => {
                let start = self.below(count, at)?;
                self.tuple(start)?
            }
            Op::Tuple => {
                let start = self.pop_mark(at)?;
                self.tuple(start)?
            }
            Op::EmptyList => self.values.new_list(&[], self.budget)?,
            Op::List => {
                let start = self.pop_mark(at)?;
                let list = self.values.new_list(&self.stack[start..], self.budget)?;
                self.stack.truncate(start);
                list
            }
            Op::EmptySet => self.values.new_set(self.budget)?,
            Op::FrozenSet => {
                let start = self.pop_mark(at)?;
                self.stack.truncate(start);
                self.values.new_set(self.budget)?
            }
            Op::EmptyDict => self.values.new_dict(self.budget)?,
            Op::Dict => {
                let start = self.pop_mark(at)?;
                let dict = self.values.new_dict(self.budget)?;
                self.set_items(dict, start, at)?;
                dict
            }
            Op::Append => {
                let start = self.below(1, at)?;
                return self.append(start, at);
            }
            Op::Appends | Op::AddItems => {
                let start = self.pop_mark(at)?;
                return self.append(start, at);
            }
            Op::SetItem => {
                let start = self.below(2, at)?;
                let target = self.under(start, at)?;
                return self.set_items(target, start, at);
            }
            Op::SetItems => {
                let start = self.pop_mark(at)?;
                let target = self.under(start, at)?;
                return self.set_items(target, start, at);
            }
            Op::Get(index) => {
                let found = self.memo.get(index);
                found.ok_or_else(|| malformed(at, &format!("memo entry {index} does not exist")))?
            }
            Op::Put(index) => return self.put(index, at),
            Op::Memoize => return self.put(self.memo.count, at),
            Op::Global(module, name) => self.named_global(module, name, at)?,
            Op::StackGlobal => self.stack_global(at)?,
            Op::Inst(module, name) => {
                let class = self.named_global(module, name, at)?;
                let start = self.pop_mark(at)?;
                let args = self.tuple(start)?;
                self.values.new_object(class, args, self.budget)?
            }
            Op::Obj => {
                let start = self.pop_mark(at)?;
                let class = self.stack.get(start).copied();
                let class = class.ok_or_else(|| malformed(at, "an object without a class"))?;
                let args = self.tuple(start + 1)?;
                self.stack.truncate(start);
                self.object(class, args, at)?
            }
            Op::Reduce | Op::NewObj => {
                let args = self.pop(at)?;
                let callable = self.pop(at)?;
                self.object(callable, args, at)?
            }
            Op::NewObjEx => {
                let named = self.pop(at)?;
                let args = self.pop(at)?;
                let class = self.pop(at)?;
                if !matches!(self.values.get(named), Value::Dict([])) {
                    return Err(malformed(at, "an object with arguments by name"));
                }
                self.object(class, args, at)?
            }
            Op::Build => return self.build(at),
            Op::Ext(code) => self.extension(code, at)?,
            Op::PersId(line) => {
                let pid = self.string(line)?;
                self.values.new_persistent(pid, self.budget)?
            }
            Op::BinPersId => {
                let pid = self.pop(at)?;
                self.values.new_persistent(pid, self.budget)?
            }
        };
        self.push(id)
    }

    /// Checks an instruction against the frames: they do not overlap, end inside the pickle, and no instruction
    /// crosses the end of one.
    fn check_frame(&mut self, op: Op<'_>, start: usize) -> Result<()> {
        let (end, frame_end) = (self.reader.position(), self.frame_end);
        if let Op::Frame(bytes) = op {
            if start < frame_end {
                return Err(malformed(start, &format!("a frame inside another, which ends at byte {frame_end}")));
            }
            let left = self.reader.left();
            let inside = usize::try_from(bytes).ok().filter(|&bytes| bytes <= left);
            let inside = inside.ok_or_else(|| malformed(start, &format!("a frame of {bytes} bytes, {left} follow")))?;
            self.frame_end = end + inside;
        } else if start < frame_end && end > frame_end {
            return Err(malformed(start, &format!("an instruction that ends at byte {end}, its frame at {frame_end}")));
        } else if op == Op::Stop && end < frame_end {
            return Err(malformed(
                start,
                &format!("the end of the pickle inside a frame, which ends at byte {frame_end}"),
            ));
        }
        Ok(())
    }

    fn push(&mut self, id: Id) -> Result<()> {
        self.values.reserve(&mut self.stack, 1, self.budget)?;
        self.stack.push(id);
        Ok(())
    }

    /// The stack height of the last mark, below which nothing may be popped.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    /// The stack height without its `count` topmost values.
    fn below(&self, count: usize, at: usize) -> Result<usize> {
        let start = self.stack.len().checked_sub(count).filter(|&start| start >= self.floor());
        start.ok_or_else(|| malformed(at, "an instruction that needs more values than the stack has"))
    }

    fn pop(&mut self, at: usize) -> Result<Id> {
        self.below(1, at)?;
        self.stack.pop().ok_or_else(|| malformed(at, "the stack is empty"))
    }

    fn top(&self, at: usize) -> Result<Id> {
        let start = self.below(1, at)?;
        Ok(self.stack[start])
    }

    /// The value below `start`, the target of the values above.
    fn under(&self, start: usize, at: usize) -> Result<Id> {
        let target = start.checked_sub(1).filter(|&place| place >= self.floor());
        target.map(|place| self.stack[place]).ok_or_else(|| malformed(at, "items without a container"))
    }

    fn mark(&mut self) -> Result<()> {
        if self.marks.len() == MAX_PICKLE_MARK_DEPTH {
            let message = format!("more than {MAX_PICKLE_MARK_DEPTH} marks are open in the pickle");
            return Err(AnamnesisError::limit("MAX_PICKLE_MARK_DEPTH", message));
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn pop_mark(&mut self, at: usize) -> Result<usize> {
        self.marks.pop().ok_or_else(|| malformed(at, "no open mark"))
    }

    /// `POP` removes a value, or the mark if there is no value above it.
    fn discard(&mut self, at: usize) -> Result<()> {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop(at).map(drop)
    }

    fn put(&mut self, index: u64, at: usize) -> Result<()> {
        let top = self.top(at)?;
        match self.memo.is_next(index) {
            true => self.values.reserve(&mut self.memo.dense, 1, self.budget)?,
            false if self.memo.get(index).is_none() => self.values.charge(SPARSE_ENTRY_BYTES, self.budget)?,
            false => {}
        }
        self.memo.put(index, top);
        Ok(())
    }

    fn text(&mut self, bytes: &'a [u8], at: usize) -> Result<Id> {
        self.budget.buffer(bytes.len() as u64, "a text of the pickle")?;
        if std::str::from_utf8(bytes).is_err() {
            return Err(malformed(at, "a text that is not UTF-8"));
        }
        self.values.new_text(bytes, self.budget)
    }

    /// A Python 2 string: text if it is valid UTF-8.
    fn string(&mut self, bytes: &'a [u8]) -> Result<Id> {
        self.budget.buffer(bytes.len() as u64, "a string of the pickle")?;
        match std::str::from_utf8(bytes) {
            Ok(_) => self.values.new_string(bytes, self.budget),
            Err(_) => self.values.new_bytes(bytes, self.budget),
        }
    }

    fn tuple(&mut self, start: usize) -> Result<Id> {
        let tuple = self.values.new_tuple(&self.stack[start..], self.budget)?;
        self.stack.truncate(start);
        Ok(tuple)
    }

    fn append(&mut self, start: usize, at: usize) -> Result<()> {
        let target = self.under(start, at)?;
        let taken = self.values.append(target, &self.stack[start..], self.budget)?;
        self.stack.truncate(start);
        taken.ok_or_else(|| malformed(at, "items for a value that is not a list"))
    }

    /// Stores the keys and values from `start` on in `target`.
    fn set_items(&mut self, target: Id, start: usize, at: usize) -> Result<()> {
        if !(self.stack.len() - start).is_multiple_of(2) {
            return Err(malformed(at, "a key without a value"));
        }
        let taken = self.values.set_items(target, &self.stack[start..], self.budget)?;
        self.stack.truncate(start);
        taken.ok_or_else(|| malformed(at, "keys and values for a value that is not a dict"))
    }

    fn named_global(&mut self, module: &'a [u8], name: &'a [u8], at: usize) -> Result<Id> {
        let (module, name) = (self.name(module)?, self.name(name)?);
        self.global(module, name, at)
    }

    /// Invalid UTF-8 cannot name anything; it is reported with replacement characters.
    fn name(&mut self, bytes: &'a [u8]) -> Result<Id> {
        match std::str::from_utf8(bytes) {
            Ok(_) => self.values.new_text(bytes, self.budget),
            Err(_) => self.values.new_owned_text(String::from_utf8_lossy(bytes).into_owned(), self.budget),
        }
    }

    fn stack_global(&mut self, at: usize) -> Result<Id> {
        let start = self.below(2, at)?;
        let mut names = [self.stack[start], self.stack[start + 1]];
        self.stack.truncate(start);
        for name in &mut names {
            // A name that is the result of a call is unknown.
            if self.values.text(*name).is_none() {
                *name = self.values.new_owned_text("(not a text)".to_owned(), self.budget)?;
            }
        }
        self.global(names[0], names[1], at)
    }

    fn extension(&mut self, code: u32, at: usize) -> Result<Id> {
        let module = self.values.new_owned_text("copyreg".to_owned(), self.budget)?;
        let name = self.values.new_owned_text(format!("extension {code}"), self.budget)?;
        self.global(module, name, at)
    }

    /// A global, by the ids of its module and name.
    fn global(&mut self, module: Id, name: Id, at: usize) -> Result<Id> {
        let [module_text, name_text] = [module, name].map(|text| self.values.text(text).unwrap_or_default());
        self.watcher.global(module_text, name_text, at)?;
        self.values.new_global(module, name, self.budget)
    }

    fn object(&mut self, callable: Id, args: Id, at: usize) -> Result<Id> {
        if self.values.global(callable).is_none() {
            return Err(malformed(at, "a call of a value that is not a global"));
        }
        if self.values.tuple(args).is_none() {
            return Err(malformed(at, "a call whose arguments are not a tuple"));
        }
        self.values.new_object(callable, args, self.budget)
    }

    fn build(&mut self, at: usize) -> Result<()> {
        let state = self.pop(at)?;
        let target = self.top(at)?;
        if let Value::Global(global) = self.values.get(target) {
            let why = format!("a state for {} itself", quoted(&format!("{}.{}", global.module, global.name)));
            return Err(malformed(at, &why));
        }
        self.values.build(target, state).ok_or_else(|| malformed(at, "a state for a value that does not accept one"))
    }
}
