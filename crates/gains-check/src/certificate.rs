//! Reading the parts of a certificate: the region, the property, ways of rows.

use std::collections::{BTreeMap, BTreeSet};

use crate::fault::Fault;
use crate::interval::Interval;
use crate::network::Network;
use crate::rows::Slopes;
use crate::rules::Region;
use crate::value::{Fields, Value, bad};

/// A value and slopes of lines below and above its entries.
pub fn tangent(items: [&Value; 3], network: &Network) -> Result<(usize, [Vec<f64>; 2]), Fault> {
    let value = items[0].index(network.nodes.len())?;
    let slopes = |slopes: &Value| slopes.numbers(network.length(value), "slopes of lines");
    Ok((value, [slopes(items[1])?, slopes(items[2])?]))
}

/// `[lower, upper]`: a box of so many entries, none of which is empty.
pub fn region(value: &Value, count: usize) -> Result<Region, Fault> {
    let [lower, upper] = value.items()?;
    let (lower, upper) = (lower.numbers(count, "lower")?, upper.numbers(count, "upper")?);
    match lower.iter().zip(&upper).position(|(low, high)| low > high) {
        Some(entry) => Err(bad(format!("the box of entry {entry} is empty"))),
        None => Ok(lower.into_iter().zip(upper).map(|(low, high)| Interval { low, high }).collect()),
    }
}

/// Inputs around a centre.
#[derive(Clone)]
pub struct Ball {
    /// 1: the sum of the entries counts; 2: the Euclidean length.
    pub norm: i64,
    /// The centre.
    pub centre: Vec<f64>,
    /// How far it reaches in each direction.
    pub scales: Vec<f64>,
}

impl Ball {
    /// Reads one. Its centre is in the box that it cuts, so that there are inputs to speak of.
    pub fn read(value: &Value, boxes: &Region) -> Result<Self, Fault> {
        let fields = value.fields("norm centre scales")?;
        let norm = fields.read("norm", Value::integer)?;
        let numbers = |key: &str| fields.get(key)?.numbers(boxes.len(), key);
        let (centre, scales) = (numbers("centre")?, numbers("scales")?);
        if !matches!(norm, 1 | 2) || scales.iter().any(|scale| *scale < 0.0) {
            return Err(bad("a norm other than 1 and 2, or a negative scale"));
        }
        if centre.iter().zip(boxes).any(|(&x, side)| !side.holds(Interval::point(x))) {
            return Err(bad("a ball whose centre is not in its box"));
        }
        Ok(Self { norm, centre, scales })
    }

    /// ‖v‖ in the norm itself, or its dual.
    fn length(&self, v: impl Iterator<Item = Interval>, dual: bool) -> Interval {
        match (self.norm, dual) {
            (1, false) => v.fold(Interval::ZERO, |sum, x| sum + x.abs()),
            (1, true) => v.fold(Interval::ZERO, |most, x| most.max(x.abs())),
            _ => v.fold(Interval::ZERO, |sum, x| sum + x.square()).sqrt(),
        }
    }

    /// The least value of a · x on the ball: a · c − ‖(aᵢ sᵢ)ᵢ‖ in the dual norm.
    pub fn least(&self, a: &[f64]) -> f64 {
        let products = |with: &[f64]| -> Vec<Interval> {
            a.iter().zip(with).map(|(&a, &with)| a * Interval::point(with)).collect()
        };
        let centre = products(&self.centre).into_iter().fold(Interval::ZERO, |sum, x| sum + x);
        (centre - self.length(products(&self.scales).into_iter(), true)).low
    }

    /// Whether a point is certainly inside.
    pub fn holds(&self, point: &[f64]) -> bool {
        let off = |i: usize| Interval::point(point[i]) - Interval::point(self.centre[i]);
        let fixed = (0..point.len()).filter(|i| self.scales[*i] == 0.0).all(|i| off(i) == Interval::ZERO);
        let free = (0..point.len()).filter(|i| self.scales[*i] > 0.0);
        fixed && self.length(free.map(|i| off(i) / Interval::point(self.scales[i])), false).high <= 1.0
    }
}

/// a · outputs + c, c in an interval.
pub struct PropertyRow {
    /// The coefficients.
    pub coefficients: Vec<f64>,
    /// The constant.
    pub constant: Interval,
    /// Whether 0 is as bad as less.
    pub zero: bool,
}

/// What has to hold of the rows.
pub enum Condition {
    /// One row.
    Row(usize),
    /// So many of these.
    Least(usize, Vec<Condition>),
}

