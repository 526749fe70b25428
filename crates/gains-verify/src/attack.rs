//! Projected gradient descent: looking for inputs inside the region that violate the property.

use std::sync::{Mutex, PoisonError};

use gains_core::Precision;
use gains_ode::Inference;
use serde::{Deserialize, Serialize};

use crate::limits::Clock;
use crate::problem::{Point, Problem};
use crate::property::Property;

/// What the attack climbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttackLoss {
    /// Cross-entropy of the true class; the margin where there are no classes.
    #[default]
    CrossEntropy,
    /// By how much the property is violated.
    Margin,
}

/// Settings of an attack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attack {
    /// Gradient steps per restart.
    pub steps: usize,
    /// Size of one step.
    pub step_size: f64,
    /// Random starts.
    pub restarts: usize,
    /// What to climb.
    pub loss: AttackLoss,
    /// Seed of the random starts.
    pub seed: u64,
    /// Whether to go on beyond the first violation, for the worst that can be found.
    pub exhaustive: bool,
}

impl Default for Attack {
    /// The paper's evaluation attack: 200 steps of 0.0025 on the cross-entropy, one start.
    fn default() -> Self {
        Self {
            steps: 200,
            step_size: 0.0025,
            restarts: 1,
            loss: AttackLoss::CrossEntropy,
            seed: 0,
            exhaustive: false,
        }
    }
}

impl Attack {
    /// The same with steps that cross a region of the given radius, however few there are.
    #[must_use]
    pub fn crossing(self, radius: f64) -> Self {
        let reach = if radius.is_finite() { radius } else { 0.0 };
        Self { step_size: self.step_size.max(4.0 * reach / self.steps.max(1) as f64), ..self }
    }
}

/// What an attack found.
#[derive(Clone, Debug, PartialEq)]
pub struct AttackOutcome {
    /// Inputs that certainly violate the property when run alone, if some were found.
    pub witness: Option<Point>,
    /// Smallest margin seen.
    pub margin: f64,
    /// The inputs of the region that had it.
    pub worst: Option<Point>,
}

impl AttackOutcome {
    const NOTHING: Self = Self { witness: None, margin: f64::INFINITY, worst: None };

    fn take(&mut self, other: Self) {
        if other.margin < self.margin {
            self.margin = other.margin;
            self.worst = other.worst.or(self.worst.take());
        }
        self.witness = self.witness.take().or(other.witness);
    }
}

/// What one descent goes for.
#[derive(Clone, Debug, PartialEq)]
enum Goal {
    /// A loss of the whole property.
    Loss(AttackLoss),
    /// That one linear function of the outputs, given by its coefficients, becomes small.
    Row(Vec<f64>),
}

/// Derivative of what is climbed with respect to the outputs.
fn cotangent(property: &Property, outputs: &[f64], goal: &Goal) -> Vec<f64> {
    match (property, goal) {
        (_, Goal::Row(coefficients)) => coefficients.iter().map(|a| -a).collect(),
        (Property::Label { label, .. }, Goal::Loss(AttackLoss::CrossEntropy)) => {
            let top = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut p: Vec<f64> = outputs.iter().map(|l| (l - top).exp()).collect();
            let sum: f64 = p.iter().sum();
            p.iter_mut().for_each(|p| *p /= sum);
            p[*label] -= 1.0;
            p
        }
        _ => property.downhill(outputs),
    }
}

/// How the inputs of a problem are judged: only what is certainly inside the region counts, and it is run alone by the
/// concrete solver.
pub struct Hunt<'a> {
    problem: &'a Problem<'a>,
    precision: Precision,
    clock: Clock<'a>,
    /// The lowest margin that a few steps from inputs which bounds point at have led to, and where.
    lowest: Mutex<Option<(f64, Point)>>,
}

/// Gradient steps from an input that a bound points at.
const STEPS_NEAR: usize = 6;

/// The part of the lowest margin so far below which another must be for its place to be worth more steps.
const PROMISING: f64 = 0.99;

/// Of the entries of a point, the share that a start around it keeps.
const KEPT: f64 = 0.8;

/// Gradient steps of one bout of a [`Siege`].
const STEPS_OF_A_BOUT: usize = 50;

/// How far a descent goes at a time.
#[derive(Clone, Copy)]
enum Stride {
    /// The same distance in every entry.
    Constant(f64),
    /// This part of half the region's width in every entry, shrinking to a fiftieth on the way.
    Shrinking(f64),
}

