#!/usr/bin/env python3
"""Certified accuracy of the authors' networks (seed 12345) by the paper's three verifiers, by `tight` and by `auto`, beside the paper's.

usage: certified_table.py GAINS REFERENCE DATA_DIR OUT_DIR [--samples 0..1000] [--threads N] [--attack-steps N] [--timeout 10]

GAINS is the program, REFERENCE the folder with `weights/`, DATA_DIR the folder with `mnist/` and
`fashion-mnist/`. Results go to OUT_DIR/*.jsonl and are resumed; the table is printed as Markdown.
The attack (PGD, 0.0025 a step) only runs on what `gains` could not verify: a verified sample needs none. `auto` has --timeout seconds a
sample. Below the table: whether any margin of `tight` is below that of `gains`, and how the graphs compare.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

# Means and deviations over three seeds from the paper's Table 1 and its ablation (Fashion-MNIST only for
# box and linear): {(dataset, eps_t): {eps: {column: text}}}.
PAPER = {
    ("mnist", "0.11"): {"std": "95.5±0.1", "0.1": ("91.5±0.6", "89.0±1.1", "", ""), "0.15": ("84.0±2.7", "47.2±7.9", "", ""), "0.2": ("21.4±1.8", "0.2±0.2", "", "")},
    ("mnist", "0.22"): {"std": "91.8±1.3", "0.1": ("88.5±1.8", "86.8±2.0", "", ""), "0.15": ("86.8±2.1", "83.7±2.3", "", ""), "0.2": ("84.5±3.2", "79.7±3.4", "", "")},
    ("fmnist", "0.11"): {"std": "75.1±1.2", "0.1": ("65.7±1.0", "62.5±1.1", "44.2±5.5", "56.3±1.4"), "0.15": ("21.1±5.9", "13.3±3.1", "3.5±1.4", "8.4±2.3")},
    ("fmnist", "0.16"): {"std": "71.5±1.7", "0.1": ("64.0±2.7", "61.3±2.7", "47.0±5.7", "54.7±2.5"), "0.15": ("60.1±3.5", "55.0±4.3", "36.8±5.2", "42.7±1.4")},
}
METHODS = ("box", "linear", "gains", "tight", "auto")
EPS = {"mnist": ["0.1", "0.15", "0.2"], "fmnist": ["0.1", "0.15"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("gains", "reference", "data_dir", "out_dir"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--samples", default="0..1000")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--attack-steps", default="200")
    parser.add_argument("--timeout", default="10")
    args = parser.parse_args()
    args.gains = args.gains.resolve()
    margins, graphs = [], []
    args.out_dir.mkdir(parents=True, exist_ok=True)
    print("| network | ε | std. (paper) | attacked (paper) | `auto`: certified / falsified / unknown | `tight` | `gains` (paper) | `linear` (paper) | `box` (paper) | graph V/E, median, `gains`, `tight` | ms per sample, median, box / linear / gains / tight / auto |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for (data, target), paper in PAPER.items():
        model = args.out_dir / f"{data}_{target}.safetensors"
        weights = args.reference / "weights" / data / f"prov_eps{target}_seed12345.safetensors"
        if not model.exists():
            subprocess.run([args.gains, "--quiet", "model", "import", weights, "--sidecar", weights.with_suffix(".json"), "--out", model], check=True)
        rows = {}
        for method in METHODS:
            out = args.out_dir / f"{data}_{target}_{method}.jsonl"
            name = {"mnist": "mnist", "fmnist": "fashion-mnist"}[data]
            steps = args.attack_steps if method == "gains" else "0"
            command = [args.gains, "--quiet", "certify", "--model", model, "--data", name, "--data-dir", args.data_dir, "--samples", args.samples,
                       "--eps", ",".join(EPS[data]), "--method", method, "--attack-steps", steps, "--threads", args.threads, "--out", out, "--resume"]
            if method == "auto":
                command += ["--timeout", args.timeout]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            rows[method] = [json.loads(line) for line in out.read_text().splitlines()]
        for eps in EPS[data]:
            mine = {m: [r for r in rows[m] if r["eps"] == float(eps)] for m in rows}
            share = lambda m, test: f"{100 * sum(map(test, mine[m])) / len(mine[m]):.1f}"
            verified = {m: share(m, lambda r: r["verdict"] == "verified") for m in mine}
            standard = share("gains", lambda r: r["prediction"] == r["label"])
            attacked = share("gains", lambda r: r["prediction"] == r["label"] and r["verdict"] != "falsified")
            size = lambda m, key: f"{statistics.median(r[key] for r in mine[m] if r['vertices']):.0f}"
            graph = ", ".join(f"{size(m, 'vertices')}/{size(m, 'edges')}" for m in ("gains", "tight"))
            # Only verified samples: the others' times include the attack.
            times = " / ".join(f"{1e3 * statistics.median([r['seconds'] for r in mine[m] if r['verdict'] == 'verified'] or [float('nan')]):.0f}" for m in METHODS)
            pairs = [(a, b) for a, b in zip(*(sorted(mine[m], key=lambda r: r["index"]) for m in ("gains", "tight"))) if a["margin"] is not None and b["margin"] is not None]
            margins += [b["margin"] - a["margin"] for a, b in pairs]
            graphs += [b["vertices"] for a, b in pairs if a["vertices"] > 200 and float(eps) <= 0.15]
            counts = " / ".join([verified["auto"], *(str(sum(r["verdict"] == v for r in mine["auto"])) for v in ("falsified", "unknown"))])
            adversarial, cert, box, linear = paper[eps]
            beside = lambda ours, theirs: f"{ours} ({theirs})" if theirs else ours
            print(f"| {data} ε_t {target} | {eps} | {beside(standard, paper['std'])} | {beside(attacked, adversarial)} | **{counts}** | {verified['tight']} | {verified['gains']} ({cert}) "
                  f"| {beside(verified['linear'], linear)} | {beside(verified['box'], box)} | {graph} | {times} |", flush=True)
    print(f"\n`tight` against `gains`: {len(margins)} margins, {sum(m < -1e-6 for m in margins)} lower by more than 1e-6 (lowest difference {min(margins):.2g}); "
          f"of {len(graphs)} graphs over 200 vertices at eps <= 0.15, {sum(v <= 60 for v in graphs)} have at most 60 with `tight`.")


if __name__ == "__main__":
    main()
