"""Reads a file made by `gains data prepare physionet2012` (docs/data-formats.md) into what a forecasting network sees.
Standard library and torch only; the rules are those of crates/gains-data/src/series."""
import bisect, math, struct
import torch

SPAN = 48.0
LEAD = 0.01     # the encoder's walk starts this long after the last observation
CLIPPED = {"GCS": (3, 15), "pH": (0, 14), "Temp": (32, 45), "Urine": (0, 2000), "WBC": (0, 60)}
DIVIDED = {"Gender": 1, "ICUType": 1, "FiO2": 1, "GCS": 1, "MechVent": 1, "SaO2": 100}
SERIES, STATIC, MEAN, SEEN = range(4)


def single(x):
    """Rounded to float32."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def read(path):
    """Names and roles of the features, the seed of the order (None if sorted), and records (statics, points); a point is
    (time, features, values)."""
    data = open(path, "rb").read()
    if data[:8] != b"gains-ts" or struct.unpack_from("<IQ", data, 8) != (1, len(data) - 36):
        raise SystemExit(f"{path} is no whole prepared file of version 1")
    kind, order, seed = struct.unpack_from("<BBQ", data, 36)
    if kind != 0:
        raise SystemExit(f"{path} does not hold PhysioNet 2012")
    at = 36 + 10 + 16 + 32

    def take(form):
        nonlocal at
        found = struct.unpack_from(form, data, at)
        at += struct.calcsize(form)
        return found

    def name():
        nonlocal at
        length, = take("<H")
        at += length
        return data[at - length:at].decode()

    def values():
        count, = take("<H")
        flat = take("<" + "Hf" * count)
        return flat[::2], flat[1::2]

    features = []
    for _ in range(take("<I")[0]):
        role, = take("<B")
        features.append((name(), role))
    records = []
    for _ in range(take("<IQQ")[0]):
        name()
        statics = values()
        records.append((statics, [(take("<d")[0], *values()) for _ in range(take("<I")[0])]))
    return features, seed if order else None, records


def arrange(count, seed):
    """Fisher and Yates from the last position down, with numbers from SplitMix64."""
    order, mask = list(range(count)), (1 << 64) - 1
    if seed is None:
        return order
    for last in range(count - 1, 0, -1):
        seed = z = (seed + 0x9E3779B97F4A7C15) & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        drawn = (z ^ z >> 31) * (last + 1) >> 64
        order[last], order[drawn] = order[drawn], order[last]
    return order


class Samples:
    """Series for a network. The stops of a series lie one after another in the order of the encoder's walk, backwards in
    time; `offsets` and `lengths` say where."""

    def __init__(self, task, kept):
        statics, lengths, times, steps, places, seen = [], [], [], [], [], []
        ends, goals, wanted = [], [], []
        for number, (record, prefix, target) in enumerate(kept):
            points = record[1]
            inputs = min(target, prefix)
            statics.append(task.initial(record, inputs))
            before, count = None, 0
            for time, features, values in reversed(points[:inputs]):
                entries = [(task.column[f], task.normalised(f, v)) for f, v in zip(features, values) if f in task.column]
                if not entries:
                    continue
                time = single(single(time) / SPAN)
                before = time + LEAD if before is None else before
                times.append(time)
                steps.append(time - before if abs(time - before) >= 1e-8 else 0.0)
                before = time if steps[-1] else before
                places += [(len(times) - 1) * task.width + column for column, _ in entries]
                seen += [value for _, value in entries]
                count += 1
            lengths.append(count)
            time, features, values = points[target]
            ends.append(single(single(time) / SPAN))
            for f, v in zip(features, values):
                if f in task.column:
                    goals.append(number * task.width + task.column[f])
                    wanted.append(task.normalised(f, v))

        def dense(rows, places, values):
            out, mask = torch.zeros(rows * task.width), torch.zeros(rows * task.width, dtype=torch.bool)
            places = torch.tensor(places)
            out[places], mask[places] = torch.tensor(values), True
            return out.view(rows, task.width), mask.view(rows, task.width)

        self.statics, self.lengths = torch.tensor(statics), torch.tensor(lengths)
        self.offsets = self.lengths.cumsum(0) - self.lengths
        self.times, self.steps = torch.tensor(times), torch.tensor(steps)
        self.values, self.mask = dense(len(times), places, seen)
        self.end_times = torch.tensor(ends)
        self.target, self.target_mask = dense(len(kept), goals, wanted)

    def __len__(self):
        return len(self.lengths)


class Task:
    """The records of a file divided and brought to the scale of the network; `train`, `validation`, `test` are samples."""

    def __init__(self, path, horizon, parts=("train", "validation", "test")):
        self.features, seed, records = read(path)
        series = [index for index, (_, role) in enumerate(self.features) if role == SERIES]
        self.column, self.width = {feature: column for column, feature in enumerate(series)}, len(series)
        self.names = [self.features[feature][0] for feature in series]
        self.static_names = [name for name, role in self.features if role != SERIES]
        self.limits = [CLIPPED.get(name, (-math.inf, math.inf)) for name, _ in self.features]
        kept = []
        for index in arrange(len(records), seed):
            points = records[index][1]
            latest = single(single(points[-1][0]) - horizon)
            prefix = bisect.bisect_right([single(time) for time, *_ in points[:-1]], latest)
            candidates = [len(points) - 1, *range(prefix - 1, 0, -1)] if prefix else []
            target = next((i for i in candidates if any(f in self.column for f in points[i][1])), None)
            if target is not None:
                kept.append((records[index], prefix, target))
        held_out = min(-(-len(kept) // 20), 400)
        test = len(kept) - held_out
        ranges = {"train": (0, test - held_out), "validation": (test - held_out, test), "test": (test, len(kept))}
        self.measure(kept[:test - held_out])
        for part in parts:
            start, end = ranges[part]
            setattr(self, part, Samples(self, kept[start:end]))

    def clip(self, feature, value):
        least, most = self.limits[feature]
        return min(max(value, least), most)

    def measure(self, kept):
        """Mean and deviation of each feature over all that the training part keeps."""
        found = [[] for _ in self.features]
        for (statics, points), prefix, _ in kept:
            for features, values in [statics, *(point[1:] for point in points[:prefix]), points[-1][1:]]:
                for feature, value in zip(features, values):
                    found[feature].append(self.clip(feature, value))
        self.mean, self.deviation = [], []
        for (name, _), values in zip(self.features, found):
            values = torch.tensor(values or [0.0], dtype=torch.float64)
            fixed = DIVIDED.get(name)
            self.mean.append(0.0 if fixed else values.mean().item())
            self.deviation.append(fixed or values.std(correction=0).item() or 1.0)

    def normalised(self, feature, value):
        return (self.clip(feature, value) - self.mean[feature]) / self.deviation[feature]

    def initial(self, record, inputs):
        """What is known of a record as a whole from its first points."""
        (names, known), points = record
        known = dict(zip(names, known))
        out = []
        for feature, (_, role) in enumerate(self.features):
            if role == STATIC:
                out.append(self.normalised(feature, known[feature]) if feature in known else 0.0)
            elif role != SERIES:
                seen = [v for _, fs, vs in points[:inputs] for f, v in zip(fs, vs) if f == feature]
                mean = sum(self.normalised(feature, value) for value in seen) / max(len(seen), 1)
                out.append(mean if role == MEAN else float(bool(seen)))
        return out
