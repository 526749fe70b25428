//! Studies that compare trainings: every variant is trained with every seed, and each network asked about each image.
//!
//! Such a study is a [`Design`]: its variants as presets of `gains train` with settings changed, and the paper's
//! figures. Networks are trained into the study's folder as usual runs, which `gains train` can go on with, or taken
//! from a folder where somebody trained them.

mod ablation;
mod order;

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use gains_core::Arithmetic;

use super::chart::Look;
use super::{
    Axis, Case, Chart, Curve, Done, Figures, Given, NamedModel, Networks, Origin, Panel, Report, Study,
    Table, deviation, mean, shown,
};
use crate::campaign::unlimited;
use crate::cli::DataArgs;
use crate::failure::Failure;
use crate::question::{Budget, Method, StepForm, Way};
use crate::subject::OwnSource;
pub use ablation::ablation;
use order::slug;
pub use order::{Order, Train};

/// The authors' seeds; a quick study takes the first.
const SEEDS: [u64; 3] = [12345, 12346, 12347];
/// Seconds a bound may take.
const PATIENCE: u64 = 60;
/// What proofs are by: the paper's method and ours.
const PROOFS: [(&str, Method, StepForm); 2] =
    [("gains", Method::Gains, StepForm::Independent), ("tight", Method::Tight, StepForm::Difference)];

/// How a variant is trained.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The preset.
    pub preset: &'static str,
    /// What `--set` changes in it.
    pub changes: Vec<&'static str>,
}

/// Mean and deviation, in percent.
pub type Spread = (f64, f64);

/// One of the trainings that are compared.
pub struct Variant {
    /// What tables call it.
    pub name: &'static str,
    /// At full size.
    pub full: Recipe,
    /// In minutes.
    pub quick: Recipe,
    /// What the paper has: standard accuracy, then one for each radius, as far as it goes; empty if it has nothing.
    pub paper: Vec<Spread>,
}

/// What is asked about each image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Whether it is certified.
    Certified,
    /// Whether it withstands an attack.
    Attacked,
}

/// A comparison of trainings.
pub struct Design {
    /// Above table and picture.
    pub title: &'static str,
    /// File name of the picture.
    pub picture: &'static str,
    /// Radii at full size, those of the paper.
    pub radii: &'static [f64],
    /// Radii of a quick study.
    pub quick_radii: &'static [f64],
    /// What is asked.
    pub asked: Asked,
    /// What is compared.
    pub variants: Vec<Variant>,
    /// What a quick study leaves out.
    pub shortened: &'static str,
}

/// A network of the study.
struct Run {
    variant: usize,
    order: Order,
    network: OnceLock<Result<Networks, String>>,
}

/// A comparison of trainings that is ready to run.
pub struct Trained {
    design: Design,
    given: Given,
    runs: Vec<Run>,
    /// How many images there are if none are asked for.
    most: usize,
    /// Numbers of the images.
    samples: Vec<usize>,
    radii: &'static [f64],
}

/// Numbers of the images: those asked for, or the first `most` of those that are there.
fn samples(data: &DataArgs, most: usize) -> Result<Vec<usize>, Failure> {
    match (&data.samples, &data.own.inputs) {
        (_, Some(path)) if path == Path::new("-") => {
            Err(Failure::usage("the inputs are read for each network, standard input can be read but once")
                .hint("give a file with --inputs"))
        }
        (Some(samples), _) => Ok(samples.indices()),
        (None, None) => Ok((0..most).collect()),
        (None, Some(_)) => Ok((0..most.min(OwnSource::given(data)?)).collect()),
    }
}

