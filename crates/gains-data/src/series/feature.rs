//! What is measured: the features of a set, where each of them goes, and what is fixed about PhysioNet's.

use std::fmt;

/// Where a set of series comes from. It decides the rules that are not in the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The PhysioNet/Computing in Cardiology Challenge 2012, sets a and b.
    PhysioNet2012,
    /// A table `record,time,feature,value` of the user's own.
    Csv,
}

impl Kind {
    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::PhysioNet2012 => "physionet2012",
            Kind::Csv => "csv",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where the values of a feature go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Into the series: what the encoder reads and the decoder predicts.
    Series,
    /// One value per record, into the initial state.
    Static,
    /// The mean of what is observed before the target, into the initial state; 0 where nothing is.
    Mean,
    /// Whether it is observed before the target, 1 or 0, into the initial state.
    Seen,
}

/// One measured quantity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Feature {
    /// Its name in the source.
    pub name: String,
    /// Where its values go.
    pub role: Role,
}

/// How a value is brought to the scale of the network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scaling {
    /// Mean 0 and standard deviation 1 on the training part.
    Standard,
    /// Divided by this number, whatever the data say: 1 for categories, 100 for percentages.
    Divided(f64),
}

/// One row of [`PHYSIONET`]: name, role, values are clipped to, scaling.
pub(super) type Row = (&'static str, Role, Option<(f32, f32)>, Scaling);

/// Rounds times of PhysioNet records to multiples of this, in hours: three minutes.
pub(super) const PHYSIONET_GRID: f64 = 0.05;
/// PhysioNet records end here, in hours. Times are divided by it.
pub(super) const PHYSIONET_SPAN: f64 = 48.0;

const fn series(name: &'static str) -> Row {
    (name, Role::Series, None, Scaling::Standard)
}

const fn clipped(name: &'static str, least: f32, most: f32) -> Row {
    (name, Role::Series, Some((least, most)), Scaling::Standard)
}

/// The 41 features in the order of the authors of GAINS and of the latent ODE before them.
///
/// The clipping bounds are those of the paper's appendix; of GCS its code alone has them, and they are the
/// ends of the Glasgow coma scale.
pub(super) const PHYSIONET: [Row; 41] = [
    ("Age", Role::Static, None, Scaling::Standard),
    ("Gender", Role::Static, None, Scaling::Divided(1.0)),
    ("Height", Role::Static, None, Scaling::Standard),
    ("ICUType", Role::Static, None, Scaling::Divided(1.0)),
    series("Weight"),
    series("Albumin"),
    series("ALP"),
    series("ALT"),
    series("AST"),
    series("Bilirubin"),
    series("BUN"),
    series("Cholesterol"),
    series("Creatinine"),
    series("DiasABP"),
    ("FiO2", Role::Series, None, Scaling::Divided(1.0)),
    ("GCS", Role::Mean, Some((3.0, 15.0)), Scaling::Divided(1.0)),
    series("Glucose"),
    series("HCO3"),
    series("HCT"),
    series("HR"),
    series("K"),
    series("Lactate"),
    series("Mg"),
    series("MAP"),
    ("MechVent", Role::Seen, None, Scaling::Divided(1.0)),
    series("Na"),
    series("NIDiasABP"),
    series("NIMAP"),
    series("NISysABP"),
    series("PaCO2"),
    series("PaO2"),
    clipped("pH", 0.0, 14.0),
    series("Platelets"),
    series("RespRate"),
    ("SaO2", Role::Series, None, Scaling::Divided(100.0)),
    series("SysABP"),
    clipped("Temp", 32.0, 45.0),
    series("TroponinI"),
    series("TroponinT"),
    clipped("Urine", 0.0, 2000.0),
    clipped("WBC", 0.0, 60.0),
];

/// The features of every PhysioNet record.
pub(super) fn physionet_features() -> Vec<Feature> {
    PHYSIONET.iter().map(|&(name, role, ..)| Feature { name: name.to_owned(), role }).collect()
}

/// `value` within the bounds that are fixed for the feature.
pub(super) fn clip(kind: Kind, feature: usize, value: f32) -> f32 {
    match kind {
        Kind::PhysioNet2012 => match PHYSIONET.get(feature) {
            Some(&(_, _, Some((least, most)), _)) => value.clamp(least, most),
            _ => value,
        },
        Kind::Csv => value,
    }
}

/// How the feature is scaled.
pub(super) fn scaling(kind: Kind, feature: usize) -> Scaling {
    match kind {
        Kind::PhysioNet2012 => PHYSIONET.get(feature).map_or(Scaling::Standard, |row| row.3),
        Kind::Csv => Scaling::Standard,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_five_features_make_the_series_and_six_the_initial_state() {
        let series: Vec<&str> =
            PHYSIONET.iter().filter(|row| row.1 == Role::Series).map(|row| row.0).collect();
        assert_eq!(series.len(), 35);
        assert_eq!((series[10], series[28]), ("FiO2", "SaO2"), "the reference names these positions");
        assert_eq!(PHYSIONET.len() - series.len(), 6);
        let mut names: Vec<&str> = PHYSIONET.iter().map(|row| row.0).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 41);
    }

    #[test]
    fn noisy_features_are_clipped_and_others_are_not() {
        let index = |name| PHYSIONET.iter().position(|row| row.0 == name).unwrap();
        let physionet = |name, value| clip(Kind::PhysioNet2012, index(name), value);
        assert_eq!((physionet("Temp", -17.8), physionet("Temp", 46.0)), (32.0, 45.0));
        assert_eq!((physionet("Urine", -1.0), physionet("Urine", 19_990.0)), (0.0, 2000.0));
        assert_eq!((physionet("WBC", -1.0), physionet("WBC", 12_500.0)), (0.0, 60.0));
        assert_eq!((physionet("pH", -1.0), physionet("pH", 735.0)), (0.0, 14.0));
        assert_eq!((physionet("GCS", 1.0), physionet("GCS", 16.0)), (3.0, 15.0));
        assert_eq!((physionet("Height", -1.0), physionet("HR", 300.0)), (-1.0, 300.0));
        assert_eq!(clip(Kind::Csv, index("Temp"), -17.8), -17.8);
    }
}
