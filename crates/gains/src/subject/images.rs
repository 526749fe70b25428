//! Images as a subject: `--data`, `--split`, `--samples`, and whether a model fits them.

use std::str::FromStr;

use gains_core::{Network, Precision, Shape};
use gains_data::{Dataset, Images, Split};
use serde_json::{Value, json};

use super::{Selection, Shown, Subject};
use crate::cli::DataArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::question::{Answer, Findings, Model, Question, Sample, Struck, Task, Witness};
use crate::results::{Claim, Line, SamplePart, SubjectSetting, VerdictWord};
use crate::table::percent;

/// Images that were read, and which of them were chosen.
pub struct ImageSource {
    images: Images,
    split: Split,
    indices: Vec<usize>,
}

/// A classifier and the images it is asked about.
pub struct ImageSubject<'a> {
    model: &'a Model,
    source: &'a ImageSource,
}

impl ImageSource {
    /// Loads the images a command works on and checks that the network can take them.
    pub fn open(args: &DataArgs, network: &Network) -> Result<Self, Failure> {
        let dataset = match (&args.data, &network.description.dataset) {
            (Some(name), _) => *name,
            (None, Some(name)) => Dataset::from_str(name).map_err(|_| {
                Failure::usage(format!(
                    "the model was made for '{name}', which this program has no reader for"
                ))
                .hint("choose a data set with --data")
            })?,
            (None, None) => {
                return Err(Failure::usage("the model does not say which data set it was made for")
                    .hint("choose one with --data mnist, fashion-mnist or cifar10"));
            }
        };
        let split = args.split.unwrap_or(Split::Test);
        let selection = args.samples.clone().unwrap_or_else(Selection::hundred);
        // The bundled images are the first of the Fashion-MNIST test set, so nothing else need be there.
        let bundled = args.data_dir.is_none()
            && dataset == Dataset::FashionMnist
            && split == Split::Test
            && selection.last() < Images::bundled().len();
        let images = if bundled {
            Images::bundled()
        } else {
            let dir = gains_data::locate(args.data_dir.as_deref(), |name| std::env::var_os(name))?;
            interrupt::at_once(|| Images::load(dataset, split, &dir))?
        };
        if selection.last() >= images.len() {
            return Err(Failure::usage(format!(
                "--samples asks for image {}, {dataset} ({split}) has {}",
                selection.last(),
                images.len()
            ))
            .hint(format!("use --samples 0..{}", images.len())));
        }
        check_shape(network, &images)?;
        Ok(Self { images, split, indices: selection.indices() })
    }

    /// The images, asked about with a model.
    pub fn subject<'a>(&'a self, model: &'a Model) -> ImageSubject<'a> {
        ImageSubject { model, source: self }
    }
}

fn check_shape(network: &Network, images: &Images) -> Result<(), Failure> {
    let input = network.input();
    let found = Shape::image(images.height(), images.width(), images.channels());
    if input != found || network.outputs() != images.classes() {
        return Err(Failure::usage(format!(
            "the model takes {input} images and tells {} classes apart, {} has {found} and {}",
            network.outputs(),
            images.dataset(),
            images.classes()
        ))
        .hint("choose the data set the model was made for with --data"));
    }
    Ok(())
}

impl ImageSubject<'_> {
    fn images(&self) -> &Images {
        &self.source.images
    }

    fn ask(&self, index: usize, eps: f64) -> Question<'_> {
        let (image, label) = (self.images().image(index), self.images().label(index));
        Question { network: self.model.network(), sample: Sample::Image { image, label, eps } }
    }
}

