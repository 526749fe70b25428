//! What may move, what must hold and how to decide it, in the words of the command line.

use clap::ValueEnum;

use super::Model;
use crate::cli::{
    BoundArgs, FeatureEps, MethodArg, OutputArgs, PropertyArgs, RangeArg, RegionArgs, WorkArgs,
};
use crate::failure::Failure;
use crate::question::{self, AttackPlan, Plan, Purpose};

/// Where values stay.
#[derive(Clone, Debug, PartialEq)]
pub enum Range {
    /// All between two numbers.
    All(f64, f64),
    /// One feature between two numbers.
    One(String, f64, f64),
}

/// What is asked of the outputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Asked {
    /// The usual: the class stays, a forecast becomes hardly worse, numbers hardly move.
    #[default]
    Usual,
    /// What the text of a property file says.
    Text(String),
    /// Never one of these classes.
    Never(Vec<String>),
    /// Always one of these classes.
    Allowed(Vec<String>),
    /// The label stays among the largest outputs.
    Top(usize),
    /// Every output stays within this distance.
    Within(f64),
    /// Outputs stay between two numbers, of which one may be missing.
    Between(Vec<(String, [Option<f64>; 2])>),
}

/// How samples are decided. Words are those of the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `auto`, `box`, `linear`, `gains`, `tight`, `symbolic`, `stepwise`.
    pub method: String,
    /// `independent` or `difference`.
    pub step_form: Option<String>,
    /// `real` or `float32`.
    pub arithmetic: String,
    /// Gradient steps of the attack on what bounds leave open; 0 for none.
    pub attack_steps: usize,
    /// Seconds per sample and radius.
    pub timeout: f64,
    /// Most vertices of a trajectory graph.
    pub max_vertices: usize,
    /// Megabytes one sample may use.
    pub max_memory: usize,
    /// Worker threads; all cores if nothing is said.
    pub threads: Option<usize>,
    /// `inf`, `2` or `1`.
    pub norm: Option<String>,
    /// Where values stay.
    pub range: Vec<Range>,
    /// Only these features move.
    pub features: Vec<String>,
    /// Radii that do not follow eps.
    pub feature_eps: Vec<(String, f64)>,
    /// ν of forecasts.
    pub nu: Option<f64>,
    /// δ of forecasts.
    pub delta: Option<f64>,
    /// What is asked.
    pub asked: Asked,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            method: "auto".into(),
            step_form: None,
            arithmetic: "real".into(),
            attack_steps: 100,
            timeout: 10.0,
            max_vertices: 20_000,
            max_memory: 4096,
            threads: None,
            norm: None,
            range: Vec::new(),
            features: Vec::new(),
            feature_eps: Vec::new(),
            nu: None,
            delta: None,
            asked: Asked::Usual,
        }
    }
}

/// One of a few words.
pub fn word<T: ValueEnum>(what: &str, text: &str) -> Result<T, Failure> {
    T::from_str(text, false).map_err(|_| {
        let words: Vec<String> = T::value_variants()
            .iter()
            .filter_map(|variant| Some(variant.to_possible_value()?.get_name().to_owned()))
            .collect();
        Failure::usage(format!("{what} is '{text}'")).hint(format!("there are {}", words.join(", ")))
    })
}

/// A number from 0 on, of a size that makes sense.
pub fn size(what: &str, value: f64) -> Result<f64, Failure> {
    if (0.0..=1e9).contains(&value) {
        return Ok(value);
    }
    Err(Failure::usage(format!("{what} is {value}, not between 0 and 1e9")).hint("give a number from 0 on"))
}

/// A number above 0, of a size that makes sense.
pub fn positive(what: &str, value: f64) -> Result<f64, Failure> {
    if value > 0.0 && value <= 1e9 {
        return Ok(value);
    }
    Err(Failure::usage(format!("{what} is {value}, not above 0 and at most 1e9"))
        .hint("give a number above 0"))
}

impl Options {
    /// How to bound.
    pub(super) fn bounds(&self) -> Result<BoundArgs, Failure> {
        Ok(BoundArgs {
            method: word("method", &self.method)?,
            step_form: self.step_form.as_deref().map(|form| word("step_form", form)).transpose()?,
            arithmetic: word("arithmetic", &self.arithmetic)?,
        })
    }

