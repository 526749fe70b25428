//! From a network, an image and a radius to a verdict.

use std::time::{Duration, Instant};

use gains_core::{Arithmetic, Interval, Network, Precision};
use gains_ode::Inference;

use crate::analysis::{Analysis, Bounds, Method, Prepared, image_region};
use crate::attack::{Attack, AttackLoss, AttackOutcome, Ball};
use crate::bisect;
use crate::box_step::StepForm;
use crate::branch::{Brancher, Task};
use crate::limits::{Budget, Clock, Reason};
use crate::looseness::Looseness;
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

/// One thing to try on a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    /// Look for a counterexample.
    Attack(Attack),
    /// Bound the margins with one method.
    Bound(Method),
    /// The same, only if no stage before could bound them at all.
    Rescue(Method),
    /// Slopes improved by gradient, then case distinctions, starting from what [`Method::Tight`] proves.
    Branch,
}

impl Stage {
    /// A stage for each of the methods.
    pub fn bounds(methods: &[Method]) -> Vec<Self> {
        methods.iter().map(|&method| Self::Bound(method)).collect()
    }
}

/// How to verify.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What to try, in order; the first that decides wins.
    pub stages: Vec<Stage>,
    /// How solver steps are bounded, where the method leaves a choice.
    pub step_form: StepForm,
    /// Whose arithmetic the verdict is about.
    pub arithmetic: Arithmetic,
    /// Values a pixel can take.
    pub pixels: Interval,
    /// Threads one sample may use.
    pub workers: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            stages: vec![Stage::Bound(Method::Gains)],
            step_form: StepForm::Independent,
            arithmetic: Arithmetic::Real,
            pixels: Interval::new(0.0, 1.0),
            workers: 1,
        }
    }
}

impl Settings {
    /// The cascade: a short attack, so that no time goes into proving falsehoods, then ever more expensive
    /// bounds, each on what is left. `attack` comes before the expensive part. Affine forms take over where
    /// boxes cannot enclose the trajectories.
    pub fn cascade(eps: f64, attack: Option<Attack>) -> Self {
        let short =
            Attack { steps: 20, step_size: eps / 6.0, restarts: 1, loss: AttackLoss::Margin, seed: 0 };
        let mut stages = vec![
            Stage::Attack(Attack { seed: attack.map_or(0, |a| a.seed), ..short }),
            Stage::Bound(Method::Box),
            Stage::Bound(Method::Tight),
        ];
        stages.extend(attack.map(Stage::Attack));
        stages.extend([Stage::Branch, Stage::Rescue(Method::Symbolic)]);
        Self { stages, step_form: StepForm::Difference, ..Self::default() }
    }
}

