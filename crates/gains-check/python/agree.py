#!/usr/bin/env python3
"""Compares `gains-check` with the exact checker on random small proofs, true and false ones.

    cargo build --release -p gains-check
    agree.py target/release/gains-check --models 100 --mutants 20 --seed 1

Networks, regions, graphs, ways, splits and cuts are drawn at random; bounds come from the exact checker. Mutants have one
number, edge, leaf or list changed. Whatever `gains-check` accepts the exact one must accept; whatever the exact one
accepts `gains-check` must accept, unless it misses by rounding only.
"""

import argparse
import copy
import hashlib
import json
import random
import struct
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

import exact
from exact import Checker, Empty, Graph, Refused, Step
from reading import Unreadable

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))
from semantics import Grower, safetensors  # noqa: E402


class Floats(list):
    """Numbers that are written as a typed array, rounded as they will be read."""

    code = "f"

    def __init__(self, numbers=()):
        super().__init__(struct.unpack(self.code, struct.pack(self.code, x))[0] for x in numbers)


class Doubles(Floats):
    code = "d"


class Shorts(Floats):
    code = "H"


TAGS = {"f": 85, "d": 86, "H": 69}


def head(kind, number):
    for short, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if number < 24:
            return bytes([kind << 5 | number])
        if number < 1 << (8 * width):
            return bytes([kind << 5 | short]) + number.to_bytes(width, "big")
    raise ValueError(number)


def cbor(item):
    """The bytes of an item."""
    if item is None or isinstance(item, bool):
        return bytes([{False: 0xF4, True: 0xF5, None: 0xF6}[item]])
    if isinstance(item, int):
        return head(0, item) if item >= 0 else head(1, -1 - item)
    if isinstance(item, float):
        return b"\xfb" + struct.pack(">d", item)
    if isinstance(item, bytes):
        return head(2, len(item)) + item
    if isinstance(item, str):
        return head(3, len(item.encode())) + item.encode()
    if isinstance(item, Floats):
        raw = struct.pack(f"<{len(item)}{item.code}", *item)
        return head(6, TAGS[item.code]) + head(2, len(raw)) + raw
    if isinstance(item, list):
        return head(4, len(item)) + b"".join(map(cbor, item))
    return head(5, len(item)) + b"".join(cbor(key) + cbor(value) for key, value in item.items())


def single(x, up):
    """A float32 number at least (or at most) some fraction, with a little room."""
    x = float(x)
    x += (1 if up else -1) * 1e-7 * abs(x)
    y = struct.unpack("f", struct.pack("f", x))[0]
    step = 1 if (y > 0) == up else -1
    if y == 0:
        return (1e-30 if up else -1e-30) if x != 0 else 0.0
    bits = struct.unpack("i", struct.pack("f", y))[0] + step
    return struct.unpack("f", struct.pack("i", bits))[0]


def claimed(box):
    return [Floats(single(l, False) for l, _ in box), Floats(single(h, True) for _, h in box)]


