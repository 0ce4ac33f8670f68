//! The graphs and functions of a model: their tensors, and the operations that read them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::element::Element;
use super::limits::{
    ONNX_MAX_DEPTH, ONNX_MAX_ENTRIES, ONNX_MAX_KEPT_BYTES, ONNX_MAX_NODES, ONNX_MAX_OPERATORS, ONNX_MAX_TENSORS, check,
};
use super::reader::{Message, Reader, wrong_type};
use super::tensor::{Sparse, Tensor};
use crate::catalog::{Metadata, MetadataValue, Note, Operand, Operation};
use crate::container::protobuf::Field;
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::Source;
use crate::limits::Budget;

/// A model whose headers have been read.
#[derive(Default)]
pub(super) struct Model {
    pub(super) ir_version: u64,
    pub(super) producer: String,
    pub(super) producer_version: String,
    pub(super) graph_name: String,
    /// The versions of the operator sets by domain.
    pub(super) opsets: Vec<(String, u64)>,
    pub(super) metadata: Metadata,
    pub(super) tensors: Vec<FoundTensor>,
    /// The operations; names of stored tensors are not known yet.
    pub(super) operations: Vec<FoundOperation>,
    /// How often each operator occurs.
    pub(super) operators: BTreeMap<Arc<str>, u64>,
    pub(super) notes: Vec<Note>,
}

/// A tensor and the place where it was found.
pub(super) struct FoundTensor {
    pub(super) place: Place,
    pub(super) name: String,
    pub(super) value: FoundValue,
}

/// The value of a tensor.
pub(super) enum FoundValue {
    Dense(Tensor),
    Sparse(Box<Sparse>),
}

/// The graph or function that contains a tensor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// `DOMAIN.NAME` of the function.
    pub(super) function: Option<Arc<str>>,
    /// Node and attribute of every graph around it, the outermost first.
    pub(super) path: Vec<(Arc<str>, Arc<str>)>,
}

