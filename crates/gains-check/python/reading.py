"""What the exact checker reads: certificates (CBOR), model files (safetensors), networks and solvers.

All numbers become fractions; times and step sizes are float64 numbers, which is what docs/certificates.md makes of them.
"""

import functools
import json
import struct
import subprocess
from fractions import Fraction


class Refused(Exception):
    """A claim that does not hold."""


class Unreadable(Exception):
    """Something that is no certificate, or not one for this program."""


class Empty(Exception):
    """No input is left."""


def require(holds, what, kind=Refused):
    if not holds:
        raise kind(what)


# Files ---------------------------------------------------------------------------------------------------------------


def cbor(data):
    """The one item that some bytes are. Typed arrays become lists of numbers."""
    item, end = cbor_item(data, 0)
    require(end == len(data), "bytes after the end", Unreadable)
    return item


def cbor_item(data, at):
    head = data[at]
    kind, short, at = head >> 5, head & 31, at + 1
    if kind == 7:
        if short in (20, 21, 22):
            return {20: False, 21: True, 22: None}[short], at
        code = {25: "e", 26: "f", 27: "d"}[short]
        size = struct.calcsize(code)
        return struct.unpack(">" + code, data[at:at + size])[0], at + size
    require(short < 28, "a length that is not given", Unreadable)
    width = 0 if short < 24 else 1 << (short - 24)
    number = int.from_bytes(data[at:at + width], "big") if width else short
    at += width
    if kind <= 1:
        return (number if kind == 0 else -1 - number), at
    if kind <= 3:
        raw = data[at:at + number]
        require(len(raw) == number, "cut off", Unreadable)
        return (raw if kind == 2 else raw.decode()), at + number
    if kind == 6:
        raw, at = cbor_item(data, at)
        code = {64: "B", 69: "H", 85: "f", 86: "d"}[number]
        return list(struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw)), at
    require(number <= len(data) - at, "a length beyond the end", Unreadable)
    items = []
    for _ in range(number if kind == 4 else 2 * number):
        item, at = cbor_item(data, at)
        items.append(item)
    if kind == 4:
        return items, at
    keys = items[::2]
    require(len(set(keys)) == len(keys) and all(isinstance(key, str) for key in keys), "keys", Unreadable)
    return dict(zip(keys, items[1::2])), at


def unpack(data):
    if data[:4] != b"\x28\xb5\x2f\xfd":
        return data
    done = subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=False)
    require(done.returncode == 0, "zstd: " + done.stderr.decode()[:100], Unreadable)
    return done.stdout


def fields(item, *known):
    """A map that has no other keys."""
    require(isinstance(item, dict), "not a map", Unreadable)
    unknown = set(item) - set(known)
    require(not unknown, f"unknown keys {sorted(unknown)}", Unreadable)
    return item


def exact(numbers, count=None):
    require(isinstance(numbers, list), "not numbers", Unreadable)
    require(count is None or len(numbers) == count, f"{len(numbers)} numbers instead of {count}", Unreadable)
    require(all(abs(x) < float("inf") for x in numbers), "a number that is not finite", Unreadable)
    return [Fraction(x) for x in numbers]


def box_of(item, count):
    lower, upper = (exact(end, count) for end in item)
    require(all(low <= high for low, high in zip(lower, upper)), "an empty box", Unreadable)
    return list(zip(lower, upper))


