//! Inputs of one's own as a collection: `--inputs`, `--labels`, `--layout`, `--scale`, `--box`.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gains_core::description::Task;
use gains_core::{BoxVec, Interval, Network, Shape};
use gains_data::Dataset;
use gains_data::own::{self, Label, Numbers, OwnInputs, Strange};
use sha2::{Digest, Sha256};

use super::classes::Collection;
use super::entries::Entries;
use super::{Selection, takes};
use crate::cli::{DataArgs, InputArgs, LayoutArg};
use crate::failure::Failure;
use crate::interrupt;

/// Larger inputs on standard input are refused.
const LARGEST: u64 = 2 << 30;

/// Inputs that were read and put in the order the network takes them, and which of them were chosen.
pub struct OwnSource {
    name: String,
    /// All samples, one after the other.
    values: Vec<f64>,
    labels: Option<Vec<usize>>,
    /// What is known to be true of all samples, one after the other, for networks that predict numbers.
    truth: Option<Vec<f64>>,
    classes: Vec<String>,
    /// Smallest and largest values of all samples.
    boxes: Option<[Vec<f64>; 2]>,
    entries: Entries,
    indices: Vec<usize>,
    hash: OnceLock<String>,
    remarks: Vec<String>,
}

impl OwnSource {
    /// Reads the inputs a command was given and checks that the network can take them.
    pub fn open(args: &DataArgs, network: &Network) -> Result<Self, Failure> {
        let regression = matches!(network.description.task, Task::Regression { .. });
        let read = interrupt::at_once(|| Given::read(&args.own, regression))?;
        let order = Order { layout: args.own.layout, scale: args.own.scale };
        Self::new(read, order, args.samples.as_ref(), network)
    }

    /// Takes inputs that are given and checks that the network can take them.
    pub fn new(
        read: Given,
        order: Order,
        samples: Option<&Selection>,
        network: &Network,
    ) -> Result<Self, Failure> {
        let regression = matches!(network.description.task, Task::Regression { .. });
        let shape = network.input();
        let (scale, mut remarks) = scale_of(&read.inputs, order.scale, network);
        let entries = layout_of(&read.inputs, shape, order.layout, &read.name)?;
        let prepare = |inputs: &OwnInputs| prepare(inputs, &entries, scale);
        let boxes = read.boxes.as_ref().map(|[lower, upper]| [prepare(lower), prepare(upper)]);
        let values = match (&boxes, read.nominal) {
            (Some([lower, upper]), Nominal::Middle) => middle(lower, upper),
            _ => prepare(&read.inputs),
        };
        let count = values.len() / entries.len().max(1);
        if let Some([lower, upper]) = &boxes {
            check_boxes(&values, lower, upper, &entries)?;
        }
        let classes = class_names(network, &read.inputs, &read.name)?;
        let known = read.labels.as_deref();
        let truth = if regression { truth_of(read.truth, known, network, count, read.named)? } else { None };
        let labels = match &read.labels {
            _ if regression => None,
            None => None,
            Some(labels) if labels.len() != count => {
                let message = format!("there are {} labels for {count} inputs", labels.len());
                return Err(Failure::usage(message).hint("give one label for each input"));
            }
            Some(labels) => Some(classes_of(labels, network.outputs(), &classes)?),
        };
        if labels.is_none() && !regression {
            remarks.push("no labels: does the predicted class stay?".into());
        }
        let indices = chosen(samples, count)?;
        Ok(Self {
            name: read.name,
            values,
            labels,
            truth,
            classes,
            boxes,
            entries,
            indices,
            hash: OnceLock::new(),
            remarks,
        })
    }

    /// How many samples a command was given, before there is a network.
    pub fn given(args: &DataArgs) -> Result<usize, Failure> {
        Ok(interrupt::at_once(|| Given::read(&args.own, false))?.inputs.samples)
    }

    /// How many samples there are.
    pub fn count(&self) -> usize {
        self.values.len() / self.entries.len().max(1)
    }

    /// A sample as the network takes it.
    pub fn sample(&self, index: usize) -> &[f64] {
        self.of(&self.values, index)
    }

    fn of<'v>(&self, values: &'v [f64], index: usize) -> &'v [f64] {
        let length = self.entries.len();
        &values[index * length..][..length]
    }
}

