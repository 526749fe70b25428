//! Where a batch comes from, what decides about its steps, and what comes out of it.

use super::launcher::Launcher;
use super::learning::{DeviceGradients, DeviceWeights};
use super::values::DeviceValues;
use super::{Kernels, launch, spread};
use crate::cpu::Real;
use crate::device::Measure;
use crate::program::judge::{Outlook, Seen, Target};
use crate::program::samples::Samples;

/// Labels or numbers of a batch on the device.
struct Truths<M> {
    labels: Option<M>,
    numbers: Option<M>,
}

impl<L: Launcher, F: Real> Kernels<L, F> {
    fn radii(&self, samples: &Samples) -> L::Memory {
        self.put_doubles(&samples.radii.iter().map(|radius| f64::from(*radius)).collect::<Vec<f64>>())
    }

    /// The boxes of a radius around inputs, within the range.
    pub(super) fn surrounded(
        &self,
        samples: &Samples,
        x: &DeviceValues<L::Memory>,
        eps: f64,
    ) -> DeviceValues<L::Memory> {
        let out = self.blank(x.rows, x.columns, true);
        let ([low, high], radii, n) = (range(samples), self.radii(samples), x.len());
        let radius = out.radius.as_ref().map_or(0, |radius| self.at(radius));
        let (from, radii, centre) = (self.at(&x.centre), self.at(&radii), self.at(&out.centre));
        launch!(self, "region", spread(n), from, radii, x.columns, eps, low, high, centre, radius, n);
        out
    }

    /// Inputs plus noise of at most eps.
    pub(super) fn scattered(
        &self,
        samples: &Samples,
        x: &DeviceValues<L::Memory>,
        eps: f64,
        seed: u64,
    ) -> DeviceValues<L::Memory> {
        let out = self.blank_like(x);
        let ([low, high], radii, n) = (range(samples), self.radii(samples), x.len());
        let halves = [seed as u32, (seed >> 32) as u32].map(|half| super::Argument::Int(half.cast_signed()));
        let (from, radii, to) = (self.at(&x.centre), self.at(&radii), self.at(&out.centre));
        let [first, second] = halves;
        launch!(self, "scatter", spread(n), from, radii, x.columns, eps, low, high, first, second, to, n);
        out
    }

    /// One sign step of an attack.
    pub(super) fn ascended(
        &self,
        samples: &Samples,
        attacked: &DeviceValues<L::Memory>,
        gradient: &DeviceValues<L::Memory>,
        x: &DeviceValues<L::Memory>,
        (part, eps): (f64, f64),
    ) {
        let ([low, high], radii, n) = (range(samples), self.radii(samples), x.len());
        launch!(
            self,
            "ascend",
            spread(n),
            self.at(&attacked.centre),
            self.at(&gradient.centre),
            self.at(&x.centre),
            self.at(&radii),
            x.columns,
            part,
            eps,
            low,
            high,
            n
        );
    }

    /// What a solver step tells about itself: four sums a row come to the host.
    pub(super) fn measured_step(
        &self,
        state: &DeviceValues<L::Memory>,
        slope: &DeviceValues<L::Memory>,
        error: Option<&DeviceValues<L::Memory>>,
    ) -> Measure {
        let sums = self.doubles(4 * state.rows);
        let centre = error.map_or(0, |error| self.at(&error.centre));
        let radius = error.and_then(|error| error.radius.as_ref()).map_or(0, |radius| self.at(radius));
        let (from, k) = (self.at(&state.centre), self.at(&slope.centre));
        let (columns, to) = (state.columns, self.at(&sums));
        launch!(self, "measure", [state.rows, 1, 1], from, k, centre, radius, columns, to);
        let mut all = Measure::default();
        for row in self.read_doubles(&sums, 4 * state.rows).chunks_exact(4) {
            all.lower += row[0];
            all.upper += row[1];
            all.largest = if row[1] <= all.largest { all.largest } else { row[1] };
            all.state += row[2];
            all.slope += row[3];
        }
        all
    }

