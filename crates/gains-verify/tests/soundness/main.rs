//! Trying to break the verifier: every bound against points that were sampled, cornered and attacked, every
//! transformer and the whole analysis against exact arithmetic, float32 verdicts against float32 programs.

mod attacked;
mod branching;
mod cancelling;
mod combinations;
mod curls;
mod direct;
#[path = "../../../gains-core/tests/transformers/exact.rs"]
mod exact;
mod extremes;
mod float32;
mod limits;
mod machines;
mod oracle;
mod oracle_agrees;
mod oracle_rows;
mod planted;
mod properties;
mod race;
mod region;
mod regressions;
mod steps;
mod symbolic;
mod verdicts;