/// How the numbers of inputs are to be understood, where that was said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Order {
    /// How pictures lie in arrays.
    pub layout: Option<LayoutArg>,
    /// What all values are divided by.
    pub scale: Option<f64>,
}

/// Where nominal points come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nominal {
    /// They are given.
    Given,
    /// The middles of boxes.
    Middle,
}

/// Inputs before a network has seen them.
#[derive(Clone, Debug)]
pub struct Given {
    /// What results call them.
    pub name: String,
    /// The inputs; the lower ends of boxes where there are none.
    pub inputs: OwnInputs,
    /// Where nominal points come from.
    pub nominal: Nominal,
    /// Smallest and largest values.
    pub boxes: Option<[OwnInputs; 2]>,
    /// Classes.
    pub labels: Option<Vec<Label>>,
    /// What is known to be true, for networks that predict numbers.
    pub truth: Option<OwnInputs>,
    /// What the columns are called in which that stands.
    pub named: Option<Vec<String>>,
}

impl Given {
    fn read(args: &InputArgs, regression: bool) -> Result<Self, Failure> {
        let boxes = match &args.boxes[..] {
            [] => None,
            [lower, upper] => Some([own::read_inputs(lower, None)?, own::read_inputs(upper, None)?]),
            _ => {
                return Err(Failure::usage("--box takes two files: smallest values, largest values")
                    .hint("e.g. --box lower.npy,upper.npy"));
            }
        };
        if let Some([lower, upper]) = &boxes
            && (lower.samples, &lower.shape) != (upper.samples, &upper.shape)
        {
            return Err(differ("the two files of --box", lower, upper));
        }
        let (mut inputs, nominal, path) = match (&args.inputs, &boxes) {
            (Some(path), _) => (read_inputs(path, args.label_column.as_deref())?, Nominal::Given, path),
            (None, Some([lower, _])) => (lower.clone(), Nominal::Middle, &args.boxes[0]),
            (None, None) => {
                return Err(Failure::usage("no inputs are given").hint("name them with --inputs FILE"));
            }
        };
        if let Some([lower, _]) = &boxes
            && (lower.samples, &lower.shape) != (inputs.samples, &inputs.shape)
        {
            return Err(differ("--inputs and --box", &inputs, lower));
        }
        if args.labels.is_some() {
            // They say which class is meant, whatever folders are called.
            inputs.classes = None;
        }
        let (labels, truth) = match &args.labels {
            Some(path) if !regression => (Some(own::read_labels(path)?), None),
            Some(path) => (None, Some(own::read_truth(path)?)),
            None => (inputs.named_labels(), None),
        };
        let named = truth.as_ref().and_then(|truth| truth.columns.clone()).or_else(|| {
            let names = args.label_column.as_ref()?.split(',').map(|name| name.trim().to_owned());
            Some(names.collect())
        });
        Ok(Self { name: name_of(path), inputs, nominal, boxes, labels, truth, named })
    }
}

fn differ(what: &str, a: &OwnInputs, b: &OwnInputs) -> Failure {
    Failure::usage(format!(
        "{what} do not fit: {} samples of {:?} and {} of {:?}",
        a.samples, a.shape, b.samples, b.shape
    ))
    .hint("all have the same axes")
}

fn read_inputs(path: &PathBuf, label_column: Option<&str>) -> Result<OwnInputs, Failure> {
    if path != Path::new("-") {
        return Ok(own::read_inputs(path, label_column)?);
    }
    let name = Path::new("standard input");
    let bytes = gains_data::read_bounded(std::io::stdin().lock(), LARGEST)
        .map_err(|error| Failure::reading(name, &error))?;
    Ok(own::parse_inputs(&bytes, name, label_column)?)
}

/// What results call the inputs.
fn name_of(path: &Path) -> String {
    match path.file_name() {
        Some(name) if path != Path::new("-") => name.to_string_lossy().into_owned(),
        _ => "stdin".into(),
    }
}

