//! The study in numbers: medians for people, every measurement for machines.

use std::collections::BTreeMap;

use super::plan::{Axis, GrowthPlan};
use super::{Cost, METHODS, Measured};
use crate::failure::Failure;
use crate::question::Method;
use crate::table::{median, percent};

/// One axis: what was held, and a line of cells per method.
pub struct Panel {
    pub axis: Axis,
    pub held: String,
    pub lines: Vec<(Method, Vec<Cell>)>,
}

/// One method at one value of one axis.
pub struct Cell {
    pub value: f64,
    pub samples: usize,
    pub finished: usize,
    /// Lower quartile, median and upper quartile in milliseconds, over all samples. An unfinished one
    /// counts as longer than any other, so a quartile that falls on it is infinite.
    pub ms: [f64; 3],
    graph: Option<(f64, f64)>,
    verified: usize,
    /// Why samples are unfinished, and how many.
    reasons: BTreeMap<&'static str, usize>,
}

impl Cell {
    fn new(value: f64, costs: &[&Cost]) -> Option<Self> {
        let (mut ms, mut vertices, mut edges) = (Vec::new(), Vec::new(), Vec::new());
        let (mut reasons, mut verified) = (BTreeMap::new(), 0);
        for cost in costs {
            match cost {
                Cost::Finished { seconds, vertices: v, edges: e, verified: yes } => {
                    ms.push(1e3 * seconds);
                    vertices.push(*v as f64);
                    edges.push(*e as f64);
                    verified += usize::from(*yes);
                }
                Cost::Unfinished(reason) => *reasons.entry(reason.code()).or_default() += 1,
            }
        }
        let finished = ms.len();
        ms.resize(costs.len(), f64::INFINITY);
        ms.sort_by(f64::total_cmp);
        let at = |quarter: usize| ms.get(ms.len() * quarter / 4).copied();
        Some(Self {
            value,
            samples: costs.len(),
            finished,
            ms: [at(1)?, at(2)?, at(3)?],
            graph: median(vertices).zip(median(edges)),
            verified,
            reasons,
        })
    }
}

/// Sorts the measurements into panels; what has not been measured is left out.
pub fn panels(plan: &GrowthPlan, all: &[Measured]) -> Vec<Panel> {
    let costs = |method: Method, point: usize| -> Vec<&Cost> {
        all.iter().filter(|m| m.method == method && m.point == point).map(|m| &m.result).collect()
    };
    plan.axes
        .iter()
        .map(|(axis, values)| Panel {
            axis: *axis,
            held: plan.held(*axis),
            lines: METHODS
                .map(|method| {
                    let cells =
                        values.iter().filter_map(|&(value, point)| Cell::new(value, &costs(method, point)));
                    (method, cells.collect())
                })
                .into(),
        })
        .collect()
}

pub const HEADER: [&str; 8] =
    ["method", "axis", "value", "finished", "unfinished", "ms median", "median V/E", "verified %"];

/// The rows of the table.
pub fn rows(panels: &[Panel]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for panel in panels {
        for (method, cells) in &panel.lines {
            for cell in cells {
                let reasons: Vec<String> =
                    cell.reasons.iter().map(|(code, count)| format!("{count} {code}")).collect();
                rows.push(vec![
                    method.to_string(),
                    panel.axis.word().into(),
                    cell.value.to_string(),
                    format!("{}/{}", cell.finished, cell.samples),
                    if reasons.is_empty() { "–".into() } else { reasons.join(", ") },
                    if cell.ms[1].is_finite() { format!("{:.1}", cell.ms[1]) } else { "–".into() },
                    cell.graph.map_or_else(|| "–".into(), |(v, e)| format!("{v}/{e}")),
                    percent(cell.verified, cell.samples),
                ]);
            }
        }
    }
    rows
}

/// Every measurement as a line; an unfinished one has a reason and no time.
pub fn csv(plan: &GrowthPlan, all: &[Measured]) -> Result<Vec<u8>, Failure> {
    let fail = |e: String| Failure::new(format!("cannot write the numbers: {e}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |record: [String; 9]| writer.write_record(record).map_err(|e| fail(e.to_string()));
    write(
        ["method", "eps", "end_time", "state", "sample", "outcome", "ms", "vertices", "edges"]
            .map(String::from),
    )?;
    for measured in all {
        let point = &plan.points[measured.point];
        let (end_time, state) = plan.setting(point);
        let (outcome, ms, size) = match &measured.result {
            Cost::Finished { seconds, vertices, edges, verified } => (
                if *verified { "verified" } else { "loose" },
                format!("{:.3}", 1e3 * seconds),
                [vertices.to_string(), edges.to_string()],
            ),
            Cost::Unfinished(reason) => (reason.code(), String::new(), Default::default()),
        };
        let [vertices, edges] = size;
        write([
            measured.method.to_string(),
            point.eps.to_string(),
            end_time.to_string(),
            state.to_string(),
            measured.sample.to_string(),
            outcome.into(),
            ms,
            vertices,
            edges,
        ])?;
    }
    writer.into_inner().map_err(|e| fail(e.to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::question::Reason;

    use super::*;

    #[test]
    fn an_unfinished_sample_is_longer_than_any_time_and_never_one() {
        let done = |seconds| Cost::Finished { seconds, vertices: 4, edges: 3, verified: true };
        let late = Cost::Unfinished(Reason::TimeLimit { seconds: 1.0 });
        let (short, long) = (done(0.1), done(0.2));
        let cell = Cell::new(1.0, &[&late, &short, &long, &short]).unwrap();
        assert_eq!((cell.samples, cell.finished, cell.verified), (4, 3, 3));
        assert_eq!(cell.ms, [100.0, 200.0, f64::INFINITY]);
        assert_eq!(cell.reasons["time"], 1);
        let cell = Cell::new(1.0, &[&late, &late, &short]).unwrap();
        assert_eq!(cell.ms[1], f64::INFINITY);
        assert!(Cell::new(1.0, &[]).is_none());
    }
}
