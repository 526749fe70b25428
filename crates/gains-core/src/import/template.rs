//! The beginning of a description, guessed from the names and shapes of weights.
//!
//! Shapes tell linear layers and convolutions, and whether they have one input more, which is the time; names tell batch
//! normalisations and what stands in the dynamics of an ODE. What they do not tell (activations, the size of images, strides,
//! where the time is, the solver) is left blank for whoever knows the network, and a description with a blank in it is refused.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::description::{
    ControlledSpec, ControllerSpec, FORMAT, LayerSpec, RungeKutta, SolverSpec, Task, VERSION,
};
use crate::model_file::{ModelError, read_chosen};

/// How a text begins that is to be filled in.
pub(super) const BLANK: &str = "FILL IN";

/// A description with blanks.
#[derive(Serialize)]
struct Draft {
    format: &'static str,
    version: u32,
    name: &'static str,
    task: Task,
    input: Input,
    layers: Vec<Item>,
}

#[derive(Serialize)]
struct Input {
    height: Size,
    width: Size,
    channels: Size,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Size {
    Known(usize),
    Blank(String),
}

/// A layer, as far as it is known.
#[derive(Serialize)]
#[serde(untagged)]
enum Item {
    Known(LayerSpec),
    /// A layer of which weights do not tell everything.
    Open(Value),
    Ode {
        #[serde(rename = "type")]
        kind: &'static str,
        dynamics: Vec<Item>,
        solver: Value,
    },
    /// A normalisation whose groups its weights do not tell.
    Norm {
        #[serde(rename = "type")]
        kind: String,
        name: String,
        channels: usize,
    },
    Blank {
        #[serde(rename = "type")]
        kind: String,
    },
}

impl Item {
    fn blank(what: &str) -> Self {
        Self::Blank { kind: format!("{BLANK}: {what}") }
    }

    /// A layer with blanks for some of its keys.
    fn open(layer: LayerSpec, blanks: &[(&str, &str)]) -> Self {
        if blanks.is_empty() { Self::Known(layer) } else { Self::Open(with_blanks(layer, blanks)) }
    }
}

fn with_blanks(known: impl Serialize, blanks: &[(&str, &str)]) -> Value {
    let mut value = serde_json::to_value(known).unwrap_or_default();
    for (key, what) in blanks {
        value[*key] = format!("{BLANK}: {what}").into();
    }
    value
}

/// Nothing in a shape tells where among the inputs of a layer the time is.
const TIME: (&str, &str) =
    ("time", "true if the time is the first input; if it is another, move its weights there");

/// The description of a network with these weights, as far as they tell, in JSON.
pub fn template(weights: &[u8]) -> Result<String, ModelError> {
    let owners = owners(weights)?;
    let mut state = Walk::default();
    let mut layers = Vec::new();
    let mut dynamics = Vec::new();
    for owner in &owners {
        let items = state.items(owner);
        if owner.role == Role::Dynamics {
            dynamics.extend(items)
        } else {
            layers.extend(items)
        }
        if owner.role == Role::Dynamics && state.ode_at.is_none() {
            state.ode_at = Some(layers.len());
        }
    }
    let ode = Item::Ode { kind: "ode", dynamics, solver: solver() };
    match state.ode_at {
        Some(place) => layers.insert(place, ode),
        None => {
            layers.push(Item::blank("an ode among the layers: {\"type\": \"ode\", \"dynamics\": [...], ...}"))
        }
    }
    let classes = state.channels.unwrap_or(2);
    let draft = Draft {
        format: FORMAT,
        version: VERSION,
        name: "my network",
        task: Task::Classification { classes: (0..classes).map(|i| i.to_string()).collect() },
        input: state.input.unwrap_or_else(|| Input {
            height: Size::Known(1),
            width: Size::Known(1),
            channels: Size::Blank(format!("{BLANK}: features")),
        }),
        layers,
    };
    serde_json::to_string_pretty(&draft).map_err(|e| ModelError::Description(e.to_string()))
}

/// A solver to begin with, the paper's.
fn solver() -> Value {
    let controller = ControllerSpec::ControlledAdaptive(ControlledSpec {
        factor: 2,
        tolerance: 0.005,
        initial_step: 0.25,
        minimum_step: 0.02,
        rejections_after_clipping: 1,
    });
    let solver = SolverSpec { method: RungeKutta::Dopri5, controller, end_time: 1.0 };
    with_blanks(
        solver,
        &[("method", "dopri5, rk4, …; controller and end_time are the paper's: look at them, too")],
    )
}

/// Where in a network a module stands, by its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Encoder,
    Other,
    Dynamics,
    Head,
}

impl Role {
    fn of(name: &str) -> Self {
        // Words in which an ODE is none.
        let name = name.to_lowercase().replace("encode", "enc").replace("decode", "dec").replace("model", "");
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if has(&["ode", "dynamic", "func", "flow", "field"]) {
            Self::Dynamics
        } else if has(&["enc", "embed", "stem", "down", "feature", "input"]) {
            Self::Encoder
        } else if has(&["head", "dec", "class", "readout", "output", "fc"]) {
            Self::Head
        } else {
            Self::Other
        }
    }
}

/// A part of a name; numbers are ordered as numbers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    Number(u64),
    Word(String),
}

/// A module that has tensors.
struct Owner {
    name: String,
    role: Role,
    pieces: Vec<Piece>,
    /// Shapes by what the tensors are called behind the name.
    parts: BTreeMap<String, Vec<usize>>,
}

