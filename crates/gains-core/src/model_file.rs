//! Reading and writing model files: safetensors with the description as metadata.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::affine::{AffineMap, AveragePool, Conv2d, ConvGeometry, Scale, Selection};
use crate::dag::{Dag, Value};
use crate::description::{Description, FORMAT, Join, LayerSpec, SolverSpec, Task, VERSION};
use crate::network::Network;
use crate::operator::Operator;
use crate::operator::concat::Concat;
use crate::operator::slice::Slice;
use crate::operator::sum::Sum;
use crate::program::{Circuit, Ode, OdeBlock, Program, Step};
use crate::shape::Shape;

mod encoder;
pub(crate) mod facts;
mod header;
mod kinds;
mod layers;
mod names;
mod wording;

/// Metadata key the description is stored under.
const KEY: &str = "gains";
/// Largest tensor between two layers; beyond it a file is taken for damaged or hostile.
const MOST_ENTRIES: usize = 1 << 22;
/// Most bytes that the tables of a whole network may take (which pixel feeds which, what the time adds where). They
/// grow with the sizes between the layers, not with the file, so a small file must not be able to ask for many.
const MOST_TABLES: usize = 128 << 20;
/// The longest description, in bytes: a large record of training fits many times.
const LONGEST_DESCRIPTION: usize = 4 << 20;

