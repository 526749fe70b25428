//! Enclosing a program by affine forms over its input, forward from the pixels to the outputs.
//!
//! Linear bounds pulled backwards need boxes for every step first, and on networks that were not
//! trained to be certified these boxes lose the input: a box does not know that all its entries move together, so
//! every decision of the step-size controller looks possible. Affine forms ([`gains_core::affine_form`]) keep the
//! dependence on the pixels from the first layer to the last.
//!
//! Trajectories that meet are kept apart, each with its own form, up to a few per place; beyond that the
//! closest are joined.

mod estimate;
mod meeting;
mod noted;
mod notes;
mod steps;

use std::sync::Arc;

use gains_core::affine_form::{AffineForm, Symbol, Symbols};
use gains_core::operator::Forming;
use gains_core::{Activation, Arithmetic, BoxVec, Ode, Operator, Program, Rows, Step};
use gains_ode::graph::explore;
use gains_ode::{Graph, Grid, Limits};

use crate::ball::Ball;
use crate::limits::{Clock, Reason};
use crate::steps::{Reach, StepTrace};
pub use noted::{FormGraph, FormVertex, by_rules};
pub use notes::StepNotes;
pub use steps::{FormSteps, FormValues, Travelling};

/// Most forms kept apart at one place of the solver, and at the end.
const COPIES: usize = 8;
/// By how much two forms that meet may widen for one to stand for both, where there are more than [`APART`].
const CLOSE: f64 = 0.1;
/// By how much they may widen where there are few.
const SAME: f64 = 0.01;
/// How many forms at one place are few.
const APART: usize = 3;
/// Most forms at the outputs.
const ENDS: usize = 16;
/// Most symbols a state may have.
const MOST_SYMBOLS: usize = 2000;

/// All outputs over one region, as affine forms over its entries.
pub struct Symbolic {
    forms: Vec<Arc<AffineForm>>,
    /// The trajectories of each ODE block. A place stands there as many times as there are forms for it.
    pub graphs: Vec<Graph<Reach, StepTrace>>,
    /// All outputs.
    pub output: BoxVec,
}

/// The forms of all values so far, for one way the trajectories may have gone.
type World = Vec<Arc<AffineForm>>;

impl Symbolic {
    /// Encloses every value over the inputs in `region`, one box for each; of the only input those in a ball, where there is one.
    pub fn new(
        program: &Program,
        region: &[BoxVec],
        ball: Option<&Ball>,
        arithmetic: Arithmetic,
        clock: Clock<'_>,
    ) -> Result<Self, Reason> {
        let mut symbols = Symbols::default();
        let input = |within: &BoxVec| match ball {
            Some(ball) => Arc::new(ball.form(within, &mut symbols)),
            None => Arc::new(AffineForm::from_box(within, &mut symbols)),
        };
        let mut worlds: Vec<World> = vec![region.iter().map(input).collect()];
        let mut graphs = Vec::new();
        let relus = only_relu_takes(program);
        let (last, released) = (last_uses(program), Arc::new(AffineForm::default()));
        for (value, node) in program.nodes() {
            match &node.operator {
                Step::Plain(operator) => {
                    let held = held(&worlds);
                    for world in &mut worlds {
                        let arguments: Vec<&AffineForm> = node.from.iter().map(|&v| &*world[v]).collect();
                        // Looked at before it is made: the form of an early layer alone may be all that is allowed.
                        clock.check(held + foreseen(operator, &arguments, program.shape(value).len()))?;
                        let then_relu = relus[value];
                        let stop = || clock.check(0).is_err();
                        let formed = Forming { time: 0.0, arithmetic, then_relu, matrix: None, stop: &stop };
                        let form = operator.form(&arguments, None, formed, &mut symbols);
                        clock.check(held + form.bytes())?;
                        if !form.is_sane() {
                            return Err(Reason::Overflow { time: 0.0 });
                        }
                        world.push(Arc::new(form));
                    }
                }
                Step::Ode(ode) => {
                    let world = one_world(worlds, &mut symbols);
                    let start = AffineForm::clone(&world[node.from[0]]);
                    let held = world.iter().map(|form| form.bytes()).sum();
                    let (graph, ends) = through(ode, start, arithmetic, clock, held, &mut symbols)?;
                    graphs.push(graph);
                    let grown = |end: Arc<Travelling>| {
                        let mut world = world.clone();
                        world.push(Arc::new(end.state.clone()));
                        world
                    };
                    worlds = ends.into_iter().map(grown).collect();
                }
            }
            for &v in node.from.iter().filter(|&&v| last[v] == Some(value)) {
                worlds.iter_mut().for_each(|world| world[v] = released.clone());
            }
        }
        let forms: Vec<Arc<AffineForm>> =
            worlds.iter().map(|world| world[program.output()].clone()).collect();
        let output = hull(forms.iter().map(|f| &f.bounds));
        Ok(Self { forms, graphs, output })
    }