/// What values are divided by, and what there is to say about it.
fn scale_of(inputs: &OwnInputs, asked: Option<f64>, network: &Network) -> (f64, Vec<String>) {
    let known = network.description.dataset.as_ref().is_some_and(|name| name.parse::<Dataset>().is_ok());
    let trained = scale_of_training(network);
    let scale = asked.unwrap_or(match (inputs.numbers, trained) {
        // Bytes mean what they meant in training.
        (Numbers::Bytes, Some(trained)) => trained,
        (Numbers::Pixels, _) => 255.0,
        (Numbers::Bytes, None) if known => 255.0,
        (Numbers::Bytes, None) | (Numbers::Plain, _) => 1.0,
    });
    let other = trained.filter(|trained| asked.is_none() && *trained != scale);
    let unscaled = inputs.numbers == Numbers::Bytes && scale == 1.0 && inputs.values.iter().any(|v| *v > 1.0);
    let remark = match (unscaled, scale == 1.0) {
        (true, _) => Some("bytes as they are (--scale 255 divides them)".into()),
        (false, false) => Some(format!("divided by {scale}")),
        (false, true) => None,
    };
    let other = other.map(|trained| {
        format!(
            "the network was trained on inputs divided by {trained} (--scale {trained} divides these, too)"
        )
    });
    (scale, remark.into_iter().chain(other).collect())
}

/// What `gains train` divided inputs by, where it was told to.
fn scale_of_training(network: &Network) -> Option<f64> {
    let config = network.description.training.get("config")?.as_str()?;
    let config: toml::Table = config.parse().ok()?;
    let scale = config.get("data")?.get("scale")?;
    let scale = scale.as_float().or_else(|| scale.as_integer().map(|n| n as f64));
    // What --scale may be.
    scale.filter(|scale| (f64::MIN_POSITIVE..=1e9).contains(scale))
}

/// Values in the order the network takes them, divided by the scale: bytes in float32, as networks that are trained in
/// it see them.
fn prepare(inputs: &OwnInputs, entries: &Entries, scale: f64) -> Vec<f64> {
    let divided = |value: &f64| match inputs.numbers {
        _ if scale == 1.0 => *value,
        Numbers::Bytes | Numbers::Pixels => f64::from(*value as f32 / scale as f32),
        Numbers::Plain => value / scale,
    };
    let values: Vec<f64> = inputs.values.iter().map(divided).collect();
    values.chunks(entries.len().max(1)).flat_map(|sample| entries.arrange(sample)).collect()
}

/// How the axes of samples become a network's input.
fn layout_of(
    inputs: &OwnInputs,
    shape: Shape,
    asked: Option<LayoutArg>,
    name: &str,
) -> Result<Entries, Failure> {
    let Shape { height, width, channels } = shape;
    let (planes, pixels) = ([channels, height, width], [height, width, channels]);
    let axes = &inputs.shape[..];
    let fits = |order: LayoutArg| match order {
        LayoutArg::Nchw => axes == planes || (channels == 1 && axes == [height, width]),
        LayoutArg::Nhwc => axes == pixels,
    };
    // A single sample without an axis that counts.
    let alone = axes.is_empty() && shape.len() > 1 && inputs.samples == shape.len();
    let flat = axes.len() <= 1 || shape.positions() == 1;
    let count = if alone { inputs.samples } else { inputs.entries() };
    let layout = match asked {
        Some(order) if fits(order) || (flat && count == shape.len()) => order,
        None if fits(LayoutArg::Nchw) && fits(LayoutArg::Nhwc) && planes != [1, 1, 1] => {
            let message = format!("the axes {axes:?} of '{name}' may be channels first or channels last");
            return Err(Failure::usage(message).hint("say which with --layout nchw or --layout nhwc"));
        }
        None if fits(LayoutArg::Nchw) => LayoutArg::Nchw,
        None if fits(LayoutArg::Nhwc) => LayoutArg::Nhwc,
        None if flat && count == shape.len() => LayoutArg::Nchw,
        _ => return Err(misfit(inputs, shape, name)),
    };
    Ok(Entries::new(shape, layout, inputs.columns.clone()))
}

