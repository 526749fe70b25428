//! The products of the recurrent cell: the reset of the state and the gated update, on points and boxes.
//!
//! A state has `2n` columns, mean and deviation; a gate has `n`, which lie in [0, 1] and serve both halves.

use super::super::tape::Matrix;
use crate::cpu::Real;
use crate::cpu::real::vectorised;

/// The state times the gate. As a gate is not negative, each end of the product takes the gate's end by the sign of
/// the state's.
pub fn shrink<F: Real>(gate: &Matrix<F>, state: &Matrix<F>) -> Matrix<F> {
    let (rows, width) = (gate.rows, gate.columns);
    let mut out = Matrix::zeros(rows, state.columns, state.is_box());
    for (at, from) in halves(rows, width) {
        let (o, g) = (at..at + width, from..from + width);
        if state.is_box() {
            let (centre, radius) = (&mut out.centre[o.clone()], &mut out.radius[o.clone()]);
            let (gc, gr) = (&gate.centre[g.clone()], &gate.radius[g]);
            shrink_boxes(gc, gr, &state.centre[o.clone()], &state.radius[o], centre, radius);
        } else {
            shrink_points(&gate.centre[g], &state.centre[o.clone()], &mut out.centre[o]);
        }
    }
    out
}

/// Where the two halves of each row of a state begin, and where the row of the gate does.
fn halves(rows: usize, width: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..2 * rows).map(move |half| (half * width, half / 2 * width))
}

vectorised! {
    fn shrink_points<F>(gate: &[F], state: &[F], out: &mut [F]) {
        for ((g, y), o) in gate.iter().zip(state).zip(out) {
            *o = *g * *y;
        }
    }
}

vectorised! {
    fn shrink_boxes<F>(gc: &[F], gr: &[F], yc: &[F], yr: &[F], centre: &mut [F], radius: &mut [F]) {
        for i in 0..gc.len().min(gr.len()).min(yc.len()).min(yr.len()).min(centre.len()).min(radius.len()) {
            let (g0, g1) = (gc[i] - gr[i], gc[i] + gr[i]);
            let (y0, y1) = (yc[i] - yr[i], yc[i] + yr[i]);
            let low = y0 * if y0 < F::ZERO { g1 } else { g0 };
            let high = y1 * if y1 < F::ZERO { g0 } else { g1 };
            centre[i] = (low + high) * F::HALF;
            radius[i] = (high - low) * F::HALF;
        }
    }
}

/// Gradients of the gate and of the state.
pub fn shrink_back<F: Real>(
    gate: &Matrix<F>,
    state: &Matrix<F>,
    gradient: &Matrix<F>,
) -> (Matrix<F>, Matrix<F>) {
    let (rows, width) = (gate.rows, gate.columns);
    let boxes = state.is_box();
    let mut on_gate = Matrix::zeros(rows, width, boxes);
    let mut on_state = Matrix::zeros(rows, state.columns, boxes);
    for (at, from) in halves(rows, width) {
        for i in 0..width {
            let (s, g) = (at + i, from + i);
            if !boxes {
                on_gate.centre[g] += gradient.centre[s] * state.centre[s];
                on_state.centre[s] = gradient.centre[s] * gate.centre[g];
                continue;
            }
            let (low, high) = ends(gradient, s);
            let (g0, g1) = (gate.centre[g] - gate.radius[g], gate.centre[g] + gate.radius[g]);
            let (y0, y1) = (state.centre[s] - state.radius[s], state.centre[s] + state.radius[s]);
            let (below, above) = (y0 < F::ZERO, y1 < F::ZERO);
            let on_y0 = low * if below { g1 } else { g0 };
            let on_y1 = high * if above { g0 } else { g1 };
            let on_g0 = F::when(!below, low * y0) + F::when(above, high * y1);
            let on_g1 = F::when(below, low * y0) + F::when(!above, high * y1);
            on_gate.centre[g] += on_g0 + on_g1;
            on_gate.radius[g] += on_g1 - on_g0;
            on_state.centre[s] = on_y0 + on_y1;
            on_state.radius[s] = on_y1 - on_y0;
        }
    }
    (on_gate, on_state)
}

/// The gradients of both ends of an entry.
#[inline(always)]
fn ends<F: Real>(gradient: &Matrix<F>, at: usize) -> (F, F) {
    let (c, r) = (gradient.centre[at], gradient.radius[at]);
    ((c - r) * F::HALF, (c + r) * F::HALF)
}

/// The ends of `|x|` for `x` in `[low, high]`.
#[inline(always)]
fn magnitude<F: Real>(low: F, high: F) -> (F, F) {
    if low >= F::ZERO {
        (low, high)
    } else if high <= F::ZERO {
        (-high, -low)
    } else {
        (F::ZERO, if -low > high { -low } else { high })
    }
}

/// `(1 − u) g + u y`, with |g| in place of g for the deviation.
///
/// For fixed u this grows with g and with y, and for fixed g and y it is a line in u. So the lower end is the smaller
/// of the values at both ends of u, with the lower ends of g and y; it lies at the upper end of u where y is below g.
pub fn mix<F: Real>(gate: &Matrix<F>, candidate: &Matrix<F>, state: &Matrix<F>) -> Matrix<F> {
    let (rows, width) = (gate.rows, gate.columns);
    let boxes = state.is_box();
    let mut out = Matrix::zeros(rows, state.columns, boxes);
    for (half, (at, from)) in halves(rows, width).enumerate() {
        let deviation = half % 2 == 1;
        let (o, g) = (at..at + width, from..from + width);
        if boxes {
            mix_boxes(
                deviation,
                [&gate.centre[g.clone()], &gate.radius[g]],
                [&candidate.centre[o.clone()], &candidate.radius[o.clone()]],
                [&state.centre[o.clone()], &state.radius[o.clone()]],
                &mut out.centre[o.clone()],
                &mut out.radius[o],
            );
        } else {
            let (new, old) = (&candidate.centre[o.clone()], &state.centre[o.clone()]);
            mix_points(deviation, &gate.centre[g], new, old, &mut out.centre[o]);
        }
    }
    out
}

