//! Choosing samples, `--samples`, and names in lists.

use std::fmt;
use std::str::FromStr;

/// A list of indices: `0..1000`, `7`, `0..10,20,30..40`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    ranges: Vec<std::ops::Range<usize>>,
    /// Whether it is enough to take those that are there.
    at_most: bool,
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.ranges.iter().map(|r| format!("{}..{}", r.start, r.end)).collect();
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |t: &str| t.trim().parse::<usize>().map_err(|_| format!("'{t}' is not an index"));
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let range = match part.split_once("..") {
                Some((first, last)) => number(first)?..number(last)?,
                None => {
                    let index = number(part)?;
                    index..index.checked_add(1).ok_or("index too large")?
                }
            };
            if range.is_empty() {
                return Err(format!("'{part}' selects nothing (the end is not included)"));
            }
            ranges.push(range);
        }
        Ok(Self { ranges, at_most: false })
    }
}

impl Selection {
    /// These samples.
    pub fn of(indices: impl IntoIterator<Item = usize>) -> Self {
        let ranges = indices.into_iter().map(|index| index..index.saturating_add(1)).collect();
        Self { ranges, at_most: false }
    }

    /// The indices in the order given, each once.
    pub fn indices(&self) -> Vec<usize> {
        let mut seen = std::collections::HashSet::new();
        self.ranges.iter().cloned().flatten().filter(|i| seen.insert(*i)).collect()
    }

    /// The first so many, or all if there are fewer.
    pub fn first(count: usize) -> Self {
        Self { ranges: std::iter::once(0..count).collect(), at_most: true }
    }

    /// The first hundred.
    pub fn hundred() -> Self {
        Self { at_most: false, ..Self::first(100) }
    }

    /// The indices among so many samples; the largest one asked for, if it is not there.
    pub fn among(&self, count: usize) -> Result<Vec<usize>, usize> {
        match self.last() {
            last if last < count => Ok(self.indices()),
            _ if self.at_most => Ok(self.indices().into_iter().filter(|index| *index < count).collect()),
            missing => Err(missing),
        }
    }

    /// The largest index.
    pub fn last(&self) -> usize {
        self.ranges.iter().map(|r| r.end - 1).max().unwrap_or(0)
    }
}

/// Splits lists at commas, unless the whole is a name.
pub fn split_names(given: &[String], known: &dyn Fn(&str) -> bool) -> Vec<String> {
    let parts = |text: &String| -> Vec<String> {
        if known(text) {
            vec![text.clone()]
        } else {
            text.split(',').map(|name| name.trim().to_owned()).collect()
        }
    };
    given.iter().flat_map(parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_parse_and_keep_their_order() {
        let indices = |text: &str| Selection::from_str(text).unwrap().indices();
        assert_eq!(indices("3"), [3]);
        assert_eq!(indices("0..3,10,2..4"), [0, 1, 2, 10, 3]);
        assert_eq!(Selection::of([5, 2]).indices(), [5, 2]);
        let three = Selection::from_str("0..3").unwrap();
        assert_eq!((three.among(3), three.among(2)), (Ok(vec![0, 1, 2]), Err(2)));
        assert_eq!(Selection::first(3).among(2), Ok(vec![0, 1]));
        for bad in ["", "a", "5..5", "9..3", "-1", "1..", "0..3,", "99999999999999999999"] {
            assert!(Selection::from_str(bad).is_err(), "{bad}");
        }
    }
}
