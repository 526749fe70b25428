//! Tables: a header, then one line per sample.

use csv::StringRecord;

use super::array::{first_line, shorten};
use super::{Fault, Label, MOST_ENTRIES, Numbers, OwnInputs, Purpose, Wanted};

/// Columns of a table.
const MOST_COLUMNS: usize = 1 << 20;

/// Bytes of the name of a column.
const LONGEST_NAME: usize = 255;

/// Reads a table.
pub(super) fn parse(bytes: &[u8], wanted: Wanted<'_>) -> Result<OwnInputs, Fault> {
    // A byte order mark, as some spreadsheets write it.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let broken = |e: csv::Error| Fault::Table(first_line(&e.to_string()));
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
    let header = reader.headers().map_err(broken)?.clone();
    let mut columns = names_of(&header)?;
    let label = labels_of(&columns, wanted.label_column)?;
    let single = wanted.purpose == Purpose::Classes && columns.len() == 1;
    let (mut values, mut labels, mut samples) = (Vec::new(), Vec::new(), 0);
    let mut several: Vec<(usize, f64)> = Vec::new();
    for row in reader.records() {
        let row = row.map_err(broken)?;
        let line = row.position().map_or(0, csv::Position::line);
        samples += 1;
        for (at, cell) in row.iter().enumerate() {
            if single || label[..] == [at] {
                if cell.is_empty() {
                    return Err(Fault::NoLabel { line, column: columns[at].clone() });
                }
                let written = |number| Label::Written(cell.to_owned(), number);
                labels.push(cell.parse().map_or_else(|_| Label::Name(cell.to_owned()), written));
                continue;
            }
            let not_number = || Fault::NotNumber { line, column: columns[at].clone(), text: shorten(cell) };
            let number = cell.parse::<f64>().map_err(|_| not_number())?;
            if !label.contains(&at) {
                values.push(number);
            } else if number.is_finite() {
                several.push((at, number));
            } else {
                return Err(not_number());
            }
        }
        if label.len() > 1 {
            let of = |at: &usize| several.iter().find(|(column, _)| column == at).map(|found| found.1);
            labels.push(Label::Numbers(label.iter().filter_map(of).collect()));
            several.clear();
        }
        if values.len() > MOST_ENTRIES {
            return Err(Fault::TooMany);
        }
    }
    if single {
        columns.clear();
    } else {
        let mut at = 0..;
        columns.retain(|_| !label.contains(&at.next().unwrap_or(0)));
    }
    let labels = (single || !label.is_empty()).then_some(labels);
    let (shape, columns) = (vec![columns.len()], Some(columns));
    Ok(OwnInputs { samples, shape, values, numbers: Numbers::Plain, columns, labels, classes: None })
}

/// The columns of the labels: one, or several with commas between their names.
fn labels_of(columns: &[String], wanted: Option<&str>) -> Result<Vec<usize>, Fault> {
    let Some(wanted) = wanted else { return Ok(Vec::new()) };
    let place = |name: &str| columns.iter().position(|column| column == name);
    if let Some(at) = place(wanted) {
        return Ok(vec![at]);
    }
    let mut found = Vec::new();
    for name in wanted.split(',').map(str::trim) {
        let missing = || {
            let there = columns.iter().take(20).map(|column| shorten(column)).collect::<Vec<_>>().join(", ");
            Fault::Column { wanted: shorten(name), there }
        };
        let at = place(name).ok_or_else(missing)?;
        if found.contains(&at) {
            return Err(Fault::LabelTwice(shorten(name)));
        }
        found.push(at);
    }
    Ok(found)
}

/// The names of the columns, each once.
fn names_of(header: &StringRecord) -> Result<Vec<String>, Fault> {
    let shown = || shorten(&header.iter().collect::<Vec<_>>().join(","));
    let odd = |name: &str| {
        let number = name.parse::<f64>().is_ok();
        name.is_empty() || name.len() > LONGEST_NAME || number || name.chars().any(char::is_control)
    };
    if header.is_empty() || header.iter().any(odd) {
        return Err(Fault::NoHeader(shown()));
    }
    if header.len() > MOST_COLUMNS {
        return Err(Fault::TooMany);
    }
    let mut seen = std::collections::HashSet::new();
    match header.iter().find(|name| !seen.insert(*name)) {
        Some(twice) => Err(Fault::TwoColumns(shorten(twice))),
        None => Ok(header.iter().map(String::from).collect()),
    }
}