impl Trained {
    /// Looks at the networks that are there already. Of those that can only be taken the runs have to be; a run that
    /// broke down is one without a result.
    pub fn new(design: Design, given: &Given) -> Result<Self, Failure> {
        let folder = given.trained.clone().unwrap_or_else(|| given.folder.join("networks"));
        if given.trained.is_some() && !folder.is_dir() {
            return Err(Failure::usage(format!("there is no folder '{}'", folder.display())).hint(
                "--trained takes the folder with the runs of `gains train`, or leave it out to train here",
            ));
        }
        let seeds = if given.quick { &SEEDS[..1] } else { &SEEDS[..] };
        let mut runs = Vec::new();
        for (variant, Variant { name, full, quick, .. }) in design.variants.iter().enumerate() {
            let (recipe, kind) = if given.quick { (quick, "quick-") } else { (full, "") };
            for &seed in seeds {
                let order = Order {
                    preset: recipe.preset,
                    changes: recipe
                        .changes
                        .iter()
                        .map(|change| (*change).into())
                        .chain(given.changes.clone())
                        .collect(),
                    seed,
                    folder: folder.join(format!("{kind}{}-seed{seed}", slug(name))),
                };
                runs.push(Run { variant, order, network: OnceLock::new() });
            }
        }
        let radii = if given.quick { design.quick_radii } else { design.radii };
        let most = given.size(100, 1000);
        let samples = samples(&given.data, most)?;
        let study = Self { design, given: given.clone(), runs, most, samples, radii };
        for run in &study.runs {
            if run.order.model().exists() {
                let networks = study.open(run)?;
                run.network.get_or_init(|| Ok(networks));
            } else if given.trained.is_some() && !run.order.folder.is_dir() {
                return Err(Failure::usage(format!("there is no network '{}'", run.order.model().display()))
                    .hint(format!("train it with `{}`", run.order.command())));
            }
        }
        Ok(study)
    }

    fn open(&self, run: &Run) -> Result<Networks, Failure> {
        let name = self.design.variants[run.variant].name.to_string();
        let networks = vec![NamedModel { name, path: run.order.model() }];
        Networks::open(&Given { networks, trained: None, ..self.given.clone() }, "", self.most)
    }

