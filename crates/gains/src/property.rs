//! What is asked of the outputs: the one place where a command's question becomes a property of the verifier.

mod resolve;
mod spec;

use gains_core::Network;
use gains_core::description::Task;
use gains_verify::property::largest;
use gains_verify::{Property, Reason};
use serde_json::{Value, json};

use crate::cli::PropertyArgs;
use crate::failure::Failure;
use crate::files;
use crate::selection::split_names;

pub use resolve::{Sampled, Unit};
use spec::{Clause, Reference, Spec};

/// Larger property files are refused before they are read.
const LARGEST: u64 = 1 << 20;

/// How far outputs of a regression may move if nothing else is asked.
pub const USUAL_TOLERANCE: f64 = 0.1;

/// What is asked of the outputs for every sample of a run.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Names of the outputs.
    names: Vec<String>,
    /// Whether samples have labels, not numbers that are known to be true.
    classes: bool,
    /// What was asked for; nothing if it is the usual: the label of a class, the mean error of a forecast.
    spec: Option<Spec>,
}

impl Asked {
    /// The usual question about a network.
    pub fn usual(network: &Network) -> Self {
        let spec = match &network.description.task {
            Task::Regression { .. } => Spec::parse(&within(USUAL_TOLERANCE).to_string()).ok(),
            Task::Classification { .. } | Task::Forecasting { .. } => None,
        };
        let classes = matches!(network.description.task, Task::Classification { .. });
        Self { names: names(network), classes, spec }
    }

    /// What flags ask for.
    pub fn new(args: &PropertyArgs, network: &Network) -> Result<Self, Failure> {
        let usual = Self::usual(network);
        let (text, place) = match &args.property {
            Some(path) => {
                let place = format!("'{}'", path.display());
                (files::read_text(path, LARGEST, "a property file")?, place)
            }
            None => match of_flags(args, &network.description.task)? {
                Some((flag, value)) => (value.to_string(), flag.to_string()),
                None => {
                    usual.check().map_err(|e| {
                        Failure::usage(format!("the usual question about such a model is too much: {e}"))
                            .hint("--between NAME=LOW,HIGH asks about single outputs, --property FILE about some")
                    })?;
                    return Ok(usual);
                }
            },
        };
        usual.instead(&text, &place)
    }

    /// What a result file says was asked.
    pub fn again(network: &Network, text: Option<&str>) -> Result<Self, Failure> {
        let usual = Self::usual(network);
        match text {
            Some(text) => usual.instead(text, "the property in the results"),
            None => Ok(usual),
        }
    }

    /// Names of the outputs.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What the text of a property file asks for.
    pub fn said(network: &Network, text: &str) -> Result<Self, Failure> {
        Self::usual(network).instead(text, "what is given")
    }

    fn instead(self, text: &str, place: &str) -> Result<Self, Failure> {
        let refuse = |e: String| {
            Failure::usage(format!("{place} is no property of this network: {e}"))
                .hint("docs/properties.md describes properties; `gains model show` names the outputs")
        };
        let asked = Self { spec: Some(Spec::parse(text).map_err(refuse)?), ..self };
        asked.check().map_err(refuse)?;
        Ok(asked)
    }

    /// The question in one line of JSON; nothing if it is the usual one.
    pub fn text(&self) -> Option<&str> {
        self.spec.as_ref().map(Spec::text)
    }

    /// The property of one sample, if something else than the usual is asked.
    pub fn linear(&self, sampled: &Sampled<'_>) -> Result<Property, Reason> {
        let spec = self.spec.as_ref().ok_or_else(|| Reason::Property("the usual is asked".into()))?;
        self.bind(spec, sampled).map_err(Reason::Property)
    }

    /// The property of a sample of fixed size. `outputs` runs the network on it, which is done only where the property
    /// depends on what it says: for the predicted class of a sample without one, or by the property's own words.
    pub fn property(
        &self,
        label: Option<usize>,
        target: Option<&[f64]>,
        outputs: impl FnOnce() -> Result<Vec<f64>, Reason>,
    ) -> Result<Property, Reason> {
        let asks_outputs = self.spec.as_ref().is_some_and(|spec| resolve::needs_nominal(&spec.require));
        let nominal = if asks_outputs || (self.classes && label.is_none()) { outputs()? } else { Vec::new() };
        let label = label.or_else(|| self.classes.then(|| largest(&nominal)));
        let Some(spec) = &self.spec else {
            let label = label.ok_or_else(|| Reason::Property("the sample has no label".into()))?;
            return Ok(Property::classification(self.names.len(), label));
        };
        let observed = target.map(|target| vec![true; target.len()]);
        let target = target.zip(observed.as_deref());
        self.bind(spec, &Sampled { label, nominal: &nominal, target, units: &[] }).map_err(Reason::Property)
    }

