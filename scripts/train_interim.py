#!/usr/bin/env python3
"""Trains a certifiable Fashion-MNIST neural ODE classifier in PyTorch, as an interim network for the verifier.

usage: train_interim.py DATA_DIR OUT_DIR [--epochs N] [--seed S] [--name NAME] ...      (needs torch, numpy, safetensors)

DATA_DIR holds the four Fashion-MNIST files *-ubyte.gz. OUT_DIR receives NAME.safetensors (float32 weights) and NAME.json
(step size h0, normalisation, recipe, measured accuracies). A CUDA device is used when there is one.

Recipe. Boxes of radius eps are pushed through the network along the step sequence that the controlled solver takes when the
error estimate is small, h0 = 7/32: steps 7/32, 14/32, 11/32 (the last one clipped to T = 1). No sum of halvings or doublings of
7/32 meets T exactly, so the clipping test never ties. Each step bounds the *differences* of consecutive Runge-Kutta stages, which
keeps the bounds of the error estimate tight. The loss is
    (1 - w r) CE(clean) + w r CE(worst case) + width term + penalty on the upper bound of the error estimate,   r = eps / eps_t,
where the penalty keeps the solver on that step sequence for every point of the box. eps follows the Smooth schedule.

Evaluation runs in float64 without outward rounding: its "certified" numbers are estimates of what a sound verifier will prove.
They use intervals only: a certifier with linear bounds on top proves more."""
import argparse
import gzip
import json
import math
import struct
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

# Dormand-Prince with the error weights of the Shampine variant (as torchdiffeq).
A = [[], [1/5], [3/40, 9/40], [44/45, -56/15, 32/9], [19372/6561, -25360/2187, 64448/6561, -212/729],
     [9017/3168, -355/33, 46732/5247, 49/176, -5103/18656], [35/384, 0, 500/1113, 125/192, -2187/6784, 11/84]]
C = [0, 1/5, 3/10, 4/5, 8/9, 1, 1]
B = A[6] + [0]
E = [35/384 - 1951/21600, 0, 500/1113 - 22642/50085, 125/192 - 451/720, -2187/6784 + 12231/42400, 11/84 - 649/6300, -1/60]
TOLERANCE, INCREASE_BELOW, H_MIN = 0.005, 2.0**-5, 0.02

H0 = 7/32
STEPS = [(0, 7/32), (7/32, 14/32), (21/32, 11/32)]       # (t, h) when the first step doubles and no step is rejected
# The penalty starts at these bounds of the error ratio: half the thresholds that decide. Steps two and three are clipped
# to T whether they double or not, so only a rejection would change them.
DELTA_TARGETS = [INCREASE_BELOW / 2, 0.5, 0.5]

# Normalisation constants are float32 numbers, promoted when the network runs in float64.
MEAN, STD = float(np.float32(0.2860)), float(np.float32(0.3530))
CHANNELS, SIDE, CLASSES = 32, 4, 10
STATE = CHANNELS * SIDE * SIDE

SHAPES = {"encoder.conv1": (32, 1, 5, 5), "encoder.conv2": (32, 32, 5, 5), "ode.conv1": (32, 33, 3, 3),
          "ode.conv2": (32, 33, 3, 3), "classifier.linear": (10, 32)}


def new_weights(device):
    """PyTorch's default initialisation of every layer, as a flat dictionary."""
    weights = {}
    for name, shape in SHAPES.items():
        layer = torch.nn.Linear(*shape[::-1]) if len(shape) == 2 else torch.nn.Conv2d(shape[1], shape[0], shape[2])
        for part in ("weight", "bias"):
            weights[f"{name}.{part}"] = getattr(layer, part).detach().to(device).requires_grad_()
    return weights


# ---- Boxes are pairs (lower, upper) of tensors of shape [batch, ...] --------------------------------------------------------

def combine(coefficients, boxes, start=None):
    """start + sum of coefficient * box, terms taken as independent."""
    low, high = start if start is not None else (None, None)
    for c, (l, u) in zip(coefficients, boxes):
        if c == 0:
            continue
        if c < 0:
            l, u = u, l
        low = l * c if low is None else torch.add(low, l, alpha=c)
        high = u * c if high is None else torch.add(high, u, alpha=c)
    return low, high


def meet(x, y):
    """The intersection. Rounding can make it empty when both are nearly points; such a crossing would grow with every |W|."""
    low = torch.maximum(x[0], y[0])
    return low, torch.maximum(torch.minimum(x[1], y[1]), low)


