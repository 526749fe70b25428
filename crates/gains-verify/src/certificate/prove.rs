//! From a decided problem to its certificate.

use std::sync::Arc;

use gains_core::affine::Scale;
use gains_core::operator::blend::Blend;
use gains_core::{Activation, AffineMap, Arithmetic, BoxVec, Operator, Precision, Program, Rows, Step};
use gains_ode::{Inference, Observations, Visit};

use super::branch::Brancher;
use super::claim::{Node, RowClaim, SeriesClaim, SplitClaim, SplitPlace};
use super::{Certificate, Evidence, NotWritten};
use crate::analysis::{Analysis, Trajectories};
use crate::attack::Hunt;
use crate::ball::Ball;
use crate::forms::by_rules;
use crate::limits::{Clock, Reason};
use crate::method::Method;
use crate::problem::{Point, Problem};
use crate::property::{ErrorLimit, Property};
use crate::steps::StepForm;
use crate::verifier::{Report, Settings, Verdict};

/// Most inputs that vary for their region to be halved.
const FEW_INPUTS: usize = 64;

/// By how much of the numbers involved a property must be missed all over the box around what a witness gives.
const ROOM_OF_WITNESS: f64 = 1e-9;

/// The part of a bound that is left to the rounding of others.
const ROOM_BELOW: f64 = 0.01;

/// Halves of halves, of regions and of neurons: checkers read so deep, and the stack of a thread holds as many.
pub(super) const DEEPEST: usize = 200;

/// The same where a half may lie beside the ball, of which nothing can be shown however small it is made.
const DEEPEST_BESIDE_BALL: usize = 12;

/// Writes down why a verdict holds. `settings` are those it was found with; `series` is what the program was laid out for, if
/// it is a network for series.
pub fn certificate(
    problem: &Problem<'_>,
    series: Option<&Observations>,
    settings: &Settings,
    report: &Report,
    clock: Clock<'_>,
) -> Result<Certificate, NotWritten> {
    if let Some(what) = unspoken(problem, series, settings.arithmetic) {
        return Err(NotWritten::Unspoken(what));
    }
    let laid_out = |series: &Observations| SeriesClaim {
        times: series.times.clone(),
        observed: series.mask.clone(),
        target: series.target_time,
    };
    let of = |boxes: &[BoxVec], evidence| Certificate {
        series: series.map(laid_out),
        boxes: boxes.to_vec(),
        ball: problem.region.ball.clone(),
        property: problem.property.clone(),
        evidence,
    };
    match &report.verdict {
        Verdict::Verified => {
            let decided = report.stages.last().map_or("", |stage| &stage.name);
            let proof = match &problem.property {
                Property::Errors(errors) => {
                    let program = measured(problem.program, errors);
                    let property = Property::all(program.output_shape().len(), vec![errors.on_distances()]);
                    let problem = Problem { program: &program, property, output: None, ..problem.clone() };
                    Prover::new(&problem, clock).prove(decided, settings.step_form)
                }
                _ => Prover::new(problem, clock).prove(decided, settings.step_form),
            };
            Ok(of(&problem.region.outer, Evidence::Proof(proof?)))
        }
        Verdict::Falsified { witness: point } => {
            Ok(of(&problem.region.inner, witness(problem, point, clock)?))
        }
        Verdict::Unknown(_) | Verdict::Misclassified => Err(NotWritten::NoVerdict),
    }
}

/// A program that goes on from its outputs to how far each is from what is observed.
fn measured(program: &Program, errors: &ErrorLimit) -> Program {
    let (mut measured, shape) = (program.clone(), program.output_shape());
    let shifts = errors.shown_truth().iter().map(|truth| -truth).collect();
    let away = AffineMap::Scale(Scale::affine(shape, vec![1.0; shape.len()], shifts));
    for operator in [Operator::Affine(Arc::new(away)), Operator::Curve(Activation::Absolute)] {
        measured.push(operator.into(), vec![measured.output()], shape);
    }
    measured
}