/// The modules, in the order in which they probably follow each other.
fn owners(weights: &[u8]) -> Result<Vec<Owner>, ModelError> {
    let mut found: BTreeMap<String, Owner> = BTreeMap::new();
    for (tensor, (shape, _)) in read_chosen(weights, |name| !name.ends_with(super::state_dict::COUNTER))? {
        let (name, part) = tensor.rsplit_once('.').unwrap_or((&tensor, ""));
        let piece = |text: &str| text.parse().map_or_else(|_| Piece::Word(text.into()), Piece::Number);
        let owner = found.entry(name.into()).or_insert_with(|| Owner {
            name: name.into(),
            role: Role::of(name),
            pieces: name.split('.').map(piece).collect(),
            parts: BTreeMap::new(),
        });
        owner.parts.insert(part.into(), shape);
    }
    let mut owners: Vec<Owner> = found.into_values().collect();
    owners.sort_by(|a, b| (a.role, &a.pieces).cmp(&(b.role, &b.pieces)));
    Ok(owners)
}

/// What is known after the modules so far.
#[derive(Default)]
struct Walk {
    channels: Option<usize>,
    is_image: bool,
    before: Vec<Piece>,
    input: Option<Input>,
    ode_at: Option<usize>,
}

impl Walk {
    /// The layers of a module, and blanks for what must be in front of it.
    fn items(&mut self, owner: &Owner) -> Vec<Item> {
        let mut items = self.gap(&owner.pieces);
        let item = match owner.parts.get("weight").map(Vec::as_slice) {
            Some(&[outputs, inputs, height, width]) => {
                let (in_channels, time) = self.inputs(inputs, owner.role);
                self.begin(in_channels, true);
                self.channels = Some(outputs);
                let mut open = if time { vec![TIME] } else { Vec::new() };
                // Dynamics keep the size of their state.
                if owner.role != Role::Dynamics {
                    open.extend([("stride", "[1, 1]?"), ("padding", "[0, 0]?")]);
                }
                let layer = LayerSpec::Conv2d {
                    name: owner.name.clone(),
                    in_channels,
                    out_channels: outputs,
                    kernel: [height, width],
                    stride: [1, 1],
                    padding: if owner.role == Role::Dynamics { [height / 2, width / 2] } else { [0, 0] },
                    dilation: [1, 1],
                    time,
                };
                Item::open(layer, &open)
            }
            Some(&[outputs, inputs]) => {
                let (in_features, time) = self.inputs(inputs, owner.role);
                self.begin(in_features, false);
                if std::mem::take(&mut self.is_image) && items.is_empty() {
                    items.push(Item::blank("flatten, or global_avg_pool"));
                }
                self.channels = Some(outputs);
                let name = owner.name.clone();
                let layer = LayerSpec::Linear { name, in_features, out_features: outputs, time };
                Item::open(layer, if time { &[TIME] } else { &[] })
            }
            weight => norm(owner, weight).unwrap_or_else(|| {
                Item::blank(&format!("what '{}' does with its tensors {}", owner.name, shapes(owner)))
            }),
        };
        items.push(item);
        self.before.clone_from(&owner.pieces);
        items
    }

    /// The first layer tells what the network takes.
    fn begin(&mut self, inputs: usize, image: bool) {
        if self.input.is_none() {
            let side =
                |what: &str| if image { Size::Blank(format!("{BLANK}: {what}")) } else { Size::Known(1) };
            self.input =
                Some(Input { height: side("height"), width: side("width"), channels: Size::Known(inputs) });
            self.is_image = image;
        }
    }

    /// How many inputs a layer of some dynamics takes, and whether the time is one more.
    fn inputs(&self, inputs: usize, role: Role) -> (usize, bool) {
        let time = role == Role::Dynamics && inputs > 1 && self.channels == Some(inputs - 1);
        (inputs - usize::from(time), time)
    }

    /// Blanks for layers without weights: one for each number that `nn.Sequential` leaves out, or one between modules whose
    /// names do not tell.
    fn gap(&self, next: &[Piece]) -> Vec<Item> {
        let (Some((last, family)), Some((last_before, family_before))) =
            (next.split_last(), self.before.split_last())
        else {
            return match next.last() {
                Some(Piece::Number(first)) => blanks(*first),
                _ => Vec::new(),
            };
        };
        match (last_before, last) {
            (Piece::Number(a), Piece::Number(b)) if family == family_before => {
                blanks(b.saturating_sub(a + 1))
            }
            (_, Piece::Number(b)) => blanks(*b),
            _ if family == family_before => blanks(1),
            _ => Vec::new(),
        }
    }
}

/// A normalisation: by batches if there are statistics of batches.
fn norm(owner: &Owner, weight: Option<&[usize]>) -> Option<Item> {
    let name = owner.name.clone();
    match (owner.parts.get("running_mean").map(Vec::as_slice), weight) {
        (Some(&[channels]), weight) => {
            let affine = weight.is_some();
            Some(Item::Known(LayerSpec::BatchNorm { name, channels, eps: 1e-5, affine }))
        }
        (None, Some(&[channels])) => Some(Item::Norm {
            kind: format!("{BLANK}: group_norm with its groups, or layer_norm"),
            name,
            channels,
        }),
        _ => None,
    }
}

/// So many blanks, within reason.
fn blanks(count: u64) -> Vec<Item> {
    const MOST: u64 = 4;
    (0..count.min(MOST)).map(|_| Item::blank("relu, tanh, flatten, …, or remove this layer")).collect()
}

fn shapes(owner: &Owner) -> String {
    let told: Vec<String> = owner.parts.iter().map(|(part, shape)| format!("{part} {shape:?}")).collect();
    told.join(", ")
}
