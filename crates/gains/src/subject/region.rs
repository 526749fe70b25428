//! Which inputs are considered around a sample: `--eps`, `--norm`, `--range`, `--features`, `--feature-eps`.

use std::collections::BTreeMap;
use std::path::Path;

use gains_core::Interval;
use gains_data::own::{self, Label};
use gains_verify::Norm;

use super::entries::Entries;
use crate::cli::{FeatureEps, RangeArg, RegionArgs};
use crate::failure::Failure;
use crate::question::Region;
use crate::results::RangeSetting;
use crate::selection::split_names;

/// Values that stay nowhere in particular.
const ANYWHERE: Interval = Interval::new(f64::NEG_INFINITY, f64::INFINITY);

/// How regions are made, for all samples.
#[derive(Clone, Debug)]
pub struct Regions {
    /// As the known sets of images are asked about, unless something else is said.
    plain: Option<Interval>,
    /// How changes are measured.
    pub norm: Norm,
    /// Where each entry stays, in the network's order.
    ranges: Vec<Interval>,
    /// Radii that do not follow eps, in the network's order.
    radii: Vec<Option<f64>>,
    /// What was said about ranges.
    pub range: Option<RangeSetting>,
    /// Names of those that move, if not all do.
    pub listed: Vec<String>,
    /// Those with a radius of their own, by name.
    pub named: BTreeMap<String, f64>,
}

impl Regions {
    /// Looks all names up. `usual` is where values stay unless something else is said.
    pub fn new(args: &RegionArgs, entries: &Entries, usual: Option<Interval>) -> Result<Self, Failure> {
        let norm = args.norm.map_or(Norm::Infinity, Norm::from);
        let range = range_of(&args.range, usual)?;
        let mut ranges = vec![ANYWHERE; entries.len()];
        match &range {
            None => {}
            Some(RangeSetting::All([low, high])) => ranges.fill(Interval::new(*low, *high)),
            Some(RangeSetting::Each(each)) => {
                for (place, name) in places("--range", each.keys(), entries)? {
                    let [low, high] = each[name];
                    ranges[place] = Interval::new(low, high);
                }
            }
        }
        let listed = split_names(&args.features, &|name| entries.is_named(name));
        let fixed = if listed.is_empty() { None } else { Some(0.0) };
        let mut radii = vec![fixed; entries.len()];
        for name in &listed {
            radii[entries.place(name)?] = None;
        }
        let given = radii_of(&args.feature_eps)?;
        for (place, name) in places("--feature-eps", given.iter().map(|(name, _)| name), entries)? {
            radii[place] = given.iter().find(|(other, _)| other == name).map(|(_, radius)| *radius);
        }
        let named: BTreeMap<String, f64> = given.into_iter().collect();
        let asked = norm != Norm::Infinity || !args.range.is_empty() || radii.iter().any(Option::is_some);
        let plain = if asked { None } else { usual };
        Ok(Self { plain, norm, ranges, radii, range, listed, named })
    }

    /// Whether nothing is asked that the known sets of images would not be.
    pub fn is_plain(&self) -> bool {
        self.plain.is_some()
    }

    /// All inputs considered around a sample.
    pub fn around(&self, values: &[f64], eps: f64) -> Region {
        if let Some(range) = self.plain {
            return Region::ball(values, eps, range);
        }
        let radii: Vec<f64> = self.radii.iter().map(|radius| radius.unwrap_or(eps)).collect();
        Region::around(values, &radii, &self.ranges, self.norm)
    }

    /// The first entry of a sample that is outside of its range, and the range.
    pub fn outside(&self, values: &[f64]) -> Option<(usize, Interval)> {
        let at = values.iter().zip(&self.ranges).position(|(value, range)| !range.contains(*value))?;
        Some((at, self.ranges[at]))
    }

    /// What is asked, in words.
    pub fn words(&self) -> String {
        let mut words = format!("norm {}, range ", self.norm);
        match &self.range {
            None => words.push_str("none"),
            Some(RangeSetting::All([low, high])) => words.push_str(&format!("{low} to {high}")),
            Some(RangeSetting::Each(each)) => {
                let one = |(name, [low, high]): (&String, &[f64; 2])| format!("{name} {low} to {high}");
                words.push_str(&each.iter().map(one).collect::<Vec<_>>().join(" and "));
            }
        }
        if !self.listed.is_empty() {
            words.push_str(&format!(", only {}", self.listed.join(" and ")));
        }
        for (name, radius) in &self.named {
            words.push_str(&format!(", {name} by {radius}"));
        }
        words
    }
}

