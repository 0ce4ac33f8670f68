//! The option for a statement about where an output comes from.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Command;

/// The statement of a command that writes.
#[derive(Debug, Default, Args)]
pub(crate) struct ProvenanceArgs {
    /// Write an in-toto statement too: the SHA-256 of inputs and outputs, the version and the arguments; amn verify
    /// --provenance checks it
    #[arg(long, value_name = "FILE")]
    pub(crate) provenance: Option<PathBuf>,
}

impl Command {
    /// The statement that was asked for, and whether it replaces an existing file.
    pub(crate) fn provenance(&self) -> Option<(&Path, bool)> {
        let (args, force) = match self {
            Self::Remember(args) => (&args.write.provenance, args.write.force),
            Self::Convert(args) => (&args.write.provenance, args.write.force),
            Self::Forget(args) => (&args.write.provenance, args.write.force),
            Self::Report(args) => (&args.provenance, args.force),
            Self::Hash(args) => (&args.provenance, args.force),
            Self::Show(args) => (&args.provenance, args.force),
            _ => return None,
        };
        Some((args.provenance.as_deref()?, force))
    }

    /// The name of the command in a statement.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Parse(_) => "parse",
            Self::Inspect(_) => "inspect",
            Self::Tree(_) => "tree",
            Self::Report(_) => "report",
            Self::Remember(_) => "remember",
            Self::Convert(_) => "convert",
            Self::Forget(_) => "forget",
            Self::Verify(_) => "verify",
            Self::Stats(_) => "stats",
            Self::Diff(_) => "diff",
            Self::Hash(_) => "hash",
            Self::Show(_) => "show",
            Self::Scan(_) => "scan",
            Self::Formats => "formats",
            Self::Demo => "demo",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
        }
    }
}
