//! Dynamics without what is zero.
//!
//! On networks trained to be certified most neurons are dead over the whole region: of 512 states perhaps a hundred are anything
//! but zero. Parts of the region are analysed some hundred times, so it pays to leave the others out once.
//!
//! **Claim.** Let every entry that is left out be zero in every stage of every step that any input of the region leads to. Then
//! the lean program makes of every such input what the program makes of it. **Proof.** A state entry that starts at zero and
//! whose slope is zero in all stages stays there, and adds nothing to the error estimate; an entry of a hidden value that is zero
//! adds nothing to what an affine map makes of it, and elementwise functions take each entry alone. By induction over the stages
//! all other entries are what they were, and so are step sizes and actions. ∎
//!
//! That they are zero is what the enclosures of a trajectory graph over the whole region say. What the analysis of a part
//! encloses is then the program itself, in exact arithmetic. Not in float32 mode: the order of a program's sums is another.

use std::cell::RefCell;
use std::sync::Arc;

use gains_core::affine::Selection;
use gains_core::{AffineMap, Arithmetic, BoxVec, Circuit, Ode, OdeBlock, Operator, Program, Shape, Step};
use gains_ode::graph::build;
use gains_ode::{Grid, Limits, Tableau};

use crate::limits::{Clock, Reason};
use crate::steps::{BoxSteps, Reach, Room, StepForm};

/// The most of all entries that may be left for leaving out the others to pay.
const WORTH_IT: f64 = 0.6;

/// A program that starts with an ODE block, without what is zero in that.
pub(crate) struct Lean {
    /// With the same input and outputs.
    pub program: Program,
    /// The entries of the input that its ODE block takes, increasing.
    pub entries: Arc<[u32]>,
}

impl Lean {
    /// Of a program whose only input is what its first ODE block takes, over a box of inputs. Nothing where it does not pay,
    /// or where the dynamics are made of anything but convolutions, linear layers and elementwise functions.
    pub fn new(program: &Program, region: &BoxVec, clock: Clock<'_>) -> Result<Option<Self>, Reason> {
        let Some((value, ode)) = program.odes().next() else { return Ok(None) };
        let dynamics = &ode.block.dynamics;
        let plain = |operator: &Operator| match operator {
            Operator::Affine(map) => matches!(**map, AffineMap::Conv(_)),
            operator => matches!(operator, Operator::Curve(_)),
        };
        let starts = program.node(value).is_some_and(|node| node.from == [0]) && program.inputs().len() == 1;
        if !starts || !dynamics.nodes().all(|(_, node)| plain(&node.operator)) {
            return Ok(None);
        }
        let nonzero = nonzero(ode, region, clock)?;
        let Some(needed) = needed(dynamics, region, &nonzero) else { return Ok(None) };
        let all: usize = (0..dynamics.values()).map(|v| dynamics.shape(v).len()).sum();
        if needed.iter().map(Vec::len).sum::<usize>() as f64 > WORTH_IT * all as f64 {
            return Ok(None);
        }
        Ok(restricted(program, (value, ode), &needed))
    }
}

/// For every node of the dynamics, whether an entry may be anything but zero in some stage.
fn nonzero(ode: &Ode, region: &BoxVec, clock: Clock<'_>) -> Result<Vec<Vec<bool>>, Reason> {
    let spec = ode.solver();
    let grid = Grid::new(&spec).map_err(gains_ode::Halt::<Reason>::from)?;
    let dynamics = &ode.block.dynamics;
    let none = dynamics.nodes().map(|(_, node)| vec![false; node.shape.len()]);
    let mut carrier = BoxSteps {
        dynamics,
        tableau: Tableau::of(spec.method),
        tolerance: grid.tolerance,
        arithmetic: Arithmetic::Real,
        form: StepForm::Difference,
        keep_traces: false,
        room: Room::None,
        clock,
        bytes: 0,
        nonzero: RefCell::new(none.collect()),
    };
    let limits = Limits { vertices: clock.budget().vertices, stop: &|| false };
    build(&mut carrier, &grid, Reach::from(region.clone()), &limits)?;
    Ok(carrier.nonzero.into_inner())
}

