//! The bar of a running conversion.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressState, ProgressStyle};

use super::size;

/// A bar of bytes on standard error, gone when it is dropped. Where standard error is no terminal nothing is drawn.
pub(crate) struct ProgressBar(indicatif::ProgressBar);

/// The bar is redrawn this often even where no bytes arrive, so that a slow disk looks slow, not dead.
const TICK: Duration = Duration::from_millis(500);

impl ProgressBar {
    pub(crate) fn new(total: u64) -> Self {
        let bar = indicatif::ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent:>3}%  {figures}") {
            bar.set_style(style.progress_chars("━╸ ").with_key("figures", figures));
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self(bar)
    }

    pub(crate) fn hidden() -> Self {
        Self(indicatif::ProgressBar::hidden())
    }

    /// Corrects the total, once it is known how much of it is left to do.
    pub(crate) fn set_total(&self, bytes: u64) {
        self.0.set_length(bytes);
    }

    pub(crate) fn set(&self, bytes: u64) {
        self.0.set_position(bytes);
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Done and total in the units of all other output; speed and time left once there is something to tell them from.
fn figures(state: &ProgressState, out: &mut dyn Write) {
    // A bar that cannot be drawn is no reason to stop.
    let _ = write!(out, "{} of {}", size(state.pos()), size(state.len().unwrap_or(0)));
    if state.pos() > 0 {
        let _ = write!(out, "  {}/s  {:#} left", size(state.per_sec() as u64), HumanDuration(state.eta()));
    }
}
