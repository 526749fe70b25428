//! What a concrete solve leaves behind: the trajectory, and enough to differentiate it.
//!
//! An accepted step is kept with all its stages while these fit a budget. A solve that outgrows it keeps states only,
//! every one at first, then every second, fourth and so on, and the gradient takes the steps between them once more. The
//! trajectory knows their times and sizes, so the stages come out as they were, to the last bit.

use std::convert::Infallible;

use crate::controller::Action;
use crate::integrate::SolveError;
use crate::system::{StageTape, System, advance, pull_back_step, stages};
use crate::tableau::Tableau;
use crate::timeline::Place;
use crate::watch::{Progress, Watch};

/// Why a solve ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StopReason {
    /// The end time was reached within the tolerance.
    Finished,
    /// The end time was reached, but the minimum step or the rejections after clipping ran out on the way,
    /// so the tolerance is not guaranteed.
    ToleranceMissed,
}

/// One trial step of a trajectory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// Time before the step.
    pub time: f64,
    /// Step size tried.
    pub step: f64,
    /// What the controller decided.
    pub action: Action,
    /// The error estimate δ.
    pub error: f64,
    /// The place in the automaton, for controlled adaptive solves.
    pub place: Option<Place>,
}

impl Visit {
    /// Whether the step was taken.
    pub fn is_accepted(&self) -> bool {
        self.action != Action::Reject
    }
}

/// Memory of a vector on the heap, with its header and what the allocator adds.
pub(crate) fn heap(entries: usize) -> usize {
    8 * entries + 40
}

/// The result of a solve.
pub struct Solution<T> {
    /// State at the end time.
    pub state: Vec<f64>,
    /// Every trial step.
    pub trajectory: Vec<Visit>,
    /// Evaluations of the right-hand side.
    pub evaluations: usize,
    /// Why it ended.
    pub stop: StopReason,
    accepted: usize,
    memory: Memory<T>,
}

/// What is kept of the accepted steps.
struct Memory<T> {
    kept: Kept<T>,
    /// Bytes of what is kept.
    bytes: usize,
    /// Most of them.
    budget: usize,
    /// Bytes of the largest step with its stages.
    step_bytes: usize,
}

enum Kept<T> {
    /// Every step with its stages.
    Steps(Vec<Taken<T>>),
    /// Every `stride`-th state.
    States { stride: usize, states: Vec<Checkpoint> },
}

/// An accepted step.
struct Taken<T> {
    start: Checkpoint,
    stages: Vec<StageTape<T>>,
}

/// The state before an accepted step.
struct Checkpoint {
    /// Index of the step in the trajectory.
    visit: usize,
    state: Vec<f64>,
}

impl Checkpoint {
    fn bytes(&self) -> usize {
        size_of::<usize>() + heap(self.state.len())
    }
}

impl<T> Memory<T> {
    /// Keeps what it can of the `index`-th accepted step.
    fn push<S: System<Tape = T>>(
        &mut self,
        system: &S,
        index: usize,
        start: Checkpoint,
        stages: Vec<StageTape<T>>,
    ) {
        let of_stage = |stage: &StageTape<T>| heap(stage.slope.len()) + system.tape_bytes(&stage.tape);
        let with_stages = start.bytes() + heap(0) + stages.iter().map(of_stage).sum::<usize>();
        self.step_bytes = self.step_bytes.max(with_stages);
        match &mut self.kept {
            Kept::Steps(steps) if self.bytes + with_stages <= self.budget => {
                steps.push(Taken { start, stages });
                self.bytes += with_stages;
            }
            Kept::Steps(steps) => {
                let mut states: Vec<_> = std::mem::take(steps).into_iter().map(|taken| taken.start).collect();
                states.push(start);
                self.bytes = states.iter().map(Checkpoint::bytes).sum();
                self.kept = Kept::States { stride: 1, states };
                self.thin();
            }
            Kept::States { stride, states } => {
                if index.is_multiple_of(*stride) {
                    self.bytes += start.bytes();
                    states.push(start);
                    self.thin();
                }
            }
        }
    }

    /// Lets go of every second state until the rest fits half of the budget; the other half is for the stages between
    /// two of them, when the time has come.
    fn thin(&mut self) {
        let Kept::States { stride, states } = &mut self.kept else { return };
        while self.bytes > self.budget / 2 && states.len() > 1 {
            let mut even = false;
            states.retain(|_| {
                even = !even;
                even
            });
            *stride *= 2;
            self.bytes = states.iter().map(Checkpoint::bytes).sum();
        }
    }
}

/// Asked before every step of a gradient.
type Ask<'a, E> = &'a mut dyn FnMut(Progress) -> Result<(), E>;

impl<T> Solution<T> {
    pub(crate) fn new(initial: Vec<f64>, budget: usize) -> Self {
        Self {
            state: initial,
            trajectory: Vec::new(),
            evaluations: 0,
            stop: StopReason::Finished,
            accepted: 0,
            memory: Memory { kept: Kept::Steps(Vec::new()), bytes: 0, budget, step_bytes: 0 },
        }
    }

    /// Books an accepted step.
    pub(crate) fn accept<S: System<Tape = T>>(
        &mut self,
        system: &S,
        visit: Visit,
        stages: Vec<StageTape<T>>,
        next: Vec<f64>,
    ) {
        let state = std::mem::replace(&mut self.state, next);
        let start = Checkpoint { visit: self.trajectory.len(), state };
        self.memory.push(system, self.accepted, start, stages);
        self.trajectory.push(visit);
        self.accepted += 1;
    }

    /// Number of accepted steps.
    pub fn accepted(&self) -> usize {
        self.accepted
    }

