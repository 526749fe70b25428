#!/usr/bin/env bash
# Breaks the verifier on purpose, one small edit at a time, and demands that the tests notice.
#
#   scripts/sabotage.sh            all sabotages, a table on stdout; exit 1 if any is missed
#   scripts/sabotage.sh curls hull only those whose name contains one of the words
#
# Works on a copy of the tree in a temporary folder. A pattern that no longer matches the sources, or an
# edit that does not compile, is an error: the list has to follow the code. SABOTAGE_TARGET names a build
# folder to reuse; files are copied with new times, so that nothing stale in it is taken for fresh.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    [ ! -f "$file" ] || printf '%s\0' "$file"
done | tar --null --files-from=- --create | tar --extract --touch --directory "$copy"
export CARGO_TARGET_DIR=${SABOTAGE_TARGET:-$copy/target} RUST_BACKTRACE=0
cd "$copy"
python3 - "$@" <<'PYTHON'
import re, subprocess, sys

CORE, ODE, VERIFY = "crates/gains-core/src/", "crates/gains-ode/src/", "crates/gains-verify/src/"

# Name, what is broken, file, text, replacement. The text must occur exactly once.
SABOTAGES = [
    ("box-rounding", "boxes lose the rounding of W c", CORE + "kernels.rs",
     "*r += gamma * (c.abs() + *r);", "*r += 0.0 * gamma * c.abs();"),
    ("box-rounding-ends", "boxes lose the rounding of the bias and the ends", CORE + "kernels.rs",
     "let r = radius[i] + gamma * bias_magnitude[i] + tiny;\n            let r = r + f64::EPSILON * (c.abs() + r);",
     "let r = radius[i] + 0.0 * (gamma * bias_magnitude[i] + tiny);"),
    ("sum-rounding", "Runge-Kutta sums of boxes are not widened", CORE + "interval.rs",
     "let slack = if magnitude[i] > 0.0 { error * magnitude[i] + tiny } else { 0.0 };",
     "let slack = 0.0 * (error * magnitude[i] + tiny);"),
    ("row-slack-affine", "rows lose the rounding of A W", CORE + "affine/mod.rs",
     "pulled.absorb(row, product, gamma * size);", "pulled.absorb(row, product, 0.0 * gamma * size);"),
    ("row-slack-relax", "rows lose the rounding of relaxations", CORE + "rows.rs",
     "self.absorb(row, constant, gamma * owed);", "self.absorb(row, constant, 0.0 * gamma * owed);"),
    ("row-slack-final", "rows are concretised without rounding", CORE + "rows.rs",
     "let owed = self.slack[row] + gamma * (size + spread + self.constant[row].abs());\n"
     "                let bound = down(value - spread + self.constant[row] - owed * (1.0 + gamma)) - TINY;",
     "let owed = self.slack[row] + 0.0 * gamma * size + 0.0 * down(TINY);\n"
     "                let bound = value - spread + self.constant[row] - owed;"),
    ("row-slack-ode", "rows lose the rounding of affine layers in the ODE", VERIFY + "box_step.rs",
     "magnitude.iter().map(|v| gamma * v).collect()", "magnitude.iter().map(|v| 0.0 * gamma * v).collect()"),
    ("row-slack-stages", "rows lose the rounding of stage sums", VERIFY + "box_step.rs",
     "magnitude.iter().map(|m| short * m).collect()", "magnitude.iter().map(|m| 0.0 * short * m).collect()"),
    ("no-reject-edge", "the graph rejects only where every estimate does", ODE + "controller.rs",
     ".with(Action::Reject, upper > 1.0)", ".with(Action::Reject, lower > 1.0)"),
    ("no-increase-edge", "the graph increases only where every estimate does", ODE + "controller.rs",
     ".with(Action::Increase, lower <= increase_below)", ".with(Action::Increase, upper <= increase_below)"),
    ("no-keep-edge", "the graph keeps only where nothing else is possible", ODE + "controller.rs",
     "lower <= 1.0 && upper > increase_below", "upper <= 1.0 && lower > increase_below"),
    ("strict-threshold", "the controller compares with < for <=", ODE + "controller.rs",
     ".with(Action::Increase, lower <= increase_below)", ".with(Action::Increase, lower < increase_below)"),
    ("reject-moves", "a rejected step carries the stepped state", ODE + "graph.rs",
     "let travelling = if action == Action::Reject { &before } else { &after };",
     "let travelling = if action == Action::Reject { &after } else { &after };"),
    ("merge-edges", "keep and increase are one edge everywhere", ODE + "timeline.rs",
     "if action != Action::Increase || next != self.follow(place, Action::Keep) {", "if action != Action::Increase {"),
    ("nan-estimate", "an error estimate that is NaN only rejects", ODE + "controller.rs",
     "let lower = if error.lower.is_nan() { f64::NEG_INFINITY } else { error.lower };", "let lower = error.lower;"),
    ("first-box", "states that meet: the first box instead of the hull", VERIFY + "box_step.rs",
     "all.join(&reach.states);", "all.join(&all.clone());"),
    ("swap-slopes", "rows take the lower line for the upper one", CORE + "kernels.rs",
     "a[i] = positive * lower_slope[i] + negative * upper_slope[i];",
     "a[i] = positive * upper_slope[i] + negative * lower_slope[i];"),
    ("flat-relu-chord", "the chord above a ReLU lacks its intercept", CORE + "relaxation.rs",
     "Line { slope, intercept })\n}\n\n/// Sigmoid", "Line { slope, intercept: 0.0 * intercept })\n}\n\n/// Sigmoid"),
    ("sigmoid-chord", "sigmoids use the chord as lower line everywhere", CORE + "relaxation.rs",
     "let lower = if l >= 0.0 && chord_usable {", "let lower = if chord_usable {"),
    ("smooth-error", "lines of smooth activations forget the error of the program", CORE + "relaxation.rs",
     "let error = activation.evaluation_error(at_l.abs().max(at_u.abs()), arithmetic);",
     "let error = activation.evaluation_error(at_l.abs().min(at_u.abs()), arithmetic);"),
    ("curls-shift", "CURLS without the shift", VERIFY + "curls.rs",
     "rest * other.constant + shift - owed", "rest * other.constant + 0.0 * shift - owed"),
    ("curls-rounding", "CURLS without rounding", VERIFY + "curls.rs",
     "let constant = down(weight * self.constant + rest * other.constant + shift - owed);",
     "let constant = weight * self.constant + rest * other.constant + shift - 0.0 * owed;"),
    ("curls-first", "CURLS keeps the smallest row only", VERIFY + "curls.rs",
     "if best.upper <= candidate.lower {", "if best.upper <= candidate.lower || best.lower <= candidate.lower {"),
    ("float32-dot", "float32 dot products are taken for exact", CORE + "arithmetic.rs",
     "Self::Float32 => analysis + 1.0001 * gamma(Self::depth(terms) as f64 + 2.0, UNIT32),",
     "Self::Float32 => analysis,"),
    ("float32-sum", "float32 Runge-Kutta sums are taken for exact", CORE + "arithmetic.rs",
     "Self::Float32 => analysis + 1.0001 * gamma(terms as f64 + 4.0, UNIT32),", "Self::Float32 => analysis,"),
    ("float32-time", "the roundings of time and weights to float32 are forgotten", CORE + "arithmetic.rs",
     "gamma(Self::depth(terms) as f64 + 2.0, UNIT32)", "gamma(Self::depth(terms) as f64, UNIT32)"),
    ("estimate-point", "the interval of the error estimate shrinks to its middle", VERIFY + "box_step.rs",
     "Some(Interval::new(lower, upper))", "Some(Interval::point(0.5 * (lower + upper)))"),
    ("estimate-rounding", "sums of magnitudes are not widened", CORE + "interval.rs",
     "let slack = arithmetic.dot(b.len());", "let slack = 0.0 * arithmetic.dot(b.len());"),
    ("row-time", "rows forget the time channel", VERIFY + "box_step.rs",
     "passage.affine(map.bias(time), owed(map, &v, self.arithmetic));",
     "passage.affine(map.bias(0.0), owed(map, &v, self.arithmetic));"),
    ("row-time-change", "rows in difference form forget that time passes", VERIFY + "difference_step.rs",
     "self.passage.affine(map.time_shift(self.elapsed).0, owed);",
     "self.passage.affine(map.time_shift(0.0 * self.elapsed).0, owed);"),
    ("difference-time", "boxes in difference form forget that time passes", VERIFY + "difference_step.rs",
     "map.apply_difference(&self.d, self.elapsed);", "map.apply_difference(&self.d, 0.0 * self.elapsed);"),
    ("difference-float32", "differences of float32 stages are not widened", VERIFY + "difference_step.rs",
     "widen(&mut moved, |i| program[i]);", "widen(&mut moved, |i| 0.0 * program[i]);"),
    ("difference-rows-float32", "rows in difference form forget what the program rounds", VERIFY + "difference_step.rs",
     "*owed += program;", "*owed += 0.0 * program;"),
    ("difference-sum", "changes of stage inputs forget what the program rounds", VERIFY + "difference_step.rs",
     "if size > 0.0 { rounding * size + 2.0 * tiny } else { 0.0 }", "0.0 * (rounding * size + 2.0 * tiny)"),
    ("difference-lines", "lines of differences lack their intercepts", CORE + "relaxation.rs",
     "Line { slope: below, intercept: sink - spread * sink.abs() },", "Line { slope: below, intercept: 0.0 * (sink - spread) },"),
    ("telescope-rounding", "tail sums of coefficients are taken for exact", VERIFY + "difference_step.rs",
     "slack * size[i] + owed", "0.0 * slack * size[i] + owed"),
    ("chain-carry", "rows in chain form drop what stages have in common", VERIFY + "backward.rs",
     "kernels::add_scaled(&mut on_slopes[i - 1], 1.0, &on_stage);", "kernels::add_scaled(&mut on_slopes[i - 1], 0.0, &on_stage);"),
    ("difference-hull", "the mean value theorem on one of the two stages only", VERIFY + "difference_step.rs",
     "let hull = Interval::new(before.lower[i].min(after.lower[i]), before.upper[i].max(after.upper[i]));",
     "let hull = Interval::new(after.lower[i].max(before.lower[i]), after.upper[i]);"),
    ("overflow-inside", "overflow inside the dynamics is not looked for", VERIFY + "box_step.rs",
     "            if !value.is_sane() {\n                return Err(Reason::Overflow { time });\n            }\n", ""),
    ("relu-of-nan", "NaN becomes 0 behind a ReLU of rows", CORE + "kernels.rs",
     "if a[i] > 0.0 { (a[i], 0.0) } else { (0.0, a[i]) };", "(a[i].max(0.0), a[i].min(0.0));"),
    ("largest", "enclosures may be as large as float64 allows", CORE + "arithmetic.rs",
     "pub const LARGEST: f64 = 1e20;", "pub const LARGEST: f64 = f64::MAX;"),
    ("huge-input", "the region itself may be as large as it likes", VERIFY + "analysis.rs",
     "if !analysis.input.is_sane() {", "if analysis.input.is_empty() {"),
    ("underflow", "products that underflow count as zero", CORE + "kernels.rs",
     "if largest > 0.0 { f64::MIN_POSITIVE } else { 0.0 }", "0.0"),
    ("neurons", "coefficients stay on the neurons of another layer", VERIFY + "backward.rs",
     "want.iter().map(|i| have.binary_search(i).ok())",
     "want.iter().enumerate().map(|(i, _)| (i < have.len()).then_some(i))"),
    ("far-edge", "a pulled window is taken for the whole image", VERIFY + "backward.rs",
     "full[run].copy_from_slice(head);", "let start = run.start - run.start;\n            full[start..start + run.len()].copy_from_slice(head);"),
    ("window-rows", "rows on a window enter a graph as rows on its whole state", VERIFY + "backward.rs",
     "let rows = rows.clone().widened();", "let rows = rows.clone();"),
    ("window-padding", "padding shifts the receptive field", CORE + "affine/conv.rs",
     "let first = first.saturating_sub(padding).min(size.saturating_sub(1));",
     "let first = first.saturating_sub(padding.saturating_sub(1)).min(size.saturating_sub(1));"),
    ("witness", "a witness may lie outside the region", VERIFY + "attack.rs",
     "run.prediction() != self.label && self.images.contains(&point)", "run.prediction() != self.label"),
    ("witness-right", "a witness need not be misclassified", VERIFY + "attack.rs",
     "if run.prediction() != self.label && self.images.contains(&point) {", "if self.images.contains(&point) {"),
    ("slope-limits", "lower slopes asked for are taken as they are", CORE + "relaxation.rs",
     "relaxation.lower.slope = if slope >= flat { slope.min(steep) } else { flat };", "relaxation.lower.slope = slope.max(flat);"),
    ("slope-nan", "a lower slope that is no number is taken as it is", CORE + "relaxation.rs",
     "relaxation.lower.slope = if slope >= flat { slope.min(steep) } else { flat };",
     "relaxation.lower.slope = if slope < flat { flat } else if slope > steep { steep } else { slope };"),
    ("slope-range", "free slopes may be steeper than both branches", CORE + "relaxation.rs",
     "Activation::Relu if unstable => Some((0.0, 1.0)),", "Activation::Relu if unstable => Some((0.0, 1.5)),"),
    ("slope-climb", "gradient ascent leaves the slopes that are sound", VERIFY + "front.rs",
     "self.lines[layer].lower_slope[i] = f64::from(*slope).clamp(flat, steep);",
     "self.lines[layer].lower_slope[i] = f64::from(*slope) + 0.5;"),
    ("multiplier-split", "multipliers of splits may be negative", VERIFY + "front.rs",
     "if split.layer == index && beta > 0.0 =>", "if split.layer == index && beta != 0.0 =>"),
    ("multiplier-face", "multipliers of constraints on the front's output may be negative", VERIFY + "front.rs",
     "if beta > 0.0 {\n                let moved", "if beta != 0.0 {\n                let moved"),
    ("constraint-sign", "the constraint of a split has the wrong sign", VERIFY + "front.rs",
     "Side::Below => 1.0,\n            Side::Above => -1.0,", "Side::Below => -1.0,\n            Side::Above => 1.0,"),
    ("constraint-threshold", "the constraint of a split forgets its threshold", VERIFY + "front.rs",
     "let constant = -split.sign() * beta * split.at;", "let constant = -split.sign() * beta * split.at * 0.0;"),
    ("constraint-slack", "constraints on the front's output forget their slack", VERIFY + "front.rs",
     "let constant = beta * (face.constant[0] - face.slack[0]);", "let constant = beta * face.constant[0];"),
    ("face-sign", "the threshold in the dynamics enters its constraint with the wrong sign", VERIFY + "branch.rs",
     "if side == Side::Below { -choice.at } else { choice.at }", "if side == Side::Below { choice.at } else { -choice.at }"),
    ("face-row", "a split in the dynamics takes the row of the other side", VERIFY + "branch.rs",
     "Side::Below => RowBlock::clone(below),\n                        Side::Above => RowBlock::clone(above),",
     "Side::Below => RowBlock::clone(above),\n                        Side::Above => RowBlock::clone(below),"),
    ("neuron-row", "rows below a neuron of the dynamics serve for its negative", VERIFY + "backward.rs",
     "self.descend(vec![sign], &[neuron],", "self.descend(vec![sign.abs()], &[neuron],"),
    ("same-side", "both halves of a split are clipped on the same side", VERIFY + "branch.rs",
     "Side::Above => own.lower[neuron] = own.lower[neuron].max(choice.at),",
     "Side::Above => own.upper[neuron] = own.upper[neuron].min(choice.at),"),
    ("half-space-sign", "the half-space above a threshold has its negative", VERIFY + "branch.rs",
     "Side::Above => half_space(rows, count + at, -split.at),", "Side::Above => half_space(rows, count + at, split.at),"),
    ("half-space-row", "the half-space above a threshold takes the row of the other side", VERIFY + "branch.rs",
     "Side::Above => half_space(rows, count + at, -split.at),", "Side::Above => half_space(rows, at, -split.at),"),
    ("half-space-rounding", "adding a half-space to a row is taken for exact", VERIFY + "half_space.rs",
     "slack += 2.0 * rounding * (moved", "slack += 0.0 * rounding * (moved"),
    ("half-space-constant", "the constant of a half-space is taken off", VERIFY + "half_space.rs",
     "let added = beta * cut.constant;", "let added = -beta * cut.constant;"),
    ("tighten-rows", "upper ends are tightened by the rows of the lower ends", VERIFY + "branch.rs",
     "bounds.upper[i] = bounds.upper[i].min(-bound(count + at));", "bounds.upper[i] = bounds.upper[i].min(-bound(at));"),
    ("child-dropped", "one half of every split is forgotten", VERIFY + "branch.rs",
     "let drafts = [Side::Below, Side::Above]\n", "let drafts = [Side::Above]\n"),
    ("closed-rows", "of the rows proven in a part the largest counts", VERIFY + "branch.rs",
     "part.closed = proven.fold(part.closed, f64::min);", "part.closed = proven.fold(0.0, f64::max).max(part.closed);"),
    ("leaf-max", "of all parts the largest bound counts", VERIFY + "best_first.rs",
     ".fold(closed, f64::min);", ".fold(closed.min(f64::MAX), f64::max);"),
    ("leaf-empty", "a region all parts of which seem empty is proven", VERIFY + "best_first.rs",
     "if lowest == f64::INFINITY { f64::NEG_INFINITY } else { lowest }", "lowest"),
    ("leaf-proven", "of the parts that are proven the last one counts", VERIFY + "branch.rs",
     "proven = proven.min(part.bound());", "proven = part.bound();"),
    ("leaf-stopped", "parts that were not finished are forgotten", VERIFY + "branch.rs",
     "outcome.stopped = Some(reason);\n                        open.push(Lowest(part));",
     "outcome.stopped = Some(reason);\n                        drop(part);"),
    ("bisect-gap", "halves of the region leave a gap", VERIFY + "bisect.rs",
     "side[widest] = middle[widest];",
     "side[widest] = if below { middle[widest] } else { 0.5 * (middle[widest] + part.region.upper[widest]) };"),
    ("bisect-stopped", "parts of the region that were not finished are forgotten", VERIFY + "bisect.rs",
     "outcome.stopped = Some(reason);\n                open.push(Lowest(part));", "outcome.stopped = Some(reason);"),
    ("assumption-side", "assumptions confine to the wrong side", VERIFY + "box_step.rs",
     "Side::Below => values.upper[a.neuron] = values.upper[a.neuron].min(a.at),",
     "Side::Below => values.lower[a.neuron] = values.lower[a.neuron].max(a.at),"),
    ("assumption-stages", "what is known of the first stage is taken to hold in all", VERIFY + "difference_step.rs",
     "reach.inner.as_deref().filter(|_| i == 0);", "reach.inner.as_deref().filter(|_| i < count);"),
    ("assumption-again", "what is assumed of a float32 program's first attempt binds the second", VERIFY + "box_step.rs",
     "(Arithmetic::Float32, Some(_)) => Some(reach.states.clone().into()),", "(Arithmetic::Float32, Some(_)) => None,"),
    ("empty-point", "a single value counts as none", VERIFY + "difference_step.rs",
     "any(|(l, u)| l > u)", "any(|(l, u)| l >= u)"),
    ("carry-rule", "the last stage is carried on by methods whose next step starts elsewhere", VERIFY + "box_step.rs",
     "let carries = with_error && tableau.first_same_as_last() && self.arithmetic", "let carries = with_error && self.arithmetic"),
    ("carry-stage", "the first stage is carried on in place of the last", VERIFY + "difference_step.rs",
     "            let slope = stage.values.last().cloned().unwrap_or_default();\n",
     "            let slope = stage.values.last().cloned().unwrap_or_default();\n"
     "            if i == 0 {\n                out.last = Some(stage.values[1..].to_vec());\n            }\n"
     "            let mut stage = stage;\n            if i + 1 == count && i > 0 {\n"
     "                stage.values.splice(1.., out.last.clone().unwrap_or_default());\n            }\n"),
    ("carry-join", "where trajectories meet, what is carried is intersected", VERIFY + "box_step.rs",
     "|(mine, theirs)| mine.join(theirs)", "|(mine, theirs)| mine.meet(theirs)"),
    ("carry-unknown", "where trajectories meet, what only one carries is kept", VERIFY + "box_step.rs",
     "                _ => None,\n            };\n        }\n        Reach", "                (mine, None) => mine,\n"
     "                (None, _) => reach.inner.as_deref().cloned(),\n            };\n        }\n        Reach"),
    ("form-strip", "affine forms of a ReLU leave out a part of it", VERIFY + "symbolic_step.rs",
     "strip(lines.upper.slope, -error, lines.upper.intercept)", "strip(lines.upper.slope, -error, 0.8 * lines.upper.intercept)"),
    ("form-rounding", "affine forms lose the rounding of affine maps", VERIFY + "affine_form.rs",
     "map(|(r, m)| r / gamma + m)", "map(|(r, m)| r / gamma + 0.0 * m)"),
    ("form-sum-rounding", "sums of affine forms lose their rounding", VERIFY + "affine_form.rs",
     "*r = (*r + error * m) * (1.0 + error) + tiny;", "*r += 0.0 * (error * m + tiny);"),
    ("form-symbol", "fresh symbols get half their radius", VERIFY + "affine_form.rs",
     "self.generators[start + column] = radius;", "self.generators[start + column] = 0.5 * radius;"),
    ("form-retain", "symbols that are dropped leave nothing behind", VERIFY + "affine_form.rs",
     "*r = up(up(*r + lost * (1.0 + gamma)));", "*r = up(up(*r + 0.0 * lost * gamma));"),
    ("form-join", "joined affine forms forget how their generators differ", VERIFY + "affine_form.rs",
     "extra.push(half(&a, &b));", "extra.push(zero.clone());"),
    ("form-join-centre", "joined affine forms forget how far their centres are apart", VERIFY + "affine_form.rs",
     "live.iter().map(|&j| apart[j as usize]).collect::<Vec<f64>>()", "live.iter().map(|&j| 0.0 * apart[j as usize]).collect::<Vec<f64>>()"),
    ("form-merge", "of affine forms that are merged the first stands for both", VERIFY + "symbolic.rs",
     "forms[i] = forms[i].join(&other, symbols);", "forms[i] = forms[i].join(&forms[i].clone(), symbols);"),
    ("form-meet", "of affine forms that meet at one place the first stands for both", VERIFY + "symbolic.rs",
     "let mut state = arrivals[i].states.state.join(&other.states.state, self.symbols);",
     "let mut state = arrivals[i].states.state.clone();"),
    ("form-estimate-low", "the joint lower end of an error estimate is its upper end", VERIFY + "symbolic_step.rs",
     "let low = error.functional(&signs).lower.max(", "let low = error.functional(&signs).upper.max("),
    ("form-estimate-high", "chords above magnitudes lack their intercepts", VERIFY + "symbolic_step.rs",
     "above += up(", "above += 0.0 * up("),
    ("form-change", "changes of affine forms forget the rest of the evaluation before", VERIFY + "affine_form.rs",
     "centre += output.centre[j] - p.slope * input.centre[j];", "centre += output.centre[j] - input.centre[j];"),
    ("series-window", "rows of series on windows are relaxed by the lines of other pixels", VERIFY + "series/stack.rs",
     "map.pull_back(&rows, 0.0, magnitude, arithmetic).widened();", "map.pull_back(&rows, 0.0, magnitude, arithmetic);"),
    ("series-plane", "planes below products take the corners of those above", VERIFY + "series/product.rs",
     "Bound::Below => [(x.lower, y.lower), (x.upper, y.upper)],", "Bound::Below => [(x.upper, y.lower), (x.lower, y.upper)],"),
    ("series-plane-mean", "the mean of two planes takes one constant for both", VERIFY + "series/product.rs",
     "let constant = half(first.constant, second.constant)", "let constant = first.constant.max(second.constant)"),
    ("series-side", "both products of an update are bounded on the same side", VERIFY + "series/pull.rs",
     "(Bound::Below, Bound::Above) } else { (Bound::Above, Bound::Below) }",
     "(Bound::Below, Bound::Below) } else { (Bound::Above, Bound::Above) }"),
    ("series-mix", "mixtures of boxes take the lower end of the gate only", VERIFY + "series/product.rs",
     "let low = hull([at(u.lower, g.lower, y.lower), at(u.upper, g.lower, y.lower)]).lower;", "let low = at(u.lower, g.lower, y.lower);"),
    ("series-mix-rounding", "mixtures of boxes are not widened", VERIFY + "series/product.rs",
     "let owed = arithmetic.short_sum(4) * size + arithmetic.underflow();", "let owed = 0.0 * size;"),
    ("series-euler-rounding", "rows lose what the program rounds in an Euler step", VERIFY + "series/encode.rs",
     "let error = analysis_error(4) + self.arithmetic.program_short_sum(2);", "let error = analysis_error(4);"),
    ("series-absolute", "the chord above an absolute value lacks its intercept", VERIFY + "series/product.rs",
     "Line { slope, intercept })\n}", "Line { slope, intercept: 0.0 * intercept })\n}"),
    ("series-tangent", "tangents of sigmoids may cross them at the far end", CORE + "relaxation/tangent.rs",
     "intercept: down_product(touching).min(rest(at_u, slope, u)) }", "intercept: down_product(touching).max(rest(at_u, slope, u)) }"),
    ("series-reset", "rows forget the reset gate", VERIFY + "series/pull.rs",
     "for part in [update, reset] {", "for part in [update, update] {"),
    ("series-observed", "rows are bounded at the middle of the observations", VERIFY + "series/pull.rs",
     "rows.absorb(row, value - spread, gamma", "rows.absorb(row, value - 0.5 * spread, gamma"),
    ("series-chord", "the error of all features together lacks the intercepts of its chords", VERIFY + "series/property.rs",
     "constant += chord.intercept - chord.slope", "constant += 0.0 * chord.intercept - chord.slope"),
    ("series-rounded-input", "float32 programs are taken to read what they are given", VERIFY + "series/region.rs",
     "let rounded = |x: f64| f64::from(x as f32);", "let rounded = |x: f64| x;"),
    ("series-overflow", "layers of the encoder may overflow", VERIFY + "series/stack.rs",
     "if b.is_sane() { Ok(()) } else", "if b.len() < usize::MAX { Ok(()) } else"),
    ("series-stepwise", "upper ends of states are tightened by the rows of the lower ends", VERIFY + "series/encode.rs",
     "state.upper[i] = state.upper[i].min(-lower[entries + i]);", "state.upper[i] = state.upper[i].min(lower[i].max(state.lower[i]));"),
    ("series-time", "boxes are stepped the other way through time", VERIFY + "series/encode.rs",
     "combine(Some(&mean), &[(step, &dynamics.output)]", "combine(Some(&mean), &[(-step, &dynamics.output)]"),
]

