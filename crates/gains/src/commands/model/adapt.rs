//! `gains model adapt`: from a solver that takes steps of any size to one that can be followed.
//!
//! The continuous solvers are run on samples. Of each ODE block the usual step becomes h₀, the tolerance stays, and the
//! smallest step is what the block needed at least, divided once more. Around that choice each setting is changed by itself,
//! in all blocks, and every variant is run and certified on the same samples, so that what a setting costs can be seen
//! before one is chosen.

use std::time::{Duration, Instant};

use gains_core::Precision;
use gains_core::description::{ControlledSpec, ControllerSpec, Description, LayerSpec, SolverSpec};
use gains_core::model_file::{Tensors, content_hash, read_model, write_model};

use crate::campaign::{unlimited, watch};
use crate::cli::{AdaptArgs, ArithmeticArg, BoundArgs, Global, MethodArg};
use crate::failure::{Failure, Outcome};
use crate::output::plain;
use crate::question::{Budget, Model, Plan, Purpose, Ran, Task, Verdict};
use crate::subject::{Source, Subject};
use crate::table::{layout, median};
use crate::{files, interrupt, progress, tell};

/// Runs the command.
pub fn run(args: &AdaptArgs, global: &Global) -> Outcome {
    let (description, tensors) = files::load_parts(Some(&args.model))?;
    let free = free_solvers(&description.layers);
    if free.is_empty() {
        let name = args.model.display();
        return Err(Failure::usage(format!("'{name}' has no ODE with an adaptive controller")).hint(
            "fixed and controlled steps can be followed as they are; `gains certify` takes the model",
        ));
    }
    args.out.as_deref().map(files::check_target).transpose()?;
    let reference = Model::new(files::load_model(Some(&args.model))?);
    let source = Source::open(&reference, &args.data, &args.series, &args.region)?;
    let study = Study { args, source: &source, description: &description, tensors: &tensors, free: &free };
    let before = study.runs(&reference)?;
    let chosen: Vec<ControlledSpec> =
        free.iter().map(|block| choose(args, block, &free[0], &before)).collect();
    let variants = around(&chosen);
    let bar = progress::bar(variants.len() as u64, global.quiet, progress::ITEMS);
    let mut rows = Vec::new();
    for (name, controllers) in &variants {
        rows.extend(study.row(name, controllers, &before)?);
        bar.inc(1);
        if interrupt::requested() {
            break;
        }
    }
    bar.finish_and_clear();
    if interrupt::requested() {
        tell::note("interrupted; nothing was written");
        return Ok(());
    }
    tell::print(&study.words(&before, &layout(&HEADER, &rows)))?;
    if let Some(out) = &args.out {
        files::write_atomically(out, &study.model(&chosen)?)?;
    }
    tell::written(&args.out, global.quiet);
    Ok(())
}

const HEADER: [&str; 11] = [
    "variant",
    "factor",
    "tolerance",
    "h0",
    "smallest",
    "changed",
    "drift",
    "steps",
    "vertices",
    "certified",
    "s",
];

/// An ODE block with a continuous solver.
struct Free {
    /// Which of all ODE blocks it is.
    block: usize,
    tolerance: f64,
    end: f64,
}

fn free_solvers(layers: &[LayerSpec]) -> Vec<Free> {
    let solvers = layers.iter().filter_map(|layer| match layer {
        LayerSpec::Ode { solver, .. } => Some(solver),
        _ => None,
    });
    let free = |(block, solver): (usize, &SolverSpec)| match &solver.controller {
        ControllerSpec::Adaptive { tolerance, .. } => {
            Some(Free { block, tolerance: *tolerance, end: solver.end_time })
        }
        _ => None,
    };
    solvers.enumerate().filter_map(free).collect()
}

/// The settings of a block: those that are asked for, the others from what its continuous solver did. Steps that are asked
/// for are those of the first block; in others they are in proportion to the end time.
fn choose(args: &AdaptArgs, free: &Free, first: &Free, runs: &[Ran]) -> ControlledSpec {
    let steps: Vec<f64> = runs.iter().flat_map(|run| inner_steps(run, free.block)).collect();
    let usual = round(median(steps.clone()).unwrap_or(free.end).min(free.end));
    let asked = |step: Option<f64>| step.map(|step| step * (free.end / first.end));
    let initial_step = asked(args.initial_step).unwrap_or(usual);
    let least = steps.into_iter().fold(initial_step, f64::min);
    let factor = f64::from(args.factor);
    let mut smallest = initial_step;
    while smallest > least {
        smallest /= factor;
    }
    ControlledSpec {
        factor: args.factor,
        tolerance: args.tolerance.unwrap_or(free.tolerance),
        initial_step,
        // A little below the grid, so that the step of that size is still taken.
        minimum_step: asked(args.minimum_step).unwrap_or(0.99 * smallest / factor),
        rejections_after_clipping: 1,
    }
}