impl Subject for ImageSubject<'_> {
    fn network(&self) -> &Network {
        self.model.network()
    }

    fn task(&self) -> Task {
        Task::Classes
    }

    fn indices(&self) -> &[usize] {
        &self.source.indices
    }

    fn name(&self, index: usize) -> String {
        format!("sample {index}")
    }

    fn key(&self, index: usize) -> (&'static str, Value) {
        ("label", self.images().label(index).into())
    }

    fn check_radius(&self, eps: f64) -> Result<(), Failure> {
        if eps <= 1.0 {
            return Ok(());
        }
        Err(Failure::usage(format!("--eps {eps} is not between 0 and 1, the range of a pixel"))
            .hint("pixels go from 0 to 1, so a radius of 1 is all of them"))
    }

    fn question(&self, index: usize, eps: f64) -> Question<'_> {
        self.ask(index, eps)
    }

    fn setting(&self) -> SubjectSetting {
        let (data, split) = (self.images().dataset().to_string(), self.source.split.to_string());
        SubjectSetting { data, split, forecast: None }
    }

    fn sample_part(&self, index: usize, answer: &Answer) -> SamplePart {
        let (prediction, margin, looseness) = match &answer.findings {
            Findings::Classes { prediction, margin, looseness } => (*prediction, *margin, looseness.clone()),
            Findings::Forecasts { .. } => (None, None, None),
        };
        SamplePart::Image { label: self.images().label(index), prediction, margin, looseness }
    }

    fn fault(&self, line: &Line) -> Option<String> {
        let SamplePart::Image { label, prediction, margin, .. } = &line.sample else {
            return Some("it is about a series".into());
        };
        let (images, classes) = (self.images(), self.network().outputs());
        if line.index >= images.len() {
            return Some(format!("index is {}, there are {} images", line.index, images.len()));
        }
        if *label != images.label(line.index) {
            return Some(format!("label is {label}, image {} has {}", line.index, images.label(line.index)));
        }
        if let Some(prediction) = prediction.filter(|p| *p >= classes) {
            return Some(format!("prediction is {prediction}, there are {classes} classes"));
        }
        let correct = *prediction == Some(*label);
        let holds = match line.verdict {
            VerdictWord::Verified => correct && margin.is_some_and(|m| m > 0.0),
            VerdictWord::Falsified => {
                let pixels = self.network().input().len();
                correct && matches!(&line.witness, Some(Witness::Image(image)) if image.len() == pixels)
            }
            VerdictWord::Misclassified => !correct && prediction.is_some(),
            VerdictWord::Unknown => true,
        };
        (!holds).then(|| format!("the rest of the line does not support that it is {}", line.verdict))
    }

    fn heading(&self, samples: usize) -> (String, Option<String>) {
        (format!("{} ({samples} images)", self.images().dataset()), None)
    }

    fn struck_json(&self, index: usize, struck: Option<&Struck>) -> Value {
        let (prediction, broken, margin) = match struck {
            Some(Struck::Classes { prediction, broken, margin }) => (*prediction, broken.as_ref(), *margin),
            _ => (None, None, f64::NAN),
        };
        json!({
            "index": index, "label": self.images().label(index), "prediction": prediction,
            "found": broken.is_some(), "adversarial_prediction": broken.map(|b| b.1),
            "margin": margin, "witness": broken.map(|b| &b.0),
        })
    }

    fn predict(&self, index: usize, precision: Precision) -> Result<Shown, String> {
        let ran = self.question(index, 0.0).run(precision, &crate::campaign::watch())?;
        let label = self.images().label(index);
        let prediction = ran.largest();
        let json = json!({
            "index": index, "label": label, "prediction": prediction, "logits": ran.output,
            "accepted": ran.accepted, "rejected": ran.rejected, "evaluations": ran.evaluations,
            "within_tolerance": ran.within_tolerance, "model": self.network().hash,
        });
        let name =
            |class: usize| self.images().class_name(class).map_or_else(|| class.to_string(), String::from);
        let row = vec![
            index.to_string(),
            name(label),
            name(prediction),
            if prediction == label { "yes" } else { "no" }.into(),
            format!("{:.3}", ran.output[prediction]),
            format!("{}+{}", ran.accepted, ran.rejected),
            ran.evaluations.to_string(),
        ];
        Ok(Shown { json, row, score: if prediction == label { 1.0 } else { 0.0 } })
    }

    fn predict_header(&self) -> &'static [&'static str] {
        &["index", "label", "prediction", "correct", "logit", "steps (accepted+rejected)", "evaluations"]
    }

    fn predict_summary(&self, scores: &[f64]) -> String {
        let correct = scores.iter().filter(|score| **score > 0.0).count();
        format!("{correct} of {} correct ({} %)\n", scores.len(), percent(correct, scores.len()))
    }

    fn is_measured(&self, index: usize) -> bool {
        self.ask(index, 0.0).is_answered()
    }

    fn answers(&self, claim: &Claim) -> Result<(), Failure> {
        let hint = "give the data set and split the results were made with";
        if claim.index >= self.images().len() {
            return Err(Failure::usage(format!("the data set has no image {}", claim.index)).hint(hint));
        }
        let label = self.images().label(claim.index);
        if claim.label != Some(label) {
            let message =
                format!("image {} of the data set has label {label}, the results say another", claim.index);
            return Err(Failure::usage(message).hint(hint));
        }
        Ok(())
    }
}