/// For every value of the dynamics, the entries that matter: of the state those that start or move away from zero, of what
/// affine maps take those that are not zero, of what elementwise functions take those that are needed of what they make.
fn needed(dynamics: &Circuit, region: &BoxVec, nonzero: &[Vec<bool>]) -> Option<Vec<Vec<u32>>> {
    let slope = nonzero.get(dynamics.output().checked_sub(1)?)?;
    let mut needed: Vec<Vec<bool>> =
        (0..dynamics.values()).map(|v| vec![false; dynamics.shape(v).len()]).collect();
    let state: Vec<bool> = region.alive().iter().fold(slope.clone(), |mut all, &i| {
        all[i as usize] = true;
        all
    });
    needed[dynamics.output()].clone_from(&state);
    for (value, node) in dynamics.nodes().rev() {
        let from = node.from[0];
        let wanted = match (&node.operator, from.checked_sub(1)) {
            (Operator::Curve(_), None) => return None,
            (Operator::Curve(_), Some(_)) => needed[value].clone(),
            (_, None) => state.clone(),
            (_, Some(node)) => nonzero[node].clone(),
        };
        needed[from].iter_mut().zip(wanted).for_each(|(all, wanted)| *all |= wanted);
    }
    let alike = |(value, node): (usize, &gains_core::dag::Node<Operator>)| {
        !matches!(node.operator, Operator::Curve(_)) || needed[value] == needed[node.from[0]]
    };
    let entries = |all: &Vec<bool>| (0..all.len() as u32).filter(|&i| all[i as usize]).collect::<Vec<u32>>();
    let found: Vec<Vec<u32>> = needed.iter().map(entries).collect();
    (dynamics.nodes().all(alike)
        && found[0] == entries(&state)
        && found.iter().all(|entries| !entries.is_empty()))
    .then_some(found)
}

/// The program with dynamics between those entries only.
fn restricted(program: &Program, (value, ode): (usize, &Ode), needed: &[Vec<u32>]) -> Option<Lean> {
    let flat = |v: usize| Shape::flat(needed[v].len());
    let mut dynamics = Circuit::of("state", flat(0));
    for (made, node) in ode.block.dynamics.nodes() {
        let operator = match &node.operator {
            Operator::Affine(map) => {
                Operator::Affine(Arc::new(map.restricted(&needed[made], &needed[node.from[0]])?))
            }
            other => other.clone(),
        };
        dynamics.push(operator, node.from.clone(), flat(made));
    }
    dynamics.set_output(ode.block.dynamics.output());
    let state = program.shape(0);
    let select = |input, output, source| {
        Some(Step::Plain(Operator::Affine(Arc::new(AffineMap::Select(Selection::of_entries(
            input, output, source,
        )?)))))
    };
    let chosen: Vec<Option<u32>> = needed[0].iter().map(|&i| Some(i)).collect();
    let mut spread = vec![None; state.len()];
    needed[0].iter().enumerate().for_each(|(at, &i)| spread[i as usize] = Some(at as u32));
    let mut lean = Program::of("state", state);
    let mut here: Vec<usize> = vec![0];
    for (made, node) in program.nodes() {
        let from: Vec<usize> = node.from.iter().map(|&v| here[v]).collect();
        here.push(if made == value {
            let start = lean.push(select(state, flat(0), chosen.clone())?, from, flat(0));
            let block = OdeBlock::new(dynamics.clone(), ode.block.solver.clone());
            let end = Ode { block: Arc::new(block), end_time: ode.end_time };
            let end = lean.push(Step::Ode(end), vec![start], flat(0));
            lean.push(select(flat(0), state, spread.clone())?, vec![end], state)
        } else {
            lean.push(node.operator.clone(), from, node.shape)
        });
    }
    lean.set_output(here[program.output()]);
    Some(Lean { program: lean, entries: needed[0].clone().into() })
}

