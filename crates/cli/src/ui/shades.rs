//! Small pictures of numbers in characters: sparklines and shades, in block characters or in ASCII.

use super::bars::is_unicode;

/// Heights of a sparkline, from low to high.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_HEIGHTS: [char; 8] = ['.', ':', '-', '=', '+', '*', '#', '@'];
/// Shades, from light to dark.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
const ASCII_SHADES: [char; 8] = [' ', '.', ':', '-', '=', '+', '#', '@'];
/// Colours of the 256-colour palette, from dark to light.
const COLOURS: [u8; 12] = [16, 17, 18, 54, 90, 126, 162, 198, 204, 209, 215, 228];

/// A sparkline of at most `width` characters. Neighbouring counts are added until they fit; a count above zero is
/// visible.
pub(crate) fn sparkline(counts: &[u64], width: usize) -> String {
    draw(counts, width, is_unicode())
}

fn draw(counts: &[u64], width: usize, is_unicode: bool) -> String {
    let together = counts.len().div_ceil(width.max(1)).max(1);
    let sums: Vec<u64> = counts.chunks(together).map(|counts| counts.iter().sum()).collect();
    let largest = sums.iter().copied().max().unwrap_or(0).max(1) as f64;
    let heights = if is_unicode { HEIGHTS } else { ASCII_HEIGHTS };
    let height = |&count: &u64| match count {
        0 => ' ',
        count => heights[((count as f64 / largest * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    sums.iter().map(height).collect()
}

/// The shade of a share between 0 and 1 as a character.
pub(crate) fn shade(share: f64) -> char {
    let step = |count: usize| ((share.clamp(0.0, 1.0) * count as f64) as usize).min(count - 1);
    if is_unicode() { SHADES[step(SHADES.len())] } else { ASCII_SHADES[step(ASCII_SHADES.len())] }
}

/// The shade of a share between 0 and 1 as a colour of the 256-colour palette.
pub(crate) fn colour(share: f64) -> u8 {
    COLOURS[((share.clamp(0.0, 1.0) * COLOURS.len() as f64) as usize).min(COLOURS.len() - 1)]
}

/// The mark of text that is left out.
pub(crate) fn ellipsis() -> char {
    if is_unicode() { '…' } else { '~' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparklines_show_every_count() {
        assert_eq!(draw(&[1, 0, 100, 50], 8, true), "▁ █▄");
        assert_eq!(draw(&[1, 0, 100, 50], 2, true), "▁█");
        assert_eq!(draw(&[1, 0, 100, 50], 8, false), ". @=");
        assert_eq!(draw(&[], 8, true), "");
        assert_eq!(draw(&[u64::MAX / 2, 1], 1, true), "█");
    }

    #[test]
    fn colours_cover_the_range() {
        assert_eq!((colour(0.0), colour(1.0), colour(f64::NAN), colour(7.0)), (16, 228, 16, 228));
    }
}