def plus(x, y): return x[0] + y[0], x[1] + y[1]
def relu(x): return torch.relu(x[0]), torch.relu(x[1])
def join(xs): return torch.stack([x[0] for x in xs]).amin(0), torch.stack([x[1] for x in xs]).amax(0)
def centre_radius(x): return (x[0] + x[1]) * 0.5, (x[1] - x[0]) * 0.5
def tails(x): return [sum(x[m:]) for m in range(len(x))]


def relu_difference(before, after, d):
    """Encloses relu(after) - relu(before) where after - before lies in d: relu is monotone and 1-Lipschitz."""
    both_on, both_off = (before[0] >= 0) & (after[0] >= 0), (before[1] <= 0) & (after[1] <= 0)
    low = torch.where(both_on, d[0], d[0].clamp(max=0)).masked_fill(both_off, 0)
    high = torch.where(both_on, d[1], d[1].clamp(min=0)).masked_fill(both_off, 0)
    rb, ra = relu(before), relu(after)
    return meet((low, high), (ra[0] - rb[1], ra[1] - rb[0]))


class Network:
    """A view of the weights ready to run: the two convolutions of the dynamics written out as 512x512 matrices.
    g(t, z) = relu(relu(z W1 + b1 + t u1) W2 + b2 + t u2), with u the (zero padded) convolution of the time plane."""

    def __init__(self, weights):
        self.w = weights
        self.layers = []
        for name in ("ode.conv1", "ode.conv2"):
            kernel, bias = weights[name + ".weight"], weights[name + ".bias"]
            one = torch.ones((), dtype=kernel.dtype, device=kernel.device)
            eye = torch.diag(one.expand(STATE)).view(STATE, CHANNELS, SIDE, SIDE)
            matrix = F.conv2d(eye, kernel[:, 1:], padding=1).view(STATE, STATE)
            time_shift = F.conv2d(one.expand(1, 1, SIDE, SIDE), kernel[:, :1], padding=1).view(-1)
            self.layers.append((matrix, matrix.abs(), bias.repeat_interleave(SIDE * SIDE), time_shift))

    # Points

    def encode(self, images):
        x = (images - MEAN) / STD
        x = torch.relu(F.conv2d(x, self.w["encoder.conv1.weight"], self.w["encoder.conv1.bias"], 2))
        return torch.relu(F.conv2d(x, self.w["encoder.conv2.weight"], self.w["encoder.conv2.bias"], 2)).flatten(1)

    def dynamics(self, t, z):
        for matrix, _, bias, shift in self.layers:
            z = torch.relu(z @ matrix + bias + t * shift)
        return z

    def point_step(self, z, t, h):
        """One step; t and h are numbers or [batch, 1] columns. Returns y1 and delta [batch]."""
        ks = []
        for i in range(7):
            y = z + h * sum(a * k for a, k in zip(A[i], ks) if a != 0) if i else z
            ks.append(self.dynamics(t + C[i] * h, y))
        error = h * sum(e * k for e, k in zip(E, ks))
        return y, error.abs().sum(1) / TOLERANCE               # stage 7 is evaluated at y1 (FSAL tableau)

    def classify(self, z):
        pooled = z.view(-1, CHANNELS, SIDE * SIDE).mean(2)
        return pooled @ self.w["classifier.linear.weight"].T + self.w["classifier.linear.bias"]

    # Boxes

    def encode_box(self, images, eps):
        x = centre_radius(((((images - eps).clamp(min=0)) - MEAN) / STD, ((images + eps).clamp(max=1) - MEAN) / STD))
        for name in ("encoder.conv1", "encoder.conv2"):
            weight = self.w[name + ".weight"]
            c, r = F.conv2d(x[0], weight, self.w[name + ".bias"], 2), F.conv2d(x[1], weight.abs(), None, 2)
            box = relu((c - r, c + r))
            x = centre_radius(box)
        return box[0].flatten(1), box[1].flatten(1)

    def affine(self, layer, box, t, bias=True):
        matrix, magnitude, offset, shift = self.layers[layer]
        c, r = centre_radius(box)
        constant = t * shift + offset if bias else t * shift
        c, r = torch.addmm(constant, c, matrix), r @ magnitude
        return c - r, c + r

    def box_step(self, x, t, h):
        """One solver step from the box x in difference form. Returns the box of y1 and bounds of delta, each [batch].

        With r_i = k_i - k_{i-1}, stage inputs, y1 and the error are sums of k_1 and the r_i; every quantity is bounded both by the
        ordinary sum of stages and by this one, and intersected. The error weights sum to zero, so k_1 drops out of the error."""
        p = self.affine(0, x, t)
        a = relu(p)
        q = self.affine(1, a, t)
        k = relu(q)
        ks, rs = [k], []
        for i in range(1, 7):
            da = [(A[i][j] if j < len(A[i]) else 0) - (A[i-1][j] if j < len(A[i-1]) else 0) for j in range(i)]
            dt, ti = (C[i] - C[i-1]) * h, t + C[i] * h
            ds = meet(combine([h * v for v in da], ks), combine([h * v for v in tails(da)], ks[:1] + rs))
            dp = self.affine(0, ds, dt, bias=False)
            stage = combine([h * v for v in A[i]], ks, x)
            p_new = meet(self.affine(0, stage, ti), plus(p, dp))
            rho = relu_difference(p, p_new, dp)
            a = meet(relu(p_new), plus(a, rho))
            dq = self.affine(1, rho, dt, bias=False)
            q_new = meet(self.affine(1, a, ti), plus(q, dq))
            r = relu_difference(q, q_new, dq)
            k = meet(relu(q_new), plus(k, r))
            rs.append(r)
            ks.append(k)
            p, q = p_new, q_new
        error = meet(combine([h * v for v in tails(E)[1:]], rs), combine([h * v for v in E], ks))
        y = meet(combine([h * v for v in tails(B)], ks[:1] + rs, x), combine([h * v for v in B], ks, x))
        # An interval containing zero has smallest magnitude zero.
        smallest = torch.maximum(error[0], -error[1]).clamp(min=0)
        largest = torch.maximum(error[1], -error[0])
        return y, smallest.sum(1) / TOLERANCE, largest.sum(1) / TOLERANCE

    def worst_case(self, box, labels):
        """Upper bounds of logit_j - logit_label and the widths of these differences, the last layer merged: both [batch, 10]."""
        c, r = centre_radius((box[0].view(-1, CHANNELS, SIDE * SIDE).mean(2), box[1].view(-1, CHANNELS, SIDE * SIDE).mean(2)))
        weight, bias = self.w["classifier.linear.weight"], self.w["classifier.linear.bias"]
        rows = weight.unsqueeze(0) - weight[labels].unsqueeze(1)
        radius = (rows.abs() @ r.unsqueeze(2)).squeeze(2)
        centre = (rows @ c.unsqueeze(2)).squeeze(2) + bias - bias[labels].unsqueeze(1)
        return centre + radius, 2 * radius