/// The run at a point that breaks the property.
fn witness(problem: &Problem<'_>, point: &Point, clock: Clock<'_>) -> Result<Evidence, NotWritten> {
    let inputs: Vec<&[f64]> = point.iter().map(Vec::as_slice).collect();
    let run = Inference::run_within(problem.program, &inputs, Precision::Float64, &clock.watch())
        .map_err(|error| NotWritten::Lost(error.to_string()))?;
    certain(problem, &inputs, clock).map_err(|why| NotWritten::Lost(why.into()))?;
    let actions = |trajectory: &[Visit]| trajectory.iter().map(|visit| visit.action).collect();
    Ok(Evidence::Witness {
        inputs: point.clone(),
        actions: run.solutions().map(|solution| actions(&solution.trajectory)).collect(),
        outputs: run.output.clone(),
    })
}

/// Whether a point takes the same steps and breaks the property whatever is rounded on its way; else why not.
fn certain(problem: &Problem<'_>, inputs: &[&[f64]], clock: Clock<'_>) -> Result<(), &'static str> {
    let point = inputs.iter().map(|values| BoxVec::new(values.to_vec(), values.to_vec())).collect();
    let (method, form) = (Method::Box, StepForm::Independent);
    let analysis = Analysis::new(problem.program, point, method, form, Arithmetic::Real, clock);
    let analysis = analysis.map_err(|_| "intervals around the witness are lost on the way")?;
    let one_way = |graph: &Trajectories| graph.vertices.iter().all(|vertex| vertex.outgoing.len() == 1);
    if !analysis.graphs().all(one_way) {
        return Err("rounding alone leaves open which steps the witness takes");
    }
    match problem.property.is_broken_throughout(analysis.output(), ROOM_OF_WITNESS) {
        true => Ok(()),
        false => Err("the witness is within rounding of what is asked"),
    }
}

/// What a certificate of a problem would have to speak about and cannot.
fn unspoken(problem: &Problem<'_>, series: Option<&Observations>, arithmetic: Arithmetic) -> Option<String> {
    if arithmetic != Arithmetic::Real {
        return Some("float32 programs".into());
    }
    let of_series = matches!(problem.property, Property::Errors(_)) || problem.program.inputs().len() != 1;
    if of_series && series.is_none() {
        return Some("forecasts without their series".into());
    }
    let loose = |step: &Step| matches!(step, Step::Plain(Operator::Blend(blend)) if *blend != Blend::Exact);
    problem.program.nodes().any(|(_, node)| loose(&node.operator)).then(|| "gates as products".into())
}

/// Whether lines outside ODE blocks belong to functions made of pieces: their slopes are written for a node of the proof,
/// not for the halves that case distinctions on neurons make of it.
fn has_pieces(program: &Program) -> bool {
    let pieced = |step: &Step| matches!(step, Step::Plain(Operator::Curve(Activation::Smooth(_))));
    program.nodes().any(|(_, node)| pieced(&node.operator))
}

/// The methods to prove it by once more, given the stage that did it: that one if it can be written, then ever stronger
/// ones.
fn attempts(decided: &str, form: StepForm) -> Vec<(Method, StepForm)> {
    let tight = (Method::Tight, StepForm::Difference);
    match decided {
        "box" => vec![(Method::Box, form), tight],
        "linear" | "gains" => vec![(Method::Gains, form), tight],
        _ => vec![tight],
    }
}

/// What one method shows over a part of the region.
struct Shown<'p> {
    node: Node,
    /// What is claimed of every row.
    known: Vec<f64>,
    analysis: Analysis<'p>,
}

/// Proves a problem again.
struct Prover<'p, 'a> {
    problem: &'p Problem<'a>,
    rows: Rows,
    clock: Clock<'p>,
    ball: Option<Ball>,
}

impl<'p, 'a> Prover<'p, 'a> {
    fn new(problem: &'p Problem<'a>, clock: Clock<'p>) -> Self {
        let rows = problem.property.rows(problem.program.output_shape());
        Self { problem, rows, clock, ball: problem.region.ball.clone() }
    }

