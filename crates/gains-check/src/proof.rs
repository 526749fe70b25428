//! Proofs: trees of nodes, each of which speaks of a part of the region.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::certificate::{Ball, Property, Way, tangent};
use crate::fault::{Deadline, Fault};
use crate::form_proof;
use crate::graph::{Graph, LINES};
use crate::interval::{Interval, add_down};
use crate::network::{Network, Operator};
use crate::rows::{Linear, Row, Tangents, Values, back};
use crate::rules::{Region, image, meet};
use crate::steps::MAX_INTERVALS;
use crate::value::{Fields, Value, bad, fits, shown};

/// What a proof is about.
pub struct Question {
    /// The network.
    pub network: Arc<Network>,
    /// The boxes of its inputs.
    pub inputs: Vec<Region>,
    /// The ball that cuts the first, if any.
    pub ball: Option<Ball>,
    /// What must hold of its outputs.
    pub property: Property,
    /// When to stop.
    pub deadline: Deadline,
}

impl Question {
    /// In words: how far inputs vary, and what is asked.
    pub fn about(&self) -> String {
        // The ball cuts the first input.
        let reach = |input: usize, entry: usize| match &self.ball {
            Some(ball) if input == 0 => 2.0 * ball.scales[entry],
            _ => f64::INFINITY,
        };
        let widths = self.inputs.iter().enumerate().flat_map(|(input, boxes)| {
            boxes.iter().enumerate().map(move |(entry, x)| (x.high - x.low).min(reach(input, entry)))
        });
        let (all, varying) = (widths.clone().count(), widths.clone().filter(|width| *width > 0.0).count());
        let widest = widths.clone().fold(0.0, f64::max);
        let least = widths.filter(|width| *width > 0.0).fold(f64::INFINITY, f64::min);
        // The same but for the rounding of their ends.
        let same = least >= widest * (1.0 - 1e-9) || varying == 0;
        let by = if same { widest.to_string() } else { format!("{least} to {widest}") };
        let ball = self.ball.as_ref().map_or(String::new(), |ball| {
            let reach = ball.scales.iter().copied().fold(0.0, f64::max);
            format!(" in a ball of the norm {} that reaches as far as {reach}", ball.norm)
        });
        let rows = &self.property.rows;
        let asked = match (&self.property.errors, self.property.leader()) {
            (Some((_, limit)), _) => {
                let observed = rows[0].coefficients.iter().filter(|a| **a != 0.0).count();
                format!("the mean error of {observed} forecast values is below {limit}")
            }
            (None, Some(leader)) => {
                format!("output {leader} is the largest of {}", rows[0].coefficients.len())
            }
            (None, None) => format!("a condition on {} linear functions of the outputs", rows.len()),
        };
        format!("{varying} of {all} inputs vary by {by}{ball}; {asked}")
    }
}

/// Keys of a claimed box, and of a graph.
const CLAIM: &str = "value lower upper lower_by upper_by ways";
const GRAPH: &str = "ode form vertices end";

/// One side of a split.
#[derive(Clone, Copy)]
struct Constraint {
    /// The ODE of whose dynamics a value is split, at its start; else it is one of the network.
    start: Option<usize>,
    value: usize,
    entry: usize,
    at: f64,
    above: bool,
}

impl Constraint {
    /// Cuts a box.
    fn cut(&self, boxes: &mut Region) -> Result<(), Fault> {
        let side = match self.above {
            true => Interval { low: self.at, high: f64::INFINITY },
            false => Interval { low: f64::NEG_INFINITY, high: self.at },
        };
        boxes[self.entry] = boxes[self.entry].meet(side).ok_or(Fault::Empty)?;
        Ok(())
    }

    /// A function of what is split that is nowhere positive on this side, times a factor.
    fn nowhere_positive(&self, entries: usize, factor: f64) -> Linear {
        let sign = if self.above { -factor } else { factor };
        let mut coefficients = vec![0.0; entries];
        coefficients[self.entry] = sign;
        Linear { coefficients, constant: -(sign * Interval::point(self.at)).high }
    }
}

