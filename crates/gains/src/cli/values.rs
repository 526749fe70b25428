//! Numbers on the command line.

/// A number from 0 on, of a size that makes sense.
pub fn size(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (0.0..=1e9).contains(&value) => Ok(value),
        Ok(value) => Err(format!("{value} is not between 0 and 1e9")),
        Err(_) => Err(format!("'{text}' is not a number")),
    }
}

/// A radius of pixels, which go from 0 to 1.
pub fn radius(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        Ok(value) => Err(format!("{value} is not between 0 and 1, the range of a pixel")),
        Err(_) => Err(format!("'{text}' is not a number")),
    }
}

/// A number above 0, of a size that makes sense.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e9 => Ok(value),
        Ok(value) => Err(format!("{value} is not between 0 and 1e9")),
        Err(_) => Err(format!("'{text}' is not a number")),
    }
}