/// What one stage did.
#[derive(Clone, Debug, PartialEq)]
pub struct StageReport {
    /// Its name: `attack`, the name of a method, `slopes` or `branch`.
    pub name: String,
    /// Time it took.
    pub elapsed: Duration,
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
    /// What was tried, in order; if the sample was decided, the last did it.
    pub stages: Vec<StageReport>,
    /// Where the best bound loses, if it was not enough and that was looked into.
    pub looseness: Option<Looseness>,
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
            stages: Vec::new(),
            looseness: None,
            graph: None,
            elapsed: Duration::ZERO,
        };
        report.verdict = match Inference::run(self.network(), image, precision) {
            Err(error) => Verdict::Unknown(Reason::Concrete(error.to_string())),
            Ok(run) => {
                report.prediction = Some(run.prediction());
                if run.prediction() == label {
                    let verdict = self.decide(image, label, eps, settings, precision, clock, &mut report);
                    let seen = crate::attack::margin(&run.output, label).0;
                    if matches!(verdict, Verdict::Verified) && report.contradicts(seen) {
                        Verdict::Unknown(Reason::Contradicted)
                    } else {
                        verdict
                    }
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
        let property = Property::classification(self.network().outputs(), label);
        let ball = Ball::new(self.network(), image, label, eps, settings.pixels, precision);
        let mut unknown = Reason::Interrupted;
        let mut tight: Option<(Bounds, Analysis<'_>)> = None;
        for stage in &settings.stages {
            let started = Instant::now();
            let mut note = |name: String| {
                report.stages.push(StageReport { name, elapsed: started.elapsed() });
            };
            match stage {
                Stage::Attack(attack) => {
                    let AttackOutcome { witness, margin } = attack.run(&ball, &|| clock.check(0).is_err());
                    note("attack".into());
                    report.attacked_margin = Some(report.attacked_margin.map_or(margin, |m| m.min(margin)));
                    if let Some(witness) = witness {
                        return Verdict::Falsified { witness };
                    }
                }
                Stage::Rescue(_) if report.margin.is_some() => {}
                Stage::Bound(method) | Stage::Rescue(method) => {
                    let outcome = self.bounds(image, label, eps, *method, settings, clock);
                    note(method.to_string());
                    match outcome {
                        Ok((bounds, analysis)) => {
                            report.proved(bounds.margin());
                            report.graph = Some(analysis.graph_size());
                            if bounds.margin() > 0.0 {
                                return Verdict::Verified;
                            }
                            unknown = Reason::Loose { margin: report.margin.unwrap_or(f64::NEG_INFINITY) };
                            if *method == Method::Tight {
                                tight = Some((bounds, analysis));
                            }
                        }
                        Err(reason) => unknown = reason,
                    }
                }
                Stage::Branch => {
                    let Some((bounds, analysis)) = tight.take() else { continue };
                    let judge = |input: &[f64]| ball.near(input);
                    let region = analysis.input().clone();
                    let task = Task {
                        prepared: &self.prepared,
                        property: &property,
                        arithmetic: settings.arithmetic,
                        clock,
                        judge: &judge,
                        workers: settings.workers.max(1),
                    };
                    // What is not a number is not proven.
                    let number = |bound: &f64| if bound.is_nan() { f64::NEG_INFINITY } else { *bound };
                    let known: Vec<f64> = bounds.lower.iter().map(number).collect();
                    let found = match Brancher::new(&task, &analysis) {
                        Some(brancher) => brancher.run(&known),
                        None => bisect::run(&task, region, &known),
                    };
                    note(if found.parts == 0 { "slopes" } else { "branch" }.into());
                    if let (Some(slopes), Some(last)) = (found.root, report.stages.last_mut()) {
                        let first = StageReport { name: "slopes".into(), elapsed: slopes };
                        last.elapsed = last.elapsed.saturating_sub(slopes);
                        report.stages.insert(report.stages.len() - 1, first);
                        if found.parts <= 1 {
                            report.stages.pop();
                        }
                    }
                    report.proved(found.margin);
                    report.looseness = found.looseness;
                    if let Some(witness) = found.witness {
                        return Verdict::Falsified { witness };
                    }
                    if found.margin > 0.0 {
                        return Verdict::Verified;
                    }
                    unknown = found.stopped.unwrap_or(Reason::Loose { margin: found.margin });
                }
            }
        }
        // What was cut short has not decided anything.
        Verdict::Unknown(if clock.interrupted() { Reason::Interrupted } else { unknown })
    }
}

impl Report {
    /// Whether more was proved than the sample itself, or an attacked one, has been seen to have. That cannot be,
    /// but for rounding.
    fn contradicts(&self, seen: f64) -> bool {
        let least = self.attacked_margin.map_or(seen, |margin| margin.min(seen));
        self.margin.is_some_and(|proved| proved > least + 1e-6 * (1.0 + least.abs()))
    }

    fn proved(&mut self, margin: f64) {
        self.margin = Some(self.margin.map_or(margin, |best| best.max(margin)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_proved_than_was_seen() {
        let report = |margin, attacked_margin| Report {
            prediction: Some(0),
            verdict: Verdict::Verified,
            margin,
            attacked_margin,
            stages: Vec::new(),
            looseness: None,
            graph: None,
            elapsed: Duration::ZERO,
        };
        assert!(report(Some(0.5), None).contradicts(0.4));
        assert!(report(Some(0.5), Some(0.4)).contradicts(0.6));
        assert!(!report(Some(0.4), Some(0.5)).contradicts(0.4), "attained");
        assert!(!report(None, None).contradicts(0.4));
    }
}
