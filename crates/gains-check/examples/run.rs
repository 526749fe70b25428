//! Runs a model at points and prints trajectories, for `scripts/semantics.py`: lines of JSON in and out.

use std::io::BufRead;

use gains_check::Model;
use gains_check::fault::Deadline;
use gains_check::interval::Interval;
use gains_check::witness::{Move, run, solve};
use serde_json::{Value, json};

fn ends(x: Interval) -> Value {
    json!([x.low, x.high])
}

#[expect(clippy::print_stdout, reason = "this is a program that prints")]
fn main() -> Result<(), String> {
    let path = std::env::args().nth(1).ok_or("usage: run MODEL < POINTS")?;
    let model = Model::read(&std::fs::read(path).map_err(|error| error.to_string())?)?;
    for line in std::io::stdin().lock().lines() {
        let line: Vec<f64> =
            serde_json::from_str(&line.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
        let mut steps = Vec::new();
        let outputs = run(
            &model.network,
            vec![line.into_iter().map(Interval::point).collect()],
            Deadline::default(),
            &mut |ode, state| {
                let (end, moves) = solve(ode, state, 100_000, Deadline::default())?;
                steps.extend(moves.iter().map(|&Move { place, error, action }| {
                let (time, size) = (ode.solver.time(place), ode.solver.step(place));
                json!({"time": time, "step": size, "error": error.map(ends), "action": format!("{action:?}").to_lowercase()})
            }));
                Ok(end)
            },
        );
        match outputs {
            Ok(outputs) => println!(
                "{}",
                json!({"outputs": outputs.into_iter().map(ends).collect::<Vec<_>>(), "trajectory": steps})
            ),
            Err(fault) => println!("{}", json!({"unclear": fault.to_string()})),
        }
    }
    Ok(())
}
