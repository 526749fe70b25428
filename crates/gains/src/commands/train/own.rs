//! Samples of one's own: read, put in the order the network takes them, divided by a seed.

use std::path::{Path, PathBuf};

use gains_core::Shape;
use gains_core::description::Task;
use gains_data::own::{self, Label, Numbers, OwnInputs};
use gains_train::Config;
use gains_train::config::{DataConfig, Layout, Unit};
use gains_train::loss::criterion::Kind;
use gains_train::program::{Samples, Truth};
use gains_train::split::{Division, divide};

use super::quoted;
use crate::failure::Failure;

/// What is written down about samples of one's own.
pub struct Own {
    /// What the outputs are.
    pub task: Task,
    /// Mean and deviation by channel, if the network begins with them.
    pub standard: Option<(Vec<f64>, Vec<f64>)>,
    /// Radii for an eps of 1 by column, if they differ: what `--feature-eps` takes.
    radii: Option<Vec<(String, f64)>>,
    /// The samples of the test as a table, if they are one, and the columns of their labels.
    test: Option<(String, String)>,
    /// Which samples were held back.
    division: Division,
    /// What to type to name the inputs.
    flags: String,
}

/// Inputs as the network takes them.
struct Arranged {
    shape: Shape,
    values: Vec<f32>,
}

impl Own {
    /// Reads samples and divides them. Those to look at stand behind those to learn from.
    pub fn read(
        config: &Config,
        data: &DataConfig,
        path: &Path,
        shape: Option<Shape>,
    ) -> Result<(Self, Samples), Failure> {
        let inputs = own::read_inputs(path, data.label_column.as_deref())?;
        let arranged = arrange(&inputs, data, shape, path)?;
        let (task, truth) = truth_of(config, data, &inputs)?;
        let division = divide(config.seed, inputs.samples, data.validation, data.test);
        if division.training.is_empty() {
            return Err(Failure::new(format!("'{}': no samples are left to learn from", path.display()))
                .hint("hold fewer back, with data.validation and data.test"));
        }
        let most = config.images.unwrap_or(usize::MAX).min(division.training.len());
        let training = &division.training[..most];
        let looks = if config.rhythm.evaluation > 0 { config.rhythm.test_images } else { 0 };
        let kept = looks.max(config.selection.map_or(0, |selection| selection.samples));
        let held = &division.validation[..kept.min(division.validation.len())];
        let order: Vec<usize> = training.iter().chain(held).copied().collect();
        let (mean, deviation) = statistics(&arranged, training);
        let single = |values: &[f64]| values.iter().map(|x| f64::from(*x as f32)).collect::<Vec<f64>>();
        let positions = arranged.shape.positions();
        let radii: Vec<f32> = match data.unit {
            Unit::Value => vec![1.0; arranged.shape.len()],
            Unit::Deviation => deviation.repeat(positions).iter().map(|d| *d as f32).collect(),
        };
        let samples = Samples {
            shape: arranged.shape,
            inputs: gather(&arranged.values, arranged.shape.len(), &order),
            truth: match &truth {
                Truth::Classes(labels) => Truth::Classes(order.iter().map(|at| labels[*at]).collect()),
                Truth::Numbers { each, values } => {
                    Truth::Numbers { each: *each, values: gather(values, *each, &order) }
                }
            },
            training: training.len(),
            radii: radii.clone(),
            range: data.range.map(|ends| ends.map(|end| end as f32)),
        };
        let names = column_names(&inputs);
        let own = Self {
            task,
            // The family of `network` begins with them, too.
            standard: (data.standardise || !config.is_described())
                .then(|| (single(&mean), single(&deviation))),
            radii: (data.unit == Unit::Deviation)
                .then(|| names.iter().cloned().zip(radii.iter().map(|r| f64::from(*r))).collect()),
            test: table(&inputs, data, &names, &division.test)
                .map(|text| (text, label_columns(inputs.labels.as_deref().unwrap_or(&[]), data).join(","))),
            division,
            flags: flags(path, data),
        };
        Ok((own, samples))
    }