    fn bind(&self, spec: &Spec, sampled: &Sampled<'_>) -> Result<Property, String> {
        let outputs = self.names.len();
        if let (Clause::Predicted(classes), Some(label)) = (&spec.require, sampled.label)
            && classes[..] == [Reference::Label]
            && !self.names.iter().any(|name| name == "@label")
        {
            return Ok(Property::classification(outputs, label));
        }
        let condition = resolve::condition(&spec.require, &self.names, spec.scale, sampled)?;
        let property = Property::Linear { outputs, condition };
        property.problem().map_or(Ok(property), Err)
    }

    /// Tries it on a sample that has everything such samples may have, so that a file that cannot be meant is refused before any work.
    fn check(&self) -> Result<(), String> {
        let Some(spec) = &self.spec else { return Ok(()) };
        let outputs = self.names.len();
        resolve::check_size(&spec.require, outputs)?;
        let (zeros, seen) = (vec![0.0; outputs], vec![true; outputs]);
        let (label, target) =
            if self.classes { (Some(0), None) } else { (None, Some((&zeros[..], &seen[..]))) };
        let sampled = Sampled { label, nominal: &zeros, target, units: &[] };
        self.bind(spec, &sampled).map(drop)
    }
}

/// Names of a network's outputs; numbers where it has none.
fn names(network: &Network) -> Vec<String> {
    let named = match &network.description.task {
        Task::Classification { classes } => classes.clone(),
        Task::Forecasting { features, .. } => features.clone(),
        Task::Regression { outputs, .. } => outputs.clone(),
    };
    if named.is_empty() { (0..network.outputs()).map(|i| i.to_string()).collect() } else { named }
}

fn within(tolerance: f64) -> Value {
    json!({"require": {"each": "all", "within": tolerance}})
}

fn is_class(task: &Task, name: &str) -> bool {
    matches!(task, Task::Classification { classes } if classes.iter().any(|class| class == name))
}

/// The property that flags stand for, and the flag.
fn of_flags(args: &PropertyArgs, task: &Task) -> Result<Option<(&'static str, Value)>, Failure> {
    let classifies = matches!(task, Task::Classification { .. });
    let refuse = |flag: &str, what: &str| {
        Failure::usage(format!("{flag} is for models that {what}"))
            .hint("`gains model show` tells what a model is for; --property FILE asks anything of any")
    };
    // A comma may belong to a name.
    let named = |given: &[String]| split_names(given, &|name| is_class(task, name));
    let ambiguous = args.target.iter().chain(&args.allow).find_map(|text| {
        let Task::Classification { classes } = task else { return None };
        let inside = |class: &&String| class.contains(',') && text.contains(class.as_str());
        if is_class(task, text) { None } else { classes.iter().find(inside).map(|class| (text, class)) }
    });
    if let Some((text, class)) = ambiguous {
        return Err(Failure::usage(format!("'{text}' may be read in several ways: '{class}' is one class"))
            .hint("give the flag once for each class"));
    }
    let found = if !args.target.is_empty() {
        ("--target", json!({"require": {"never": named(&args.target)}}))
    } else if !args.allow.is_empty() {
        ("--allow", json!({"require": {"predicted": named(&args.allow)}}))
    } else if let Some(kept) = args.top {
        ("--top", json!({"require": {"top": kept}}))
    } else if let Some(tolerance) = args.tolerance {
        if classifies {
            return Err(refuse("--tolerance", "predict numbers"));
        }
        return Ok(Some(("--tolerance", within(tolerance))));
    } else if !args.between.is_empty() {
        let limited = |(name, limits): &(String, [Option<f64>; 2])| {
            let mut clause = json!({"output": name});
            for (key, limit) in ["at_least", "at_most"].into_iter().zip(limits) {
                if let Some(limit) = limit {
                    clause[key] = json!(limit);
                }
            }
            clause
        };
        let all: Vec<Value> = args.between.iter().map(limited).collect();
        return Ok(Some(("--between", json!({"require": {"all": all}}))));
    } else {
        return Ok(None);
    };
    if classifies { Ok(Some(found)) } else { Err(refuse(found.0, "classify")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comma may belong to the name of a class; otherwise it stands between two.
    #[test]
    fn lists_of_classes_are_split_unless_the_whole_is_one() {
        let classes = ["a", "b", "a,b"].map(String::from).to_vec();
        let task = Task::Classification { classes };
        let asked = |target: &str| {
            let args = PropertyArgs { target: vec![target.into()], ..PropertyArgs::default() };
            of_flags(&args, &task).ok().flatten().map(|(_, asked)| asked["require"]["never"].clone())
        };
        assert_eq!(asked("a,b"), Some(json!(["a,b"])));
        assert_eq!(asked("a, b"), Some(json!(["a", "b"])));
        assert_eq!(asked("b"), Some(json!(["b"])));
        // "a,b" and "c", or "a", "b" and "c"?
        assert_eq!(asked("a,b,c"), None);
    }
}
