//! Standard accuracy of the authors' networks on the first 1000 test images.

use gains_core::Precision;
use gains_data::Dataset;
use gains_ode::Inference;

use crate::support;

/// Correct out of 1000, as the authors' code finds them in float64 with batch size 1.
const EXPECTED: [(&str, &str, usize); 8] = [
    ("fmnist", "prov_eps0.11_seed12345", 766),
    ("fmnist", "prov_eps0.16_seed12345", 710),
    ("fmnist", "std_seed12345", 893),
    ("fmnist", "adv_eps0.11_seed12345", 802),
    ("mnist", "prov_eps0.11_seed12345", 956),
    ("mnist", "prov_eps0.22_seed12345", 921),
    ("mnist", "std_seed12345", 991),
    ("mnist", "adv_eps0.11_seed12345", 993),
];

#[test]
fn standard_accuracy_equals_the_authors() {
    let Some(folder) = support::folder("standard_accuracy_equals_the_authors") else { return };
    for (set, name, expected) in EXPECTED {
        let dataset = if set == "mnist" { Dataset::Mnist } else { Dataset::FashionMnist };
        let Some(images) = support::images(&folder, dataset, 1000) else { continue };
        let network = support::network(&folder, set, name);
        let correct = (0..1000)
            .filter(|&i| {
                let run = Inference::run(&network, &images.image(i), Precision::Float64);
                run.expect("the network runs").prediction() == images.label(i)
            })
            .count();
        assert_eq!(correct, expected, "{set} {name}");
        println!("{set} {name}: {correct} of 1000");
    }
}
