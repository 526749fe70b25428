//! From a network, an image and a radius to a verdict.

use std::time::Duration;

use gains_core::{Arithmetic, Interval, Network, Precision};
use gains_ode::Inference;

use crate::analysis::{Analysis, Bounds, Method, Prepared, image_region};
use crate::attack::{Attack, AttackOutcome};
use crate::box_step::StepForm;
use crate::limits::{Budget, Clock, Reason};
use crate::property::Property;

/// What is known about one sample at one radius.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Every input in the region is classified like the sample, and correctly.
    Verified,
    /// An input in the region is misclassified; it has been run by the concrete solver.
    Falsified {
        /// The input.
        witness: Vec<f64>,
    },
    /// Neither could be shown.
    Unknown(Reason),
    /// The sample itself is misclassified.
    Misclassified,
}

impl Verdict {
    /// The word used in result files.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Falsified { .. } => "falsified",
            Self::Unknown(_) => "unknown",
            Self::Misclassified => "misclassified",
        }
    }
}

/// How to verify.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Methods to try, cheapest first; the first that verifies wins.
    pub methods: Vec<Method>,
    /// How solver steps are bounded.
    pub step_form: StepForm,
    /// Whose arithmetic the verdict is about.
    pub arithmetic: Arithmetic,
    /// Attack to run on what is not verified.
    pub attack: Option<Attack>,
    /// Whether the attack comes before the last (most expensive) method rather than after it.
    pub attack_early: bool,
    /// Values a pixel can take.
    pub pixels: Interval,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            methods: vec![Method::Gains],
            step_form: StepForm::Independent,
            arithmetic: Arithmetic::Real,
            attack: None,
            attack_early: false,
            pixels: Interval::new(0.0, 1.0),
        }
    }
}

/// The outcome for one sample at one radius.
#[derive(Clone, Debug)]
pub struct Report {
    /// Class predicted by the concrete solver; `None` if it failed.
    pub prediction: Option<usize>,
    /// The verdict.
    pub verdict: Verdict,
    /// Smallest certified lower bound of a logit difference, if a method finished.
    pub margin: Option<f64>,
    /// Smallest logit difference an attack saw.
    pub attacked_margin: Option<f64>,
    /// The last method that ran.
    pub method: Option<Method>,
    /// Size of the trajectory graph of the last method that finished: vertices and edges.
    pub graph: Option<(usize, usize)>,
    /// Time for the verdict.
    pub elapsed: Duration,
}

/// A network ready to be verified.
pub struct Verifier {
    prepared: Prepared,
}

impl Verifier {
    /// Prepares a network.
    pub fn new(network: Network) -> Self {
        Self { prepared: Prepared::new(network) }
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.prepared.network
    }

    /// Encloses all layers over one region and bounds the property that `label` wins.
    pub fn bounds<'a>(
        &'a self,
        image: &[f64],
        label: usize,
        eps: f64,
        method: Method,
        settings: &Settings,
        clock: Clock<'a>,
    ) -> Result<(Bounds, Analysis<'a>), Reason> {
        let region = image_region(image, eps, settings.pixels);
        let analysis =
            Analysis::new(&self.prepared, region, method, settings.step_form, settings.arithmetic, clock)?;
        let bounds = analysis.bound(&Property::classification(self.network().outputs(), label))?;
        Ok((bounds, analysis))
    }

    /// EXPERIMENT
    pub fn branch(
        &self,
        image: &[f64],
        label: usize,
        eps: f64,
        settings: &Settings,
        clock: Clock<'_>,
    ) -> Result<(f64, crate::branch::Branched), Reason> {
        let (bounds, analysis) = self.bounds(image, label, eps, Method::Tight, settings, clock)?;
        let judge =
            crate::attack::Judge::new(self.network(), image, label, eps, settings.pixels, Precision::Float64);
        let property = Property::classification(self.network().outputs(), label);
        let j = |x: &[f64]| judge.misclassified(x).0;
        let b = crate::branch::Brancher::new(
            &self.prepared,
            &analysis,
            &property,
            settings.arithmetic,
            clock,
            &j,
        )
        .unwrap();
        Ok((bounds.margin(), b.run(&bounds.lower)))
    }

    /// Decides one sample at one radius. Never panics on odd numbers, never runs past its budget by more
    /// than one solver step, and says why when it does not know.
    pub fn certify(
        &self,
        image: &[f64],
        label: usize,
        eps: f64,
        settings: &Settings,
        budget: Budget<'_>,
    ) -> Report {
        let clock = Clock::start(budget);
        let precision = match settings.arithmetic {
            Arithmetic::Real => Precision::Float64,
            Arithmetic::Float32 => Precision::Float32,
        };
        let mut report = Report {
            prediction: None,
            verdict: Verdict::Misclassified,
            margin: None,
            attacked_margin: None,
            method: None,
            graph: None,
            elapsed: Duration::ZERO,
        };
        report.verdict = match Inference::run(self.network(), image, precision) {
            Err(error) => Verdict::Unknown(Reason::Concrete(error.to_string())),
            Ok(run) => {
                report.prediction = Some(run.prediction());
                if run.prediction() == label {
                    self.decide(image, label, eps, settings, precision, clock, &mut report)
                } else {
                    Verdict::Misclassified
                }
            }
        };
        report.elapsed = clock.elapsed();
        report
    }

    fn decide(
        &self,
        image: &[f64],
        label: usize,
        eps: f64,
        settings: &Settings,
        precision: Precision,
        clock: Clock<'_>,
        report: &mut Report,
    ) -> Verdict {
        let mut unknown = Reason::Interrupted;
        let mut attacked = false;
        let mut attack = |report: &mut Report| -> Option<Verdict> {
            let attack = settings.attack.filter(|_| !attacked)?;
            attacked = true;
            let stop = || clock.check(0).is_err();
            let AttackOutcome { witness, margin } =
                attack.run(self.network(), image, label, eps, settings.pixels, precision, &stop);
            report.attacked_margin = Some(margin);
            witness.map(|witness| Verdict::Falsified { witness })
        };
        for (index, &method) in settings.methods.iter().enumerate() {
            if settings.attack_early
                && index + 1 == settings.methods.len()
                && let Some(verdict) = attack(report)
            {
                return verdict;
            }
            report.method = Some(method);
            match self.bounds(image, label, eps, method, settings, clock) {
                Ok((bounds, analysis)) => {
                    let margin = bounds.margin();
                    report.margin = Some(report.margin.map_or(margin, |best: f64| best.max(margin)));
                    report.graph = Some(analysis.graph_size());
                    if margin > 0.0 {
                        return Verdict::Verified;
                    }
                    unknown = Reason::Loose { margin };
                }
                Err(reason) => unknown = reason,
            }
        }
        let falsified = attack(report);
        // An attack that was cut short has not decided anything.
        if clock.interrupted() {
            unknown = Reason::Interrupted;
        }
        falsified.unwrap_or(Verdict::Unknown(unknown))
    }
}
