//! What went wrong with a case, and how to see it again.

use std::cell::Cell;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use gains_testkit::{Choices, shrink};

/// What kind of thing went wrong; a case is only made smaller as long as it stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bound excludes a run.
    FalseBound,
    /// A run is no path of its trajectory graph.
    Astray,
    /// A verdict that a point refutes, or a witness that is none.
    FalseVerdict,
    /// The verifier said something it should never have to say.
    Odd,
    /// It panicked.
    Panic,
}

/// Something that went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    pub kind: Kind,
    pub what: String,
}

impl Failure {
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.what)
    }
}

/// How often something was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub cases: usize,
    /// Ways that gave bounds.
    pub bounded: usize,
    /// Ways that gave up.
    pub gave_up: usize,
    /// Bounds of rows compared with runs.
    pub compared: usize,
    pub verified: usize,
    pub falsified: usize,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.cases += other.cases;
        self.bounded += other.bounded;
        self.gave_up += other.gave_up;
        self.compared += other.compared;
        self.verified += other.verified;
        self.falsified += other.falsified;
    }
}

/// A kind of case.
pub trait Subject: Display + Sized {
    /// Name in reports.
    const NAME: &'static str;

    fn draw(choices: &mut Choices) -> Self;

    fn check(&self) -> Result<Tally, Failure>;

    /// The network as a model file, for other tools.
    fn file(&self) -> Option<Vec<u8>>;
}

thread_local! {
    /// Whether panics of this thread are part of the search, and not worth a message each.
    static SEARCHING: Cell<bool> = const { Cell::new(false) };
}

fn quiet_while_searching() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !SEARCHING.get() {
                usual(info);
            }
        }));
    });
}

fn run<C: Subject>(choices: &mut Choices) -> Result<Tally, Failure> {
    quiet_while_searching();
    SEARCHING.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(|| C::draw(choices).check()));
    SEARCHING.set(false);
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("of unknown kind");
        Err(Failure::new(Kind::Panic, text))
    })
}

/// Checks the case of a seed. If it fails, tells how to repeat it, and the smallest case like it.
pub fn check<C: Subject>(seed: u64, attempts: usize) -> Result<Tally, String> {
    let mut choices = Choices::from_seed(seed);
    let failure = match run::<C>(&mut choices) {
        Ok(tally) => return Ok(tally),
        Err(failure) => failure,
    };
    let least = shrink(choices.made(), attempts, |made| {
        let mut choices = Choices::replay(made);
        let found = run::<C>(&mut choices).err()?;
        (found.kind == failure.kind).then(|| choices.made().to_vec())
    });
    let again = run::<C>(&mut Choices::replay(&least)).err().unwrap_or_else(|| failure.clone());
    Err(format!(
        "{name} case {seed:#x}: {failure}\nsmallest like it: {again}\n{case}again: GAINS_FUZZ_CASE={seed:#x} \
         cargo test -p gains-verify --test grammar -- --ignored --nocapture one_{name}_case\n",
        name = C::NAME,
        case = C::draw(&mut Choices::replay(&least)),
    ))
}
