//! Which steps a solver takes: places as integers, actions, and times and step sizes read off them.
//!
//! Times and step sizes *are* float64 numbers, computed in the order that is written here; see *The automaton* in
//! `docs/certificates.md`.

use crate::fault::Fault;
use crate::interval::Interval;
use crate::tableau::Tableau;
use crate::value::{Value, bad, shown};

/// What a solver does after a step.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Action {
    /// Tries again with a smaller step.
    Reject,
    /// Goes on with the same step size.
    Keep,
    /// Goes on with a larger one.
    Increase,
}

impl Action {
    /// By its number in certificates.
    pub fn read(number: &Value) -> Result<Self, Fault> {
        Ok([Self::Reject, Self::Keep, Self::Increase][number.index(3)?])
    }
}

/// Ticks, step, progress, fraction, rejections, settled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// How far the solver is, in ticks.
    pub ticks: i64,
    /// Ticks of the next step; zero from the clipping at the end time on.
    pub step: i64,
    /// How much of what was left then is done, in units of α⁻ᴿ.
    pub progress: i64,
    /// The next step in these units.
    pub fraction: i64,
    /// Steps rejected since then.
    pub rejections: i64,
    /// 1 if errors are no longer looked at.
    pub settled: i64,
}

/// Where an action leads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// To another place.
    Place(Place),
    /// To the end time.
    End,
}

/// A place with numbers that leave all bounds.
pub fn lost() -> Fault {
    Fault::wrong("a place beyond all bounds")
}

/// A method with a rule for its steps.
#[derive(Debug)]
pub struct Solver {
    /// The method.
    pub tableau: Tableau,
    end: f64,
    /// h₀.
    first: f64,
    /// α.
    factor: i64,
    /// N, the ticks in h₀.
    ticks: i64,
    /// R.
    rejections: i64,
    /// W = αᴿ.
    whole: i64,
    /// τ, if errors are looked at.
    tolerance: Option<f64>,
}

impl Solver {
    /// Reads what a model file says of a solver, which ends at another time if that is given.
    pub fn read(value: &Value, end: Option<f64>) -> Result<Self, Fault> {
        let fields = value.fields("method controller end_time")?;
        let controller = fields.get("controller")?;
        let method = fields.text("method")?;
        let tableau = Tableau::named(method);
        let tableau =
            tableau.ok_or_else(|| bad(format!("the method `{}` cannot be checked", shown(method))))?;
        let positive = |x: f64| if x > 0.0 { Ok(x) } else { Err(bad(format!("{x} is not positive"))) };
        let end = positive(end.unwrap_or(fields.read("end_time", Value::decimal)?))?;
        let mut solver =
            Self { tableau, end, first: end, factor: 2, ticks: 1, rejections: 0, whole: 1, tolerance: None };
        const COUNT: usize = 1 << 32;
        match controller.open()?.text("type")? {
            "fixed" => {
                let steps = controller.fields("type steps")?.index("steps", COUNT)?;
                solver.first = end / steps.max(1) as f64;
            }
            "controlled_adaptive" => {
                let keys = "type factor tolerance initial_step minimum_step rejections_after_clipping";
                let fields = controller.fields(keys)?;
                let size = |key: &str| fields.read(key, |size| positive(size.decimal()?));
                solver.first = size("initial_step")?.min(end);
                solver.tolerance = Some(size("tolerance")?);
                solver.factor = fields.index("factor", COUNT)? as i64;
                let rejections = fields.index("rejections_after_clipping", COUNT)?;
                solver.rejections = rejections as i64;
                let whole = solver.factor.checked_pow(rejections as u32).filter(|whole| *whole < 1 << 52);
                solver.whole = whole.ok_or_else(|| bad("so many rejections cannot be checked"))?;
                if !(2..=1 << 20).contains(&solver.factor) || solver.tableau.errors.is_empty() {
                    return Err(bad(format!(
                        "`{method}` with a factor of {} cannot be checked",
                        solver.factor
                    )));
                }
                let least = size("minimum_step")?;
                while solver.first / (solver.ticks * solver.factor) as f64 >= least && solver.ticks < 1 << 40
                {
                    solver.ticks *= solver.factor;
                }
            }
            other => return Err(bad(format!("the controller `{}`", shown(other)))),
        }
        Ok(solver)
    }

