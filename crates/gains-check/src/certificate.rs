//! Reading the parts of a certificate: typed access to its maps, the region, the property, ways of rows.

use std::collections::{BTreeMap, BTreeSet};

use crate::cbor::{Kind, Value};
use crate::fault::Fault;
use crate::interval::Interval;
use crate::network::{Network, Operator};
use crate::rows::{Slopes, fits};
use crate::rules::Region;

/// A file that says something it cannot.
pub fn bad(what: impl Into<String>) -> Fault {
    Fault::Malformed(what.into())
}

/// The beginning of a text out of a file: it may be as long as that.
pub fn shown(text: &str) -> String {
    let mut characters = text.chars();
    let first: String = characters.by_ref().take(60).collect();
    if characters.next().is_some() { first + "…" } else { first }
}

/// A map whose keys are looked up.
pub struct Fields<'v, 'a>(&'v [(&'a str, Value<'a>)]);

impl<'v, 'a> Fields<'v, 'a> {
    /// Of a map that has no other keys than these.
    pub fn of(value: &'v Value<'a>, known: &[&str]) -> Result<Self, Fault> {
        let Value::Map(entries) = value else { return Err(bad("something else than a map")) };
        match entries.iter().find(|(key, _)| !known.contains(key)) {
            Some((key, _)) => Err(bad(format!("unknown key {:?}", shown(key)))),
            None => Ok(Self(entries)),
        }
    }

    /// What stands under a key.
    pub fn find(&self, key: &str) -> Option<&'v Value<'a>> {
        self.0.iter().find(|(other, _)| *other == key).map(|(_, value)| value)
    }

    /// What has to stand under a key.
    pub fn get(&self, key: &str) -> Result<&'v Value<'a>, Fault> {
        self.find(key).ok_or_else(|| bad(format!("no `{key}`")))
    }

    /// A list that may be missing: then it is empty.
    pub fn list(&self, key: &str) -> Result<&'v [Value<'a>], Fault> {
        self.find(key).map_or(Ok(&[]), |value| list(value).map_err(|fault| fault.within(key)))
    }

    /// Text.
    pub fn text(&self, key: &str) -> Result<&'a str, Fault> {
        match self.get(key)? {
            Value::Text(text) => Ok(text),
            _ => Err(bad(format!("`{key}` is not text"))),
        }
    }

    /// A whole number below `limit`.
    pub fn index(&self, key: &str, limit: usize) -> Result<usize, Fault> {
        index(self.get(key)?, limit).map_err(|fault| fault.within(key))
    }

    /// A finite number.
    pub fn number(&self, key: &str) -> Result<f64, Fault> {
        number(self.get(key)?).map_err(|fault| fault.within(key))
    }

    /// So many finite numbers.
    pub fn numbers(&self, key: &str, count: usize) -> Result<Vec<f64>, Fault> {
        let numbers = floats(self.get(key)?).map_err(|fault| fault.within(key))?;
        fits(&numbers, count, key)?;
        Ok(numbers)
    }
}

/// A list.
pub fn list<'v, 'a>(value: &'v Value<'a>) -> Result<&'v [Value<'a>], Fault> {
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(bad("something else than a list")),
    }
}

/// Exactly two items.
pub fn pair<'v, 'a>(value: &'v Value<'a>) -> Result<(&'v Value<'a>, &'v Value<'a>), Fault> {
    match list(value)? {
        [a, b] => Ok((a, b)),
        _ => Err(bad("not two items")),
    }
}

/// A whole number.
pub fn integer(value: &Value) -> Result<i64, Fault> {
    match value {
        Value::Integer(number) => Ok(*number),
        _ => Err(bad("not a whole number")),
    }
}

/// A whole number below `limit`.
pub fn index(value: &Value, limit: usize) -> Result<usize, Fault> {
    let number = integer(value)?;
    let index = usize::try_from(number).ok().filter(|index| *index < limit);
    index.ok_or_else(|| bad(format!("{number} is not one of {limit}")))
}

/// A finite number.
pub fn number(value: &Value) -> Result<f64, Fault> {
    match value {
        Value::Float(number) => Ok(*number),
        _ => Err(bad("not a number")),
    }
}

