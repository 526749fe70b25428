//! The stages of a solver step with independent intervals, as in the paper.

use gains_core::BoxVec;
use gains_core::interval::combine;
use gains_core::program::Trace;

use super::{BoxSteps, Passage, Slopes, StageTrace};
use crate::limits::Reason;

impl BoxSteps<'_> {
    /// Encloses `g(time, x)`. Every value is checked: what overflows may look harmless again behind the
    /// next activation.
    fn evaluate(&self, x: BoxVec, time: f64, traced: bool) -> Result<(BoxVec, Trace), Reason> {
        let sane = |b: &BoxVec| if b.is_sane() { Ok(()) } else { Err(Reason::Overflow { time }) };
        sane(&x)?;
        let mut values = vec![x];
        let mut magnitudes = Vec::new();
        for (index, (_, node)) in self.dynamics.nodes().enumerate() {
            let arguments: Vec<&BoxVec> = node.from.iter().map(|&v| &values[v]).collect();
            let image = node.operator.image(&arguments, time, self.arithmetic, traced);
            sane(&image.value)?;
            self.note(index, &image.value);
            values.push(image.value);
            magnitudes.push(image.magnitude);
        }
        let trace = match traced {
            true => Trace::of_values(self.dynamics, &values, &magnitudes, time, self.arithmetic),
            false => Trace::default(),
        };
        Ok((values.swap_remove(self.dynamics.output()), trace))
    }

    /// Encloses the slopes of the first `count` stages of a step, each on its own.
    pub(super) fn independent_slopes(
        &self,
        state: &BoxVec,
        time: f64,
        step: f64,
        count: usize,
    ) -> Result<Slopes, Reason> {
        let tableau = self.tableau;
        let mut out = Slopes::default();
        for i in 0..count {
            self.clock.check(self.bytes)?;
            let terms: Vec<(f64, &BoxVec)> =
                tableau.stages[i].iter().map(|a| step * a).zip(&out.slopes).collect();
            let (input, input_magnitude) = combine(Some(state), &terms, state.len(), self.arithmetic);
            let at = time + tableau.nodes[i] * step;
            let traced = self.keep_traces && i < tableau.solution_stages();
            let (slope, trace) = self.evaluate(input, at, traced)?;
            if traced {
                let value = Passage { trace, input_owed: self.sum_owed(&input_magnitude) };
                let slope_magnitude = slope.magnitudes();
                out.traces.push(StageTrace { value, change: None, slope_magnitude });
            }
            out.slopes.push(slope);
        }
        Ok(out)
    }
}