class Writer(Checker):
    """Draws a proof at random; what it claims is what the exact checker works out, rounded outwards."""

    def __init__(self, description, tensors, rng):
        super().__init__(description, tensors)
        self.rng = rng

    def lines(self, values):
        item = {"policy": self.rng.randint(0, 2)}
        kinks = [i for i, value in enumerate(values) if value.kind == "leaky"]
        if kinks and self.rng.random() < 0.6:
            value = self.rng.choice(kinks)
            item["slopes"] = [[value, Floats(self.rng.uniform(-0.2, 1.2) for _ in range(values[value].count))]]
        return item

    def shares(self, count):
        numbers = [self.rng.random() ** 2 for _ in range(count)]
        return Floats(x / sum(numbers) * self.rng.choice([1, 1, 1, 0.9]) for x in numbers)

    def way(self, value):
        way = {"lines": self.lines(self.values)} if self.rng.random() < 0.8 else {}
        odes = []
        for index, graph in self.graphs.items():
            item = {"ode": index, "form": self.rng.randint(0, graph.form), "lines": self.lines(graph.ode.dynamics), "shares": []}
            for vertex, first in zip(graph.vertices, graph.first_edges):
                for number, (_, target) in enumerate(vertex["out"], first):
                    if target >= 0 and len(graph.vertices[target]["out"]) > 1:
                        item["shares"].append([number, self.shares(len(graph.vertices[target]["out"]))])
            if len(graph.vertices[0]["out"]) > 1:
                item["start"] = self.shares(len(graph.vertices[0]["out"]))
            odes.append(item)
        way["odes"] = odes
        usable = [i for i, c in enumerate(self.constraints) if c[0] != "start" or c[1][0] in self.graphs]
        if usable and self.rng.random() < 0.7:
            way["multipliers"] = [[self.rng.choice(usable), self.rng.choice([0.0, 0.1, 0.5, self.rng.random()])]]
        if self.rng.random() < 0.2 and value > 1:
            way["stops"] = [self.rng.randint(1, value)]
        elif self.cuts and self.rng.random() < 0.7:
            way["cuts"] = [[self.rng.randrange(len(self.cuts)), self.rng.random()]]
        return way

    def graph(self, index):
        ode = self.values[index]
        solver, form = ode.solver, self.rng.randint(0, 1)
        known = None
        for kind, place, entry, at, sign in self.constraints:
            if kind == "start" and place[0] == index:
                known = known or [[(None, None)] * inner.count for inner in ode.dynamics]
                known[place[1]] = self.cut_box(known[place[1]], entry, at, sign)
        # Boxes wait at their places until all that lead there are known; without carried values claims are wider.
        waiting, vertices, end = {solver.start(): self.boxes[ode.arguments[0]]}, [], None
        order = lambda place: (solver.time(place), -solver.size(place), place[5])
        while waiting:
            place = min(waiting, key=order)
            state = claimed(waiting.pop(place))
            box = exact.box_of(state, len(state[0]))
            follow = [solver.after(place, action) for action in (1, 2)]
            followers = [Fraction(solver.time(p)) for p in follow if p] if form == 1 and solver.carries else []
            step = Step(ode, form, box, place, solver.looks(place), followers, known if not vertices else None)
            error = None
            if step.error is not None:
                error = [float(step.error[0]) * (1 - 1e-9), float(step.error[1]) * (1 + 1e-9)]
            out = []
            for action in solver.actions(place, error):
                target, travels = solver.after(place, action), box if action == 0 else step.result
                out.append([action, target])
                if target is None:
                    end = travels if end is None else exact.hull(end, travels)
                else:
                    waiting[target] = exact.hull(waiting[target], travels) if target in waiting else travels
            vertices.append({"at": list(place), "state": state, "error": error, "out": out})
            if len(vertices) > 14:
                raise Refused("a graph that is too large")
        number = {tuple(vertex["at"]): i for i, vertex in enumerate(vertices)}
        for vertex in vertices:
            vertex["out"] = [[action, -1 if target is None else number[target]] for action, target in vertex["out"]]
        item = {"ode": index, "form": form, "vertices": vertices, "end": claimed(end)}
        self.graphs[index] = Graph(item, ode, self.boxes[ode.arguments[0]], known)
        return item

    def box_claim(self, index):
        count = self.values[index].count
        ways = [self.way(index) for _ in range(self.rng.randint(1, 2))]
        claim = {"value": index, "ways": ways}
        for side, sign in (("lower", 1), ("upper", -1)):
            bounds, by = Floats(), Shorts()
            for entry in range(count):
                if self.rng.random() < 0.3:
                    bounds.append(0.0)
                    by.append(65535)
                    continue
                by.append(self.rng.randrange(len(ways)))
                of = [Fraction(sign * (i == entry)) for i in range(count)]
                bounds.append(single(sign * self.pull(index, of, Fraction(0), ways[by[-1]]), sign < 0))
            claim[side], claim[side + "_by"] = bounds, by
        return claim

    def draw(self, above, graphs, constraints, cuts, shown, depth):
        """A node, and whether it holds."""
        self.constraints, self.cuts, self.graphs = constraints, list(cuts), dict(graphs)
        item, shown = {"boxes": [], "graphs": [], "cuts": [], "rows": []}, list(shown)
        try:
            self.draw_work(item, above, shown, depth > 0 and self.rng.random() < 0.6)
        except Empty:
            return {key: value for key, value in item.items() if value}
        if not exact.follows(self.condition, shown):
            item["split"] = self.draw_split(constraints, shown, depth)
        return {key: value for key, value in item.items() if value}

    def draw_work(self, item, above, shown, silent=False):
        self.boxes = [self.cut_by_splits(index, box) for index, box in enumerate(above)]
        if self.constraints and self.rng.random() < 0.6:
            number = len(self.constraints) - 1
            kind, place = self.constraints[number][:2]
            if kind == "neuron" or (kind == "start" and place[0] in self.graphs):
                way = {"lines": self.lines(self.values), "odes": self.way(0)["odes"]}
                start, of, constant = self.constraint_row(self.constraints[number], Fraction(1))
                row, constant = self.back(start, of, constant, way)
                self.cuts.append((row.get(0) or [Fraction(0)] * len(self.inputs), constant))
                item["cuts"].append({"constraint": number, "way": way})
        self.boxes = []
        for index, value in enumerate(self.values):
            box = self.inputs if index == 0 else None
            if value.kind == "ode" and (above[index] is None or self.rng.random() < 0.6):
                item["graphs"].append(self.graph(index))
                box = self.graphs[index].end
            elif value.kind != "ode" and index > 0:
                box = exact.image(self.values, index, self.boxes, (Fraction(0), Fraction(0)))
            if above[index] is not None:
                box = above[index] if box is None else exact.meet(box, above[index])
            self.boxes.append(self.cut_by_splits(index, box))
            if index > 0 and self.rng.random() < 0.25:
                item["boxes"].append(self.box_claim(index))
                self.boxes[index] = self.claim(item["boxes"][-1], index, self.boxes[index])
        for number, row in [] if silent else enumerate(self.rows):
            way = self.way(self.output)
            bound = float(self.pull(self.output, row["a"], row["c"][0], way))
            bound = bound - abs(bound) * 1e-9 if self.rng.random() < 0.97 else bound + 1e-5
            if bound > 0:
                item["rows"].append({"row": number, "way": way, "bound": bound})
                shown[number] = True

    def draw_split(self, constraints, shown, depth):
        kind = self.rng.choice(["input", "neuron", "start"])
        if kind == "start":
            ode = self.rng.choice([i for i, value in enumerate(self.values) if value.kind == "ode"])
            values = self.values[ode].dynamics
            value = self.rng.randrange(1, len(values))
            split, place, count = {"ode": ode, "value": value}, (ode, value), values[value].count
            boxes = self.graphs[ode].steps[0].values[0][value] if ode in self.graphs else None
        else:
            place = 0 if kind == "input" else self.rng.randrange(1, len(self.values))
            split, count, boxes = {"input" if kind == "input" else "value": place}, self.values[place].count, self.boxes[place]
        entry = self.rng.randrange(count)
        middle = float(sum(boxes[entry]) / 2) if boxes else 0.0
        at = self.rng.choice([0.0, middle])
        split |= {"kind": kind, "at": at, "entry": entry, "parts": []}
        known, cuts = (self.boxes, self.graphs), self.cuts
        for sign in (1, -1):
            deeper = constraints + [(kind, place, entry, Fraction(at), sign)]
            part = {} if depth == 0 else self.draw(*known, deeper, cuts, shown, depth - 1)
            split["parts"].append(part)
        return split