/// One descent.
#[derive(Clone)]
struct Descent {
    steps: usize,
    stride: Stride,
    goal: Goal,
    exhaustive: bool,
}

impl Descent {
    /// How far a step goes.
    fn stride(&self, step: usize) -> Stride {
        match self.stride {
            Stride::Shrinking(first) => {
                let gone = step as f64 / self.steps.max(1) as f64;
                Stride::Shrinking(first * 0.02_f64.powf(gone))
            }
            constant => constant,
        }
    }
}

/// Descents that take different goals in turn: every row that no bound has proved, the lowest bound first, then the margin
/// and the cross-entropy. Starts are anywhere in the region and, in turn, around the worst point that bounds have led to.
///
/// After every round of these comes one from a camp, the worst place of the round before. Where gradients lead no further, as
/// many ReLUs are dead, whole patches of the input are moved to an end of the region and gradients tried again from there: what
/// is lower becomes the camp. A camp from which nothing has come for long is left for the next round's.
pub struct Siege {
    goals: Vec<Goal>,
    bouts: usize,
    random: fastrand::Rng,
    camp: Option<(f64, Point)>,
    /// Sallies since the camp was last moved to a clearly lower place.
    idle: usize,
}

/// Gradient steps after patches have been moved.
const STEPS_OF_A_SALLY: usize = 12;

/// How far the first of them goes.
const FIRST_OF_A_SALLY: f64 = 0.3;

/// Sallies in vain after which a camp is left.
const PATIENCE: usize = 40;

/// Most patches moved at once.
const MOST_PATCHES: usize = 3;

/// The part of all entries that a patch is at most, where the input is no image.
const PATCH: f64 = 0.1;

impl Siege {
    /// Of what is left open: `lower` are bounds of the rows of the property, or nothing.
    pub fn new(problem: &Problem<'_>, lower: &[f64], seed: u64) -> Self {
        let rows = problem.property.rows(problem.program.output_shape());
        let mut open: Vec<usize> = (0..rows.count.min(lower.len()))
            .filter(|&row| !matches!(lower[row].partial_cmp(&0.0), Some(std::cmp::Ordering::Greater)))
            .collect();
        open.sort_by(|a, b| lower[*a].total_cmp(&lower[*b]));
        let mut goals: Vec<Goal> = vec![Goal::Loss(AttackLoss::Margin)];
        if problem.property.is_conjunction() {
            goals.extend(open.iter().map(|&row| Goal::Row(rows.row(row).to_vec())));
        }
        if matches!(problem.property, Property::Label { .. }) {
            goals.push(Goal::Loss(AttackLoss::CrossEntropy));
        }
        let random = fastrand::Rng::with_seed(seed ^ 0xD1B5_4A32_D192_ED03);
        Self { goals, bouts: 0, random, camp: None, idle: PATIENCE }
    }

    /// How many bouts take every goal once.
    pub fn round(&self) -> usize {
        self.goals.len()
    }

    /// One more descent, or a few short ones from the camp.
    pub fn bout(&mut self, hunt: &Hunt<'_>) -> AttackOutcome {
        let (round, goal) = (self.bouts / self.goals.len(), self.bouts % self.goals.len());
        self.bouts += 1;
        if round % 2 == 1 {
            return self.sallies(hunt);
        }
        let start = match round / 2 % 2 {
            0 => hunt.anywhere(&mut self.random),
            _ => hunt.around_the_lowest(&mut self.random),
        };
        let goal = self.goals[goal].clone();
        let stride = Stride::Shrinking(1.0);
        let found = hunt.descend(start, &Descent { steps: STEPS_OF_A_BOUT, stride, goal, exhaustive: false });
        if let Some(worst) = &found.worst {
            let lower = self.camp.as_ref().is_none_or(|(margin, _)| found.margin < *margin);
            if self.idle >= PATIENCE {
                // The first of a round takes the place of a camp that was left.
                self.camp = Some((found.margin, worst.clone()));
                self.idle = 0;
            } else if lower {
                self.camp = Some((found.margin, worst.clone()));
            }
        }
        found
    }

    /// As many steps as another descent has, from the camp.
    fn sallies(&mut self, hunt: &Hunt<'_>) -> AttackOutcome {
        let mut all = AttackOutcome::NOTHING;
        for _ in 0..STEPS_OF_A_BOUT / STEPS_OF_A_SALLY {
            let Some((margin, point)) = &mut self.camp else { break };
            let start = hunt.with_patches(point, &mut self.random);
            let found = hunt.descend(
                start,
                &Descent {
                    steps: STEPS_OF_A_SALLY,
                    stride: Stride::Shrinking(FIRST_OF_A_SALLY),
                    goal: Goal::Loss(AttackLoss::Margin),
                    exhaustive: false,
                },
            );
            self.idle += 1;
            if let Some(worst) = found.worst.as_ref().filter(|_| found.margin < *margin) {
                if found.margin < PROMISING * *margin {
                    self.idle = 0;
                }
                (*margin, *point) = (found.margin, worst.clone());
            }
            all.take(found);
            if all.witness.is_some() {
                break;
            }
        }
        all
    }
}