/// The inputs are not what the network takes.
fn misfit(inputs: &OwnInputs, shape: Shape, name: &str) -> Failure {
    let found = match (&inputs.columns, &inputs.shape[..]) {
        (Some(columns), _) => format!("{} columns of inputs", columns.len()),
        (None, []) => "single numbers".into(),
        (None, [length]) => format!("rows of {length}"),
        (None, axes) => format!("samples with the axes {axes:?}"),
    };
    let hint = match &inputs.columns {
        Some(columns) if columns.len() == shape.len() + 1 => {
            "if one column holds the classes, name it with --label-column".into()
        }
        _ if shape.positions() > 1 => format!(
            "give samples x {}x{}x{}, samples x {}x{}x{}, or flat rows of {}",
            shape.channels,
            shape.height,
            shape.width,
            shape.height,
            shape.width,
            shape.channels,
            shape.len()
        ),
        _ => format!("give an array of samples x {}", shape.len()),
    };
    Failure::usage(format!("the model takes {}, '{name}' has {found}", takes(shape))).hint(hint)
}

/// What classes are called: by the model, unless they were read from folders it does not know.
fn class_names(network: &Network, inputs: &OwnInputs, name: &str) -> Result<Vec<String>, Failure> {
    let Task::Classification { classes } = &network.description.task else { return Ok(Vec::new()) };
    let count = network.outputs();
    inputs.classes_in(count, classes).map_err(|(strange, why)| {
        let others = format!("the folders of '{name}' ('{strange}'…) are no classes of the model, and");
        let message = match why {
            Strange::OthersFit => {
                format!("the folder '{strange}' of '{name}' is no class of the model, others of it are")
            }
            Strange::Count => {
                let found = inputs.classes.as_ref().map_or(0, Vec::len);
                format!("{others} {found} are not one for each of its {count}")
            }
            Strange::Empty => format!("{others} '{strange}' holds no pictures: is it a class?"),
            Strange::Order => format!("{others} their numbers are in another order than their text"),
        };
        let first: Vec<&str> = classes.iter().take(20).map(String::as_str).collect();
        let dots = if classes.len() > first.len() { ", …" } else { "" };
        Failure::usage(message).hint(match &first[..] {
            [] => "give a folder for each class, or say which sample is what with --labels".into(),
            first => format!("name folders after classes ({}{dots}), or give --labels", first.join(", ")),
        })
    })
}

/// Labels as classes of a network.
fn classes_of(labels: &[Label], outputs: usize, names: &[String]) -> Result<Vec<usize>, Failure> {
    own::classes_of(labels, outputs, names).map_err(|index| {
        let text = match &labels[index] {
            Label::Number(number) | Label::Written(_, number) => number.to_string(),
            Label::Name(name) => format!("'{name}'"),
            Label::Numbers(numbers) => format!("{} numbers", numbers.len()),
        };
        let last = outputs.saturating_sub(1);
        let message = format!("the label of sample {index} is {text}, the model has the classes 0 to {last}");
        Failure::usage(message).hint(match names {
            [] => "labels are numbers of classes".into(),
            names => format!("labels are numbers of classes, or their names: {}", names.join(", ")),
        })
    })
}

/// What is known to be true: one number for each output, from `--labels` or from what the inputs say themselves.
fn truth_of(
    given: Option<OwnInputs>,
    labels: Option<&[Label]>,
    network: &Network,
    count: usize,
    named: Option<Vec<String>>,
) -> Result<Option<Vec<f64>>, Failure> {
    let outputs = network.outputs();
    let (samples, each, values) = match (given, labels) {
        (Some(given), _) => (given.samples, given.entries(), given.values),
        (None, Some(labels)) => {
            let rows = labels.iter().enumerate().map(|(index, label)| {
                label.numbers().ok_or_else(|| {
                    let name = label.name().unwrap_or_default();
                    let message =
                        format!("the value of sample {index} is '{name}', the model predicts numbers");
                    Failure::usage(message).hint("give one number for each output")
                })
            });
            let rows = rows.collect::<Result<Vec<&[f64]>, Failure>>()?;
            (labels.len(), rows.first().map_or(1, |row| row.len()), rows.concat())
        }
        (None, None) => return Ok(None),
    };
    if (samples, each) != (count, outputs) {
        let message = format!(
            "there are {samples} times {each} known values, the model predicts {outputs} numbers for {count} inputs"
        );
        return Err(
            Failure::usage(message).hint("give one number for each output of each input with --labels")
        );
    }
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        let message = format!("what is known of sample {} is {}", at / outputs, values[at]);
        return Err(Failure::usage(message).hint("give a finite number for each output"));
    }
    if let (Task::Regression { outputs: known, .. }, Some(named)) = (&network.description.task, named)
        && named != *known
        && named.iter().any(|name| known.contains(name))
    {
        let message =
            format!("known values are called {}, the outputs {}", named.join(", "), known.join(", "));
        return Err(Failure::usage(message).hint("give the columns in the order of the outputs"));
    }
    Ok(Some(values))
}

