//! The kernels on an emulated device against the host.

use super::Kernels;
use super::emulated::Emulated;
use crate::StepForm;
use crate::cpu::Real;
use crate::program::Host;
use crate::program::machines::{
    batches_agree, operators_agree, padded, rules_agree, runs_agree, runs_learn_and_repeat_themselves,
    some_batches,
};

fn host() -> Host<f64> {
    Host::new(Some(1)).unwrap()
}

fn emulated<F: Real>() -> Option<Kernels<Emulated, F>> {
    Emulated::new::<F>().map(Kernels::new)
}

#[test]
fn emulated_kernels_compute_what_the_host_does() {
    let (Some(double), Some(single)) = (emulated::<f64>(), emulated::<f32>()) else { return };
    operators_agree(&host(), &double, 1e-11);
    operators_agree(&host(), &single, 1e-5);
    rules_agree(&host(), &double, 1e-9);
    rules_agree(&host(), &single, 1e-5);
    batches_agree(&host(), &double, 1e-7);
    batches_agree(&Host::<f32>::new(Some(1)).unwrap(), &single, 1e-6);
}

#[test]
fn emulated_runs_are_those_of_the_host() {
    if emulated::<f64>().is_none() {
        return;
    }
    runs_agree(host, || emulated::<f64>().unwrap(), 3, 1e-8);
}

#[test]
fn emulated_runs_learn_and_repeat_themselves() {
    if emulated::<f32>().is_some() {
        runs_learn_and_repeat_themselves(|| emulated::<f32>().unwrap());
    }
}

#[test]
fn padded_encoders_train_on_an_emulated_device() {
    let Some(kernels) = emulated::<f64>() else { return };
    let (config, description) = padded(5, 3, StepForm::Difference);
    let network = (description.input, &description.layers[..], 10);
    let (found, parameters) = some_batches(kernels, &config, network, 1);
    let (expected, of_host) = some_batches(host(), &config, network, 1);
    assert!((found[0].loss.total - expected[0].loss.total).abs() < 1e-9 * expected[0].loss.total);
    let apart = parameters.iter().zip(&of_host).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 1e-8, "{apart}");
}

#[test]
fn a_batch_that_is_too_large_is_refused_and_what_comes_after_does_nothing() {
    use crate::program::Machine;
    let Some(kernels) = emulated::<f32>() else { return };
    super::launch!(kernels, "add_to", [1, 1, 1], 0_u64, 0_u64, usize::MAX);
    let x = kernels.put(crate::matrix::Matrix::points(1, 2, vec![1.0, 2.0]));
    assert_eq!(kernels.read(&x).centre, [0.0, 0.0], "nothing is done any more");
    let message = kernels.check().unwrap_err().to_string();
    assert!(message.contains("smaller batches"), "{message}");
    assert!(kernels.check().is_ok(), "what went wrong is said once");
    let x = kernels.put(crate::matrix::Matrix::points(1, 2, vec![1.0, 2.0]));
    assert_eq!(kernels.read(&x).centre, [1.0, 2.0]);
}