impl Condition {
    fn read(value: &Value, rows: usize) -> Result<Self, Fault> {
        if let Value::Integer(_) = value {
            return value.index(rows).map(Self::Row);
        }
        let fields = value.fields("all any least of")?;
        let kinds: Vec<&str> = fields.all().iter().map(|(key, _)| &**key).collect();
        let key = match kinds[..] {
            ["all"] => "all",
            ["any"] => "any",
            ["least", "of"] | ["of", "least"] => "of",
            _ => return Err(bad("a condition of an unknown kind")),
        };
        let parts = fields.each(key, |part| Self::read(part, rows))?;
        let least = match key {
            "all" => parts.len(),
            "any" => 1,
            _ => fields.index("least", parts.len() + 1)?,
        };
        match parts.is_empty() || least == 0 {
            true => Err(bad("an empty condition, or one that nothing is asked of")),
            false => Ok(Self::Least(least, parts)),
        }
    }

    /// Conditions and rows in it.
    fn size(&self) -> usize {
        match self {
            Self::Row(_) => 1,
            Self::Least(_, parts) => parts.iter().map(Self::size).sum::<usize>() + 1,
        }
    }

    /// Whether it holds if exactly these rows do.
    pub fn follows(&self, rows: &[bool]) -> bool {
        match self {
            Self::Row(row) => rows[*row],
            Self::Least(least, parts) => parts.iter().filter(|part| part.follows(rows)).count() >= *least,
        }
    }
}

/// Coefficients and conditions that are looked at to say in words what is asked.
const MOST_WORK_FOR_WORDS: usize = 20_000_000;

/// What must hold of the outputs.
pub struct Property {
    /// Rows, which should be above 0.
    pub rows: Vec<PropertyRow>,
    /// Which of them.
    pub condition: Condition,
    /// If rows are about errors of the outputs instead: what these are compared with, and what their mean stays below.
    pub errors: Option<(Vec<f64>, f64)>,
}

impl Property {
    /// Reads one for so many outputs.
    pub fn read(value: &Value, outputs: usize) -> Result<Self, Fault> {
        let fields = value.fields("rows condition errors")?;
        if let Some(errors) = fields.find("errors") {
            return match fields.all() {
                [_] => Self::of_errors(errors, outputs),
                _ => Err(bad("both rows and errors")),
            };
        }
        let rows = fields.each("rows", |row| {
            let fields = row.fields("a c zero")?;
            let [low, high] = fields.read("c", Value::items)?;
            let constant = Interval { low: low.number()?, high: high.number()? };
            match constant.low <= constant.high {
                true => Ok(PropertyRow {
                    coefficients: fields.get("a")?.numbers(outputs, "a")?,
                    constant,
                    zero: fields.read("zero", Value::bool)?,
                }),
                false => Err(bad("a constant without numbers")),
            }
        })?;
        let condition = Condition::read(fields.get("condition")?, rows.len())?;
        Ok(Self { rows, condition, errors: None })
    }

    /// The mean of the errors that are observed is below a limit: limit · n − Σ |errors| > 0.
    fn of_errors(value: &Value, outputs: usize) -> Result<Self, Fault> {
        let fields = value.fields("truth observed limit")?;
        let (truth, limit) =
            (fields.get("truth")?.numbers(outputs, "truth")?, fields.read("limit", Value::number)?);
        let observed = fields.get("observed")?.flags(outputs, "observed")?;
        let count = observed.iter().filter(|seen| **seen).count();
        if count == 0 {
            return Err(bad("errors of nothing"));
        }
        let coefficients = observed.iter().map(|&seen| if seen { -1.0 } else { 0.0 }).collect();
        let constant = limit * Interval::point(count as f64);
        let rows = vec![PropertyRow { coefficients, constant, zero: true }];
        Ok(Self { rows, condition: Condition::Row(0), errors: Some((truth, limit)) })
    }