# ---- Training ---------------------------------------------------------------------------------------------------------------

def smooth(progress, start, length, target):
    """The Smooth schedule: a fourth power until 60 % of the length, continued by its tangent up to the target."""
    e = (progress - start) / length
    mid = 0.6
    scale = target / ((1 - mid) * 4 * mid**3 + mid**4)
    if e <= 0:
        return 0.0
    if e >= 1:
        return target
    return scale * e**4 if e < mid else scale * (mid**4 + 4 * mid**3 * (e - mid))


def batch_loss(weights, images, labels, eps, ratio, options):
    """The training loss and [clean hits, robust hits, first-step doublings certain, no rejection possible, width]."""
    net = Network(weights)
    z, box, penalty = net.encode(images), net.encode_box(images, eps), 0
    uppers = []
    for (t, h), target in zip(STEPS, DELTA_TARGETS):
        z, _ = net.point_step(z, t, h)
        box, _, upper = net.box_step(box, t, h)
        uppers.append(upper)
        penalty = penalty + torch.relu(torch.log(upper / target + 1e-6)).mean()
    logits = net.classify(z)
    worst, widths = net.worst_case(box, labels)
    loss = ((1 - options.robust_weight * ratio) * F.cross_entropy(logits, labels)
            + options.robust_weight * ratio * F.cross_entropy(worst, labels)
            + options.width_weight * widths.square().mean() + options.delta_weight * penalty)
    others = worst.detach().scatter(1, labels.unsqueeze(1), -math.inf)
    figures = torch.stack([(logits.argmax(1) == labels).float().mean(), (others.amax(1) < 0).float().mean(),
                           (uppers[0] <= INCREASE_BELOW).float().mean(),
                           ((uppers[1] <= 1) & (uppers[2] <= 1)).float().mean(), widths.detach().mean()])
    return loss, figures


