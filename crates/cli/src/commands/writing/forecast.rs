//! `--dry-run` for a checkpoint directory: the plan, and what it takes.

use anamnesis::{DirectoryPlan, format_bytes};
use serde_json::{Value, json};

use super::super::{counted, shown};
use super::directory::{DirectoryJob, sidecar_lines};
use super::{disk, tensors};
use crate::exit::Failure;
use crate::ui::{Column, Printer, Table};

/// What one worker takes, roughly: a window of the input, a tile of the output, and what is between them.
const WORKER_BYTES: u64 = 6 << 20;
/// Workers where the user does not say how many.
const MAX_DEFAULT_THREADS: usize = 4;
/// The file by which a conversion knows a directory it has begun.
const MANIFEST: &str = ".anamnesis.json";

/// What is at the place of the output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    /// A directory that a conversion has begun.
    Begun,
    /// A directory with files of others.
    Foreign,
}

impl Found {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Begun => "begun",
            Self::Foreign => "foreign",
        }
    }
}

impl DirectoryJob<'_> {
    /// Tells the plan and writes nothing.
    pub(in super::super) fn forecast(
        &self,
        plan: &DirectoryPlan,
        summary: &str,
        document: Value,
        printer: &Printer,
    ) -> Result<(), Failure> {
        let shards: Vec<_> = plan.shards().collect();
        let number = |name: &str| 1 + shards.iter().position(|(shard, _)| *shard == name).unwrap_or(0);
        let mut last = ("", 0);
        let mut planned = Vec::new();
        for (shard, tensor) in plan.tensors() {
            // Tensors come shard by shard, so each name is looked up once.
            if shard != last.0 {
                last = (shard, number(shard));
            }
            planned.push((last.1, tensor));
        }
        let disk_bytes: u64 = (0..).zip(&shards).filter(|(index, _)| self.is_mine(*index)).map(|(_, (_, b))| b).sum();
        let free_bytes = disk::free_bytes(&self.output);
        let found = self.found();

        printer.text(format_args!("\n{}", tensors::numbered_table(&planned).render(printer.page())))?;
        printer.text(format_args!("\n{}", self.shard_table(&shards).render(printer.page())))?;
        printer.text("")?;
        for line in sidecar_lines(plan.sidecars()) {
            printer.text(line)?;
        }
        printer.text(format_args!(
            "\nWould write {} ({}, {}): {summary}",
            shown(&self.output),
            counted(shards.len(), "shard"),
            format_bytes(plan.total_bytes()),
        ))?;
        if let Some(part) = self.write.part {
            let beside = if self.writes_sidecars() { ", and the files beside the weights" } else { "" };
            let mine = (0..shards.len()).filter(|index| self.is_mine(*index)).count();
            let (number, count) = (part.number(), part.count());
            printer.text(format_args!("Part {number} of {count} writes {}{beside}", counted(mine, "shard")))?;
        }
        printer.text(format_args!("Memory: about {}", format_bytes(self.memory_bytes())))?;
        let free = match free_bytes {
            Some(free) if free < disk_bytes => format!(", only {} free", format_bytes(free)),
            Some(free) => format!(", {} free", format_bytes(free)),
            None => String::new(),
        };
        printer.text(format_args!("Disk: {} needed{free}", format_bytes(disk_bytes)))?;
        match found {
            Found::Nothing => {}
            Found::Begun if self.write.force => printer.text("That directory exists already and would begin again")?,
            Found::Begun => {
                printer
                    .text("That directory was begun already: the same conversion goes on, --force starts it again")?;
            }
            Found::Foreign if self.write.force => {
                printer.text("That directory is not empty: files of the same names would be replaced")?;
            }
            Found::Foreign => {
                printer.text("That directory is not empty: --force writes into it, -o chooses another")?
            }
        }
        if printer.is_json() {
            let mut document = document;
            document["output_exists"] = self.output.exists().into();
            document["output_state"] = found.name().into();
            document["memory_bytes"] = self.memory_bytes().into();
            document["disk_bytes"] = disk_bytes.into();
            document["free_bytes"] = free_bytes.into();
            let shard = |(index, (name, bytes)): (usize, &(&str, u64))| json!({ "name": name, "bytes": bytes, "in_this_run": self.is_mine(index) });
            document["shards"] = shards.iter().enumerate().map(shard).collect();
            let tensor = |(shard, tensor): &(usize, _)| {
                let mut document = tensors::document(tensor);
                document["shard"] = shards.get(shard - 1).map(|(name, _)| *name).into();
                document
            };
            document["tensors"] = planned.iter().map(tensor).collect();
            printer.document(self.command, document)?;
        }
        Ok(())
    }

    /// Whether this run writes the shard of this index; neighbours go to different parts.
    fn is_mine(&self, shard: usize) -> bool {
        self.write.part.is_none_or(|part| shard % part.count() == part.number() - 1)
    }

    fn shard_table(&self, shards: &[(&str, u64)]) -> Table {
        let mut table = Table::new([Column::Right("SHARD"), Column::Flexible("FILE"), Column::Right("SIZE")]);
        for (index, (name, bytes)) in shards.iter().enumerate() {
            let name = if self.is_mine(index) { (*name).to_owned() } else { format!("{name} (another part)") };
            table.row([(index + 1).to_string(), name, format_bytes(*bytes)]);
        }
        table
    }

    fn memory_bytes(&self) -> u64 {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from).min(MAX_DEFAULT_THREADS);
        let threads = self.write.threads.map_or_else(cores, usize::from);
        WORKER_BYTES * threads as u64
    }

    fn found(&self) -> Found {
        let Ok(mut entries) = std::fs::read_dir(&self.output) else { return Found::Nothing };
        match (self.output.join(MANIFEST).is_file(), entries.next()) {
            (true, _) => Found::Begun,
            (false, Some(_)) => Found::Foreign,
            (false, None) => Found::Nothing,
        }
    }
}