    /// Only these features move, and so on.
    pub(super) fn region(&self) -> Result<RegionArgs, Failure> {
        let radius = |(name, eps): &(String, f64)| {
            Ok(FeatureEps::One(name.clone(), size(&format!("feature_eps of '{name}'"), *eps)?))
        };
        let range = |range: &Range| {
            let (Range::All(low, high) | Range::One(_, low, high)) = range;
            if low > high || low.is_nan() || high.is_nan() {
                return Err(Failure::usage(format!("range goes from {low} to {high}"))
                    .hint("the smaller number comes first"));
            }
            Ok(match range {
                Range::All(low, high) => RangeArg::All(*low, *high),
                Range::One(name, low, high) => RangeArg::One(name.clone(), *low, *high),
            })
        };
        Ok(RegionArgs {
            features: self.features.clone(),
            feature_eps: self.feature_eps.iter().map(radius).collect::<Result<_, Failure>>()?,
            range: self.range.iter().map(range).collect::<Result<_, _>>()?,
            norm: self.norm.as_deref().map(|norm| word("norm", norm)).transpose()?,
            nu: self.nu.map(|nu| size("nu", nu)).transpose()?,
            delta: self.delta.map(|delta| size("delta", delta)).transpose()?,
        })
    }

    /// How much work.
    pub(super) fn work(&self) -> Result<WorkArgs, Failure> {
        Ok(WorkArgs {
            threads: threads(self.threads)?,
            timeout: positive("timeout", self.timeout)?,
            max_vertices: self.max_vertices,
            max_memory: self.max_memory,
        })
    }

    /// What to try on a sample.
    pub(super) fn plan(&self, model: &question::Model) -> Result<Plan, Failure> {
        let steps = self.attack_steps;
        let attack = (steps > 0).then_some(AttackPlan { steps, ..AttackPlan::PAPER });
        Plan::new(model.task(), &self.bounds()?, attack, Purpose::Certify)
    }

    /// The methods that bound outputs; `auto` is affine forms and the tightest rows.
    pub(super) fn ways(&self, model: &question::Model) -> Result<Vec<question::Way>, Failure> {
        let bounds = self.bounds()?;
        let methods = match bounds.method {
            MethodArg::Auto => vec![MethodArg::Tight, MethodArg::Symbolic],
            method => vec![method],
        };
        let way = |method| {
            let bounds = BoundArgs { method, ..bounds.clone() };
            Ok(Plan::new(model.task(), &bounds, None, Purpose::Certify)?.way())
        };
        methods.into_iter().map(way).collect()
    }

    /// The network with what is asked of it.
    pub(super) fn asking(&self, model: &Model) -> Result<question::Model, Failure> {
        let flags = match &self.asked {
            Asked::Usual => return Ok(model.asked.clone()),
            Asked::Text(text) => return model.asked.asking_for(text),
            Asked::Never(classes) => PropertyArgs { target: classes.clone(), ..PropertyArgs::default() },
            Asked::Allowed(classes) => PropertyArgs { allow: classes.clone(), ..PropertyArgs::default() },
            Asked::Top(kept) => PropertyArgs { top: Some(*kept), ..PropertyArgs::default() },
            Asked::Within(distance) => {
                PropertyArgs { tolerance: Some(size("tolerance", *distance)?), ..PropertyArgs::default() }
            }
            Asked::Between(limits) => PropertyArgs { between: limits.clone(), ..PropertyArgs::default() },
        };
        question::Model::asking(model.asked.shared(), &flags)
    }
}

/// A number of threads that makes sense.
pub fn threads(asked: Option<usize>) -> Result<Option<u16>, Failure> {
    match asked {
        None => Ok(None),
        Some(threads @ 1..=1024) => Ok(u16::try_from(threads).ok()),
        Some(threads) => Err(Failure::usage(format!("threads is {threads}, not between 1 and 1024"))
            .hint("leave threads out to use all cores")),
    }
}

/// Results that go nowhere.
pub fn nowhere() -> OutputArgs {
    OutputArgs { out: None, format: crate::cli::Format::Jsonl, resume: false }
}
