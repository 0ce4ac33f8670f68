//! The progress bar of a conversion.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressState, ProgressStyle};

use super::size;
use crate::call::OnProgress;

/// A progress bar on standard error, removed on drop. Nothing is drawn if standard error is not a terminal.
pub(crate) struct ProgressBar {
    bar: indicatif::ProgressBar,
    /// Called instead of drawing.
    call: Option<OnProgress>,
}

/// The number of bytes sent and received over the network so far.
pub(crate) type Traffic = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Redraw interval without progress, to show that the process is alive.
const TICK: Duration = Duration::from_millis(500);

impl ProgressBar {
    pub(crate) fn new(total: u64, traffic: Option<Traffic>) -> Self {
        let bar = indicatif::ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent:>3}%  {figures}") {
            bar.set_style(style.progress_chars("━╸ ").with_key(
                "figures",
                move |state: &ProgressState, out: &mut dyn Write| {
                    // Errors of the bar are ignored.
                    let _ = figures(state, out);
                    if let Some(bytes) = traffic.as_ref().map(|traffic| traffic()) {
                        let _ = write!(out, "  {}", over_network(bytes));
                    }
                },
            ));
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self { bar, call: None }
    }

    pub(crate) fn hidden() -> Self {
        Self { bar: indicatif::ProgressBar::hidden(), call: None }
    }

    /// A bar for a program, which is called with the figures.
    pub(crate) fn called(total: u64, call: Option<OnProgress>) -> Self {
        let bar = Self { bar: indicatif::ProgressBar::hidden(), call };
        bar.set_total(total);
        bar
    }

    /// Corrects the total, once the remaining work is known.
    pub(crate) fn set_total(&self, bytes: u64) {
        self.bar.set_length(bytes);
        self.report();
    }

    pub(crate) fn set(&self, bytes: u64) {
        self.bar.set_position(bytes);
        self.report();
    }

    fn report(&self) {
        if let Some(call) = &self.call {
            call(self.bar.position(), self.bar.length().unwrap_or(0));
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Done and total, then speed and remaining time as soon as they can be estimated.
fn figures(state: &ProgressState, out: &mut dyn Write) -> std::fmt::Result {
    write!(out, "{} of {}", size(state.pos()), size(state.len().unwrap_or(0)))?;
    match state.pos() {
        0 => Ok(()),
        _ => write!(out, "  {}/s  {:#} left", size(state.per_sec() as u64), HumanDuration(state.eta())),
    }
}

fn over_network(bytes: u64) -> String {
    format!("network {}", size(bytes))
}