/// What can be wrong with a model file.
#[derive(Debug, Error)]
pub enum ModelError {
    /// Not a safetensors file, or a truncated one.
    #[error("not a readable safetensors file: {0}")]
    Container(String),
    /// What `torch.save` writes: a program in Python's pickle format, which reading would run.
    #[error("a file that torch.save wrote (a Python pickle), which gains does not run")]
    Pickle,
    /// A safetensors file without our description.
    #[error("no '{KEY}' entry in the metadata: the file holds weights but no network description")]
    NoDescription,
    /// The description does not parse.
    #[error("the network description is malformed: {0}")]
    Description(String),
    /// Written by a newer program.
    #[error("model format {found}, this program reads up to {VERSION}")]
    Version {
        /// Version in the file.
        found: u32,
    },
    /// A tensor the description needs is missing.
    #[error("tensor '{0}' is missing")]
    MissingTensor(String),
    /// A tensor has another shape than the description says.
    #[error("tensor '{name}' has shape {found:?}, the description needs {expected:?}")]
    TensorShape {
        /// Its name.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape it should have.
        expected: Vec<usize>,
    },
    /// A tensor is neither float32 nor float64.
    #[error("tensor '{name}' is {found}, expected F32 or F64")]
    TensorType {
        /// Its name.
        name: String,
        /// Its type.
        found: String,
    },
    /// A weight is NaN or infinite.
    #[error("tensor '{name}' holds {value} at entry {index}")]
    NotFinite {
        /// Its name.
        name: String,
        /// Where.
        index: usize,
        /// What.
        value: f64,
    },
    /// Tensors that belong to no layer.
    #[error("no layer uses the tensors {0}")]
    Unused(
        /// Their names.
        String,
    ),
    /// Two layers have the same weights.
    #[error("the weights '{name}' belong to layer {first} and to layer {second}, each needs its own")]
    Shared {
        /// The name in both.
        name: String,
        /// One layer.
        first: String,
        /// The other.
        second: String,
    },
    /// Two classes, features or statics go by one name.
    #[error("the {what} '{name}' is named twice")]
    Twice {
        /// What goes by it.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A layer does not fit the one before it, or its settings make no sense.
    #[error("layer {layer}: {problem}")]
    Layer {
        /// Position and type.
        layer: String,
        /// What is wrong.
        problem: String,
    },
}

/// Raw tensors by name, as float64, with their shapes.
pub type Tensors = BTreeMap<String, (Vec<usize>, Vec<f64>)>;

/// First 16 hexadecimal digits of the SHA-256 of some bytes.
pub fn content_hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// All tensors of a safetensors file; every number must be finite.
pub fn read_tensors(bytes: &[u8]) -> Result<Tensors, ModelError> {
    read_chosen(bytes, |_| true)
}

/// The tensors with a `wanted` name, as [`read_tensors`] reads them.
pub(crate) fn read_chosen(bytes: &[u8], wanted: impl Fn(&str) -> bool) -> Result<Tensors, ModelError> {
    header::check(bytes)?;
    let container = SafeTensors::deserialize(bytes).map_err(|e| ModelError::Container(e.to_string()))?;
    let mut tensors = Tensors::new();
    for (name, view) in container.tensors().into_iter().filter(|(name, _)| wanted(name)) {
        let values: Vec<f64> = match view.dtype() {
            Dtype::F32 => view
                .data()
                .chunks_exact(4)
                .map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
                .collect(),
            Dtype::F64 => view
                .data()
                .chunks_exact(8)
                .map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
                .collect(),
            other => return Err(ModelError::TensorType { name, found: format!("{other:?}") }),
        };
        if let Some(index) = values.iter().position(|v| !v.is_finite()) {
            return Err(ModelError::NotFinite { name, index, value: values[index] });
        }
        tensors.insert(name, (view.shape().to_vec(), values));
    }
    Ok(tensors)
}

/// Parses a whole model file.
pub fn read_model(bytes: &[u8]) -> Result<Network, ModelError> {
    let (description, tensors) = parse(bytes)?;
    let network = build(description, &tensors, content_hash(bytes))?;
    names::all_used(&network.description, &tensors)?;
    Ok(network)
}

/// The description and the weights of a model file, not yet bound to each other: for changing either first.
pub fn read_parts(bytes: &[u8]) -> Result<(Description, Tensors), ModelError> {
    let (description, tensors) = parse(bytes)?;
    names::all_used(&description, &tensors)?;
    Ok((description, tensors))
}

fn parse(bytes: &[u8]) -> Result<(Description, Tensors), ModelError> {
    header::check(bytes)?;
    let (_, metadata) =
        SafeTensors::read_metadata(bytes).map_err(|e| ModelError::Container(e.to_string()))?;
    let text =
        metadata.metadata().as_ref().and_then(|entries| entries.get(KEY)).ok_or(ModelError::NoDescription)?;
    Ok((parse_description(text)?, read_tensors(bytes)?))
}

/// Parses a description, and fills in what version 1 leaves unsaid.
pub(crate) fn parse_description(text: &str) -> Result<Description, ModelError> {
    if text.len() > LONGEST_DESCRIPTION {
        return Err(ModelError::Description(format!(
            "it takes {} bytes, at most {LONGEST_DESCRIPTION}",
            text.len()
        )));
    }
    if let Some(found) = version(text).filter(|found| *found > u64::from(VERSION)) {
        return Err(ModelError::Version { found: found.try_into().unwrap_or(u32::MAX) });
    }
    let description: Description = serde_json::from_str(text).map_err(|error| {
        let layer =
            serde_json::from_str(text).ok().and_then(|value: serde_json::Value| wrong_layer(&value, ""));
        ModelError::Description(layer.unwrap_or_else(|| wording::plain(&error)))
    })?;
    meant(text, &description)?;
    let description = facts::of_the_first_version(description);
    names::distinct(&description)?;
    Ok(description)
}

/// Whether a text says what was read of it in the words of the format.
fn meant(text: &str, description: &Description) -> Result<(), ModelError> {
    let malformed = |e: serde_json::Error| ModelError::Description(e.to_string());
    let written: serde_json::Value = serde_json::from_str(text).map_err(malformed)?;
    let read = serde_json::to_value(description).map_err(malformed)?;
    match kinds::misread(&written, &read, "") {
        Some(place) => Err(ModelError::Description(format!(
            "{place} is not what belongs there: types are text, and what has named entries is an object"
        ))),
        None => Ok(()),
    }
}

/// The innermost layer that is none, by its place, and what is wrong with it: the parser knows of a layer only where it
/// ends.
fn wrong_layer(value: &serde_json::Value, place: &str) -> Option<String> {
    let of = |key: &str| value.get(key).map(|list| (format!("{place}{key}"), list));
    let branches = value.get("branches").and_then(|list| list.as_array()).into_iter().flatten().enumerate();
    let branches = branches.map(|(at, list)| (format!("{place}branches[{at}]"), list));
    ["layers", "dynamics"].into_iter().filter_map(of).chain(branches).find_map(|(list, layers)| {
        layers.as_array()?.iter().enumerate().find_map(|(at, layer)| {
            let place = format!("{list}[{at}]");
            let error = serde_json::from_value::<LayerSpec>(layer.clone()).err()?;
            let inside = wrong_layer(layer, &format!("{place}."));
            inside.or_else(|| Some(format!("{place}: {}", wording::plain(&error))))
        })
    })
}

/// The version a description gives itself, whatever else is in it.
fn version(text: &str) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u64,
    }
    serde_json::from_str(text).ok().map(|found: Versioned| found.version)
}

