//! What studies are about, and so which flags they take.

use crate::failure::{Failure, Outcome};

/// What a study is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Neither networks nor samples.
    Nothing,
    /// Networks that tell classes apart, and images.
    Classifiers,
    /// Networks that forecast, and records.
    Forecasters,
    /// Networks it trains, and images.
    Trainings,
}

const SAMPLES: &[&str] = &["--samples", "--data-dir"];
const IMAGES: &[&str] = &["--data", "--split", "--inputs", "--box", "--layout", "--scale"];
const NETWORKS: &[&str] = &["--network", "--trained"];
const TRAININGS: &[&str] = &["--trained", "--set", "--commands", "--device"];

impl Takes {
    /// The flags that say so, beside those of all studies.
    fn flags(self) -> Vec<&'static str> {
        match self {
            Self::Nothing => vec![],
            Self::Classifiers => [NETWORKS, SAMPLES, IMAGES].concat(),
            Self::Forecasters => [NETWORKS, SAMPLES].concat(),
            Self::Trainings => [TRAININGS, SAMPLES, IMAGES].concat(),
        }
    }

    /// Refuses flags that would be given to `what` in vain.
    pub fn check(self, what: &str, given: &[&str]) -> Outcome {
        let taken = self.flags();
        let Some(flag) = given.iter().find(|flag| !taken.contains(flag)) else { return Ok(()) };
        Err(Failure::usage(format!("{what} does not take {flag}")).hint(match &taken[..] {
            [] => format!("leave {flag} out"),
            taken => format!("leave {flag} out; it takes {}", taken.join(", ")),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_say_nothing_are_refused() {
        let refused = |takes: Takes, flag| takes.check("it", &["--samples", flag]).err().map(|f| f.message);
        assert_eq!(refused(Takes::Nothing, "--samples").unwrap(), "it does not take --samples");
        assert_eq!(refused(Takes::Classifiers, "--inputs"), None);
        assert_eq!(refused(Takes::Classifiers, "--set").unwrap(), "it does not take --set");
        assert_eq!(refused(Takes::Forecasters, "--split").unwrap(), "it does not take --split");
        assert_eq!(refused(Takes::Trainings, "--commands"), None);
        assert_eq!(refused(Takes::Trainings, "--network").unwrap(), "it does not take --network");
    }
}
