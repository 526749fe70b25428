//! Samples to ask about: arrays in memory, or the data a network was made for.

use std::path::PathBuf;
use std::str::FromStr;

use gains_data::Dataset;
use gains_data::own::{Label, MOST_ENTRIES, Numbers, OwnInputs};

use super::{Model, options};
use crate::cli::{DataArgs, LayoutArg, PartArg, RegionArgs, SeriesArgs};
use crate::failure::Failure;
use crate::question;
use crate::subject::{Given, Nominal, Order, OwnSource, Selection, Source, Subject};

/// Arrays of samples; the first axis counts them.
#[derive(Clone, Debug)]
pub struct Arrays {
    given: Given,
    order: Order,
}

impl Arrays {
    /// Inputs, all of them finite.
    pub fn new(name: &str, shape: Vec<usize>, values: Vec<f64>) -> Result<Self, Failure> {
        let inputs = array(name, shape, values)?;
        let name = name.to_owned();
        let given = Given {
            name,
            inputs,
            nominal: Nominal::Given,
            boxes: None,
            labels: None,
            truth: None,
            named: None,
        };
        Ok(Self { given, order: Order::default() })
    }

    /// Boxes, of which the middles are the samples.
    pub fn boxes(name: &str, shape: &[usize], lower: Vec<f64>, upper: Vec<f64>) -> Result<Self, Failure> {
        let mut arrays = Self::new(name, shape.to_vec(), lower)?;
        let upper = array("upper", shape.to_vec(), upper)?;
        arrays.given.boxes = Some([arrays.given.inputs.clone(), upper]);
        arrays.given.nominal = Nominal::Middle;
        Ok(arrays)
    }

    /// Classes, by number.
    #[must_use]
    pub fn labelled(mut self, labels: impl IntoIterator<Item = f64>) -> Self {
        self.given.labels = Some(labels.into_iter().map(Label::Number).collect());
        self
    }

    /// Classes, by name.
    #[must_use]
    pub fn named(mut self, labels: impl IntoIterator<Item = String>) -> Self {
        self.given.labels = Some(labels.into_iter().map(Label::Name).collect());
        self
    }

    /// What is known to be true, for networks that predict numbers.
    pub fn with_truth(mut self, shape: Vec<usize>, values: Vec<f64>) -> Result<Self, Failure> {
        self.given.truth = Some(array("y", shape, values)?);
        Ok(self)
    }

    /// What the columns are called in which that stands: they must be in the order of the outputs.
    #[must_use]
    pub fn with_truth_columns(mut self, names: Vec<String>) -> Self {
        self.given.named = Some(names);
        self
    }

    /// Numbers that were bytes: divided by 255 for networks of the known sets of images.
    #[must_use]
    pub fn of_bytes(mut self) -> Self {
        self.given.inputs.numbers = Numbers::Bytes;
        for bounds in self.given.boxes.iter_mut().flatten() {
            bounds.numbers = Numbers::Bytes;
        }
        self
    }

    /// Names of the entries of a sample.
    #[must_use]
    pub fn with_columns(mut self, names: Vec<String>) -> Self {
        self.given.inputs.columns = Some(names);
        self
    }

    /// How pictures lie in arrays (`nchw` or `nhwc`), and what values are divided by.
    pub fn ordered(mut self, layout: Option<&str>, scale: Option<f64>) -> Result<Self, Failure> {
        let layout: Option<LayoutArg> = layout.map(|text| options::word("layout", text)).transpose()?;
        let scale = scale.map(|scale| options::positive("scale", scale)).transpose()?;
        self.order = Order { layout, scale };
        Ok(self)
    }
}

fn array(name: &str, mut shape: Vec<usize>, values: Vec<f64>) -> Result<OwnInputs, Failure> {
    if shape.is_empty() {
        return Err(Failure::usage(format!("{name} is a single number"))
            .hint("give an array whose first axis counts the samples"));
    }
    if values.len() > MOST_ENTRIES {
        return Err(Failure::usage(format!("{name} has {} numbers, more than {MOST_ENTRIES}", values.len()))
            .hint("ask in parts: a part of the samples at a time"));
    }
    let samples = shape.remove(0);
    if samples == 0 || values.is_empty() {
        return Err(Failure::usage(format!("{name} holds no sample")).hint("give at least one"));
    }
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        let (sample, entry) = (at * samples / values.len(), at % (values.len() / samples).max(1));
        return Err(Failure::usage(format!("{name}: sample {sample}, entry {entry} is {}", values[at]))
            .hint("all numbers must be finite"));
    }
    Ok(OwnInputs {
        samples,
        shape,
        values,
        numbers: Numbers::Plain,
        columns: None,
        labels: None,
        classes: None,
    })
}

