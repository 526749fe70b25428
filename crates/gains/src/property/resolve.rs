//! A property file bound to the outputs of a network and to one sample.

use gains_verify::property::condition::MOST_ROWS;
use gains_verify::property::{Condition, LinearRow, Relation};

use super::spec::{Clause, Limits, Origin, Quantities, Reference, Scale};

/// How an output is written in the units of the data: `shift + scale · output`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// What an output of 0 stands for.
    pub shift: f64,
    /// What a difference of 1 stands for.
    pub scale: f64,
}

/// What is known of a sample, as far as properties ask for it.
#[derive(Clone, Copy, Debug)]
pub struct Sampled<'s> {
    /// Its class.
    pub label: Option<usize>,
    /// What the network says of it; may be empty where nothing asks for it.
    pub nominal: &'s [f64],
    /// What is known to be true, and of which outputs; on the scale of the network.
    pub target: Option<(&'s [f64], &'s [bool])>,
    /// Units of the outputs; none where they are as they are.
    pub units: &'s [Unit],
}

/// Whether the sample's own outputs matter.
pub fn needs_nominal(clause: &Clause) -> bool {
    match clause {
        Clause::All(parts) | Clause::Any(parts) | Clause::Count(_, parts) => parts.iter().any(needs_nominal),
        Clause::Not(part) => needs_nominal(part),
        Clause::Linear(_, limits) => matches!(limits.within, Some((_, Origin::Nominal))),
        Clause::Predicted(_) | Clause::Never(_) | Clause::Top(_) | Clause::Lead(_) => false,
    }
}

/// Most coefficients of all linear constraints: 400 MB.
const MOST_NUMBERS: usize = 50_000_000;

/// Refuses what would become too many linear constraints, before any is made.
pub fn check_size(clause: &Clause, outputs: usize) -> Result<(), String> {
    match count(clause, outputs) {
        rows if rows > MOST_ROWS => Err(format!(
            "it asks for {rows} linear constraints of {outputs} outputs, at most {MOST_ROWS} are taken"
        )),
        rows if rows.saturating_mul(outputs) > MOST_NUMBERS => Err(format!(
            "its {rows} linear constraints of {outputs} outputs are {} numbers, at most {MOST_NUMBERS} are taken",
            rows * outputs
        )),
        _ => Ok(()),
    }
}

fn count(clause: &Clause, outputs: usize) -> usize {
    match clause {
        Clause::All(parts) | Clause::Any(parts) | Clause::Count(_, parts) => {
            parts.iter().map(|part| count(part, outputs)).fold(0, usize::saturating_add)
        }
        Clause::Not(part) => count(part, outputs),
        Clause::Linear(quantities, limits) => {
            let values = match quantities {
                Quantities::Outputs(list) => list.len(),
                Quantities::Each => outputs,
                Quantities::Sum(_) => 1,
            };
            let sides = [limits.above, limits.at_least, limits.below, limits.at_most];
            values * (sides.iter().flatten().count() + 2 * usize::from(limits.within.is_some()))
        }
        Clause::Predicted(classes) => classes.len() * outputs.saturating_sub(classes.len()),
        Clause::Never(classes) => classes.len() * outputs,
        Clause::Top(_) | Clause::Lead(_) => outputs,
    }
}

/// A clause as a condition on the outputs of one sample.
pub fn condition(
    clause: &Clause,
    names: &[String],
    scale: Scale,
    sampled: &Sampled<'_>,
) -> Result<Condition, String> {
    Binding { names, scale, sampled }.condition(clause)
}

struct Binding<'b> {
    names: &'b [String],
    scale: Scale,
    sampled: &'b Sampled<'b>,
}