    /// Proves what a stage has decided, by that method or by ever stronger ones.
    fn prove(&self, decided: &str, form: StepForm) -> Result<Node, NotWritten> {
        let region = &self.problem.region.outer;
        let mut lost = String::from("no way was tried");
        if decided == "symbolic" {
            match self.by_forms(region, &self.nothing()) {
                Ok(node) => return Ok(node),
                Err(reason) => lost = reason.to_string(),
            }
        }
        let mut best: Option<Shown<'p>> = None;
        for (method, form) in attempts(decided, form) {
            match self.leaf(region, &self.nothing(), method, form) {
                Ok(shown) if self.holds(&shown.known) => return Ok(shown.node),
                Ok(shown) => {
                    let margin = self.problem.property.margin(&shown.known);
                    lost = Reason::Loose { margin }.to_string();
                    best = Some(shown);
                }
                Err(reason) => lost = reason.to_string(),
            }
        }
        let few = self.varying() <= FEW_INPUTS;
        // What was found by halves, or by affine forms where these are few, is best looked for there again.
        let by_halves = few && matches!(decided, "bisect" | "symbolic");
        let by_neurons = !by_halves && !has_pieces(self.problem.program);
        if let Some(shown) = best.filter(|_| by_neurons) {
            match self.branched(shown) {
                Ok(Some(node)) => return Ok(node),
                Ok(None) => {}
                Err(reason) => lost = reason.to_string(),
            }
        }
        if few {
            return self
                .halved(region, &self.nothing(), 0)
                .map_err(|reason| NotWritten::Lost(reason.to_string()));
        }
        Err(NotWritten::Lost(lost))
    }

    /// A proof by affine forms of a part of the region.
    fn by_forms(&self, region: &[BoxVec], known: &[f64]) -> Result<Node, Reason> {
        let Problem { program, property, .. } = self.problem;
        let graphs = by_rules(program, region, property, known, self.clock)?;
        Ok(Node { forms: Some(graphs), ..Node::default() })
    }

    /// Nothing is shown of any row.
    fn nothing(&self) -> Vec<f64> {
        vec![f64::NEG_INFINITY; self.rows.count]
    }

    /// A proof by better slopes and case distinctions, starting from what a method shows; nothing if there is nothing to split.
    fn branched(&self, shown: Shown<'_>) -> Result<Option<Node>, Reason> {
        let program = self.problem.program;
        let start = program.odes().next().and_then(|(value, _)| program.node(value)).map(|node| node.from[0]);
        let Some(behind) = start.and_then(|start| program.behind(start)) else { return Ok(None) };
        let Some(brancher) =
            Brancher::new(&shown.analysis, &behind, &self.rows, &self.problem.property, self.clock)
        else {
            return Ok(None);
        };
        let mut proved = brancher.prove()?;
        // What the first analysis claims in front of the ODE block is what all the rest stands on.
        let mut boxes = shown.node.boxes;
        boxes.retain(|claim| start.is_some_and(|start| claim.value <= start));
        boxes.append(&mut proved.boxes);
        Ok(Some(Node { boxes, ..proved }))
    }

    fn holds(&self, known: &[f64]) -> bool {
        self.problem.property.margin(known) > 0.0
    }

    fn varying(&self) -> usize {
        let vary = |b: &BoxVec| b.lower.iter().zip(&b.upper).filter(|(l, u)| l < u).count();
        self.problem.region.outer.iter().map(vary).sum()
    }

