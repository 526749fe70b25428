//! Entry-by-entry rules of the difference form, forward and backward.
//!
//! Boxes are pairs of lower and upper ends here. Every end is a copy of one of a few others, or a sum of two; which,
//! is a bit, and given the bits the gradient is linear. Where two enclosures meet, the ordinary one wins ties, keeps
//! its NaNs, and is taken whole should rounding make the two miss each other.

use super::real::{Real, flag, vectorised};

/// Lower and upper ends, or centres and radii.
pub(crate) type Pair<F> = [Vec<F>; 2];

/// The lower end comes from the second enclosure.
pub(crate) const LOWER_SECOND: u8 = 1;
/// The upper end comes from the second enclosure.
pub(crate) const UPPER_SECOND: u8 = 2;
/// The same for the difference of two stage inputs.
const DIFFERENCE: u8 = 2;

const LOWER_ON: u16 = 1;
const UPPER_ON: u16 = 1 << 1;
const BEFORE_LOWER_CHAIN: u16 = 1 << 2;
const BEFORE_UPPER_CHAIN: u16 = 1 << 3;
const AFTER_LOWER_CHAIN: u16 = 1 << 4;
const AFTER_UPPER_CHAIN: u16 = 1 << 5;
const LOWER_IS_DIFFERENCE: u16 = 1 << 6;
const LOWER_IS_RELUS: u16 = 1 << 7;
const UPPER_IS_DIFFERENCE: u16 = 1 << 8;
const UPPER_IS_RELUS: u16 = 1 << 9;

/// The intersection of two boxes and whether its ends come from the second.
#[inline(always)]
fn meet<F: Real>(first: (F, F), second: (F, F)) -> (F, F, bool, bool) {
    let (lower_second, upper_second) = (second.0 > first.0, second.1 < first.1);
    let lower = if lower_second { second.0 } else { first.0 };
    let upper = if upper_second { second.1 } else { first.1 };
    let apart = lower > upper;
    let (lower_second, upper_second) = (lower_second & !apart, upper_second & !apart);
    (
        if lower_second { second.0 } else { first.0 },
        if upper_second { second.1 } else { first.1 },
        lower_second,
        upper_second,
    )
}

vectorised! {
    /// `first ← first ∩ second`.
    pub(crate) fn meet_into<F>(first: &mut Pair<F>, second: &Pair<F>, bits: &mut [u8]) {
        let n = bits.len();
        let [lower, upper] = first;
        let (lower, upper) = (&mut lower[..n], &mut upper[..n]);
        let (other_lower, other_upper) = (&second[0][..n], &second[1][..n]);
        for i in 0..n {
            let (l, u, from_l, from_u) = meet((lower[i], upper[i]), (other_lower[i], other_upper[i]));
            (lower[i], upper[i]) = (l, u);
            bits[i] = flag(from_l, LOWER_SECOND) | flag(from_u, UPPER_SECOND);
        }
    }
}

vectorised! {
    /// The gradient of [`meet_into`]: what belongs to the second box moves there.
    pub(crate) fn meet_into_back<F>(first: &mut Pair<F>, second: &mut Pair<F>, bits: &[u8]) {
        let n = bits.len();
        for (end, bit) in [(0, LOWER_SECOND), (1, UPPER_SECOND)] {
            let (f, s) = (&mut first[end][..n], &mut second[end][..n]);
            for i in 0..n {
                let moves = bits[i] & bit != 0;
                s[i] = F::when(moves, f[i]);
                f[i] = F::when(!moves, f[i]);
            }
        }
    }
}

vectorised! {
    /// The input of a stage: `before ← ordinary ∩ (before + difference)`, with `difference ← difference ∩ other`.
    pub(crate) fn stage_input<F>(
        ordinary: &Pair<F>,
        before: &mut Pair<F>,
        difference: &mut Pair<F>,
        other: &Pair<F>,
        bits: &mut [u8],
    ) {
        let n = bits.len();
        let [sl, su] = before;
        let [dl, du] = difference;
        let (sl, su, dl, du) = (&mut sl[..n], &mut su[..n], &mut dl[..n], &mut du[..n]);
        let (ol, ou, bl, bu) = (&ordinary[0][..n], &ordinary[1][..n], &other[0][..n], &other[1][..n]);
        for i in 0..n {
            let (l, u, dl2, du2) = meet((dl[i], du[i]), (bl[i], bu[i]));
            (dl[i], du[i]) = (l, u);
            let (l, u, sl2, su2) = meet((ol[i], ou[i]), (sl[i] + l, su[i] + u));
            (sl[i], su[i]) = (l, u);
            let difference_bits = flag(dl2, LOWER_SECOND) | flag(du2, UPPER_SECOND);
            bits[i] = flag(sl2, LOWER_SECOND) | flag(su2, UPPER_SECOND) | (difference_bits << DIFFERENCE);
        }
    }
}

