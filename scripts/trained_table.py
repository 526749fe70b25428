#!/usr/bin/env python3
"""Accuracies of networks that `gains train` made, beside the paper's Table 1.

usage: trained_table.py GAINS RUNS DATA_DIR OUT_DIR [--samples 0..1000] [--threads N] [--methods gains,auto] [--timeout 10] [--eps 0.1,0.2]

RUNS is a folder of run folders (each with model.safetensors, config.toml, metrics.csv); unfinished runs are skipped with a
line that says so. Results go to OUT_DIR/*.jsonl and are resumed; the table is printed as Markdown. The attack (PGD-200,
0.0025 a step) runs with the method `gains`, or the first one without it, on what it could not verify: a verified sample needs none.
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import tomllib

from certified_table import PAPER

# Standard and adversarial training, and CIFAR-10: {(data set, method, eps_t): {"std": ..., eps: (adversarial, certified)}}.
OTHERS = {
    ("mnist", "standard", None): {"std": "98.8±0.4", "0.1": ("23.2±3.5", "0.0"), "0.15": ("2.5±1.6", "0.0"), "0.2": ("0.3±0.2", "0.0")},
    ("mnist", "adversarial", "0.11"): {"std": "99.2±0.1", "0.1": ("95.4±0.4", "0.0"), "0.15": ("88.3±0.6", "0.0"), "0.2": ("59.4±3.2", "0.0")},
    ("fashion-mnist", "standard", None): {"std": "88.6±1.2", "0.1": ("0.1±0.1", "0.0"), "0.15": ("0.0", "0.0")},
    ("fashion-mnist", "adversarial", "0.11"): {"std": "80.9±0.7", "0.1": ("70.2±0.5", "0.0"), "0.15": ("47.1±3.7", "0.0")},
    ("cifar10", "provable", "0.001"): {"std": "60.8", "0.001": ("57.6", "57.1")},
}
EPS = {"mnist": ["0.1", "0.15", "0.2"], "fashion-mnist": ["0.1", "0.15"], "cifar10": ["0.001"]}


def paper_row(data, method, target):
    """What the paper reports for a setting, as {"std": ..., eps: (adversarial, certified)}."""
    short = {"mnist": "mnist", "fashion-mnist": "fmnist"}.get(data)
    if method == "provable" and (short, target) in PAPER:
        return {eps: value if eps == "std" else value[:2] for eps, value in PAPER[short, target].items()}
    return OTHERS.get((data, method, target), {})


def percent(part, whole):
    return f"{100 * part / whole:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("gains", "runs", "data_dir", "out_dir"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--samples", default="0..1000")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--methods", default="gains,auto")
    parser.add_argument("--timeout", default="10")
    parser.add_argument("--eps", help="radii [default: the paper's for the data set]")
    args = parser.parse_args()
    args.gains = args.gains.resolve()
    args.out_dir.mkdir(parents=True, exist_ok=True)
    methods = args.methods.split(",")
    attacking = "gains" if "gains" in methods else methods[0]
    columns = "".join(f" `{m}`: certified / falsified / unknown |" for m in methods)
    print(f"| network | seed | ε | std. (paper) | attacked (paper) |{columns} paper certified | graph, median | splits, trajectories, box steps a batch (last epoch) |")
    print("|---|---|---|---|---|" + "---|" * len(methods) + "---|---|---|")
    for run in sorted(args.runs.iterdir()):
        model = run / "model.safetensors"
        if not run.is_dir():
            continue
        if not model.exists():
            print(f"<!-- {run.name}: not finished -->")
            continue
        config = tomllib.loads((run / "config.toml").read_text())
        data, method = config["dataset"], config["method"]
        target = config["phases"][-1].get("eps", {}).get("target")
        paper = paper_row(data, method, None if target is None or method == "standard" else f"{target:g}")
        last = list(csv.DictReader((run / "metrics.csv").open()))[-1]
        radii = args.eps.split(",") if args.eps else EPS[data]
        rows = {}
        for verifier in methods:
            out = args.out_dir / f"{run.name}_{verifier}.jsonl"
            command = [args.gains, "--quiet", "certify", "--model", model, "--data", data, "--data-dir", args.data_dir, "--samples", args.samples,
                       "--eps", ",".join(radii), "--method", verifier, "--threads", args.threads, "--out", out, "--resume",
                       "--attack-steps", "200" if verifier == attacking else "40"]
            if verifier == "auto":
                command += ["--timeout", args.timeout]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            rows[verifier] = [json.loads(line) for line in out.read_text().splitlines()]
        for eps in radii:
            mine = {m: [r for r in rows[m] if r["eps"] == float(eps)] for m in rows}
            some = mine[methods[0]]
            correct = [r for r in some if r["verdict"] != "misclassified"]
            attacked = [r for r in mine[attacking] if r["verdict"] in ("verified", "unknown")]
            verdicts = []
            for m in methods:
                count = lambda v: sum(r["verdict"] == v for r in mine[m])
                verdicts.append(f" **{percent(count('verified'), len(mine[m]))}** / {count('falsified')} / {count('unknown')} |")
            graphs = [r["vertices"] for r in mine[methods[-1]] if r.get("vertices")]
            graph = f"{statistics.median(graphs):.0f}" if graphs else "–"
            theirs = paper.get(eps, ("–", "–"))
            print(f"| {config['name']} | {config['seed']} | {eps} | {percent(len(correct), len(some))} ({paper.get('std', '–')}) | "
                  f"{percent(len(attacked), len(some))} ({theirs[0]}) |{''.join(verdicts)} {theirs[1]} | {graph} | "
                  f"{float(last['splits']):.1f}, {float(last['trajectories']):.1f}, {float(last['abstract_steps']):.1f} |", flush=True)


if __name__ == "__main__":
    main()
