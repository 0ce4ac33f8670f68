//! Options for models that are read over a network.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{Command, InputArgs};

const NETWORK: &str = "Network options";

/// Options for the network.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct NetworkArgs {
    /// Seconds to wait for a server [default: 30]
    #[arg(long, value_name = "SECONDS", help_heading = NETWORK)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: Option<u64>,
    /// Requests at the same time [default: 16]
    #[arg(long, value_name = "N", help_heading = NETWORK, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) network_concurrency: Option<u64>,
    /// Download a model of the hub into the local Hugging Face cache first
    #[arg(long, help_heading = NETWORK)]
    pub(crate) download: bool,
}

impl Command {
    /// The output that was named.
    pub(crate) fn output(&self) -> Option<&Path> {
        let output = match self {
            Self::Remember(args) => &args.write.output,
            Self::Convert(args) => &args.write.output,
            Self::Forget(args) => &args.write.output,
            Self::Report(args) => &args.output,
            Self::Hash(args) => &args.output,
            Self::Show(args) => &args.output,
            _ => return None,
        };
        output.as_deref()
    }

    /// The output that was named, of a command that writes a model.
    #[cfg(feature = "remote")]
    pub(crate) fn model_output(&mut self) -> Option<&mut PathBuf> {
        let output = match self {
            Self::Remember(args) => &mut args.write.output,
            Self::Convert(args) => &mut args.write.output,
            Self::Forget(args) => &mut args.write.output,
            _ => return None,
        };
        output.as_mut()
    }

    /// The path of the model that a writing command reads.
    pub(crate) fn input(&self) -> Option<&Path> {
        let input = match self {
            Self::Remember(args) => &args.input,
            Self::Convert(args) => &args.input,
            Self::Forget(args) => &args.input,
            Self::Report(args) => &args.input,
            Self::Hash(args) => &args.input,
            Self::Show(args) => &args.input,
            _ => return None,
        };
        Some(&input.path)
    }

    /// The paths of models that the command reads, and the options of the network for them.
    pub(crate) fn inputs(&mut self) -> Option<(NetworkArgs, Vec<&mut PathBuf>)> {
        fn of<'a>(
            input: &'a mut InputArgs,
            more: impl IntoIterator<Item = &'a mut PathBuf>,
        ) -> Option<(NetworkArgs, Vec<&'a mut PathBuf>)> {
            let paths = std::iter::once(&mut input.path).chain(&mut input.config);
            Some((input.network, paths.chain(more).collect()))
        }
        match self {
            Self::Parse(args) => of(&mut args.input, None),
            Self::Inspect(args) => of(&mut args.input, None),
            Self::Tree(args) => of(&mut args.input, None),
            Self::Report(args) => of(&mut args.input, &mut args.second),
            Self::Remember(args) => of(&mut args.input, None),
            Self::Convert(args) => of(&mut args.input, &mut args.base),
            Self::Forget(args) => of(&mut args.input, None),
            Self::Stats(args) => of(&mut args.input, None),
            Self::Diff(args) => of(&mut args.input, [&mut args.second]),
            Self::Hash(args) => of(&mut args.input, None),
            Self::Show(args) => of(&mut args.input, None),
            Self::Verify(args) => Some((args.network, args.path.as_mut().into_iter().collect())),
            Self::Scan(args) => Some((args.network, vec![&mut args.path])),
            Self::Formats | Self::Demo | Self::Completions(_) | Self::Man(_) => None,
        }
    }
}
