//! What files of version 1 leave to names and records, and version 2 says.

use serde_json::Value;

use crate::description::{Description, Task};

/// The data set whose ratios and statics the paper names.
const PHYSIONET: &str = "physionet2012";

/// Fills in what a forecasting network of version 1 does not say: its horizon, from the record of its training, and what
/// is perturbed within which range, by the names of the paper.
pub(super) fn of_the_first_version(mut description: Description) -> Description {
    if description.version > 1 || !matches!(description.task, Task::Forecasting { .. }) {
        return description;
    }
    if let Task::Forecasting { horizon: Some(_), .. } | Task::Forecasting { perturbed: Some(_), .. } =
        &description.task
    {
        return description;
    }
    let ahead = horizon(&description.training);
    let known = description.dataset.as_deref() == Some(PHYSIONET);
    description.task = description.task.as_in_the_paper();
    if let Task::Forecasting { horizon, ranges, .. } = &mut description.task {
        *horizon = ahead;
        // Elsewhere a ratio is standardised like any other feature.
        if !known {
            ranges.clear();
        }
    }
    description
}

/// The horizon a training record speaks of: an entry `horizon` at any depth, in hours where it ends with `h`, or the
/// published data mode.
pub(crate) fn horizon(record: &Value) -> Option<f64> {
    const PAPER: [f64; 3] = [6.0, 12.0, 24.0];
    let Value::Object(entries) = record else { return None };
    let told = entries.get("horizon").and_then(|value| match value {
        Value::String(text) => text.trim_end_matches('h').parse().ok(),
        value => value.as_f64(),
    });
    let mode = || {
        let (_, rest) = entries.get("source")?.as_str()?.split_once("data_mode_")?;
        let mode: usize = rest.chars().next()?.to_digit(10)? as usize;
        PAPER.get(mode.checked_sub(1)?).copied()
    };
    let positive = |ahead: &f64| ahead.is_finite() && *ahead > 0.0;
    told.filter(positive).or_else(mode).or_else(|| entries.values().find_map(horizon))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn horizons_are_found_in_training_records() {
        let of = |text: &str| horizon(&serde_json::from_str(text).unwrap());
        assert_eq!(of(r#"{"horizon": 6}"#), Some(6.0));
        assert_eq!(of(r#"{"config": {"data": {"horizon": "12h"}}}"#), Some(12.0));
        assert_eq!(of(r#"{"source": "seed_100_data_mode_3.pth.tar"}"#), Some(24.0));
        assert_eq!(of(r#"{"source": "data_mode_9"}"#), None);
        assert_eq!(of(r#"{"horizon": -1}"#), None);
        assert_eq!(of("null"), None);
    }

    #[test]
    fn only_physionets_ratios_are_ratios() {
        let names = |all: [&str; 2]| all.map(String::from).to_vec();
        let of = |dataset: &str| {
            let task = Task::forecasting(names(["HR", "FiO2"]), names(["Age", "Gender"]));
            let mut old = Description::new("old", task, crate::Shape::flat(2), Vec::new());
            (old.version, old.dataset) = (1, Some(dataset.into()));
            let Task::Forecasting { ranges, perturbed, .. } = of_the_first_version(old).task else {
                panic!()
            };
            (ranges, perturbed.unwrap())
        };
        assert_eq!(of(PHYSIONET).0["FiO2"], [0.0, 1.0]);
        assert!(of("my.series").0.is_empty(), "standardised like any other");
        assert_eq!(of("my.series").1, ["HR", "FiO2", "Age"]);
    }
}
