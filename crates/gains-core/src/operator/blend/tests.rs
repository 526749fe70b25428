use super::*;

fn interval(random: &mut fastrand::Rng, low: f64, high: f64) -> Interval {
    let (a, b) = (low + random.f64() * (high - low), low + random.f64() * (high - low));
    if random.u8(0..4) == 0 { Interval::point(a) } else { Interval::new(a.min(b), a.max(b)) }
}

fn inside(random: &mut fastrand::Rng, x: Interval) -> f64 {
    match random.u8(0..4) {
        0 => x.lower,
        1 => x.upper,
        _ => (x.lower + random.f64() * (x.upper - x.lower)).clamp(x.lower, x.upper),
    }
}

/// Wherever among the ends it stands.
#[test]
fn nan_is_not_hidden() {
    let (one, whole) = (Interval::new(0.25, 0.5), Interval::new(0.0, 1.0));
    for broken in [
        Interval::new(f64::NAN, 1.0),
        Interval::new(0.0, f64::NAN),
        Interval::new(f64::NEG_INFINITY, f64::INFINITY),
    ] {
        let infinite = broken.upper == f64::INFINITY;
        for m in [mix(one, broken, one, Arithmetic::Real), mix(one, one, broken, Arithmetic::Real)] {
            let shown = |end: f64, given: f64| !given.is_nan() && !infinite || !end.is_finite();
            assert!(shown(m.lower, broken.lower) && shown(m.upper, broken.upper), "{broken:?}: {m:?}");
        }
    }
    let broken = Interval::new(f64::NAN, f64::NAN);
    for x in [mix(whole, broken, one, Arithmetic::Real), mix_products(whole, broken, one, Arithmetic::Real)] {
        assert!(!BoxVec::new(vec![x.lower], vec![x.upper]).is_sane(), "{x:?}");
    }
}

#[test]
fn blends_hold_all_points_and_touch_some() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..20_000 {
        let scale = 10.0_f64.powi(random.i32(-6..6));
        let (g, y) = (interval(&mut random, -scale, scale), interval(&mut random, -scale, scale));
        let u = interval(&mut random, 0.0, 1.0);
        let exact = mix(u, g, y, Arithmetic::Real);
        let plain = mix_products(u, g, y, Arithmetic::Real);
        let at = |u: f64, g: f64, y: f64| (1.0 - u) * g + u * y;
        for _ in 0..40 {
            let value = at(inside(&mut random, u), inside(&mut random, g), inside(&mut random, y));
            assert!(exact.contains(value) && plain.contains(value));
        }
        let room = 1e-12 * scale;
        assert!(plain.lower <= exact.lower + room && exact.upper <= plain.upper + room);
        let least = at(u.lower, g.lower, y.lower).min(at(u.upper, g.lower, y.lower));
        assert!(exact.lower >= least - room, "the range is exact");
    }
}

/// Points are no points once rounding is counted, of the analysis and of a float32 program.
#[test]
fn blends_of_points_leave_room_for_rounding() {
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..20_000 {
        let (u, g, y) = (random.f32(), random.f32() * 4.0 - 2.0, random.f32() * 4.0 - 2.0);
        let point = |x: f32| Interval::point(f64::from(x));
        let mixed = mix(point(u), point(g), point(y), Arithmetic::Float32);
        let programs = [(1.0 - u) * g + u * y, (1.0 - u).mul_add(g, u * y), u.mul_add(y, (1.0 - u) * g)];
        assert!(programs.iter().all(|p| mixed.contains(f64::from(*p))), "{u} {g} {y}");
        let exact = mix(point(u), point(g), point(y), Arithmetic::Real);
        assert!(exact.lower < exact.upper && exact.upper - exact.lower < 1e-13);
    }
}

/// Whatever the order in which a program computes a blend of points: the form itself, without its box, holds it.
#[test]
fn forms_hold_the_float32_program() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut symbols = Symbols::default();
    for _ in 0..20_000 {
        let u = if random.bool() { random.f32() } else { random.f32().powi(8) };
        let (g, y) = (random.f32() * 4.0 - 2.0, random.f32() * 4.0 - 2.0);
        let [gate, new, old] = [u, g, y].map(|x| {
            let x = vec![f64::from(x)];
            AffineForm::from_box(&BoxVec::new(x.clone(), x), &mut Symbols::default())
        });
        let form = form(&[&gate, &new, &old], Arithmetic::Float32, &mut symbols);
        let programs = [(1.0 - u) * g + u * y, (1.0 - u).mul_add(g, u * y), u.mul_add(y, (1.0 - u) * g)];
        for program in programs {
            let off = (f64::from(program) - form.centre[0]).abs();
            assert!(off <= form.remainder[0], "{u} {g} {y}: {off:e} beyond {:e}", form.remainder[0]);
        }
    }
}
