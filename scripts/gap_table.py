#!/usr/bin/env python3
"""How much of the gap between the paper's verifier and a strong attack the cascade closes, on the authors' networks (seed 12345).

usage: gap_table.py GAINS MODELS DATA_DIR OUT_DIR [--samples 0..200] [--threads N] [--timeout 30] [--restarts 10]

GAINS is the program, MODELS a folder with {mnist,fmnist}_{0.11,...}.safetensors (what scripts/certified_table.py imports), DATA_DIR the
folder with `mnist/` and `fashion-mnist/`. Runs, for every provable network and eps of the paper's Table 1, `certify --method gains`, PGD with
200 steps of 0.0025, and `certify --method auto`; results go to OUT_DIR/*.jsonl; the table is printed as Markdown. A sample that PGD missed and
`auto` falsified is not robust: its witness was run by the concrete solver. *robust at most* counts it so.
"""
import argparse
import collections
import json
import pathlib
import statistics
import subprocess

SETTINGS = [("mnist", "0.11", ["0.1", "0.15", "0.2"]), ("mnist", "0.22", ["0.1", "0.15", "0.2"]),
            ("fmnist", "0.11", ["0.1", "0.15"]), ("fmnist", "0.16", ["0.1", "0.15"])]
NAMES = {"mnist": "mnist", "fmnist": "fashion-mnist"}


def run(path, command):
    if not path.exists():
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        subprocess.run(list(map(str, command)) + ["--out", str(partial)], check=True, stdout=subprocess.DEVNULL)
        partial.rename(path)
    return [json.loads(line) for line in path.read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("gains", "models", "data_dir", "out_dir"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--samples", default="0..200")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--timeout", default="30")
    parser.add_argument("--restarts", default="10")
    args = parser.parse_args()
    args.gains = args.gains.resolve()
    args.out_dir.mkdir(parents=True, exist_ok=True)
    print("| network | ε | `gains` | PGD | gap | `auto` certified | falsified | unknown | closed of the gap | robust at most | closed of what can be | s mean | decided by |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for data, target, radii in SETTINGS:
        model = args.models / f"{data}_{target}.safetensors"
        base = ["--quiet", "--model", model, "--data", NAMES[data], "--data-dir", args.data_dir, "--samples", args.samples, "--threads", args.threads]
        for eps in radii:
            stem = f"{data}_{target}_{eps}"
            gains = run(args.out_dir / f"{stem}_gains.jsonl", [args.gains, "certify", *base, "--eps", eps, "--method", "gains", "--attack-steps", "0"])
            pgd = run(args.out_dir / f"{stem}_pgd.jsonl", [args.gains, "attack", *base, "--eps", eps, "--steps", "200", "--restarts", args.restarts])
            auto = run(args.out_dir / f"{stem}_auto.jsonl", [args.gains, "certify", *base, "--eps", eps, "--method", "auto", "--timeout", args.timeout])
            n = len(auto)
            percent = lambda count: 100 * count / n
            counts = collections.Counter(r["verdict"] for r in auto)
            certified = percent(sum(r["verdict"] == "verified" for r in gains))
            survives = {r["index"] for r in pgd if r["prediction"] == r["label"] and r["witness"] is None}
            falsified = {r["index"] for r in auto if r["verdict"] == "falsified"}
            attacked, most = percent(len(survives)), percent(len(survives - falsified))
            best = percent(counts["verified"])
            share = lambda top: f"{100 * (best - certified) / (top - certified):.0f} %" if top > certified else "–"
            times = [r["seconds"] for r in auto if r["verdict"] != "misclassified"]
            decided = collections.Counter(r["stages"][-1]["name"] for r in auto if r["verdict"] in ("verified", "falsified"))
            by = ", ".join(f"{name} {count}" for name, count in decided.most_common())
            print(f"| {data} ε_t {target} | {eps} | {certified:.1f} | {attacked:.1f} | {attacked - certified:.1f} | **{best:.1f}** | {counts['falsified']} | {counts['unknown']} "
                  f"| {share(attacked)} | {most:.1f} | {share(most)} | {statistics.mean(times):.2f} | {by} |", flush=True)


if __name__ == "__main__":
    main()