def train(weights, images, labels, options):
    device, count = images.device, len(images)
    batches = options.limit_batches or count // options.batch
    total = options.epochs * batches
    on_gpu = device.type == "cuda"
    eps, ratio, rate = (torch.zeros((), device=device) for _ in range(3))
    rate.fill_(options.rate)
    parameters = list(weights.values())
    optimiser = torch.optim.Adam(parameters, lr=rate if on_gpu else options.rate, weight_decay=options.weight_decay, capturable=on_gpu)
    chosen = torch.zeros(options.batch, dtype=torch.long, device=device)
    figures = torch.zeros(6, device=device)

    def iteration():
        loss, extra = batch_loss(weights, images[chosen], labels[chosen], eps, ratio, options)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, options.clip)
        optimiser.step()
        figures.add_(torch.cat([loss.detach().view(1), extra]))

    graph, done, began = None, 0, time.time()
    for epoch in range(options.epochs):
        order = torch.randperm(count, device=device)
        figures.zero_()
        for batch in range(batches):
            progress = done / total
            e = smooth(progress, options.warmup, options.ramp, options.eps)
            eps.fill_(e)
            ratio.fill_(e / options.eps)
            # Constant until the schedule has reached its target, then a half cosine down to a hundredth.
            tail = max(0.0, (progress - options.warmup - options.ramp) / (1 - options.warmup - options.ramp))
            lr = options.rate * (0.01 + 0.99 * (1 + math.cos(math.pi * tail)) / 2)
            rate.fill_(lr)
            if not on_gpu:
                optimiser.param_groups[0]["lr"] = lr
            chosen.copy_(order[batch * options.batch:(batch + 1) * options.batch])
            # Launching thousands of small kernels costs more than running them: record one iteration, replay it.
            if on_gpu and done == 3:
                optimiser.zero_grad(set_to_none=True)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    iteration()
            if graph:
                graph.replay()
            elif on_gpu:
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    optimiser.zero_grad(set_to_none=True)
                    iteration()
                torch.cuda.current_stream().wait_stream(side)
            else:
                optimiser.zero_grad(set_to_none=True)
                iteration()
            done += 1
        loss, clean, robust, doubles, kept, width = (figures / batches).tolist()
        print(f"epoch {epoch + 1:3d}  eps {e:.4f}  loss {loss:7.4f}  clean {100 * clean:5.1f} %  box {100 * robust:5.1f} %  "
              f"step 1 doubles {100 * doubles:5.1f} %  no rejection {100 * kept:5.1f} %  width {width:.3g}  {time.time() - began:6.1f} s", flush=True)
        if not math.isfinite(loss):
            raise SystemExit("error: the loss is not finite")
    return time.time() - began


# ---- Evaluation in float64 ---------------------------------------------------------------------------------------------------

@torch.no_grad()
def controlled_solve(net, z):
    """The controlled adaptive solver on [0, 1], every sample with its own steps. Returns z(1) and the actions of each sample
    (2 doubled, 1 kept, 0 rejected). The first step below H_MIN, or the second rejection after clipping, is kept with its
    step size, and no error is checked any more."""
    n, actions = len(z), [[] for _ in range(len(z))]
    t, h = z.new_zeros(n), z.new_full((n,), H0)
    after_clip, unchecked = torch.zeros(n, dtype=torch.long, device=z.device), torch.zeros(n, dtype=torch.bool, device=z.device)
    while True:
        live = t < 1 - 1e-8
        if not live.any():
            return z, actions
        y, delta = net.point_step(z, t.unsqueeze(1), h.unsqueeze(1))
        doubled = (delta <= INCREASE_BELOW) & ~unchecked
        accepted = (delta <= 1) | unchecked
        after_clip = torch.where(~accepted & (after_clip > 0), after_clip + 1, after_clip)
        failed = ~accepted & (((h / 2 < H_MIN) & (after_clip == 0)) | (after_clip > 2))
        next_h = torch.where(doubled, 2 * h, torch.where(accepted | failed, h, h / 2))
        unchecked |= failed
        moves = live & accepted
        z, t = torch.where(moves.unsqueeze(1), y, z), torch.where(moves, t + h, t)
        clipped = t + next_h > 1
        h = torch.where(clipped, 1 - t, next_h)
        after_clip = torch.where(clipped & (after_clip == 0), 1, after_clip)
        for i in live.nonzero().flatten().tolist():
            actions[i].append(2 if doubled[i] else int(accepted[i]))


