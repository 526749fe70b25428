"""Writes the records that the bundled forecasting network was trained on: two made-up ponds' worth of numbers.

    python scripts/tutorial/synthetic_series.py > pond.csv
    gains data prepare csv pond.csv --out pond.series
    gains train --config scripts/tutorial/pond.toml --out pond

A pond's water level follows its inflow, its temperature the time of day; each is read off at irregular times with a
little noise. Nothing here was measured.
"""

import csv
import math
import random
import sys

RECORDS = 240
HOURS = 48


def record(number, source):
    """The readings of one pond as (time, feature, value)."""
    depth, phase = source.uniform(1, 4), source.uniform(0, 24)
    rain, warmth = source.uniform(0.2, 1.5), source.uniform(8, 18)
    yield "", "depth", depth
    level = depth
    for hour in range(HOURS + 1):
        inflow = rain * (1 + 0.6 * math.sin(2 * math.pi * (hour - phase) / 36))
        level += 0.05 * (inflow - 0.3 * level)
        temperature = warmth + 5 / depth * math.sin(2 * math.pi * (hour - 9) / 24)
        for name, value, noise in [("level", level, 0.03), ("inflow", inflow, 0.05), ("temperature", temperature, 0.2)]:
            if source.random() < 0.15 or hour == HOURS:
                yield hour, name, value + source.gauss(0, noise)


def main():
    source = random.Random(7)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["record", "time", "feature", "value"])
    for number in range(RECORDS):
        for time, feature, value in record(number, source):
            table.writerow([number, time, feature, f"{value:.4f}"])


if __name__ == "__main__":
    main()