/// Zeros and ones.
pub fn flags(value: &Value) -> Result<Vec<bool>, Fault> {
    let flag = |x: f64| match x {
        0.0 => Ok(false),
        1.0 => Ok(true),
        _ => Err(bad("something else than 0 and 1")),
    };
    typed(value, &[Kind::U8])?.into_iter().map(flag).collect()
}

/// Finite numbers.
pub fn floats(value: &Value) -> Result<Vec<f64>, Fault> {
    let numbers = ends(value)?;
    if numbers.iter().all(|x| x.is_finite()) { Ok(numbers) } else { Err(bad("a number that is not finite")) }
}

/// Numbers of ways.
pub fn ways_of(value: &Value) -> Result<Vec<f64>, Fault> {
    typed(value, &[Kind::U16])
}

/// Numbers, perhaps infinite.
pub fn ends(value: &Value) -> Result<Vec<f64>, Fault> {
    typed(value, &[Kind::F32, Kind::F64])
}

/// Most numbers of one list: more than any value has entries.
const MAX_NUMBERS: usize = 1 << 23;

/// Numbers of one of these kinds.
fn typed(value: &Value, kinds: &[Kind]) -> Result<Vec<f64>, Fault> {
    let numbers = match value {
        Value::Numbers(kind, bytes) if bytes.len() / kind.width() > MAX_NUMBERS => {
            return Err(bad(format!("a list of {} numbers", bytes.len() / kind.width())));
        }
        Value::Numbers(kind, bytes) if kinds.contains(kind) => kind.numbers(bytes),
        Value::Numbers(kind, _) => return Err(bad(format!("numbers of the kind {kind:?}"))),
        _ => return Err(bad("something else than numbers")),
    };
    if numbers.iter().any(|x| x.is_nan()) { Err(bad("a number that is none")) } else { Ok(numbers) }
}

/// A value and slopes of lines below and above its entries.
pub fn tangent(items: [&Value; 3], network: &Network) -> Result<(usize, [Vec<f64>; 2]), Fault> {
    let [value, below, above] = items;
    let (value, slopes) = (index(value, network.nodes.len())?, [floats(below)?, floats(above)?]);
    for slopes in &slopes {
        fits(slopes, network.nodes[value].shape.count(), "slopes of lines")?;
    }
    Ok((value, slopes))
}