    /// Number of rejected steps.
    pub fn rejected(&self) -> usize {
        self.trajectory.len() - self.accepted
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        self.trajectory.capacity() * size_of::<Visit>() + self.memory.bytes
    }

    /// Whether the stages of all steps are kept, so that the gradient need not compute them once more.
    pub fn keeps_stages(&self) -> bool {
        matches!(self.memory.kept, Kept::Steps(_))
    }

    /// The gradient at the initial state of `cotangent · (final state)`, through the accepted steps with
    /// their step sizes held fixed.
    pub fn pull_back<S: System<Tape = T>>(
        &self,
        system: &S,
        tableau: &Tableau,
        cotangent: &[f64],
    ) -> Vec<f64> {
        let Ok(gradient) = self.pull(system, tableau, cotangent, &mut |_| Ok::<(), Infallible>(()));
        gradient
    }

    /// The same within limits.
    pub fn pull_back_within<S: System<Tape = T>>(
        &self,
        system: &S,
        tableau: &Tableau,
        cotangent: &[f64],
        watch: &Watch<'_>,
    ) -> Result<Vec<f64>, SolveError> {
        self.pull(system, tableau, cotangent, &mut |progress| watch.check(progress))
    }

    fn pull<S: System<Tape = T>, E>(
        &self,
        system: &S,
        tableau: &Tableau,
        cotangent: &[f64],
        ask: Ask<'_, E>,
    ) -> Result<Vec<f64>, E> {
        let mut gradient = cotangent.to_vec();
        match &self.memory.kept {
            Kept::Steps(steps) => {
                for taken in steps.iter().rev() {
                    let Visit { time, step, .. } = self.trajectory[taken.start.visit];
                    ask(Progress { time, steps: steps.len(), bytes: self.bytes() })?;
                    gradient = pull_back_step(system, tableau, step, &taken.stages, &gradient);
                }
            }
            Kept::States { states, .. } => {
                let again = Again { system, tableau, solution: self };
                let mut until = self.trajectory.len();
                for checkpoint in states.iter().rev() {
                    let steps = again.steps(checkpoint.visit, until);
                    gradient = again.pull_back(&checkpoint.state, &steps, gradient, ask)?;
                    until = checkpoint.visit;
                }
            }
        }
        Ok(gradient)
    }
}

/// A step to take once more.
struct Retake {
    /// Where the clock stood for the first stage: it may come from the end of the step before, which floating point
    /// may put elsewhere than the start of this one.
    first_time: f64,
    time: f64,
    step: f64,
}

/// Takes steps of a solution once more, for the gradient.
struct Again<'a, S: System> {
    system: &'a S,
    tableau: &'a Tableau,
    solution: &'a Solution<S::Tape>,
}

impl<S: System> Again<'_, S> {
    /// The accepted steps in a part of the trajectory.
    fn steps(&self, from: usize, until: usize) -> Vec<Retake> {
        let (earlier, part) = self.solution.trajectory[..until].split_at(from);
        let mut previous = earlier.iter().rev().find(|visit| visit.is_accepted());
        let shared = self.tableau.first_same_as_last();
        let last_node = self.tableau.nodes[self.tableau.len() - 1];
        let mut steps = Vec::new();
        for visit in part.iter().filter(|visit| visit.is_accepted()) {
            let Visit { time, step, .. } = *visit;
            let before = previous.replace(visit).filter(|_| shared);
            let first_time = before.map_or(time, |before| before.time + last_node * before.step);
            steps.push(Retake { first_time, time, step });
        }
        steps
    }

    /// The stages of a step from `state`, and the state after it.
    fn take(&self, retake: &Retake, state: &[f64]) -> (Vec<StageTape<S::Tape>>, Vec<f64>) {
        let Retake { first_time, time, step } = *retake;
        let (slope, tape) = self.system.evaluate(first_time, state);
        let first = Some(StageTape { slope, tape });
        let count = self.tableau.solution_stages();
        let stages = stages(self.system, self.tableau, count, time, step, state, first);
        let next = advance(state, step, self.tableau.weights, &stages, self.system.precision());
        (stages, next)
    }

    /// Pulls a gradient back through steps from `state`. If their stages are too much to hold at once, the later half
    /// goes first.
    fn pull_back<E>(
        &self,
        state: &[f64],
        steps: &[Retake],
        mut gradient: Vec<f64>,
        ask: Ask<'_, E>,
    ) -> Result<Vec<f64>, E> {
        let memory = &self.solution.memory;
        let held = |count: usize| self.solution.bytes() + count * memory.step_bytes;
        let mut at = state.to_vec();
        if steps.len() > 1 && steps.len() * memory.step_bytes > memory.budget / 2 {
            let (early, late) = steps.split_at(steps.len() / 2);
            for step in early {
                ask(Progress { time: step.time, steps: self.solution.accepted, bytes: held(1) })?;
                at = self.take(step, &at).1;
            }
            gradient = self.pull_back(&at, late, gradient, ask)?;
            return self.pull_back(state, early, gradient, ask);
        }
        let mut taken = Vec::with_capacity(steps.len());
        for step in steps {
            let bytes = held(taken.len() + 1);
            ask(Progress { time: step.time, steps: self.solution.accepted, bytes })?;
            let (stages, next) = self.take(step, &at);
            taken.push(stages);
            at = next;
        }
        for (step, stages) in steps.iter().zip(&taken).rev() {
            ask(Progress { time: step.time, steps: self.solution.accepted, bytes: held(taken.len()) })?;
            gradient = pull_back_step(self.system, self.tableau, step.step, stages, &gradient);
        }
        Ok(gradient)
    }
}
