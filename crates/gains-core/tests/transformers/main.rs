//! Every transformer of the numeric core against its definition, in exact arithmetic.
//!
//! A bound that is off by half an ulp on the wrong side fails here: the comparisons leave no room for
//! rounding, and the intervals are chosen to reach from subnormal to huge.

mod exact;
mod lines;
mod maps;
mod matrices;
mod sums;
