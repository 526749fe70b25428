//! Values that make no sense.

mod described;
mod forecast;

use gains_ode::Tableau;

use super::{Config, Control, Optimiser, Phase, PhaseSolver, Problem, SolverConfig, Training};
use crate::loss::Objective;
use crate::schedule::RateSchedule;

/// Most images of a batch: beyond it no device has the memory.
const LARGEST_BATCH: usize = 1 << 16;

impl Config {
    /// What is wrong with the values, if anything.
    pub fn problem(&self) -> Option<Problem> {
        self.check().err()
    }

    fn check(&self) -> Result<(), Problem> {
        ensure(
            (1..=LARGEST_BATCH).contains(&self.batch),
            "batch",
            format!("is {}, must be 1 to {LARGEST_BATCH}", self.batch),
            "the paper uses 512",
        )?;
        ensure(
            self.images != Some(0),
            if self.forecast.is_some() { "records" } else { "images" },
            "is 0, so there is nothing to learn from",
            "leave it out to use all",
        )?;
        ensure(
            !self.dataset.is_empty(),
            "dataset",
            "is empty",
            "name one, e.g. mnist, fashion-mnist or cifar10",
        )?;
        match (&self.forecast, self.is_described()) {
            (Some(forecast), _) => self.check_forecast(forecast)?,
            (None, true) => self.check_described()?,
            (None, false) => {
                self.check_network()?;
                check_solver(&self.solver)?;
                self.check_control("solver.control", self.solver.control)?;
            }
        }
        if let Some(data) = &self.data {
            self.check_data(data)?;
        }
        if let (Some(selection), None) = (&self.selection, &self.forecast) {
            self.check_selection(selection)?;
        }
        check_optimiser(&self.optimiser)?;
        let (key, hint) = match &self.forecast {
            Some(_) => ("epochs", "at least 1"),
            None => ("phases", "add a [[phases]] table with epochs of at least 1"),
        };
        ensure(self.epochs() > 0, key, "no epochs to train", hint)?;
        for (index, phase) in self.phases.iter().enumerate() {
            self.check_phase(phase, &|key| self.phase_key(index, key))?;
        }
        Ok(())
    }

    /// Whether there is something that boxes can follow, where there are boxes.
    pub(super) fn check_control(&self, key: &str, control: Control) -> Result<(), Problem> {
        ensure(
            control == Control::Controlled || self.method != Training::Provable,
            key,
            "boxes cannot follow continuous step sizes, so nothing could be proved",
            "use controlled steps, or method = \"standard\" or \"adversarial\"",
        )
    }

    fn check_network(&self) -> Result<(), Problem> {
        let network = &self.network;
        let image = network.image;
        let sizes = [image.height, image.width, image.channels];
        ensure(
            sizes.iter().all(|size| (1..=4096).contains(size)),
            "network.image",
            format!("is {image}, every size must be 1 to 4096"),
            "MNIST is { height = 28, width = 28, channels = 1 }",
        )?;
        for (key, values) in [("network.mean", &network.mean), ("network.std", &network.std)] {
            ensure(
                values.len() == image.channels && values.iter().all(|value| value.is_finite()),
                key,
                format!("is {values:?}, must hold one number for each of {} channels", image.channels),
                "MNIST has mean [0.1307] and std [0.3081]",
            )?;
        }
        ensure(
            network.std.iter().all(|value| (*value as f32).is_normal() && *value > 0.0),
            "network.std",
            format!("is {:?}, must be positive", network.std),
            "pixels are divided by it",
        )?;
        let (encoder, dynamics) = (&network.encoder, &network.dynamics);
        for (key, channels) in [
            ("network.encoder.channels", &encoder.channels),
            ("network.dynamics.channels", &dynamics.channels),
        ] {
            ensure(
                (1..=64).contains(&channels.len()) && channels.iter().all(|count| (1..=4096).contains(count)),
                key,
                format!("is {channels:?}, must be a list of numbers from 1 to 4096"),
                "the paper's network has [32, 32]",
            )?;
        }
        let odd = dynamics.kernel % 2 == 1 && dynamics.kernel <= 99;
        ensure(
            odd,
            "network.dynamics.kernel",
            format!("is {}, must be odd and below 100", dynamics.kernel),
            "the dynamics must keep the size of the image",
        )?;
        ensure(
            dynamics.channels.last() == encoder.channels.last(),
            "network.dynamics.channels",
            "the last must be the encoder's last",
            "the dynamics give the derivative of what the encoder gives",
        )?;
        for (key, value) in
            [("network.encoder.kernel", encoder.kernel), ("network.encoder.stride", encoder.stride)]
        {
            ensure((1..=99).contains(&value), key, format!("is {value}, must be 1 to 99"), "")?;
        }
        ensure(
            encoder.padding < encoder.kernel,
            "network.encoder.padding",
            format!("is {}, must be below the kernel size", encoder.padding),
            "",
        )?;
        let mut size = image.height.min(image.width);
        for layer in 1..=encoder.channels.len() {
            let padded = size + 2 * encoder.padding;
            ensure(
                padded >= encoder.kernel,
                "network.encoder",
                format!("convolution {layer} with kernel {} sees only {padded} pixels", encoder.kernel),
                "use fewer convolutions, a smaller kernel or a smaller stride",
            )?;
            size = (padded - encoder.kernel) / encoder.stride + 1;
        }
        Ok(())
    }

