#!/usr/bin/env python3
"""How long training runs took, from their metrics.csv: whole run, seconds an epoch and milliseconds a batch by phase and κ.

usage: run_speed.py RUN...          (run folders of `gains train`; times of runs that shared a device are not comparable)
"""
import csv
import itertools
import pathlib
import statistics
import sys
import tomllib

IMAGES = {"mnist": 60000, "fashion-mnist": 60000, "cifar10": 50000}

print("| run | phase, κ | epochs | s per epoch, median | ms per batch | splits | box steps | point steps |\n|---|---|---|---|---|---|---|---|")
for run in map(pathlib.Path, sys.argv[1:]):
    config = tomllib.loads((run / "config.toml").read_text())
    images = min(config.get("images", 10**9), IMAGES[config["dataset"]])
    batches = -(-images // config["batch"])
    rows = list(csv.DictReader((run / "metrics.csv").open()))
    mean = lambda group, key: statistics.fmean(float(r[key]) for r in group)
    for (phase, kappa), group in itertools.groupby(rows, key=lambda r: (r["phase"], r["kappa"])):
        group = list(group)
        seconds = statistics.median(float(r["seconds"]) for r in group)
        print(f"| {run.name} | {phase}, {kappa} | {len(group)} | {seconds:.2f} | {1000 * seconds / batches:.1f} | {mean(group, 'splits'):.1f} | "
              f"{mean(group, 'abstract_steps'):.1f} | {mean(group, 'concrete_steps'):.1f} |")
    total = sum(float(r["seconds"]) for r in rows)
    print(f"| {run.name} | all | {len(rows)} | | | | | total {total / 60:.1f} min |")