impl<'a> Hunt<'a> {
    /// In the region of a problem.
    pub fn new(problem: &'a Problem<'a>, precision: Precision, clock: Clock<'a>) -> Self {
        Self { problem, precision, clock, lowest: Mutex::new(None) }
    }

    /// A violation next to inputs that a bound points at, if a few steps downhill lead to one; more steps where these come
    /// lower than any before. Bounds point at places that gradients from random starts do not lead to.
    pub fn near(&self, point: &Point) -> Option<Point> {
        let stride = Stride::Constant(self.problem.region.radius / STEPS_NEAR as f64);
        let goal = Goal::Loss(AttackLoss::Margin);
        let descent = Descent { steps: STEPS_NEAR, stride, goal: goal.clone(), exhaustive: false };
        let found = self.descend(point.clone(), &descent);
        let worst = match found {
            AttackOutcome { witness: None, margin, worst: Some(worst) } if self.is_low(margin, &worst) => {
                worst
            }
            found => return found.witness,
        };
        let stride = Stride::Shrinking(0.5);
        let further =
            self.descend(worst, &Descent { steps: STEPS_OF_A_BOUT, stride, goal, exhaustive: false });
        if let Some(worst) = &further.worst {
            self.is_low(further.margin, worst);
        }
        further.witness
    }

    /// Whether a margin is clearly lower than any so far; takes note of it if it is lower at all.
    fn is_low(&self, margin: f64, at: &Point) -> bool {
        // Whoever panicked meanwhile has left a margin and its point.
        let mut lowest = self.lowest.lock().unwrap_or_else(PoisonError::into_inner);
        match &*lowest {
            Some((known, _)) if margin >= *known => false,
            known => {
                let clearly = known.as_ref().is_none_or(|(known, _)| margin < PROMISING * known);
                *lowest = Some((margin, at.clone()));
                clearly
            }
        }
    }