    /// What one method shows of a part of the region, beside the rows that are known already.
    fn leaf(
        &self,
        region: &[BoxVec],
        known: &[f64],
        method: Method,
        form: StepForm,
    ) -> Result<Shown<'p>, Reason> {
        let program = self.problem.program;
        let ball = self.ball.clone();
        let analysis = Analysis::for_claims(program, region.to_vec(), ball, &[], method, form, self.clock)?;
        let mut known = known.to_vec();
        let mut rows = Vec::new();
        for (row, known) in known.iter_mut().enumerate().filter(|(_, bound)| **bound <= 0.0) {
            let (bound, way) = analysis.show(&self.rows.select(&[row]))?;
            if let Some(bound) = claimed_bound(bound) {
                *known = bound;
                rows.push(RowClaim { row, way, bound });
            }
        }
        let (boxes, graphs) = (analysis.box_claims().to_vec(), analysis.graph_claims());
        let lines = analysis.line_claims();
        Ok(Shown { node: Node { boxes, graphs, lines, rows, ..Node::default() }, known, analysis })
    }

    /// A proof by halves of a part of the region, which lies so deep in the tree.
    fn halved(&self, region: &[BoxVec], known: &[f64], depth: usize) -> Result<Node, Reason> {
        self.clock.check(0)?;
        if depth > if self.ball.is_some() { DEEPEST_BESIDE_BALL } else { DEEPEST } {
            return Err(Reason::Loose { margin: self.problem.property.margin(known) });
        }
        let (mut node, known) = match self.leaf(region, known, Method::Tight, StepForm::Difference) {
            Ok(shown) => (shown.node, shown.known),
            Err(Reason::Overflow { .. } | Reason::TooManyVertices { .. }) => {
                (Node::default(), known.to_vec())
            }
            Err(reason) => return Err(reason),
        };
        if self.holds(&known) {
            return Ok(node);
        }
        if node.rows.is_empty() {
            node = Node::default();
        }
        match self.by_forms(region, &known) {
            Ok(forms) => {
                node.forms = forms.forms;
                return Ok(node);
            }
            Err(Reason::Loose { .. } | Reason::Overflow { .. } | Reason::TooManyVertices { .. }) => {}
            Err(reason) => return Err(reason),
        }
        let loose = || Reason::Loose { margin: self.problem.property.margin(&known) };
        let (input, entry, at) = self.cut(region).ok_or_else(loose)?;
        let mut parts = [Node::default(), Node::default()];
        for (below, part) in [true, false].into_iter().zip(&mut parts) {
            let mut half = region.to_vec();
            let side = if below { &mut half[input].upper } else { &mut half[input].lower };
            side[entry] = at;
            *part = self.halved(&half, &known, depth + 1)?;
        }
        node.split = Some(Box::new(SplitClaim { place: SplitPlace::Input(input), entry, at, parts }));
        Ok(node)
    }

    /// Where to halve a part: across the input along which the margin changes most.
    fn cut(&self, region: &[BoxVec]) -> Option<(usize, usize, f64)> {
        let middle: Point = region
            .iter()
            .map(|b| b.lower.iter().zip(&b.upper).map(|(l, u)| 0.5 * l + 0.5 * u).collect())
            .collect();
        let hunt = Hunt::new(self.problem, Precision::Float64, self.clock);
        let gradient = hunt.gradient(&middle);
        let steepness = |v: usize, i: usize| gradient.as_ref().map_or(1.0, |g| g[v][i].abs());
        let sides = || region.iter().enumerate().flat_map(|(v, b)| (0..b.len()).map(move |i| (v, i)));
        let mean = sides().map(|(v, i)| steepness(v, i)).sum::<f64>() / sides().count().max(1) as f64;
        let gain = |(v, i): (usize, usize)| {
            (region[v].upper[i] - region[v].lower[i]) * (steepness(v, i) + 0.2 * mean.max(f64::MIN_POSITIVE))
        };
        let inside =
            |&(v, i): &(usize, usize)| region[v].lower[i] < middle[v][i] && middle[v][i] < region[v].upper[i];
        let (v, i) = sides().filter(inside).max_by(|a, b| gain(*a).total_cmp(&gain(*b)))?;
        Some((v, i, middle[v][i]))
    }
}

/// What is claimed where a bound was proved: a little less, but above zero.
pub(super) fn claimed_bound(bound: f64) -> Option<f64> {
    let claimed = bound * (1.0 - ROOM_BELOW);
    (claimed > 0.0 && claimed.is_finite()).then_some(claimed)
}
