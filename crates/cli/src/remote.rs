//! Models at addresses: mounts them before a command runs, so that it reads them like files.

use crate::args::Command;
use crate::exit::Failure;
use crate::ui::Printer;

#[cfg(feature = "remote")]
pub(crate) use network::mount;

/// Refuses to write to an address that is not written to; it would be taken for a folder of that name.
pub(crate) fn refuse_output(command: &mut Command) -> Result<(), Failure> {
    let scheme = command.output().and_then(|output| Some(output.to_str()?.split_once("://")?.0.to_ascii_lowercase()));
    let Some(scheme) = scheme else { return Ok(()) };
    #[cfg(feature = "remote")]
    if command.model_output().is_some_and(|output| anamnesis_remote::Remote::is_writable(output)) {
        return Ok(());
    }
    let why = match scheme.as_str() {
        "s3" | "gs" | "az" if !cfg!(feature = "clouds") => {
            format!("{scheme} addresses are written by builds with the feature `clouds`, which this one has not")
        }
        _ => format!("{scheme} addresses are not written; write a file and upload it"),
    };
    Err(Failure::Usage(why))
}

#[cfg(feature = "remote")]
mod network {
    use std::time::Duration;

    use anamnesis::{AnamnesisError, Checkpoint, ParseLimits};
    use anamnesis_remote::{Remote, RemoteError, RemoteFault, RemoteMount, RemoteOptions};

    use super::{Command, Failure, Printer};
    use crate::interrupt;

    /// The addresses of a command. They can be read as long as this exists.
    #[derive(Default)]
    pub(crate) struct Mounts {
        remote: Option<Remote>,
        _mounts: Vec<RemoteMount>,
    }

    impl Mounts {
        /// Prints what the network was used for.
        pub(crate) fn print_details(&self, printer: &Printer) {
            if let Some(remote) = self.remote.as_ref().filter(|remote| remote.requests() > 0) {
                let (requests, bytes) = (remote.requests(), crate::ui::size(remote.bytes()));
                let sent = match remote.sent_bytes() {
                    0 => String::new(),
                    sent => format!(", {} sent", crate::ui::size(sent)),
                };
                printer.detail(format_args!("network: {requests} requests, {bytes}{sent}"));
                let refused = remote.refused_names();
                if !refused.is_empty() {
                    let names = refused.join(", ");
                    printer.detail(format_args!("network: access is refused, taken as missing: {names}"));
                }
            }
        }
    }

    /// Mounts the addresses among the inputs of a command, whose arguments are replaced by the paths to read.
    pub(crate) fn mount(command: &mut Command, printer: &Printer) -> Result<Mounts, Failure> {
        let Some((network, paths)) = command.inputs() else { return Ok(Mounts::default()) };
        let is_input = paths.iter().any(|path| Remote::is_address(path));
        let is_output = command.model_output().is_some_and(|output| Remote::is_address(output));
        if !is_input && !is_output {
            return Ok(Mounts::default());
        }
        let mut options = RemoteOptions::from_environment();
        options.cancel = interrupt::token()?;
        options.timeout = network.timeout.map_or(options.timeout, Duration::from_secs);
        options.concurrency = network.network_concurrency.map_or(options.concurrency, |count| count as usize);
        let remote = Remote::new(options).map_err(|error| AnamnesisError::Io(error.into()))?;
        printer.show_traffic(remote.traffic());
        let mut mounts = Vec::new();
        if let Some(output) = command.model_output().filter(|_| is_output)
            && let Some(mount) = remote.mount(output).map_err(failed)?
        {
            // A slash at the end says that it is a folder.
            let is_folder = output.to_string_lossy().ends_with('/');
            *output = if is_folder { mount.path().join("") } else { mount.path().to_path_buf() };
            mounts.push(mount);
        }
        for path in command.inputs().map(|(_, paths)| paths).unwrap_or_default() {
            if let Some(mount) = remote.mount(path).map_err(failed)? {
                if network.download && download(&mount, printer)? {
                    // It is found in the local cache from now on.
                    continue;
                }
                printer.detail(format_args!("{} is read over the network", crate::ui::shown(mount.path())));
                *path = mount.path().to_path_buf();
                mounts.push(mount);
            }
        }
        Ok(Mounts { remote: Some(remote), _mounts: mounts })
    }

    /// Downloads the files of a model of the hub; `false` if it is not one.
    fn download(mount: &RemoteMount, printer: &Printer) -> Result<bool, Failure> {
        let checkpoint = Checkpoint::open(mount.path(), &ParseLimits::default())?;
        let bar = printer.progress(0);
        let done = mount.download(checkpoint.files(), &mut |done, total| {
            bar.set_total(total);
            bar.set(done);
        })?;
        match done {
            true => Ok(true),
            false => Err(Failure::Usage("--download is for models of the hub, written hf:ORG/NAME".to_owned())),
        }
    }

    /// A malformed address is a fault of the command line.
    fn failed(error: AnamnesisError) -> Failure {
        match RemoteError::behind(&error).map(|error| (error.fault(), error.to_string())) {
            Some((RemoteFault::Address | RemoteFault::Scheme, why)) => Failure::Usage(why),
            _ => error.into(),
        }
    }
}

/// Without the network, addresses are refused by name.
#[cfg(not(feature = "remote"))]
mod without {
    use super::{Command, Failure, Printer};

    /// No addresses.
    #[derive(Default)]
    pub(crate) struct Mounts;

    impl Mounts {
        pub(crate) fn print_details(&self, _: &Printer) {}
    }

    pub(crate) fn mount(command: &mut Command, _: &Printer) -> Result<Mounts, Failure> {
        let Some((_, paths)) = command.inputs() else { return Ok(Mounts) };
        let is_web = |path: &std::path::Path| {
            ["http://", "https://", "s3://", "gs://", "az://"]
                .iter()
                .any(|scheme| path.to_string_lossy().starts_with(scheme))
        };
        match paths.into_iter().any(|path| is_web(path)) {
            true => Err(Failure::Usage("addresses are not read by this build: it has no feature `remote`".to_owned())),
            false => Ok(Mounts),
        }
    }
}

#[cfg(not(feature = "remote"))]
pub(crate) use without::mount;
