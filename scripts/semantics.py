#!/usr/bin/env python3
"""Looks for inputs on which `gains` and `gains-check` disagree about what a solver does.

    cargo build --release -p gains; cargo build --release -p gains-check --example run
    scripts/semantics.py target/release/gains target/release/examples/run --models 200 --seed 1

Random networks and points; both programs run them on their own, and only what they print is compared: every step's
time, size, error and action, and the outputs. The checker's numbers are intervals, so each of the other program's
must lie inside (give or take the rounding of float64). A point is left out where the checker cannot tell what the
solver does, because its error estimate is within rounding of a threshold.
"""

import argparse
import json
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path


def safetensors(description, tensors):
    """The bytes of a model file."""
    header, data = {"__metadata__": {"gains": json.dumps(description)}}, b""
    for name, (shape, numbers) in tensors.items():
        raw = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


class Grower:
    """Grows random networks of all that certificates of version 1 know."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.tensors = {}

    def weights(self, name, shape, size):
        count = 1
        for side in shape:
            count *= side
        self.tensors[name] = (shape, [self.random.gauss(0, size) for _ in range(count)])

    def name(self):
        return f"layer{len(self.tensors)}"

    def linear(self, inputs, outputs, time=False):
        name = self.name()
        self.weights(f"{name}.weight", [outputs, inputs + time], 1.2 / max(1, inputs) ** 0.5)
        self.weights(f"{name}.bias", [outputs], 0.3)
        layer = {"type": "linear", "name": name, "in_features": inputs, "out_features": outputs}
        return layer | ({"time": True} if time else {})

    def conv(self, inputs, outputs, kernel, stride, padding, dilation=(1, 1), time=False):
        name = self.name()
        spread = 1.2 / (inputs * kernel[0] * kernel[1]) ** 0.5
        self.weights(f"{name}.weight", [outputs, inputs + time, *kernel], spread)
        self.weights(f"{name}.bias", [outputs], 0.3)
        layer = {"type": "conv2d", "name": name, "in_channels": inputs, "out_channels": outputs, "kernel": list(kernel),
                 "stride": list(stride), "padding": list(padding), "dilation": list(dilation)}
        return layer | ({"time": True} if time else {})

    def activation(self):
        kind = self.random.choice(["relu", "relu", "leaky_relu", "sigmoid", "tanh", "absolute"])
        return {"type": kind} | ({"slope": self.random.choice([0.1, 0.5])} if kind == "leaky_relu" else {})

    def norm(self, channels):
        name = self.name()
        self.weights(f"{name}.weight", [channels], 1.0)
        self.weights(f"{name}.bias", [channels], 0.3)
        self.weights(f"{name}.running_mean", [channels], 0.3)
        self.tensors[f"{name}.running_var"] = ([channels], [self.random.uniform(0.2, 2) for _ in range(channels)])
        return {"type": "batch_norm", "name": name, "channels": channels, "eps": 1e-3}

    def keeping(self, shape, time):
        """Layers that keep the shape."""
        height, width, channels = shape
        image = height * width > 1
        layers = []
        for _ in range(self.random.randint(1, 2)):
            if image:
                layers.append(self.conv(channels, channels, (3, 3), (1, 1), (1, 1), time=time and self.random.random() < 0.6))
            else:
                layers.append(self.linear(channels, channels, time=time and self.random.random() < 0.6))
            layers.append(self.activation())
        kind = self.random.random()
        if kind < 0.15:
            return [{"type": "parallel", "join": "add", "branches": [layers, []]}]
        if kind < 0.25 and channels > 1:
            cut = self.random.randint(1, channels - 1)
            parts = [{"type": "slice", "first": cut, "length": channels - cut}], [{"type": "slice", "first": 0, "length": cut}]
            return layers + [{"type": "parallel", "join": "concat", "branches": list(parts)}]
        if kind < 0.35:
            return layers + [self.norm(channels)]
        if kind < 0.45:
            return layers + [{"type": "pad", "before": 1}, {"type": "slice", "first": 0, "length": channels}]
        return layers

    def solver(self):
        end = self.random.choice([1.0, 1.0, 0.5, 2.0, self.random.uniform(0.2, 3)])
        if self.random.random() < 0.15:
            method = self.random.choice(["euler", "midpoint", "heun", "rk4", "rk38", "bosh3", "fehlberg2", "dopri5"])
            controller = {"type": "fixed", "steps": self.random.randint(1, 7)}
        else:
            method = self.random.choice(["heun", "bosh3", "fehlberg2", "dopri5", "dopri5"])
            first = self.random.choice([end, end / 2, end / 3, end * self.random.uniform(0.02, 1)])
            controller = {"type": "controlled_adaptive", "factor": self.random.choice([2, 2, 3, 4]),
                          "tolerance": 10 ** self.random.uniform(-5, -0.5), "initial_step": first,
                          "minimum_step": first * 10 ** self.random.uniform(-2, 0),
                          "rejections_after_clipping": self.random.randint(0, 3)}
        return {"method": method, "end_time": end, "controller": controller}

    def model(self):
        """A description, its tensors and the number of inputs."""
        image = self.random.random() < 0.4
        shape = (self.random.randint(2, 5), self.random.randint(2, 4), self.random.randint(1, 2)) if image else (1, 1, self.random.randint(1, 5))
        height, width, channels = shape
        layers = []
        if image:
            if self.random.random() < 0.5:
                layers.append({"type": "normalize", "mean": [0.3] * channels, "std": [0.7] * channels})
            kernel, stride, padding = (2, 2), (self.random.randint(1, 2), 1), (1, self.random.randint(0, 1))
            layers.append(self.conv(channels, 2, kernel, stride, padding))
            height = (height + 2 * padding[0] - 2) // stride[0] + 1
            width = (width + 2 * padding[1] - 2) // stride[1] + 1
            channels = 2
        else:
            outputs = self.random.randint(1, 5)
            layers += [self.linear(channels, outputs), self.activation()]
            channels = outputs
        for _ in range(self.random.choice([1, 1, 1, 2])):
            layers.append({"type": "ode", "dynamics": self.keeping((height, width, channels), True), "solver": self.solver()})
        if image:
            layers.append(self.random.choice([{"type": "global_avg_pool"}, {"type": "avg_pool2d", "kernel": [1, 2], "stride": [1, 1], "padding": [0, 1]}]))
            if layers[-1]["type"] == "global_avg_pool":
                height = width = 1
            else:
                width += 1
            if self.random.random() < 0.3 and height * width > 1:
                layers.append({"type": "reshape", "to": {"height": width, "width": height, "channels": channels}})
            layers.append({"type": "flatten"})
        layers.append(self.linear(height * width * channels, 3))
        description = {"format": "gains-model", "version": 2, "name": "random", "dataset": "none",
                       "task": {"type": "regression"}, "layers": layers,
                       "input": {"height": shape[0], "width": shape[1], "channels": shape[2]}}
        return description, self.tensors, shape


def close(value, interval, slack):
    low, high = interval
    room = slack * max(1.0, abs(low), abs(high))
    return low - room <= value <= high + room


def compare(ours, theirs):
    """What two programs say of the same steps; None if they agree."""
    if len(ours) != len(theirs):
        return f"{len(ours)} steps against {len(theirs)}"
    for number, (a, b) in enumerate(zip(ours, theirs)):
        for key in ("time", "step"):
            if abs(a[key] - b[key]) > 1e-12:
                return f"step {number}: {key} {a[key]} against {b[key]}"
        if a["action"] != b["action"]:
            return f"step {number}: {a['action']} against {b['action']}"
        if a["error"] is not None and b["error"] is not None and not close(b["error"], a["error"], 1e-9):
            return f"step {number}: error {a['error']} against {b['error']}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gains")
    parser.add_argument("run")
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--points", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    agreed = unclear = refused = 0
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        path, points_path, json_path = (Path(folder) / name for name in ("m.safetensors", "points.jsonl", "t.json"))
        for seed in range(options.seed, options.seed + options.models):
            grower = Grower(seed)
            description, tensors, (height, width, channels) = grower.model()
            path.write_bytes(safetensors(description, tensors))
            count = height * width * channels
            points = [[struct.unpack("f", struct.pack("f", grower.random.uniform(-1, 1)))[0] for _ in range(count)] for _ in range(options.points)]
            lines = "".join(json.dumps({"x": point}) + "\n" for point in points)
            points_path.write_text(lines)
            own = subprocess.run([options.run, path], input="".join(json.dumps(p) + "\n" for p in points), capture_output=True, text=True)
            if own.returncode:
                faults.append(f"seed {seed}: the checker: {own.stderr.strip()}")
                continue
            command = [options.gains, "predict", "-q", "--json", "--model", path, "--inputs", points_path, "--layout", "nhwc"]
            other = subprocess.run(command, capture_output=True, text=True)
            outputs = [json.loads(line).get("output") for line in other.stdout.splitlines()]
            for number, line in enumerate(own.stdout.splitlines()):
                ours = json.loads(line)
                if "unclear" in ours:
                    unclear += 1
                    continue
                command = [options.gains, "trajectory", "-q", "--model", path, "--inputs", points_path, "--layout", "nhwc", "--sample", str(number),
                           "--eps", "0", "--method", "box", "--json", json_path]
                other = subprocess.run(command, capture_output=True, text=True)
                if other.returncode:
                    refused += 1
                    if refused < 5:
                        print(f"seed {seed}: {other.stderr.strip()[:300]}", file=sys.stderr)
                    continue
                theirs = json.loads(json_path.read_text())
                # Of networks with several ODEs the other program shows the first.
                fault = compare(ours["trajectory"][: len(theirs["trajectory"])], theirs["trajectory"])
                both = zip(outputs[number], ours["outputs"]) if number < len(outputs) else []
                if not fault and not (both and all(close(y, interval, 1e-9) for y, interval in both)):
                    fault = f"outputs {ours['outputs']} against {outputs[number:number + 1]}"
                if fault:
                    faults.append(f"seed {seed}, point {number}: {fault}")
                else:
                    agreed += 1
    print(f"{agreed} points agree, {unclear} unclear, {refused} not run by gains, {len(faults)} disagreements")
    for fault in faults[:20]:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
