//! Inputs of fixed size that belong to classes, wherever they come from.

use std::sync::Arc;

use gains_core::{BoxVec, Interval, Network, Precision};
use serde_json::{Value, json};

use super::entries::Entries;
use super::region::Regions;
use super::{Shown, Subject};
use crate::cli::RegionArgs;
use crate::failure::Failure;
use crate::output::plain;
use crate::question::{
    Answer, Budget, Findings, Model, Question, Region, Sample, Struck, Task, Wanted, Witness,
};
use crate::results::{Claim, InputSetting, Line, SamplePart, Samples, SubjectSetting, VerdictWord};
use crate::table::percent;

/// Samples of one shape.
pub trait Collection: Sync {
    /// How many there are.
    fn len(&self) -> usize;

    /// Those that were chosen.
    fn indices(&self) -> &[usize];

    /// A sample as the network takes it.
    fn values(&self, index: usize) -> Vec<f64>;

    /// Its class, where one is known.
    fn label(&self, index: usize) -> Option<usize>;

    /// What is known to be true of it, for networks that predict numbers.
    fn truth(&self, _index: usize) -> Option<Vec<f64>> {
        None
    }

    /// The box around it, where boxes are given.
    fn boxed(&self, _index: usize) -> Option<BoxVec> {
        None
    }

    /// Whether boxes are given.
    fn has_boxes(&self) -> bool {
        false
    }

    /// What a class is called.
    fn class_name(&self, class: usize) -> Option<&str>;

    /// The entries of a sample.
    fn entries(&self) -> &Entries;

    /// Where values stay unless something else is said.
    fn usual_range(&self) -> Option<Interval>;

    /// What results say about where samples come from: the collection, and the part of it.
    fn origin(&self) -> (String, String);

    /// What samples are called.
    fn noun(&self) -> &'static str;

    /// Beginnings of hashes of the samples and of the boxes, for collections that are not known by their name.
    fn hashes(&self) -> (Option<String>, Option<String>) {
        (None, None)
    }

    /// What else there is to say.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A classifier and the samples it is asked about.
pub struct ClassSubject<'a> {
    model: &'a Model,
    collection: &'a dyn Collection,
    regions: Regions,
}

impl<'a> ClassSubject<'a> {
    /// Sets samples up for a model.
    pub fn new(
        model: &'a Model,
        collection: &'a dyn Collection,
        region: &RegionArgs,
    ) -> Result<Self, Failure> {
        if let (true, Some(flag)) = (collection.has_boxes(), region.shapes()) {
            return Err(Failure::usage(format!("{flag} does not go with --box, which says what may move"))
                .hint("leave one of the two out"));
        }
        let regions = Regions::new(region, collection.entries(), collection.usual_range())?;
        let outside = |&index: &usize| Some((index, regions.outside(&collection.values(index))?));
        if let Some((index, (at, range))) = collection.indices().iter().find_map(outside) {
            let (value, name) = (collection.values(index)[at], collection.entries().name(at));
            return Err(Failure::usage(format!(
                "sample {index}, {name} is {value}, not between {} and {}",
                range.lower, range.upper
            ))
            .hint("--range says where values stay, after --scale has divided them"));
        }
        Ok(Self { model, collection, regions })
    }

    /// The samples.
    pub fn collection(&self) -> &'a dyn Collection {
        self.collection
    }

    fn region(&self, index: usize, values: &[f64], eps: f64) -> Region {
        match self.collection.boxed(index) {
            Some(whole) => Region::boxes(vec![whole]).paced(),
            None => self.regions.around(values, eps),
        }
    }

    /// What is asked, in words; nothing where it is what the known sets of images are asked.
    fn words(&self) -> Option<String> {
        let (inputs, boxes) = self.collection.hashes();
        if self.regions.is_plain() && inputs.is_none() {
            return None;
        }
        let mut words = vec![if boxes.is_some() { "boxes as given".into() } else { self.regions.words() }];
        if self.regions.norm != gains_verify::Norm::Infinity {
            words.push(BALL.into());
        }
        words.extend(self.collection.remarks());
        Some(words.join(", "))
    }

    fn input_setting(&self) -> Option<InputSetting> {
        let question = self.words()?;
        let (inputs_hash, box_hash) = self.collection.hashes();
        let Regions { norm, range, listed, named, .. } = &self.regions;
        Some(InputSetting {
            inputs_hash,
            box_hash,
            norm: *norm,
            range: range.clone(),
            features: listed.clone(),
            feature_eps: named.clone(),
            question,
        })
    }
}

