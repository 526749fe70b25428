//! The kernels, in parts that are compiled when they are first needed.

use crate::cpu::Real;

/// Some kernels that are compiled together.
pub struct Part {
    /// Their source, behind the line that says what `real` is.
    pub text: &'static str,
    /// Their names.
    pub kernels: &'static [&'static str],
}

macro_rules! kernels {
    ($($name:literal),*) => {
        concat!($(include_str!(concat!("kernels/", $name, ".cu")), "\n"),*)
    };
}

macro_rules! rule {
    ($count:literal) => {
        Part {
            text: concat!(kernels!("base", "number", "curve", "rules"), "RULE(", $count, ")\n"),
            kernels: &[concat!("rule_forward_", $count), concat!("rule_back_", $count)],
        }
    };
}

/// All of them.
pub const PARTS: [Part; 11] = [
    Part {
        text: kernels!("base", "values"),
        kernels: &["add_to", "combine", "copy_columns", "magnitudes", "settle", "squares", "follow", "track"],
    },
    Part {
        text: kernels!("base", "layer"),
        kernels: &["layer_forward", "layer_back", "layer_weights", "column_sums", "add_slabs"],
    },
    Part {
        text: kernels!("base", "fixed"),
        kernels: &["gathered", "given_scale", "group_means", "learned_scale", "learned_scale_gradient"],
    },
    Part {
        text: kernels!("base", "norm"),
        kernels: &[
            "norm_measure",
            "norm_running",
            "norm_follow",
            "norm_forward",
            "norm_sums",
            "norm_parameters",
            "norm_back",
        ],
    },
    Part {
        text: kernels!("base", "batch"),
        kernels: &["region", "scatter", "ascend", "measure", "motion", "seen", "seen_back", "head_gradient"],
    },
    Part {
        text: kernels!("base", "number", "curve", "rules", "each"),
        kernels: &["each_forward", "each_back"],
    },
    rule!(1),
    rule!(2),
    rule!(3),
    rule!(6),
    rule!(9),
];

/// The number of the part that has a kernel.
pub fn part_of(kernel: &str) -> Option<usize> {
    PARTS.iter().position(|part| part.kernels.contains(&kernel))
}

/// The source of a part for values in `F`.
pub fn source<F: Real>(part: usize) -> String {
    let real = if size_of::<F>() == 4 { "float" } else { "double" };
    format!("typedef {real} real;\n{}", PARTS[part].text)
}