@torch.no_grad()
def trajectory_graph(net, box, h0, limit=400):
    """Every trajectory the controller may take from some point of the box (one sample). Vertices (t/h0, -h/h0, progress,
    -fraction, unchecked), the third and fourth after clipping, in units of the time then left. Returns vertices, edges, box at T
    (None when the limit was hit)."""
    ratio, root = 1 / h0, (0.0, -1.0, 0.0, 0.0, False)
    pending, seen, edges, final = {root: [box]}, {root}, 0, []
    while pending:
        if len(seen) >= limit:
            return len(seen), edges, None
        key = min(pending)
        x = join(pending.pop(key))
        t = key[0] * h0 * (1 - key[2]) + key[2]
        h = -key[1] * h0 - key[3] * (1 - key[0] * h0)
        y, low, high = net.box_step(x, t, h)
        low, high = low.item(), high.item()
        if not math.isfinite(high):
            return len(seen), edges, None

        def accepted(factor):
            t1, d, tc, dc, clip = key[0] - key[1], key[1] * factor, key[2] - key[3], key[3] * factor, False
            if d <= t1 - ratio:
                d, tc, dc, clip = 0.0, 0.0, -1.0, True
            if dc <= tc - 1:
                dc, clip = tc - 1, True
            return ((t1, d, tc, dc, key[4]), clip) if t1 * h0 * (1 - tc) + 1e-8 < 1 - tc else (None, True)

        out, clip = [], False
        if key[4]:
            out.append((accepted(1)[0], y))
        else:
            if low <= 1 and high > INCREASE_BELOW:
                successor, clip = accepted(1)
                out.append((successor, y))
            if low <= INCREASE_BELOW and not clip:
                out.append((accepted(2)[0], y))
            if high > 1:
                d, dc, unchecked = key[1] / 2, key[3] / 2, False
                if dc == 0 and d > -ratio * H_MIN:
                    d, unchecked = key[1], True
                if d == 0 and dc > -0.5:
                    dc, unchecked = -0.5, True
                out.append(((key[0], d, key[2], dc, unchecked), x))
        for successor, b in out:
            edges += 1
            seen.add(successor)
            if successor is None:
                final.append(b)
            else:
                pending.setdefault(successor, []).append(b)
    return len(seen), edges, join(final)


@torch.no_grad()
def evaluate(weights, images, labels, options):
    net = Network({k: v.detach().double() for k, v in weights.items()})
    images, result = images.double(), {}                   # pixels stay the float32 quotients k/255, promoted

    n = options.standard
    started = net.encode(images[:n])
    z, actions = controlled_solve(net, started)
    result["standard_accuracy"] = {"samples": n, "percent": 100 * (net.classify(z).argmax(1) == labels[:n]).double().mean().item()}
    counts = {}
    for a in actions:
        key = "".join(map(str, a))
        counts[key] = counts.get(key, 0) + 1
    result["concrete_actions"] = dict(sorted(counts.items(), key=lambda x: -x[1])[:8])
    # What the ODE contributes: accuracy of the same head without it, and images on which the dynamics vanish.
    result["accuracy_without_ode_percent"] = 100 * (net.classify(started).argmax(1) == labels[:n]).double().mean().item()
    result["state_unchanged_percent"] = 100 * (z == started).all(1).double().mean().item()

    n, result["certified_intervals"] = options.certify, []
    for eps in options.certify_eps:
        certified, sizes, began = 0, [], time.time()
        for i in range(n):
            vertices, _, box = trajectory_graph(net, net.encode_box(images[i:i+1], eps), H0)
            sizes.append(vertices)
            if box is not None:
                worst, _ = net.worst_case(box, labels[i:i+1])
                worst[0, labels[i]] = -math.inf
                certified += int(worst.max() < 0)
        row = {"eps": eps, "samples": n, "percent": 100 * certified / max(n, 1),
               "mean_vertices": sum(sizes) / max(n, 1), "largest_graph": max(sizes, default=0)}
        result["certified_intervals"].append(row)
        print(f"certified by graphs: {row}  {time.time() - began:.1f} s", flush=True)

    # The whole test set, counting only images whose box provably stays on the trained step sequence.
    certified, n = 0, options.single_trajectory
    for i in range(0, n, 1000):
        y = labels[i:min(i + 1000, n)]
        box, sure = net.encode_box(images[i:i+len(y)], options.certify_eps[0]), torch.ones_like(y, dtype=torch.bool)
        for (t, h), threshold in zip(STEPS, (INCREASE_BELOW, 1, 1)):
            box, _, upper = net.box_step(box, t, h)
            sure &= upper <= threshold
        worst = net.worst_case(box, y)[0].scatter(1, y.unsqueeze(1), -math.inf)
        certified += (sure & (worst.amax(1) < 0)).sum().item()
    result["certified_on_one_trajectory"] = {"eps": options.certify_eps[0], "samples": n, "percent": 100 * certified / max(n, 1)}
    return result


