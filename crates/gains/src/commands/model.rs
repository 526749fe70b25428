//! `gains model`.

use std::fmt::Write as _;
use std::path::Path;

use gains_core::description::{ControllerSpec, Task};
use gains_core::import::import_checkpoint;
use gains_core::network::Layer;
use gains_core::{AffineMap, Block, Network, Shape};

use crate::cli::{Global, ModelCommand};
use crate::failure::{Failure, Outcome};
use crate::table::layout;
use crate::{bundled, files};

/// Runs the command.
pub fn run(command: &ModelCommand, global: &Global) -> Outcome {
    match command {
        ModelCommand::Show { file } => {
            print!("{}", describe(&files::load_model(file.as_deref())?));
            Ok(())
        }
        ModelCommand::List => list(),
        ModelCommand::Import { weights, sidecar, out } => import(weights, sidecar, out, global),
    }
}

fn list() -> Outcome {
    let mut rows = Vec::new();
    for entry in &bundled::MODELS {
        let network = entry.network()?;
        rows.push(vec![
            entry.name.into(),
            network.hash.clone(),
            network.parameters().to_string(),
            entry.about.into(),
        ]);
    }
    print!("{}", layout(&["name", "hash", "parameters", "about"], &rows));
    Ok(())
}

fn import(weights: &Path, sidecar: &Path, out: &Path, global: &Global) -> Outcome {
    let bytes = files::read_limited(weights)?;
    let text = std::fs::read_to_string(sidecar).map_err(|e| Failure::reading(sidecar, &e))?;
    let model = import_checkpoint(&bytes, &text).map_err(|e| {
        Failure::new(format!("'{}': {e}", weights.display()))
            .hint("expected the tensors of a published checkpoint, and a sidecar with h0 and dataset")
    })?;
    files::write_atomically(out, &model)?;
    if !global.quiet {
        println!("wrote {}", out.display());
    }
    Ok(())
}

/// What a person wants to know about a model.
fn describe(network: &Network) -> String {
    let d = &network.description;
    let mut text = String::new();
    let _ = writeln!(text, "name        {}", d.name);
    let _ = writeln!(text, "hash        {}", network.hash);
    let _ = writeln!(text, "task        {}", task(&d.task));
    let _ = writeln!(text, "data set    {}", d.dataset.as_deref().unwrap_or("not said"));
    let _ = writeln!(text, "input       {}", d.input);
    let _ = writeln!(text, "parameters  {}\n", network.parameters());
    let mut rows = Vec::new();
    if let Some(encoder) = &network.encoder {
        for (name, stack) in encoder.parts() {
            let parameters = stack.parameters().to_string();
            rows.push(vec![format!("encoder {name}"), stack.output().to_string(), parameters]);
            layer_rows(&stack.layers, stack.input, "  ", &mut rows);
        }
    }
    for block in &network.blocks {
        match block {
            Block::Stack(stack) => layer_rows(&stack.layers, stack.input, "", &mut rows),
            Block::Ode(ode) => {
                let parameters = ode.dynamics.parameters().to_string();
                rows.push(vec!["ode".into(), ode.dynamics.input.to_string(), parameters]);
                layer_rows(&ode.dynamics.layers, ode.dynamics.input, "  ", &mut rows);
                rows.push(vec![format!("  {}", solver(&ode.solver)), String::new(), String::new()]);
            }
        }
    }
    text.push_str(&layout(&["layer", "output", "parameters"], &rows));
    if !d.training.is_null() {
        let record = serde_json::to_string_pretty(&d.training).unwrap_or_default();
        let _ = writeln!(text, "\ntraining record\n{record}");
    }
    text
}

fn task(task: &Task) -> String {
    match task {
        Task::Classification { classes } => {
            format!("classification, {} classes: {}", classes.len(), classes.join(", "))
        }
        Task::Forecasting { features, statics } => format!(
            "forecasting, {} features: {}; {} statics: {}",
            features.len(),
            features.join(", "),
            statics.len(),
            statics.join(", ")
        ),
    }
}

fn layer_rows(layers: &[Layer], input: Shape, indent: &str, rows: &mut Vec<Vec<String>>) {
    let mut shape = input;
    for layer in layers {
        let (name, parameters) = match layer {
            Layer::Activation(activation) => (activation.to_string(), 0),
            Layer::Affine(map) => {
                shape = map.output();
                (affine(map), map.parameters())
            }
        };
        let parameters = if parameters == 0 { String::new() } else { parameters.to_string() };
        rows.push(vec![format!("{indent}{name}"), shape.to_string(), parameters]);
    }
}

fn affine(map: &AffineMap) -> String {
    match map {
        AffineMap::Conv(conv) => {
            let g = conv.geometry();
            let time = if map.uses_time() { " + time" } else { "" };
            if conv.input().positions() == 1 && g.kernel == (1, 1) {
                format!("linear {} → {}{time}", conv.input().channels, conv.output().channels)
            } else {
                format!(
                    "conv {} → {}, kernel {}x{}, stride {}, padding {}, dilation {}{time}",
                    conv.input().channels,
                    conv.output().channels,
                    g.kernel.0,
                    g.kernel.1,
                    g.stride.0,
                    g.padding.0,
                    g.dilation.0
                )
            }
        }
        AffineMap::Pool(_) => "average pooling".into(),
        AffineMap::Scale(_) => "normalise".into(),
        AffineMap::Permute(_) => "flatten".into(),
    }
}

fn solver(spec: &gains_core::description::SolverSpec) -> String {
    let method = gains_ode::Tableau::of(spec.method).name;
    let control = match &spec.controller {
        ControllerSpec::Fixed { steps } => format!("{steps} equal steps"),
        ControllerSpec::Adaptive { tolerance, initial_step, .. } => {
            format!("adaptive, tolerance {tolerance}, first step {initial_step}")
        }
        ControllerSpec::ControlledAdaptive(c) => format!(
            "controlled adaptive, factor {}, tolerance {}, h0 {}, minimum step {}, {} rejection(s) after clipping",
            c.factor, c.tolerance, c.initial_step, c.minimum_step, c.rejections_after_clipping
        ),
    };
    format!("solver {method}, {control}, end time {}", spec.end_time)
}
