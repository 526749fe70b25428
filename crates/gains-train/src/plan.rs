//! A network as the trainer sees it: a line of layers with at most a few neural ODEs between them, and
//! where each layer's numbers lie in one flat vector of parameters.

use std::ops::Range;

use gains_core::Shape;
use gains_core::description::{Description, LayerSpec, SolverSpec, Task};
use gains_core::model_file::Tensors;

use crate::config::{Initial, SolverConfig};
use crate::pass::Route;

/// Why a network cannot be trained by this crate.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A layer the trainer has no rule for.
    #[error("layer {layer}: {problem}")]
    Layer {
        /// Its position.
        layer: String,
        /// What the trainer cannot do with it.
        problem: String,
    },
    /// What the model format refuses.
    #[error(transparent)]
    Model(#[from] gains_core::ModelError),
    /// Weights and description disagree.
    #[error("tensor '{0}' is missing or has another shape than the description says")]
    Tensor(String),
}

/// A convolution, with or without a ReLU behind it. A linear layer is one on a 1×1 image, and a linear layer
/// behind a flattened image is one whose kernel is the whole image.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerPlan {
    /// Prefix of the tensor names.
    pub name: String,
    /// Shape of the input, the time not counted.
    pub input: Shape,
    /// Shape of the output.
    pub output: Shape,
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Stride.
    pub stride: [usize; 2],
    /// Zero padding, on both sides.
    pub padding: [usize; 2],
    /// Whether the time is an extra input channel, before the others.
    pub time: bool,
    /// Whether a ReLU follows.
    pub relu: bool,
    /// Shape of the weight tensor in the model file (a linear layer has two dimensions there).
    pub weight_shape: Vec<usize>,
    /// Where the weights lie among the parameters: `[out][time?, in][row][column]`, as in model files.
    pub weights: Range<usize>,
    /// Where the biases lie among the parameters, one for each output channel.
    pub biases: Range<usize>,
}

impl LayerPlan {
    /// Kernel taps for one pair of channels.
    pub fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Input channels, the time counted.
    pub fn channels_with_time(&self) -> usize {
        self.input.channels + usize::from(self.time)
    }
}

/// A neural ODE.
#[derive(Clone, Debug, PartialEq)]
pub struct OdePlan {
    /// Its number among the network's ODEs.
    pub index: usize,
    /// The right-hand side.
    pub dynamics: Vec<LayerPlan>,
    /// The solver that ships with the network.
    pub solver: SolverSpec,
}

impl OdePlan {
    /// Shape of the state.
    pub fn state(&self) -> Shape {
        self.dynamics[0].input
    }
}

/// One stretch of the network.
#[derive(Clone, Debug, PartialEq)]
pub enum Stretch {
    /// A layer.
    Layer(LayerPlan),
    /// Mean over all pixels of an image of this shape.
    Pool(Shape),
    /// A neural ODE.
    Ode(OdePlan),
}

/// The whole network.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Shape of the images.
    pub input: Shape,
    /// Mean and deviation by channel: what is taken off the pixels before the first layer.
    pub normalise: Option<(Vec<f64>, Vec<f64>)>,
    /// Everything up to the last layer.
    pub parts: Vec<Stretch>,
    /// The last layer: linear, without activation, one output for each class.
    pub head: LayerPlan,
    /// Number of parameters.
    pub parameters: usize,
}