vectorised! {
    /// The gradient of [`stage_input`]. `carried` comes in as the gradient of the stage's input and leaves as that
    /// of the stage before; `difference` comes in as that of the difference and leaves as that of its first
    /// enclosure.
    pub(crate) fn stage_input_back<F>(
        carried: &mut Pair<F>,
        difference: &mut Pair<F>,
        ordinary: &mut Pair<F>,
        other: &mut Pair<F>,
        bits: &[u8],
    ) {
        let n = bits.len();
        for (end, bit) in [(0, LOWER_SECOND), (1, UPPER_SECOND)] {
            let (c, d) = (&mut carried[end][..n], &mut difference[end][..n]);
            let (o, b) = (&mut ordinary[end][..n], &mut other[end][..n]);
            for i in 0..n {
                let chain = bits[i] & bit != 0;
                o[i] = F::when(!chain, c[i]);
                c[i] = F::when(chain, c[i]);
                let total = d[i] + c[i];
                let second = bits[i] & (bit << DIFFERENCE) != 0;
                d[i] = F::when(!second, total);
                b[i] = F::when(second, total);
            }
        }
    }
}

vectorised! {
    /// The first stage behind a layer: `p` from centres and radii, `a` its ReLU.
    pub(crate) fn first_stage<F>(p: &Pair<F>, before: &mut Pair<F>, after: &mut Pair<F>, bits: &mut [u16], relu: bool) {
        let n = bits.len();
        let (c, r) = (&p[0][..n], &p[1][..n]);
        let [pl, pu] = before;
        let [al, au] = after;
        let (pl, pu, al, au) = (&mut pl[..n], &mut pu[..n], &mut al[..n], &mut au[..n]);
        for i in 0..n {
            let (lower, upper) = (c[i] - r[i], c[i] + r[i]);
            (pl[i], pu[i]) = (lower, upper);
            bits[i] = flag(lower > F::ZERO, LOWER_ON) | flag(upper > F::ZERO, UPPER_ON);
            (al[i], au[i]) = if relu { (lower.relu(), upper.relu()) } else { (lower, upper) };
        }
    }
}

vectorised! {
    /// The gradient of [`first_stage`]: from those of `a` and `p` (lower, upper) to that of centres and radii.
    pub(crate) fn first_stage_back<F>(before: &Pair<F>, after: &Pair<F>, p: &mut Pair<F>, bits: &[u16], relu: bool) {
        let n = bits.len();
        let (pl, pu, al, au) = (&before[0][..n], &before[1][..n], &after[0][..n], &after[1][..n]);
        let [c, r] = p;
        let (c, r) = (&mut c[..n], &mut r[..n]);
        for i in 0..n {
            let lower = pl[i] + F::when(!relu | (bits[i] & LOWER_ON != 0), al[i]);
            let upper = pu[i] + F::when(!relu | (bits[i] & UPPER_ON != 0), au[i]);
            c[i] = upper + lower;
            r[i] = upper - lower;
        }
    }
}

