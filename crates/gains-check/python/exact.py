#!/usr/bin/env python3
"""Checks certificates of `gains` in exact rational arithmetic: a second opinion on small ones, and an oracle for tests.

    exact.py MODEL CERTIFICATE…

Written from docs/certificates.md, like `gains-check`, but with fractions instead of rounded numbers: nothing here is
approximate, so nothing has to be rounded outwards. That takes long; networks should have some twenty neurons. Exit
codes as those of `gains-check`: 0 all hold, 1 some are refused, 2 some cannot be read. It reads networks of linear layers,
`slice`, `pad`, `parallel` of any kind, `relu`, `leaky_relu`, `absolute` and ODEs on vectors; no images, no witnesses.
"""

import hashlib
import struct
import sys
from fractions import Fraction
from math import isqrt

from reading import Builder, Empty, Refused, Unreadable, box_of, cbor, exact, fields, require, tensors_of, unpack


# Boxes ---------------------------------------------------------------------------------------------------------------


def add(a, b):
    return [(x[0] + y[0], x[1] + y[1]) for x, y in zip(a, b)]


def times(factor, box):
    return [(factor * l, factor * h) if factor >= 0 else (factor * h, factor * l) for l, h in box]


def hull(a, b):
    return [(min(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a, b)]


def meet(a, b):
    """What both have in common; ends that are None are no bounds."""
    ends = lambda of, x, y: x if y is None else y if x is None else of(x, y)
    met = [(ends(max, x[0], y[0]), ends(min, x[1], y[1])) for x, y in zip(a, b)]
    if any(low is not None and high is not None and low > high for low, high in met):
        raise Empty
    return met


def inside(inner, outer, what):
    for i, (x, y) in enumerate(zip(inner, outer)):
        require(y[0] <= x[0] and x[1] <= y[1], f"{what}: entry {i} by {float(max(y[0] - x[0], x[1] - y[1]))}")


def linear_image(rows, box):
    pick = lambda end, column, weight: box[column][end if weight > 0 else 1 - end]
    return [tuple(sum((w * pick(end, c, w) for c, w in row), Fraction(0)) for end in (0, 1)) for row in rows]


def leaky(leak, x):
    return x if x >= 0 else leak * x


def image(values, index, boxes, time):
    """The box of a value by intervals; time is an interval."""
    value = values[index]
    boxes = [boxes[i] for i in value.arguments]
    if any(box is None for box in boxes):
        return None
    if value.kind == "affine":
        shift = [(b + u * time[u < 0], b + u * time[u >= 0]) for b, u in zip(value.bias, value.time)]
        return add(linear_image(value.rows, boxes[0]), shift)
    if value.kind == "leaky":
        ends = lambda l, h: [leaky(value.leak, l), leaky(value.leak, h)] + ([Fraction(0)] if l < 0 < h else [])
        return [(min(ends(l, h)), max(ends(l, h))) for l, h in boxes[0]]
    if value.kind == "concat":
        return [entry for box in boxes for entry in box]
    if value.kind in ("product", "max"):
        larger = lambda x, y: (max(x[0], y[0]), max(x[1], y[1]))
        return list(map(product if value.kind == "product" else larger, *boxes))
    total = boxes[0]
    for box in boxes[1:]:
        total = add(total, box)
    return total


def slopes(leak, x):
    return (Fraction(1), Fraction(1)) if x[0] >= 0 else (leak, leak) if x[1] <= 0 else (leak, Fraction(1))


def product(x, y):
    corners = [a * b for a in x for b in y]
    return min(corners), max(corners)


def change(values, index, before, now, changes, time):
    """The change of a value between two stages; time is the interval of the change of time."""
    value = values[index]
    if value.kind == "affine":
        shift = [(u * time[u < 0], u * time[u >= 0]) for u in value.time]
        return add(linear_image(value.rows, changes[value.arguments[0]]), shift)
    if value.kind == "leaky":
        i = value.arguments[0]
        both = zip(hull(before[i], now[i]), changes[i])
        return [product(slopes(value.leak, x), d) for x, d in both]
    if value.kind in ("product", "max"):
        x, y = value.arguments
        if value.kind == "product":
            return add(map(product, now[x], changes[y]), map(product, before[y], changes[x]))
        both = zip(changes[x], changes[y], zip(before[x], before[y]), zip(now[x], now[y]))
        return [(dx, dy, hull([dx], [dy])[0])[steady(past, present)] for dx, dy, past, present in both]
    return image(values, index, changes, None)


def leader(x, y):
    """0 or 1 if that one is the larger one everywhere, else 2."""
    return 0 if x[0] >= y[1] else 1 if y[0] >= x[1] else 2


def steady(before, now):
    return leader(*before) if leader(*before) == leader(*now) else 2


class Step:
    """A step on boxes: stages with `times`, `values` and (form 1) `changes`, then `result` and `error`."""

    def __init__(self, ode, form, state, place, wanted, followers, carried):
        solver, values, out = ode.solver, ode.dynamics, ode.last
        self.form, self.h = form, Fraction(solver.size(place))
        self.times, self.values, self.changes = [], [], []
        t, count = Fraction(solver.time(place)), len(solver.b) if wanted else solver.needed
        zero = [(Fraction(0), Fraction(0))] * len(state)
        row = lambda i: solver.a[i] + [Fraction(0)] * (count - len(solver.a[i]))

        def total(weights, boxes):
            total = zero
            for weight, box in zip(weights, boxes):
                total = add(total, times(weight, box)) if weight else total
            return total

        def combined(weights):
            """h Σ cⱼ kⱼ, also by parts in form 1."""
            weights = [self.h * weight for weight in weights][:len(self.values)]
            slopes = [stage[out] for stage in self.values]
            direct = total(weights, slopes)
            if form == 0 or not slopes:
                return direct
            tails = [sum(weights[m:], Fraction(0)) for m in range(len(weights))]
            return meet(direct, total(tails, [slopes[0]] + [stage[out] for stage in self.changes[1:]]))

        for i in range(count):
            at = t + solver.c[i] * self.h
            time = (at, at)
            if i + 1 == len(solver.b):
                time = (min([at, *followers]), max([at, *followers]))
            stage = [add(state, total([self.h * weight for weight in row(i)], [s[out] for s in self.values]))]
            changes = []
            if form == 1 and i > 0:
                changes = [combined([x - y for x, y in zip(row(i), row(i - 1))])]
                stage = [meet(stage[0], add(self.values[-1][0], changes[0]))]
            for index in range(1, len(values)):
                box = image(values, index, stage, time)
                if i == 0 and carried is not None:
                    box = meet(box, carried[index])
                if changes:
                    past, before = self.values[-1], self.times[-1]
                    changed = change(values, index, past, stage, changes, (time[0] - before[1], time[1] - before[0]))
                    box = meet(box, add(past[index], changed))
                    changes.append(meet(changed, add(box, times(Fraction(-1), past[index]))))
                stage.append(box)
            self.times.append(time)
            self.values.append(stage)
            self.changes.append(changes)
        self.result = add(state, combined(solver.b))
        self.error = None
        if wanted:
            sizes = [(max(l, -h, Fraction(0)), max(-l, h)) for l, h in combined(solver.e)]
            self.error = tuple(sum((size[end] for size in sizes), Fraction(0)) / solver.tolerance for end in (0, 1))


# Rows: coefficients by value, and a constant --------------------------------------------------------------------------


def plus(row, index, coefficients, factor=Fraction(1)):
    there = row.get(index) or [Fraction(0)] * len(coefficients)
    row[index] = [a + factor * b for a, b in zip(there, coefficients)]


def rounded(x):
    return Fraction(float(x))


def lines(value, index, x, lines, entry):
    """Lines below and above a kink: (slope, intercept)."""
    leak, (l, u) = value.leak, x
    if l >= 0 or u <= 0:
        line = (Fraction(1) if l >= 0 else leak, Fraction(0))
        return line, line
    given, policy = lines
    wish = given[index][entry] if index in given else {0: Fraction(1) if u >= -l else leak, 1: leak, 2: Fraction(1)}[policy]
    chord = rounded((u - leak * l) / (u - l))
    return (min(max(wish, leak), Fraction(1)), Fraction(0)), (chord, max(leak * l - chord * l, u - chord * u))


def below_change(slopes, d, known):
    """A line below c·d for slopes c; the least it can be is `known`."""
    (m, big), (low, high) = slopes, d
    least = lambda x: min(m * x, big * x)
    if m == big or low >= 0 or high <= 0:
        line = (m if m == big or low >= 0 else big, Fraction(0))
    else:
        slope = rounded((least(high) - least(low)) / (high - low))
        line = (slope, min(least(low) - slope * low, least(high) - slope * high))
    return (Fraction(0), known) if known is not None and known > line[0] * (low + high) / 2 + line[1] else line


def plane(value, x, y, slopes, above):
    """(slope in x, slope in y, constant) beside a product or maximum."""
    of = (lambda p, q: p * q) if value.kind == "product" else max
    rest = [of(p, q) - slopes[0] * p - slopes[1] * q for p in x for q in y]
    return (*slopes, max(rest) if above else min(rest))


def planes(value, x, y):
    """Planes below and above."""
    middle = lambda x: rounded((x[0] + x[1]) / 2)
    if value.kind == "product":
        return tuple(plane(value, x, y, (middle(y), middle(x)), above) for above in (False, True))
    only = ((Fraction(1), Fraction(0), Fraction(0)), (Fraction(0), Fraction(1), Fraction(0)))
    lead = leader(x, y)
    if lead < 2:
        return only[lead], only[lead]
    return only[0] if middle(x) >= middle(y) else only[1], above_maximum(value, x, y)


def above_maximum(value, x, y):
    slope = lambda x, other: (max(x[1], other) - max(x[0], other)) / (x[1] - x[0]) if x[0] < x[1] else Fraction(0)
    mean = lambda x, y: rounded((slope(x, y[0]) + slope(x, y[1])) / 2)
    return plane(value, x, y, (mean(x, y), mean(y, x)), True)


def change_planes(value, before, now, dx, dy):
    """Planes below and above the change of a product or maximum; `before` and `now` are boxes of both arguments."""
    opposite = lambda x: (-x[1], -x[0])
    if value.kind == "product":
        def below(old_y, new_x):
            terms = below_change(old_y, dx, None), below_change(new_x, dy, None)
            return terms[0][0], terms[1][0], terms[0][1] + terms[1][1]

        return below(before[1], now[0]), tuple(-a for a in below(opposite(before[1]), opposite(now[0])))
    lead = steady(before, now)
    if lead < 2:
        line = (Fraction(lead == 0), Fraction(lead == 1), Fraction(0))
        return line, line
    x, y, constant = above_maximum(value, opposite(dx), opposite(dy))
    return (x, y, -constant), above_maximum(value, dx, dy)


def move_back(values, index, row, of, shift, lines):
    """Moves coefficients `of` a value to its arguments; returns what the constant gains."""
    value, gain = values[index], Fraction(0)
    if value.kind == "affine":
        moved = [Fraction(0)] * values[value.arguments[0]].count
        for o, a in enumerate(of):
            if a:
                for column, weight in value.rows[o]:
                    moved[column] += a * weight
                gain += min(a * end for end in shift(index, o))
        plus(row, value.arguments[0], moved)
    elif value.kind == "leaky":
        moved = []
        for entry, a in enumerate(of):
            slope, intercept = lines(index, entry)[a < 0] if a else (Fraction(0), Fraction(0))
            moved.append(a * slope)
            gain += a * intercept
        plus(row, value.arguments[0], moved)
    elif value.kind in ("product", "max"):
        beside = [lines(index, entry)[a < 0] if a else (Fraction(0),) * 3 for entry, a in enumerate(of)]
        for k, argument in enumerate(value.arguments):
            plus(row, argument, [a * side[k] for a, side in zip(of, beside)])
        gain = sum((a * side[2] for a, side in zip(of, beside)), gain)
    else:
        start = 0
        for argument in value.arguments:
            end = start + values[argument].count
            plus(row, argument, of[start:end] if value.kind == "concat" else of)
            start = end
    return gain


def through(values, last, of, shift, lines):
    """Takes coefficients of a value of dynamics back to their input: (coefficients, constant)."""
    row, constant = {last: of}, Fraction(0)
    for index in range(last, 0, -1):
        if index in row:
            constant += move_back(values, index, row, row.pop(index), shift, lines)
    return row.get(0) or [Fraction(0)] * values[0].count, constant


def least(coefficients, box):
    return sum((min(a * l, a * h) for a, (l, h) in zip(coefficients, box)), Fraction(0))


class Graph:
    """A trajectory graph, checked when it is made."""

    def __init__(self, item, ode, argument, known):
        fields(item, "ode", "form", "vertices", "end")
        self.ode, self.form, solver, count = ode, item["form"], ode.solver, len(argument)
        require(self.form in (0, 1) and item["vertices"], "a graph", Unreadable)
        self.end = box_of(item["end"], count)
        self.vertices = [fields(vertex, "at", "state", "error", "out") for vertex in item["vertices"]]
        self.states = [box_of(vertex["state"], count) for vertex in self.vertices]
        places = [tuple(vertex["at"]) for vertex in self.vertices]
        require(places[0] == solver.start(), "the start")
        inside(argument, self.states[0], "the first vertex")
        self.steps, self.first_edges, edges = [], [], 0
        got = [known] + [()] * (len(places) - 1)  # () while no edge has come
        carries = self.form == 1 and solver.carries
        for i, (vertex, place) in enumerate(zip(self.vertices, places)):
            self.first_edges.append(edges)
            edges += len(vertex["out"])
            followers = [Fraction(solver.time(places[t])) for action, t in vertex["out"] if action and t >= 0 and carries]
            carried = got[i] or None
            try:
                step = Step(ode, self.form, self.states[i], place, solver.looks(place), followers, carried)
            except Empty:
                require(i == 0, f"vertex {i}: an empty box")
                raise
            self.steps.append(step)
            claim = vertex["error"]
            require((claim is None) == (step.error is None), f"vertex {i}: whether there is an error")
            if claim is not None:
                claim = exact(claim, 2)
                inside([step.error], [claim], f"vertex {i}: the error")
            done = [edge[0] for edge in vertex["out"]]
            require(sorted(set(done)) == done, f"vertex {i}: the order of actions", Unreadable)
            for action in solver.actions(place, claim):
                require(action in done, f"vertex {i}: no edge for action {action}")
            for action, target in vertex["out"]:
                require(action in (0, 1, 2) and -1 <= target < len(places), "an edge", Unreadable)
                require(target > i or target == -1, f"vertex {i}: an edge that leads back")
                require(solver.after(place, action) == (None if target < 0 else places[target]), f"vertex {i}: a wrong target")
                travels = self.states[i] if action == 0 else step.result
                inside(travels, self.end if target < 0 else self.states[target], f"vertex {i}: what reaches {target}")
                if target < 0:
                    continue
                more = carried if action == 0 else step.values[-1] if carries and step.error is not None else None
                if got[target] == ():
                    got[target] = more
                elif got[target] is not None:
                    got[target] = None if more is None else [hull(a, b) for a, b in zip(got[target], more)]

    def merge(self, vertex, brought, shares, box):
        first = self.first_edges[vertex]
        rows = brought[first:first + len(self.vertices[vertex]["out"])]
        if len(rows) == 1:
            return rows[0]
        require(shares is not None, "no shares")
        shares = exact(shares, len(rows))
        mixed = [rounded(sum(w * row[0][i] for w, row in zip(shares, rows))) for i in range(len(box))]
        return mixed, min(least([a - b for a, b in zip(row[0], mixed)], box) + row[1] for row in rows)

    def back(self, of, way):
        """Takes coefficients at the end back to the start: (coefficients, constant)."""
        fields(way, "ode", "form", "lines", "start", "shares")
        chain, dynamics_lines, shares = way["form"], read_lines(way.get("lines"), self.ode.dynamics), dict(way.get("shares", []))
        require(chain in (0, 1), "a form", Unreadable)
        require(not chain or self.form, "a chain needs form 1")
        brought = [None] * (self.first_edges[-1] + len(self.vertices[-1]["out"]))
        for i in reversed(range(len(self.vertices))):
            for number, (action, target) in enumerate(self.vertices[i]["out"], self.first_edges[i]):
                travels = self.states[i] if action == 0 else self.steps[i].result
                row = (of, Fraction(0)) if target < 0 else self.merge(target, brought, shares.get(number), travels)
                brought[number] = row if action == 0 else self.back_step(self.steps[i], row, chain, dynamics_lines)
        return self.merge(0, brought, way.get("start"), self.states[0])

    def rules(self, step, i, wishes, chained):
        """Shift and lines of stage i, or of its changes."""
        values, now = self.ode.dynamics, step.values[i]
        time = step.times[i]
        if chained:
            before = step.times[i - 1]
            time = (time[0] - before[1], time[1] - before[0])

        def shift(index, o):
            bias, unit = (0 if chained else values[index].bias[o]), values[index].time[o]
            return bias + unit * time[0], bias + unit * time[1]

        def pair(index, entry):
            argument = values[index].arguments[0]
            if values[index].kind in ("product", "max"):
                two = lambda boxes: [boxes[i][entry] for i in values[index].arguments]
                if not chained:
                    return planes(values[index], *two(now))
                return change_planes(values[index], two(step.values[i - 1]), two(now), *two(step.changes[i]))
            if not chained:
                return lines(values[index], index, now[argument][entry], wishes, entry)
            x = hull([step.values[i - 1][argument][entry]], [now[argument][entry]])[0]
            m, d, known = slopes(values[index].leak, x), step.changes[i][argument][entry], step.changes[i][index][entry]
            slope, intercept = below_change((-m[1], -m[0]), d, -known[1])
            return below_change(m, d, known[0]), (-slope, -intercept)

        return shift, pair

    def back_step(self, step, row, chain, wishes):
        solver, values, out = self.ode.solver, self.ode.dynamics, self.ode.last
        state, constant = list(row[0]), row[1]
        on = [[step.h * solver.b[i] * a for a in row[0]] for i in range(solver.needed)]
        entry = lambda i, j: solver.a[i][j] if j < len(solver.a[i]) else Fraction(0)
        for i in reversed(range(solver.needed)):
            chained = bool(chain and i > 0)
            if chained:
                on[i - 1] = [a + b for a, b in zip(on[i - 1], on[i])]
            moved, gain = through(values, out, on[i], *self.rules(step, i, wishes, chained))
            constant += gain
            for j in range(i):
                factor = step.h * (entry(i, j) - (entry(i - 1, j) if chained else 0))
                on[j] = [a + factor * b for a, b in zip(on[j], moved)]
            if not chained:
                state = [a + b for a, b in zip(state, moved)]
        return state, constant

    def face(self, value, of):
        return through(self.ode.dynamics, value, of, *self.rules(self.steps[0], 0, ({}, 0), False))


def read_lines(item, values):
    item = fields(item or {}, "policy", "slopes")
    given = {index: exact(numbers, values[index].count) for index, numbers in item.get("slopes", [])}
    require(item.get("policy", 0) in (0, 1, 2), "a policy", Unreadable)
    return given, item.get("policy", 0)


# Proofs --------------------------------------------------------------------------------------------------------------


def root_above(x):
    """A number that is at least the square root of a fraction."""
    return Fraction(isqrt(x.numerator * x.denominator * 4 ** 60) + 1, x.denominator * 2 ** 60)


class Ball:
    def __init__(self, item, count):
        fields(item, "norm", "centre", "scales")
        self.norm, self.centre, self.scales = item["norm"], exact(item["centre"], count), exact(item["scales"], count)
        require(self.norm in (1, 2) and min(self.scales) >= 0, "a ball", Unreadable)

    def least(self, a):
        centre = sum(x * c for x, c in zip(a, self.centre))
        sizes = [abs(x * s) for x, s in zip(a, self.scales)]
        return centre - (max(sizes) if self.norm == 1 else root_above(sum(size * size for size in sizes)))


def follows(condition, rows):
    if isinstance(condition, int):
        return rows[condition]
    fields(condition, "all", "any", "least", "of")
    [parts] = [condition[key] for key in ("all", "any", "of") if key in condition]
    least = len(parts) if "all" in condition else 1 if "any" in condition else condition["least"]
    require(1 <= least <= len(parts), "a condition", Unreadable)
    return sum(follows(part, rows) for part in parts) >= least


class Checker:
    """One certificate. Constraints are (kind, value or (ode, value), entry, at, sign): sign·(x − at) ≤ 0."""

    def __init__(self, description, tensors):
        height, width, channels = (description["input"][key] for key in ("height", "width", "channels"))
        require("encoder" not in description and height == width == 1, "images and series", Unreadable)
        builder = Builder(tensors, channels)
        self.output = builder.layers(description["layers"], 0)
        self.values = builder.values

    def check(self, item, digest):
        fields(item, "format", "version", "model", "arithmetic", "region", "property", "claim", "proof", "witness", "about")
        require(item["format"] == "gains-certificate" and item["version"] == 1, "not a certificate", Unreadable)
        require(item["arithmetic"] == "real", "another arithmetic", Unreadable)
        require(item["model"] == digest, "another model")
        region = fields(item["region"], "boxes", "ball")
        [inputs] = region["boxes"]
        self.inputs = box_of(inputs, self.values[0].count)
        self.ball = Ball(region["ball"], len(self.inputs)) if "ball" in region else None
        fields(item["property"], "rows", "condition")
        self.rows = [fields(row, "a", "c", "zero") for row in item["property"]["rows"]]
        self.condition = item["property"]["condition"]
        for row in self.rows:
            row["a"], row["c"] = exact(row["a"], self.values[self.output].count), exact(row["c"], 2)
            require(row["c"][0] <= row["c"][1], "a constant", Unreadable)
        require(item["claim"] == "verified" and "witness" not in item, "not a proof", Unreadable)
        self.node(item["proof"], [None] * len(self.values), {}, [], [], [False] * len(self.rows))

    def node(self, item, above, graphs, constraints, cuts, shown):
        fields(item, "boxes", "graphs", "cuts", "rows", "split")
        self.constraints, self.cuts, self.graphs = constraints, list(cuts), dict(graphs)
        shown = list(shown)
        try:
            self.work(item, above, shown)
        except Empty:
            return
        if follows(self.condition, shown):
            return
        require("split" in item, "the condition does not follow")
        split = fields(item["split"], "kind", "at", "entry", "parts", "input", "value", "ode")
        kind, at = split["kind"], Fraction(split["at"])
        if kind == "start":
            place = (split["ode"], split["value"])
            count = self.values[split["ode"]].dynamics[split["value"]].count
            require(split["value"] > 0, "a split of the state", Unreadable)
        else:
            require(kind in ("input", "neuron"), "a split", Unreadable)
            place = split["value"] if kind == "neuron" else split["input"]
            require(kind == "neuron" or place == 0, "an input", Unreadable)
            count = self.values[place].count
        require(0 <= split["entry"] < count and len(split["parts"]) == 2, "a split")
        known = (self.boxes, self.graphs)
        cuts = self.cuts
        for part, sign in zip(split["parts"], (1, -1)):
            self.node(part, *known, constraints + [(kind, place, split["entry"], at, sign)], cuts, shown)

    def work(self, item, above, shown):
        claims = {claim["value"]: claim for claim in item.get("boxes", [])}
        graphs = {graph["ode"]: graph for graph in item.get("graphs", [])}
        for keys in ([claim["value"] for claim in item.get("boxes", [])], [graph["ode"] for graph in item.get("graphs", [])]):
            require(all(a < b for a, b in zip(keys, keys[1:])), "values that do not grow", Unreadable)
        self.boxes = [self.cut_by_splits(index, box) for index, box in enumerate(above)]
        for cut in item.get("cuts", []):
            fields(cut, "constraint", "way")
            require(0 <= cut["constraint"] < len(self.constraints), "a constraint", Unreadable)
            require(set(cut["way"]) <= {"lines", "odes"}, "the way of a cut", Unreadable)
            start, of, constant = self.constraint_row(self.constraints[cut["constraint"]], Fraction(1))
            row, constant = self.back(start, of, constant, cut["way"])
            self.cuts.append((row.get(0) or [Fraction(0)] * len(self.inputs), constant))
        self.boxes = []
        for index, value in enumerate(self.values):
            box = self.inputs if index == 0 else None
            if value.kind == "ode" and index in graphs:
                box = self.ode(value, index, graphs[index])
            elif value.kind != "ode" and index > 0:
                box = image(self.values, index, self.boxes, (Fraction(0), Fraction(0)))
            if above[index] is not None:
                box = above[index] if box is None else meet(box, above[index])
            box = self.cut_by_splits(index, box)
            self.boxes.append(box)
            if index in claims:
                self.boxes[index] = self.claim(claims[index], index, box)
        for row in item.get("rows", []):
            fields(row, "row", "way", "bound")
            wanted = self.rows[row["row"]]
            bound = self.pull(self.output, wanted["a"], wanted["c"][0], row["way"])
            require(bound >= Fraction(row["bound"]) > 0, f"row {row['row']}: {float(bound)} against {row['bound']}")
            shown[row["row"]] = True

    def cut_by_splits(self, index, box):
        for kind, place, entry, at, sign in self.constraints:
            if kind != "start" and place == index and box is not None:
                box = self.cut_box(box, entry, at, sign)
        return box

    def cut_box(self, box, entry, at, sign):
        side = (None, at) if sign > 0 else (at, None)
        return [meet([x], [side])[0] if i == entry else x for i, x in enumerate(box)]

    def ode(self, value, index, graph):
        known = None
        for kind, place, entry, at, sign in self.constraints:
            if kind == "start" and place[0] == index:
                known = known or [[(None, None)] * inner.count for inner in value.dynamics]
                known[place[1]] = self.cut_box(known[place[1]], entry, at, sign)
        argument = self.boxes[value.arguments[0]]
        require(argument is not None, "nothing is known in front of an ODE")
        self.graphs[index] = Graph(graph, value, argument, known)
        return self.graphs[index].end

    def claim(self, claim, index, box):
        fields(claim, "value", "lower", "upper", "lower_by", "upper_by", "ways")
        require(box is not None, "nothing is known of a value that is claimed")
        box = list(box)
        for side, sign in (("lower", 1), ("upper", -1)):
            bounds, by = claim[side], claim[side + "_by"]
            require(len(bounds) == len(by) == len(box), "a claim", Unreadable)
            for entry, way in enumerate(by):
                if way == 65535:
                    continue
                of = [Fraction(sign * (i == entry)) for i in range(len(box))]
                bound = self.pull(index, of, Fraction(0), claim["ways"][way])
                require(abs(bounds[entry]) < float("inf"), "an infinite claim")
                claimed = Fraction(bounds[entry])
                require(bound >= sign * claimed, f"{side} end of entry {entry} of value {index} by {float(sign * claimed - bound)}")
                box[entry] = meet([box[entry]], [(claimed, None) if sign > 0 else (None, claimed)])[0]
        return box

    def constraint_row(self, constraint, factor):
        """Value, coefficients and constant of factor · (the side of a constraint)."""
        kind, place, entry, at, sign = constraint
        count = self.values[place[0]].dynamics[place[1]].count if kind == "start" else self.values[place].count
        of = [factor * sign * (i == entry) for i in range(count)]
        if kind != "start":
            return place, of, -factor * sign * at
        require(place[0] in self.graphs, "no graph for a start")
        moved, constant = self.graphs[place[0]].face(place[1], of)
        return self.values[place[0]].arguments[0], moved, constant - factor * sign * at

    def back(self, value, of, constant, way):
        """Takes a row back to inputs and stops: coefficients by value, constant."""
        fields(way, "lines", "odes", "stops", "multipliers", "cuts")
        wishes, odes = read_lines(way.get("lines"), self.values), {item["ode"]: item for item in way.get("odes", [])}
        extra = []
        for number, factor in way.get("multipliers", []):
            require(factor >= 0 and 0 <= number < len(self.constraints), "a multiplier", Unreadable)
            extra.append(self.constraint_row(self.constraints[number], Fraction(factor)))
        row = {value: of}
        shift = lambda index, o: (self.values[index].bias[o],)

        def pair(index, entry):
            node = self.values[index]
            x, *y = (self.boxes[i][entry] for i in node.arguments)
            return planes(node, x, *y) if y else lines(node, index, x, wishes, entry)

        for index in range(value, -1, -1):
            for place, coefficients, gain in extra:
                if place == index:
                    plus(row, index, coefficients)
                    constant += gain
            if index == 0 or index in way.get("stops", []) or index not in row:
                continue
            of, node = row.pop(index), self.values[index]
            if node.kind == "ode":
                require(index in self.graphs and index in odes, f"no graph or way for ODE {index}")
                coefficients, gain = self.graphs[index].back(of, odes[index])
                plus(row, node.arguments[0], coefficients)
            else:
                require(all(self.boxes[i] is not None for i in node.arguments), "an unbounded value")
                gain = move_back(self.values, index, row, of, shift, pair)
            constant += gain
        return row, constant

    def pull(self, value, of, constant, way):
        """The least value of a row, by a way."""
        row, constant = self.back(value, of, constant, way)
        require(not (way.get("cuts") and way.get("stops")), "cuts and stops", Unreadable)
        for number, factor in way.get("cuts", []):
            require(factor >= 0, "a multiplier", Unreadable)
            plus(row, 0, self.cuts[number][0], Fraction(factor))
            constant += Fraction(factor) * self.cuts[number][1]
        for index, of in row.items():
            require(self.boxes[index] is not None, "an unbounded value")
            bound = least(of, self.boxes[index])
            constant += max(bound, self.ball.least(of)) if index == 0 and self.ball else bound
        return constant


def main():
    model = open(sys.argv[1], "rb").read()
    worst = 0
    for path in sys.argv[2:]:
        try:
            checker = Checker(*tensors_of(model))
            checker.check(cbor(unpack(open(path, "rb").read())), hashlib.sha256(model).digest())
            print(f"{path}: holds")
        except Refused as fault:
            print(f"{path}: refused: {fault}")
            worst = max(worst, 1)
        except (Unreadable, KeyError, TypeError, ValueError, IndexError, struct.error, AttributeError, OSError) as fault:
            print(f"{path}: unreadable: {type(fault).__name__}: {fault}")
            worst = 2
    return worst


if __name__ == "__main__":
    sys.exit(main())