def tensors_of(data):
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    body, tensors = data[8 + length:], {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            code = {"F32": "f", "F64": "d"}[entry["dtype"]]
            count = (end - start) // struct.calcsize(code)
            tensors[name] = (entry["shape"], [Fraction(x) for x in struct.unpack(f"<{count}{code}", body[start:end])])
    return json.loads(header["__metadata__"]["gains"]), tensors


# Networks: lists of values -------------------------------------------------------------------------------------------


class Value:
    """A value: `kind` is input, affine, leaky, sum, product, max, concat or ode."""

    def __init__(self, kind, arguments, count, **more):
        self.kind, self.arguments, self.count = kind, arguments, count
        self.__dict__.update(more)


class Builder:
    """Values of the layers of a description, vectors all of them."""

    def __init__(self, tensors, count):
        self.tensors, self.values = tensors, [Value("input", [], count)]

    def push(self, *what, **more):
        self.values.append(Value(*what, **more))
        return len(self.values) - 1

    def layers(self, layers, value):
        for layer in layers:
            value = self.layer(layer, value)
        return value

    def layer(self, layer, value):
        kind, count = layer["type"], self.values[value].count
        if kind in ("relu", "leaky_relu", "absolute"):
            leak = Fraction({"relu": 0, "absolute": -1}.get(kind, layer.get("slope")))
            return self.push("leaky", [value], count, leak=leak)
        if kind == "linear":
            (outputs, columns), weights = self.tensors[layer["name"] + ".weight"]
            timed, rows = columns - count, [weights[o * columns:][:columns] for o in range(outputs)]
            require(timed == int(layer.get("time", False)), "the shape of a tensor", Unreadable)
            time = [row.pop(0) if timed else Fraction(0) for row in rows]
            return self.affine(value, map(enumerate, rows), self.tensors[layer["name"] + ".bias"][1], time)
        if kind in ("slice", "pad"):
            first = layer["first"] if kind == "slice" else -layer.get("before", 0)
            last = first + layer["length"] if kind == "slice" else count + layer.get("after", 0)
            return self.affine(value, [[(i, Fraction(1))] if 0 <= i < count else [] for i in range(first, last)])
        if kind == "flatten":
            return value
        if kind == "parallel":
            ends = [self.layers(branch, value) for branch in layer["branches"]]
            counts = [self.values[end].count for end in ends]
            if layer["join"] == "product":
                return functools.reduce(lambda x, y: self.push("product", [x, y], counts[0]), ends)
            while layer["join"] == "max" and len(ends) > 1:
                pairs = [ends[i:i + 2] for i in range(0, len(ends), 2)]
                ends = [self.push("max", pair, counts[0]) if len(pair) == 2 else pair[0] for pair in pairs]
            if layer["join"] == "max":
                return ends[0]
            join = {"add": ("sum", counts[0]), "concat": ("concat", sum(counts))}[layer["join"]]
            return self.push(join[0], ends, join[1])
        require(kind == "ode", f"layers of the kind {kind}", Unreadable)
        inner = Builder(self.tensors, count)
        last = inner.layers(layer["dynamics"], 0)
        return self.push("ode", [value], count, dynamics=inner.values, last=last, solver=Solver(layer["solver"]))

    def affine(self, value, rows, bias=None, time=None):
        """Rows are lists of (column, weight)."""
        rows = [[(column, weight) for column, weight in row if weight] for row in rows]
        zeros = [Fraction(0)] * len(rows)
        return self.push("affine", [value], len(rows), rows=rows, bias=bias or zeros, time=time or zeros)


# Solvers -------------------------------------------------------------------------------------------------------------

TABLEAUX = {
    "euler": (1, "0", "", "1", ""),
    "midpoint": (2, "0 1/2", "1/2", "0 1", ""),
    "heun": (2, "0 1", "1", "1/2 1/2", "-1/2 1/2"),
    "rk4": (4, "0 1/2 1/2 1", "1/2; 0 1/2; 0 0 1", "1/6 1/3 1/3 1/6", ""),
    "rk38": (4, "0 1/3 2/3 1", "1/3; -1/3 1; 1 -1 1", "1/8 3/8 3/8 1/8", ""),
    "bosh3": (3, "0 1/2 3/4 1", "1/2; 0 3/4; 2/9 1/3 4/9", "2/9 1/3 4/9 0", "-5/72 1/12 1/9 -1/8"),
    "fehlberg2": (2, "0 1/2 1", "1/2; 1/256 255/256", "1/512 255/256 1/512", "-1/512 0 1/512"),
    "dopri5": (5, "0 1/5 3/10 4/5 8/9 1 1",
               "1/5; 3/40 9/40; 44/45 -56/15 32/9; 19372/6561 -25360/2187 64448/6561 -212/729; "
               "9017/3168 -355/33 46732/5247 49/176 -5103/18656; 35/384 0 500/1113 125/192 -2187/6784 11/84",
               "35/384 0 500/1113 125/192 -2187/6784 11/84 0",
               "71/86400 0 -142/50085 71/2880 -5751/169600 44/1575 -1/60"),
}


def coefficients(text):
    """Fractions as the float64 numbers nearest to them."""
    return [Fraction(float(Fraction(word))) for word in text.split()]


class Solver:
    """A tableau and the automaton of its step sizes; times are float64 numbers."""

    def __init__(self, item):
        control = item["controller"]
        self.order, c, a, b, e = TABLEAUX[item["method"]]
        self.c, self.b, self.e = coefficients(c), coefficients(b), coefficients(e)
        self.a = [[]] + [coefficients(row) for row in a.split(";") if row.strip()]
        self.needed = max(i for i, b in enumerate(self.b) if b) + 1
        self.carries = self.needed < len(self.b) and self.a[-1] == self.b[:len(self.a[-1])] and self.c[-1] == 1
        self.end = float(item["end_time"])
        if control["type"] == "fixed":
            self.first, self.ticks, self.whole, self.limit, self.factor = self.end / control["steps"], 1, 1, 0, 2
            self.tolerance = None
            return
        require(control["type"] == "controlled_adaptive", "this controller", Unreadable)
        self.first, self.factor = min(float(control["initial_step"]), self.end), control["factor"]
        self.limit, self.tolerance, self.ticks = control["rejections_after_clipping"], Fraction(control["tolerance"]), 1
        while self.first / float(self.ticks * self.factor) >= control["minimum_step"] and self.ticks < 2 ** 40:
            self.ticks *= self.factor
        self.whole = self.factor ** self.limit

    def start(self):
        return (0, self.ticks, 0, 0, 0, 0)

    def time(self, place):
        ticks, step, progress = place[:3]
        start = (ticks / self.ticks) * self.first
        done = progress / self.whole
        return start if step > 0 else start * (1.0 - done) + self.end * done

    def size(self, place):
        ticks, step, _, fraction = place[:4]
        if step > 0:
            return (step / self.ticks) * self.first
        return (fraction / self.whole) * (self.end - (ticks / self.ticks) * self.first)

    def after(self, place, action):
        """The next place, or None at the end."""
        ticks, step, progress, fraction, rejections, settled = place
        if action == 0:
            if step == 0 and rejections < self.limit:
                return (ticks, step, progress, fraction // self.factor, rejections + 1, settled)
            if step >= self.factor:
                return (ticks, step // self.factor, progress, fraction, rejections, settled)
            return (ticks, step, progress, fraction, rejections, 1)
        growth = self.factor if action == 2 else 1
        if step == 0:
            progress += fraction
            fraction = min(fraction * growth, self.whole - progress)
        else:
            ticks, step = ticks + step, step * growth
            if (ticks + step) / self.ticks >= self.end / self.first * (1.0 - 1e-12):
                step, progress, fraction = 0, 0, self.whole
        place = (ticks, step, progress, fraction, rejections, settled)
        return None if self.time(place) + 1e-8 * min(self.end, 1.0) >= self.end else place

    def looks(self, place):
        return self.tolerance is not None and place[5] == 0

    def actions(self, place, error):
        """What errors from error[0] to error[1] may lead to."""
        if error is None:
            return [1]
        low, high = error
        threshold = Fraction(float(self.factor) ** -self.order)
        same = self.after(place, 2) == self.after(place, 1)
        return ([0] if high > 1 else []) + ([1] if (low <= 1 and high > threshold) or (same and low <= threshold) else []) + (
            [2] if low <= threshold and not same else [])