/// What is known at a node.
#[derive(Clone)]
struct Known {
    boxes: Vec<Region>,
    graphs: BTreeMap<usize, Rc<Graph>>,
    constraints: Vec<Constraint>,
    cuts: Vec<Row>,
    shown: Vec<bool>,
    /// Slopes beside functions made of pieces.
    tangents: Tangents,
}

/// What a proof consists of, counted.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Count {
    /// Nodes of the tree.
    pub nodes: usize,
    /// Vertices of all graphs.
    pub vertices: usize,
    /// Edges of all graphs.
    pub edges: usize,
    /// Rows that were taken back.
    pub rows: usize,
}

/// Checks a proof.
pub fn check(question: &Question, proof: &Value) -> Result<Count, Fault> {
    let network = &question.network;
    let boxes = network.unknown();
    let shown = vec![false; question.property.rows.len()];
    let (constraints, cuts, tangents) = (vec![], vec![], Tangents::default());
    let known = Known { boxes, graphs: BTreeMap::new(), constraints, cuts, shown, tangents };
    let mut checker = Checker { question, count: Count::default(), room: MAX_INTERVALS };
    checker.node(proof, &known)?;
    Ok(checker.count)
}

struct Checker<'a> {
    question: &'a Question,
    count: Count,
    /// How many more intervals may be kept.
    room: usize,
}

