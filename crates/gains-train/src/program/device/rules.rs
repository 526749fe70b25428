//! Elementwise operators.

use gains_core::activation::Activation;
use gains_core::smooth::Smooth;

use super::launcher::{Argument, Launcher};
use super::values::DeviceValues;
use super::{Kernels, launch, spread};
use crate::cpu::Real;
use crate::program::ops::{Each, Rule};

/// Number of a function in the kernels, and the numbers it is given.
fn curve(f: Activation) -> (usize, f64, f64) {
    match f {
        Activation::Relu => (0, 0.0, 0.0),
        Activation::LeakyRelu { slope } => (1, slope, 0.0),
        Activation::Sigmoid => (2, 0.0, 0.0),
        Activation::Tanh => (3, 0.0, 0.0),
        Activation::Absolute => (4, 0.0, 0.0),
        Activation::Smooth(Smooth::Softplus) => (5, 0.0, 0.0),
        Activation::Smooth(Smooth::Silu) => (6, 0.0, 0.0),
        Activation::Smooth(Smooth::Gelu) => (7, 0.0, 0.0),
        Activation::Smooth(Smooth::GeluTanh) => (8, 0.0, 0.0),
        Activation::Smooth(Smooth::Elu { alpha }) => (9, alpha, 0.0),
        Activation::Smooth(Smooth::Sin) => (10, 0.0, 0.0),
        Activation::Smooth(Smooth::Cos) => (11, 0.0, 0.0),
        Activation::Smooth(Smooth::Square) => (12, 0.0, 0.0),
        Activation::Smooth(Smooth::Clamp { low, high }) => (13, low, high),
        Activation::Smooth(Smooth::InverseRoot { eps }) => (14, eps, 0.0),
    }
}

/// Number of a rule in the kernels, and its function.
fn rule(rule: Rule) -> [Argument; 4] {
    let (number, each) = match rule {
        Rule::Over(each) => (place(each), Some(each)),
        Rule::Moved(each) => (4 + place(each), Some(each)),
        Rule::Meet => (8, None),
        Rule::Hull => (9, None),
        Rule::Value => (10, None),
        Rule::Change => (11, None),
    };
    let (f, a, b) = match each {
        Some(Each::Curve(f)) => curve(f),
        _ => (0, 0.0, 0.0),
    };
    [number.into(), f.into(), a.into(), b.into()]
}

fn place(each: Each) -> usize {
    match each {
        Each::Curve(_) => 0,
        Each::Product => 1,
        Each::Maximum => 2,
        Each::Blend => 3,
    }
}

/// Kernels by number of arguments: forward and back.
fn kernels(arguments: usize) -> [&'static str; 2] {
    match arguments {
        1 => ["rule_forward_1", "rule_back_1"],
        2 => ["rule_forward_2", "rule_back_2"],
        3 => ["rule_forward_3", "rule_back_3"],
        6 => ["rule_forward_6", "rule_back_6"],
        _ => ["rule_forward_9", "rule_back_9"],
    }
}

impl<L: Launcher, F: Real> Kernels<L, F> {
    /// Where values lie: centres, then radii.
    fn places(&self, x: &[&DeviceValues<L::Memory>]) -> Argument {
        let mut places = [0; 18];
        let centres = x.iter().map(|x| &x.centre);
        let radii = x.iter().filter_map(|x| x.radius.as_ref());
        for (place, lane) in places.iter_mut().zip(centres.chain(radii)) {
            *place = self.at(lane);
        }
        Argument::Places(places)
    }

    /// Boxes of the arguments to one of the value.
    pub(super) fn rule_over(&self, which: Rule, x: &[&DeviceValues<L::Memory>]) -> DeviceValues<L::Memory> {
        let out = self.blank(x[0].rows, x[0].columns, true);
        let [number, f, a, b] = rule(which);
        let [centre, radius] = self.both(&out);
        let arguments = [number, f, a, b, self.places(x), centre, radius, out.len().into()];
        self.launch(kernels(x.len())[0], spread(out.len()), &arguments);
        out
    }

    /// Gradients of the arguments.
    pub(super) fn rule_returned(
        &self,
        which: Rule,
        x: &[&DeviceValues<L::Memory>],
        gradient: &DeviceValues<L::Memory>,
    ) -> Vec<DeviceValues<L::Memory>> {
        let parts: Vec<DeviceValues<L::Memory>> = x.iter().map(|x| self.blank_like(x)).collect();
        let [number, f, a, b] = rule(which);
        let [centre, radius] = self.both(gradient);
        let to = self.places(&parts.iter().collect::<Vec<_>>());
        let arguments = [number, f, a, b, self.places(x), centre, radius, to, gradient.len().into()];
        self.launch(kernels(x.len())[1], spread(gradient.len()), &arguments);
        parts
    }

    fn both(&self, x: &DeviceValues<L::Memory>) -> [Argument; 2] {
        [self.at(&x.centre).into(), x.radius.as_ref().map_or(0, |radius| self.at(radius)).into()]
    }

    /// An operator at points.
    pub(super) fn each_at(&self, each: Each, x: &[&DeviceValues<L::Memory>]) -> DeviceValues<L::Memory> {
        let out = self.blank_like(x[0]);
        let [number, f, a, b] = rule(Rule::Over(each));
        let (n, to) = (out.len(), self.at(&out.centre));
        launch!(self, "each_forward", spread(n), number, f, a, b, x.len(), self.places(x), to, n);
        out
    }

    /// Gradients of its arguments.
    pub(super) fn each_returned(
        &self,
        each: Each,
        x: &[&DeviceValues<L::Memory>],
        gradient: &DeviceValues<L::Memory>,
    ) -> Vec<DeviceValues<L::Memory>> {
        let parts: Vec<DeviceValues<L::Memory>> = x.iter().map(|x| self.blank_like(x)).collect();
        let [number, f, a, b] = rule(Rule::Over(each));
        let (n, g) = (gradient.len(), self.at(&gradient.centre));
        let to = self.places(&parts.iter().collect::<Vec<_>>());
        launch!(self, "each_back", spread(n), number, f, a, b, x.len(), self.places(x), g, to, n);
        parts
    }
}