    /// Certified lower bounds of rows on the outputs: of each form as a whole, and of its box.
    pub fn lower_bounds(&self, rows: &Rows) -> Vec<f64> {
        let nothing = if self.forms.is_empty() { f64::NEG_INFINITY } else { f64::INFINITY };
        let mut lower = vec![nothing; rows.count];
        for form in &self.forms {
            let plain = rows.lower_bounds(&form.bounds);
            for (row, (bound, plain)) in lower.iter_mut().zip(plain).enumerate() {
                let own = form.functional(rows.row(row)).lower + rows.constant[row];
                let owed = 4.0 * f64::EPSILON * (own.abs() + rows.constant[row].abs()) + rows.slack[row];
                // `max` ignores NaN.
                *bound = bound.min((own - owed).max(plain));
            }
        }
        lower
    }
}

/// Memory of all forms.
fn held(worlds: &[World]) -> usize {
    worlds.iter().flatten().map(|form| form.bytes()).sum()
}

/// What the form of an operator with so many entries will hold, if every symbol reaches all of them: those of its largest
/// argument, and one for every entry that a curve leaves open.
fn foreseen(operator: &Operator, arguments: &[&AffineForm], entries: usize) -> usize {
    let order = arguments.iter().map(|form| form.order()).max().unwrap_or(0);
    let open = |form: &&&AffineForm| {
        let bounds = &form.bounds;
        let is_open = |i: &usize| match operator {
            Operator::Curve(Activation::Relu) => bounds.lower[*i] < 0.0 && bounds.upper[*i] > 0.0,
            _ => bounds.lower[*i] < bounds.upper[*i],
        };
        (0..form.len()).filter(is_open).count()
    };
    let fresh = arguments.first().filter(|_| matches!(operator, Operator::Curve(_))).as_ref().map_or(0, open);
    AffineForm::bytes_of(order + fresh, entries)
}

/// The last node that takes each value; none for the output, which is kept.
fn last_uses(program: &Program) -> Vec<Option<usize>> {
    let mut last = vec![None; program.values()];
    for (value, node) in program.nodes() {
        node.from.iter().for_each(|&v| last[v] = Some(value));
    }
    last[program.output()] = None;
    last
}

/// For every value, whether nothing but a ReLU takes it.
fn only_relu_takes(program: &Program) -> Vec<bool> {
    let uses = program.uses();
    let mut only = vec![false; program.values()];
    for (_, node) in program.nodes() {
        if let Step::Plain(Operator::Curve(Activation::Relu)) = &node.operator {
            only[node.from[0]] = uses[node.from[0]] == 1;
        }
    }
    only
}