/// The data a network was made for, or others it can take.
#[derive(Clone, Debug, Default)]
pub struct Usual {
    /// Name of a set of images.
    pub data: Option<String>,
    /// `test` or `train`.
    pub split: Option<String>,
    /// Folder with the data sets.
    pub data_dir: Option<PathBuf>,
    /// Prepared file with series.
    pub series: Option<PathBuf>,
    /// `test`, `validation` or `train` part of the records.
    pub part: Option<String>,
    /// How far ahead to predict at least.
    pub horizon: Option<String>,
    /// Which of them; the first hundred if nothing is said.
    pub samples: Option<Vec<usize>>,
}

/// Samples that were read, and are asked about.
pub struct Samples {
    pub(super) source: Source,
    data: DataArgs,
    pub(super) series: SeriesArgs,
}

impl Samples {
    /// Arrays, if the model can take them.
    pub fn arrays(model: &Model, arrays: Arrays) -> Result<Self, Failure> {
        if model.asked.task() == question::Task::Forecasts {
            return Err(Failure::usage(format!("'{}' forecasts series", model.network().description.name))
                .hint("give series, not arrays"));
        }
        let Arrays { given, order } = arrays;
        let source = Source::Own(OwnSource::new(given, order, None, model.network())?);
        Ok(Self { source, data: DataArgs::default(), series: SeriesArgs::default() })
    }

    /// What the model was made for.
    pub fn usual(model: &Model, usual: Usual) -> Result<Self, Failure> {
        let refuse = |what: &str, text: &str| {
            Failure::usage(format!("{what} is '{text}'")).hint("see `gains certify --help` for what there is")
        };
        let data = DataArgs {
            data: usual
                .data
                .map(|text| Dataset::from_str(&text).map_err(|_| refuse("data", &text)))
                .transpose()?,
            split: usual.split.map(|text| text.parse().map_err(|_| refuse("split", &text))).transpose()?,
            data_dir: usual.data_dir,
            samples: usual.samples.map(Selection::of),
            ..DataArgs::default()
        };
        let series = SeriesArgs {
            series: usual.series,
            part: usual.part.map(|text| options::word::<PartArg>("part", &text)).transpose()?,
            horizon: usual
                .horizon
                .map(|text| text.parse().map_err(|_| refuse("horizon", &text)))
                .transpose()?,
            ..SeriesArgs::default()
        };
        let source = Source::open(&model.asked, &data, &series, &RegionArgs::default())?;
        Ok(Self { source, data, series })
    }

    /// Sets them up for a question.
    pub(super) fn subject<'a>(
        &'a self,
        model: &'a question::Model,
        region: &RegionArgs,
    ) -> Result<Box<dyn Subject + 'a>, Failure> {
        if let (Some(flag), false) = (region.of_series(), matches!(self.source, Source::Series(_))) {
            let name = &model.network().description.name;
            return Err(Failure::usage(format!(
                "{flag} is for forecasting models, '{name}' takes inputs of fixed size"
            ))
            .hint(format!("leave {flag} out")));
        }
        self.source.subject(model, &self.data, &self.series, region)
    }

    /// Numbers in the order the network takes them, in the order the samples were given in.
    pub fn restore(&self, values: &[f64]) -> Vec<f64> {
        self.source.restore(values)
    }

    /// Samples in the order they were given in, one after the other, and their classes where they are known; nothing for
    /// series.
    pub fn values(&self) -> (Vec<f64>, Vec<Option<usize>>) {
        let Some(collection) = self.source.collection() else { return (Vec::new(), Vec::new()) };
        let indices = collection.indices().iter();
        let values = indices.clone().flat_map(|&index| self.restore(&collection.values(index))).collect();
        (values, indices.map(|&index| collection.label(index)).collect())
    }
}
