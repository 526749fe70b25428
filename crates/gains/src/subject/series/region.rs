//! Which entries of a series move, and how far: `--eps`, `--features`, `--feature-eps`.

use std::collections::BTreeMap;

use gains_core::Network;

use super::super::region::radii_of;
use super::source::{Names, unknown_name};
use crate::cli::RegionArgs;
use crate::failure::Failure;
use crate::question::{Allowance, Perturbation, Tolerance};
use crate::selection::split_names;

/// An entry of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Feature(usize),
    Static(usize),
}

/// What was asked about the region, with names looked up.
#[derive(Clone, Debug)]
pub struct Region {
    /// Only these move; all if there are none.
    only: Vec<Entry>,
    /// Radii that do not follow eps.
    fixed: Vec<(Entry, f64)>,
    /// How much worse predictions may become.
    pub tolerance: Tolerance,
    /// Names of those that move, if not all do.
    pub listed: Vec<String>,
    /// Names of those with a radius of their own, and it.
    pub named: BTreeMap<String, f64>,
    words: String,
}

impl Region {
    /// Looks all names up.
    pub fn new(args: &RegionArgs, names: &Names) -> Result<Self, Failure> {
        let all: Vec<String> = names.features.iter().chain(&names.statics).cloned().collect();
        let look_up = |name: &String| match all.iter().position(|known| known == name) {
            Some(i) if i < names.features.len() => Ok(Entry::Feature(i)),
            Some(i) => Ok(Entry::Static(i - names.features.len())),
            None => Err(unknown_name(name, "feature", &all)),
        };
        let listed = split_names(&args.features, &|name| all.iter().any(|known| known == name));
        let only = listed.iter().map(look_up).collect::<Result<Vec<_>, _>>()?;
        let mut fixed = Vec::new();
        let given = radii_of(&args.feature_eps)?;
        for (name, radius) in &given {
            let entry = look_up(name)?;
            if fixed.iter().any(|(other, _)| *other == entry) {
                return Err(Failure::usage(format!("--feature-eps names '{name}' twice"))
                    .hint("give every radius once"));
            }
            fixed.push((entry, *radius));
        }
        let default = Tolerance::default();
        let tolerance = Tolerance {
            relative: args.nu.unwrap_or(default.relative),
            absolute: args.delta.unwrap_or(default.absolute),
        };
        let mut words = format!("nu {}, delta {}", tolerance.relative, tolerance.absolute);
        if !listed.is_empty() {
            words.push_str(&format!(", only {}", listed.join(" and ")));
        }
        let named: BTreeMap<String, f64> = given.into_iter().collect();
        for (name, radius) in &named {
            words.push_str(&format!(", {name} by {radius}"));
        }
        Ok(Self { only, fixed, tolerance, listed, named, words })
    }

    /// What may move at one radius: what the model file says, unless asked otherwise. Ranges stay as they are.
    pub fn at(&self, network: &Network, eps: f64) -> Perturbation {
        let usual = Perturbation::of_task(&network.description.task, eps);
        let mut region = usual.clone();
        if !self.only.is_empty() {
            region.features.iter_mut().chain(&mut region.statics).for_each(|a| *a = Allowance::EXACT);
            for &entry in &self.only {
                set_radius(&mut region, &usual, entry, eps);
            }
        }
        for &(entry, radius) in &self.fixed {
            set_radius(&mut region, &usual, entry, radius);
        }
        region
    }

    /// The question in words that differ whenever the answer might.
    pub fn words(&self) -> &str {
        &self.words
    }
}

fn set_radius(region: &mut Perturbation, usual: &Perturbation, entry: Entry, radius: f64) {
    let (list, like) = match entry {
        Entry::Feature(i) => (&mut region.features[i], usual.features[i]),
        Entry::Static(i) => (&mut region.statics[i], usual.statics[i]),
    };
    *list = Allowance { radius, ..like };
}
