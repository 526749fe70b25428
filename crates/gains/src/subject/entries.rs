//! The entries of an input: their names, and where the network takes them.

use gains_core::Shape;

use crate::cli::LayoutArg;
use crate::failure::Failure;

/// How the entries of an input are called, and where each is in what the network takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Entries {
    /// Columns of a table; otherwise entries are numbered.
    names: Option<Vec<String>>,
    /// The place in the network's input of every entry, in the order of the file.
    places: Vec<usize>,
}

impl Entries {
    /// Entries in the order the network takes them, which is pixel by pixel, or channel by channel.
    pub fn new(shape: Shape, layout: LayoutArg, names: Option<Vec<String>>) -> Self {
        let (pixels, channels) = (shape.positions(), shape.channels);
        let place = |at: usize| match layout {
            LayoutArg::Nhwc => at,
            LayoutArg::Nchw => (at % pixels) * channels + at / pixels,
        };
        Self { names, places: (0..shape.len()).map(place).collect() }
    }

    /// What says which entry a name or a number means; nothing if they are numbered as the network takes them.
    pub fn naming(&self) -> Option<String> {
        let in_order = self.places.iter().enumerate().all(|(at, place)| at == *place);
        let names = self.names.as_ref().map(|names| format!("{names:?}"));
        let places = (!in_order).then(|| format!("{:?}", self.places));
        (names.is_some() || places.is_some()).then(|| format!("{names:?} {places:?}"))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Puts numbers of a file in the order the network takes them.
    pub fn arrange(&self, values: &[f64]) -> Vec<f64> {
        let mut arranged = vec![0.0; values.len()];
        for (value, place) in values.iter().zip(&self.places) {
            arranged[*place] = *value;
        }
        arranged
    }

    /// The way back: numbers in the order of the network, in the order of the file.
    pub fn restore(&self, values: &[f64]) -> Vec<f64> {
        self.places.iter().map(|place| values[*place]).collect()
    }

    /// The place of an entry in the network's input, by its name or its number in the file.
    pub fn place(&self, name: &str) -> Result<usize, Failure> {
        let known = self.names.as_ref().and_then(|names| names.iter().position(|known| known == name));
        let number = || name.parse::<usize>().ok().filter(|number| *number < self.len());
        known.or_else(number).map(|at| self.places[at]).ok_or_else(|| {
            let there = match &self.names {
                Some(names) => names.join(", "),
                None => format!("numbers from 0 to {}", self.len().saturating_sub(1)),
            };
            Failure::usage(format!("there is no feature '{name}'")).hint(format!("there are {there}"))
        })
    }

    /// What the entry at a place of the network's input is called.
    pub fn name(&self, place: usize) -> String {
        let at = self.places.iter().position(|known| *known == place).unwrap_or(place);
        match self.names.as_ref().and_then(|names| names.get(at)) {
            Some(name) => format!("column '{name}'"),
            None => format!("entry {at}"),
        }
    }

    /// Whether an entry has this name.
    pub fn is_named(&self, name: &str) -> bool {
        self.names.as_ref().is_some_and(|names| names.iter().any(|known| known == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_come_last_in_the_network() {
        let shape = Shape::image(2, 3, 2);
        // Channel by channel: entry (channel, row, column) is 100·channel + 10·row + column.
        let planes: Vec<f64> = (0..12).map(|i| f64::from(100 * (i / 6) + 10 * (i % 6 / 3) + i % 3)).collect();
        let arranged = Entries::new(shape, LayoutArg::Nchw, None).arrange(&planes);
        assert_eq!(arranged[..4], [0.0, 100.0, 1.0, 101.0]);
        assert_eq!(arranged[10..], [12.0, 112.0]);
        assert_eq!(Entries::new(shape, LayoutArg::Nchw, None).restore(&arranged), planes);
        assert_eq!(Entries::new(shape, LayoutArg::Nhwc, None).arrange(&planes), planes);
        let entries = Entries::new(shape, LayoutArg::Nchw, None);
        assert_eq!((entries.place("6").unwrap(), entries.name(1)), (1, "entry 6".into()));
        assert!(entries.place("12").is_err() && entries.place("-1").is_err());
    }
}
