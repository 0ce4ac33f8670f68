//! The facts of a model for display: IR version, producer, operator sets, operators.

use super::graph::Model;
use crate::catalog::{Facts, Subject};

/// Operators that are listed by name; the rest are counted.
const MAX_LISTED: usize = 24;
/// The name of the default domain.
const DEFAULT: &str = "ai.onnx";

pub(super) fn facts(model: &Model) -> Facts {
    let mut facts = Facts::new(format!("ONNX IR version {}", model.ir_version));
    let producer = [model.producer.as_str(), model.producer_version.as_str()].join(" ");
    for (label, value) in [("Producer", producer.trim().to_owned()), ("Graph", model.graph_name.clone())] {
        if !value.is_empty() {
            facts = facts.with(Subject::Model, label, value);
        }
    }
    let opset =
        |(domain, version): &(String, u64)| format!("{} {version}", if domain.is_empty() { DEFAULT } else { domain });
    let opsets: Vec<String> = model.opsets.iter().map(opset).collect();
    facts = facts.with(Subject::Model, "Opsets", listed(opsets));
    let mut operators: Vec<_> = model.operators.iter().collect();
    operators.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let nodes: u64 = operators.iter().map(|(_, count)| **count).sum();
    let operators = operators.iter().map(|(name, count)| format!("{name} {count}")).collect();
    facts.with(Subject::Model, "Operators", format!("{nodes}: {}", listed(operators)))
}

/// The first items of a list, and the number of the others.
fn listed(items: Vec<String>) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    let more = match items.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first: Vec<String> = items.into_iter().take(MAX_LISTED).collect();
    format!("{}{more}", first.join(", "))
}