    /// The worst point that bounds have led to, with some entries anywhere; any point if there is none.
    fn around_the_lowest(&self, random: &mut fastrand::Rng) -> Point {
        let mut start = self.anywhere(random);
        let lowest = self.lowest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, point)) = &*lowest {
            for (x, known) in start.iter_mut().flatten().zip(point.iter().flatten()) {
                if random.f64() < KEPT {
                    *x = *known;
                }
            }
        }
        start
    }

    /// A point with a few patches moved to an end of the region each: windows of images, some entries of other inputs.
    fn with_patches(&self, point: &Point, random: &mut fastrand::Rng) -> Point {
        let mut moved = point.clone();
        let inputs = self.problem.program.inputs();
        for _ in 0..random.usize(1..=MOST_PATCHES) {
            let which = random.usize(0..inputs.len());
            let (shape, allowed) = (inputs[which].shape, &self.problem.region.inner[which]);
            let end = if random.bool() { &allowed.upper } else { &allowed.lower };
            let mut side = |length: usize| {
                let size = random.usize(1..=(3 * length).div_ceil(8));
                let first = random.usize(0..=length - size);
                first..first + size
            };
            let (rows, columns) = (side(shape.height), side(shape.width));
            let share = if shape.positions() > 1 { 1.0 } else { PATCH };
            for i in 0..shape.len() {
                let at = i / shape.channels;
                let inside = rows.contains(&(at / shape.width)) && columns.contains(&(at % shape.width));
                if inside && (share == 1.0 || random.f64() < share) {
                    moved[which][i] = end[i];
                }
            }
        }
        moved
    }

    /// Any point of the region.
    fn anywhere(&self, random: &mut fastrand::Rng) -> Point {
        let inside = |(l, u): (&f64, &f64), random: &mut fastrand::Rng| l + random.f64() * (u - l);
        let boxes = self.problem.region.inner.iter();
        boxes.map(|b| b.lower.iter().zip(&b.upper).map(|ends| inside(ends, random)).collect()).collect()
    }

    /// The margin's gradient at a point, one number for each entry of each input: how fast it changes there. `None`
    /// where the program does not run.
    pub fn gradient(&self, point: &Point) -> Option<Point> {
        let Problem { program, property, .. } = self.problem;
        let watch = self.clock.watch();
        let inputs: Vec<&[f64]> = point.iter().map(Vec::as_slice).collect();
        let run = Inference::run_within(program, &inputs, self.precision, &watch).ok()?;
        run.gradients_within(&property.downhill(&run.output), &watch).ok()
    }

    /// Looks for a violation.
    pub fn run(&self, attack: &Attack) -> AttackOutcome {
        let mut found = AttackOutcome::NOTHING;
        let mut random = fastrand::Rng::with_seed(attack.seed ^ 0x9E37_79B9_7F4A_7C15);
        let Attack { steps, step_size, loss, exhaustive, .. } = *attack;
        let descent =
            Descent { steps, stride: Stride::Constant(step_size), goal: Goal::Loss(loss), exhaustive };
        for _ in 0..attack.restarts.max(1) {
            let start = self.anywhere(&mut random);
            found.take(self.descend(start, &descent));
            if (found.witness.is_some() && !exhaustive) || self.clock.check(0).is_err() {
                break;
            }
        }
        found
    }

    /// Signed gradient steps from a point. Every iterate is run by the concrete solver; one that violates the property is
    /// a witness. A solver failure is none.
    fn descend(&self, mut point: Point, descent: &Descent) -> AttackOutcome {
        let Problem { program, region, property, .. } = self.problem;
        let watch = self.clock.watch();
        let mut found = AttackOutcome::NOTHING;
        region.settle(&mut point, self.precision);
        for step in 0..=descent.steps {
            if self.clock.check(0).is_err() {
                break;
            }
            let inputs: Vec<&[f64]> = point.iter().map(Vec::as_slice).collect();
            let run = Inference::run_within(program, &inputs, self.precision, &watch);
            let Ok(run) = run.and_then(Inference::certain) else { break };
            let margin = property.margin_at(&run.output);
            // Where the region is narrower than the program's format, no point of it may be left; what is outside
            // says nothing.
            let inside = region.contains(&point);
            if inside && margin < found.margin {
                found.margin = margin;
                found.worst = Some(point.clone());
            }
            if inside && property.is_violated(&run.output) {
                if found.witness.is_none() || found.worst.as_ref() == Some(&point) {
                    found.witness = Some(point.clone());
                }
                if !descent.exhaustive {
                    break;
                }
            }
            if step == descent.steps {
                break;
            }
            let cotangent = cotangent(property, &run.output, &descent.goal);
            let Ok(gradients) = run.gradients_within(&cotangent, &watch) else { break };
            match descent.stride(step) {
                Stride::Constant(distance) => region.walk(&mut point, &gradients, distance),
                Stride::Shrinking(share) => region.stride(&mut point, &gradients, share),
            }
            region.settle(&mut point, self.precision);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use gains_core::description::LayerSpec;
    use gains_core::model_file::Tensors;
    use gains_core::{Interval, Shape};
    use gains_testkit::{Model, linear};

    use super::*;
    use crate::limits::Budget;

    /// A picture is taken for the other class where four pixels next to each other are nearly white; nearly everywhere in
    /// the region nothing depends on any pixel.
    #[test]
    fn patches_find_what_gradients_do_not_lead_to() {
        let mut tensors = Tensors::new();
        let square: Vec<f64> = (0..36)
            .map(|i| f64::from(u8::from((2..4).contains(&(i / 6)) && (1..3).contains(&(i % 6)))))
            .collect();
        let layers = vec![
            LayerSpec::Flatten {},
            linear(&mut tensors, "white", &[&square], &[-3.8], false),
            LayerSpec::Relu {},
            linear(&mut tensors, "class", &[&[0.0], &[10.0]], &[1.0, 0.0], false),
        ];
        let network = Model::new(Shape::image(6, 6, 1), layers, tensors, 2).network();
        let problem = Problem::classification(&network, &[0.5; 36], 0, 0.5, Interval::new(0.0, 1.0));
        let clock = Clock::start(Budget::default());
        let hunt = Hunt::new(&problem, Precision::Float64, clock);
        let restarts = Attack { restarts: 50, steps: 20, ..Attack::default() };
        assert_eq!(hunt.run(&restarts).witness, None);
        let mut siege = Siege::new(&problem, &[-1.0], 0);
        let found = (0..300).find_map(|_| siege.bout(&hunt).witness);
        assert!(found.is_some_and(|witness| problem.region.contains(&witness)));
    }
}
