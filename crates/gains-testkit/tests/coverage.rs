//! What is drawn is what the loader accepts, and all of it.

use std::collections::BTreeSet;

use gains_core::description::{ControllerSpec, LayerSpec};
use gains_testkit::Choices;
use gains_testkit::grammar::{ForecastCase, ImageCase};

/// Words for what occurs in layers.
fn collect(layers: &[LayerSpec], inside: &str, seen: &mut BTreeSet<String>) {
    for layer in layers {
        let spec = serde_json::to_value(layer).expect("a layer is JSON");
        seen.insert(format!("{inside} {}", spec["type"].as_str().unwrap_or_default()));
        match layer {
            LayerSpec::Conv2d { time: true, .. } | LayerSpec::Linear { time: true, .. } => {
                seen.insert(format!("{inside} time"));
            }
            LayerSpec::Ode { dynamics, solver } => {
                let controller = match solver.controller {
                    ControllerSpec::Fixed { .. } => "fixed",
                    ControllerSpec::Adaptive { .. } => "adaptive",
                    ControllerSpec::ControlledAdaptive(_) => "controlled",
                };
                seen.insert(format!("{controller} {:?}", solver.method));
                collect(dynamics, "dynamics", seen);
            }
            _ => {}
        }
    }
}

const LAYERS: [&str; 27] = [
    "softplus",
    "silu",
    "gelu",
    "elu",
    "sin",
    "cos",
    "square",
    "clamp",
    "hardtanh",
    "relu6",
    "slice",
    "pad",
    "reshape",
    "max_pool2d",
    "batch_norm",
    "group_norm",
    "layer_norm",
    "normalize",
    "conv2d",
    "linear",
    "avg_pool2d",
    "global_avg_pool",
    "flatten",
    "relu",
    "leaky_relu",
    "sigmoid",
    "tanh",
];

#[test]
fn classifiers_of_every_kind_are_drawn() {
    let mut seen = BTreeSet::new();
    let mut blocks = BTreeSet::new();
    let mut images = 0;
    for seed in 0..3000 {
        let case = ImageCase::draw(&mut Choices::from_seed(seed));
        let network = case.model.network();
        assert!((2..=4).contains(&network.outputs()));
        assert!(case.region().contains(&case.centre));
        let layers = &case.model.description.layers;
        blocks.insert(layers.iter().filter(|layer| matches!(layer, LayerSpec::Ode { .. })).count());
        images += usize::from(network.body.output_shape().positions() > 1);
        collect(layers, "network", &mut seen);
    }
    assert_eq!(blocks, BTreeSet::from([0, 1, 2, 3]));
    assert!(images > 100, "outputs that are an image");
    for inside in ["network", "dynamics"] {
        for layer in LAYERS.iter().chain(&["time"]) {
            assert!(seen.contains(&format!("{inside} {layer}")), "no {layer} in {inside}");
        }
    }
    let methods = ["Euler", "Midpoint", "Heun", "Rk4", "Rk38", "Bosh3", "Fehlberg2", "Dopri5", "Dopri8"];
    for method in methods {
        assert!(seen.contains(&format!("fixed {method}")), "no fixed steps of {method}");
    }
    for method in ["Heun", "Bosh3", "Fehlberg2", "Dopri5", "Dopri8"] {
        assert!(seen.contains(&format!("controlled {method}")), "no controlled steps of {method}");
    }
}

#[test]
fn forecasts_of_every_kind_are_drawn() {
    let mut seen = BTreeSet::new();
    for seed in 0..2000 {
        let case = ForecastCase::draw(&mut Choices::from_seed(seed));
        let network = case.model.network();
        let encoder = network.encoder.as_ref().expect("a forecasting network has an encoder");
        case.series.check(encoder).expect("a series that fits");
        let spec = case.model.description.encoder.as_ref().expect("it is described");
        for part in [&spec.initial, &spec.dynamics, &spec.update, &spec.reset, &spec.candidate, &spec.latent]
        {
            collect(part, "encoder", &mut seen);
        }
        collect(&case.model.description.layers, "decoder", &mut seen);
    }
    for inside in ["encoder", "decoder", "dynamics"] {
        for layer in LAYERS {
            assert!(seen.contains(&format!("{inside} {layer}")), "no {layer} in {inside}");
        }
    }
}
