#!/usr/bin/env python3
"""Provable training of the latent ODE of `gains train --preset physionet-24h-provable-0.1` in PyTorch: the same work, for
its time. The same records, batches of 128, networks, boxes, losses and optimiser, with the perturbation at its target.

The encoder walks through a batch by observation, each sample with its own steps; samples that have no more observations
drop out. Points, centres and radii are *lanes* of one tensor (lane, sample, entry), so that one batched product applies
W, W and |W| to them, and all observations pass their part of the gates' first layers in one product before the walk. The
decoder solves points with the controlled dopri5, then boxes along a trajectory drawn from what their errors allow.

Where it departs from `gains`: points and boxes walk through the encoder together, sums are not split into four parts,
the loss is computed in float32 and not in float64, and a batch's order is drawn by another generator."""
import argparse, json, math, os, random, statistics, struct, time
import torch
import torch.nn.functional as F
from prepared_series import Task

A = [[], [1/5], [3/40, 9/40], [44/45, -56/15, 32/9],
     [19372/6561, -25360/2187, 64448/6561, -212/729],
     [9017/3168, -355/33, 46732/5247, 49/176, -5103/18656],
     [35/384, 0.0, 500/1113, 125/192, -2187/6784, 11/84]]
E = [71/57600, 0.0, -71/16695, 71/1920, -17253/339200, 22/525, -1/40]
TOLERANCE, FACTOR, SMALLEST_STEP, REJECTIONS = 0.005, 2, 0.02, 1
STATE, GATES, LATENT = 40, 50, 20
REJECT, KEEP, INCREASE = range(3)

SHAPES = {"encoder.initial": [6, 80], "encoder.dynamics": [40, 40, 40, 40, 40], "encoder.update": [115, 50, 40],
          "encoder.reset": [115, 50, 40], "encoder.candidate": [115, 50, 80], "encoder.latent": [80, 100, 40],
          "decoder.dynamics": [20, 40, 40, 40, 20], "decoder.output": [20, 35]}


def fresh(seed):
    """Parameters as PyTorch starts linear layers."""
    generator, out = torch.Generator().manual_seed(seed), {}
    for part, sizes in SHAPES.items():
        for index, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
            draw = lambda *shape: (torch.rand(*shape, generator=generator) * 2 - 1) / math.sqrt(inputs)
            out[f"{part}.{index}.weight"], out[f"{part}.{index}.bias"] = draw(outputs, inputs), draw(outputs)
    return out


def load(path):
    """Parameters of a model file (safetensors), and the first step it was left with."""
    data = open(path, "rb").read()
    length, = struct.unpack_from("<Q", data)
    head = json.loads(data[8:8 + length])
    description = json.loads(head.pop("__metadata__")["gains"])
    out = {}
    for name, entry in head.items():
        kind = {"F32": torch.float32, "F64": torch.float64}[entry["dtype"]]
        start, end = entry["data_offsets"]
        values = torch.frombuffer(bytearray(data[8 + length + start:8 + length + end]), dtype=kind)
        out[name] = values.float().reshape(entry["shape"])
    first = next(layer for layer in description["layers"] if layer["type"] == "ode")["solver"]["controller"]
    return {name: out[name] for name in fresh(0)}, first["initial_step"]


# Lanes: 1 is points, 2 centres and radii (or lower and upper ends), 3 points and those.

def matrices(rows):
    small = torch.tensor(rows)
    return {"rows": rows, 2: small, 3: torch.block_diag(torch.eye(1), small)}

TO_ENDS, TO_BOXES, SWAPPED = matrices([[1., -1.], [1., 1.]]), matrices([[.5, .5], [-.5, .5]]), matrices([[0., 1.], [1., 0.]])


def across(matrix, x):
    """A small matrix applied to the lanes. Eagerly one product is faster than sums and a concatenation; a compiler fuses
    the latter."""
    lanes = x.shape[0]
    if lanes == 1:
        return x
    if not torch.compiler.is_compiling():
        return (matrix[lanes] @ x.reshape(lanes, -1)).view(x.shape)
    (a, b), (c, d) = matrix["rows"]
    low, high = x[-2:-1], x[-1:]
    return torch.cat([x[:-2], a * low + b * high, c * low + d * high])