TESTS = [
    ("gains-core", ["--test", "transformers"]),
    ("gains-core", ["--lib"]),
    ("gains-ode", ["--lib"]),
    ("gains-verify", ["--lib"]),
    ("gains-verify", ["--test", "grammar"]),
    ("gains-verify", ["--test", "series"]),
    ("gains-verify", ["--test", "soundness"]),
]

def cargo(*arguments):
    return subprocess.run(["cargo", "test", "--quiet", *arguments], capture_output=True, text=True)

def failing():
    """Names of failing tests, stopping at the first suite that has any; None if it does not compile."""
    for package, target in TESTS:
        if cargo("-p", package, *target, "--no-run").returncode != 0:
            return None
        run = cargo("-p", package, *target)
        if run.returncode != 0:
            names = sorted(set(re.findall(r"^    ([\w:]+)$", run.stdout, re.M)))
            return [f"{package} {name}" for name in names] or [f"{package} ended by {run.returncode}"]
    return []

words = sys.argv[1:]
chosen = [s for s in SABOTAGES if not words or any(word in s[0] for word in words)]
for name, _, file, text, _ in chosen:
    found = open(file).read().count(text) if text else 0
    if found != 1:
        sys.exit(f"error: {name}: the pattern occurs {found} times in {file}")
clean = failing()
if clean is None or clean:
    sys.exit(f"error: the tests must pass before anything is broken: {clean}")
print("| sabotage | what is broken | caught by |\n|---|---|---|", flush=True)
missed = 0
for name, what, file, text, replacement in chosen:
    source = open(file).read()
    open(file, "w").write(source.replace(text, replacement))
    caught = failing()
    open(file, "w").write(source)
    if caught is None:
        sys.exit(f"error: {name}: the edit does not compile")
    missed += not caught
    shown = "**MISSED**" if not caught else f"`{caught[0]}`" + (f" and {len(caught) - 1} more" if caught[1:] else "")
    print(f"| {name} | {what} | {shown} |", flush=True)
print(f"\n{len(chosen) - missed} of {len(chosen)} caught", flush=True)
sys.exit(1 if missed else 0)
PYTHON