    /// Files that go into the folder of the run: their names and what they hold.
    pub fn files(&self, eps: Option<f64>) -> Vec<(&'static str, String)> {
        let list = |all: &[usize]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let Division { training, validation, test } = &self.division;
        let split = format!(
            "{{\n  \"training\": [{}],\n  \"validation\": [{}],\n  \"test\": [{}]\n}}\n",
            list(training),
            list(validation),
            list(test)
        );
        let mut files = vec![(super::folder::SPLIT, split)];
        if let Some((test, _)) = &self.test {
            files.push((super::folder::TEST, test.clone()));
        }
        if let (Some(radii), Some(eps)) = (&self.radii, eps) {
            let lines = radii.iter().map(|(name, radius)| format!("{},{}\n", cell(name), eps * radius));
            files.push((super::folder::RADII, format!("feature,eps\n{}", lines.collect::<String>())));
        }
        files
    }

    /// What follows `--model` in commands about the samples of the test.
    pub fn command(&self, folder: &Path, data: &DataConfig, eps: Option<f64>) -> String {
        let mut text = match &self.test {
            Some((_, columns)) => format!(
                " --inputs {} --label-column {}",
                quoted(&folder.join(super::folder::TEST)),
                quoted(Path::new(columns))
            ),
            None => format!("{}{}", self.flags, samples(&self.division.test)),
        };
        if let Some(scale) = data.scale.filter(|scale| *scale != 1.0) {
            text += &format!(" --scale {scale}");
        }
        if let Some([low, high]) = data.range {
            text += &format!(" --range {low},{high}");
        }
        match (eps, &self.radii) {
            (Some(eps), Some(_)) => {
                let radii = quoted(&folder.join(super::folder::RADII));
                text += &format!(" --eps {eps} --feature-eps {radii}");
            }
            (Some(eps), None) => text += &format!(" --eps {eps}"),
            (None, _) => {}
        }
        text
    }
}

/// The flag that chooses the samples of a test, as far as a line of a shell is read by anyone.
fn samples(test: &[usize]) -> String {
    const MOST: usize = 500;
    // They are in no order, so that the first are like all.
    let mut chosen = test[..test.len().min(MOST)].to_vec();
    chosen.sort_unstable();
    let runs = chosen.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}..{}", run[0], run[0] + run.len()),
    });
    let list = runs.collect::<Vec<_>>().join(",");
    if list.is_empty() { list } else { format!(" --samples {list}") }
}

fn gather(values: &[f32], each: usize, order: &[usize]) -> Vec<f32> {
    order.iter().flat_map(|at| &values[at * each..][..each]).copied().collect()
}

/// Inputs divided by their scale, pixel by pixel.
fn arrange(
    inputs: &OwnInputs,
    data: &DataConfig,
    wanted: Option<Shape>,
    path: &Path,
) -> Result<Arranged, Failure> {
    // Pictures lie pixel by pixel.
    let usual = if inputs.numbers == Numbers::Pixels { Layout::Nhwc } else { Layout::Nchw };
    let by_pixel = data.layout.unwrap_or(usual) == Layout::Nhwc;
    let shape = match inputs.shape[..] {
        [] => Shape::flat(1),
        [length] => wanted.filter(|shape| shape.len() == length).unwrap_or(Shape::flat(length)),
        [height, width] => Shape::image(height, width, 1),
        [height, width, channels] if by_pixel => Shape::image(height, width, channels),
        [channels, height, width] => Shape::image(height, width, channels),
        _ => {
            return Err(Failure::usage(format!(
                "'{}': samples with the axes {:?}",
                path.display(),
                inputs.shape
            ))
            .hint("give vectors, or images of channels x height x width"));
        }
    };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != shape) {
        return Err(Failure::usage(format!(
            "the network takes {wanted}, the samples in '{}' are {shape}",
            path.display()
        ))
        .hint("choose other inputs, or check data.layout and data.label_column"));
    }
    let scale = data.scale.unwrap_or(match inputs.numbers {
        Numbers::Pixels => 255.0,
        Numbers::Bytes | Numbers::Plain => 1.0,
    });
    let (pixels, channels) = (shape.positions(), shape.channels);
    let mut values = Vec::with_capacity(inputs.values.len());
    for sample in inputs.values.chunks(shape.len().max(1)) {
        let from = |at: usize| if by_pixel { at } else { at % channels * pixels + at / channels };
        values.extend((0..sample.len()).map(|at| sample[from(at)] as f32 / scale as f32));
    }
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        return Err(Failure::new(format!(
            "'{}': sample {} is too large for float32",
            path.display(),
            at / shape.len()
        ))
        .hint("divide all values by something with data.scale"));
    }
    Ok(Arranged { shape, values })
}