# ---- Files -------------------------------------------------------------------------------------------------------------------

def read_split(folder, prefix, device):
    def raw(kind, dimensions):
        data = gzip.decompress((Path(folder) / f"{prefix}-{kind}-idx{dimensions}-ubyte.gz").read_bytes())
        shape = struct.unpack(f">{dimensions}I", data[4:4 + 4 * dimensions])
        return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape).copy()).to(device)
    return raw("images", 3).unsqueeze(1).float() / 255, raw("labels", 1).long()


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("data_dir", type=Path, help="folder with the four Fashion-MNIST *-ubyte.gz files")
    p.add_argument("out_dir", type=Path, help="folder for NAME.safetensors and NAME.json")
    p.add_argument("--epochs", type=int, default=66)
    p.add_argument("--seed", type=int, default=12345)
    p.add_argument("--name", default=None, help="default: interim_eps<EPS>_seed<SEED>")
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--rate", type=float, default=1e-3, help="Adam's learning rate")
    p.add_argument("--weight-decay", type=float, default=1e-4)
    p.add_argument("--clip", type=float, default=10.0, help="gradient norm")
    p.add_argument("--eps", type=float, default=0.11, help="radius eps_t trained for, before normalisation")
    p.add_argument("--warmup", type=float, default=0.03, help="part of the training spent with eps = 0")
    p.add_argument("--ramp", type=float, default=0.6, help="part of the training spent raising eps")
    p.add_argument("--robust-weight", type=float, default=0.66)
    p.add_argument("--width-weight", type=float, default=2e-4, help="on the mean squared width of logit differences")
    p.add_argument("--delta-weight", type=float, default=0.003, help="on the log of the error ratio above its target")
    p.add_argument("--standard", type=int, default=1000, help="test images for the standard accuracy")
    p.add_argument("--certify", type=int, default=100, help="test images certified through their trajectory graph")
    p.add_argument("--certify-eps", type=float, nargs="+", default=[0.1])
    p.add_argument("--single-trajectory", type=int, default=10000, help="test images for the batched one-trajectory figure")
    p.add_argument("--limit-batches", type=int, default=0, help="batches per epoch, for a quick trial; 0: all")
    p.add_argument("--evaluate", type=Path, default=None, help="do not train: measure these weights (.safetensors)")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return p.parse_args()


def main():
    options = arguments()
    torch.manual_seed(options.seed)
    # TensorFloat-32 keeps ten bits: too few for bounds that intersect two ways of computing the same number.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    device = torch.device(options.device)
    test = read_split(options.data_dir, "t10k", device)
    if options.evaluate:
        weights = {k: v.to(device) for k, v in load_file(options.evaluate).items()}
        print(json.dumps(evaluate(weights, *test, options), indent=1))
        return
    weights = new_weights(device)
    seconds = train(weights, *read_split(options.data_dir, "train", device), options)
    measured = evaluate(weights, *test, options)

    name = options.name or f"interim_eps{options.eps:g}_seed{options.seed}"
    options.out_dir.mkdir(parents=True, exist_ok=True)
    save_file({k: v.detach().float().cpu().contiguous() for k, v in weights.items()}, options.out_dir / f"{name}.safetensors")
    recipe = {k: getattr(options, k) for k in ("batch", "rate", "weight_decay", "clip", "warmup", "ramp", "robust_weight",
                                               "width_weight", "delta_weight")}
    sidecar = {"dataset": "fashion-mnist", "h0": H0, "epoch": options.epochs, "norm_mean": 0.286, "norm_std": 0.353, "name": name,
               "tensors": {k: {"shape": list(v.shape), "dtype": "torch.float32"} for k, v in weights.items()},
               "training": {"recipe": "boxes in difference form along the steps 7/32, 14/32, 11/32 (scripts/train_interim.py)",
                            "optimiser": "Adam", **recipe, "epochs": options.epochs, "eps_t": options.eps, "seed": options.seed,
                            "seconds": round(seconds, 1), "measured": measured}}
    (options.out_dir / f"{name}.json").write_text(json.dumps(sidecar, indent=1) + "\n")
    print(json.dumps(measured, indent=1))
    print(f"wrote {options.out_dir / name}.safetensors and .json")


if __name__ == "__main__":
    main()