    /// The network of a run, trained if it is not there yet.
    fn ready<'a>(&self, run: &'a Run) -> Result<&'a Networks, String> {
        let made = run.network.get_or_init(|| {
            if !run.order.model().exists() && self.given.trained.is_some() {
                return Err(format!("the training in '{}' did not finish", run.order.folder.display()));
            }
            if !run.order.model().exists() {
                (self.given.train)(&run.order).map_err(|failure| match failure.hint {
                    Some(hint) => format!("{}; {hint}", failure.message),
                    None => failure.message,
                })?;
            }
            if !run.order.model().exists() {
                return Err("the training was interrupted".into());
            }
            self.open(run).map_err(|failure| failure.message)
        });
        made.as_ref().map_err(Clone::clone)
    }

    fn of(&self, case: usize) -> (&Run, usize) {
        (&self.runs[case / self.count()], case % self.count())
    }

    /// Images a network is asked about.
    fn count(&self) -> usize {
        self.samples.len()
    }

    fn names(&self) -> Vec<&'static str> {
        match self.design.asked {
            Asked::Certified => PROOFS.iter().map(|(name, ..)| *name).collect(),
            Asked::Attacked => vec!["attacked"],
        }
    }

    /// What came out for a variant, seed by seed, in percent.
    fn shares(&self, done: &Done<'_>, variant: usize, figure: &str) -> Vec<f64> {
        let mine = self.runs.iter().enumerate().filter(|(_, run)| run.variant == variant);
        mine.filter_map(|(index, _)| {
            let found = done.values(figure, |case| case / self.count() == index);
            mean(&found).map(|share| 100.0 * share)
        })
        .collect()
    }

    fn row(&self, done: &Done<'_>, variant: usize) -> Vec<String> {
        let spread = |values: &[f64]| match values {
            [] => "–".into(),
            [one] => format!("{one:.1}"),
            _ => format!("{} ± {}", shown(mean(values), 1), shown(deviation(values), 1)),
        };
        let Variant { name, paper, .. } = &self.design.variants[variant];
        let theirs = |place: usize| match paper.get(place) {
            _ if !self.is_whole() => String::new(),
            Some((middle, 0.0)) => format!(" ({middle:.1})"),
            Some((middle, deviation)) => format!(" ({middle:.1} ± {deviation:.1})"),
            None => String::new(),
        };
        let standard = self.shares(done, variant, "standard");
        let mut row = vec![(*name).to_string(), standard.len().to_string(), spread(&standard) + &theirs(0)];
        for (place, eps) in self.radii.iter().enumerate() {
            for figure in self.names() {
                // The paper's own method is what its figures are of.
                let beside = if figure == "tight" { String::new() } else { theirs(place + 1) };
                row.push(spread(&self.shares(done, variant, &format!("{figure} {eps}"))) + &beside);
            }
        }
        row
    }

    /// Whether the trainings have their full size.
    fn is_whole(&self) -> bool {
        !self.given.quick && self.given.changes.is_empty()
    }

    /// Whether the paper has anything to compare with.
    fn is_published(&self) -> bool {
        self.design.variants.iter().any(|variant| !variant.paper.is_empty())
    }

    /// The paper's figures, which are of the full size.
    fn published(&self) -> Table {
        let mut header = vec!["training".to_string(), "standard %".into()];
        header.extend(self.design.radii.iter().map(|eps| format!("eps {eps}")));
        let row = |Variant { name, paper, .. }: &Variant| {
            let figures = paper.iter().map(|(middle, deviation)| match deviation {
                0.0 => format!("{middle:.1}"),
                _ => format!("{middle:.1} ± {deviation:.1}"),
            });
            let missing = std::iter::repeat_n("–".to_string(), 1 + self.design.radii.len() - paper.len());
            std::iter::once((*name).to_string()).chain(figures).chain(missing).collect()
        };
        let rows = self.design.variants.iter().map(row).collect();
        Table { title: "The paper, at full size".into(), header, rows }
    }

    fn chart(&self, done: &Done<'_>) -> Chart {
        let last = self.names().pop().unwrap_or_default();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for (variant, Variant { name, paper, .. }) in self.design.variants.iter().enumerate() {
            let at = |figure: &str| mean(&self.shares(done, variant, figure));
            let mut points: Vec<(f64, f64)> = at("standard").map(|share| (0.0, share)).into_iter().collect();
            for eps in self.radii {
                points.extend(at(&format!("{last} {eps}")).map(|share| (*eps, share)));
            }
            ours.push(Curve::line(name, points));
            let radii = std::iter::once(&0.0).chain(self.design.radii);
            let points = radii.zip(paper).map(|(eps, (middle, _))| (*eps, *middle)).collect();
            theirs.push(Curve { name: (*name).into(), look: Look::Line, points });
        }
        let panel = |title: String, curves| Panel {
            title,
            x: Axis::linear("ε"),
            y: Axis::percent("percent of images"),
            curves,
        };
        let how = match self.design.asked {
            Asked::Certified => "certified by tight",
            Asked::Attacked => "right under attack",
        };
        let size = if self.is_whole() { "" } else { ", shortened" };
        let mut panels = vec![panel(format!("ours, {how}{size}"), ours)];
        panels.extend(self.is_published().then(|| panel("paper".into(), theirs)));
        Chart { title: self.design.title.into(), panels }
    }
}

impl Study for Trained {
    fn setting(&self) -> String {
        let one = |Variant { name, full, quick, .. }: &Variant| {
            let recipe = if self.given.quick { quick } else { full };
            format!("{name}: {}", [&[recipe.preset], &recipe.changes[..]].concat().join(" "))
        };
        let variants: Vec<String> = self.design.variants.iter().map(one).collect();
        let all = match &self.given.changes[..] {
            [] => String::new(),
            changes => format!("; all: {}", changes.join(" ")),
        };
        format!("{}{all}", variants.join("; "))
    }