#[cfg(test)]
mod tests {
    use gains_core::Precision;
    use gains_core::description::{LayerSpec, RungeKutta};
    use gains_ode::Inference;
    use gains_testkit::{Model, controlled, random_tensors};

    use super::*;
    use crate::limits::Budget;

    const STATES: usize = 8;

    /// Some neurons of the first layer and some slopes are dead wherever the state is not negative, some only where it is small.
    fn model(random: &mut fastrand::Rng) -> Model {
        let linear = |name: &str, in_features, out_features| LayerSpec::Linear {
            name: name.into(),
            in_features,
            out_features,
            time: true,
        };
        let dynamics =
            vec![linear("a", STATES, 10), LayerSpec::Relu {}, linear("b", 10, STATES), LayerSpec::Relu {}];
        let method = [RungeKutta::Dopri5, RungeKutta::Bosh3, RungeKutta::Heun][random.usize(0..3)];
        let layers = vec![
            LayerSpec::Ode { dynamics, solver: controlled(method, 2, 0.05, 0.25, 2) },
            linear("out", STATES, 3),
        ];
        let layers = layers.into_iter().map(without_time).collect::<Vec<_>>();
        let mut tensors = random_tensors(&layers, random);
        for (name, outputs) in [("a", 10), ("b", STATES)] {
            let dead: Vec<bool> = (0..outputs).map(|_| random.f64() < 0.6).collect();
            for part in ["weight", "bias"] {
                let values = &mut tensors.get_mut(&format!("{name}.{part}")).expect("it is there").1;
                let columns = values.len() / outputs;
                for (row, _) in dead.iter().enumerate().filter(|(_, dead)| **dead) {
                    values[row * columns..(row + 1) * columns].iter_mut().for_each(|w| *w = -w.abs());
                }
            }
        }
        Model::new(Shape::flat(STATES), layers, tensors, 3)
    }

    /// The last layer knows no time.
    fn without_time(layer: LayerSpec) -> LayerSpec {
        match layer {
            LayerSpec::Linear { name, in_features, out_features, .. } => {
                LayerSpec::Linear { name, in_features, out_features, time: false }
            }
            other => other,
        }
    }

    /// Whatever the lean program leaves out, inputs of the region lead to the same outputs by the same steps.
    #[test]
    fn what_is_left_out_changes_no_run() {
        let mut random = fastrand::Rng::with_seed(91);
        let (mut lean_ones, mut points, mut left_out) = (0, 0, 0);
        for _ in 0..300 {
            let network = model(&mut random).network();
            let starts: Vec<bool> = (0..STATES).map(|_| random.f64() < 0.4).collect();
            let lower: Vec<f64> = starts.iter().map(|s| if *s { random.f64() } else { 0.0 }).collect();
            let wide = 0.5 * random.f64();
            let upper = lower.iter().zip(&starts).map(|(l, s)| if *s { l + wide } else { 0.0 }).collect();
            let region = BoxVec::new(lower, upper);
            let clock = Clock::start(Budget { vertices: 200, ..Budget::default() });
            let Ok(Some(lean)) = Lean::new(&network.body, &region, clock) else { continue };
            lean_ones += 1;
            left_out += STATES - lean.entries.len();
            for _ in 0..20 {
                let inside = |(l, u): (&f64, &f64), random: &mut fastrand::Rng| l + random.f64() * (u - l);
                let x: Vec<f64> =
                    region.lower.iter().zip(&region.upper).map(|ends| inside(ends, &mut random)).collect();
                let watch = clock.watch();
                let run = |program| Inference::run_within(program, &[&x], Precision::Float64, &watch);
                let (Ok(whole), Ok(own)) = (run(&network.body), run(&lean.program)) else { continue };
                for (a, b) in whole.output.iter().zip(&own.output) {
                    assert!((a - b).abs() <= 1e-11 * (1.0 + a.abs()), "{a} and {b} at {x:?}");
                }
                points += 1;
            }
        }
        assert!(lean_ones > 40 && points > 800 && left_out > 60, "{lean_ones} {points} {left_out}");
    }
}
