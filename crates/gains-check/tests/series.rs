//! Networks for series: laid out as `docs/certificates.md` says, compared with the recursion written down by hand.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

mod support;

use gains_check::fault::Deadline;
use gains_check::interval::Interval;
use gains_check::network::{Network, Node, Operator};
use gains_check::rows::{Row, Slopes, Tangents, Values, back};
use gains_check::rules::{Region, image};
use gains_check::series::Laid;
use gains_check::value;
use gains_check::witness::run;
use gains_check::{Holds, Model, check};
use support::Item;

/// Two statics and two features; the mean and the deviation have one entry each. There are no weights: every layer is a
/// slice or a function.
fn model(all: bool) -> Model {
    read(&description(all)).unwrap()
}

fn description(all: bool) -> String {
    let points = if all { "all" } else { "observed" };
    let slice =
        |first: usize, length: usize| format!(r#"{{"type": "slice", "first": {first}, "length": {length}}}"#);
    let gate = |entry: usize| format!(r#"[{}, {{"type": "sigmoid"}}]"#, slice(entry, 1));
    let solver = r#"{"method": "euler", "end_time": 7.0, "controller": {"type": "fixed", "steps": 1}}"#;
    format!(
        r#"{{"format": "gains-model", "version": 2, "input": {{"height": 1, "width": 1, "channels": 1}},
        "task": {{"type": "forecasting", "features": ["a", "b"], "statics": ["s", "t"]}},
        "layers": [{{"type": "ode", "dynamics": [{{"type": "sin"}}], "solver": {solver}}},
            {{"type": "pad", "after": 1}}],
        "encoder": {{"initial": [{{"type": "tanh"}}], "dynamics": [{{"type": "cos"}}], "update": {}, "reset": {},
            "candidate": [{}], "latent": [{{"type": "square"}}], "lead": 0.5, "points": "{points}"}}}}"#,
        gate(1),
        gate(3),
        slice(1, 2),
    )
}