/// The steps that a block took and that were not clipped at the end.
fn inner_steps(run: &Ran, block: usize) -> Vec<f64> {
    let visits = run.trajectories.get(block).into_iter().flatten();
    let mut steps: Vec<f64> = visits.filter(|v| v.is_accepted()).map(|v| v.step).collect();
    steps.pop();
    steps
}

/// Three digits are enough for a step.
fn round(step: f64) -> f64 {
    format!("{step:.2e}").parse().unwrap_or(step)
}

/// The choice, and each of its settings changed by itself in all blocks.
fn around(chosen: &[ControlledSpec]) -> Vec<(&'static str, Vec<ControlledSpec>)> {
    let with = |change: &dyn Fn(&mut ControlledSpec)| {
        let mut specs = chosen.to_vec();
        specs.iter_mut().for_each(change);
        specs
    };
    vec![
        ("chosen", chosen.to_vec()),
        ("factor squared", with(&|spec| spec.factor = spec.factor.saturating_mul(spec.factor).min(64))),
        ("tolerance x 10", with(&|spec| spec.tolerance *= 10.0)),
        ("tolerance / 10", with(&|spec| spec.tolerance /= 10.0)),
        ("smallest x factor", with(&|spec| spec.minimum_step *= f64::from(spec.factor))),
        ("smallest / factor", with(&|spec| spec.minimum_step /= f64::from(spec.factor))),
    ]
}

/// The network, its samples, and what is done with them.
struct Study<'a> {
    args: &'a AdaptArgs,
    source: &'a Source,
    description: &'a Description,
    tensors: &'a Tensors,
    /// The blocks that are adapted.
    free: &'a [Free],
}

impl Study<'_> {
    fn subject<'b>(&'b self, model: &'b Model) -> Result<Box<dyn Subject + 'b>, Failure> {
        let subject = self.source.subject(model, &self.args.data, &self.args.series, &self.args.region)?;
        subject.check_radius(self.args.eps)?;
        Ok(subject)
    }

    /// The network run on all samples.
    fn runs(&self, model: &Model) -> Result<Vec<Ran>, Failure> {
        let subject = self.subject(model)?;
        let run = |&index: &usize| {
            subject.question(index, 0.0).run(Precision::Float64, &watch()).map_err(|problem| {
                Failure::new(format!("{}: {problem}", subject.name(index)))
                    .hint("leave the sample out with --samples, or change the solver of the model")
            })
        };
        let ran = subject.indices().iter().take_while(|_| !interrupt::requested()).map(run).collect();
        // A run that Ctrl-C cut short has not failed.
        if interrupt::requested() { Ok(Vec::new()) } else { ran }
    }

    /// The model file with all continuous solvers replaced, each by the settings chosen for it.
    fn model(&self, chosen: &[ControlledSpec]) -> Result<Vec<u8>, Failure> {
        let mut description = self.description.clone();
        let solvers = description.layers.iter_mut().filter_map(|layer| match layer {
            LayerSpec::Ode { solver, .. } => Some(solver),
            _ => None,
        });
        for (block, solver) in solvers.enumerate() {
            if let Some(at) = self.free.iter().position(|free| free.block == block) {
                solver.controller = ControllerSpec::ControlledAdaptive(chosen[at].clone());
            }
        }
        write_model(&description, self.tensors).map_err(|problem| {
            Failure::usage(format!("the adapted network cannot be written: {problem}"))
                .hint("choose other settings: --factor, --tolerance, --initial-step, --minimum-step")
        })
    }

    /// One variant: what it changes, and what certifying it costs.
    fn row(
        &self,
        name: &str,
        specs: &[ControlledSpec],
        before: &[Ran],
    ) -> Result<Option<Vec<String>>, Failure> {
        let bytes = self.model(specs)?;
        let network = read_model(&bytes)
            .map_err(|e| Failure::new(format!("the adapted network {}: {e}", content_hash(&bytes))))?;
        let model = Model::new(network);
        let after = self.runs(&model)?;
        if after.len() < before.len() {
            return Ok(None);
        }
        let changed = before.iter().zip(&after).filter(|(b, a)| b.largest() != a.largest()).count();
        let drift = before.iter().zip(&after).map(|(b, a)| drift(b, a)).fold(0.0, f64::max);
        let steps = after.iter().map(|run| run.accepted + run.rejected).sum::<usize>() as f64;
        let certified = self.certify(&model)?;
        Ok(Some(vec![
            name.into(),
            each(specs, |spec| f64::from(spec.factor)),
            each(specs, |spec| spec.tolerance),
            each(specs, |spec| spec.initial_step),
            each(specs, |spec| spec.minimum_step),
            if model.task() == Task::Classes { changed.to_string() } else { "–".into() },
            format!("{drift:.1e}"),
            format!("{:.1}", steps / after.len().max(1) as f64),
            median(certified.vertices).map_or("–".into(), |n| n.to_string()),
            format!("{}/{}", certified.verified, certified.asked),
            format!("{:.2}", certified.elapsed.as_secs_f64()),
        ]))
    }

    fn certify(&self, model: &Model) -> Result<Certified, Failure> {
        let method = MethodArg::Auto;
        let bounds = BoundArgs { method, step_form: None, arithmetic: ArithmeticArg::Real };
        let plan = Plan::new(model.task(), &bounds, None, Purpose::Certify)?;
        let subject = self.subject(model)?;
        let budget = Budget { timeout: Some(Duration::from_secs_f64(self.args.timeout)), ..unlimited() };
        let started = Instant::now();
        let mut certified = Certified::default();
        for &index in subject.indices().iter().take(self.args.certify) {
            let answer = subject.question(index, self.args.eps).decide(&plan, index as u64, 1, budget);
            certified.asked += 1;
            certified.verified += usize::from(answer.verdict == Verdict::Verified);
            certified.vertices.extend(answer.graph.map(|(vertices, _)| vertices as f64));
        }
        certified.elapsed = started.elapsed();
        Ok(certified)
    }

    fn words(&self, before: &[Ran], table: &str) -> String {
        let steps: usize = before.iter().map(|run| run.accepted + run.rejected).sum();
        format!(
            "{}, {} samples, eps {} ({} certified, {} s each)\ncontinuous solver: {:.1} steps\n\n{table}\nchanged: decisions \
             other than the continuous solver's; drift: largest change of an output; s: for all that were certified\n",
            plain(&self.description.name),
            before.len(),
            self.args.eps,
            self.args.certify.min(before.len()),
            self.args.timeout,
            steps as f64 / before.len().max(1) as f64,
        )
    }
}

