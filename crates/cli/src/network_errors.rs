//! Errors of the network, as the command line explains them.

#[cfg(feature = "remote")]
pub(crate) use known::{advice, is_cancelled, is_network};
#[cfg(not(feature = "remote"))]
pub(crate) use none::{advice, is_cancelled, is_network};

#[cfg(feature = "remote")]
mod known {
    use anamnesis::AnamnesisError;
    use anamnesis_remote::{RemoteError, RemoteFault};

    /// Advice on an error of the network; `None` if it is another one, or nothing can be done.
    pub(crate) fn advice(error: &AnamnesisError) -> Option<String> {
        let advice = match RemoteError::behind(error)?.fault() {
            RemoteFault::Gated => "ask for access on the page of the model, then hf auth login, or set HF_TOKEN",
            RemoteFault::Unauthorized => "hf auth login, or set HF_TOKEN",
            RemoteFault::RateLimit => "wait, or lower --network-concurrency; a token (HF_TOKEN) allows more",
            RemoteFault::NoRanges | RemoteFault::Encoded => "download the file and name it",
            RemoteFault::WebPage => "name the address of the file itself, not that of a page about it",
            RemoteFault::Changed => "run the command again",
            RemoteFault::Timeout => "--timeout waits longer",
            _ => return None,
        };
        Some(advice.to_owned())
    }

    /// Whether the network is at fault.
    pub(crate) fn is_network(error: &AnamnesisError) -> bool {
        RemoteError::behind(error).is_some()
    }

    /// Whether the network was stopped by a signal.
    pub(crate) fn is_cancelled(error: &AnamnesisError) -> bool {
        RemoteError::behind(error).is_some_and(|error| error.fault() == RemoteFault::Cancelled)
    }
}

/// Without the network there are none.
#[cfg(not(feature = "remote"))]
mod none {
    use anamnesis::AnamnesisError;

    pub(crate) fn advice(_: &AnamnesisError) -> Option<String> {
        None
    }

    pub(crate) fn is_network(_: &AnamnesisError) -> bool {
        false
    }

    pub(crate) fn is_cancelled(_: &AnamnesisError) -> bool {
        false
    }
}