def ends(x):
    return across(TO_ENDS, x)


def boxes(x):
    return across(TO_BOXES, x)


def swapped(x):
    """The other end of each interval."""
    return across(SWAPPED, x)


def hidden(x):
    return boxes(torch.relu(ends(x)))


class Layers:
    """A part of the network with the lanes' weights: (lane, input, output), and biases that radii do without."""

    def __init__(self, weights, biases):
        self.weights = [torch.stack([w.t(), w.t(), w.t().abs()]) for w in weights]
        self.biases = [torch.stack([b, b, torch.zeros_like(b)])[:, None] for b in biases]

    def lanes(self, count):
        """Only points, or only boxes."""
        part = slice(0, 1) if count == 1 else slice(1, 3)
        out = Layers([], [])
        out.weights, out.biases = [w[part] for w in self.weights], [b[part] for b in self.biases]
        return out

    def __call__(self, x):
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            if index:
                x = hidden(x)
            x = torch.baddbmm(bias, x, weight)
        return x


class Net:
    """The parameters made ready for one batch. The two gates share their products."""

    def __init__(self, parameters):
        def take(part):
            count = len(SHAPES[part]) - 1
            return [[parameters[f"{part}.{i}.{kind}"] for i in range(count)] for kind in ("weight", "bias")]
        (update, update_bias), (reset, reset_bias) = take("encoder.update"), take("encoder.reset")
        candidate, candidate_bias = take("encoder.candidate")
        first = [update[0], reset[0], candidate[0]]
        self.seen = Layers([torch.cat([w[:, 2 * STATE:] for w in first])],
                           [torch.cat([update_bias[0], reset_bias[0], candidate_bias[0]])])
        gates = Layers([torch.cat([w[:, :2 * STATE] for w in first[:2]]), torch.block_diag(update[1], reset[1])],
                       [torch.cat([update_bias[1], reset_bias[1]])])
        new = Layers([candidate[0][:, :2 * STATE], candidate[1]], [candidate_bias[1]])
        self.dynamics = Layers(*take("encoder.dynamics"))
        self.cell = (*self.dynamics.weights, *self.dynamics.biases, *gates.weights, *gates.biases, *new.weights, *new.biases)
        self.initial, self.latent = Layers(*take("encoder.initial")), Layers(*take("encoder.latent"))
        self.decoder, self.output = Layers(*take("decoder.dynamics")), Layers(*take("decoder.output"))


def cell(state, steps, seen_gates, seen_new, w0, w1, w2, w3, b0, b1, b2, b3, gates0, gates1, gates_bias, new0, new1, new_bias):
    """An Euler step and a gated update. States are points, centres and radii; gates and products live on ends."""
    mean, deviation = state[..., :STATE], state[..., STATE:]
    x = hidden(torch.baddbmm(b0, mean, w0))
    x = hidden(torch.baddbmm(b1, x, w1))
    x = hidden(torch.baddbmm(b2, x, w2))
    moved = torch.cat([torch.addcmul(mean, steps, torch.baddbmm(b3, x, w3)), deviation], -1)
    x = hidden(torch.baddbmm(seen_gates, moved, gates0))
    gates = torch.sigmoid(ends(torch.baddbmm(gates_bias, x, gates1)))
    other, moved_ends = swapped(gates), ends(moved)
    halves = (*moved.shape[:2], 2, STATE)
    old = moved_ends.view(halves)
    # The reset gate is not negative: the sign of an end of the state says which end of the gate it takes.
    reset, other_reset = gates[:, :, None, STATE:], other[:, :, None, STATE:]
    shown = boxes((old * torch.where(old < 0, other_reset, reset)).view(moved.shape))
    x = hidden(torch.baddbmm(seen_new, shown, new0))
    new = ends(torch.baddbmm(new_bias, x, new1))
    spread = new[..., STATE:]
    spread = torch.relu(torch.maximum(spread, -swapped(spread)))    # the ends of |x|
    new = torch.cat([new[..., :STATE], spread], -1).view(halves)
    # (1 - u) g + u y grows with g and y and is a line in u, whose better end depends on which of g, y is larger.
    update, other_update = gates[:, :, None, :STATE], other[:, :, None, :STATE]
    after = torch.lerp(new, old, torch.where(old < new, other_update, update))
    return boxes(after.view(moved.shape))


