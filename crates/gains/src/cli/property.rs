//! Flags that say what is asked of the outputs.

use std::path::PathBuf;

use clap::Args;

use super::values::size;

/// What is asked of the outputs; by default that the class stays the same, that a forecast becomes hardly worse, or that
/// other outputs hardly move.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Property")]
pub struct PropertyArgs {
    /// Ask what this JSON file says: any combination of linear constraints on outputs (docs/properties.md)
    #[arg(long, value_name = "FILE", group = "asked")]
    pub property: Option<PathBuf>,
    /// Ask that samples are never taken for this class (name or number); several by commas
    #[arg(long, value_name = "CLASS", group = "asked")]
    pub target: Vec<String>,
    /// Ask that samples are taken for one of these classes (names, numbers, or @label)
    #[arg(long, value_name = "CLASS,CLASS", group = "asked")]
    pub allow: Vec<String>,
    /// Ask that the label stays among the K largest outputs
    #[arg(long, value_name = "K", group = "asked")]
    pub top: Option<usize>,
    /// Ask that every output stays within this distance of what it is without perturbation; for series in the units of the
    /// data [default for regression: 0.1]
    #[arg(long, value_name = "DISTANCE", value_parser = size, allow_negative_numbers = true, group = "asked")]
    pub tolerance: Option<f64>,
    /// Ask that an output stays between two numbers, of which one may be left out; repeatable
    #[arg(long, value_name = "NAME=LOW,HIGH", value_parser = between, group = "asked")]
    pub between: Vec<(String, [Option<f64>; 2])>,
}

/// `NAME=LOW,HIGH`, `NAME=,HIGH` or `NAME=LOW,`
fn between(text: &str) -> Result<(String, [Option<f64>; 2]), String> {
    let wrong = || format!("'{text}' is not NAME=LOW,HIGH");
    let (name, limits) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (low, high) = limits.split_once(',').ok_or_else(wrong)?;
    let number = |text: &str| match text.trim() {
        "" => Ok(None),
        text => match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Some(value)),
            _ => Err(format!("'{text}' is not a finite number")),
        },
    };
    let (low, high) = (number(low)?, number(high)?);
    match (low, high) {
        (None, None) => Err(format!("'{text}' has no limit")),
        (Some(low), Some(high)) if low > high => Err(format!("between {low} and {high} there is nothing")),
        limits => Ok((name.trim().to_owned(), [limits.0, limits.1])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_limit_may_be_left_out() {
        assert_eq!(between("a=b=-1,2e0").unwrap(), ("a=b".into(), [Some(-1.0), Some(2.0)]));
        assert_eq!(between("Lactate=,4").unwrap().1, [None, Some(4.0)]);
        assert_eq!(between("x=0,").unwrap().1, [Some(0.0), None]);
        for bad in ["x", "x=1", "x=,", "x=2,1", "x=a,1", "x=nan,1", "x=inf,", ""] {
            assert!(between(bad).is_err(), "{bad}");
        }
    }
}