impl Checker<'_> {
    /// Checks that a node holds, given what is known above it. What it keeps in memory it gives back.
    fn node(&mut self, value: &Value, above: &Known) -> Result<(), Fault> {
        self.question.deadline.check()?;
        let boxes: usize = above.boxes.iter().map(Vec::len).sum();
        let cuts: usize = above.cuts.iter().flat_map(|cut| cut.on.values()).map(Vec::len).sum();
        // Once for the node itself, once for the part of it that a split goes on with.
        let (room, kept) = (self.room, 2 * (boxes + cuts + LINES * self.question.network.sloped()));
        self.room = room.checked_sub(kept).ok_or_else(|| bad("too deep a tree"))?;
        let holds = self.node_in_room(value, above);
        self.room = room;
        holds
    }

    fn node_in_room(&mut self, value: &Value, above: &Known) -> Result<(), Fault> {
        self.count.nodes += 1;
        let fields = value.fields("boxes graphs lines cuts rows forms split")?;
        let mut known = above.clone();
        match self.work(fields, &mut known) {
            // The region is not empty: only cases of it may be.
            Err(Fault::Empty) if known.constraints.is_empty() => {
                return Err(Fault::wrong("no input is left"));
            }
            Err(Fault::Empty) => return Ok(()),
            other => other?,
        }
        if self.question.property.condition.follows(&known.shown) {
            return Ok(());
        }
        if let Some(graphs) = fields.find("forms") {
            let graphs = graphs.list()?;
            let inputs = &known.boxes[..self.question.network.inputs()];
            // An interval is two numbers.
            let room = 2 * self.room;
            return form_proof::check(self.question, graphs, inputs, &known.shown, room, &mut self.count)
                .map_err(|fault| fault.within("forms"));
        }
        let Some(split) = fields.find("split") else {
            return Err(Fault::wrong("the condition does not follow from the rows, and there is no split"));
        };
        self.split(split, &known)
    }

    /// Cuts, over what is known from above and by the splits, then boxes and graphs, then rows.
    fn work(&mut self, fields: Fields, known: &mut Known) -> Result<(), Fault> {
        let network: &Network = &self.question.network;
        let claims = by_value(fields, "boxes", "value", CLAIM, network)?;
        let graphs = by_value(fields, "graphs", "ode", GRAPH, network)?;
        for index in 0..network.nodes.len() {
            cut_by_splits(index, known)?;
        }
        fields.each("cuts", |cut| {
            let cut = self.cut(cut, known).map_err(|fault| fault.within("a cut"))?;
            let kept = cut.on.values().map(Vec::len).sum();
            self.room = self.room.checked_sub(kept).ok_or_else(|| bad("too many cuts"))?;
            known.cuts.push(cut);
            Ok(())
        })?;
        fields.each("lines", |line| {
            let (value, slopes) = tangent(line.items::<3>()?.each_ref(), network)?;
            known.tangents.give(value, slopes);
            Ok(())
        })?;
        for index in 0..network.nodes.len() {
            self.question.deadline.check()?;
            self.value(index, graphs.get(&index).copied(), known)
                .map_err(|fault| fault.within(format!("value {index}")))?;
            if let Some(claim) = claims.get(&index) {
                self.claim(claim, index, known)
                    .map_err(|fault| fault.within(format!("the box of value {index}")))?;
            }
        }
        fields.each("rows", |row| self.row(row, known))?;
        Ok(())
    }

    /// The box of a value, by its rule, what the node above knew, and splits on it.
    fn value(&mut self, index: usize, graph: Option<&Value>, known: &mut Known) -> Result<(), Fault> {
        let network: &Network = &self.question.network;
        let fresh = match (&network.nodes[index].operator, graph) {
            (Operator::Ode(_), Some(graph)) => self.ode(index, graph, known)?,
            (_, Some(_)) => return Err(bad("a graph where there is no ODE")),
            (Operator::Input, _) => self.question.inputs[index].clone(),
            _ => image(network, index, &known.boxes, Interval::ZERO, self.question.deadline),
        };
        known.boxes[index] = meet(&fresh, &known.boxes[index])?;
        cut_by_splits(index, known)
    }

    /// The end of an ODE's graph.
    fn ode(&mut self, index: usize, graph: &Value, known: &mut Known) -> Result<Region, Fault> {
        let network: &Network = &self.question.network;
        let ode = network.ode(index).ok_or_else(|| bad("no ODE"))?;
        let mut starts: Option<Vec<Region>> = None;
        for constraint in &known.constraints {
            if constraint.start == Some(index) {
                constraint
                    .cut(&mut starts.get_or_insert_with(|| ode.dynamics.unknown())[constraint.value])?;
            }
        }
        let argument = &known.boxes[network.nodes[index].arguments[0]];
        let graph = Graph::check(graph, ode, argument, starts, self.room, self.question.deadline)?;
        self.room -= graph.intervals;
        let (vertices, edges) = graph.size();
        self.count.vertices += vertices;
        self.count.edges += edges;
        let end = graph.end.clone();
        known.graphs.insert(index, Rc::new(graph));
        Ok(end)
    }

    /// A box that is claimed, entry by entry, because rows say so.
    fn claim(&mut self, claim: &Value, value: usize, known: &mut Known) -> Result<(), Fault> {
        let (fields, count) = (claim.fields(CLAIM)?, self.question.network.length(value));
        let ways = fields.each("ways", |way| self.way(way, known))?;
        let mut better = known.boxes[value].clone();
        for (side, sign) in [("lower", 1.0), ("upper", -1.0)] {
            let (bounds, by) =
                (fields.read(side, Value::ends)?, fields.read(&format!("{side}_by"), Value::ways)?);
            fits(&bounds, count, side)?;
            fits(&by, count, "ways of entries")?;
            for entry in (0..count).filter(|entry| by[*entry] != 65535.0) {
                let way = ways
                    .get(by[entry] as usize)
                    .ok_or_else(|| bad(format!("{side} {entry}: no such way")))?;
                let mut coefficients = vec![0.0; count];
                coefficients[entry] = sign;
                let bound = self.pull(value, Linear { coefficients, constant: 0.0 }, way, known)?;
                let claimed = sign * bounds[entry];
                if bound < claimed || !claimed.is_finite() {
                    let what = format!("{side} end of entry {entry} is too tight");
                    return Err(Fault::refused(what, claimed - bound));
                }
                let claimed = Interval { low: claimed, high: f64::INFINITY };
                better[entry] = better[entry].meet(sign * claimed).ok_or(Fault::Empty)?;
            }
        }
        known.boxes[value] = better;
        Ok(())
    }

    fn way(&self, value: &Value, known: &Known) -> Result<Way, Fault> {
        Way::read(value, &self.question.network, known.constraints.len(), known.cuts.len())
    }

    /// A row of the property.
    fn row(&mut self, value: &Value, known: &mut Known) -> Result<(), Fault> {
        let fields = value.fields("row way bound")?;
        let which = fields.index("row", self.question.property.rows.len())?;
        let row = &self.question.property.rows[which];
        let start = Linear { coefficients: row.coefficients.clone(), constant: row.constant.low };
        let claimed = fields.read("bound", Value::number)?;
        let bound = fields.read("way", |way| {
            let way = self.way(way, known)?;
            self.pull(self.question.network.output, start, &way, known)
        });
        let place = |fault: Fault| fault.within(format!("row {which}"));
        let bound = bound.map_err(place)?;
        if bound < claimed {
            return Err(place(Fault::refused("the row does not reach its bound, missed", claimed - bound)));
        }
        if claimed <= 0.0 {
            return Err(place(Fault::refused("its bound is not above 0, missed", -claimed)));
        }
        known.shown[which] = true;
        Ok(())
    }

    /// A row on the inputs that is nowhere positive in this part.
    fn cut(&mut self, value: &Value, known: &Known) -> Result<Row, Fault> {
        let fields = value.fields("constraint way")?;
        let constraint = known.constraints[fields.index("constraint", known.constraints.len())?];
        let way = self.way(fields.get("way")?, known)?;
        if !way.stops.is_empty() || !way.multipliers.is_empty() || !way.cuts.is_empty() {
            return Err(bad("a way of a cut with stops, multipliers or cuts"));
        }
        let (value, row) = self.constraint_row(&constraint, 1.0, known)?;
        self.back(value, row, &way, known)
    }

    /// A function of a value that is nowhere positive where a constraint holds: the value that is split itself or, of a
    /// start, the argument of its ODE.
    fn constraint_row(
        &self,
        constraint: &Constraint,
        factor: f64,
        known: &Known,
    ) -> Result<(usize, Linear), Fault> {
        let (network, value): (&Network, usize) = (&self.question.network, constraint.value);
        let Some(which) = constraint.start else {
            return Ok((value, constraint.nowhere_positive(network.length(value), factor)));
        };
        let known = network.ode(which).zip(known.graphs.get(&which));
        let (ode, graph) = known.ok_or_else(|| Fault::wrong("no graph for the start of that ODE yet"))?;
        let row = constraint.nowhere_positive(ode.dynamics.length(value), factor);
        Ok((network.nodes[which].arguments[0], graph.face(ode, value, row)))
    }

    /// The least value of a function of `value` in this part, by a way.
    fn pull(&mut self, value: usize, of: Linear, way: &Way, known: &Known) -> Result<f64, Fault> {
        let mut row = self.back(value, of, way, known)?;
        for &(cut, factor) in &way.cuts {
            self.question.deadline.check()?;
            let cut = &known.cuts[cut];
            for (&input, coefficients) in &cut.on {
                let boxes = &known.boxes[input];
                let nothing = Linear { coefficients: vec![0.0; boxes.len()], constant: 0.0 };
                row.add(input, nothing.plus(Interval::point(factor), coefficients, boxes), boxes);
            }
            row.constant = add_down(row.constant, (factor * Interval::point(cut.constant)).low);
        }
        let mut bound = row.constant;
        for (&value, coefficients) in &row.on {
            let part = Linear { coefficients: coefficients.clone(), constant: 0.0 };
            let over_box = part.least(&known.boxes[value]);
            let over_ball = match &self.question.ball {
                Some(ball) if value == 0 => ball.least(coefficients),
                _ => f64::NEG_INFINITY,
            };
            bound = add_down(bound, over_box.max(over_ball));
        }
        Ok(if bound.is_nan() { f64::NEG_INFINITY } else { bound })
    }

    /// Takes a function of `value` back, value by value, to the inputs and the stops of a way.
    fn back(&mut self, value: usize, of: Linear, way: &Way, known: &Known) -> Result<Row, Fault> {
        self.question.deadline.check()?;
        self.count.rows += 1;
        let network: &Network = &self.question.network;
        let (boxes, slopes, tangents) = (&known.boxes, &way.slopes, &known.tangents);
        let deadline = self.question.deadline;
        let lines = Values { network, boxes, time: Interval::ZERO, slopes, tangents, deadline };
        let mut extra: BTreeMap<usize, Vec<Linear>> = BTreeMap::new();
        for &(constraint, factor) in &way.multipliers {
            let (value, row) = self.constraint_row(&known.constraints[constraint], factor, known)?;
            extra.entry(value).or_default().push(row);
        }
        let mut row = Row { on: BTreeMap::from([(value, of.coefficients)]), constant: of.constant };
        for index in (0..=value).rev() {
            for part in extra.remove(&index).unwrap_or_default() {
                row.add(index, part, &known.boxes[index]);
            }
            let node = &network.nodes[index];
            if matches!(node.operator, Operator::Input) || way.stops.contains(&index) {
                continue;
            }
            let Some(of) = row.on.remove(&index) else { continue };
            if let Operator::Ode(ode) = &node.operator {
                let missing = |what: &str| Fault::wrong(format!("value {index}: no {what} for this ODE"));
                let graph = known.graphs.get(&index).ok_or_else(|| missing("graph"))?;
                let through = way.odes.get(&index).ok_or_else(|| missing("way"))?;
                let of = Linear { coefficients: of, constant: 0.0 };
                let start =
                    graph.back(ode, &of, through).map_err(|fault| fault.within(format!("value {index}")))?;
                row.add(node.arguments[0], start, &known.boxes[node.arguments[0]]);
            } else {
                back(network, index, &mut row, of, &lines);
            }
            // What is not bounded in time is not bounded: nobody may take that for a refusal.
            deadline.check()?;
        }
        Ok(row)
    }

    /// Both parts of a case distinction.
    fn split(&mut self, value: &Value, known: &Known) -> Result<(), Fault> {
        let network: &Network = &self.question.network;
        let fields = value.fields("kind at entry parts input value ode")?;
        let index = |key: &str, limit: usize| fields.index(key, limit);
        let (start, value, entries) = match fields.text("kind")? {
            "input" => {
                let value = index("input", network.inputs())?;
                (None, value, network.length(value))
            }
            "neuron" => {
                let value = index("value", network.nodes.len())?;
                (None, value, network.length(value))
            }
            "start" => {
                let which = index("ode", network.nodes.len())?;
                let ode = network.ode(which).ok_or_else(|| bad("a start where there is no ODE"))?;
                match index("value", ode.dynamics.nodes.len())? {
                    0 => return Err(bad("a split of the state itself")),
                    value => (Some(which), value, ode.dynamics.length(value)),
                }
            }
            other => return Err(bad(format!("splits of the kind `{}` are unknown", shown(other)))),
        };
        let (entry, at) = (fields.index("entry", entries)?, fields.read("at", Value::number)?);
        let [below, above] = fields.read("parts", Value::items)?;
        for (part, above, name) in [(below, false, "below"), (above, true, "above")] {
            let mut known = known.clone();
            known.constraints.push(Constraint { start, value, entry, at, above });
            self.node(part, &known).map_err(|fault| fault.within(name))?;
        }
        Ok(())
    }
}

/// Cuts the box of a value by all splits on it.
fn cut_by_splits(index: usize, known: &mut Known) -> Result<(), Fault> {
    let on_it = |constraint: &&Constraint| constraint.start.is_none() && constraint.value == index;
    known.constraints.iter().filter(on_it).try_for_each(|constraint| constraint.cut(&mut known.boxes[index]))
}

/// Maps of a list by the value they are about, which grows from one to the next.
fn by_value<'v, 'a>(
    fields: Fields<'v, 'a>,
    list: &str,
    key: &str,
    keys: &str,
    network: &Network,
) -> Result<BTreeMap<usize, &'v Value<'a>>, Fault> {
    let mut found = BTreeMap::new();
    fields.each(list, |item| {
        let which = item.fields(keys)?.index(key, network.nodes.len())?;
        if found.last_key_value().is_some_and(|(last, _)| *last >= which) {
            return Err(bad(format!("`{key}` does not grow at {which}")));
        }
        found.insert(which, item);
        Ok(())
    })?;
    Ok(found)
}
