#!/usr/bin/env python3
"""Errors and robustness of forecasting networks on PhysioNet, beside the paper's Table 2.

usage: forecast_table.py GAINS SERIES OUT_DIR MODEL... [--records 0..400] [--threads N]

MODEL is a model file; the setting is read from its path (6h, 12h, 24h; standard, 0.1, 0.2). ν = 0.1, δ = 0.01. The attack (200 steps) runs on
what is not verified. Standard networks are bounded by boxes only, which overflow on them: that saves hours. Results go to OUT_DIR/*.jsonl and are
resumed; the table is printed as Markdown.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess

EPS = ["0.05", "0.1", "0.2"]
# {(setting, training): (MAE, (adversarial, certified) for each eps)}
PAPER = {
    ("6h", "standard"): ("47.4±0.3", ("54.3±3.8", "0.0"), ("13.7±2.9", "0.0"), ("2.3±1.2", "0.0")),
    ("6h", "0.1"): ("51.1±2.0", ("97.7±0.7", "93.0±2.7"), ("77.0±7.3", "60.4±10.9"), ("42.0±11.0", "24.2±7.7")),
    ("6h", "0.2"): ("57.6±2.5", ("100.0±0.0", "99.8±0.1"), ("96.4±2.1", "93.1±4.5"), ("80.1±11.7", "70.5±18.9")),
    ("12h", "standard"): ("49.9±0.2", ("65.2±2.0", "0.0"), ("16.6±2.3", "0.0"), ("2.0±0.4", "0.0")),
    ("12h", "0.1"): ("50.9±0.4", ("98.0±0.2", "94.5±0.7"), ("74.3±3.5", "55.8±1.5"), ("28.9±3.6", "17.2±0.1")),
    ("12h", "0.2"): ("52.9±0.1", ("99.1±0.1", "98.3±0.2"), ("87.8±0.8", "80.3±0.8"), ("52.3±0.8", "38.5±1.7")),
    ("24h", "standard"): ("51.2±0.3", ("69.7±1.9", "0.0"), ("23.6±2.8", "0.0"), ("3.7±1.0", "0.0")),
    ("24h", "0.1"): ("51.5±0.1", ("97.9±0.2", "96.2±0.4"), ("78.3±2.3", "68.0±1.6"), ("32.6±0.6", "22.7±1.0")),
    ("24h", "0.2"): ("53.7±0.7", ("99.7±0.1", "99.1±0.3"), ("92.3±1.7", "89.4±2.4"), ("59.8±7.7", "50.5±5.1")),
}


def setting(name):
    """Horizon and training of a network, from its name."""
    horizon = re.search(r"(?<!\d)(6h|12h|24h)", name)
    training = re.search(r"standard|0\.[12](?!\d)", name)
    if not horizon or not training:
        raise SystemExit(f"{name}: cannot tell the setting; wanted 6h, 12h or 24h and standard, 0.1 or 0.2 in the name")
    return horizon.group(), training.group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("gains", "series", "out_dir"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="+", metavar="model")
    parser.add_argument("--records", default="0..400")
    parser.add_argument("--threads", default="2")
    args = parser.parse_args()
    args.out_dir.mkdir(parents=True, exist_ok=True)
    print("| network | MAE ×100 (paper) | ε | adversarial % (paper) | certified % (paper) | unknown | s, median |\n|---|---|---|---|---|---|---|")
    for model in args.models:
        name = model.parent.name if model.name == "model.safetensors" else model.stem
        horizon, training = setting(name)
        mae, *paper = PAPER[horizon, training]
        out = args.out_dir / f"{name}.jsonl"
        command = [args.gains.resolve(), "--quiet", "certify", "--model", model, "--series", args.series, "--records", args.records,
                   "--horizon", horizon, "--eps", ",".join(EPS), "--attack-steps", "200", "--timeout", "60", "--threads", args.threads, "--out", out, "--resume"]
        if training == "standard":
            command += ["--method", "box"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        for eps, (adversarial, certified) in zip(EPS, paper):
            mine = [r for r in rows if r["eps"] == float(eps)]
            part = lambda *verdicts: 100 * sum(r["verdict"] in verdicts for r in mine) / len(mine)
            error = f"{100 * statistics.fmean(r['mae'] for r in mine):.1f} ({mae})" if eps == EPS[0] else ""
            print(f"| {name if eps == EPS[0] else ''} | {error} | {eps} | {part('verified', 'unknown'):.1f} ({adversarial}) | "
                  f"**{part('verified'):.1f}** ({certified}) | {sum(r['verdict'] == 'unknown' for r in mine)} | "
                  f"{statistics.median(r['seconds'] for r in mine):.3f} |", flush=True)


if __name__ == "__main__":
    main()
