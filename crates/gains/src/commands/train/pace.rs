//! How long a run will still take.
//!
//! Epochs differ: warm-ups take few solver steps, later epochs sample more trajectories. So work is counted in
//! *efforts*, about one evaluation of the dynamics for one batch each, and the time for one effort is measured.

use gains_train::Config;
use gains_train::config::{Phase, PhaseSolver, Training};

/// Trial steps of the controlled solver a batch takes, about; evaluations in each.
const STEPS: f64 = 5.0;
const EVALUATIONS: f64 = 7.0;
/// A box costs as much as so many points.
const BOX: f64 = 3.0;
/// How fast old speeds are forgotten, by batch.
const MEMORY: f64 = 0.98;

/// Efforts of the batches of a run, and the speed so far.
pub struct Pace {
    /// Efforts of one batch, by epoch of the whole run.
    efforts: Vec<f64>,
    batches: f64,
    seconds: f64,
    done: f64,
}

impl Pace {
    /// The pace of a run with so many batches in each epoch.
    pub fn new(config: &Config, batches: u32) -> Self {
        let efforts = config
            .phases
            .iter()
            .flat_map(|phase| (0..phase.epochs).map(|epoch| effort(config.method, phase, epoch)));
        Self { efforts: efforts.collect(), batches: f64::from(batches), seconds: 0.0, done: 0.0 }
    }

    /// A batch of this epoch of the whole run took so long.
    pub fn note(&mut self, epoch: u32, seconds: f64) {
        let effort = self.efforts.get(epoch as usize).copied().unwrap_or(1.0);
        self.seconds = MEMORY * self.seconds + seconds;
        self.done = MEMORY * self.done + effort;
    }

    /// Seconds that the run will still take after `batch` batches of this epoch; unknown before the first batch.
    pub fn left(&self, epoch: u32, batch: u32) -> Option<f64> {
        let current = self.efforts.get(epoch as usize).copied().unwrap_or(0.0);
        let later: f64 = self.efforts.iter().skip(epoch as usize + 1).sum();
        let open = current * (self.batches - f64::from(batch)).max(0.0) + later * self.batches;
        (self.done > 0.0).then(|| open * self.seconds / self.done)
    }
}

fn effort(method: Training, phase: &Phase, epoch: u32) -> f64 {
    let solve = match phase.solver {
        PhaseSolver::Euler { steps } => f64::from(steps),
        PhaseSolver::Controlled => STEPS * EVALUATIONS,
    };
    let solves = match method {
        Training::Standard => 1.0,
        Training::Adversarial => 1.0 + f64::from(phase.attack.steps),
        // With perturbation 0 there are boxes all the same.
        Training::Provable => 1.0 + BOX * f64::from(phase.kappa_at(epoch)),
    };
    // The layers around the ODE.
    2.0 + solve * solves
}

/// A span of time for people.
pub fn span(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        3600..86400 => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86400, whole % 86400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_epochs_are_known_to_take_longer() {
        let config = gains_train::presets::find("mnist-provable-0.11").unwrap().config().unwrap();
        let mut pace = Pace::new(&config, 118);
        assert_eq!(pace.left(0, 0), None);
        for _ in 0..1000 {
            pace.note(0, 0.01);
        }
        let (first, middle) = (pace.left(0, 0).unwrap(), pace.left(50, 0).unwrap());
        assert!(first > 150.0 * 118.0 * 0.01 * 5.0, "the main phase is far slower than the warm-up");
        assert!(first > middle && pace.left(149, 117).unwrap() > 0.0);
        assert_eq!(pace.left(149, 118), Some(0.0));
        assert_eq!(pace.left(150, 0), Some(0.0));
        // A machine that slows down is noticed.
        for _ in 0..1000 {
            pace.note(0, 0.02);
        }
        assert!((pace.left(0, 0).unwrap() / first - 2.0).abs() < 1e-3);
    }

    #[test]
    fn spans_read_well() {
        let texts = [3.4, 59.6, 61.0, 3725.0, 200_000.0, f64::NAN].map(span);
        assert_eq!(texts, ["3 s", "1 min 00 s", "1 min 01 s", "1 h 02 min", "2 d 7 h", "0 s"]);
    }
}