    /// How far a state moves, as a part of its size.
    pub(super) fn moved(&self, start: &DeviceValues<L::Memory>, end: &DeviceValues<L::Memory>) -> f64 {
        let sums = self.doubles(2 * start.rows);
        let (from, to, out) = (self.at(&start.centre), self.at(&end.centre), self.at(&sums));
        launch!(self, "motion", [start.rows, 1, 1], from, to, start.columns, out);
        let rows = self.read_doubles(&sums, 2 * start.rows);
        let [size, moved] = [0, 1].map(|which| rows.iter().skip(which).step_by(2).sum::<f64>());
        if size > 0.0 { moved / size } else { 0.0 }
    }

    fn truths(&self, target: &Target) -> Truths<L::Memory> {
        match target {
            Target::Classes(labels) => {
                let labels = self.put_ints(labels.iter().map(|label| *label as i32));
                Truths { labels: Some(labels), numbers: None }
            }
            Target::Numbers(numbers) => Truths { labels: None, numbers: Some(self.put_doubles(numbers)) },
        }
    }

    /// Where the rows of the last layer are, where it was taken off the network.
    fn head(&self, outlook: &Outlook<'_, DeviceWeights<L::Memory>>) -> [u64; 2] {
        match (outlook.head, &outlook.target) {
            (Some(head), Target::Classes(_)) => [head.weights().start, head.biases().start]
                .map(|start| self.after(&outlook.weights.values, start)),
            _ => [0, 0],
        }
    }

    /// What a criterion looks at.
    pub(super) fn looked_at(
        &self,
        outlook: &Outlook<'_, DeviceWeights<L::Memory>>,
        x: &DeviceValues<L::Memory>,
    ) -> Seen {
        let count = x.rows * outlook.outputs;
        let truths = self.truths(&outlook.target);
        let (out, [weights, biases]) = (self.doubles(2 * count), self.head(outlook));
        let at = |memory: &Option<L::Memory>| memory.as_ref().map_or(0, |memory| self.at(memory));
        launch!(
            self,
            "seen",
            [x.rows, outlook.outputs, 1],
            self.at(&x.centre),
            at(&x.radius),
            x.columns,
            at(&truths.labels),
            at(&truths.numbers),
            weights,
            biases,
            self.at(&out)
        );
        let mut centre = self.read_doubles(&out, 2 * count);
        let radius = centre.split_off(count);
        Seen { centre, radius, boxes: x.is_box() }
    }

    /// From slopes in what was seen to those in `x`, and in the head.
    pub(super) fn looked_back(
        &self,
        outlook: &Outlook<'_, DeviceWeights<L::Memory>>,
        x: &DeviceValues<L::Memory>,
        on: &Seen,
        into: &DeviceGradients<L::Memory>,
    ) -> DeviceValues<L::Memory> {
        let part = self.blank_like(x);
        let truths = self.truths(&outlook.target);
        let on = self.put_doubles(&[&on.centre[..], &on.radius].concat());
        let at = |memory: &Option<L::Memory>| memory.as_ref().map_or(0, |memory| self.at(memory));
        let (labels, [weights, _], n) = (at(&truths.labels), self.head(outlook), x.len());
        let (outputs, columns, samples) = (outlook.outputs, x.columns, x.rows);
        let (slopes, centre, radius) = (self.at(&on), self.at(&part.centre), at(&part.radius));
        launch!(
            self,
            "seen_back",
            spread(n),
            slopes,
            labels,
            weights,
            outputs,
            columns,
            samples,
            centre,
            radius,
            n
        );
        let Some(head) = outlook.head.filter(|_| weights != 0) else { return part };
        let none = 0_u64;
        for (xc, xr, columns, start) in [
            (self.at(&x.centre), at(&x.radius), columns, head.weights().start),
            (none, none, 1, head.biases().start),
        ] {
            let (into, n) = (self.after(&into.signed, start), outputs * columns);
            launch!(
                self,
                "head_gradient",
                spread(n),
                xc,
                xr,
                slopes,
                labels,
                weights,
                outputs,
                columns,
                samples,
                into,
                n
            );
        }
        part
    }
}

/// Where entries stay; empty for anywhere.
fn range(samples: &Samples) -> [f64; 2] {
    samples.range.map_or([1.0, 0.0], |range| range.map(f64::from))
}