/// What certifying a few samples came to.
#[derive(Default)]
struct Certified {
    asked: usize,
    verified: usize,
    vertices: Vec<f64>,
    elapsed: Duration,
}

/// A setting of all blocks, once if it is the same in all.
fn each(specs: &[ControlledSpec], setting: impl Fn(&ControlledSpec) -> f64) -> String {
    let mut all: Vec<String> = specs.iter().map(|spec| round(setting(spec)).to_string()).collect();
    all.dedup();
    all.join("; ")
}

/// The largest difference of an output.
fn drift(before: &Ran, after: &Ran) -> f64 {
    before.output.iter().zip(&after.output).map(|(b, a)| (b - a).abs()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use gains_ode::{Action, Visit};

    use super::*;

    /// Each block is judged by its own steps, and blocks that can be followed are left alone.
    #[test]
    fn every_continuous_block_has_its_own_steps() {
        let block = |controller: &str, end: f64| -> LayerSpec {
            let text = format!(
                r#"{{"type": "ode", "dynamics": [{{"type": "tanh"}}],
                    "solver": {{"method": "dopri5", "end_time": {end}, "controller": {controller}}}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let adaptive = |tolerance: f64| {
            format!(r#"{{"type": "adaptive", "tolerance": {tolerance}, "initial_step": 0.1}}"#)
        };
        let controlled = r#"{"type": "controlled_adaptive", "factor": 2, "tolerance": 0.1, "initial_step": 0.25,
            "minimum_step": 0.02, "rejections_after_clipping": 1}"#;
        let layers = [block(controlled, 1.0), block(&adaptive(0.5), 1.0), block(&adaptive(0.25), 3.0)];
        let free = free_solvers(&layers);
        let found: Vec<_> = free.iter().map(|free| (free.block, free.tolerance, free.end)).collect();
        assert_eq!(found, [(1, 0.5, 1.0), (2, 0.25, 3.0)]);
        let visit = |step: f64, action| Visit { time: 0.0, step, action, error: 0.0, place: None };
        let steps = |step: f64| {
            vec![visit(9.0, Action::Reject), visit(step, Action::Keep), visit(0.001, Action::Keep)]
        };
        let run = Ran {
            output: Vec::new(),
            trajectories: vec![steps(0.125), steps(0.25), steps(0.5)],
            accepted: 0,
            rejected: 0,
            evaluations: 0,
            within_tolerance: true,
        };
        assert_eq!(inner_steps(&run, 1), [0.25], "what was rejected or clipped does not count");
        assert_eq!(inner_steps(&run, 2), [0.5]);
        assert!(inner_steps(&run, 3).is_empty());
    }
}
