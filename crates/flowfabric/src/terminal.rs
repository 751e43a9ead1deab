//! What the person sees: how large the terminal is, and whether it has colours.

use std::fs::File;
use std::io::IsTerminal;
use std::process::{Command, Stdio};

const ROWS: usize = 24;
const COLUMNS: usize = 80;

/// Rows and columns, as `stty` tells them; the classic ones if it does not.
pub(crate) fn size() -> (usize, usize) {
    ask().filter(|(rows, columns)| *rows > 0 && *columns > 0).unwrap_or((ROWS, COLUMNS))
}

fn ask() -> Option<(usize, usize)> {
    let terminal = File::open("/dev/tty").ok()?;
    let asked = Command::new("stty").arg("size").stdin(terminal).stderr(Stdio::null()).output();
    let answer = String::from_utf8(asked.ok()?.stdout).ok()?;
    let (rows, columns) = answer.trim().split_once(' ')?;
    Some((rows.parse().ok()?, columns.parse().ok()?))
}

/// Colours are for a terminal alone, and not if the person wants none.
pub(crate) fn has_colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !unwanted && std::io::stdout().is_terminal()
}