impl Plan {
    /// The plan of a described network.
    pub fn new(description: &Description) -> Result<Self, PlanError> {
        let mut builder = Builder { shape: description.input, parameters: 0, flattened: None };
        let mut normalise = None;
        let mut parts: Vec<Stretch> = Vec::new();
        let mut odes = 0;
        for (index, spec) in description.layers.iter().enumerate() {
            let fail = |problem: &str| PlanError::Layer { layer: index.to_string(), problem: problem.into() };
            match spec {
                LayerSpec::Normalize { mean, std } if index == 0 => {
                    normalise = Some((mean.clone(), std.clone()))
                }
                LayerSpec::GlobalAvgPool {} => {
                    parts.push(Stretch::Pool(builder.shape));
                    builder.shape = Shape::flat(builder.shape.channels);
                }
                LayerSpec::Flatten {} => {
                    builder.flattened = Some(builder.shape);
                    builder.shape = Shape::flat(builder.shape.len());
                }
                LayerSpec::Relu {} => match parts.last_mut() {
                    Some(Stretch::Layer(layer)) if !layer.relu => layer.relu = true,
                    _ => return Err(fail("a ReLU must follow a convolution or a linear layer")),
                },
                LayerSpec::Ode { dynamics, solver } => {
                    parts.push(Stretch::Ode(builder.ode(index, dynamics, solver, odes)?));
                    odes += 1;
                }
                _ => parts.push(Stretch::Layer(builder.layer(spec, &index.to_string())?)),
            }
        }
        let classes = match &description.task {
            Task::Classification { classes } => classes.len(),
            Task::Forecasting { .. } | Task::Regression { .. } => {
                let problem = "only networks that classify are trained by this trainer".into();
                return Err(PlanError::Layer { layer: "task".into(), problem });
            }
        };
        match parts.pop() {
            Some(Stretch::Layer(head)) if !head.relu && head.output == Shape::flat(classes) && !head.time => {
                Ok(Self { input: description.input, normalise, parts, head, parameters: builder.parameters })
            }
            _ => Err(PlanError::Layer {
                layer: "last".into(),
                problem: format!("must be a linear layer with {classes} outputs and no activation"),
            }),
        }
    }

    /// The plan of a network of the family that devices have large operations for: exactly one neural ODE, with an adaptive
    /// solver.
    pub fn pattern(description: &Description) -> Result<Self, PlanError> {
        let plan = Self::new(description)?;
        Route::of(&plan)?;
        let known = |part: &Stretch| match part {
            Stretch::Ode(ode) => SolverConfig::of(&ode.solver).is_some(),
            _ => true,
        };
        match plan.parts.iter().all(known) {
            true => Ok(plan),
            false => Err(PlanError::Layer {
                layer: "ode".into(),
                problem:
                    "devices take controlled_adaptive and adaptive solvers, the latter with the usual factors"
                        .into(),
            }),
        }
    }

    /// All layers, dynamics included, in the order of their parameters.
    pub fn layers(&self) -> impl Iterator<Item = &LayerPlan> {
        self.parts
            .iter()
            .flat_map(|part| match part {
                Stretch::Layer(layer) => std::slice::from_ref(layer),
                Stretch::Pool(_) => &[],
                Stretch::Ode(ode) => &ode.dynamics[..],
            })
            .chain(std::iter::once(&self.head))
    }

    /// The parameters as one vector.
    pub fn gather(&self, tensors: &Tensors) -> Result<Vec<f64>, PlanError> {
        let mut all = vec![0.0; self.parameters];
        for layer in self.layers() {
            let outputs = vec![layer.output.channels];
            for (part, shape, range) in
                [("weight", &layer.weight_shape, &layer.weights), ("bias", &outputs, &layer.biases)]
            {
                let name = format!("{}.{part}", layer.name);
                match tensors.get(&name) {
                    Some((found, values)) if found == shape && values.len() == range.len() => {
                        all[range.clone()].copy_from_slice(values);
                    }
                    _ => return Err(PlanError::Tensor(name)),
                }
            }
        }
        Ok(all)
    }

    /// The parameters as named tensors, as model files hold them.
    pub fn scatter(&self, parameters: &[f64]) -> Tensors {
        let mut tensors = Tensors::new();
        for layer in self.layers() {
            let mut put = |part: &str, shape: Vec<usize>, range: &Range<usize>| {
                tensors.insert(format!("{}.{part}", layer.name), (shape, parameters[range.clone()].to_vec()));
            };
            put("weight", layer.weight_shape.clone(), &layer.weights);
            put("bias", vec![layer.output.channels], &layer.biases);
        }
        tensors
    }

