//! Affine forms whose symbols are not each other's first ones: what is done to them holds what is done to points.

use gains_core::affine_form::{AffineForm, Passing, Symbol, Symbols};
use gains_core::operator::Forming;
use gains_core::{Arithmetic, BoxVec, Operator, Precision, Shape};

use crate::support::{WIDTH, arguments, inside, linear_map, numbers, operators, random_box};

/// Points computed in float64 may be off by their own rounding, and by that of their symbols' values.
fn holds(b: &BoxVec, point: &[f64]) -> bool {
    let close = |x: f64| 1e-11 * (1.0 + x.abs());
    point.len() == b.len()
        && point.iter().enumerate().all(|(i, x)| b.lower[i] - close(*x) <= *x && *x <= b.upper[i] + close(*x))
}

/// The same form, known only up to the given distances.
fn loose(form: &AffineForm, by: &[f64]) -> AffineForm {
    let mut form = form.clone();
    form.remainder.iter_mut().zip(by).for_each(|(r, by)| *r += by);
    form.bounds.widen(|i| by[i]);
    form
}

/// A box of inputs, its form, and the number of its first symbol.
struct Source {
    region: BoxVec,
    form: AffineForm,
}

impl Source {
    fn new(random: &mut fastrand::Rng, symbols: &mut Symbols) -> Self {
        let width = [0.5, 1e-3, 2.0][random.usize(0..3)];
        let region = random_box(random, 3, 1.0, width);
        let form = AffineForm::from_box(&region, symbols);
        Self { region, form }
    }

    /// The values of its symbols at a point.
    fn values(&self, point: &[f64], known: &mut Vec<(Symbol, f64)>) {
        let open = (0..3).filter(|&i| self.region.lower[i] < self.region.upper[i]);
        for (i, &symbol) in open.zip(self.form.symbols()) {
            let centre = 0.5 * self.region.lower[i] + 0.5 * self.region.upper[i];
            let radius = (self.region.upper[i] - centre).max(centre - self.region.lower[i]);
            known.push((symbol, ((point[i] - centre) / radius).clamp(-1.0, 1.0)));
        }
    }
}

/// Three sources; values made of the first, of the second, and of the first and the third, so that no list of symbols
/// begins with another.
#[test]
fn forms_over_different_symbols_hold_their_points() {
    let mut random = fastrand::Rng::with_seed(61);
    for round in 0..400 {
        let mut symbols = Symbols::default();
        let sources: Vec<Source> = (0..3).map(|_| Source::new(&mut random, &mut symbols)).collect();
        let maps: Vec<_> = (0..4).map(|_| linear_map(&mut random, 3, WIDTH, false)).collect();
        let image = |source: usize, map: usize| {
            sources[source].form.affine(&maps[map], None, 0.0, Arithmetic::Real, false)
        };
        let (x, y) = (image(0, 0), image(1, 1));
        let c = numbers(&mut random, 3, 2.0);
        let z = AffineForm::combination(Some(&image(0, 2)), &[(c[0], &image(2, 3))], Arithmetic::Real);
        let sum = AffineForm::combination(Some(&y), &[(c[1], &z), (c[2], &x)], Arithmetic::Real);
        let boxes = |a: &AffineForm, b: &AffineForm| {
            Operator::Product.image(&[&a.bounds, &b.bounds], 0.0, Arithmetic::Real, false).value
        };
        let product = AffineForm::times_form(&y, &z, boxes(&y, &z), Arithmetic::Real, &mut symbols);
        let square = AffineForm::times_form(&x, &x, boxes(&x, &x), Arithmetic::Real, &mut symbols);
        let joined = AffineForm::concat(&[&y, &z, &product]);
        let part = joined.part(WIDTH - 1..2 * WIDTH + 1);
        for _ in 0..12 {
            let points: Vec<Vec<f64>> = sources.iter().map(|s| inside(&mut random, &s.region)).collect();
            let mut known = Vec::new();
            sources.iter().zip(&points).for_each(|(source, point)| source.values(point, &mut known));
            let at = |form: &AffineForm| {
                form.slice(|symbol| known.iter().find(|(s, _)| *s == symbol).map(|(_, value)| *value))
            };
            let apply = |source: usize, map: usize| maps[map].apply(&points[source], 0.0);
            let each = |f: &dyn Fn(usize) -> f64| (0..WIDTH).map(f).collect::<Vec<f64>>();
            let (px, py) = (apply(0, 0), apply(1, 1));
            let (near, far) = (apply(0, 2), apply(2, 3));
            let pz = each(&|i| near[i] + c[0] * far[i]);
            let psum = each(&|i| py[i] + c[1] * pz[i] + c[2] * px[i]);
            let pproduct = each(&|i| py[i] * pz[i]);
            let all = [&py[..], &pz, &pproduct].concat();
            for (what, form, point) in [
                ("x", &x, &px[..]),
                ("z", &z, &pz),
                ("sum", &sum, &psum),
                ("product", &product, &pproduct),
                ("square", &square, &each(&|i| px[i] * px[i])),
                ("concat", &joined, &all),
                ("part", &part, &all[WIDTH - 1..2 * WIDTH + 1]),
            ] {
                assert!(holds(&at(form), point), "round {round}: {what} {point:?} not in {:?}", at(form));
                assert!(holds(&form.bounds, point), "round {round}: the box of {what}");
            }
            for (what, form) in [("x", &x), ("z", &z), ("sum", &sum)] {
                assert!(at(form).width() < 1e-10, "round {round}: {what} loses nothing");
            }
        }
    }
}