/// What is true of the samples.
fn truth_of(config: &Config, data: &DataConfig, inputs: &OwnInputs) -> Result<(Task, Truth), Failure> {
    if config.criterion.kind() == Kind::Numbers {
        return numbers_of(data, inputs);
    }
    let labels = match &data.labels {
        Some(path) => Some(own::read_labels(Path::new(path))?),
        None => inputs.labels.clone(),
    };
    if let Some(several) = labels.iter().flatten().find(|label| matches!(label, Label::Numbers(_))) {
        return Err(Failure::usage(format!("the label of a sample is {}, a class is one", text(several)))
            .hint(
                "give one class for each sample; numbers are predicted with criterion.type = \"squared\"",
            ));
    }
    let Some(labels) = labels else {
        return Err(Failure::usage("no classes are known of the samples")
            .hint("name their column with data.label_column (--label-column), or a file with data.labels"));
    };
    fits(labels.len(), inputs.samples)?;
    // Folders are called after classes only where they are the labels.
    let folders = if data.labels.is_some() { None } else { inputs.classes.as_deref() };
    let names = class_names(&labels, folders)?;
    let class = |label: &Label| match (label, label.number()) {
        (_, Some(number)) if names.numbers => number as u32,
        (label, _) => names.all.iter().position(|name| *name == text(label)).unwrap_or(0) as u32,
    };
    let classes = labels.iter().map(class).collect();
    Ok((Task::Classification { classes: names.all }, Truth::Classes(classes)))
}

/// Names of classes, and whether labels are their numbers.
struct Classes {
    all: Vec<String>,
    numbers: bool,
}

fn text(label: &Label) -> String {
    match label {
        Label::Number(number) => number.to_string(),
        Label::Name(name) | Label::Written(name, _) => name.clone(),
        Label::Numbers(numbers) => format!("{} numbers", numbers.len()),
    }
}

/// Whole numbers from 0 on are numbers of classes; names are sorted.
fn class_names(labels: &[Label], folders: Option<&[String]>) -> Result<Classes, Failure> {
    let numbers: Option<Vec<f64>> = labels.iter().map(Label::number).collect();
    let most = |found: &str| {
        Failure::usage(format!("the labels name {found} classes, a network tells 2 to 10000 apart")).hint(
            "check which column holds the classes; numbers are predicted with criterion.type = \"squared\"",
        )
    };
    if let Some(numbers) = numbers {
        if let Some(odd) = numbers.iter().find(|n| !(n.fract() == 0.0 && (0.0..10_000.0).contains(*n))) {
            return Err(Failure::usage(format!("the label {odd} is not the number of a class"))
                .hint("classes are numbered from 0, or named; numbers are predicted with criterion.type = \"squared\""));
        }
        let count = numbers.iter().fold(0.0_f64, |most, n| most.max(*n)) as usize + 1;
        let all = match folders {
            Some(names) if names.len() >= count => names.to_vec(),
            _ => (0..count).map(|class| class.to_string()).collect(),
        };
        return if all.len() < 2 { Err(most("1")) } else { Ok(Classes { all, numbers: true }) };
    }
    let mut all: Vec<String> = labels.iter().map(text).collect();
    all.sort();
    all.dedup();
    match all.len() {
        2..=10_000 => Ok(Classes { all, numbers: false }),
        count => Err(most(&count.to_string())),
    }
}

/// Numbers to predict: of a file, or of one column.
fn numbers_of(data: &DataConfig, inputs: &OwnInputs) -> Result<(Task, Truth), Failure> {
    // Folders are classes, which are nothing to predict.
    let (each, values, names) = match (&data.labels, inputs.named_labels()) {
        (Some(path), _) => {
            let read = own::read_truth(Path::new(path))?;
            fits(read.samples, inputs.samples)?;
            let each = read.entries().max(1);
            (each, read.values, read.columns.unwrap_or_default())
        }
        (None, Some(labels)) => {
            let numbers = |label| {
                Label::numbers(label).ok_or_else(|| {
                    Failure::usage(format!("the value '{}' is no number to predict", text(label)))
                        .hint("choose another column, or a criterion for classes")
                })
            };
            let rows = labels.iter().map(numbers).collect::<Result<Vec<&[f64]>, Failure>>()?;
            let names = if data.label_column.is_some() { label_columns(&labels, data) } else { Vec::new() };
            (rows.first().map_or(1, |row| row.len()), rows.concat(), names)
        }
        (None, None) => {
            return Err(Failure::usage("no numbers to predict are known of the samples").hint(
                "name their column with data.label_column (--label-column), or a file with data.labels",
            ));
        }
    };
    let task = Task::Regression { outputs: names, units: Default::default() };
    Ok((task, Truth::Numbers { each, values: values.iter().map(|value| *value as f32).collect() }))
}

