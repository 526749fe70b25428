//! Numbers and names on the command line.

use gains_data::Dataset;

/// A number, or a fraction of two like 8/255.
pub fn number(text: &str) -> Result<f64, String> {
    let parse = |part: &str| part.trim().parse::<f64>().map_err(|_| format!("'{text}' is not a number"));
    let value = match text.split_once('/') {
        Some((above, below)) => parse(above)? / parse(below)?,
        None => parse(text)?,
    };
    if value.is_finite() { Ok(value) } else { Err(format!("'{text}' is not finite")) }
}

/// A number from 0 on, of a size that makes sense.
pub fn size(text: &str) -> Result<f64, String> {
    match number(text)? {
        value if (0.0..=1e9).contains(&value) => Ok(value),
        value => Err(format!("{value} is not between 0 and 1e9")),
    }
}

/// A radius of pixels, which go from 0 to 1.
pub fn radius(text: &str) -> Result<f64, String> {
    match number(text)? {
        value if (0.0..=1.0).contains(&value) => Ok(value),
        value => Err(format!("{value} is not between 0 and 1, the range of a pixel")),
    }
}

/// A number above 0, of a size that makes sense.
pub fn positive(text: &str) -> Result<f64, String> {
    match number(text)? {
        value if value > 0.0 && value <= 1e9 => Ok(value),
        value => Err(format!("{value} is not above 0 and at most 1e9")),
    }
}

/// A data set by its name.
pub fn data_set(text: &str) -> Result<Dataset, String> {
    text.parse().map_err(|_| {
        let names: Vec<&str> = Dataset::ALL.iter().map(|set| set.name()).collect();
        let names = names.join(", ");
        format!("there are {names}; files of your own are given by --inputs (`gains data formats`)")
    })
}