    fn check_phase(&self, phase: &Phase, key: &dyn Fn(&str) -> String) -> Result<(), Problem> {
        if let Some(eps) = &phase.eps {
            let (most, why) = match (&self.forecast, self.own_inputs()) {
                (Some(_), _) => (1e3, "in units of deviations"),
                (None, None) => (1.0, "pixels lie in [0, 1]"),
                (None, Some(_)) => (1e6, "in the unit of the data, or in deviations with data.unit"),
            };
            within(key("eps.target"), eps.target, 0.0, most, why)?;
            check_parts(key("eps.over"), eps.over)?;
            within(key("eps.beta"), eps.beta, 1.0, 100.0, "the paper uses 4")?;
            within(key("eps.middle"), eps.middle, 0.0, 1.0, "the paper uses 0.6")?;
        }
        within(key("q.start"), phase.q.start, 0.0, 0.5, "q is spent twice and cannot exceed a half")?;
        within(key("q.end"), phase.q.end, 0.0, 0.5, "q is spent twice and cannot exceed a half")?;
        check_parts(key("q.over"), phase.q.over)?;
        ensure(phase.q.first <= phase.q.last, &key("q"), "first comes after last", "exchange them")?;
        for (index, entry) in phase.kappa.iter().enumerate() {
            ensure(
                (1..=1000).contains(&entry.count),
                &key(&format!("kappa[{index}].count")),
                format!("is {}, must be 1 to 1000", entry.count),
                "the paper samples 2 to 8 trajectories",
            )?;
        }
        ensure(
            phase.kappa.is_sorted_by(|a, b| a.first(phase.epochs) < b.first(phase.epochs)),
            &key("kappa"),
            "the epochs do not ascend",
            "sort the entries by `from`",
        )?;
        let loss = &phase.loss;
        within(key("loss.robust"), loss.robust, 0.0, 1.0, "the rest to 1 is the weight of the plain loss")?;
        for (name, weight) in [
            ("width", loss.width),
            ("error", loss.error),
            ("tightness", loss.tightness),
            ("balance", loss.balance),
            ("decisions", loss.decisions),
            ("steady", loss.steady),
            ("alive", loss.alive),
        ] {
            within(key(&format!("loss.{name}")), weight, 0.0, 1e9, "0 switches it off")?;
        }
        let positive = f64::MIN_POSITIVE;
        within(key("loss.alive_target"), loss.alive_target, positive, 1e3, "0.5 is half the state's size")?;
        within(key("attack.fraction"), phase.attack.fraction, positive, 2.0, "the paper uses 0.2")?;
        self.check_objective(phase, key)?;
        if let PhaseSolver::Euler { steps } = phase.solver {
            ensure(
                (1..=10_000).contains(&steps),
                &key("solver.steps"),
                format!("is {steps}, must be 1 to 10000"),
                "the paper warms up with 2",
            )?;
            for (name, weight) in [("error", loss.error), ("decisions", loss.decisions)] {
                ensure(
                    weight == 0.0,
                    &key(&format!("loss.{name}")),
                    "Euler steps have no error estimate",
                    "set it to 0 here or use the controlled solver",
                )?;
            }
        }
        ensure(
            loss.steady == 0.0 || self.is_described() || !self.network.dynamics.time,
            &key("loss.steady"),
            "a steady state needs dynamics without time",
            "set network.dynamics.time = false",
        )?;
        for (name, weight) in [
            ("error", loss.error),
            ("tightness", loss.tightness),
            ("balance", loss.balance),
            ("decisions", loss.decisions),
        ] {
            ensure(
                weight == 0.0 || self.method == Training::Provable,
                &key(&format!("loss.{name}")),
                "is about boxes, and this method has none",
                "set method = \"provable\" or the weight to 0",
            )?;
        }
        ensure(
            self.method == Training::Standard || phase.eps.is_some(),
            &key("eps"),
            "is missing: this method trains against perturbations",
            "add e.g. eps = { target = 0.1, start = 0, length = 60 }, or set method = \"standard\"",
        )?;
        ensure(
            self.method != Training::Standard || phase.eps.is_none(),
            &key("eps"),
            "standard training has no perturbation",
            "set method = \"adversarial\" or \"provable\", or leave eps out",
        )?;
        ensure(
            self.method != Training::Adversarial || phase.attack.steps > 0,
            &key("attack.steps"),
            "is 0, so nothing is attacked",
            "the paper uses 10",
        )
    }