    fn cases(&self) -> Vec<Case> {
        let all = 0..self.runs.len() * self.count();
        let case = |case: usize| {
            let (run, place) = self.of(case);
            Case(vec![
                ("variant", self.design.variants[run.variant].name.into()),
                ("seed", run.order.seed.to_string()),
                ("image", self.samples[place].to_string()),
            ])
        };
        all.map(case).collect()
    }

    fn work(&self, case: usize) -> Result<Figures, String> {
        let (run, place) = self.of(case);
        let networks = self.ready(run)?;
        let subject = networks.subject(0).map_err(|failure| failure.message)?;
        let sample = self.samples[place];
        if !subject.indices().contains(&sample) {
            return Err("there are fewer images".into());
        }
        let word = |is: bool| if is { 1.0 } else { 0.0 };
        let correct = subject.question(sample, 0.0).is_answered(unlimited());
        let mut figures = Figures::default().with("standard", word(correct));
        for &eps in self.radii {
            let question = subject.question(sample, eps);
            if self.design.asked == Asked::Attacked {
                figures = figures.with(
                    &format!("attacked {eps}"),
                    word(correct && question.withstands(sample, unlimited())),
                );
                continue;
            }
            for (name, method, step_form) in PROOFS {
                let way = Way { method, step_form, arithmetic: Arithmetic::Real };
                let budget = Budget { timeout: Some(Duration::from_secs(PATIENCE)), ..unlimited() };
                let proved = correct
                    && question.bound(way, budget, |bounded| bounded.margin).is_ok_and(|margin| margin > 0.0);
                figures = figures.with(&format!("{name} {eps}"), word(proved));
            }
        }
        Ok(figures)
    }

    /// A network that is trained on the way has its origin from then on.
    fn origin(&self, case: usize) -> Option<Origin> {
        let run = self.of(case).0;
        if run.network.get().is_none() && !run.order.model().exists() {
            return None;
        }
        let networks = self.ready(run).ok()?;
        let folder = run.order.folder.file_name()?.to_string_lossy();
        Some(Origin { run: folder.into_owned(), network: networks.asked(0).into() })
    }

    fn orders(&self) -> Vec<&Order> {
        self.runs.iter().map(|run| &run.order).collect()
    }

    fn report(&self, done: &Done<'_>) -> Report {
        // A shortened study has the paper's figures in a table of their own.
        let beside = if self.is_whole() && self.is_published() { " (paper)" } else { "" };
        let mut header = vec!["training".into(), "seeds".into(), format!("standard %{beside}")];
        for eps in self.radii {
            header.extend(self.names().iter().map(|name| match *name {
                "tight" => format!("tight, eps {eps}"),
                name => format!("{name}, eps {eps}{beside}"),
            }));
        }
        let rows = (0..self.design.variants.len()).map(|variant| self.row(done, variant)).collect();
        let size = match &self.given.trained {
            Some(_) => {
                "The networks were given; their records (`gains model show`) say how they were trained."
            }
            None if self.given.quick => self.design.shortened,
            None if self.is_whole() && !self.is_published() => "The presets' schedules, the paper's seeds.",
            None if self.is_whole() => "The paper's schedule and seeds.",
            None => "The paper's seeds, schedules changed.",
        };
        let mut remarks =
            vec![size.to_string(), format!("Each network was asked about {} images.", self.count())];
        if !self.given.changes.is_empty() {
            remarks.push(format!("Changed in every training: {}.", self.given.changes.join(", ")));
        }
        remarks.extend(["The networks, to train them elsewhere or side by side:".into()]);
        remarks.extend(self.runs.iter().map(|run| format!("    {}", run.order.command())));
        let mut tables = vec![Table { title: self.design.title.into(), header, rows }];
        tables.extend((!self.is_whole() && self.is_published()).then(|| self.published()));
        Report { tables, charts: vec![(self.design.picture, self.chart(done))], remarks }
    }
}

#[cfg(test)]
pub mod tests;