class Region:
    """The boxes of a perturbation: all observations and some statics, some features within [0, 1]."""

    def __init__(self, task, eps):
        self.eps = eps
        self.bounded = torch.tensor([name in ("FiO2", "SaO2") for name in task.names])
        self.statics = torch.tensor([eps if name in ("Age", "Height") else 0.0 for name in task.static_names])

    def features(self, values, mask):
        low, high = values - self.eps * mask, values + self.eps * mask
        low = torch.where(self.bounded, torch.minimum(low.clamp(min=0), values), low)
        high = torch.where(self.bounded, torch.maximum(high.clamp(max=1), values), high)
        return torch.stack([values, (low + high) / 2, (high - low) / 2])


class Batch:
    """Samples sorted by length, longest first; their stops laid out stop by stop."""

    def __init__(self, samples, members):
        lengths, order = samples.lengths[members].sort(descending=True, stable=True)
        self.members = members = members[order]
        stops = torch.arange(int(lengths[0]))[:, None]
        rows = (samples.offsets[members] + stops)[stops < lengths]
        self.active = (stops < lengths).sum(1).tolist()
        self.values, self.mask, self.steps = samples.values[rows], samples.mask[rows], samples.steps[rows]
        self.statics, self.end_times = samples.statics[members], samples.end_times[members][:, None]
        self.target, self.target_mask = samples.target[members], samples.target_mask[members]


def encode(net, batch, region, walk, values=None, statics=None):
    """Latent means and deviations, as points, centres and radii; the deviation before its absolute value."""
    values = region.features(batch.values, batch.mask) if values is None else values
    statics = batch.statics if statics is None else statics
    seen = net.seen(values)
    gates, new = seen.split([2 * GATES, GATES], -1)
    gates, new = gates.split(batch.active, 1), new.split(batch.active, 1)
    steps = torch.stack([batch.steps, batch.steps, batch.steps.abs()])[..., None].split(batch.active, 1)
    start = torch.stack([statics, statics, region.statics.expand_as(statics)])
    state, done, open_rows = hidden(net.initial(start)), [], len(statics)
    for stop, active in enumerate(batch.active):
        if active < open_rows:
            done.append(state[:, active:])
            state, open_rows = state[:, :active], active
        state = walk(state, steps[stop], gates[stop], new[stop], *net.cell)
    return net.latent(torch.cat([state, *reversed(done)], 1))