vectorised! {
    fn mix_points<F>(deviation: bool, gate: &[F], new: &[F], old: &[F], out: &mut [F]) {
        for (((u, g), y), o) in gate.iter().zip(new).zip(old).zip(out) {
            let g = if deviation { g.abs() } else { *g };
            *o = (F::ONE - *u) * g + *u * *y;
        }
    }
}

vectorised! {
    fn mix_boxes<F>(
        deviation: bool,
        gate: [&[F]; 2],
        new: [&[F]; 2],
        old: [&[F]; 2],
        centre: &mut [F],
        radius: &mut [F],
    ) {
        for i in 0..centre.len() {
            let (u0, u1) = (gate[0][i] - gate[1][i], gate[0][i] + gate[1][i]);
            let (mut g0, mut g1) = (new[0][i] - new[1][i], new[0][i] + new[1][i]);
            if deviation {
                (g0, g1) = magnitude(g0, g1);
            }
            let (y0, y1) = (old[0][i] - old[1][i], old[0][i] + old[1][i]);
            let (u_low, u_high) = (if y0 < g0 { u1 } else { u0 }, if y1 < g1 { u0 } else { u1 });
            let low = (F::ONE - u_low) * g0 + u_low * y0;
            let high = (F::ONE - u_high) * g1 + u_high * y1;
            centre[i] = (low + high) * F::HALF;
            radius[i] = (high - low) * F::HALF;
        }
    }
}

/// Gradients of an update.
pub struct MixBack<F> {
    /// Of the gate.
    pub gate: Matrix<F>,
    /// Of the candidate.
    pub candidate: Matrix<F>,
    /// Of the state before.
    pub state: Matrix<F>,
}

/// The gradient of [`mix`], which goes to the ends that were chosen.
pub fn mix_back<F: Real>(
    gate: &Matrix<F>,
    candidate: &Matrix<F>,
    state: &Matrix<F>,
    gradient: &Matrix<F>,
) -> MixBack<F> {
    let (rows, width) = (gate.rows, gate.columns);
    let boxes = state.is_box();
    let mut back = MixBack {
        gate: Matrix::zeros(rows, width, boxes),
        candidate: Matrix::zeros(rows, state.columns, boxes),
        state: Matrix::zeros(rows, state.columns, boxes),
    };
    for (half, (at, from)) in halves(rows, width).enumerate() {
        let deviation = half % 2 == 1;
        for i in 0..width {
            let (s, g) = (at + i, from + i);
            if !boxes {
                let (grad, u, raw) = (gradient.centre[s], gate.centre[g], candidate.centre[s]);
                let (new, slope) = if deviation { (raw.abs(), raw.sign()) } else { (raw, F::ONE) };
                back.gate.centre[g] += grad * (state.centre[s] - new);
                back.candidate.centre[s] = grad * (F::ONE - u) * slope;
                back.state.centre[s] = grad * u;
                continue;
            }
            let (low, high) = ends(gradient, s);
            let (u0, u1) = (gate.centre[g] - gate.radius[g], gate.centre[g] + gate.radius[g]);
            let (raw0, raw1) =
                (candidate.centre[s] - candidate.radius[s], candidate.centre[s] + candidate.radius[s]);
            let (g0, g1) = if deviation { magnitude(raw0, raw1) } else { (raw0, raw1) };
            let (y0, y1) = (state.centre[s] - state.radius[s], state.centre[s] + state.radius[s]);
            // Whether the lower end lies at the upper end of the gate, and the upper end at the lower.
            let (crossed0, crossed1) = (y0 < g0, y1 < g1);
            let (u_low, u_high) = (if crossed0 { u1 } else { u0 }, if crossed1 { u0 } else { u1 });
            let (on_u_low, on_u_high) = (low * (y0 - g0), high * (y1 - g1));
            let on_u0 = F::when(!crossed0, on_u_low) + F::when(crossed1, on_u_high);
            let on_u1 = F::when(crossed0, on_u_low) + F::when(!crossed1, on_u_high);
            back.gate.centre[g] += on_u0 + on_u1;
            back.gate.radius[g] += on_u1 - on_u0;
            let (on_g0, on_g1) = (low * (F::ONE - u_low), high * (F::ONE - u_high));
            let (on_raw0, on_raw1) = if !deviation || raw0 >= F::ZERO {
                (on_g0, on_g1)
            } else if raw1 <= F::ZERO {
                (-on_g1, -on_g0)
            } else if -raw0 > raw1 {
                (-on_g1, F::ZERO)
            } else {
                (F::ZERO, on_g1)
            };
            back.candidate.centre[s] = on_raw0 + on_raw1;
            back.candidate.radius[s] = on_raw1 - on_raw0;
            let (on_y0, on_y1) = (low * u_low, high * u_high);
            back.state.centre[s] = on_y0 + on_y1;
            back.state.radius[s] = on_y1 - on_y0;
        }
    }
    back
}