/// Joins, value by value, what happens in several worlds.
fn one_world(mut worlds: Vec<World>, symbols: &mut Symbols) -> World {
    if worlds.len() == 1 {
        return worlds.swap_remove(0);
    }
    let values = worlds.first().map_or(0, Vec::len);
    (0..values)
        .map(|v| {
            let same = worlds.iter().all(|world| Arc::ptr_eq(&world[v], &worlds[0][v]));
            if same {
                return worlds[0][v].clone();
            }
            let all = worlds.iter().map(|world| AffineForm::clone(&world[v])).collect();
            Arc::new(merge(all, 1, symbols).swap_remove(0))
        })
        .collect()
}

/// All trajectories through one ODE block, and the forms at its end.
type Passed = (Graph<Reach, StepTrace>, Vec<Arc<Travelling>>);

/// Follows all trajectories through one ODE block.
fn through(
    ode: &Ode,
    start: AffineForm,
    arithmetic: Arithmetic,
    clock: Clock<'_>,
    held: usize,
    symbols: &mut Symbols,
) -> Result<Passed, Reason> {
    let spec = ode.solver();
    let grid = Grid::new(&spec).map_err(gains_ode::Halt::<Reason>::from)?;
    let start = Travelling::new(start, symbols);
    let mut carrier = FormSteps::new(&ode.block, grid.tolerance, arithmetic, clock, symbols);
    carrier.outside = held;
    carrier.thresholds =
        grid.increase_below.map_or_else(Vec::new, |least| vec![least * grid.tolerance, grid.tolerance]);
    let limits = Limits { vertices: clock.budget().vertices, stop: &|| false };
    let explored = explore(&mut carrier, &grid, vec![start], &limits)?;
    Ok((explored.graph, explored.ends))
}

/// The smallest box around several.
fn hull<'a>(boxes: impl IntoIterator<Item = &'a BoxVec>) -> BoxVec {
    let mut boxes = boxes.into_iter();
    let mut all = boxes.next().cloned().unwrap_or_default();
    boxes.for_each(|b| all.join(b));
    all
}

/// Joins the closest forms until at most `most` are left.
fn merge(mut forms: Vec<AffineForm>, most: usize, symbols: &mut Symbols) -> Vec<AffineForm> {
    while forms.len() > most.max(1) {
        let (i, j) = closest(&forms.iter().collect::<Vec<_>>());
        let other = forms.swap_remove(j);
        forms[i] = forms[i].join(&other, symbols);
        reduce(&mut forms[i], symbols);
    }
    forms
}

/// Compresses what a join has brought beyond the limit.
fn reduce(form: &mut AffineForm, symbols: &mut Symbols) {
    if form.order() > MOST_SYMBOLS {
        let weights = form.weights();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
        order.truncate(MOST_SYMBOLS.saturating_sub(form.len()));
        let mut kept: Vec<Symbol> = order.iter().map(|&s| form.symbols()[s]).collect();
        kept.sort_unstable();
        form.compress(&kept, symbols);
    }
}

/// The two forms whose centres are closest, the smaller index first.
fn closest(forms: &[&AffineForm]) -> (usize, usize) {
    let mut best = (0, 1, f64::INFINITY);
    for j in 1..forms.len() {
        for i in 0..j {
            let distance: f64 =
                forms[i].centre.iter().zip(&forms[j].centre).map(|(a, b)| (a - b).abs()).sum();
            if distance < best.2 {
                best = (i, j, distance);
            }
        }
    }
    (best.0, best.1)
}

#[cfg(test)]
mod tests {
    use gains_core::affine::Conv2d;
    use gains_core::description::{ControllerSpec, RungeKutta, SolverSpec};
    use gains_core::{AffineMap, Circuit, OdeBlock, Shape};
    use gains_ode::{Arrived, Carrier};

    use super::*;
    use crate::limits::Budget;

    const INPUTS: usize = 3;
    const OUTPUTS: usize = 4;

    /// Numbers of few bits, so that maps of points of few bits are exact.
    fn short(random: &mut fastrand::Rng, scale: f64) -> f64 {
        f64::from(random.i32(-64..=64)) / 64.0 * scale
    }