    fn check_objective(&self, phase: &Phase, key: &dyn Fn(&str) -> String) -> Result<(), Problem> {
        let loss = phase.objective.loss();
        if let Some((name, value, least)) = loss.setting() {
            let hint = "a part of the whole: 1 is the interval loss alone";
            within(key(&format!("objective.{name}")), value, least, 1.0, hint)?;
        }
        ensure(
            self.method == Training::Provable || phase.objective == Objective::default(),
            &key("objective"),
            "only provable training has boxes to choose a loss for",
            "set method = \"provable\" or leave it out",
        )?;
        ensure(
            !loss.attacks() || phase.attack.steps > 0,
            &key("attack.steps"),
            "is 0, and the objective is about attacked images",
            "add e.g. attack = { steps = 3, fraction = 0.5 }",
        )
    }
}

/// Whether parts of a phase are in order.
fn check_parts(key: String, over: Option<[f64; 2]>) -> Result<(), Problem> {
    let right = over.is_none_or(|[first, last]| (0.0..=last).contains(&first) && last <= 1.0);
    ensure(
        right,
        &key,
        "must be two parts of the phase, in order",
        "e.g. [0, 0.6]: from its beginning to 60 % of it",
    )
}

/// Whether the solver can be trained with.
pub(crate) fn check_solver(solver: &SolverConfig) -> Result<(), Problem> {
    ensure(
        Tableau::of(solver.method).estimates_error(),
        "solver.method",
        "has no error estimate to choose steps by",
        "use dopri5, bosh3, fehlberg2 or dopri8",
    )?;
    match solver.spec(solver.minimum_step.max(1e-3)).problem() {
        Some(message) => Err(problem("solver", message, "the paper's solver is the default")),
        None => Ok(()),
    }
}

/// Whether the optimiser's numbers make sense.
pub(crate) fn check_optimiser(adam: &Optimiser) -> Result<(), Problem> {
    for (key, value, least, most) in [
        ("optimiser.rate", adam.rate, f64::MIN_POSITIVE, 10.0),
        ("optimiser.decay", adam.decay, 0.0, 10.0),
        ("optimiser.beta1", adam.beta1, 0.0, 1.0_f64.next_down()),
        ("optimiser.beta2", adam.beta2, 0.0, 1.0_f64.next_down()),
        ("optimiser.average", adam.average, 0.0, 1.0_f64.next_down()),
        ("optimiser.warmup", adam.warmup, 0.0, 1.0),
        ("optimiser.epsilon", adam.epsilon, f64::MIN_POSITIVE, 1.0),
        ("optimiser.clip", adam.clip, f64::MIN_POSITIVE, f64::MAX),
    ] {
        within(key.to_string(), value, least, most, "leave it out for the paper's value")?;
    }
    match &adam.schedule {
        RateSchedule::Constant => Ok(()),
        RateSchedule::MultiStep { factor, .. } => {
            within("optimiser.schedule.factor".into(), *factor, f64::MIN_POSITIVE, 1.0, "0.1 is usual")
        }
        RateSchedule::Drops { at, factor } => {
            for part in at {
                within(
                    "optimiser.schedule.at".into(),
                    *part,
                    0.0,
                    1.0,
                    "parts of a phase, e.g. [0.8, 0.95]",
                )?;
            }
            within("optimiser.schedule.factor".into(), *factor, f64::MIN_POSITIVE, 1.0, "0.2 is usual")
        }
        RateSchedule::Cosine { floor } => {
            within("optimiser.schedule.floor".into(), *floor, 0.0, 1.0, "0 lets the rate end at 0")
        }
    }
}

fn problem(key: &str, message: impl Into<String>, hint: &str) -> Problem {
    Problem { key: key.into(), message: message.into(), hint: hint.into() }
}

/// The problem, unless all is right.
pub(crate) fn ensure(right: bool, key: &str, message: impl Into<String>, hint: &str) -> Result<(), Problem> {
    if right { Ok(()) } else { Err(problem(key, message, hint)) }
}

/// NaN is within no bounds.
pub(crate) fn within(key: String, value: f64, least: f64, most: f64, hint: &str) -> Result<(), Problem> {
    let range = match (least == f64::MIN_POSITIVE, most) {
        (true, f64::MAX) => "positive".to_string(),
        (true, _) => format!("positive and at most {most}"),
        (false, _) => format!("{least} to {most}"),
    };
    ensure((least..=most).contains(&value), &key, format!("is {value}, must be {range}"), hint)
}