/// Writes a model file: the tensors the description names, as float32.
///
/// Fails if a tensor is missing, misshapen, beyond the range of float32 or used by no layer, or if names are there
/// twice, so that what is written can be read back.
pub fn write_model(description: &Description, tensors: &Tensors) -> Result<Vec<u8>, ModelError> {
    if description.version > VERSION {
        return Err(ModelError::Version { found: description.version });
    }
    names::distinct(description)?;
    build(description.clone(), tensors, String::new())?;
    names::all_used(description, tensors)?;
    for (name, (_, values)) in tensors {
        // A float64 beyond the range of float32 would be written as infinity.
        if let Some(index) = values.iter().position(|v| !(*v as f32).is_finite()) {
            return Err(ModelError::NotFinite { name: name.clone(), index, value: values[index] });
        }
    }
    let text = serde_json::to_string(description).map_err(|e| ModelError::Description(e.to_string()))?;
    let data: Vec<(&String, &Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, (shape, values))| {
            (name, shape, values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect())
        })
        .collect();
    let mut views = Vec::new();
    for (name, shape, bytes) in &data {
        let view = TensorView::new(Dtype::F32, (*shape).clone(), bytes)
            .map_err(|e| ModelError::Container(e.to_string()))?;
        views.push((name.as_str(), view));
    }
    safetensors::serialize(views, Some(HashMap::from([(KEY.to_string(), text)])))
        .map_err(|e| ModelError::Container(e.to_string()))
}

/// Binds a description to its weights, checking every shape on the way.
pub fn build(description: Description, tensors: &Tensors, hash: String) -> Result<Network, ModelError> {
    if description.format != FORMAT {
        return Err(ModelError::Description(format!(
            "format is '{}', expected '{FORMAT}'",
            description.format
        )));
    }
    let input = description.input;
    check_size(input, "input")?;
    let mut builder = Builder { tensors, tables: 0 };
    let encoder = encoder::build(&description, &mut builder)?;
    let mut body = Program::of("input", input);
    for (index, spec) in description.layers.iter().enumerate() {
        let label = format!("{index} ({})", kind(spec));
        let at = body.output();
        if let LayerSpec::Ode { dynamics, solver } = spec {
            let block = builder.ode(dynamics, solver.clone(), body.shape(at), &label)?;
            let ode = Ode { end_time: block.solver.end_time, block: Arc::new(block) };
            let shape = body.shape(at);
            body.push(Step::Ode(ode), vec![at], shape);
        } else {
            builder.layer(&mut body, at, spec, &label)?;
        }
    }
    let output = body.output_shape();
    match &description.task {
        Task::Classification { classes } => {
            if classes.len() == 1 && output.len() == 1 {
                let problem = "a classifier needs two classes or more, this network has one output: for a number the task is regression";
                return Err(ModelError::Description(problem.into()));
            }
            if classes.len() != output.len() || classes.is_empty() {
                return Err(ModelError::Description(format!(
                    "{} classes are named, the network has {} outputs",
                    classes.len(),
                    output.len()
                )));
            }
        }
        Task::Forecasting { features, .. } => encoder::check_decoder(features, &body)?,
        Task::Regression { outputs, .. } => {
            if !outputs.is_empty() && outputs.len() != output.len() {
                return Err(ModelError::Description(format!(
                    "{} outputs are named, the network has {}",
                    outputs.len(),
                    output.len()
                )));
            }
        }
    }
    Ok(Network { description, encoder, body, hash })
}