class Timeline:
    """Where the controlled solver can be: gains-ode/src/timeline.rs. A place is (ticks, step, progress, fraction,
    rejections, settled)."""

    def __init__(self, first, end):
        self.first, self.end, self.ticks, self.whole = min(first, end), end, 1, FACTOR ** REJECTIONS
        while self.first / (self.ticks * FACTOR) >= SMALLEST_STEP:
            self.ticks *= FACTOR
        self.start = (0, self.ticks, 0, 0, 0, False)

    def time_and_step(self, place):
        ticks, step, progress, fraction = place[:4]
        time = ticks / self.ticks * self.first
        if step:
            return time, step / self.ticks * self.first
        done = progress / self.whole
        return time * (1 - done) + self.end * done, fraction / self.whole * (self.end - time)

    def follow(self, place, action):
        """The next place; None at the end."""
        ticks, step, progress, fraction, rejections, settled = place
        if action == REJECT and not settled:
            if step:
                return (ticks, step // FACTOR, 0, 0, 0, False) if step >= FACTOR else (*place[:5], True)
            if rejections < REJECTIONS:
                return (ticks, 0, progress, fraction // FACTOR, rejections + 1, False)
            return (*place[:5], True)
        growth = FACTOR if action == INCREASE and not settled else 1
        if step:
            ticks, step = ticks + step, step * growth
            if (ticks + step) / self.ticks >= self.end / self.first:
                step, progress, fraction = 0, 0, self.whole
        else:
            progress += fraction
            fraction = min(fraction * growth, self.whole - progress)
        place = (ticks, step, progress, fraction, rejections, settled)
        arrived = self.time_and_step(place)[0] + 1e-8 * min(self.end, 1.0) >= self.end
        return None if arrived else place


def lane_weights(row, lanes):
    row = torch.tensor(row)
    return torch.stack([row, row.abs()])[:lanes, None]

WEIGHTS = {lanes: [lane_weights(row, lanes) for row in [*A[1:], E]] for lanes in (1, 2)}


def weighted(slopes, weights):
    lanes = weights.shape[0]
    return torch.bmm(weights, torch.stack(slopes, 1).view(lanes, len(slopes), -1)).view(slopes[0].shape)


def attempt(dynamics, z, scale, measured):
    """A dopri5 step, its stages independent; the sums over samples
    of the ends of |e|, and the largest of a sample, unless all is accepted anyway."""
    lanes = z.shape[0]
    slopes, y = [dynamics(z)], z
    for weights in WEIGHTS[lanes][:6]:
        y = torch.addcmul(z, scale, weighted(slopes, weights))
        if len(slopes) < 6:
            slopes.append(dynamics(y))
    if not measured:
        return y, None
    with torch.no_grad():
        error = weighted([*slopes, dynamics(y)], WEIGHTS[lanes][6]) * scale
        size, radius = error[0].abs(), error[1] if lanes == 2 else torch.zeros(())
        upper = (size + radius).sum(-1)
        return y, torch.stack([torch.relu(size - radius).sum(), upper.sum(), upper.max()]).tolist()


def first_step(dynamics, z, end_times):
    with torch.no_grad():
        slope = dynamics(z) * end_times
        size, change = z.abs().sum().item(), slope.abs().sum().item()
        smallest = 1e-5 * z.shape[1] * TOLERANCE
        proposal = 1e-5 if min(size, change) < smallest else 0.01 * size / change
        error = attempt(dynamics, z, end_times * proposal, True)[1][2] / TOLERANCE
    growth = 10.0 if error == 0 else min(max(0.9 * error ** -0.25, 1.0 if error < 1 else 0.2), 10.0)
    return min(proposal * growth, 1.0)


def solve(dynamics, z, end_times, first, end=1.0):
    """One state size, one step size and one decision for the whole batch. Where errors of boxes allow several actions one
    is drawn: late in training all are equally likely. Gives the state at the end and counts of trial steps and splits."""
    line, trials, splits = Timeline(first, end), 0, 0
    place = line.start
    while place is not None:
        _, step = line.time_and_step(place)
        trial, sums = attempt(dynamics, z, end_times * step, not place[5])
        trials += 1
        action = KEEP
        if sums:
            low, high = (value / (z.shape[1] * TOLERANCE) for value in sums[:2])
            if not high < math.inf:
                raise SystemExit("the error of a step is no number")
            grow = FACTOR ** -5
            possible = [a for a, can in ((REJECT, high > 1), (KEEP, low <= 1 and high > grow), (INCREASE, low <= grow)) if can]
            same = line.follow(place, KEEP) == line.follow(place, INCREASE)
            possible = sorted({KEEP if same and a == INCREASE else a for a in possible})
            splits += len(possible) > 1
            action = random.choice(possible)
        z = z if action == REJECT else trial
        place = line.follow(place, action)
    return z, trials, splits


def loss(output, latent, batch, divergence, elbo=0.1, error_weight=3000.0):
    """-elbo (LL - k KL) + error MAE of points (1 lane) or of the worst in boxes (2 lanes), and the width."""
    centre, radius = output[0], output[1] if len(output) == 2 else torch.zeros(())
    mask, count, entries = batch.target_mask, len(batch.target), batch.target_mask.sum()
    side = torch.where(centre >= batch.target, 1.0, -1.0)
    error = torch.where(mask, centre + side * radius - batch.target, 0.0)
    likelihood = -((error * error).sum(1) / (2 * 0.01 ** 2) / mask.sum(1) + math.log(0.01) + math.log(2 * math.pi) / 2)
    mean, deviation = latent[0].split(LATENT, -1)
    if len(latent) == 2:
        reach, spread = latent[1].split(LATENT, -1)
        mean = mean + torch.where(mean >= 0, reach, -reach)
        high, low = deviation.abs() + spread + 1e-7, (deviation.abs() - spread).clamp(min=1e-8) + 1e-7
        sigma = torch.where(low * low - 2 * low.log() > high * high - 2 * high.log(), low, high)
    else:
        sigma = deviation.abs() + 1e-7
    apart = -sigma.log() + (sigma * sigma + mean * mean) / 2 - 0.5
    elbo_part = (likelihood.sum() - divergence * apart.mean(1).sum()) / count
    width = torch.where(mask, 2 * radius, 0.0).sum() / entries
    mae = error.abs().sum() / entries
    return -elbo * elbo_part + error_weight * mae, mae.detach(), width


def train(parameters, optimiser, samples, members, region, walk, robust=0.66, width_weight=0.01, divergence=1 - 0.99 ** 110):
    """One batch; what was done."""
    batch, net = Batch(samples, members), Net(parameters)
    latent = encode(net, batch, region, walk)
    point, box = latent[:1], latent[1:]
    mean, deviation = point.split(LATENT, -1)
    start = mean + deviation.abs() * torch.randn_like(mean)
    decoder = net.decoder.lanes(1)
    first = first_step(decoder, start, batch.end_times)
    end, concrete, _ = solve(decoder, start, batch.end_times, first)
    clean, mae, _ = loss(net.output.lanes(1)(end), point, batch, divergence)
    end, abstract, splits = solve(net.decoder.lanes(2), box[..., :LATENT], batch.end_times, first)
    worst, worst_mae, width = loss(net.output.lanes(2)(end), box, batch, divergence)
    total = (1 - robust) * clean + robust * worst + width_weight * width
    optimiser.zero_grad()
    total.backward()
    norm = torch.nn.utils.clip_grad_norm_(list(parameters.values()), 1000.0)
    optimiser.step()
    return {"samples": len(members), "stops": len(batch.active), "observations": sum(batch.active), "concrete steps": concrete,
            "abstract steps": abstract, "splits": splits, "loss": total.item(), "mae": mae.item(), "worst mae": worst_mae.item(),
            "width": width.item(), "gradient norm": norm.item()}


def check(parameters, first, task, path):
    """Compares predictions with those of `gains predict --json`, and tries to break boxes with sampled series."""
    region, net = Region(task, 0.1), Net(parameters)
    with open(path) as file:
        lines = [json.loads(line) for line in file if line.startswith("{")]
    batch = Batch(task.test, torch.tensor([line["index"] for line in lines]))
    decoder, output, apart = net.decoder.lanes(1), net.output.lanes(1), 0.0
    with torch.no_grad():
        latent = encode(net, batch, region, cell)
        by_index = {line["index"]: torch.tensor(line["output"]) for line in lines}
        for row, member in enumerate(batch.members.tolist()):
            time = batch.end_times[row].item()
            end, _, _ = solve(decoder, latent[:1, row:row + 1, :LATENT], torch.ones(1, 1), min(first, time), time)
            apart = max(apart, (output(end)[0, 0] - by_index[member]).abs().max().item())
        print(f"{len(lines)} predictions: at most {apart:.2e} from those of gains")
        # A few fixed steps for all, so that boxes and samples do the same.
        def forward(lanes, z):
            for _ in range(3):
                z, _ = attempt(net.decoder.lanes(lanes), z, batch.end_times / 3, False)
            return net.output.lanes(lanes)(z)
        centre, radius = forward(2, latent[1:, :, :LATENT])
        lanes, outside, nearest = region.features(batch.values, batch.mask), -math.inf, 0.0
        for trial in range(40):
            aim = torch.rand if trial % 2 else lambda *shape: torch.randint(0, 2, shape).float()
            values = lanes[1] + (2 * aim(*lanes[1].shape) - 1) * lanes[2]
            statics = batch.statics + (2 * aim(*batch.statics.shape) - 1) * region.statics
            still = Region(task, 0.0)
            found = encode(net, batch, still, cell, torch.stack([values, values, torch.zeros_like(values)]), statics)
            away = (forward(1, found[:1, :, :LATENT])[0] - centre).abs()
            outside, nearest = max(outside, (away - radius).max().item()), max(nearest, (away / radius).max().item())
        print(f"40 series sampled in each of {len(lines)} boxes: at most {nearest:.3f} of the radius from the centre, "
              f"{outside:.2e} outside")
    if apart > 1e-4 or outside > 1e-5:
        raise SystemExit("the check failed")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("series", help="prepared file of PhysioNet 2012")
    arguments.add_argument("--model", help="a model file of gains to begin with (solver steps depend on the weights)")
    arguments.add_argument("--threads", type=int, default=int(os.environ.get("THREADS", "1")), help="default $THREADS, else 1")
    arguments.add_argument("--batches", type=int, default=20, help="how many are timed; 0 for an epoch")
    arguments.add_argument("--warm", type=int, default=3, help="how many are not")
    arguments.add_argument("--eps", type=float, default=0.1)
    arguments.add_argument("--compile", action="store_true", help="compile the encoder's cell with torch.compile")
    arguments.add_argument("--check", metavar="FILE", help="instead compare with the lines of `gains predict --json` for --model")
    arguments.add_argument("--json", action="store_true", help="print the result as one line of JSON")
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(100)
    random.seed(100)
    parameters, first = load(options.model) if options.model else (fresh(100), None)
    task = Task(options.series, 24.0, ["test"] if options.check else ["train"])
    if options.check:
        return check(parameters, first, task, options.check)
    parameters = {name: value.requires_grad_() for name, value in parameters.items()}
    # PyTorch's one-kernel update, its fastest.
    optimiser = torch.optim.Adam(parameters.values(), lr=1e-3, weight_decay=1.0, fused=True)
    walk = torch.compile(cell, dynamic=True) if options.compile else cell
    region, size = Region(task, options.eps), 128
    batches = -(-len(task.train) // size)
    wanted = options.batches or batches
    seconds, done, used = [], [], []
    while len(done) < options.warm + wanted:
        for members in torch.randperm(len(task.train)).split(size)[:options.warm + wanted - len(done)]:
            began = time.perf_counter(), time.process_time()
            done.append(train(parameters, optimiser, task.train, members, region, walk))
            if len(done) > options.warm and len(members) == size:
                seconds.append(time.perf_counter() - began[0])
                used.append(time.process_time() - began[1])
    done = done[options.warm:]
    means = {key: statistics.mean(batch[key] for batch in done) for key in done[0]}
    median, spread = statistics.median(seconds), (min(seconds), max(seconds))
    samples = len(task.train) / size
    result = {"torch": torch.__version__, "threads": torch.get_num_threads(), "compile": options.compile, "batches": batches,
              "ms_per_batch": 1e3 * median, "cpu_ms_per_batch": 1e3 * statistics.median(used), "seconds_per_epoch": median * samples, **{k.replace(" ", "_"): v for k, v in means.items()}}
    if options.json:
        print(json.dumps(result))
        return
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {'compiled cell' if options.compile else 'eager'}")
    print(f"{1e3 * median:.1f} ms per batch of {size} (median of {len(seconds)}, {1e3 * spread[0]:.1f} to {1e3 * spread[1]:.1f}; processor {1e3 * statistics.median(used):.1f}), "
          f"{median * samples:.2f} s per epoch of {batches} batches ({len(task.train)} series)")
    print("per batch, mean: " + ", ".join(f"{value:.6g} {key}" for key, value in means.items()))


if __name__ == "__main__":
    main()
