//! Random small latent ODEs of the usual form, and random series for them.

use gains_core::LatentOde;
use gains_core::description::{
    ControlledSpec, ControllerSpec, Description, LayerSpec, Points, RungeKutta, SolverSpec,
};
use gains_core::latent_ode::tensor_shapes;
use gains_core::model_file::Tensors;
use gains_ode::Observations;

use crate::model::{Model, names};

/// Features of the series.
pub const FEATURES: usize = 4;
/// What is known of a series as a whole.
pub const STATICS: usize = 3;

fn solver() -> SolverSpec {
    SolverSpec {
        method: RungeKutta::Dopri5,
        controller: ControllerSpec::ControlledAdaptive(ControlledSpec {
            factor: 2,
            tolerance: 0.005,
            initial_step: 0.25,
            minimum_step: 0.05,
            rejections_after_clipping: 1,
        }),
        end_time: 1.0,
    }
}

/// A network of random sizes and weights; every third has activations other than ReLU in places.
pub fn model(seed: u64, gain: f64) -> Model {
    let mut random = fastrand::Rng::with_seed(seed ^ 0xABCD);
    let sizes = LatentOde {
        state: random.usize(2..6),
        dynamics: (random.usize(2..6), random.usize(0..3)),
        gates: random.usize(2..7),
        transform: random.usize(2..8),
        latent: random.usize(1..4),
        decoder: (random.usize(2..6), random.usize(1..3)),
    };
    let points = if seed.is_multiple_of(2) { Points::Observed } else { Points::All };
    let mut description = sizes.description(names(FEATURES), names(STATICS), points, solver());
    if seed % 3 == 2 {
        let encoder = description.encoder.as_mut().expect("a latent ODE has an encoder");
        encoder.initial.pop();
        for (part, new) in [
            (&mut encoder.candidate, LayerSpec::Tanh {}),
            (&mut encoder.latent, LayerSpec::LeakyRelu { slope: 0.125 }),
            (&mut encoder.update, LayerSpec::Sigmoid {}),
        ] {
            part.iter_mut().filter(|l| matches!(l, LayerSpec::Relu {})).for_each(|l| *l = new.clone());
        }
    }
    let tensors = tensors(&description, &mut random, gain);
    Model { description, tensors }
}

/// Random weights for a latent ODE, about `gain` times as large as at the start of training.
pub fn tensors(description: &Description, random: &mut fastrand::Rng, gain: f64) -> Tensors {
    let mut fill = |(name, shape): (String, Vec<usize>)| {
        let count: usize = shape.iter().product();
        let scale = gain / (shape[shape.len() - 1] as f64).sqrt();
        let values = (0..count).map(|_| f64::from(((random.f64() * 2.0 - 1.0) * scale) as f32)).collect();
        (name, (shape, values))
    };
    tensor_shapes(description).into_iter().map(&mut fill).collect()
}

/// A series with some points; the first feature is never observed in every fourth.
pub fn series(seed: u64, points: usize) -> Observations {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x77);
    let entries = points * FEATURES;
    let mut times: Vec<f64> = (0..points).map(|_| f64::from(random.f32())).collect();
    times.sort_by(f64::total_cmp);
    if points > 2 && random.bool() {
        times[1] = times[2];
    }
    let missing = seed.is_multiple_of(4);
    Observations {
        statics: (0..STATICS).map(|_| f64::from(random.f32() * 2.0 - 1.0)).collect(),
        times,
        values: (0..entries).map(|_| f64::from(random.f32() * 2.0 - 1.0)).collect(),
        mask: (0..entries).map(|i| !(missing && i % FEATURES == 0) && random.u8(0..3) > 0).collect(),
        target_time: f64::from(random.f32()) + 0.1,
    }
}

/// A network whose latent layers are convolutions with padding, so that rows live on windows of images.
pub fn with_windows(seed: u64) -> Model {
    let mut model = model(seed, 1.0);
    let encoder = model.description.encoder.as_mut().expect("a latent ODE has an encoder");
    let (state, latent) = match (encoder.latent.first(), encoder.latent.last()) {
        (Some(LayerSpec::Linear { in_features, .. }), Some(LayerSpec::Linear { out_features, .. })) => {
            (*in_features, *out_features)
        }
        _ => panic!("the latent layers of the zoo are linear"),
    };
    let conv = |name: &str, out_channels, kernel: usize, stride: usize, padding: usize| LayerSpec::Conv2d {
        name: name.into(),
        in_channels: 1,
        out_channels,
        kernel: [kernel; 2],
        stride: [stride; 2],
        padding: [padding; 2],
        dilation: [1, 1],
        time: false,
    };
    encoder.latent = vec![
        LayerSpec::Linear { name: "w.0".into(), in_features: state, out_features: 1, time: false },
        conv("w.1", 1, 1, 1, 1),
        LayerSpec::Relu {},
        conv("w.2", latent, 2, 2, 0),
    ];
    // One pixel is alive in the middle of a dead border.
    for (name, shape, value) in [
        ("w.0.weight", vec![1, state], 0.5),
        ("w.0.bias", vec![1], 10.0),
        ("w.1.weight", vec![1, 1, 1, 1], 1.0),
        ("w.1.bias", vec![1], -1.0),
        ("w.2.weight", vec![latent, 1, 2, 2], 0.125),
        ("w.2.bias", vec![latent], -1.125),
    ] {
        let values = vec![value; shape.iter().product()];
        model.tensors.insert(name.into(), (shape, values));
    }
    model.tensors.retain(|name, _| !name.starts_with("encoder.latent"));
    model
}