fn check_size(shape: Shape, layer: &str) -> Result<(), ModelError> {
    let entries = shape.height.checked_mul(shape.width).and_then(|p| p.checked_mul(shape.channels));
    match entries {
        Some(1..=MOST_ENTRIES) => Ok(()),
        _ => Err(ModelError::Layer {
            layer: layer.to_string(),
            problem: format!("{shape} is not a size this program takes (1 to {MOST_ENTRIES} entries)"),
        }),
    }
}

fn kind(spec: &LayerSpec) -> String {
    serde_json::to_value(spec).ok().and_then(|v| v["type"].as_str().map(String::from)).unwrap_or_default()
}

struct Builder<'a> {
    tensors: &'a Tensors,
    /// Bytes that the tables of the layers so far take.
    tables: usize,
}

impl<'a> Builder<'a> {
    fn tensor(&self, name: String, expected: Vec<usize>) -> Result<&'a [f64], ModelError> {
        let Some((found, values)) = self.tensors.get(&name) else {
            return Err(ModelError::MissingTensor(name));
        };
        if *found != expected {
            return Err(ModelError::TensorShape { name, found: found.clone(), expected });
        }
        Ok(values)
    }

    /// Counts the bytes of a table with so many lists of so many entries before it is laid out.
    fn reserve(
        &mut self,
        lists: usize,
        entries: [usize; 2],
        entry: usize,
        label: &str,
    ) -> Result<(), ModelError> {
        // A list on the heap has a head, and room for a power of two of entries, at least four.
        const HEAD: usize = 40;
        let list = |entries: usize| {
            entries.checked_next_power_of_two()?.max(4).checked_mul(entry)?.checked_add(HEAD)
        };
        let bytes =
            entries[0].checked_mul(entries[1]).and_then(list).and_then(|list| list.checked_mul(lists));
        match bytes.and_then(|bytes| bytes.checked_add(self.tables)) {
            Some(total @ ..=MOST_TABLES) => {
                self.tables = total;
                Ok(())
            }
            _ => Err(ModelError::Layer {
                layer: label.to_string(),
                problem: format!(
                    "with it the tables of the network would take more than {} MiB",
                    MOST_TABLES >> 20
                ),
            }),
        }
    }

    fn ode(
        &mut self,
        dynamics: &[LayerSpec],
        solver: SolverSpec,
        state: Shape,
        label: &str,
    ) -> Result<OdeBlock, ModelError> {
        let fail = |problem: String| ModelError::Layer { layer: label.to_string(), problem };
        if let Some(problem) = solver.problem() {
            return Err(fail(problem));
        }
        let mut circuit = Circuit::of("state", state);
        self.layers(&mut circuit, 0, dynamics, &format!("{label} dynamics"))?;
        let end = circuit.output_shape();
        if circuit.nodes().len() == 0 {
            return Err(fail(
                "the dynamics compute nothing: they need a layer that changes its input".into(),
            ));
        }
        if end != state {
            return Err(fail(format!("the dynamics map {state} to {end}, must keep the shape")));
        }
        Ok(OdeBlock::new(circuit, solver))
    }

    /// Appends layers without an ODE, one after the other, from a value on.
    fn layers<O: From<Operator>>(
        &mut self,
        graph: &mut Dag<O>,
        from: Value,
        layers: &[LayerSpec],
        label: &str,
    ) -> Result<Value, ModelError> {
        let mut at = from;
        for (index, spec) in layers.iter().enumerate() {
            let inner = format!("{label} {index} ({})", kind(spec));
            if matches!(spec, LayerSpec::Ode { .. }) {
                return Err(ModelError::Layer { layer: inner, problem: "an ODE is not allowed here".into() });
            }
            at = self.layer(graph, at, spec, &inner)?;
        }
        graph.set_output(at);
        Ok(at)
    }

    /// Appends one layer to a value; returns the value it makes.
    fn layer<O: From<Operator>>(
        &mut self,
        graph: &mut Dag<O>,
        at: Value,
        spec: &LayerSpec,
        label: &str,
    ) -> Result<Value, ModelError> {
        let fail = |problem: String| ModelError::Layer { layer: label.to_string(), problem };
        let shape = graph.shape(at);
        if let Some(activation) = layers::activation(spec).map_err(fail)? {
            return Ok(graph.push(Operator::Curve(activation).into(), vec![at], shape));
        }
        let (operator, from) = match spec {
            LayerSpec::Slice { first, length } if shape.positions() == 1 => {
                (Operator::Slice(Slice { first: *first, length: *length }), vec![at])
            }
            LayerSpec::MaxPool2d { kernel, stride, padding } => {
                return self.max_pool(graph, at, (*kernel, *stride, *padding), label);
            }
            LayerSpec::GroupNorm { .. } | LayerSpec::LayerNorm { .. } => {
                return self.norm(graph, at, spec, label);
            }
            LayerSpec::Parallel { branches, join } => {
                if branches.is_empty() || branches.len() > MOST_BRANCHES {
                    return Err(fail(format!(
                        "has {} branches, must have 1 to {MOST_BRANCHES}",
                        branches.len()
                    )));
                }
                let mut ends = Vec::new();
                for (index, branch) in branches.iter().enumerate() {
                    ends.push(self.layers(graph, at, branch, &format!("{label} branch {index}"))?);
                }
                return self.joined(graph, *join, &ends, label);
            }
            LayerSpec::Ode { .. } => return Err(fail("an ODE is not allowed here".into())),
            _ => match self.map(shape, spec, label)? {
                Some(map) => (Operator::Affine(Arc::new(map)), vec![at]),
                None => {
                    graph.set_output(at);
                    return Ok(at);
                }
            },
        };
        let made = operator.shape(&[shape]).ok_or_else(|| fail(format!("does not fit {shape}")))?;
        check_size(made, label)?;
        Ok(graph.push(operator.into(), from, made))
    }

    /// An affine layer; none if it does nothing.
    fn map(&mut self, shape: Shape, spec: &LayerSpec, label: &str) -> Result<Option<AffineMap>, ModelError> {
        let fail = |problem: String| ModelError::Layer { layer: label.to_string(), problem };
        let map = match spec {
            LayerSpec::Normalize { mean, std } => {
                if mean.len() != shape.channels || std.len() != shape.channels {
                    return Err(fail(format!("needs one mean and std per channel ({})", shape.channels)));
                }
                let usable = |s: &f64| s.is_finite() && *s >= 1e-100;
                let shifts = mean.iter().zip(std).map(|(m, s)| m / s);
                if !std.iter().all(usable) || !shifts.into_iter().all(f64::is_finite) {
                    return Err(fail("mean, std and mean/std must be finite, std positive".into()));
                }
                AffineMap::Scale(Scale::normalise(shape, mean, std))
            }
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
                if *in_channels != shape.channels {
                    return Err(fail(format!("expects {in_channels} channels, gets {shape}")));
                }
                if kernel.contains(&0) || stride.contains(&0) || dilation.contains(&0) {
                    return Err(fail("kernel, stride and dilation must be positive".into()));
                }
                let inputs = in_channels.saturating_add(usize::from(*time));
                let weights =
                    self.tensor(format!("{name}.weight"), vec![*out_channels, inputs, kernel[0], kernel[1]])?;
                let bias = self.tensor(format!("{name}.bias"), vec![*out_channels])?;
                let geometry = geometry(*kernel, *stride, *padding, *dilation);
                let (height, width) = geometry
                    .output(shape)
                    .ok_or_else(|| fail(format!("the kernel does not fit a {shape} image")))?;
                let output = Shape::image(height, width, *out_channels);
                check_size(output, label)?;
                let hits = [kernel[0].min(height), kernel[1].min(width)];
                self.reserve(shape.positions(), hits, size_of::<(usize, usize)>(), label)?;
                if *time {
                    self.reserve(1, [output.len(), 2], size_of::<f64>(), label)?;
                }
                let conv = Conv2d::new(shape, geometry, weights, bias, *time);
                AffineMap::Conv(conv.ok_or_else(|| fail("weights do not fit".into()))?)
            }
            LayerSpec::Linear { name, in_features, out_features, time } => {
                if shape.positions() != 1 || *in_features != shape.channels {
                    return Err(fail(format!("expects {in_features} features, gets {shape}")));
                }
                let inputs = in_features.saturating_add(usize::from(*time));
                let weights = self.tensor(format!("{name}.weight"), vec![*out_features, inputs])?;
                let bias = self.tensor(format!("{name}.bias"), vec![*out_features])?;
                let layer = Conv2d::linear_layer(*in_features, weights, bias, *time);
                AffineMap::Conv(layer.ok_or_else(|| fail("weights do not fit".into()))?)
            }
            LayerSpec::AvgPool2d { kernel, stride, padding } => {
                if kernel.contains(&0) || stride.contains(&0) {
                    return Err(fail("kernel and stride must be positive".into()));
                }
                let geometry = geometry(*kernel, *stride, *padding, [1, 1]);
                let misfit = || fail(format!("the kernel does not fit {shape}"));
                let (height, width) = geometry.output(shape).ok_or_else(misfit)?;
                let output = Shape::image(height, width, shape.channels);
                check_size(output, label)?;
                self.reserve(output.positions(), *kernel, size_of::<usize>(), label)?;
                AffineMap::Pool(AveragePool::new(shape, geometry).ok_or_else(misfit)?)
            }
            LayerSpec::GlobalAvgPool {} => {
                self.reserve(1, [shape.height, shape.width], size_of::<usize>(), label)?;
                AffineMap::Pool(AveragePool::global(shape).ok_or_else(|| fail("empty image".into()))?)
            }
            LayerSpec::Flatten {} => {
                if shape.positions() == 1 {
                    return Ok(None);
                }
                self.reserve_selection(shape.len(), label)?;
                AffineMap::Select(Selection::flatten(shape))
            }
            _ => return self.moved(shape, spec, label),
        };
        Ok(Some(map))
    }
}