fn fits(labels: usize, samples: usize) -> Result<(), Failure> {
    if labels == samples {
        return Ok(());
    }
    Err(Failure::usage(format!("there are {labels} labels for {samples} samples"))
        .hint("give one for each sample"))
}

/// Mean and deviation of every channel over some samples; a channel that never changes has a deviation of 1.
fn statistics(arranged: &Arranged, training: &[usize]) -> (Vec<f64>, Vec<f64>) {
    let (length, channels) = (arranged.shape.len(), arranged.shape.channels);
    let count = (training.len() * arranged.shape.positions()).max(1) as f64;
    let mean_of = |f: &dyn Fn(usize, f64) -> f64| {
        let mut sums = vec![0.0; channels];
        for sample in training {
            for (at, value) in arranged.values[sample * length..][..length].iter().enumerate() {
                sums[at % channels] += f(at % channels, f64::from(*value));
            }
        }
        sums.into_iter().map(|sum| sum / count).collect::<Vec<f64>>()
    };
    let mean = mean_of(&|_, x| x);
    let variance = mean_of(&|channel, x| (x - mean[channel]) * (x - mean[channel]));
    let deviation = variance.iter().map(|v| if *v > 1e-24 { v.sqrt() } else { 1.0 }).collect();
    (mean, deviation)
}

fn column_names(inputs: &OwnInputs) -> Vec<String> {
    match &inputs.columns {
        Some(names) => names.clone(),
        None => (0..inputs.entries()).map(|at| format!("x{at}")).collect(),
    }
}

/// Some samples as a table like the one they came from; nothing for pictures.
fn table(inputs: &OwnInputs, data: &DataConfig, names: &[String], samples: &[usize]) -> Option<String> {
    let labels = inputs.labels.as_ref().filter(|_| data.labels.is_none())?;
    if inputs.shape.len() != 1 || samples.is_empty() {
        return None;
    }
    let columns: Vec<String> =
        names.iter().chain(&label_columns(labels, data)).map(|name| cell(name)).collect();
    let mut text = format!("{}\n", columns.join(","));
    for sample in samples {
        for value in inputs.sample(*sample) {
            text += &format!("{value},");
        }
        let label = match &labels[*sample] {
            Label::Numbers(numbers) => numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(","),
            label => cell(&self::text(label)),
        };
        text += &format!("{label}\n");
    }
    Some(text)
}

/// What the columns of labels in a table are called: one for each number of a label.
fn label_columns(labels: &[Label], data: &DataConfig) -> Vec<String> {
    let name = data.label_column.as_deref().unwrap_or("label");
    let each = match labels.first() {
        Some(Label::Numbers(numbers)) => numbers.len(),
        _ => return vec![name.to_owned()],
    };
    let parts: Vec<String> = name.split(',').map(|part| part.trim().to_owned()).collect();
    if parts.len() == each { parts } else { (0..each).map(|at| format!("{name}{at}")).collect() }
}

/// A name as a cell of a table.
fn cell(name: &str) -> String {
    if name.contains([',', '"', '\n']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.into() }
}

/// The flags that name the inputs.
fn flags(path: &Path, data: &DataConfig) -> String {
    let mut text = format!(" --inputs {}", quoted(path));
    if let Some(labels) = &data.labels {
        text += &format!(" --labels {}", quoted(&PathBuf::from(labels)));
    }
    if let Some(column) = &data.label_column {
        text += &format!(" --label-column {}", quoted(Path::new(column)));
    }
    match data.layout {
        Some(Layout::Nhwc) => text + " --layout nhwc",
        Some(Layout::Nchw) => text + " --layout nchw",
        None => text,
    }
}
