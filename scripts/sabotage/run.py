"""Breaks one line at a time and asks the tests; started by `scripts/sabotage.sh` in a copy of the tree."""

import re
import subprocess
import sys
import time

from rows import SABOTAGES

# In the order in which they are asked, the quick ones first.
SUITES = {
    "check-numbers": ("gains-check", ["--test", "numbers"]),
    "check-small": ("gains-check", ["--test", "small"]),
    "check-witness": ("gains-check", ["--test", "witness"]),
    "check-mutations": ("gains-check", ["--test", "mutations"]),
    "transformers": ("gains-core", ["--test", "transformers"]),
    "operators": ("gains-core", ["--test", "operators"]),
    "core-lib": ("gains-core", ["--lib"]),
    "import": ("gains-core", ["--test", "import"]),
    "layers": ("gains-core", ["--test", "layers"]),
    "data-lib": ("gains-data", ["--lib"]),
    "ode-lib": ("gains-ode", ["--lib"]),
    "ode-forecast": ("gains-ode", ["--test", "forecast"]),
    "report-lib": ("gains-report", ["--lib"]),
    "verify-lib": ("gains-verify", ["--lib"]),
    "series": ("gains-verify", ["--test", "series"]),
    "grammar": ("gains-verify", ["--test", "grammar"]),
    "soundness": ("gains-verify", ["--test", "soundness"]),
    "certificates": ("gains-verify", ["--test", "certificates"]),
    "program": ("gains", ["--lib"]),
    "train-lib": ("gains-train", ["--lib"]),
}


# What takes longer does not end.
LONGEST = 400


def cargo(*arguments):
    command = ["timeout", str(LONGEST), "cargo", "test", "--quiet", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def ask(suite, only=None):
    """Names of the tests of a suite that fail; None if it does not compile."""
    package, target = SUITES[suite]
    if cargo("-p", package, *target, "--no-run").returncode != 0:
        return None
    run = cargo("-p", package, *target, *([only] if only else []))
    if run.returncode == 0:
        return []
    names = sorted(set(re.findall(r"^    ([\w:]+)$", run.stdout, re.M)))
    return [f"{suite} {name}" for name in names] or [f"{suite} ended by {run.returncode}"]


def failing(first=""):
    """Names of failing tests, stopping at the first suite that has any; None if it does not compile."""
    hints = [hint.partition(":") for hint in first.split()]
    for suite, only in [(suite, only) for suite, _, only in hints] + [(suite, None) for suite in SUITES]:
        names = ask(suite, only)
        if names is None or names:
            return names
    return []


def check(chosen):
    for name, _, file, text, _, first in chosen:
        found = open(file).read().count(text) if text else 0
        if found != 1:
            sys.exit(f"error: {name}: the text occurs {found} times in {file}")
        for hint in first.split():
            if hint.partition(":")[0] not in SUITES:
                sys.exit(f"error: {name}: there is no suite {hint}")


def main(words):
    chosen = [s for s in SABOTAGES if not words or any(word in s[0] for word in words)]
    check(chosen)
    clean = failing()
    if clean is None or clean:
        sys.exit(f"error: the tests must pass before anything is broken: {clean}")
    print("| sabotage | what is broken | caught by |\n|---|---|---|", flush=True)
    missed, refused = 0, 0
    for name, what, file, text, replacement, first in chosen:
        started = time.monotonic()
        source = open(file).read()
        open(file, "w").write(source.replace(text, replacement))
        caught = failing(first)
        open(file, "w").write(source)
        if caught is None:
            refused += 1
            shown = "**DOES NOT COMPILE**"
        elif caught:
            shown = f"`{caught[0]}`" + (f" and {len(caught) - 1} more" if caught[1:] else "")
        else:
            missed += 1
            shown = "**MISSED**"
        print(f"| {name} | {what} | {shown} |", flush=True)
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(f"\n{len(chosen) - missed - refused} of {len(chosen)} caught", flush=True)
    sys.exit(1 if missed or refused else 0)


if sys.argv[1:] == ["--check"]:
    check(SABOTAGES)
    print(f"{len(SABOTAGES)} sabotages, every text occurs once")
else:
    main(sys.argv[1:])