/// What is said about other norms.
const BALL: &str = "bounds over the ball, case distinctions and halves over the box around it";

impl Samples for ClassSubject<'_> {
    fn network(&self) -> &Network {
        self.model.network()
    }

    fn task(&self) -> Task {
        Task::Classes
    }

    fn name(&self, index: usize) -> String {
        format!("sample {index}")
    }

    fn setting(&self) -> SubjectSetting {
        let (data, split) = self.collection.origin();
        SubjectSetting { data, split, forecast: None, inputs: self.input_setting() }
    }

    fn property(&self) -> Option<&str> {
        self.model.asked().text()
    }

    fn sample_part(&self, index: usize, answer: &Answer) -> SamplePart {
        let (prediction, margin, looseness) = match &answer.findings {
            Findings::Classes { prediction, margin, looseness } => (*prediction, *margin, looseness.clone()),
            _ => (None, None, None),
        };
        SamplePart::Image { label: self.collection.label(index), prediction, margin, looseness }
    }

    fn fault(&self, line: &Line) -> Option<String> {
        let SamplePart::Image { label, prediction, margin, .. } = &line.sample else {
            return Some("it is about a series".into());
        };
        let (there, classes) = (self.collection.len(), self.network().outputs());
        if line.index >= there {
            return Some(format!("index is {}, there are {there} {}", line.index, self.collection.noun()));
        }
        let own = self.collection.label(line.index);
        if *label != own {
            return Some(format!("label is {}, sample {} has {}", shown(*label), line.index, shown(own)));
        }
        if let Some(prediction) = prediction.filter(|p| *p >= classes) {
            return Some(format!("prediction is {prediction}, there are {classes} classes"));
        }
        let correct = line.is_correct();
        let holds = match line.verdict {
            VerdictWord::Verified => correct && margin.is_some_and(|m| m > 0.0),
            VerdictWord::Falsified => {
                let length = self.network().input().len();
                correct && matches!(&line.witness, Some(Witness::Values(values)) if values.len() == length)
            }
            VerdictWord::Misclassified => !correct && prediction.is_some(),
            VerdictWord::Unknown => true,
        };
        (!holds).then(|| format!("the rest of the line does not support that it is {}", line.verdict))
    }
}

