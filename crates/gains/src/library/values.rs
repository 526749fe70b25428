//! Running networks on arrays, and their gradients.

use gains_core::Precision;
use gains_ode::{Inference, Watch};

use super::{Model, Samples, options};
use crate::failure::Failure;
use crate::runner::{self, Stop};
use crate::subject::{OwnSource, Source};

impl Model {
    /// Outputs, sample by sample.
    pub fn predict(
        &self,
        samples: &Samples,
        precision: Precision,
        threads: Option<usize>,
        stop: Stop<'_>,
    ) -> Result<Vec<f64>, Failure> {
        self.each(samples, threads, stop, self.network().outputs(), |run, _, _| Ok(run.output), precision)
    }

    /// Gradients of `cotangent · output` with respect to the inputs, sample by sample, in the order the samples were given
    /// in; through the accepted solver steps, whose sizes count as constants.
    pub fn gradients(
        &self,
        samples: &Samples,
        cotangents: &[f64],
        precision: Precision,
        threads: Option<usize>,
        stop: Stop<'_>,
    ) -> Result<Vec<f64>, Failure> {
        let outputs = self.network().outputs();
        let count = own(samples)?.count();
        if cotangents.len() != count * outputs {
            return Err(Failure::usage(format!(
                "there are {} cotangents for {count} samples with {outputs} outputs",
                cotangents.len()
            ))
            .hint("give one number for each output of each sample"));
        }
        let pull = |run: Inference<'_>, sample: usize, watch: &Watch<'_>| {
            let cotangent = &cotangents[sample * outputs..][..outputs];
            let mut gradients = run.gradients_within(cotangent, watch).map_err(|error| error.to_string())?;
            Ok(samples.restore(&gradients.swap_remove(0)))
        };
        self.each(samples, threads, stop, self.network().input().len(), pull, precision)
    }

    /// Runs the network on every sample and puts what is made of it side by side.
    fn each(
        &self,
        samples: &Samples,
        threads: Option<usize>,
        stop: Stop<'_>,
        width: usize,
        make: impl Fn(Inference<'_>, usize, &Watch<'_>) -> Result<Vec<f64>, String> + Sync,
        precision: Precision,
    ) -> Result<Vec<f64>, Failure> {
        let source = own(samples)?;
        let threads = runner::threads(options::threads(threads)?);
        let one = |&sample: &usize| {
            let watch = Watch { interrupted: &|| stop(), ..Watch::default() };
            let run =
                Inference::run_within(&self.network().body, &[source.sample(sample)], precision, &watch)
                    .map_err(|error| error.to_string())?;
            make(run, sample, &watch)
        };
        let tasks: Vec<usize> = (0..source.count()).collect();
        let mut all = vec![f64::NAN; tasks.len() * width];
        let fail = |sample: usize, what: String| {
            Failure::new(format!("sample {sample}: {what}"))
                .hint("net.description tells how the network is solved")
        };
        runner::for_each_until(stop, &tasks, threads, one, |&sample, outcome| {
            let row = outcome
                .unwrap_or_else(|panicked| Err(format!("gains panicked: {panicked}")))
                .map_err(|what| fail(sample, what))?;
            all[sample * width..][..width].copy_from_slice(&row);
            Ok(())
        })?;
        Ok(all)
    }
}

/// The arrays that samples are.
fn own(samples: &Samples) -> Result<&OwnSource, Failure> {
    match &samples.source {
        Source::Own(source) => Ok(source),
        _ => Err(Failure::usage("only arrays can be run").hint("give inputs as an array")),
    }
}
