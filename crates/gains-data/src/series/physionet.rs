//! One raw record of the PhysioNet 2012 challenge.
//!
//! ```text
//! Time,Parameter,Value
//! 00:00,RecordID,132539
//! 00:00,Age,54
//! 00:07,HR,73
//! ```
//!
//! # Rules
//!
//! A record that breaks one of these is malformed and skipped as a whole: a half-read patient would be a
//! different patient.
//!
//! * The first line is the header and every line, the last too, ends. All 8000 official files do so; one that
//!   does not has been cut off.
//! * Every other line has three fields. The time is `HH:MM`, from 00:00 to 48:00. The value is a finite number
//!   of at most a million; the largest in the official files is 19 990.
//! * `RecordID`, where present, is the name of the file.
//!
//! These are no faults:
//!
//! * A parameter that is none of the 41, or that has no name: ignored and counted. So is a general descriptor
//!   (Age, Gender, Height, ICUType) at a time other than 0.
//! * Times that go backwards: counted, and put in order. Their order carries no meaning.
//! * Several values of one parameter at one time: averaged.
//! * -1 for an unknown height or weight: a value like any other, as in the reference.

use super::error::Malformed;
use super::feature::{PHYSIONET, PHYSIONET_GRID, PHYSIONET_SPAN, Role};
use super::record::{Builder, Record};

const HEADER: &str = "Time,Parameter,Value";
/// Larger values are typing errors or worse.
const LARGEST: f32 = 1e6;

/// A record and what was strange about it.
#[derive(Debug)]
pub(super) struct Parsed {
    pub record: Record,
    /// Lines that were ignored: unknown parameters, descriptors at later times.
    pub ignored: usize,
    /// Whether times go backwards somewhere.
    pub unordered: bool,
}

/// Reads the record called `id`.
pub(super) fn parse(id: &str, bytes: &[u8]) -> Result<Parsed, Malformed> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Malformed::Empty);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed::NotText)?;
    if text.contains('\0') {
        return Err(Malformed::NotText);
    }
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    if lines.next().is_none_or(|(_, line)| line.trim_end() != HEADER) {
        return Err(Malformed::NoHeader);
    }
    if !text.ends_with('\n') {
        return Err(Malformed::CutOff { line: text.lines().count() });
    }
    let mut builder = Builder::default();
    builder.point(0.0);
    let (mut ignored, mut unordered, mut before) = (0, false, 0.0);
    for (line, content) in lines.filter(|(_, content)| !content.trim().is_empty()) {
        let fields: Vec<&str> = content.split(',').map(str::trim).collect();
        let &[time_text, name, value_text] = fields.as_slice() else {
            return Err(Malformed::Fields { line, expected: 3, found: fields.len() });
        };
        let time = parse_time(time_text).ok_or_else(|| Malformed::Time { line, text: shorten(time_text) })?;
        unordered |= time < before;
        before = time;
        if name == "RecordID" {
            if value_text != id {
                return Err(Malformed::OtherRecord { line, found: shorten(value_text) });
            }
            continue;
        }
        let value =
            parse_value(value_text).ok_or_else(|| Malformed::Value { line, text: shorten(value_text) })?;
        let Some(feature) = PHYSIONET.iter().position(|row| row.0 == name) else {
            ignored += 1;
            continue;
        };
        match (PHYSIONET[feature].1, time == 0.0) {
            (Role::Static, true) => builder.constant(feature as u16, value),
            (Role::Static, false) => ignored += 1,
            _ => builder.at(time, feature as u16, value),
        }
    }
    if builder.is_empty() {
        return Err(Malformed::Empty);
    }
    Ok(Parsed { record: builder.finish(id.to_owned()), ignored, unordered })
}

/// `HH:MM` in hours on the grid of three minutes, or nothing if it is none.
fn parse_time(text: &str) -> Option<f64> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |digits: &str| -> Option<u32> {
        let plain = matches!(digits.len(), 1 | 2) && digits.bytes().all(|b| b.is_ascii_digit());
        if plain { digits.parse().ok() } else { None }
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let time = f64::from(hours) + f64::from(minutes) / 60.0;
    (minutes < 60 && time <= PHYSIONET_SPAN).then(|| on_grid(time))
}

/// The nearest multiple of the grid, halves to the even one, as Python rounds. A whole minute never is a half.
fn on_grid(hours: f64) -> f64 {
    (hours / PHYSIONET_GRID).round_ties_even() * PHYSIONET_GRID
}

/// Whether this is a time that a record can have.
pub(super) fn is_on_grid(hours: f64) -> bool {
    (0.0..=PHYSIONET_SPAN).contains(&hours) && on_grid(hours) == hours
}

fn parse_value(text: &str) -> Option<f32> {
    text.parse().ok().filter(|value: &f32| value.abs() <= LARGEST)
}