fn middle(lower: &[f64], upper: &[f64]) -> Vec<f64> {
    lower.iter().zip(upper).map(|(l, u)| (0.5 * l + 0.5 * u).clamp(l.min(*u), u.max(*l))).collect()
}

/// Refuses boxes that are inside out, and nominal points outside of theirs.
fn check_boxes(values: &[f64], lower: &[f64], upper: &[f64], entries: &Entries) -> Result<(), Failure> {
    let fits = |at: &usize| lower[*at] <= values[*at] && values[*at] <= upper[*at];
    let Some(at) = (0..values.len()).find(|at| !fits(at)) else { return Ok(()) };
    let (sample, name) = (at / entries.len(), entries.name(at % entries.len()));
    let (value, low, high) = (values[at], lower[at], upper[at]);
    let message = match low <= high {
        true => format!("sample {sample}, {name} is {value}, outside of its box from {low} to {high}"),
        false => format!("the box of sample {sample}, {name} goes from {low} to {high}"),
    };
    Err(Failure::usage(message).hint("give --box LOWER,UPPER, and inputs between them"))
}

fn chosen(samples: Option<&Selection>, count: usize) -> Result<Vec<usize>, Failure> {
    samples.map_or_else(|| Ok((0..count).collect()), |selection| selection.among(count)).map_err(|missing| {
        Failure::usage(format!("--samples asks for sample {missing}, there are {count}"))
            .hint(format!("use --samples 0..{count}"))
    })
}

/// The beginning of a hash of numbers, to the last bit.
fn digest(parts: &[&[f64]], labels: &[usize]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        part.iter().for_each(|value| hash.update(value.to_bits().to_le_bytes()));
    }
    labels.iter().for_each(|label| hash.update((*label as u64).to_le_bytes()));
    shortened(hash)
}

fn shortened(hash: Sha256) -> String {
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Collection for OwnSource {
    fn len(&self) -> usize {
        self.count()
    }

    fn indices(&self) -> &[usize] {
        &self.indices
    }

    fn values(&self, index: usize) -> Vec<f64> {
        self.of(&self.values, index).to_vec()
    }

    fn label(&self, index: usize) -> Option<usize> {
        self.labels.as_ref().map(|labels| labels[index])
    }

    fn truth(&self, index: usize) -> Option<Vec<f64>> {
        let truth = self.truth.as_ref()?;
        let outputs = truth.len() / self.len().max(1);
        Some(truth[index * outputs..][..outputs].to_vec())
    }

    fn boxed(&self, index: usize) -> Option<BoxVec> {
        let [lower, upper] = self.boxes.as_ref()?;
        Some(BoxVec::new(self.of(lower, index).to_vec(), self.of(upper, index).to_vec()))
    }

    fn has_boxes(&self) -> bool {
        self.boxes.is_some()
    }

    fn class_name(&self, class: usize) -> Option<&str> {
        self.classes.get(class).map(String::as_str)
    }

    fn entries(&self) -> &Entries {
        &self.entries
    }

    fn usual_range(&self) -> Option<Interval> {
        None
    }

    fn origin(&self) -> (String, String) {
        (self.name.clone(), "all".into())
    }

    fn noun(&self) -> &'static str {
        "samples"
    }

    fn hashes(&self) -> (Option<String>, Option<String>) {
        let hash = self.hash.get_or_init(|| {
            let numbers: Vec<&[f64]> = [&self.values[..]].into_iter().chain(self.truth.as_deref()).collect();
            let values = digest(&numbers, self.labels.as_deref().unwrap_or(&[]));
            // Settings name entries, and which entry is meant depends on that.
            match self.entries.naming() {
                Some(naming) => shortened(Sha256::new().chain_update(values).chain_update(naming)),
                None => values,
            }
        });
        (Some(hash.clone()), self.boxes.as_ref().map(|[lower, upper]| digest(&[lower, upper], &[])))
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }
}