impl Binding<'_> {
    fn condition(&self, clause: &Clause) -> Result<Condition, String> {
        let each =
            |parts: &[Clause]| parts.iter().map(|part| self.condition(part)).collect::<Result<Vec<_>, _>>();
        let outputs = self.names.len();
        match clause {
            Clause::All(parts) => Ok(Condition::All(each(parts)?)),
            Clause::Any(parts) => Ok(Condition::Any(each(parts)?)),
            Clause::Count(needed, parts) => Ok(Condition::AtLeast { needed: *needed, of: each(parts)? }),
            Clause::Not(part) => match &**part {
                Clause::Not(same) => self.condition(same),
                part => Ok(self.condition(part)?.negated()),
            },
            Clause::Linear(quantities, limits) => self.linear(quantities, limits),
            Clause::Predicted(classes) => {
                let allowed = self.find_all(classes)?;
                if allowed.len() < outputs {
                    return Ok(Condition::among(outputs, &allowed));
                }
                // With one class less something is asked of other samples; of those whose label completes the list nothing.
                let others: Vec<Reference> =
                    classes.iter().filter(|class| **class != Reference::Label).cloned().collect();
                match self.find_all(&others)?.len() < outputs {
                    true => Ok(Condition::Row(LinearRow::new(vec![0.0; outputs], 1.0))),
                    false => Err("all classes are allowed, so nothing is asked".into()),
                }
            }
            Clause::Never(classes) => {
                let all = self.find_all(classes)?;
                if all.len() == outputs {
                    return Err("no class is left that may be predicted".into());
                }
                Ok(Condition::All(all.into_iter().map(|class| Condition::never(outputs, class)).collect()))
            }
            Clause::Top(kept) if *kept >= outputs => {
                Err(format!("top {kept} of {outputs} outputs asks nothing"))
            }
            Clause::Top(kept) => Ok(Condition::top(outputs, self.label()?, *kept)),
            Clause::Lead(ahead) => {
                let label = self.label()?;
                let others = (0..outputs).filter(|j| *j != label);
                let lead = |j| {
                    let row = LinearRow::lead(outputs, label, j);
                    Condition::Row(LinearRow { constant: -ahead, ..row })
                };
                Ok(Condition::All(others.map(lead).collect()))
            }
        }
    }

    fn label(&self) -> Result<usize, String> {
        self.sampled.label.ok_or_else(|| "the sample has no label".into())
    }

    /// The number of an output. A name goes before whatever else is written like it: a number behind a `#`, or a plain one.
    fn find(&self, reference: &Reference) -> Result<usize, String> {
        let outputs = self.names.len();
        let named = |name: &str| self.names.iter().position(|known| known == name);
        let (number, asked) = match reference {
            Reference::Label if named("@label").is_some() => {
                return Err(
                    "an output is called '@label', which stands for that of the sample's own class".into()
                );
            }
            Reference::Label => return self.label(),
            Reference::Number(number) => (Some(self.plain(*number)?), number.to_string()),
            Reference::Name(name) => {
                let number = match (named(name), name.strip_prefix('#'), name.parse()) {
                    (Some(number), ..) => Some(number),
                    (None, Some(number), _) => number.parse().ok(),
                    (None, None, Ok(number)) => Some(self.plain(number)?),
                    (None, None, Err(_)) => None,
                };
                (number, format!("'{name}'"))
            }
        };
        number
            .filter(|number| *number < outputs)
            .ok_or_else(|| format!("there is no output {asked}; there are {}", enumerate(self.names)))
    }

    /// A number without anything beside it, where it can mean nothing else than a place.
    fn plain(&self, number: usize) -> Result<usize, String> {
        let is_other = |(at, name): (usize, &String)| name.parse::<usize>().is_ok_and(|named| named != at);
        match self.names.iter().enumerate().any(is_other) {
            true => Err(format!(
                "outputs are called by numbers that are not their own ({}): write \"#{number}\" for the number {number}, or a name as text",
                enumerate(self.names)
            )),
            false => Ok(number),
        }
    }

    /// Numbers of outputs, each once.
    fn find_all(&self, references: &[Reference]) -> Result<Vec<usize>, String> {
        let mut found = references.iter().map(|r| self.find(r)).collect::<Result<Vec<_>, _>>()?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn linear(&self, quantities: &Quantities, limits: &Limits) -> Result<Condition, String> {
        let values: Vec<Vec<(usize, f64)>> = match quantities {
            Quantities::Outputs(list) => {
                self.find_all(list)?.into_iter().map(|output| vec![(output, 1.0)]).collect()
            }
            Quantities::Each => {
                let outputs = 0..self.names.len();
                if !outputs.clone().any(|output| self.is_measured(limits, output)) {
                    return Err("nothing is observed at the target".into());
                }
                outputs.map(|output| vec![(output, 1.0)]).collect()
            }
            Quantities::Sum(terms) => {
                let found = terms.iter().map(|(r, factor)| Ok((self.find(r)?, *factor)));
                let found: Vec<(usize, f64)> = found.collect::<Result<_, String>>()?;
                let twice = (1..found.len()).find(|&i| found[..i].iter().any(|(j, _)| *j == found[i].0));
                if let Some(i) = twice {
                    return Err(format!("a sum names output '{}' twice", self.names[found[i].0]));
                }
                vec![found]
            }
        };
        let mut rows = Vec::new();
        for terms in values {
            // Of what is not observed no distance is asked, but everything else.
            let unseen = matches!(quantities, Quantities::Each) && !self.is_measured(limits, terms[0].0);
            let limits = if unseen { &Limits { within: None, ..*limits } } else { limits };
            self.limit(&terms, limits, &mut rows)?;
        }
        Ok(Condition::All(rows.into_iter().map(Condition::Row).collect()))
    }

    /// Whether it is known where an output is measured from.
    fn is_measured(&self, limits: &Limits, output: usize) -> bool {
        match (limits.within, self.sampled.target) {
            (Some((_, Origin::Target)), Some((_, seen))) => seen.get(output) == Some(&true),
            _ => true,
        }
    }

    fn unit(&self, output: usize) -> Unit {
        let plain = Unit { shift: 0.0, scale: 1.0 };
        match self.scale {
            Scale::Data => self.sampled.units.get(output).copied().unwrap_or(plain),
            Scale::Network => plain,
        }
    }

    /// The constraints that limits put on `Σ factor · (shift + scale · output)`.
    fn limit(
        &self,
        terms: &[(usize, f64)],
        limits: &Limits,
        rows: &mut Vec<LinearRow>,
    ) -> Result<(), String> {
        let coefficients = |sign: f64| {
            let mut coefficients = vec![0.0; self.names.len()];
            for (output, factor) in terms {
                coefficients[*output] = sign * factor * self.unit(*output).scale;
            }
            coefficients
        };
        let mut absolute = |sign: f64, limit: Option<f64>, relation: Relation| {
            let Some(limit) = limit else { return };
            let shifts = terms.iter().map(|(output, factor)| (sign * factor, self.unit(*output).shift));
            let shifts = shifts.filter(|(factor, shift)| factor * shift != 0.0);
            let products: Vec<(f64, f64)> = shifts.chain([(-sign, limit)]).collect();
            rows.push(LinearRow::with_products(coefficients(sign), &products, relation));
        };
        absolute(1.0, limits.above, Relation::Above);
        absolute(1.0, limits.at_least, Relation::NotBelow);
        absolute(-1.0, limits.below, Relation::Above);
        absolute(-1.0, limits.at_most, Relation::NotBelow);
        if let Some((distance, origin)) = limits.within {
            for sign in [1.0, -1.0] {
                let coefficients = coefficients(sign);
                let mut products = vec![(1.0, distance)];
                for (output, _) in terms {
                    products.push((-coefficients[*output], self.origin(origin, *output)?));
                }
                rows.push(LinearRow::with_products(coefficients, &products, Relation::NotBelow));
            }
        }
        Ok(())
    }

    /// Where an output is measured from, on the scale of the network.
    fn origin(&self, origin: Origin, output: usize) -> Result<f64, String> {
        let name = &self.names[output];
        match origin {
            Origin::Nominal => {
                let nominal = self.sampled.nominal.get(output).copied();
                nominal.ok_or_else(|| format!("nothing is predicted for '{name}'"))
            }
            Origin::Target => match self.sampled.target {
                None => Err("the sample has no target".into()),
                Some((values, seen)) if seen.get(output) == Some(&true) => Ok(values[output]),
                Some(_) => Err(format!("'{name}' is not observed at the target")),
            },
        }
    }
}