vectorised! {
    /// A later stage behind a layer with a ReLU. `p` and `d` come in as centres and radii of the ordinary box and of
    /// the difference; `before` and `after` go from the stage before to this one; `d` leaves as the ends of ρ.
    pub(crate) fn relu_stage<F>(
        p: &Pair<F>,
        d: &mut Pair<F>,
        before: &mut Pair<F>,
        after: &mut Pair<F>,
        bits: &mut [u16],
    ) {
        let n = bits.len();
        let (pc, pr) = (&p[0][..n], &p[1][..n]);
        let [dc, dr] = d;
        let [pl, pu] = before;
        let [al, au] = after;
        let (dc, dr) = (&mut dc[..n], &mut dr[..n]);
        let (pl, pu, al, au) = (&mut pl[..n], &mut pu[..n], &mut al[..n], &mut au[..n]);
        for i in 0..n {
            let (dl, du) = (dc[i] - dr[i], dc[i] + dr[i]);
            let (last_l, last_u) = (pl[i], pu[i]);
            let (l, u, pl_chain, pu_chain) = meet((pc[i] - pr[i], pc[i] + pr[i]), (last_l + dl, last_u + du));
            (pl[i], pu[i]) = (l, u);
            let on = (last_l >= F::ZERO) & (l >= F::ZERO);
            let off = (last_u <= F::ZERO) & (u <= F::ZERO) & !on;
            let (lower_d, upper_d) = (on | (!off & (dl < F::ZERO)), on | (!off & (du > F::ZERO)));
            let slope = (F::when(lower_d, dl), F::when(upper_d, du));
            let relus = (l.relu() - last_u.relu(), u.relu() - last_l.relu());
            let (rl, ru, lower_relus, upper_relus) = meet(slope, relus);
            (dc[i], dr[i]) = (rl, ru);
            let (l2, u2, al_chain, au_chain) = meet((l.relu(), u.relu()), (al[i] + rl, au[i] + ru));
            (al[i], au[i]) = (l2, u2);
            bits[i] = flag(l > F::ZERO, LOWER_ON)
                | flag(u > F::ZERO, UPPER_ON)
                | flag(pl_chain, BEFORE_LOWER_CHAIN)
                | flag(pu_chain, BEFORE_UPPER_CHAIN)
                | flag(al_chain, AFTER_LOWER_CHAIN)
                | flag(au_chain, AFTER_UPPER_CHAIN)
                | flag(lower_d & !lower_relus, LOWER_IS_DIFFERENCE)
                | flag(lower_relus, LOWER_IS_RELUS)
                | flag(upper_d & !upper_relus, UPPER_IS_DIFFERENCE)
                | flag(upper_relus, UPPER_IS_RELUS);
        }
    }
}

vectorised! {
    /// The gradient of [`relu_stage`]. `before` and `after` come in as gradients of this stage's p and a and leave as
    /// those of the stage before; `d` comes in as that of ρ and leaves as that of the difference, `p` as that of the
    /// ordinary box, both as centres and radii.
    pub(crate) fn relu_stage_back<F>(
        p: &mut Pair<F>,
        d: &mut Pair<F>,
        before: &mut Pair<F>,
        after: &mut Pair<F>,
        bits: &[u16],
        last_bits: &[u16],
    ) {
        let n = bits.len();
        let [pc, pr] = p;
        let [rl, ru] = d;
        let [pl, pu] = before;
        let [al, au] = after;
        let (pc, pr, rl, ru) = (&mut pc[..n], &mut pr[..n], &mut rl[..n], &mut ru[..n]);
        let (pl, pu, al, au) = (&mut pl[..n], &mut pu[..n], &mut al[..n], &mut au[..n]);
        let last_bits = &last_bits[..n];
        for i in 0..n {
            let (bit, last) = (bits[i], last_bits[i]);
            let has = |flag: u16| bit & flag != 0;
            // a = relu(p) ∩ (last a + ρ)
            let (lower_chain, upper_chain) = (has(AFTER_LOWER_CHAIN), has(AFTER_UPPER_CHAIN));
            let g_rl = rl[i] + F::when(lower_chain, al[i]);
            let g_ru = ru[i] + F::when(upper_chain, au[i]);
            let lower = F::when(!lower_chain, al[i]) + F::when(has(LOWER_IS_RELUS), g_rl);
            let upper = F::when(!upper_chain, au[i]) + F::when(has(UPPER_IS_RELUS), g_ru);
            al[i] = F::when(lower_chain, al[i]);
            au[i] = F::when(upper_chain, au[i]);
            // ρ: its lower end may hold −relu of the last upper end, its upper end −relu of the last lower end.
            let last_upper = F::when((last & UPPER_ON != 0) & has(LOWER_IS_RELUS), g_rl);
            let last_lower = F::when((last & LOWER_ON != 0) & has(UPPER_IS_RELUS), g_ru);
            // p = ordinary ∩ (last p + d)
            let g_pl = pl[i] + F::when(has(LOWER_ON), lower);
            let g_pu = pu[i] + F::when(has(UPPER_ON), upper);
            let chain_l = F::when(has(BEFORE_LOWER_CHAIN), g_pl);
            let chain_u = F::when(has(BEFORE_UPPER_CHAIN), g_pu);
            pl[i] = chain_l - last_lower;
            pu[i] = chain_u - last_upper;
            let (own_l, own_u) = (g_pl - chain_l, g_pu - chain_u);
            pc[i] = own_u + own_l;
            pr[i] = own_u - own_l;
            let g_dl = chain_l + F::when(has(LOWER_IS_DIFFERENCE), g_rl);
            let g_du = chain_u + F::when(has(UPPER_IS_DIFFERENCE), g_ru);
            rl[i] = g_du + g_dl;
            ru[i] = g_du - g_dl;
        }
    }
}

