#!/usr/bin/env python3
"""Merging linear bounds with HiGHS: a peer of `gains study lcap` that shares no code with it.

    pip install highspy numpy
    scripts/lcap_highs.py --dimensions 5,10,20,50,100 --instances 10

Draws bounds as in the paper's appendix, merges those of each side by LP(8, 50, 40), solved by HiGHS (dual simplex, rows
are added to the solved program, so that it goes on from its basis), and by the formula of CURLS, checks both over the
whole box, and prints the mean volume of the linear program over that of CURLS and the time of HiGHS alone for a side.
"""

import argparse
import math
import statistics
import time

import highspy
import numpy as np

SPREAD, PARTS = 3.0, 4


def largest_excess(a, b, low, high):
    """By how much row `a` exceeds row `b` somewhere in the box, and where."""
    d = a[:-1] - b[:-1]
    corner = np.where(d > 0, high, low)
    return d @ corner + a[-1] - b[-1], corner


def raised(row, quantity, low, high):
    row = row.copy()
    row[-1] += max(0.0, largest_excess(quantity, row, low, high)[0])
    return row if abs(row[-1]) <= 2 * SPREAD else None


def cosine(a, b):
    return a @ b / math.sqrt((a @ a) * (b @ b))


def above(quantity, low, high, random):
    """Similar upper bounds of a quantity over a box; None if none were found."""
    d = len(low)
    jitter = SPREAD * min(1.0, 5 / (d + 1) * math.ceil((d + 1) / 50))
    for _ in range(20):
        first, draws = None, 0
        while first is None and draws < 5000:
            first, draws = raised(random.uniform(-SPREAD, SPREAD, d + 1), quantity, low, high), draws + 1
        rows = []
        while first is not None and len(rows) < PARTS and draws < 20000:
            draws += 1
            row = raised(first + random.uniform(-jitter, jitter, d + 1), quantity, low, high)
            if row is not None and (not rows or np.mean([cosine(row, r) for r in rows]) >= 0.975):
                rows.append(row)
        if len(rows) == PARTS:
            if np.mean([cosine(rows[i], rows[k]) for i in range(PARTS) for k in range(i)]) <= 0.99:
                return rows
    return None


def draw(d, random):
    """A box, upper bounds of a quantity and of its opposite."""
    while True:
        ends = random.uniform(-1, 1, (2, d)) * 5 * min(1.0, 20 / (d + 1)) ** 2
        low, high = ends.min(0), ends.max(0)
        quantity = random.uniform(-SPREAD / 2, SPREAD / 2, d + 1)
        sides = [above(q, low, high, random) for q in (quantity, -quantity)]
        if all(sides):
            return low, high, sides


def by_highs(rows, low, high, random):
    """One row above all rows, as low as possible at the centre; seconds of HiGHS."""
    d = len(low)
    centre = np.append((low + high) / 2, 1.0)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("solver", "simplex")
    solver.setOptionValue("presolve", "off")
    solver.setOptionValue("threads", 1)
    for cost in centre:
        solver.addCol(float(cost), -100.0, 100.0, 0, np.array([], dtype=np.int32), np.array([]))
    index = np.arange(d + 1, dtype=np.int32)

    def add(corner):
        point = np.append(corner, 1.0)
        solver.addRow(max(row @ point for row in rows), highspy.kHighsInf, d + 1, index, point)

    for corner in {tuple(np.where(random.random(d) < 0.5, low, high)) for _ in range(8 * d)}:
        add(np.array(corner))
    seconds = 0.0

    def solve():
        nonlocal seconds
        started = time.process_time()
        solver.run()
        seconds += time.process_time() - started
        return np.array(solver.getSolution().col_value)

    merged = solve()
    for _ in range(50):
        found = [largest_excess(row, merged, low, high) for row in rows]
        if max(excess for excess, _ in found) <= 1e-3:
            break
        for excess, corner in found:
            if excess > 1e-4:
                add(corner)
                for _ in range(39):
                    add(np.where(random.random(d) < 0.75, corner, low + high - corner))
        merged = solve()
    merged[-1] += max(0.0, max(largest_excess(row, merged, low, high)[0] for row in rows))
    return merged, seconds


def by_curls(rows, low, high):
    """The same by chords, two rows at a time, largest first."""
    zero = np.zeros(len(low) + 1)
    rows = sorted(rows, key=lambda row: -largest_excess(row, zero, low, high)[0])
    merged = rows[0]
    for row in rows[1:]:
        top, bottom = largest_excess(merged, row, low, high)[0], -largest_excess(row, merged, low, high)[0]
        if bottom >= 0:
            continue
        if top <= 0:
            merged = row
            continue
        merged = (top * merged - bottom * row) / (top - bottom)
        merged[-1] -= top * bottom / (top - bottom)
    return merged


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimensions", default="5,10,20,30,50,75,100")
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print("dimension  instances  LP / CURLS  HiGHS ms, median")
    for d in map(int, args.dimensions.split(",")):
        ratios, times = [], []
        for instance in range(args.instances):
            random = np.random.default_rng([args.seed, d, instance])
            low, high, sides = draw(d, random)
            centre = np.append((low + high) / 2, 1.0)
            volumes = [0.0, 0.0]
            for rows in sides:
                program, seconds = by_highs(rows, low, high, random)
                times.append(1e3 * seconds)
                for place, merged in enumerate((program, by_curls(rows, low, high))):
                    worst = max(largest_excess(row, merged, low, high)[0] for row in rows)
                    assert worst <= 1e-9, f"a merged bound is below a part by {worst}"
                    volumes[place] += merged @ centre
            ratios.append(volumes[0] / volumes[1])
        print(f"{d:9}  {len(ratios):9}  {statistics.mean(ratios):10.3f}  {statistics.median(times):16.1f}", flush=True)


if __name__ == "__main__":
    main()