    /// Fresh parameters.
    pub fn initial_parameters(&self, seed: u64, how: Initial) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut all = vec![0.0; self.parameters];
        for layer in self.layers() {
            let inputs = layer.channels_with_time() * layer.taps();
            all[layer.weights.clone()].fill_with(|| how.weight(inputs, &mut random));
            all[layer.biases.clone()].fill_with(|| how.bias(inputs, &mut random));
        }
        all
    }
}

struct Builder {
    shape: Shape,
    parameters: usize,
    /// The image that a flattened vector was, until a layer takes it.
    flattened: Option<Shape>,
}

impl Builder {
    fn take(&mut self, count: usize) -> Range<usize> {
        let start = self.parameters;
        self.parameters += count;
        start..self.parameters
    }

    fn ode(
        &mut self,
        index: usize,
        dynamics: &[LayerSpec],
        solver: &SolverSpec,
        number: usize,
    ) -> Result<OdePlan, PlanError> {
        let start = self.shape;
        let mut layers: Vec<LayerPlan> = Vec::new();
        for (inner, spec) in dynamics.iter().enumerate() {
            let label = format!("{index} dynamics {inner}");
            match (spec, layers.last_mut()) {
                (LayerSpec::Relu {}, Some(layer)) if !layer.relu => layer.relu = true,
                _ => layers.push(self.layer(spec, &label)?),
            }
        }
        if self.shape != start || layers.is_empty() {
            return Err(PlanError::Layer {
                layer: index.to_string(),
                problem: "the dynamics change the shape".into(),
            });
        }
        Ok(OdePlan { index: number, dynamics: layers, solver: solver.clone() })
    }

    fn layer(&mut self, spec: &LayerSpec, label: &str) -> Result<LayerPlan, PlanError> {
        let fail = |problem: String| PlanError::Layer { layer: label.to_string(), problem };
        let flattened = self.flattened.take();
        let (name, input, output, kernel, stride, padding, time, weight_shape) = match spec {
            LayerSpec::Conv2d {
                name,
                in_channels,
                out_channels,
                kernel,
                stride,
                padding,
                dilation,
                time,
            } => {
                if *dilation != [1, 1] {
                    return Err(fail("training dilated convolutions is not supported".into()));
                }
                let extent = |size: usize, axis: usize| {
                    let padded = size + 2 * padding[axis];
                    padded.checked_sub(kernel[axis]).map(|room| room / stride[axis] + 1)
                };
                let (Some(height), Some(width)) = (extent(self.shape.height, 0), extent(self.shape.width, 1))
                else {
                    return Err(fail(format!("the kernel does not fit a {} image", self.shape)));
                };
                let shape = vec![*out_channels, in_channels + usize::from(*time), kernel[0], kernel[1]];
                let output = Shape::image(height, width, *out_channels);
                (name, self.shape, output, *kernel, *stride, *padding, *time, shape)
            }
            LayerSpec::Linear { name, in_features, out_features, time } => {
                let input = flattened.unwrap_or(self.shape);
                let kernel = [input.height, input.width];
                if *time && kernel != [1, 1] {
                    return Err(fail("a linear layer behind an image cannot take the time".into()));
                }
                let shape = vec![*out_features, in_features + usize::from(*time)];
                (name, input, Shape::flat(*out_features), kernel, [1, 1], [0, 0], *time, shape)
            }
            _ => {
                return Err(fail(
                    "the trainer knows convolutions, linear layers, ReLU, global average pooling and neural ODEs"
                        .into(),
                ));
            }
        };
        self.shape = output;
        let weights = self.take(weight_shape.iter().product());
        let biases = self.take(output.channels);
        Ok(LayerPlan {
            name: name.clone(),
            input,
            output,
            kernel,
            stride,
            padding,
            time,
            relu: false,
            weight_shape,
            weights,
            biases,
        })
    }
}