def small(seed):
    """A random network of few neurons with kinks, products and maxima."""
    while True:
        grower = Grower(seed)
        grower.activation = lambda: grower.random.choice([{"type": "relu"}, {"type": "relu"}, {"type": "absolute"}, {"type": "leaky_relu", "slope": 0.25}])
        activation = grower.activation
        grower.norm = lambda channels: {"type": "parallel", "join": grower.random.choice(["product", "max"]),
                                        "branches": grower.random.choice([[[activation()], []], [[], [activation()], [activation()]]])}
        description, tensors, (height, width, count) = grower.model()
        if height * width == 1 and sum(len(numbers) for _, numbers in tensors.values()) <= 120:
            return description, tensors, count, grower.random
        seed += 1_000_003


def certificate(data, count, rng):
    """A random certificate (a map); its claims may be false."""
    writer = Writer(*exact.tensors_of(data), rng)
    centre = [rng.uniform(-1, 1) for _ in range(count)]
    radius = 10 ** rng.uniform(-2.5, -0.3)
    region = {"boxes": [[Floats(single(x - radius, False) for x in centre), Floats(single(x + radius, True) for x in centre)]]}
    if rng.random() < 0.3:
        region["ball"] = {"norm": rng.choice([1, 2]), "centre": Doubles(centre), "scales": Doubles(radius for _ in centre)}
    writer.inputs = exact.box_of(region["boxes"][0], count)
    writer.ball = exact.Ball(region["ball"], count) if "ball" in region else None
    outputs = writer.values[writer.output].count
    rows = [Doubles(rng.gauss(0, 1) for _ in range(outputs)) for _ in range(rng.randint(1, 3))]
    # What a first, blind proof shows decides where the limits are set.
    writer.rows = [{"a": [Fraction(a) for a in row], "c": [Fraction(0)] * 2} for row in rows]
    blank = ([None] * len(writer.values), {}, [], [], [False] * len(rows))
    writer.constraints, writer.cuts, writer.graphs = [], [], {}
    writer.draw_work({"boxes": [], "graphs": [], "cuts": [], "rows": []}, blank[0], list(blank[4]))
    written = []
    for row, item in zip(rows, writer.rows):
        spread = sum((abs(a) for a in row), 1e-3) * radius
        limit = float(exact.least(item["a"], writer.boxes[writer.output])) - spread * rng.choice([1, 0.3, 0.05, -0.02, -0.2])
        written.append({"a": row, "c": [-limit, -limit], "zero": False})
        item["c"] = [Fraction(-limit)] * 2
    numbers = list(range(len(rows)))
    writer.condition = rng.choice([{"all": numbers}, {"any": numbers}, {"least": (len(rows) + 1) // 2, "of": numbers}, 0])
    proof = writer.draw(*blank, rng.randint(0, 3))
    return {"format": "gains-certificate", "version": 1, "model": hashlib.sha256(data).digest(), "arithmetic": "real",
            "region": region, "property": {"rows": written, "condition": writer.condition}, "claim": "verified", "proof": proof}


def mutate(item, rng):
    """Changes one thing somewhere."""
    places = []

    def walk(item):
        if isinstance(item, dict):
            for key, value in item.items():
                places.append((item, key))
                walk(value)
        elif isinstance(item, list):
            for i, value in enumerate(item):
                places.append((item, i))
                if not isinstance(item, Floats):
                    walk(value)

    walk({"proof": item["proof"], "region": item["region"], "property": item["property"]})
    holder, key = rng.choice(places)
    old = holder[key]
    if isinstance(old, bool) or old is None:
        return
    if isinstance(old, float):
        holder[key] = struct.unpack("f", struct.pack("f", rng.choice([old * 1.01, old * 0.99, old + 1e-3, old - 1e-3, -old, old * (1 + 3e-7), 0.0])))[0]
    elif isinstance(old, int):
        holder[key] = max(0 if isinstance(holder, Shorts) else -1, old + rng.choice([-1, 1 if old < 65535 else -2]))
    elif isinstance(old, (list, dict)) and not isinstance(holder, dict):
        holder.pop(key)
    elif isinstance(old, list) and old and not isinstance(old, Floats):
        rng.choice([old.pop, old.reverse])()


def exactly(data, raw):
    """What the exact checker says."""
    try:
        Checker(*exact.tensors_of(data)).check(exact.cbor(raw), hashlib.sha256(data).digest())
        return "holds", ""
    except Refused as fault:
        return "refused", str(fault)
    except Exception as fault:  # whatever else happens: not a certificate
        return "unreadable", f"{type(fault).__name__}: {fault}"


def written_by(gains, folder, description, tensors, count, rng):
    """Proofs that a program writes of a network, and its model file."""
    description["task"] = {"type": "classification", "classes": ["a", "b", "c"]}
    data, folder = safetensors(description, tensors), Path(folder)
    (folder / "m.safetensors").write_bytes(data)
    (folder / "p.jsonl").write_text("".join(json.dumps({"x": [rng.uniform(-1, 1) for _ in range(count)]}) + "\n" for _ in range(3)))
    proofs = folder / "proofs"
    for old in proofs.glob("*"):
        old.unlink()
    command = [gains, "certify", "-q", "--model", folder / "m.safetensors", "--inputs", folder / "p.jsonl", "--eps", "0.01,0.05,0.2",
               "--method", rng.choice(["box", "gains", "tight", "auto"]), "--certificates", proofs, "--out", folder / "r.jsonl", "--timeout", "5"]
    (folder / "r.jsonl").unlink(missing_ok=True)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr.strip()[:300], file=sys.stderr)
    raws = [exact.unpack(path.read_bytes()) for path in sorted(proofs.glob("*"))]
    return [raw for raw in raws if "proof" in exact.cbor(raw)], data


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checker")
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--mutants", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="folder for certificates on which the checkers differ")
    parser.add_argument("--write", help="folder for all of them, with the verdicts of the exact checker")
    parser.add_argument("--gains", help="this program writes the proofs, instead of chance")
    parser.add_argument("--flips", type=int, default=0, help="random bits that are flipped in each proof that holds")
    options = parser.parse_args()
    tally, faults = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.models):
            description, tensors, count, rng = small(seed)
            data = safetensors(description, tensors)
            model = Path(folder) / "m.safetensors"
            model.write_bytes(data)
            paths = []
            if options.gains:
                raws, data = written_by(options.gains, folder, description, tensors, count, rng)
                model.write_bytes(data)
            else:
                try:
                    item = certificate(data, count, rng)
                except (Refused, Empty, Unreadable, OverflowError):
                    continue
                items = [item] + [copy.deepcopy(item) for _ in range(options.mutants)]
                for mutant in items[1:]:
                    for _ in range(rng.randint(1, 2)):
                        mutate(mutant, rng)
                raws = [cbor(item) for item in items]
            if not raws:
                continue
            for _ in range(options.flips):
                flipped = bytearray(raws[0])
                flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
                raws.append(bytes(flipped))
            for i, raw in enumerate(raws):
                paths.append(Path(folder) / f"{i}.cert")
                paths[-1].write_bytes(raw)
            done = subprocess.run([options.checker, "--json", model, *paths], capture_output=True, text=True)
            if len(done.stdout.splitlines()) != len(paths):
                faults.append(f"seed {seed}: {done.stderr.strip()[:300]}")
                continue
            for i, (path, line) in enumerate(zip(paths, done.stdout.splitlines())):
                theirs = json.loads(line)
                if not options.gains and i > options.mutants and theirs["outcome"] != "holds":
                    continue  # of flipped bits only what is accepted counts
                ours, why = exactly(data, path.read_bytes())
                if options.write:
                    Path(options.write).mkdir(exist_ok=True)
                    (Path(options.write) / f"{seed}.safetensors").write_bytes(data)
                    (Path(options.write) / f"{seed}-{i}-{ours}.cert").write_bytes(path.read_bytes())
                pair = (theirs["outcome"], ours)
                tally[pair] = tally.get(pair, 0) + 1
                missed = theirs.get("amount")
                # What is unreadable to the stricter one only is no disagreement about what holds.
                near = theirs["outcome"] == "unreadable" or (missed is not None and abs(missed) < 1e-10)
                if (ours == "holds") != (theirs["outcome"] == "holds") and not (ours == "holds" and near):
                    faults.append(f"seed {seed}, {'the proof' if i == 0 else f'change {i}'}: gains-check {theirs['outcome']}: {theirs['detail']}; exact {ours}: {why}")
                    if options.keep:
                        Path(options.keep).mkdir(exist_ok=True)
                        (Path(options.keep) / f"{seed}-{i}.cert").write_bytes(path.read_bytes())
                        (Path(options.keep) / f"{seed}.safetensors").write_bytes(data)
    for pair, number in sorted(tally.items()):
        print(f"gains-check {pair[0]}, exact {pair[1]}: {number}")
    print(f"{len(faults)} disagreements")
    for fault in faults[:10]:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