/// Where the entries of these names are. One may have two, a name and a number: it is spoken of once.
fn places<'a>(
    flag: &str,
    names: impl Iterator<Item = &'a String>,
    entries: &Entries,
) -> Result<BTreeMap<usize, &'a String>, Failure> {
    let mut places = BTreeMap::new();
    for name in names {
        if let Some(before) = places.insert(entries.place(name)?, name) {
            let twice = match before == name {
                true => format!("{flag} names '{name}' twice"),
                false => format!("{flag} names one entry twice, as '{before}' and as '{name}'"),
            };
            return Err(Failure::usage(twice).hint("speak of every entry once"));
        }
    }
    Ok(places)
}

/// Radii of features, by name or number, those in files among them.
pub fn radii_of(given: &[FeatureEps]) -> Result<Vec<(String, f64)>, Failure> {
    let mut all = Vec::new();
    for one in given {
        match one {
            FeatureEps::One(name, radius) => all.push((name.clone(), *radius)),
            FeatureEps::File(path) => {
                for (name, numbers) in table(path, &["eps"])? {
                    let radius = numbers[0];
                    if !(0.0..=1e9).contains(&radius) {
                        return Err(Failure::usage(format!(
                            "'{}': the radius of '{name}' is {radius}, not between 0 and 1e9",
                            path.display()
                        ))
                        .hint("0 keeps a feature as it is"));
                    }
                    all.push((name, radius));
                }
            }
        }
    }
    Ok(all)
}

/// What was said about ranges, those in files among it.
fn range_of(given: &[RangeArg], usual: Option<Interval>) -> Result<Option<RangeSetting>, Failure> {
    let mut each = BTreeMap::new();
    let mut insert = |name: String, low: f64, high: f64| match each.insert(name.clone(), [low, high]) {
        Some(_) => Err(Failure::usage(format!("--range names '{name}' twice")).hint("give every range once")),
        None => Ok(()),
    };
    for one in given {
        match one {
            RangeArg::None | RangeArg::All(..) if given.len() > 1 => {
                return Err(Failure::usage("--range speaks of all features and of single ones")
                    .hint("give one range for all, or NAME=LOW,HIGH for each"));
            }
            RangeArg::None => return Ok(None),
            RangeArg::All(low, high) => return Ok(Some(RangeSetting::All([*low, *high]))),
            RangeArg::One(name, low, high) => insert(name.clone(), *low, *high)?,
            RangeArg::File(path) => {
                for (name, ends) in table(path, &["low", "high"])? {
                    let (low, high) = (ends[0], ends[1]);
                    if low > high {
                        let message = format!("'{}': of '{name}', {low} is above {high}", path.display());
                        return Err(Failure::usage(message).hint("the columns are feature, low, high"));
                    }
                    insert(name, low, high)?;
                }
            }
        }
    }
    if each.is_empty() {
        return Ok(usual.map(|range| RangeSetting::All([range.lower, range.upper])));
    }
    Ok(Some(RangeSetting::Each(each)))
}

/// A file with numbers for features: a table with a column `feature` and those asked for, or an array with a row of them
/// for each feature, by number.
fn table(path: &Path, columns: &[&str]) -> Result<Vec<(String, Vec<f64>)>, Failure> {
    let is_table = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
    let read = own::read_inputs(path, is_table.then_some("feature"))?;
    let fits = match &read.columns {
        Some(found) => found.iter().eq(columns),
        None => read.entries() == columns.len(),
    };
    if !fits {
        return Err(Failure::usage(format!("'{}' does not hold {}", path.display(), columns.join(" and ")))
            .hint(format!(
                "give a .csv with the columns feature,{}, or an array with a row of {} for each entry",
                columns.join(","),
                columns.len()
            )));
    }
    let name = |at: usize| match read.labels.as_ref().map(|names| &names[at]) {
        Some(Label::Name(name)) => name.clone(),
        Some(Label::Number(number) | Label::Written(_, number)) => number.to_string(),
        Some(Label::Numbers(_)) | None => at.to_string(),
    };
    if matches!(read.labels.as_deref(), Some([Label::Numbers(_), ..])) {
        return Err(Failure::usage(format!(
            "'{}' has several numbers where a feature is named",
            path.display()
        ))
        .hint(format!("give a .csv with the columns feature,{}", columns.join(","))));
    }
    Ok((0..read.samples).map(|at| (name(at), read.sample(at).to_vec())).collect())
}