    fn map(random: &mut fastrand::Rng, shift: f64) -> AffineMap {
        let weights: Vec<f64> = (0..INPUTS * OUTPUTS).map(|_| short(random, 1.0)).collect();
        let bias: Vec<f64> = (0..OUTPUTS).map(|_| short(random, 1.0) + shift).collect();
        AffineMap::Conv(Conv2d::linear_layer(INPUTS, &weights, &bias, false).expect("weights fit"))
    }

    fn inside(b: &BoxVec, point: &[f64], room: f64) -> bool {
        point.iter().enumerate().all(|(i, x)| b.lower[i] - room <= *x && *x <= b.upper[i] + room)
    }

    /// Few or many forms of one input, scattered or (in odd rounds) so many of them close together that
    /// joining them brings too many symbols, some of them twice: each edge goes on with a form that holds
    /// what came along it, where all of the input's symbols are open and where they are known.
    #[test]
    fn forms_that_are_joined_where_they_meet_hold_all_that_arrived() {
        let controller = ControllerSpec::Fixed { steps: 1 };
        let solver = SolverSpec { method: RungeKutta::Euler, controller, end_time: 1.0 };
        let block = OdeBlock::new(Circuit::of("state", Shape::flat(OUTPUTS)), solver);
        let clock = Clock::start(Budget::default());
        let arithmetic = Arithmetic::Real;
        let mut random = fastrand::Rng::with_seed(35);
        let (mut joined, mut alone) = (0, 0);
        for round in 0..60 {
            let centre: Vec<f64> = (0..INPUTS).map(|_| short(&mut random, 1.0)).collect();
            let radius: Vec<f64> = (0..INPUTS).map(|_| f64::from(random.u8(1..=64)) / 64.0).collect();
            let ends =
                |sign: f64| centre.iter().zip(&radius).map(|(c, r)| c + sign * r).collect::<Vec<f64>>();
            let mut symbols = Symbols::default();
            let input = AffineForm::from_box(&BoxVec::new(ends(-1.0), ends(1.0)), &mut symbols);
            assert_eq!(input.symbols(), [1, 2, 3]);
            let close = round % 2 == 1;
            let count = if close { 3 * COPIES } else { random.usize(1..=3 * COPIES) };
            let mut arrivals: Vec<Arrived<Travelling>> = Vec::new();
            // The map behind every edge, and the set of states it belongs to.
            let mut sources: Vec<(AffineMap, Symbol)> = Vec::new();
            for k in 0..count {
                let shift = if close && k < COPIES - 1 { 1024.0 * (k + 1) as f64 } else { 0.0 };
                let way = map(&mut random, shift);
                let mut state = input.affine(&way, None, 0.0, arithmetic, false);
                if k % 3 == 2 {
                    // Not everyone still knows an input by its name.
                    state.retain(&[1, 2]);
                }
                let near = FormSteps::new(&block, 1.0, arithmetic, clock, &mut symbols)
                    .evaluate(state.clone(), 0.0, None)
                    .expect("no overflow");
                let mut states = Travelling::new(state, &mut symbols);
                states.near = Some(Arc::new(near));
                let states = Arc::new(states);
                for _ in 0..random.usize(1..4) {
                    let edges = vec![sources.len()];
                    sources.push((way.clone(), states.origin));
                    arrivals.push(Arrived { edges, state: states.clone() });
                }
            }
            random.shuffle(&mut arrivals);
            let left = FormSteps::new(&block, 1.0, arithmetic, clock, &mut symbols).meet(arrivals);

            assert_eq!(left.len(), count.min(COPIES), "round {round}");
            let mut edges: Vec<usize> = left.iter().flat_map(|a| a.edges.iter().copied()).collect();
            edges.sort_unstable();
            assert_eq!(edges, (0..sources.len()).collect::<Vec<_>>(), "round {round}: every edge, once");
            for Arrived { edges, state: states } in &left {
                let mut origins: Vec<Symbol> = edges.iter().map(|&e| sources[e].1).collect();
                origins.sort_unstable();
                origins.dedup();
                if origins.len() == 1 {
                    alone += 1;
                    assert!(
                        states.origin == origins[0] && states.near.is_some(),
                        "round {round}: as it came"
                    );
                } else {
                    joined += 1;
                    // These are other states than any of those that came.
                    assert!(sources.iter().all(|s| s.1 != states.origin), "round {round}: a new set");
                }
                assert!(states.state.order() <= MOST_SYMBOLS, "round {round}: too many symbols");
                for sample in 0..40 {
                    // Corners first: that is where forms end.
                    let mut value = || {
                        if sample < 20 { short(&mut random, 1.0).signum() } else { short(&mut random, 1.0) }
                    };
                    let known: Vec<f64> = (0..INPUTS).map(|_| value()).collect();
                    let x: Vec<f64> = (0..INPUTS).map(|i| centre[i] + radius[i] * known[i]).collect();
                    let slice = states.state.slice(|s| known.get(s as usize - 1).copied());
                    for &edge in edges {
                        let y = sources[edge].0.apply(&x, 0.0);
                        assert!(inside(&states.state.bounds, &y, 0.0), "round {round}: {y:?} came by {edge}");
                        // The dynamics pass the state on, so that it is also what was evaluated near it.
                        let near = states.near.as_ref().expect("something was evaluated near all of them");
                        assert!(inside(&near.output().bounds, &y, 0.0), "round {round}: {y:?} near {edge}");
                        let near = near.output().slice(|s| known.get(s as usize - 1).copied());
                        assert!(inside(&near, &y, 1e-11), "round {round}: {y:?} near {edge}, for its input");
                        // Symbols of boxes reach a rounding further than their ends.
                        assert!(
                            inside(&slice, &y, 1e-11),
                            "round {round}: {y:?} came by {edge}, for its input"
                        );
                    }
                }
            }
        }
        // Every odd round joins one lot of close forms and leaves those far away alone; others add to that.
        assert!(joined > 30 && alone > 30 * (COPIES - 1), "{joined} joined, {alone} alone");
    }