impl Subject for ClassSubject<'_> {
    fn indices(&self) -> &[usize] {
        self.collection.indices()
    }

    fn key(&self, index: usize) -> (&'static str, Value) {
        ("label", self.collection.label(index).into())
    }

    fn radii(&self, asked: &[f64]) -> Vec<f64> {
        if self.collection.has_boxes() { vec![0.0] } else { asked.to_vec() }
    }

    fn check_radius(&self, eps: f64) -> Result<(), Failure> {
        if eps <= 1.0 || !self.regions.is_plain() {
            return Ok(());
        }
        Err(Failure::usage(format!("--eps {eps} is not between 0 and 1, the range of a pixel"))
            .hint("pixels go from 0 to 1, so a radius of 1 is all of them"))
    }

    fn question(&self, index: usize, eps: f64) -> Question<'_> {
        let network = self.model.network();
        let values = self.collection.values(index);
        let region = self.region(index, &values, eps);
        let wanted = Wanted {
            asked: Arc::clone(self.model.asked()),
            label: self.collection.label(index).filter(|_| self.model.task() == Task::Classes),
            truth: self.collection.truth(index),
        };
        Question { network, sample: Sample::Values { values, region, wanted } }
    }

    fn heading(&self, samples: usize) -> (String, Option<String>) {
        let property = self.property().map(|text| format!("property {text}"));
        let question: Vec<String> = self.words().into_iter().chain(property).collect();
        let question = (!question.is_empty()).then(|| question.join(", "));
        let question = question.map(|question| plain(&question).into_owned());
        let (origin, noun) = (self.collection.origin().0, self.collection.noun());
        (format!("{} ({samples} {noun})", plain(&origin)), question)
    }

    fn struck_json(&self, index: usize, struck: Option<&Struck>) -> Value {
        let (prediction, broken, margin) = match struck {
            Some(Struck::Classes { prediction, broken, margin }) => (*prediction, broken.as_ref(), *margin),
            _ => (None, None, f64::NAN),
        };
        json!({
            "index": index, "label": self.collection.label(index), "prediction": prediction,
            "found": broken.is_some(), "adversarial_prediction": broken.map(|b| b.1),
            "margin": margin, "witness": broken.map(|b| &b.0),
        })
    }

    fn predict(&self, index: usize, precision: Precision) -> Result<Shown, String> {
        let ran = self.question(index, 0.0).run(precision, &crate::campaign::watch())?;
        let label = self.collection.label(index);
        let prediction = ran.largest();
        let json = json!({
            "index": index, "label": label, "prediction": prediction, "logits": ran.output,
            "accepted": ran.accepted, "rejected": ran.rejected, "evaluations": ran.evaluations,
            "within_tolerance": ran.within_tolerance, "model": self.network().hash,
        });
        let name =
            |class: usize| self.collection.class_name(class).map_or_else(|| class.to_string(), String::from);
        let correct = label.map(|label| label == prediction);
        let row = vec![
            index.to_string(),
            label.map_or("–".into(), name),
            name(prediction),
            correct.map_or("–", |correct| if correct { "yes" } else { "no" }).into(),
            format!("{:.3}", ran.output[prediction]),
            format!("{}+{}", ran.accepted, ran.rejected),
            ran.evaluations.to_string(),
        ];
        Ok(Shown { json, row, score: correct.map_or(f64::NAN, |correct| if correct { 1.0 } else { 0.0 }) })
    }

    fn predict_header(&self) -> &'static [&'static str] {
        &["index", "label", "prediction", "correct", "logit", "steps (accepted+rejected)", "evaluations"]
    }

    fn predict_summary(&self, scores: &[f64]) -> String {
        let labelled: Vec<&f64> = scores.iter().filter(|score| !score.is_nan()).collect();
        if labelled.is_empty() {
            return format!("{} samples without labels\n", scores.len());
        }
        let correct = labelled.iter().filter(|score| ***score > 0.0).count();
        format!("{correct} of {} correct ({} %)\n", labelled.len(), percent(correct, labelled.len()))
    }

    fn is_measured(&self, index: usize, budget: Budget<'_>) -> bool {
        self.question(index, 0.0).is_answered(budget)
    }

    fn answers(&self, claim: &Claim) -> Result<(), Failure> {
        let hint = "give the inputs, or the data set and split, that the results were made with";
        let refuse = |message: String| Err(Failure::usage(message).hint(hint));
        let there = self.collection.len();
        if claim.index >= there {
            return refuse(format!("there is no sample {} among {there}", claim.index));
        }
        let label = self.collection.label(claim.index);
        if claim.label != label {
            let (index, own, theirs) = (claim.index, shown(label), shown(claim.label));
            return refuse(format!("sample {index} has label {own}, the results say {theirs}"));
        }
        let ours = self.input_setting();
        if claim.inputs() != ours.as_ref() {
            let asked = |setting: Option<&InputSetting>| {
                setting.map_or("a known set of images".into(), |setting| {
                    format!("{} ({})", setting.question, setting.inputs_hash.as_deref().unwrap_or("–"))
                })
            };
            let (theirs, ours) = (asked(claim.inputs()), asked(ours.as_ref()));
            return refuse(format!("the results are about another question: {theirs}; here: {ours}"));
        }
        Ok(())
    }
}

/// A label in words.
fn shown(label: Option<usize>) -> String {
    label.map_or("none".into(), |label| label.to_string())
}