fn read(description: &str) -> Result<Model, String> {
    let header = serde_json::json!({"__metadata__": {"gains": description}}).to_string();
    Model::read(&[&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat())
}

/// A series: times, what is observed of each point (0 where nothing is), statics and the time that is forecast.
#[derive(Clone)]
struct Case {
    /// Whether the walk stops at points where nothing is observed.
    all: bool,
    times: Vec<f64>,
    seen: Vec<[bool; 2]>,
    values: Vec<[f64; 2]>,
    statics: [f64; 2],
    target: f64,
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl Case {
    fn draw(random: &mut fastrand::Rng, all: bool) -> Self {
        let mut number = || random.f64() * 4.0 - 2.0;
        let count = 4;
        let mut times: Vec<f64> = (0..count).map(|_| number()).collect();
        times.sort_by(f64::total_cmp);
        times[2] = times[1];
        let values: Vec<[f64; 2]> = (0..count).map(|_| [number(), number()]).collect();
        let seen: Vec<[bool; 2]> =
            (0..count).map(|_| [[false, false], [true, false], [true, true]][random.usize(..3)]).collect();
        let shown = |(x, seen): (&[f64; 2], &[bool; 2])| {
            [f64::from(u8::from(seen[0])) * x[0], f64::from(u8::from(seen[1])) * x[1]]
        };
        let values = values.iter().zip(&seen).map(shown).collect();
        let target = if random.u8(..4) == 0 { 0.0 } else { random.f64() };
        Self { all, times, seen, values, statics: [random.f64(), -random.f64()], target }
    }

    /// Points with an observation, from the last to the first.
    fn observed(&self) -> Vec<usize> {
        (0..self.times.len()).rev().filter(|&i| self.seen[i].contains(&true)).collect()
    }

    /// What comes out, by hand.
    fn forecast(&self) -> f64 {
        let (mut mean, mut deviation) = (self.statics[0].tanh(), self.statics[1].tanh().abs());
        let stops = if self.all { (0..self.times.len()).rev().collect() } else { self.observed() };
        let mut here = stops.first().map_or(0.0, |&last| self.times[last] + 0.5);
        for i in stops {
            let step = self.times[i] - here;
            if step != 0.0 {
                mean += step * mean.cos();
            }
            here = self.times[i];
            if self.seen[i].contains(&true) {
                let (u, r) = (sigmoid(deviation), sigmoid(self.values[i][1]));
                let (new_mean, new_deviation) = (r * deviation, self.values[i][0].abs());
                mean = (1.0 - u) * new_mean + u * mean;
                deviation = (1.0 - u) * new_deviation + u * deviation;
            }
        }
        let latent = mean * mean;
        latent + self.target * latent.sin()
    }

    fn item(&self) -> Item {
        let flags = self.seen.iter().flatten().map(|&seen| f64::from(u8::from(seen))).collect();
        Item::Map(vec![
            ("times".into(), Item::Numbers(8, self.times.clone())),
            ("observed".into(), Item::Numbers(1, flags)),
            ("target".into(), Item::Float(self.target)),
        ])
    }

    fn network(&self, model: &Model) -> Network {
        let bytes = self.item().write();
        Laid::out(model, &value::read(&bytes).unwrap()).unwrap().network
    }

    fn inputs(&self) -> Vec<Vec<f64>> {
        let seen = self.observed().into_iter().map(|i| self.values[i].to_vec());
        std::iter::once(self.statics.to_vec()).chain(seen).collect()
    }

    /// A certificate that the mean error is below a limit, of inputs that do not move, shown by boxes; or, with the limit
    /// reached, that it is not.
    fn certificate(&self, model: &Model, truth: [f64; 2], limit: f64, holds: bool) -> Item {
        let boxes = self.inputs().into_iter().map(|x| {
            let x = Item::Numbers(8, x);
            Item::Array(vec![x.clone(), x])
        });
        let text = |text: &str| Item::Text(text.into());
        let map = |entries: Vec<(&str, Item)>| {
            Item::Map(entries.into_iter().map(|(key, item)| (key.to_string(), item)).collect())
        };
        let errors = map(vec![
            ("truth", Item::Numbers(8, truth.to_vec())),
            ("observed", Item::Numbers(1, vec![1.0, 1.0])),
            ("limit", Item::Float(limit)),
        ]);
        let network = self.network(model);
        let odes = network.nodes.iter().enumerate().filter(|(_, n)| matches!(n.operator, Operator::Ode(_)));
        let wide =
            |from: f64, to: f64| Item::Array(vec![Item::Numbers(8, vec![from]), Item::Numbers(8, vec![to])]);
        // The latent state is no error away from what it is, and one step leads to the end.
        let graphs = odes.map(|(value, _)| {
            let (latent, end) = (Self { target: 0.0, ..self.clone() }.forecast(), self.forecast());
            let place = [0, 1, 0, 0, 0, 0].map(Item::Integer).to_vec();
            let vertex = map(vec![
                ("at", Item::Array(place)),
                ("state", wide(latent - 1e-9, latent + 1e-9)),
                ("error", Item::Null),
                ("out", Item::Array(vec![Item::Array(vec![Item::Integer(1), Item::Integer(-1)])])),
            ]);
            map(vec![
                ("ode", Item::Integer(value as i64)),
                ("form", Item::Integer(0)),
                ("vertices", Item::Array(vec![vertex])),
                ("end", wide(end - 1e-8, end + 1e-8)),
            ])
        });
        let stay = Item::Array(vec![Item::Integer(network.nodes.len() as i64 + 1)]);
        let way = map(vec![("stops", stay)]);
        let row = map(vec![("row", Item::Integer(0)), ("way", way), ("bound", Item::Float(1e-9))]);
        let proof = map(vec![("graphs", Item::Array(graphs.collect())), ("rows", Item::Array(vec![row]))]);
        let steps = if self.target > 0.0 { vec![Item::Array(vec![Item::Integer(1)])] } else { vec![] };
        let witness = map(vec![
            ("inputs", Item::Array(self.inputs().into_iter().map(|x| Item::Numbers(8, x)).collect())),
            ("actions", Item::Array(steps)),
            ("outputs", Item::Numbers(8, vec![])),
        ]);
        map(vec![
            ("format", text("gains-certificate")),
            ("version", Item::Integer(1)),
            ("model", Item::Bytes(model.hash.to_vec())),
            ("arithmetic", text("real")),
            ("series", self.item()),
            ("region", map(vec![("boxes", Item::Array(boxes.collect()))])),
            ("property", map(vec![("errors", errors)])),
            ("claim", text(if holds { "verified" } else { "falsified" })),
            if holds { ("proof", proof) } else { ("witness", witness) },
        ])
    }
}

#[test]
fn forecasts_are_what_the_recursion_says() {
    let mut random = fastrand::Rng::with_seed(41);
    for all in [false, true] {
        let model = model(all);
        for _ in 0..300 {
            let case = Case::draw(&mut random, all);
            let network = case.network(&model);
            let boxes: Vec<Region> =
                case.inputs().iter().map(|x| x.iter().map(|&x| Interval::point(x)).collect()).collect();
            // One Euler step of the decoder.
            let outputs = run(&network, boxes, Deadline::default(), &mut |ode, state| {
                let slope = image(
                    &ode.dynamics,
                    1,
                    std::slice::from_ref(&state),
                    Interval::ZERO,
                    Deadline::default(),
                );
                Ok(vec![state[0] + case.target * slope[0]])
            });
            let (outputs, expected) = (outputs.unwrap(), case.forecast());
            assert!((outputs[0].middle() - expected).abs() < 1e-12, "{all}: {outputs:?}, not {expected}");
            assert_eq!(outputs[1], Interval::ZERO);
        }
    }
}

/// Points of blends lie in their boxes, and above rows that were taken back.
#[test]
fn blends_are_enclosed() {
    let mut random = fastrand::Rng::with_seed(43);
    let mut case = Case::draw(&mut random, false);
    case.seen[0] = [true, true];
    let network = case.network(&model(false));
    let index = network.nodes.iter().position(|node| matches!(node.operator, Operator::Blend)).unwrap();
    let [u, g, y] = network.nodes[index].arguments[..] else { panic!("three arguments") };
    for _ in 0..3000 {
        let mut interval = |low: f64, high: f64| {
            let (a, b) = (low + random.f64() * (high - low), low + random.f64() * (high - low));
            Interval { low: a.min(b), high: a.max(b) }
        };
        let mut boxes = vec![vec![Interval::ZERO]; index];
        (boxes[u], boxes[g], boxes[y]) =
            (vec![interval(0.0, 1.0)], vec![interval(-3.0, 3.0)], vec![interval(-3.0, 3.0)]);
        let enclosed = image(&network, index, &boxes, Interval::ZERO, Deadline::default())[0];
        let (slopes, tangents) = (Slopes::default(), Tangents::default());
        let known = Values {
            network: &network,
            boxes: &boxes,
            time: Interval::ZERO,
            slopes: &slopes,
            tangents: &tangents,
            deadline: Deadline::default(),
        };
        let (mut nearest, mut least, mut most) = ([f64::INFINITY; 2], f64::INFINITY, f64::NEG_INFINITY);
        for (side, sign) in [1.0, -1.0].into_iter().enumerate() {
            let mut row = Row::default();
            back(&network, index, &mut row, vec![sign], &known);
            for corner in 0..20 {
                let mut at = |x: Interval, bit: usize| match corner {
                    0..8 => [x.low, x.high][corner >> bit & 1],
                    _ => x.low + random.f64() * (x.high - x.low),
                };
                let point = [at(boxes[u][0], 0), at(boxes[g][0], 1), at(boxes[y][0], 2)];
                let value = (1.0 - point[0]) * point[1] + point[0] * point[2];
                (least, most) = (least.min(value), most.max(value));
                let below =
                    row.constant + [u, g, y].iter().zip(point).map(|(v, x)| row.on[v][0] * x).sum::<f64>();
                assert!(below <= sign * value + 1e-13, "{below} above {value}");
                nearest[side] = nearest[side].min(sign * value - below);
            }
        }
        assert!(enclosed.low <= least + 1e-14 && most - 1e-14 <= enclosed.high);
        assert!(least - enclosed.low < 1e-13 && enclosed.high - most < 1e-13, "the range is exact");
        let width = boxes[u][0].high - boxes[u][0].low;
        let loss = width * (boxes[g][0].high - boxes[g][0].low + boxes[y][0].high - boxes[y][0].low);
        assert!(nearest.iter().all(|near| *near <= loss + 1e-13), "{nearest:?}");
    }
}

/// Rows behind an Euler step are what they are in front of it.
#[test]
fn euler_steps_are_linear() {
    let mut random = fastrand::Rng::with_seed(45);
    let mut case = Case::draw(&mut random, true);
    case.times[0] = case.times[1] - 0.75;
    let network = case.network(&model(true));
    let pair = |node: &Node| matches!(node.operator, Operator::Affine(_)) && node.arguments.len() == 2;
    // Behind it, mean and deviation are listed.
    let index = network.nodes.iter().rposition(|node| pair(node) && node.shape.count() == 1).unwrap();
    let [mean, slope] = network.nodes[index].arguments[..] else { panic!("two arguments") };
    let mut boxes = vec![vec![Interval::ZERO]; index];
    (boxes[mean], boxes[slope]) =
        (vec![Interval { low: -2.0, high: 1.0 }], vec![Interval { low: -1.0, high: 3.0 }]);
    let (slopes, tangents) = (Slopes::default(), Tangents::default());
    let (network, boxes, time) = (&network, &boxes[..], Interval::ZERO);
    let known =
        Values { network, boxes, time, slopes: &slopes, tangents: &tangents, deadline: Deadline::default() };
    let mut row = Row::default();
    back(network, index, &mut row, vec![2.0], &known);
    assert_eq!((row.on[&mean][0], row.on[&slope][0]), (2.0, -1.5));
    assert!(row.constant <= 0.0 && row.constant > -1e-14);
    let enclosed = image(network, index, boxes, time, Deadline::default())[0];
    assert!((enclosed.low + 4.25).abs() < 1e-14 && (enclosed.high - 1.75).abs() < 1e-14, "{enclosed:?}");
}

/// A forecast and what it is compared with, a mean error of 0.375 away.
fn errors(random: &mut fastrand::Rng, all: bool) -> (Model, Case, [f64; 2]) {
    let (model, case) = (model(all), Case::draw(random, all));
    let truth = [case.forecast() + 0.5, -0.25];
    (model, case, truth)
}

#[test]
fn errors_are_means_of_absolute_differences() {
    let mut random = fastrand::Rng::with_seed(47);
    for all in [false, true] {
        for _ in 0..50 {
            let (model, case, truth) = errors(&mut random, all);
            let ask = |limit: f64, holds: bool| {
                check(&model, &case.certificate(&model, truth, limit, holds).write())
            };
            let found = ask(0.375_001, true);
            assert!(matches!(found, Ok(Holds::Verified(_))), "{found:?}");
            assert!(ask(0.374_999, true).is_err() && ask(0.375_001, false).is_err());
            let found = ask(0.374_999, false);
            assert!(matches!(found, Ok(Holds::Falsified(_))), "{found:?}");
        }
    }
}

/// Gates that are none, and other networks that nothing can be laid out for.
#[test]
fn encoders_that_make_no_sense_are_refused() {
    let mut random = fastrand::Rng::with_seed(59);
    let mut case = Case::draw(&mut random, true);
    case.seen[0] = [true, true];
    let bytes = case.item().write();
    let said = value::read(&bytes).unwrap();
    let lay_out = |change: (&str, &str)| {
        let description = description(true);
        assert!(description.contains(change.0), "{}", change.0);
        let model = read(&description.replacen(change.0, change.1, 1)).unwrap();
        Laid::out(&model, &said).map(|laid| laid.network.nodes.len())
    };
    assert!(lay_out(("tanh", "sin")).is_ok());
    for change in [
        (r#", {"type": "sigmoid"}]"#, r#", {"type": "tanh"}]"#),
        (r#""latent": ["#, r#""latent": [{"type": "slice", "first": 0, "length": 1}, "#),
        (r#""dynamics": [{"type": "cos"}]"#, r#""dynamics": [{"type": "pad", "after": 1}]"#),
        (r#""layers": ["#, r#""layers": [{"type": "ode", "dynamics": [], "solver": SOLVER}, "#),
        (r#"{"type": "pad", "after": 1}"#, r#"{"type": "relu"}"#),
        (r#""initial": ["#, r#""initial": [{"type": "pad", "after": 1}, "#),
    ] {
        let solver = r#"{"method": "euler", "end_time": 7.0, "controller": {"type": "fixed", "steps": 1}}"#;
        let to = change.1.replace("SOLVER", solver);
        assert!(lay_out((change.0, &to)).is_err(), "{}", change.1);
    }
}

/// Everything that makes it another series, or none.
#[test]
fn other_series_are_refused() {
    let mut random = fastrand::Rng::with_seed(53);
    let mut shorter = 0;
    for _ in 0..50 {
        let (model, case, truth) = errors(&mut random, true);
        let item = case.certificate(&model, truth, 0.375_001, true);
        let refused = |what: &str, change: &dyn Fn(&mut Item)| {
            let mut item = item.clone();
            change(&mut item);
            assert!(check(&model, &item.write()).is_err(), "{what}");
        };
        refused("no series", &|item| {
            let Item::Map(entries) = item else { panic!("a map") };
            entries.retain(|(key, _)| key != "series");
        });
        refused("times that fall", &|item| item.at("series").at("times").numbers()[3] -= 100.0);
        refused("a time too few", &|item| {
            item.at("series").at("times").numbers().pop();
        });
        refused("half observed", &|item| item.at("series").at("observed").numbers()[0] = 2.0);
        refused("a negative time", &|item| *item.at("series").at("target") = Item::Float(-1.0));
        refused("a later time", &|item| *item.at("series").at("target") = Item::Float(case.target + 0.25));
        refused("nothing asked", &|item| {
            item.at("property").at("errors").at("observed").numbers().fill(0.0);
        });
        refused("another truth", &|item| item.at("property").at("errors").at("truth").numbers()[0] += 1e-3);
        refused("both", &|item| {
            let Item::Map(entries) = item.at("property") else { panic!("a map") };
            entries.push(("condition".into(), Item::Integer(0)));
        });
        let unseen = case.observed().iter().position(|&point| !case.seen[point][1]);
        if let Some(at) = unseen {
            shorter += 1;
            refused("what is not observed moves", &|item| {
                for side in item.at("region").at("boxes").list()[at + 1].list() {
                    side.numbers()[1] = 1e-9;
                }
            });
        }
        if !case.observed().is_empty() {
            refused("an input too few", &|item| {
                item.at("region").at("boxes").list().pop();
            });
        }
    }
    assert!(shorter > 10);
}
