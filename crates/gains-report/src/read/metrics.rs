//! `metrics.csv` of a training run.

use super::ReadError;
use crate::document::{Document, Run};

/// Whether a line heads the figures of a training run.
pub fn is_header(line: &str) -> bool {
    let columns: Vec<&str> = line.split(',').map(str::trim).collect();
    columns.contains(&"epoch") && columns.contains(&"loss")
}

/// Reads it; a last row that is cut off is left out.
pub fn read(name: &str, text: &str) -> Result<Document, ReadError> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let fail = |line: usize, what: String| ReadError::Line { name: name.into(), line, what };
    let header = reader.headers().map_err(|e| fail(1, e.to_string()))?;
    let columns: Vec<String> = header.iter().map(|cell| cell.trim().to_owned()).collect();
    let mut rows = Vec::new();
    let records: Vec<_> = reader.records().collect();
    let (count, ends) = (records.len(), text.ends_with('\n'));
    for (i, record) in records.into_iter().enumerate() {
        let record = record.map_err(|e| fail(i + 2, e.to_string()))?;
        if i + 1 == count && !ends {
            break;
        }
        if record.len() != columns.len() {
            return Err(fail(
                i + 2,
                format!("it has {} columns, the first line {}", record.len(), columns.len()),
            ));
        }
        let cell = |cell: &str| cell.trim().parse::<f64>().ok().filter(|v| v.is_finite());
        rows.push(record.iter().map(cell).collect());
    }
    Ok(Document::Run(Run { name: name.into(), columns, rows, planned: None }))
}
