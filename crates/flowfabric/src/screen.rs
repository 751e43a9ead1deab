//! A picture on a terminal that is drawn again and again: on the terminal's second screen, so that
//! what was there comes back at the end.

use std::fmt::Write as _;
use std::io::Write;

use crate::output::Out;
use crate::terminal;

/// The second screen, until it is dropped.
pub(crate) struct Screen;

impl Screen {
    pub(crate) fn enter() -> Self {
        print!("\x1b[?1049h\x1b[?25l");
        Self
    }

    /// Draws lines over those before, as far as they fit. Each is overwritten in place: a screen
    /// that is cleared first would flicker.
    pub(crate) fn draw<'a>(&self, lines: impl Iterator<Item = &'a str>) -> std::io::Result<()> {
        let (rows, columns) = terminal::size();
        let mut picture = String::from("\x1b[H");
        for line in lines.take(rows.saturating_sub(1)) {
            let _ = write!(picture, "{}\x1b[K\r\n", cut(line, columns));
        }
        put(&(picture + "\x1b[J"))
    }

    /// Puts trouble in place of the first line; the rest stays as it was.
    pub(crate) fn complain(&self, message: &str) -> std::io::Result<()> {
        let line = message.lines().next().unwrap_or_default();
        put(&format!("\x1b[H\x1b[31m{}\x1b[0m\x1b[K", cut(line, terminal::size().1)))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        print!("\x1b[?25h\x1b[?1049l");
        let _ = std::io::stdout().flush();
    }
}

fn put(picture: &str) -> std::io::Result<()> {
    let mut out = Out::new();
    out.write_all(picture.as_bytes())?;
    out.flush()
}

/// The beginning of a line that fits; escape sequences take no room.
fn cut(line: &str, columns: usize) -> String {
    let (mut kept, mut width, mut escape) = (String::new(), 0, false);
    for letter in line.chars() {
        escape |= letter == '\x1b';
        if escape || width < columns {
            kept.push(letter);
        }
        width += usize::from(!escape);
        escape &= letter != 'm';
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_it_would_wrap_and_keeps_its_colours() {
        assert_eq!(cut("abcdef", 4), "abcd");
        assert_eq!(cut("ab\x1b[31mcdef\x1b[0mgh", 4), "ab\x1b[31mcd\x1b[0m");
    }
}
