//! The bar of a running conversion.

use std::time::Duration;

use indicatif::ProgressStyle;

/// A bar of bytes on standard error, gone when it is dropped. Where standard error is no terminal nothing is drawn.
pub(crate) struct ProgressBar(indicatif::ProgressBar);

const TEMPLATE: &str =
    "{wide_bar} {percent:>3}%  {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left";
/// The bar is redrawn this often even where no bytes arrive, so that a slow disk looks slow, not dead.
const TICK: Duration = Duration::from_millis(500);

impl ProgressBar {
    pub(crate) fn new(total: u64) -> Self {
        let bar = indicatif::ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self(bar)
    }

    pub(crate) fn hidden() -> Self {
        Self(indicatif::ProgressBar::hidden())
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