/// `[lower, upper]`: a box of so many entries, none of which is empty.
pub fn region(value: &Value, count: usize) -> Result<Region, Fault> {
    let (lower, upper) = pair(value)?;
    let (lower, upper) = (floats(lower)?, floats(upper)?);
    fits(&lower, count, "lower")?;
    fits(&upper, count, "upper")?;
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
        let (fields, count) = (Fields::of(value, &["norm", "centre", "scales"])?, boxes.len());
        let norm = integer(fields.get("norm")?)?;
        let (centre, scales) = (fields.numbers("centre", count)?, fields.numbers("scales", count)?);
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
            return Ok(Self::Row(index(value, rows)?));
        }
        let fields = Fields::of(value, &["all", "any", "least", "of"])?;
        let parts = |key: &str| -> Result<Vec<Self>, Fault> {
            let parts = list(fields.get(key)?)?;
            if parts.is_empty() {
                Err(bad("an empty condition"))
            } else {
                parts.iter().map(|part| Self::read(part, rows)).collect()
            }
        };
        let found = (fields.find("all"), fields.find("any"), fields.find("least"), fields.find("of"));
        match found {
            (Some(_), None, None, None) => parts("all").map(|parts| Self::Least(parts.len(), parts)),
            (None, Some(_), None, None) => parts("any").map(|parts| Self::Least(1, parts)),
            (None, None, Some(_), Some(_)) => {
                let parts = parts("of")?;
                let least = fields.index("least", parts.len() + 1)?;
                if least == 0 {
                    Err(bad("a condition that nothing is asked of"))
                } else {
                    Ok(Self::Least(least, parts))
                }
            }
            _ => Err(bad("a condition of an unknown kind")),
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
        let fields = Fields::of(value, &["rows", "condition", "errors"])?;
        if let Some(errors) = fields.find("errors") {
            if fields.find("rows").is_some() || fields.find("condition").is_some() {
                return Err(bad("both rows and errors"));
            }
            return Self::of_errors(errors, outputs);
        }
        let row = |value: &Value| -> Result<PropertyRow, Fault> {
            let fields = Fields::of(value, &["a", "c", "zero"])?;
            let (low, high) = pair(fields.get("c")?)?;
            let constant = Interval { low: number(low)?, high: number(high)? };
            let Value::Bool(zero) = *fields.get("zero")? else {
                return Err(bad("`zero` is neither true nor false"));
            };
            if constant.low > constant.high {
                return Err(bad("a constant without numbers"));
            }
            Ok(PropertyRow { coefficients: fields.numbers("a", outputs)?, constant, zero })
        };
        let rows: Vec<_> = fields.list("rows")?.iter().map(row).collect::<Result<_, _>>()?;
        let condition = Condition::read(fields.get("condition")?, rows.len())?;
        Ok(Self { rows, condition, errors: None })
    }

    /// The mean of the errors that are observed is below a limit: limit · n − Σ |errors| > 0.
    fn of_errors(value: &Value, outputs: usize) -> Result<Self, Fault> {
        let fields = Fields::of(value, &["truth", "observed", "limit"])?;
        let (truth, limit) = (fields.numbers("truth", outputs)?, fields.number("limit")?);
        let observed = flags(fields.get("observed")?)?;
        fits(&observed, outputs, "observed")?;
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
        let fields = Fields::of(value, &["lines", "odes", "stops", "multipliers", "cuts"])?;
        let mut way = Self { slopes: slopes(fields.find("lines"), network)?, ..Self::default() };
        for ode in fields.list("odes")? {
            let fields = Fields::of(ode, &["ode", "form", "lines", "start", "shares"])?;
            let value = fields.index("ode", network.nodes.len())?;
            let Operator::Ode(ode) = &network.nodes[value].operator else {
                return Err(bad(format!("value {value} is no ODE")));
            };
            let start = fields.find("start").map_or(Ok(vec![]), floats)?;
            let mut shares = BTreeMap::new();
            for share in fields.list("shares")? {
                let (edge, numbers) = pair(share)?;
                shares.insert(index(edge, usize::MAX)?, floats(numbers)?);
            }
            let chain = fields.index("form", 2)? == 1;
            let slopes = slopes(fields.find("lines"), &ode.dynamics)?;
            way.odes.insert(value, OdeWay { chain, slopes, start, shares });
        }
        let stop = |value: &Value| index(value, network.nodes.len());
        way.stops = fields.list("stops")?.iter().map(stop).collect::<Result<_, _>>()?;
        let factors = |key: &str, limit: usize| -> Result<Vec<(usize, f64)>, Fault> {
            let mut seen = BTreeSet::new();
            let factor = |item: &Value| {
                let (which, factor) = pair(item)?;
                let (which, factor) = (index(which, limit)?, number(factor)?);
                match (factor < 0.0, seen.insert(which)) {
                    (true, _) => Err(bad("a negative multiplier")),
                    (_, false) if key == "multipliers" => Err(bad(format!("{which} is there twice"))),
                    _ => Ok((which, factor)),
                }
            };
            let factors = fields.list(key)?.iter().map(factor).collect::<Result<_, _>>();
            factors.map_err(|fault: Fault| fault.within(key))
        };
        (way.multipliers, way.cuts) = (factors("multipliers", constraints)?, factors("cuts", cuts)?);
        if !way.cuts.is_empty() && !way.stops.is_empty() {
            return Err(bad("a way with both cuts and stops"));
        }
        Ok(way)
    }
}

fn slopes(value: Option<&Value>, network: &Network) -> Result<Slopes, Fault> {
    let Some(value) = value else { return Ok(Slopes::default()) };
    let fields = Fields::of(value, &["policy", "slopes"])?;
    let mut given = BTreeMap::new();
    for item in fields.list("slopes")? {
        let (which, numbers) = pair(item)?;
        let (which, numbers) = (index(which, network.nodes.len())?, floats(numbers)?);
        fits(&numbers, network.nodes[which].shape.count(), "slopes")?;
        given.insert(which, numbers);
    }
    let policy = if fields.find("policy").is_some() { fields.index("policy", 3)? as u8 } else { 0 };
    Ok(Slopes { policy, given })
}