/// Every operator on forms with remainders, alone and beside an earlier evaluation nearby: what comes out holds what
/// comes of any point of the forms, whose symbols are known and whose remainders are not.
#[test]
fn operators_on_forms_hold_their_points() {
    let mut random = fastrand::Rng::with_seed(62);
    for round in 0..250 {
        for (operator, count) in operators(&mut random) {
            let mut symbols = Symbols::default();
            let region = arguments(&mut random, &operator, count, 1.0, [0.5, 1e-3, 2.0][round % 3]);
            let forms: Vec<AffineForm> =
                region.iter().map(|b| AffineForm::from_box(b, &mut symbols)).collect();
            // Remainders of their own: what is known only up to a distance.
            let vague = [0.0, 1e-2, 0.3][round / 3 % 3];
            let gate = matches!(operator, Operator::Blend(_));
            let now: Vec<AffineForm> = forms
                .iter()
                .enumerate()
                .map(|(k, form)| if gate && k == 0 { form.clone() } else { loose(form, &[vague; WIDTH]) })
                .collect();
            let formed = Forming {
                time: 0.5,
                arithmetic: Arithmetic::Real,
                then_relu: false,
                matrix: None,
                stop: &|| false,
            };
            let (old, new): (Vec<&AffineForm>, Vec<&AffineForm>) =
                (forms.iter().collect(), now.iter().collect());
            let first = operator.form(&old, None, formed, &mut symbols);
            let alone = operator.form(&new, None, formed, &mut symbols);
            let beside = operator.form(&new, Some((&old, &first)), formed, &mut symbols);
            let shapes = vec![Shape::flat(WIDTH); count];
            assert_eq!(alone.len(), operator.shape(&shapes).unwrap().len());
            for _ in 0..8 {
                let centres: Vec<Vec<f64>> = region.iter().map(|b| inside(&mut random, b)).collect();
                let points: Vec<Vec<f64>> = centres
                    .iter()
                    .enumerate()
                    .map(|(k, x)| {
                        let reach = if gate && k == 0 { 0.0 } else { vague };
                        x.iter().map(|x| x + reach * (2.0 * random.f64() - 1.0)).collect()
                    })
                    .collect();
                let arguments: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
                let value = operator.evaluate(&arguments, 0.5, Precision::Float64);
                let mut known = Vec::new();
                for ((form, b), x) in forms.iter().zip(&region).zip(&centres) {
                    let open = (0..WIDTH).filter(|&i| b.lower[i] < b.upper[i]);
                    for (i, &symbol) in open.zip(form.symbols()) {
                        let centre = 0.5 * b.lower[i] + 0.5 * b.upper[i];
                        let radius = (b.upper[i] - centre).max(centre - b.lower[i]);
                        known.push((symbol, ((x[i] - centre) / radius).clamp(-1.0, 1.0)));
                    }
                }
                let at = |form: &AffineForm| {
                    form.slice(|symbol| known.iter().find(|(s, _)| *s == symbol).map(|(_, value)| *value))
                };
                for (what, form) in [("alone", &alone), ("beside", &beside)] {
                    let slice = at(form);
                    assert!(
                        holds(&slice, &value),
                        "round {round} {operator:?} {what}: {value:?} not in {slice:?}"
                    );
                }
            }
        }
    }
}