/// The first few names.
fn enumerate(names: &[String]) -> String {
    const MOST: usize = 12;
    let told = names.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::Spec;
    use super::*;
    use gains_verify::Property;

    const NOMINAL: [f64; 3] = [1.0, 0.5, -2.0];
    const TARGET: [f64; 3] = [1.25, 0.0, -2.0];
    const UNITS: [Unit; 3] =
        [Unit { shift: 10.0, scale: 2.0 }, Unit { shift: 0.0, scale: 1.0 }, Unit { shift: -1.0, scale: 0.5 }];

    fn bound(require: &str, label: Option<usize>, seen: &[bool]) -> Result<Property, String> {
        let names = ["a", "b", "2"].map(String::from);
        let spec = Spec::parse(&format!("{{\"require\": {require}}}")).unwrap();
        check_size(&spec.require, 3)?;
        let sampled = Sampled { label, nominal: &NOMINAL, target: Some((&TARGET, seen)), units: &UNITS };
        let condition = condition(&spec.require, &names, spec.scale, &sampled)?;
        Ok(Property::Linear { outputs: 3, condition })
    }

    fn margin(require: &str, outputs: [f64; 3]) -> f64 {
        bound(require, Some(1), &[true, false, true]).unwrap().margin_at(&outputs)
    }

    #[test]
    fn limits_are_in_units_and_on_their_side() {
        // Of these outputs the values are 12, 0.25 and -1.5.
        let outputs = [1.0, 0.25, -1.0];
        for (require, expected) in [
            (r#"{"output": "a", "above": 11}"#, 1.0),
            (r#"{"output": "a", "at_least": 13}"#, -1.0),
            (r#"{"output": "a", "below": 15}"#, 3.0),
            (r#"{"output": "a", "at_most": 11.5}"#, -0.5),
            (r#"{"output": "2", "between": [-2, -1.25]}"#, 0.25),
            (r##"{"output": "#1", "between": [0, 1]}"##, 0.25),
            (r#"{"output": 0, "between": [0, 20]}"#, 8.0),
            (r#"{"output": "@label", "at_least": 0}"#, 0.25),
            (r#"{"each": ["a", "b"], "at_most": 20}"#, 8.0),
            (r#"{"sum": {"a": 1, "2": -2}, "at_least": 14}"#, 1.0),
            (r#"{"not": {"output": "a", "above": 11}}"#, -1.0),
            // From the sample itself, 0 is away by 0, 1 by 0.25 and 2 by 0.5.
            (r#"{"each": "all", "within": 1}"#, 0.5),
            (r#"{"output": "b", "within": 0.125}"#, -0.125),
            (r#"{"sum": {"a": 1, "2": -2}, "within": 1.5}"#, 0.5),
            // From the truth, 0 is away by 0.5 and 2 by 0.5; of 1 nothing is known.
            (r#"{"each": "all", "within": 2, "from": "target"}"#, 1.5),
            // What is not observed keeps its other limits.
            (r#"{"each": "all", "within": 2, "from": "target", "above": 0.5}"#, -2.0),
            (r#"{"each": "all", "within": 9, "from": "target", "below": 0.125}"#, -11.875),
            (r#"{"lead": 0.5}"#, -1.25),
            (r#"{"top": 2}"#, 1.25),
            (r#"{"predicted": ["a", "@label"]}"#, 2.0),
            (r#"{"never": ["b", "2"]}"#, 0.75),
            (r#"{"count": 2, "of": [{"top": 2}, {"lead": 0}, {"output": "a", "above": 9}]}"#, 1.25),
        ] {
            let found = margin(require, outputs);
            assert!((found - expected).abs() < 1e-12, "{require}: {found}, not {expected}");
        }
    }

    #[test]
    fn what_is_not_observed_keeps_its_other_limits() {
        // Output 1, of which nothing is observed, is -9.
        let limits = r#"{"each": "all", "within": 99, "from": "target", "above": -4}"#;
        assert_eq!(margin(limits, [1.0, -9.0, -1.0]), -5.0);
    }

    #[test]
    fn what_is_not_known_is_not_asked() {
        let refused = |require: &str, label: Option<usize>, seen: &[bool], message: &str| {
            let error = bound(require, label, seen).unwrap_err();
            assert!(error.contains(message), "{require}: {error}");
        };
        let seen = [true, false, true];
        refused(r#"{"output": "b", "within": 1, "from": "target"}"#, None, &seen, "not observed");
        refused(
            r#"{"each": "all", "within": 1, "from": "target"}"#,
            None,
            &[false; 3],
            "nothing is observed",
        );
        refused(r#"{"top": 1}"#, None, &seen, "no label");
        refused(r#"{"output": "@label", "above": 0}"#, None, &seen, "no label");
        refused(r#"{"predicted": [0, 1, 2]}"#, None, &seen, "nothing is asked");
        refused(r#"{"predicted": [0, 1, 2, "@label"]}"#, Some(0), &seen, "nothing is asked");
        // The label completes the list: whatever the outputs are, this holds.
        let completed = bound(r#"{"predicted": [0, 1, "@label"]}"#, Some(2), &seen).unwrap();
        assert!(completed.margin_at(&[5.0, -3.0, 0.0]) > 0.0 && !completed.is_violated(&[5.0, -3.0, 0.0]));
        let left = bound(r#"{"predicted": [0, 1, "@label"]}"#, Some(1), &seen).unwrap();
        assert!(left.is_violated(&[0.0, 0.0, 1.0]) && !left.is_violated(&[0.0, 1.0, 0.0]));
        // Where two are equal, neither is predicted rather than the other.
        for require in
            [r#"{"predicted": ["b"]}"#, r#"{"not": {"predicted": ["b"]}}"#, r#"{"not": {"top": 1}}"#]
        {
            let property = bound(require, Some(1), &seen).unwrap();
            assert!(!property.is_violated(&[1.0, 1.0, 0.0]), "{require}");
        }
        let twice = bound(r#"{"not": {"not": {"predicted": ["b"]}}}"#, None, &seen).unwrap();
        assert!(twice.is_violated(&[1.0, 0.0, 0.0]) && !twice.is_violated(&[0.0, 1.0, 0.0]));
        refused(r#"{"never": ["a", "b", "2"]}"#, None, &seen, "no class is left");
        refused(r##"{"sum": {"a": 1, "#0": 1}, "above": 0}"##, None, &seen, "twice");
        refused(r#"{"output": "c", "above": 0}"#, None, &seen, "there is no output 'c'; there are a, b, 2");
        let all: Vec<&str> = vec![r#"{"each": "all", "within": 1}"#; 2000];
        refused(&format!(r#"{{"all": [{}]}}"#, all.join(",")), None, &seen, "12000 linear constraints");
    }

    /// One way of writing asks one question, whatever outputs are called.
    #[test]
    fn names_go_before_numbers_and_what_may_be_both_is_refused() {
        let found = |names: &[&str], require: &str| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let spec = Spec::parse(&format!("{{\"require\": {require}}}")).unwrap();
            let sampled = Sampled { label: Some(2), nominal: &NOMINAL, target: None, units: &[] };
            let condition = condition(&spec.require, &names, spec.scale, &sampled)?;
            // The output that must not be above 0.
            let property = Property::Linear { outputs: 3, condition };
            let holds = |at: usize| {
                property.margin_at(&std::array::from_fn::<f64, 3, _>(|i| f64::from(i == at))) < 0.0
            };
            Ok::<usize, String>((0..3).position(holds).unwrap())
        };
        let below = |output: &str| format!(r#"{{"output": {output}, "below": 0.5}}"#);
        for (names, output, expected) in [
            (["#1", "#0", "x"], r##""#1""##, 0),
            (["#1", "#0", "x"], r##""#2""##, 2),
            (["1", "2", "3"], r#""1""#, 0),
            (["1", "2", "3"], r##""#1""##, 1),
            (["0", "1", "2"], "1", 1),
            (["a", "b", "c"], r#""1""#, 1),
            (["a", "b", "c"], r#""@label""#, 2),
        ] {
            assert_eq!(found(&names, &below(output)), Ok(expected), "{names:?} {output}");
        }
        for (names, output, message) in [
            (["1", "2", "3"], "1", "that are not their own"),
            (["1", "2", "3"], r#""0""#, "that are not their own"),
            (["a", "b", "@label"], r#""@label""#, "called '@label'"),
            (["a", "b", "c"], r##""#3""##, "no output"),
            (["a", "b", "c"], r##""#x""##, "no output"),
        ] {
            let said = found(&names, &below(output)).unwrap_err();
            assert!(said.contains(message), "{names:?} {output}: {said}");
        }
    }

    #[test]
    fn only_what_asks_for_the_sample_runs_it() {
        let needs = |require: &str| {
            needs_nominal(&Spec::parse(&format!("{{\"require\": {require}}}")).unwrap().require)
        };
        assert!(needs(r#"{"any": [{"top": 1}, {"not": {"output": 0, "within": 1}}]}"#));
        assert!(!needs(r#"{"any": [{"top": 1}, {"output": 0, "within": 1, "from": "target"}]}"#));
    }
}