    /// Where every trajectory starts.
    pub fn start(&self) -> Place {
        Place { ticks: 0, step: self.ticks, progress: 0, fraction: 0, rejections: 0, settled: 0 }
    }

    /// The tolerance, where the error counts.
    pub fn looks_at_errors(&self, place: Place) -> Option<f64> {
        self.tolerance.filter(|_| place.settled == 0)
    }

    /// t.
    pub fn time(&self, place: Place) -> f64 {
        let start = (place.ticks as f64 / self.ticks as f64) * self.first;
        if place.step > 0 {
            return start;
        }
        let done = place.progress as f64 / self.whole as f64;
        start * (1.0 - done) + self.end * done
    }

    /// h.
    pub fn step(&self, place: Place) -> f64 {
        if place.step > 0 {
            return (place.step as f64 / self.ticks as f64) * self.first;
        }
        let start = (place.ticks as f64 / self.ticks as f64) * self.first;
        (place.fraction as f64 / self.whole as f64) * (self.end - start)
    }

    /// Time and step size.
    pub fn clock(&self, place: Place) -> Result<(Interval, Interval), Fault> {
        let (time, size) = (self.time(place), self.step(place));
        match time.is_finite() && size.is_finite() {
            true => Ok((Interval::point(time), Interval::point(size))),
            false => Err(lost()),
        }
    }

    /// Where an action leads from a place; `None` if the numbers leave all bounds.
    pub fn after(&self, place: Place, action: Action) -> Option<Next> {
        let growth = match action {
            Action::Reject => return self.rejected(place).map(Next::Place),
            Action::Keep => 1,
            Action::Increase => self.factor,
        };
        let mut next = place;
        if place.step == 0 {
            next.progress = place.progress.checked_add(place.fraction)?;
            next.fraction = place.fraction.checked_mul(growth)?.min(self.whole.checked_sub(next.progress)?);
        } else {
            next.ticks = place.ticks.checked_add(place.step)?;
            next.step = place.step.checked_mul(growth)?;
            let steps = next.ticks.checked_add(next.step)? as f64 / self.ticks as f64;
            if steps >= self.end / self.first * (1.0 - 1e-12) {
                (next.step, next.progress, next.fraction) = (0, 0, self.whole);
            }
        }
        let is_end = self.time(next) + 1e-8 * self.end.min(1.0) >= self.end;
        Some(if is_end { Next::End } else { Next::Place(next) })
    }

    fn rejected(&self, place: Place) -> Option<Place> {
        let mut next = place;
        if place.step == 0 && place.rejections < self.rejections {
            next.fraction = place.fraction / self.factor;
            next.rejections += 1;
        } else if place.step >= self.factor {
            next.step = place.step / self.factor;
        } else {
            next.settled = 1;
        }
        Some(next)
    }

    /// All actions that an error δ in this interval may lead to.
    pub fn actions(&self, place: Place, error: Option<Interval>) -> Option<Vec<Action>> {
        let Some(error) = error else { return Some(vec![Action::Keep]) };
        let power = i32::try_from(self.tableau.order).ok()?;
        // α⁻ᵖ: the power is exact below 2⁵³, and rounded by a few units otherwise.
        let threshold = Interval::ONE / Interval::point((self.factor as f64).powi(power));
        let threshold = Interval::new(threshold.low * (1.0 - 1e-15), threshold.high * (1.0 + 1e-15));
        let same = self.after(place, Action::Increase)? == self.after(place, Action::Keep)?;
        let mut actions = Vec::new();
        if error.high > 1.0 {
            actions.push(Action::Reject);
        }
        if (error.low <= 1.0 && error.high > threshold.low) || (same && error.low <= threshold.high) {
            actions.push(Action::Keep);
        }
        if error.low <= threshold.high && !same {
            actions.push(Action::Increase);
        }
        Some(actions)
    }
}