/// What passes as a change holds `output + slope·(x − input) + offset` for any vectors of the three forms that agree in
/// their symbols, each as far off as its remainder allows.
#[test]
fn changes_hold_what_all_three_remainders_allow() {
    let mut random = fastrand::Rng::with_seed(63);
    for round in 0..300 {
        let mut symbols = Symbols::default();
        let source = Source::new(&mut random, &mut symbols);
        let maps: Vec<_> = (0..3).map(|_| linear_map(&mut random, 3, WIDTH, false)).collect();
        let vague: Vec<Vec<f64>> = (0..3)
            .map(|_| {
                let scale = [0.0, 1e-3, 0.1][random.usize(0..3)];
                numbers(&mut random, WIDTH, scale).iter().map(|v| v.abs()).collect()
            })
            .collect();
        let form = |k: usize| {
            let exact = source.form.affine(&maps[k], None, 0.0, Arithmetic::Real, false);
            loose(&exact, &vague[k])
        };
        let [x, input, output] = [0, 1, 2].map(form);
        let (slopes, offsets) = (numbers(&mut random, WIDTH, 1.5), numbers(&mut random, WIDTH, 1.0));
        let passing: Vec<Passing> = (0..WIDTH)
            .map(|i| Passing {
                slope: slopes[i],
                offset: offsets[i],
                radius: if random.bool() { 0.0 } else { 0.1 * random.f64() },
                as_change: random.bool(),
                named: random.bool(),
            })
            .collect();
        let anything = BoxVec::new(vec![-1e3; WIDTH], vec![1e3; WIDTH]);
        let passed = x.pass(&passing, anything, Some((&input, &output)), &mut symbols);
        for (i, p) in passing.iter().enumerate() {
            assert!(!(p.named && p.radius > 0.0) || passed.remainder[i] == 0.0, "round {round}: not named");
        }
        for _ in 0..12 {
            let point = inside(&mut random, &source.region);
            let mut known = Vec::new();
            source.values(&point, &mut known);
            let slice = passed.slice(|symbol| known.iter().find(|(s, _)| *s == symbol).map(|k| k.1));
            let mut vector = |k: usize| -> Vec<f64> {
                let exact = maps[k].apply(&point, 0.0).into_iter().zip(&vague[k]);
                exact.map(|(x, by)| if random.bool() { x + by } else { x - by }).collect()
            };
            let [x, input, output] = [0, 1, 2].map(&mut vector);
            let value: Vec<f64> = (0..WIDTH)
                .map(|i| {
                    let since = if passing[i].as_change { output[i] - slopes[i] * input[i] } else { 0.0 };
                    let off = if random.bool() { passing[i].radius } else { -passing[i].radius };
                    slopes[i] * x[i] + since + offsets[i] + off
                })
                .collect();
            assert!(holds(&slice, &value), "round {round}: {value:?} not in {slice:?}");
        }
    }
}
