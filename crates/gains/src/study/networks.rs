//! The networks a study is about, and the images they are asked about.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Given;
use crate::cli::{DataArgs, RegionArgs, SeriesArgs};
use crate::failure::Failure;
use crate::files;
use crate::question::{Model, Task};
use crate::results::{InputSetting, SubjectSetting};
use crate::subject::{Selection, Source, Subject};

/// `NAME=FILE`, or a file or bundled network that is called as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedModel {
    /// What tables call it.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

impl FromStr for NamedModel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = match text.split_once('=') {
            Some((name, path)) => (name.to_string(), PathBuf::from(path)),
            None => {
                let path = PathBuf::from(text);
                let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
                (stem.unwrap_or_default(), path)
            }
        };
        match name.trim().is_empty() || path.as_os_str().is_empty() {
            true => Err("give NAME=FILE, or FILE".into()),
            false => Ok(Self { name, path }),
        }
    }
}

/// The finished runs in a folder.
fn runs(folder: &Path) -> Result<Vec<NamedModel>, Failure> {
    let entries = std::fs::read_dir(folder)
        .map_err(|error| Failure::usage(format!("cannot read the folder '{}': {error}", folder.display())))?;
    let mut found: Vec<NamedModel> = entries
        .filter_map(Result::ok)
        .map(|entry| NamedModel {
            name: entry.file_name().to_string_lossy().into_owned(),
            path: entry.path().join("model.safetensors"),
        })
        .filter(|model| model.path.is_file())
        .collect();
    if found.is_empty() {
        return Err(Failure::usage(format!("there is no finished run in '{}'", folder.display()))
            .hint("--trained takes a folder of folders that `gains train` wrote"));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

struct Opened {
    name: String,
    model: Model,
    source: Source,
    /// The beginning of its hash, and what tells its images or records from others.
    asked: String,
}

/// What tells a collection from others, whichever of its samples are chosen.
fn collection(setting: &SubjectSetting) -> String {
    let SubjectSetting { data, split, forecast, inputs } = setting;
    match (forecast, inputs) {
        (Some(forecast), _) => forecast.question.clone(),
        (None, Some(InputSetting { inputs_hash, box_hash, question, .. })) => {
            let hashes = [(" ", inputs_hash), (", boxes ", box_hash)];
            let hashes =
                hashes.map(|(word, hash)| hash.as_ref().map_or(String::new(), |h| format!("{word}{h}")));
            format!("{data}{}, {question}", hashes.concat())
        }
        (None, None) => format!("{data} ({split})"),
    }
}

/// Networks with their images or records.
pub struct Networks {
    all: Vec<Opened>,
    data: DataArgs,
}

impl Networks {
    /// Reads the classifiers that were given and those of a folder of trained ones, or the bundled one of a name, and the
    /// first `samples` images, or as many as there are, if no others are asked for.
    pub fn open(given: &Given, default: &str, samples: usize) -> Result<Self, Failure> {
        Self::for_task(Task::Classes, given, default, samples)
    }

    /// The same of networks that forecast, and records.
    pub fn of_series(given: &Given, default: &str, samples: usize) -> Result<Self, Failure> {
        Self::for_task(Task::Forecasts, given, default, samples)
    }

    fn for_task(task: Task, given: &Given, default: &str, samples: usize) -> Result<Self, Failure> {
        let mut data = given.data.clone();
        if data.samples.is_none() {
            data.samples = Some(Selection::first(samples));
        }
        let bundled = NamedModel { name: default.into(), path: default.into() };
        let mut wanted = given.networks.clone();
        if let Some(folder) = &given.trained {
            wanted.extend(runs(folder)?);
        }
        if wanted.is_empty() {
            wanted.push(bundled);
        }
        let mut all: Vec<Opened> = Vec::new();
        for NamedModel { name, path } in wanted {
            if all.iter().any(|other| other.name == name) {
                return Err(Failure::usage(format!("two networks are called '{name}'"))
                    .hint("tell them apart by --network NAME=FILE"));
            }
            let model = Model::new(files::load_model(Some(&path))?);
            if model.task() != task {
                let kind = match task {
                    Task::Forecasts => "forecast series",
                    Task::Classes | Task::Regression => "tell classes apart",
                };
                return Err(Failure::usage(format!("'{name}' does not {kind}"))
                    .hint(format!("this study is about networks that {kind}")));
            }
            let (series, region) = (SeriesArgs::default(), RegionArgs::default());
            let source = Source::open(&model, &data, &series, &region)?;
            let setting = source.subject(&model, &data, &series, &region)?.setting();
            let asked = format!("{} on {}", model.network().hash, collection(&setting));
            all.push(Opened { name, model, source, asked });
        }
        Ok(Self { all, data })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// What one is called.
    pub fn name(&self, network: usize) -> &str {
        &self.all[network].name
    }

    /// The data set one was made for; nothing if it does not say.
    pub fn data_set(&self, network: usize) -> &str {
        self.all[network].model.network().description.dataset.as_deref().unwrap_or_default()
    }

    /// Their names with the beginnings of their hashes and where their images are from, for the setting of a study.
    /// Which of the images are asked about is said by the cases, so that a study can go on to further ones.
    pub fn setting(&self) -> String {
        let networks: Vec<String> =
            self.all.iter().map(|opened| format!("{} {}", opened.name, opened.asked)).collect();
        networks.join("; ")
    }

    /// The beginning of the hash of one, and where its images are from.
    pub fn asked(&self, network: usize) -> &str {
        &self.all[network].asked
    }

    /// The images of one.
    pub fn subject(&self, network: usize) -> Result<Box<dyn Subject + '_>, Failure> {
        let Opened { model, source, .. } = &self.all[network];
        source.subject(model, &self.data, &SeriesArgs::default(), &RegionArgs::default())
    }

    /// Numbers of the images of one.
    pub fn samples(&self, network: usize) -> Vec<usize> {
        self.subject(network).map(|subject| subject.indices().to_vec()).unwrap_or_default()
    }

    /// Every network with every one of its images, image by image: what is cut short has a little of every network.
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        let samples: Vec<Vec<usize>> = (0..self.len()).map(|network| self.samples(network)).collect();
        let most = samples.iter().map(Vec::len).max().unwrap_or_default();
        let at = |place: usize| {
            let with = move |(network, all): (usize, &Vec<usize>)| Some((network, *all.get(place)?));
            samples.iter().enumerate().filter_map(with).collect::<Vec<_>>()
        };
        (0..most).flat_map(at).collect()
    }

    /// One of them.
    pub fn model(&self, network: usize) -> &Model {
        &self.all[network].model
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::InputArgs;

    #[test]
    fn what_is_cut_short_has_a_little_of_every_network() {
        let network = |name: &str| NamedModel { name: name.into(), path: "fashion-mnist".into() };
        let given = Given { networks: vec![network("a"), network("b")], ..Given::for_tests() };
        let networks = Networks::open(&given, "", 3).ok().unwrap();
        assert_eq!(networks.pairs(), [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]);
        let further = Networks::open(&given, "", 4).ok().unwrap();
        assert_eq!(networks.setting(), further.setting(), "further images can be added");
        assert!(networks.setting().contains(" on fashion-mnist (test); b "), "{}", networks.setting());
    }

    #[test]
    fn other_images_are_another_setting_and_fewer_than_usual_are_taken_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let open = |first: u8, labels: &str| {
            let (inputs, classes) = (folder.path().join("x.csv"), folder.path().join("y.csv"));
            let line = |value: &dyn Fn(usize) -> String| (0..784).map(value).collect::<Vec<_>>().join(",");
            let row = |value: u8| line(&|_| (f64::from(value) / 255.0).to_string());
            let names = line(&|place| format!("p{place}"));
            std::fs::write(&inputs, format!("{names}\n{}\n{}\n", row(first), row(2))).unwrap();
            std::fs::write(&classes, format!("y\n{labels}")).unwrap();
            let own = InputArgs { inputs: Some(inputs), labels: Some(classes), ..InputArgs::default() };
            let given = Given { data: DataArgs { own, ..DataArgs::default() }, ..Given::for_tests() };
            Networks::open(&given, "fashion-mnist", 20)
                .unwrap_or_else(|failure| panic!("{}", failure.message))
        };
        let networks = open(1, "3\n4\n");
        assert_eq!(networks.samples(0), [0, 1]);
        assert_eq!(networks.setting(), open(1, "3\n4\n").setting());
        assert_ne!(networks.setting(), open(0, "3\n4\n").setting());
        assert_ne!(networks.setting(), open(1, "3\n5\n").setting());
    }

    #[test]
    fn folders_without_runs_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let given = |path: &Path| Given { trained: Some(path.into()), ..Given::for_tests() };
        let refused = |path: &Path| Networks::open(&given(path), "fashion-mnist", 1).err().unwrap().message;
        assert!(refused(folder.path()).contains("no finished run"));
        assert!(refused(&folder.path().join("nowhere")).contains("cannot read the folder"));
    }
}
