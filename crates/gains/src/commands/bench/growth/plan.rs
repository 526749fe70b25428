//! Which networks are measured at which radius.

use gains_core::description::LayerSpec;
use gains_core::model_file::{Tensors, build};
use gains_core::{Description, Network, WidenError, widen};

use crate::cli::GrowthArgs;
use crate::failure::Failure;
use crate::files;
use crate::question::Model;

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The radius.
    Eps,
    /// The end time of the ODE.
    EndTime,
    /// The number of entries of the state.
    State,
}

impl Axis {
    /// The word used in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Eps => "eps",
            Self::EndTime => "end time",
            Self::State => "state",
        }
    }
}

/// A network at a radius.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Index into the plan's networks.
    network: usize,
    /// The radius.
    pub eps: f64,
}

struct Variant {
    model: Model,
    end_time: f64,
    state: usize,
}

/// The whole study. The point that all axes have in common is measured once.
pub struct GrowthPlan {
    variants: Vec<Variant>,
    /// What is measured.
    pub points: Vec<Point>,
    /// The axes: for each value the index of its point.
    pub axes: Vec<(Axis, Vec<(f64, usize)>)>,
    base: Point,
}

impl GrowthPlan {
    /// Reads the model and makes the networks the flags ask for.
    pub fn new(args: &GrowthArgs) -> Result<Self, Failure> {
        let (description, tensors) = files::load_parts(args.model.as_deref())?;
        let base = Point { network: 0, eps: args.base_eps };
        let mut plan = Self { variants: Vec::new(), points: Vec::new(), axes: Vec::new(), base };
        plan.variant(description.clone(), &tensors)?;
        let mut eps = args.eps.clone();
        eps.sort_by(f64::total_cmp);
        let mut end_times = args.end_times.clone();
        end_times.sort_by(f64::total_cmp);
        let mut copies = args.copies.clone();
        copies.sort_unstable();
        for eps in eps {
            plan.add(Axis::Eps, eps, Point { eps, ..base });
        }
        for time in end_times {
            let network = plan.variant(description.with_end_time(time), &tensors)?;
            plan.add(Axis::EndTime, time, Point { network, ..base });
        }
        for copies in copies {
            let network = match copies {
                1 => 0,
                _ => {
                    let (wide, tensors) =
                        widen(&description, &tensors, usize::from(copies)).map_err(|e| narrow(&e))?;
                    plan.variant(wide, &tensors)?
                }
            };
            plan.add(Axis::State, plan.variants[network].state as f64, Point { network, ..base });
        }
        Ok(plan)
    }

    /// The network as it is.
    pub fn base(&self) -> &Model {
        self.model(&self.base)
    }

    /// The network of a point.
    pub fn model(&self, point: &Point) -> &Model {
        &self.variants[point.network].model
    }

    /// End time and state size of a point.
    pub fn setting(&self, point: &Point) -> (f64, usize) {
        let variant = &self.variants[point.network];
        (variant.end_time, variant.state)
    }

    /// A point in words.
    pub fn describe(&self, point: &Point) -> String {
        let (end_time, state) = self.setting(point);
        format!("eps {}, T {end_time}, state {state}", point.eps)
    }

    /// What stays as it is while an axis grows.
    pub fn held(&self, axis: Axis) -> String {
        let (end_time, state) = self.setting(&self.base);
        let eps = self.base.eps;
        match axis {
            Axis::Eps => format!("T = {end_time}, state {state}"),
            Axis::EndTime => format!("eps {eps}, state {state}"),
            Axis::State => format!("eps {eps}, T = {end_time}"),
        }
    }

    /// The number of the network with this description, made if there is none yet.
    fn variant(&mut self, description: Description, tensors: &Tensors) -> Result<usize, Failure> {
        let same = |v: &Variant| v.model.network().description == description;
        if let Some(index) = self.variants.iter().position(same) {
            return Ok(index);
        }
        let network = build(description, tensors, String::new())
            .map_err(|e| Failure::usage(e.to_string()).hint("choose other --end-times or fewer --copies"))?;
        let (end_time, state) = ode(&network).ok_or_else(|| {
            Failure::usage("the model has no ODE block, so only eps could grow")
                .hint("`gains model show` lists its layers")
        })?;
        self.variants.push(Variant { model: Model::new(network), end_time, state });
        Ok(self.variants.len() - 1)
    }

    fn add(&mut self, axis: Axis, value: f64, point: Point) {
        let index = self.points.iter().position(|p| *p == point).unwrap_or_else(|| {
            self.points.push(point);
            self.points.len() - 1
        });
        match self.axes.iter_mut().find(|(a, _)| *a == axis) {
            Some((_, values)) if values.iter().any(|(_, i)| *i == index) => {}
            Some((_, values)) => values.push((value, index)),
            None => self.axes.push((axis, vec![(value, index)])),
        }
    }
}

/// End time of a network's first ODE and the size of its largest state.
fn ode(network: &Network) -> Option<(f64, usize)> {
    let first = network.description.layers.iter().find_map(|layer| match layer {
        LayerSpec::Ode { solver, .. } => Some(solver.end_time),
        _ => None,
    })?;
    let largest = network.body.odes().map(|(_, ode)| ode.block.state().len()).max()?;
    Some((first, largest))
}

fn narrow(error: &WidenError) -> Failure {
    Failure::usage(format!("the state cannot be widened: {error}")).hint("leave it as it is with --copies 1")
}