/// Most branches side by side.
const MOST_BRANCHES: usize = 16;

impl Builder<'_> {
    /// Joins values of a graph.
    fn joined<O: From<Operator>>(
        &mut self,
        graph: &mut Dag<O>,
        join: Join,
        ends: &[Value],
        label: &str,
    ) -> Result<Value, ModelError> {
        let shapes: Vec<Shape> = ends.iter().map(|&v| graph.shape(v)).collect();
        let listed: Vec<String> = shapes.iter().map(ToString::to_string).collect();
        let misfit = || ModelError::Layer {
            layer: label.to_string(),
            problem: format!("the branches end in {}, which do not fit", listed.join(" and ")),
        };
        if join != Join::Concat && shapes.iter().any(|shape| *shape != shapes[0]) {
            return Err(misfit());
        }
        let joined = match join {
            Join::Add => graph.push(Operator::Sum(Sum::plain(ends.len())).into(), ends.to_vec(), shapes[0]),
            Join::Product => ends[1..].iter().fold(ends[0], |product, &end| {
                graph.push(Operator::Product.into(), vec![product, end], shapes[0])
            }),
            Join::Max => layers::largest(graph, ends.to_vec()),
            Join::Concat => {
                let all = Concat::shape(&shapes);
                check_size(all, label)?;
                let images = shapes.iter().any(|shape| shape.positions() > 1);
                if images {
                    self.reserve_selection(all.len(), label)?;
                }
                let order = Selection::interleave(&shapes).ok_or_else(misfit)?;
                let joined = graph.push(Operator::Concat(Concat).into(), ends.to_vec(), all);
                match images {
                    true => {
                        let shape = order.output();
                        let order = Operator::Affine(Arc::new(AffineMap::Select(order)));
                        graph.push(order.into(), vec![joined], shape)
                    }
                    false => joined,
                }
            }
        };
        graph.set_output(joined);
        Ok(joined)
    }
}

fn geometry(
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
) -> ConvGeometry {
    let pair = |a: [usize; 2]| (a[0], a[1]);
    ConvGeometry {
        kernel: pair(kernel),
        stride: pair(stride),
        padding: pair(padding),
        dilation: pair(dilation),
    }
}
