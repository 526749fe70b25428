//! Living dynamics. Training against large perturbations can switch the neural ODE off: a state that does not move has
//! the narrowest box. This term makes it pay.
//!
//! With `m = Σ ‖z(T) − z(0)‖₁ / Σ ‖z(0)‖₁` over a batch, the *motion* of the state, it is `max(0, 1 − m / target)`.

/// The term, and its slopes at z(0) and z(T).
pub(crate) struct Alive {
    /// The motion.
    pub(crate) motion: f64,
    /// The term.
    pub(crate) value: f64,
    /// Slopes at z(0).
    pub(crate) start: Vec<f64>,
    /// Slopes at z(T).
    pub(crate) end: Vec<f64>,
}

fn sign(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value.signum() }
}

/// The term for the states of a batch. A state that is 0 altogether has no size to compare with, and no slopes.
pub(crate) fn alive(start: &[f64], end: &[f64], target: f64) -> Alive {
    let size: f64 = start.iter().map(|value| value.abs()).sum();
    let moved: f64 = start.iter().zip(end).map(|(from, to)| (to - from).abs()).sum();
    let motion = if size > 0.0 { moved / size } else { 0.0 };
    let value = 1.0 - motion / target;
    if value <= 0.0 || size <= 0.0 {
        let none = vec![0.0; start.len()];
        return Alive { motion, value: value.max(0.0), start: none.clone(), end: none };
    }
    let each = 1.0 / (target * size);
    let direction = |(from, to): (&f64, &f64)| sign(to - from);
    let at_start = |(from, to): (&f64, &f64)| each * (motion * sign(*from) + sign(to - from));
    Alive {
        motion,
        value,
        start: start.iter().zip(end).map(at_start).collect(),
        end: start.iter().zip(end).map(|pair| -each * direction(pair)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_term_and_a_lively_state_has_none() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut draw = |count: usize| (0..count).map(|_| random.f64() - 0.4).collect::<Vec<f64>>();
        let (start, end) = (draw(12), draw(12));
        let here = alive(&start, &end, 9.0);
        assert!(here.value > 0.0 && here.motion > 0.0);
        for at in 0..12 {
            let moved = |reach: f64, first: bool| {
                let (mut start, mut end) = (start.clone(), end.clone());
                *if first { &mut start[at] } else { &mut end[at] } += reach;
                alive(&start, &end, 9.0).value
            };
            let slope = |first| (moved(1e-6, first) - moved(-1e-6, first)) / 2e-6;
            assert!((slope(true) - here.start[at]).abs() < 1e-8, "start {at}");
            assert!((slope(false) - here.end[at]).abs() < 1e-8, "end {at}");
        }
        let lively = alive(&start, &end, 0.5 * here.motion);
        assert!(lively.value == 0.0 && lively.end.iter().all(|slope| *slope == 0.0));
        assert_eq!(alive(&[0.0; 3], &[0.0; 3], 1.0).value, 1.0);
    }
}