    /// The output that has to be larger than each other, if exactly that is asked: the condition follows from these leads,
    /// and from no part of them.
    pub fn leader(&self) -> Option<usize> {
        let outputs = self.rows.first()?.coefficients.len();
        let leader = self.rows[0].coefficients.iter().position(|a| *a == 1.0)?;
        // Of something else than a usual question nobody needs to know in so few words.
        let work = outputs.checked_mul(self.rows.len().checked_add(self.condition.size())?)?;
        if outputs < 2 || work > MOST_WORK_FOR_WORDS {
            return None;
        }
        // Which output a row says that the leader is ahead of.
        let behind = |row: &PropertyRow| {
            let other = row.coefficients.iter().position(|a| *a == -1.0)?;
            let a = |i: usize| f64::from(u8::from(i == leader)) - f64::from(u8::from(i == other));
            let is_lead = row.constant == Interval::ZERO && (0..outputs).all(|i| row.coefficients[i] == a(i));
            is_lead.then_some(other)
        };
        let leads: Vec<Option<usize>> = self.rows.iter().map(behind).collect();
        let follows = |rows: &dyn Fn(Option<usize>) -> bool| {
            self.condition.follows(&leads.iter().map(|l| rows(*l)).collect::<Vec<_>>())
        };
        let mut others = (0..outputs).filter(|other| *other != leader);
        let enough = follows(&|lead| lead.is_some());
        let needed = |other: usize| !follows(&|lead| lead != Some(other));
        (enough && others.all(needed)).then_some(leader)
    }
}

/// How a row goes through an ODE.
pub struct OdeWay {
    /// Through the changes of stages (chain), or each stage on its own (direct).
    pub chain: bool,
    /// Lines in the dynamics.
    pub slopes: Slopes,
    /// Shares of the rows at the first vertex.
    pub start: Vec<f64>,
    /// Shares of the rows that meet at the target of an edge.
    pub shares: BTreeMap<usize, Vec<f64>>,
}

/// How a row goes back.
#[derive(Default)]
pub struct Way {
    /// Lines outside ODEs.
    pub slopes: Slopes,
    /// Through ODEs.
    pub odes: BTreeMap<usize, OdeWay>,
    /// Values that the row stays on.
    pub stops: Vec<usize>,
    /// Constraints that are added, with their factors.
    pub multipliers: Vec<(usize, f64)>,
    /// Cuts that are added, with their factors.
    pub cuts: Vec<(usize, f64)>,
}

impl Way {
    /// Reads one.
    pub fn read(value: &Value, network: &Network, constraints: usize, cuts: usize) -> Result<Self, Fault> {
        let fields = value.fields("lines odes stops multipliers cuts")?;
        let mut way = Self { slopes: slopes(fields, network)?, ..Self::default() };
        fields.each("odes", |ode| {
            let fields = ode.fields("ode form lines start shares")?;
            let value = fields.index("ode", network.nodes.len())?;
            let ode = network.ode(value).ok_or_else(|| bad(format!("value {value} is no ODE")))?;
            let start = fields.or("start", vec![], Value::floats)?;
            let shares = fields.each("shares", |share| {
                let [edge, numbers] = share.items()?;
                Ok((edge.index(usize::MAX)?, numbers.floats()?))
            })?;
            let (chain, shares) = (fields.index("form", 2)? == 1, shares.into_iter().collect());
            way.odes.insert(value, OdeWay { chain, slopes: slopes(fields, &ode.dynamics)?, start, shares });
            Ok(())
        })?;
        way.stops = fields.each("stops", |value| value.index(network.nodes.len()))?;
        let factors = |key: &str, limit: usize| {
            let mut seen = BTreeSet::new();
            fields.each(key, |item| {
                let [which, factor] = item.items()?;
                let (which, factor) = (which.index(limit)?, factor.number()?);
                match (factor < 0.0, seen.insert(which)) {
                    (true, _) => Err(bad("a negative multiplier")),
                    (_, false) if key == "multipliers" => Err(bad(format!("{which} is there twice"))),
                    _ => Ok((which, factor)),
                }
            })
        };
        (way.multipliers, way.cuts) = (factors("multipliers", constraints)?, factors("cuts", cuts)?);
        match way.cuts.is_empty() || way.stops.is_empty() {
            true => Ok(way),
            false => Err(bad("a way with both cuts and stops")),
        }
    }
}

/// What stands under `lines` of a way.
fn slopes(fields: Fields, network: &Network) -> Result<Slopes, Fault> {
    let Some(value) = fields.find("lines") else { return Ok(Slopes::default()) };
    let fields = value.fields("policy slopes")?;
    let given = fields.each("slopes", |item| {
        let [which, numbers] = item.items()?;
        let which = which.index(network.nodes.len())?;
        Ok((which, numbers.numbers(network.length(which), "slopes")?))
    })?;
    let policy = fields.or("policy", 0, |policy| policy.index(3))?;
    Ok(Slopes { policy, given: given.into_iter().collect() })
}
