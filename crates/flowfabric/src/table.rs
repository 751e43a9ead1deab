//! Plain tables for people: columns as wide as their content.

use std::fmt;

/// Rows under a head.
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Gives cells of the column with this index their colour.
    paint: Option<(usize, Paint)>,
}

/// The escape sequence that begins the colour of a text; empty for none.
pub(crate) type Paint = fn(&str) -> &'static str;

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        let head = head.iter().map(|name| name.to_uppercase()).collect();
        Self { head, rows: Vec::new(), paint: None }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.cells(cells.into());
    }

    /// A row of as many cells as the head has.
    pub(crate) fn cells(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Colours a column.
    pub(crate) fn paint(&mut self, column: usize, paint: Paint) {
        self.paint = Some((column, paint));
    }

    /// Cuts the last column so that a line has so many columns at most.
    pub(crate) fn fit(&mut self, most: usize) {
        let widths = self.widths();
        let Some((_, others)) = widths.split_last() else { return };
        let taken = others.iter().map(|width| width + 2).sum();
        let room = most.saturating_sub(taken).max(1);
        for cell in self.rows.iter_mut().filter_map(|row| row.last_mut()) {
            *cell = cut(cell, room);
        }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.head.iter().map(|name| name.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    fn cell(&self, column: usize, cell: &str, width: usize) -> String {
        let padded = format!("{cell:<width$}");
        match self.paint.map(|(painted, paint)| (painted == column, paint(cell))) {
            Some((true, colour)) if !colour.is_empty() => format!("{colour}{padded}\x1b[0m"),
            _ => padded,
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let lines = std::iter::once(&self.head).chain(&self.rows).map(|row| {
            let cells = row.iter().zip(&widths).enumerate();
            let cells = cells.map(|(column, (cell, width))| self.cell(column, cell, *width));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        });
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

/// A text that takes so many columns at most, and says if it was longer.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_and_say_so() {
        assert_eq!(cut("approval", 8), "approval");
        assert_eq!(cut("approvals", 8), "approva…");
        assert_eq!(cut("éééé", 3), "éé…");
    }

    #[test]
    fn columns_are_as_wide_as_their_content() {
        let mut table = Table::new(&["id", "state"]);
        table.row(["a-long-id".to_owned(), "waiting".to_owned()]);
        table.row(["b".to_owned(), "completed".to_owned()]);
        assert_eq!(table.to_string(), "ID         STATE\na-long-id  waiting\nb          completed");
    }

    #[test]
    fn the_last_column_takes_what_the_others_leave() {
        let mut table = Table::new(&["id", "why"]);
        table.row(["a".to_owned(), "nobody".to_owned()]);
        table.row(["bcd".to_owned(), "no".to_owned()]);
        table.fit(9);
        assert_eq!(table.to_string(), "ID   WHY\na    nob…\nbcd  no");
    }

    #[test]
    fn a_colour_does_not_count_as_width() {
        let mut table = Table::new(&["state", "id"]);
        table.paint(0, |cell| if cell == "failed" { "\x1b[31m" } else { "" });
        table.row(["failed".to_owned(), "a".to_owned()]);
        table.row(["completed".to_owned(), "b".to_owned()]);
        let expected = "STATE      ID\n\x1b[31mfailed   \x1b[0m  a\ncompleted  b";
        assert_eq!(table.to_string(), expected);
    }
}
