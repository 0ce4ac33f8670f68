//! `--dry-run` for a checkpoint directory: prints the plan and the resources it needs.

use anamnesis::{DirectoryPlan, OutputState, RememberOptions};
use serde_json::{Value, json};

use super::directory::{DirectoryJob, sidecar_lines};
use super::needs::Needs;
use super::plan_notes;
use super::tensors::{self, Forecast};
use crate::commands::{counted, shown};
use crate::exit::Failure;
use crate::ui::{Column, Printer, Table, size};

/// The state of an output directory in JSON.
fn state_name(state: OutputState) -> &'static str {
    match state {
        OutputState::Begun => "begun",
        OutputState::Foreign => "foreign",
        _ => "nothing",
    }
}

impl DirectoryJob<'_> {
    /// Prints the plan, and adds it to the document.
    pub(crate) fn forecast(
        &self,
        plan: &DirectoryPlan,
        run: &RememberOptions,
        (notes, summary): (&[String], &str),
        mut document: Value,
        printer: &Printer,
    ) -> Result<Value, Failure> {
        let shards: Vec<_> = plan.shards().collect();
        let is_mine = plan.shard_mask();
        let number = |name: &str| 1 + shards.iter().position(|(shard, _)| *shard == name).unwrap_or(0);
        let mut last = ("", 0);
        let mut planned = Vec::new();
        for (shard, tensor) in plan.tensors() {
            // Tensors are ordered by shard, so each name is looked up once.
            if shard != last.0 {
                last = (shard, number(shard));
            }
            planned.push((last.1, tensor));
        }
        let needs = Needs::of(&self.output, plan.bytes_of_run(), run);
        let found = plan.state_of(&self.output);

        Forecast::of_shards(&planned).print(printer)?;
        printer.text("")?;
        printer.table(&shard_table(&shards, &is_mine))?;
        printer.text("")?;
        for line in sidecar_lines(plan.sidecars()) {
            printer.text(line)?;
        }
        plan_notes(notes, printer)?;
        printer.text(format_args!(
            "\nWould write {} ({}, {}): {summary}",
            shown(&self.output),
            counted(shards.len(), "shard"),
            size(plan.total_bytes()),
        ))?;
        if let Some(part) = self.write.part {
            let sidecars = if self.writes_sidecars() { ", and the sidecar files" } else { "" };
            let mine = is_mine.iter().filter(|mine| **mine).count();
            let (number, count) = (part.number(), part.count());
            printer.text(format_args!("Part {number} of {count} writes {}{sidecars}", counted(mine, "shard")))?;
        }
        needs.print(printer)?;
        match found {
            OutputState::Begun if self.write.force => {
                printer.text("That directory was started already and would be replaced")?;
            }
            OutputState::Begun => {
                printer
                    .text("That directory was started already: the same conversion resumes, --force starts again")?;
            }
            OutputState::Foreign if self.write.force => {
                printer.text("That directory is not empty: files of the same names would be replaced")?;
            }
            OutputState::Foreign => {
                printer.text("That directory is not empty: --force writes into it, -o chooses another")?;
            }
            _ => {}
        }
        if printer.is_json() {
            document["output_exists"] = anamnesis::exists(&self.output).into();
            document["output_state"] = state_name(found).into();
            needs.add_to(&mut document);
            let shard = |(index, (name, bytes)): (usize, &(&str, u64))| json!({ "name": name, "bytes": bytes, "in_this_run": is_mine[index] });
            document["shards"] = shards.iter().enumerate().map(shard).collect();
            let tensor = |(shard, tensor): &(usize, _)| {
                let mut document = tensors::document(tensor);
                document["shard"] = shards.get(shard - 1).map(|(name, _)| *name).into();
                document
            };
            document["tensors"] = planned.iter().map(tensor).collect();
        }
        Ok(document)
    }
}

fn shard_table(shards: &[(&str, u64)], is_mine: &[bool]) -> Table {
    let mut table = Table::new([Column::Right("SHARD"), Column::Flexible("FILE"), Column::Right("SIZE")]);
    for (index, ((name, bytes), mine)) in shards.iter().zip(is_mine).enumerate() {
        let name = if *mine { (*name).to_owned() } else { format!("{name} (another part)") };
        table.row([(index + 1).to_string(), name, size(*bytes)]);
    }
    table
}
