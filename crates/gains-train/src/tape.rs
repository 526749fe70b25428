//! What happened to a batch on its way through the network, so that gradients find their way back.

use gains_core::Shape;

use crate::device::{Batch, Device, DeviceError, Join, Trial};
use crate::plan::{LayerPlan, OdePlan, Stretch};

/// A value on the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueId(usize);

/// Where a value came from.
enum Source<'p, D: Device> {
    /// From outside; `wanted` if its gradient is.
    Input {
        wanted: bool,
    },
    Layer {
        layer: &'p LayerPlan,
        from: ValueId,
        memory: D::LayerMemory,
    },
    Pool {
        shape: Shape,
        from: ValueId,
    },
    Step {
        ode: &'p OdePlan,
        from: ValueId,
        memory: D::StepMemory,
        error: f64,
    },
    Join {
        from: Vec<ValueId>,
        memory: D::JoinMemory,
    },
    /// Not recorded.
    Forgotten,
}

struct Entry<'p, D: Device> {
    value: Option<Batch<D::Tensor>>,
    gradient: Option<Batch<D::Tensor>>,
    source: Source<'p, D>,
}

/// Whether gradients will be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Everything a gradient needs is kept.
    On,
    /// Only values are kept.
    Off,
}

/// What [`Tape::backward`] brings back.
pub struct Returned<D: Device> {
    /// Gradient of the input that was wanted, if it has one.
    pub input: Option<Batch<D::Tensor>>,
    /// Σ over the solver steps that gradients went through of the upper bounds of ‖e‖₁, summed over samples.
    pub errors: f64,
}

/// Values in the order they were computed. A value may be used several times; its gradients add up.
pub struct Tape<'p, D: Device> {
    entries: Vec<Entry<'p, D>>,
    recording: Recording,
}

impl<'p, D: Device> Tape<'p, D> {
    /// An empty tape.
    pub fn new(recording: Recording) -> Self {
        Self { entries: Vec::new(), recording }
    }

    /// Whether solver steps must keep their memory.
    pub fn keeps(&self) -> bool {
        self.recording == Recording::On
    }

    fn push(&mut self, value: Batch<D::Tensor>, source: Source<'p, D>) -> ValueId {
        let source = if self.keeps() { source } else { Source::Forgotten };
        self.entries.push(Entry { value: Some(value), gradient: None, source });
        ValueId(self.entries.len() - 1)
    }

    /// A value from outside; `wanted` if its gradient is.
    pub fn input(&mut self, value: Batch<D::Tensor>, wanted: bool) -> ValueId {
        self.push(value, Source::Input { wanted })
    }

    /// A value.
    ///
    /// # Panics
    /// After [`Self::backward`], which frees values.
    pub fn value(&self, id: ValueId) -> &Batch<D::Tensor> {
        match &self.entries[id.0].value {
            Some(value) => value,
            None => unreachable!("values are freed only when the tape is used up"),
        }
    }

    /// Layers and poolings one after another.
    ///
    /// # Panics
    /// On a neural ODE, which is a matter for [`crate::solve`] and [`crate::explore`].
    pub fn parts(
        &mut self,
        device: &mut D,
        parts: &'p [Stretch],
        mut at: ValueId,
    ) -> Result<ValueId, DeviceError> {
        for part in parts {
            at = match part {
                Stretch::Layer(layer) => {
                    let (value, memory) = device.layer(layer, self.value(at))?;
                    self.push(value, Source::Layer { layer, from: at, memory })
                }
                Stretch::Pool(shape) => {
                    let value = device.pool(*shape, self.value(at))?;
                    self.push(value, Source::Pool { shape: *shape, from: at })
                }
                Stretch::Ode(_) => unreachable!("stretches between ODEs hold none"),
            };
        }
        Ok(at)
    }

    /// The end of a solver step that started at `from`, with the sum over samples of its upper bounds of ‖e‖₁.
    pub fn step(&mut self, ode: &'p OdePlan, from: ValueId, trial: Trial<D>, error: f64) -> ValueId {
        let source = match trial.memory {
            Some(memory) => Source::Step { ode, from, memory, error },
            None => Source::Forgotten,
        };
        self.push(trial.end, source)
    }

    /// Several boxes of each sample as one.
    pub fn join(&mut self, device: &mut D, how: Join, from: Vec<ValueId>) -> Result<ValueId, DeviceError> {
        let boxes: Vec<&Batch<D::Tensor>> = from.iter().map(|id| self.value(*id)).collect();
        let (value, memory) = device.join(how, &boxes)?;
        Ok(self.push(value, Source::Join { from, memory }))
    }

    /// Adds to the gradient of a value.
    pub fn seed(&mut self, device: &mut D, id: ValueId, part: Batch<D::Tensor>) -> Result<(), DeviceError> {
        match &mut self.entries[id.0].gradient {
            Some(gradient) => device.accumulate(gradient, &part),
            empty => {
                *empty = Some(part);
                Ok(())
            }
        }
    }

    /// Takes all gradients back to the inputs, and to the parameters on the device. Solver steps on the way are
    /// charged `error_weight` for every unit of the sum over samples of the upper bound of ‖e‖₁. Values are freed as
    /// soon as nothing needs them.
    pub fn backward(mut self, device: &mut D, error_weight: f64) -> Result<Returned<D>, DeviceError> {
        let mut returned = Returned { input: None, errors: 0.0 };
        // A value's users all come after it, so its gradient is complete when its turn comes.
        while let Some(entry) = self.entries.pop() {
            let Some(gradient) = entry.gradient else { continue };
            match entry.source {
                Source::Input { wanted } => {
                    if wanted {
                        returned.input = Some(gradient);
                    }
                }
                Source::Layer { layer, from, memory } => {
                    let inputs = !matches!(self.entries[from.0].source, Source::Input { wanted: false });
                    let part = device.layer_back(layer, self.value(from), &memory, &gradient, inputs)?;
                    drop(memory);
                    if let Some(part) = part {
                        self.seed(device, from, part)?;
                    }
                }
                Source::Pool { shape, from } => {
                    let part = device.pool_back(shape, &gradient)?;
                    self.seed(device, from, part)?;
                }
                Source::Step { ode, from, memory, error } => {
                    let part = device.step_back(ode, self.value(from), &memory, &gradient, error_weight)?;
                    drop(memory);
                    returned.errors += error;
                    self.seed(device, from, part)?;
                }
                Source::Join { from, memory } => {
                    for (id, part) in from.into_iter().zip(device.join_back(&memory, &gradient)?) {
                        self.seed(device, id, part)?;
                    }
                }
                Source::Forgotten => {}
            }
        }
        Ok(returned)
    }
}
