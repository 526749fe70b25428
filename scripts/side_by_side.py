#!/usr/bin/env python3
"""Two builds of gains on the same questions, taken in turn: verdicts, margins and time.

    scripts/side_by_side.py OLD NEW --rounds 5 -- certify --samples 0..30 --eps 0.1 --method tight --attack-steps 0

OLD and NEW are binaries; what follows `--` goes to both, with `--threads 1 --quiet --out FILE` added. Prints how many
verdicts and graphs differ, the largest difference of a margin or certified error, and the median over the rounds of
NEW's time over OLD's, of the seconds in the result lines.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile


def run(binary, flags, folder):
    out = pathlib.Path(folder) / "results.jsonl"
    out.unlink(missing_ok=True)
    command = [binary, *flags, "--threads", "1", "--quiet", "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return {(line["index"], line["eps"]): line for line in lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("flags", nargs="+", help="after --: the command and its flags")
    args = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            old, new = run(args.old, args.flags, folder), run(args.new, args.flags, folder)
            ratios.append(sum(r["seconds"] for r in new.values()) / sum(r["seconds"] for r in old.values()))
    verdicts = sum(old[k]["verdict"] != new[k]["verdict"] for k in old)
    graphs = sum((old[k]["vertices"], old[k]["edges"]) != (new[k]["vertices"], new[k]["edges"]) for k in old)
    gaps = [
        abs(old[k][key] - new[k][key])
        for k in old
        for key in ("margin", "certified_mae")
        if old[k].get(key) is not None and new[k].get(key) is not None
    ]
    print(
        f"{len(old)} results: {verdicts} verdicts and {graphs} graphs differ, bounds by at most {max(gaps, default=0):.1e}; "
        f"new/old time median {statistics.median(ratios):.3f} (of {', '.join(f'{r:.3f}' for r in ratios)})"
    )


if __name__ == "__main__":
    main()
