//! Plain text tables.

use crate::output::plain;

/// Lays out a header and rows in aligned columns; the first column to the left, numbers to the right. Cells may hold
/// names out of files.
pub fn layout(header: &[&str], rows: &[Vec<String>]) -> String {
    let columns = header.len();
    let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let mut widths: Vec<usize> = header.iter().map(|h| h.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (i, cell) in cells.enumerate().take(columns) {
            let padding = " ".repeat(widths[i].saturating_sub(cell.chars().count()));
            let gap = if i == 0 { "" } else { "  " };
            if i == 0 {
                text.push_str(&format!("{gap}{cell}{padding}"));
            } else {
                text.push_str(&format!("{gap}{padding}{cell}"));
            }
        }
        text.trim_end().to_string() + "\n"
    };
    let mut text = line(&mut header.iter().copied());
    text.push_str(&"─".repeat(widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1)));
    text.push('\n');
    for row in &rows {
        text.push_str(&line(&mut row.iter().map(AsRef::as_ref)));
    }
    text
}

/// `part` of `whole` in percent, with one digit; a dash for nothing.
pub fn percent(part: usize, whole: usize) -> String {
    if whole == 0 { "–".into() } else { format!("{:.1}", 100.0 * part as f64 / whole as f64) }
}

/// The middle value; `None` for nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let text = layout(&["name", "n"], &[vec!["a".into(), "10".into()], vec!["long".into(), "7".into()]]);
        assert_eq!(text, "name   n\n────────\na     10\nlong   7\n");
    }

    #[test]
    fn a_cell_stays_in_its_line() {
        let text = layout(&["name"], &[vec!["a\nverified \x1b[2J".into()]]);
        assert_eq!(text.lines().nth(2), Some("a\\nverified \\u001b[2J"));
    }

    #[test]
    fn percentages_and_medians() {
        assert_eq!(percent(1, 3), "33.3");
        assert_eq!(percent(0, 0), "–");
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![]), None);
    }
}