/// What fits into a message.
pub(super) fn shorten(text: &str) -> String {
    const MOST: usize = 30;
    let clean: String = text.chars().take(MOST).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().count() > MOST { clean + "…" } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(lines: &str) -> Result<Parsed, Malformed> {
        parse("7", format!("{HEADER}\n{lines}").as_bytes())
    }

    fn values(parsed: &Parsed) -> Vec<(f64, &'static str, f32)> {
        let name = |feature: u16| PHYSIONET[feature as usize].0;
        let points = parsed.record.points();
        points.flat_map(|p| p.observations.iter().map(move |o| (p.time, name(o.feature), o.value))).collect()
    }

    #[test]
    fn every_minute_goes_to_the_nearest_three() {
        for minute in 0..=2880_u32 {
            let text = format!("{:02}:{:02}", minute / 60, minute % 60);
            let steps = (minute + 1) / 3;
            assert_eq!(parse_time(&text), Some(f64::from(steps) * 0.05), "{text}");
        }
    }

    #[test]
    fn halves_go_to_the_even_multiple() {
        // 0.125 and 0.375 are exact, and so are their quotients by 0.05 to float64's last digit: 2.5 and 7.5.
        assert_eq!(on_grid(0.125), 2.0 * 0.05);
        assert_eq!(on_grid(0.375), 8.0 * 0.05);
    }

    #[test]
    fn times_that_are_none() {
        for text in ["", "1", ":", "1:", ":1", "00:60", "48:01", "49:00", "-1:00", "+1:00", "001:00", "1:2:3"]
        {
            assert_eq!(parse_time(text), None, "{text}");
        }
        for text in ["٣:00", "00:0x", "99:99", "12.5", "nan:00"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
        assert_eq!(parse_time("7:00"), Some(140.0 * 0.05));
    }

    #[test]
    fn a_record_is_read() {
        let parsed =
            record("00:00,RecordID,7\n00:00,Age,54\n00:00,Weight,-1\n00:07,HR,73\n00:37,GCS,15\n").unwrap();
        assert_eq!(values(&parsed), [(0.0, "Weight", -1.0), (0.1, "HR", 73.0), (12.0 * 0.05, "GCS", 15.0)]);
        assert_eq!(parsed.record.statics().len(), 1);
        assert_eq!((parsed.ignored, parsed.unordered), (0, false));
    }

    #[test]
    fn row_zero_is_there_even_if_nothing_is_in_it() {
        let parsed = record("05:00,HR,73\n").unwrap();
        assert_eq!(parsed.record.times(), [0.0, 5.0]);
    }

    #[test]
    fn duplicates_are_averaged_over_the_rounded_time() {
        // 00:02 and 00:04 both are 00:03.
        let parsed = record("00:02,HR,60\n00:04,HR,90\n00:04,HR,30\n00:05,HR,1\n").unwrap();
        assert_eq!(values(&parsed), [(0.05, "HR", 60.0), (0.1, "HR", 1.0)]);
    }

    #[test]
    fn shuffled_lines_make_the_same_record() {
        let lines = ["00:00,Age,54", "01:00,HR,60", "02:00,HR,90", "02:00,K,4", "30:00,pH,7.4"];
        let ordered = record(&(lines.join("\n") + "\n")).unwrap();
        let shuffled = [lines[4], lines[1], lines[3], lines[0], lines[2]];
        let parsed = record(&(shuffled.join("\r\n") + "\r\n")).unwrap();
        assert_eq!(parsed.record, ordered.record);
        assert!(parsed.unordered && !ordered.unordered);
    }

    #[test]
    fn unknown_parameters_are_ignored_and_counted() {
        let parsed =
            record("00:00,Age,54\n01:00,Mood,3\n01:00,,0\n01:00,hr,60\n02:00,Age,55\n02:00,HR,60\n").unwrap();
        assert_eq!(parsed.ignored, 4);
        assert_eq!(values(&parsed), [(2.0, "HR", 60.0)]);
    }

    #[test]
    fn malformed_records_are_named() {
        let parse = |bytes: &[u8]| parse("7", bytes).unwrap_err();
        assert_eq!(parse(b""), Malformed::Empty);
        assert_eq!(parse(b" \n\n"), Malformed::Empty);
        assert_eq!(parse(b"Time,Parameter,Value\n"), Malformed::Empty);
        assert_eq!(parse(b"Time,Parameter,Value\n00:00,RecordID,7\n"), Malformed::Empty);
        assert_eq!(parse(b"00:00,Age,54\n"), Malformed::NoHeader);
        assert_eq!(parse(&[0x7f, b'E', b'L', b'F', 0, 0xff, 0xfe]), Malformed::NotText);
        assert_eq!(parse(b"Time,Parameter,Value\n00:00,Age,5\0\n"), Malformed::NotText);
        assert_eq!(parse(b"Time,Parameter,Value\n00:00,Age,5"), Malformed::CutOff { line: 2 });
        let record = |line: &str| record(&format!("00:00,Age,54\n{line}\n")).unwrap_err();
        assert_eq!(record("01:00,HR"), Malformed::Fields { line: 3, expected: 3, found: 2 });
        assert_eq!(record("01:00,HR,6,0"), Malformed::Fields { line: 3, expected: 3, found: 4 });
        assert_eq!(record("1h,HR,60"), Malformed::Time { line: 3, text: "1h".into() });
        assert_eq!(record("00:00,RecordID,8"), Malformed::OtherRecord { line: 3, found: "8".into() });
        for text in ["", "NaN", "nan", "inf", "-inf", "1e30", "-1e7", "1e400", "sixty", "6 0"] {
            assert_eq!(record(&format!("01:00,HR,{text}")), Malformed::Value { line: 3, text: text.into() });
        }
        let long = "9".repeat(5000);
        let Malformed::Value { text, .. } = record(&format!("01:00,HR,{long}")) else { panic!() };
        assert_eq!(text.chars().count(), 31);
    }

    #[test]
    fn no_truncation_and_no_garbage_panics() {
        let whole = format!("{HEADER}\n00:00,RecordID,7\n00:00,Age,54\n00:07,HR,73\n47:59,Temp,35.1\n");
        for length in 0..whole.len() {
            let outcome = parse("7", &whole.as_bytes()[..length]);
            assert!(outcome.is_err() || whole.as_bytes()[length - 1] == b'\n', "{length}");
        }
        let mut state = 1_u32;
        for _ in 0..2000 {
            let mut bytes = whole.clone().into_bytes();
            for _ in 0..3 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let place = (state >> 8) as usize % bytes.len();
                bytes[place] = (state >> 24) as u8;
            }
            let _ = parse("7", &bytes);
        }
    }
}