    /// More forms than are kept at the end, of which some are close: what is left holds every one of them.
    #[test]
    fn forms_that_are_joined_at_the_end_hold_all_that_arrived() {
        let controller = ControllerSpec::Fixed { steps: 1 };
        let solver = SolverSpec { method: RungeKutta::Euler, controller, end_time: 1.0 };
        let block = OdeBlock::new(Circuit::of("state", Shape::flat(OUTPUTS)), solver);
        let clock = Clock::start(Budget::default());
        let mut random = fastrand::Rng::with_seed(36);
        for round in 0..20 {
            let mut symbols = Symbols::default();
            let region = BoxVec::new(vec![-1.0; INPUTS], vec![0.5; INPUTS]);
            let input = AffineForm::from_box(&region, &mut symbols);
            let maps: Vec<AffineMap> = (0..ENDS + 1 + round % 8).map(|_| map(&mut random, 0.0)).collect();
            let mut ends: Vec<Arc<Travelling>> = maps
                .iter()
                .map(|way| input.affine(way, None, 0.0, Arithmetic::Real, false))
                .map(|state| Arc::new(Travelling::new(state, &mut symbols)))
                .collect();
            FormSteps::new(&block, 1.0, Arithmetic::Real, clock, &mut symbols).thin(&mut ends);
            assert_eq!(ends.len(), ENDS);
            for _ in 0..20 {
                let x: Vec<f64> = (0..INPUTS).map(|_| if random.bool() { -1.0 } else { 0.5 }).collect();
                for way in &maps {
                    let y = way.apply(&x, 0.0);
                    let held = ends.iter().any(|end| inside(&end.state.bounds, &y, 0.0));
                    assert!(held, "round {round}: {y:?}");
                }
            }
        }
    }
}