/// An operation whose operands are indices.
pub(super) struct FoundOperation {
    kind: Arc<str>,
    operands: Vec<Binding>,
    settings: Vec<(String, i64)>,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binding {
    Absent,
    Tensor(u32),
    Operation(u32),
    Other,
}

impl FoundTensor {
    /// The bits that an element takes in the file; 0 if its type is not known.
    pub(super) fn bits(&self) -> u8 {
        let tensor = match &self.value {
            FoundValue::Dense(tensor) => tensor,
            FoundValue::Sparse(sparse) => &sparse.values,
        };
        Element::of(tensor.data_type).map_or(0, |element| element.bits as u8)
    }
}

/// The operations with the names of their stored operands, and the bits of their elements.
pub(super) fn named_operations(found: Vec<FoundOperation>, names: &[(Arc<str>, u8)]) -> Vec<Operation> {
    let stored = |(name, bits): &(Arc<str>, u8)| Operand::Stored { name: name.clone(), bits: *bits };
    let operand = |binding: &Binding| match binding {
        Binding::Absent => Operand::Absent,
        Binding::Tensor(index) => names.get(*index as usize).map_or(Operand::Computed, stored),
        Binding::Operation(index) => Operand::Result(*index),
        Binding::Other => Operand::Computed,
    };
    let named = |found: FoundOperation| Operation {
        kind: found.kind,
        operands: found.operands.iter().map(operand).collect(),
        settings: found.settings,
    };
    found.into_iter().map(named).collect()
}

/// Reads a model.
pub(super) fn read(source: &dyn Source, budget: &mut Budget) -> Result<Model> {
    let reader = Reader::new(source);
    let mut model = Model::default();
    let (mut graph, mut functions, mut training) = (Message::default(), Vec::new(), 0);
    reader.each(&(0..source.len()).into(), |number, field| {
        match (number, field) {
            (1, Field::Varint(version)) => model.ir_version = version,
            (2, Field::Bytes(text)) => model.producer = reader.text(text)?,
            (3, Field::Bytes(text)) => model.producer_version = reader.text(text)?,
            (7, Field::Bytes(piece)) => graph.add(piece)?,
            (8, Field::Bytes(message)) => {
                let count = model.opsets.len() as u64 + 1;
                check(count, ONNX_MAX_ENTRIES, "ONNX_MAX_ENTRIES", "the model has more operator sets")?;
                model.opsets.push(opset(&reader, message)?);
            }
            (14, Field::Bytes(message)) => {
                let count = model.metadata.len() as u64 + 1;
                check(count, ONNX_MAX_ENTRIES, "ONNX_MAX_ENTRIES", "the model has more metadata entries")?;
                let (key, value) = entry(&reader, message)?;
                budget.working_set((key.len() + value.len()) as u64, "the metadata")?;
                model.metadata.insert(key, MetadataValue::String(value));
            }
            (20, _) => training += 1,
            (25, Field::Bytes(message)) => {
                let count = functions.len() as u64 + 1;
                check(count, ONNX_MAX_ENTRIES, "ONNX_MAX_ENTRIES", "the model has more functions")?;
                functions.push(message);
            }
            (1 | 2 | 3 | 7 | 8 | 14 | 25, _) => return Err(wrong_type("model", number)),
            _ => {}
        }
        Ok(())
    })?;
    if !graph.is_given() {
        return Err(AnamnesisError::parse("the model has no graph"));
    }
    if training > 0 {
        model.notes.push(Note::new("the graphs of the training information were not read"));
    }
    let mut walk = Walk { reader: &reader, model, budget, scopes: Vec::new(), nodes: 0, kept_bytes: 0, others: 0 };
    walk.graph(&graph, &Kind::GRAPH, &Place::default(), 0)?;
    for function in functions {
        walk.function(function.into())?;
    }
    let Walk { mut model, others, .. } = walk;
    if others > 0 {
        model.notes.push(Note::new(format!("{others} tensors in attributes of operators were not read")));
    }
    Ok(model)
}

fn opset(reader: &Reader<'_>, message: Range<u64>) -> Result<(String, u64)> {
    let (mut domain, mut version) = (String::new(), 0);
    reader.each(&message.into(), |number, field| {
        match (number, field) {
            (1, Field::Bytes(text)) => domain = reader.text(text)?,
            (2, Field::Varint(number)) => version = number,
            _ => {}
        }
        Ok(())
    })?;
    Ok((domain, version))
}

/// A key and a value.
fn entry(reader: &Reader<'_>, message: Range<u64>) -> Result<(String, String)> {
    let (mut key, mut value) = (String::new(), String::new());
    reader.each(&message.into(), |number, field| {
        match (number, field) {
            (1, Field::Bytes(text)) => key = reader.text(text)?,
            (2, Field::Bytes(text)) => value = reader.text(text)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, value))
}

/// The fields of a graph or of a function.
struct Kind {
    nodes: u64,
    tensors: Option<u64>,
    sparse: Option<u64>,
    /// The inputs: names, or messages that contain one.
    inputs: u64,
    inputs_are_names: bool,
}

impl Kind {
    const GRAPH: Self = Self { nodes: 1, tensors: Some(5), sparse: Some(15), inputs: 11, inputs_are_names: false };
    const FUNCTION: Self = Self { nodes: 7, tensors: None, sparse: None, inputs: 4, inputs_are_names: true };
}

/// The state of reading graphs.
struct Walk<'r, 's> {
    reader: &'r Reader<'s>,
    model: Model,
    budget: &'r mut Budget,
    /// The names of this graph and of those around it, the innermost last.
    scopes: Vec<HashMap<String, Binding>>,
    nodes: u64,
    kept_bytes: u64,
    /// Tensors in attributes of operators other than `Constant`.
    others: u64,
}

/// Bytes of a kept entry, without its texts.
const ENTRY_BYTES: u64 = 160;

impl Walk<'_, '_> {
    /// Charges a kept entry with texts of `bytes` bytes.
    fn keep(&mut self, bytes: usize) -> Result<()> {
        self.kept_bytes += bytes as u64;
        check(self.kept_bytes, ONNX_MAX_KEPT_BYTES, "ONNX_MAX_KEPT_BYTES", "the names take more bytes")?;
        self.budget.working_set(ENTRY_BYTES + bytes as u64, "the graph")
    }

    fn bind(&mut self, name: String, binding: Binding) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, binding);
        }
    }

    fn find(&self, name: &str) -> Binding {
        match name {
            "" => Binding::Absent,
            name => self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied().unwrap_or(Binding::Other),
        }
    }

    fn add_tensor(&mut self, place: &Place, name: String, value: FoundValue) -> Result<()> {
        let index = self.model.tensors.len() as u64;
        check(index + 1, ONNX_MAX_TENSORS, "ONNX_MAX_TENSORS", "the model has more tensors")?;
        self.budget.items(index + 1, "tensors")?;
        self.keep(2 * name.len())?;
        if name.is_empty() {
            return Err(AnamnesisError::parse("a tensor of the graph has no name"));
        }
        self.bind(name.clone(), Binding::Tensor(index as u32));
        self.model.tensors.push(FoundTensor { place: place.clone(), name, value });
        Ok(())
    }

    fn function(&mut self, message: Message) -> Result<()> {
        let (mut name, mut domain) = (String::new(), String::new());
        let reader = self.reader;
        reader.each(&message, |number, field| {
            match (number, field) {
                (1, Field::Bytes(text)) => name = reader.text(text)?,
                (10, Field::Bytes(text)) => domain = reader.text(text)?,
                _ => {}
            }
            Ok(())
        })?;
        let function = if domain.is_empty() { name } else { format!("{domain}.{name}") };
        let place = Place { function: Some(function.into()), path: Vec::new() };
        self.graph(&message, &Kind::FUNCTION, &place, 0)
    }

    /// Reads the tensors of a graph, then its nodes: a node may read any tensor of its graph.
    fn graph(&mut self, message: &Message, kind: &Kind, place: &Place, depth: usize) -> Result<()> {
        check(depth as u64, ONNX_MAX_DEPTH as u64, "ONNX_MAX_DEPTH", "graphs are nested more deeply")?;
        self.scopes.push(HashMap::new());
        let reader = self.reader;
        reader.each(message, |number, field| match field {
            Field::Bytes(piece) if Some(number) == kind.tensors => {
                let tensor = Tensor::read(reader, piece.into())?;
                self.add_tensor(place, tensor.name.clone(), FoundValue::Dense(tensor))
            }
            Field::Bytes(piece) if Some(number) == kind.sparse => {
                let sparse = Sparse::read(reader, &piece.into())?;
                self.add_tensor(place, sparse.values.name.clone(), FoundValue::Sparse(Box::new(sparse)))
            }
            Field::Bytes(piece) if number == kind.inputs && (depth > 0 || place.function.is_some()) => {
                let name = if kind.inputs_are_names { reader.text(piece)? } else { entry_name(reader, piece)? };
                self.keep(name.len())?;
                self.bind(name, Binding::Other);
                Ok(())
            }
            Field::Bytes(piece) if number == kind.nodes => {
                self.nodes += 1;
                check(self.nodes, ONNX_MAX_NODES, "ONNX_MAX_NODES", "the model has more nodes")?;
                self.constant(piece.into(), place)
            }
            Field::Bytes(text) if number == 2 && depth == 0 && place.function.is_none() => {
                self.model.graph_name = reader.text(text)?;
                Ok(())
            }
            _ if number == kind.nodes || Some(number) == kind.tensors || Some(number) == kind.sparse => {
                Err(wrong_type("graph", number))
            }
            _ => Ok(()),
        })?;
        reader.each(message, |number, field| match field {
            Field::Bytes(piece) if number == kind.nodes => self.node(piece.into(), place, depth),
            _ => Ok(()),
        })?;
        self.scopes.pop();
        Ok(())
    }

    /// Adds the tensor of a `Constant` node under the name of the node's output.
    fn constant(&mut self, message: Message, place: &Place) -> Result<()> {
        let reader = self.reader;
        let (mut operator, mut domain) = (None, None);
        reader.each(&message, |number, field| {
            match (number, field) {
                (4, Field::Bytes(text)) => operator = Some(text),
                (7, Field::Bytes(text)) => domain = Some(text),
                _ => {}
            }
            Ok(())
        })?;
        let length = |text: &Option<Range<u64>>| text.as_ref().map_or(0, |text| text.end - text.start);
        if length(&operator) != CONSTANT.len() as u64 || length(&domain) > DEFAULT_DOMAIN.len() as u64 {
            return Ok(());
        }
        let text = |range: Option<Range<u64>>| range.map_or(Ok(String::new()), |range| reader.text(range));
        if text(operator)? != CONSTANT || !is_default(&text(domain)?) {
            return Ok(());
        }
        let node = Node::read(reader, &message)?;
        let output = node.outputs.into_iter().next().unwrap_or_default();
        for attribute in node.attributes {
            let value = match attribute.name.as_str() {
                "value" if attribute.tensor.is_given() => FoundValue::Dense(Tensor::read(reader, attribute.tensor)?),
                "sparse_value" if attribute.sparse.is_given() => {
                    FoundValue::Sparse(Box::new(Sparse::read(reader, &attribute.sparse)?))
                }
                _ => continue,
            };
            return self.add_tensor(place, output, value);
        }
        Ok(())
    }

    /// Counts a node, keeps it if it reads a stored tensor, and reads the graphs in its attributes.
    fn node(&mut self, message: Message, place: &Place, depth: usize) -> Result<()> {
        let reader = self.reader;
        let node = Node::read(reader, &message)?;
        let kind = match is_default(&node.domain) {
            true => node.operator.clone(),
            false => format!("{}.{}", node.domain, node.operator),
        };
        let kind = self.count(&kind)?;
        if *kind == *CONSTANT {
            return Ok(());
        }
        for attribute in &node.attributes {
            let is_tensor = attribute.tensor.is_given() || attribute.sparse.is_given() || attribute.tensors > 0;
            self.others += u64::from(is_tensor && *kind != *FILL);
        }
        let operands: Vec<Binding> = node.inputs.iter().map(|name| self.find(name)).collect();
        if operands.iter().any(|operand| matches!(operand, Binding::Tensor(_))) {
            let index = self.model.operations.len() as u32;
            let integers =
                node.attributes.iter().filter_map(|attribute| Some((attribute.name.clone(), attribute.integer?)));
            let settings: Vec<_> = integers.take(MAX_SETTINGS).collect();
            let texts: usize = settings.iter().map(|(name, _)| name.len()).sum();
            let outputs: usize = node.outputs.iter().map(String::len).sum();
            self.keep(texts + outputs + operands.len() * size_of::<Operand>())?;
            for output in node.outputs.into_iter().filter(|output| !output.is_empty()) {
                self.bind(output, Binding::Operation(index));
            }
            self.model.operations.push(FoundOperation { kind, operands, settings });
        }
        let first = |names: &[String]| names.iter().find(|name| !name.is_empty()).cloned();
        let outer: Arc<str> =
            if node.name.is_empty() { first(&node.first_outputs).unwrap_or_default() } else { node.name }.into();
        for attribute in node.attributes {
            for graph in attribute.graphs {
                let mut inner = place.clone();
                inner.path.push((outer.clone(), attribute.name.as_str().into()));
                self.graph(&graph, &Kind::GRAPH, &inner, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Counts an operator, and returns its name.
    fn count(&mut self, kind: &str) -> Result<Arc<str>> {
        if let Some((known, _)) = self.model.operators.get_key_value(kind) {
            let known = known.clone();
            *self.model.operators.entry(known.clone()).or_default() += 1;
            return Ok(known);
        }
        if self.model.operators.len() == ONNX_MAX_OPERATORS {
            let message = format!("the model has more than {ONNX_MAX_OPERATORS} operators, {} is one", quoted(kind));
            return Err(AnamnesisError::limit("ONNX_MAX_OPERATORS", message));
        }
        self.keep(kind.len())?;
        let kind: Arc<str> = kind.into();
        self.model.operators.insert(kind.clone(), 1);
        Ok(kind)
    }
}

/// The operator whose tensors are stored ones.
const CONSTANT: &str = "Constant";
/// The operator whose tensor is the value of every element.
const FILL: &str = "ConstantOfShape";
/// Another name of the default domain.
const DEFAULT_DOMAIN: &str = "ai.onnx";
/// Maximum number of integer attributes of an operation that are kept.
const MAX_SETTINGS: usize = 64;
/// Maximum number of inputs, outputs or attributes of a node.
const MAX_NODE_ITEMS: usize = 1 << 16;

fn is_default(domain: &str) -> bool {
    domain.is_empty() || domain == DEFAULT_DOMAIN
}

fn entry_name(reader: &Reader<'_>, message: Range<u64>) -> Result<String> {
    let mut name = String::new();
    reader.each(&message.into(), |number, field| {
        if let (1, Field::Bytes(text)) = (number, field) {
            name = reader.text(text)?;
        }
        Ok(())
    })?;
    Ok(name)
}

/// A node.
#[derive(Default)]
struct Node {
    name: String,
    operator: String,
    domain: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    /// The first output, for a node without a name.
    first_outputs: Vec<String>,
    attributes: Vec<Attribute>,
}

/// An attribute of a node.
#[derive(Default)]
struct Attribute {
    name: String,
    integer: Option<i64>,
    tensor: Message,
    sparse: Message,
    /// Number of tensors in a list.
    tensors: u64,
    graphs: Vec<Message>,
}

impl Node {
    fn read(reader: &Reader<'_>, message: &Message) -> Result<Self> {
        let mut node = Self::default();
        reader.each(message, |number, field| {
            let Field::Bytes(range) = field else {
                return if (1..=5).contains(&number) { Err(wrong_type("node", number)) } else { Ok(()) };
            };
            match number {
                1 => node.inputs.push(reader.text(range)?),
                2 => node.outputs.push(reader.text(range)?),
                3 => node.name = reader.text(range)?,
                4 => node.operator = reader.text(range)?,
                5 => node.attributes.push(Attribute::read(reader, range)?),
                7 => node.domain = reader.text(range)?,
                _ => {}
            }
            let items = node.inputs.len().max(node.outputs.len()).max(node.attributes.len());
            check(
                items as u64,
                MAX_NODE_ITEMS as u64,
                "MAX_NODE_ITEMS",
                "a node has more inputs, outputs or attributes",
            )
        })?;
        node.first_outputs = node.outputs.iter().take(1).cloned().collect();
        Ok(node)
    }
}

impl Attribute {
    fn read(reader: &Reader<'_>, message: Range<u64>) -> Result<Self> {
        let mut attribute = Self::default();
        let mut graph = Message::default();
        reader.each(&message.into(), |number, field| {
            match (number, field) {
                (1, Field::Bytes(text)) => attribute.name = reader.text(text)?,
                (3, Field::Varint(integer)) => attribute.integer = Some(integer.cast_signed()),
                (5, Field::Bytes(piece)) => attribute.tensor.add(piece)?,
                (6, Field::Bytes(piece)) => graph.add(piece)?,
                (10 | 23, Field::Bytes(_)) => attribute.tensors += 1,
                (11, Field::Bytes(piece)) => {
                    check(
                        attribute.graphs.len() as u64,
                        MAX_NODE_ITEMS as u64,
                        "MAX_NODE_ITEMS",
                        "a node has more graphs",
                    )?;
                    attribute.graphs.push(piece.into());
                }
                (22, Field::Bytes(piece)) => attribute.sparse.add(piece)?,
                (1 | 3 | 5 | 6 | 11 | 22, _) => return Err(wrong_type("attribute", number)),
                _ => {}
            }
            Ok(())
        })?;
        if graph.is_given() {
            attribute.graphs.insert(0, graph);
        }
        Ok(attribute)
    }
}