vectorised! {
    /// A later stage behind a layer without activation: like [`relu_stage`] with `ρ = d` and `a = p`.
    pub(crate) fn linear_stage<F>(
        p: &Pair<F>,
        d: &mut Pair<F>,
        before: &mut Pair<F>,
        after: &mut Pair<F>,
        bits: &mut [u16],
    ) {
        let n = bits.len();
        let (pc, pr) = (&p[0][..n], &p[1][..n]);
        let [dc, dr] = d;
        let [pl, pu] = before;
        let [al, au] = after;
        let (dc, dr) = (&mut dc[..n], &mut dr[..n]);
        let (pl, pu, al, au) = (&mut pl[..n], &mut pu[..n], &mut al[..n], &mut au[..n]);
        for i in 0..n {
            let (dl, du) = (dc[i] - dr[i], dc[i] + dr[i]);
            let (l, u, pl_chain, pu_chain) = meet((pc[i] - pr[i], pc[i] + pr[i]), (pl[i] + dl, pu[i] + du));
            (dc[i], dr[i]) = (dl, du);
            (pl[i], pu[i]) = (l, u);
            (al[i], au[i]) = (l, u);
            bits[i] = flag(pl_chain, BEFORE_LOWER_CHAIN) | flag(pu_chain, BEFORE_UPPER_CHAIN);
        }
    }
}

vectorised! {
    /// The gradient of [`linear_stage`]; nothing of it goes to `a` of the stage before.
    pub(crate) fn linear_stage_back<F>(
        p: &mut Pair<F>,
        d: &mut Pair<F>,
        before: &mut Pair<F>,
        after: &mut Pair<F>,
        bits: &[u16],
    ) {
        let n = bits.len();
        let [pc, pr] = p;
        let [rl, ru] = d;
        let [pl, pu] = before;
        let [al, au] = after;
        let (pc, pr, rl, ru) = (&mut pc[..n], &mut pr[..n], &mut rl[..n], &mut ru[..n]);
        let (pl, pu, al, au) = (&mut pl[..n], &mut pu[..n], &mut al[..n], &mut au[..n]);
        for i in 0..n {
            let (lower, upper) = (pl[i] + al[i], pu[i] + au[i]);
            (al[i], au[i]) = (F::ZERO, F::ZERO);
            pl[i] = F::when(bits[i] & BEFORE_LOWER_CHAIN != 0, lower);
            pu[i] = F::when(bits[i] & BEFORE_UPPER_CHAIN != 0, upper);
            let (own_l, own_u) = (lower - pl[i], upper - pu[i]);
            pc[i] = own_u + own_l;
            pr[i] = own_u - own_l;
            let (dl, du) = (rl[i] + pl[i], ru[i] + pu[i]);
            rl[i] = du + dl;
            ru[i] = du - dl;
        }
    }
}

vectorised! {
    /// Lower and upper ends as centres and radii.
    pub(crate) fn centres<F>(ends: &Pair<F>, out: &mut [Vec<F>]) {
        let n = ends[0].len();
        let (l, u) = (&ends[0][..n], &ends[1][..n]);
        let [c, r] = out else { return };
        let (c, r) = (&mut c[..n], &mut r[..n]);
        for i in 0..n {
            c[i] = F::HALF * (u[i] + l[i]);
            r[i] = F::HALF * (u[i] - l[i]);
        }
    }
}

vectorised! {
    /// The gradient of [`centres`], added: `ends += …`.
    pub(crate) fn centres_back<F>(out: &[Vec<F>], ends: &mut Pair<F>) {
        let n = out[0].len();
        let (c, r) = (&out[0][..n], &out[1][..n]);
        let [l, u] = ends;
        let (l, u) = (&mut l[..n], &mut u[..n]);
        for i in 0..n {
            u[i] += F::HALF * (c[i] + r[i]);
            l[i] += F::HALF * (c[i] - r[i]);
        }
    }
}
