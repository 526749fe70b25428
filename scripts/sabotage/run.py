"""Breaks one line at a time and asks the tests; started by `scripts/sabotage.sh` in a copy of the tree."""

import argparse
import concurrent.futures
import contextlib
import hashlib
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import time

from rows import SABOTAGES

# In the order in which they are asked, the quick ones first.
SUITES = {
    "check-lib": ("gains-check", ["--lib"]),
    "check-numbers": ("gains-check", ["--test", "numbers"]),
    "check-small": ("gains-check", ["--test", "small"]),
    "check-witness": ("gains-check", ["--test", "witness"]),
    "check-series": ("gains-check", ["--test", "series"]),
    "check-cli": ("gains-check", ["--test", "cli"]),
    "check-announced": ("gains-check", ["--test", "announced"]),
    "check-forms": ("gains-check", ["--test", "forms"]),
    "check-mutations": ("gains-check", ["--test", "mutations"]),
    "transformers": ("gains-core", ["--test", "transformers"]),
    "operators": ("gains-core", ["--test", "operators"]),
    "core-lib": ("gains-core", ["--lib"]),
    "import": ("gains-core", ["--test", "import"]),
    "layers": ("gains-core", ["--test", "layers"]),
    "data-lib": ("gains-data", ["--lib"]),
    "ode-lib": ("gains-ode", ["--lib"]),
    "ode-forecast": ("gains-ode", ["--test", "forecast"]),
    "ode-inference": ("gains-ode", ["--test", "inference"]),
    "report-lib": ("gains-report", ["--lib"]),
    "verify-lib": ("gains-verify", ["--lib"]),
    "series": ("gains-verify", ["--test", "series"]),
    "grammar": ("gains-verify", ["--test", "grammar"]),
    "soundness": ("gains-verify", ["--test", "soundness"]),
    "certificates": ("gains-verify", ["--test", "certificates"]),
    "program": ("gains", ["--lib"]),
    "train-lib": ("gains-train", ["--lib"]),
}


# What takes longer does not end, but on a machine that is busy with other things.
LONGEST = int(os.environ.get("SABOTAGE_LONGEST", 400))


class Tree:
    """A copy of the sources, with builds of its own, in which one row at a time is broken."""

    def __init__(self, folder, target):
        self.folder, self.target = pathlib.Path(folder), target

    def another(self, number):
        """A second one, beside the first."""
        folder = self.folder.with_name(f"{self.folder.name}-{number}")
        shutil.rmtree(folder, ignore_errors=True)
        # Every file is new, so that nothing stale in the builds is taken for fresh.
        shutil.copytree(self.folder, folder, copy_function=shutil.copy)
        return Tree(folder, f"{self.target}-{number}")

    def cargo(self, *arguments):
        command = ["timeout", str(LONGEST), "cargo", "test", "--quiet", *arguments]
        builds = {**os.environ, "CARGO_TARGET_DIR": str(self.target)}
        return subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=builds)

    @contextlib.contextmanager
    def broken(self, file, text, replacement):
        """A file with one text replaced."""
        path = self.folder / file
        source = path.read_text()
        path.write_text(source.replace(text, replacement))
        try:
            yield
        finally:
            path.write_text(source)

    def ask(self, suite, only=None):
        """Names of the tests of a suite that fail; None if it does not compile."""
        package, target = SUITES[suite]
        if self.cargo("-p", package, *target, "--no-run").returncode != 0:
            return None
        run = self.cargo("-p", package, *target, *([only] if only else []))
        if run.returncode == 0:
            return []
        names = sorted(set(re.findall(r"^    ([\w:]+)$", run.stdout, re.M)))
        return [f"{suite} {name}" for name in names] or [f"{suite} ended by {run.returncode}"]

    def failing(self, first=""):
        """Names of failing tests, stopping at the first suite that has any; None if it does not compile."""
        hints = [hint.partition(":") for hint in first.split()]
        for suite, only in [(suite, only) for suite, _, only in hints] + [(suite, None) for suite in SUITES]:
            names = self.ask(suite, only)
            if names is None or names:
                return names
        return []

    def view(self):
        """What the checker says of the proofs of a fixed list of networks: numbers, fingerprint, refusals, what is wrong."""
        command = ("-p", "gains-verify", "--test", "certificates", "view")
        if self.cargo(*command, "--no-run").returncode != 0:
            return None
        run = self.cargo(*command, "--", "--nocapture")
        found = re.search(r"checker: (\d+) accepted, (\d+) refused, (\d+) not written, print (\w+)", run.stdout)
        refusals = re.findall(r"^checker refuses: (.*)$", run.stdout, re.M)
        wrong = re.findall(r"^checker is wrong: (.*)$", run.stdout, re.M)
        if not found:
            return (0, 0, 0), "no answer", refusals, wrong
        return tuple(int(n) for n in found.groups()[:3]), found.group(4), refusals, wrong


def named(words):
    return [s for s in SABOTAGES if not words or any(word in s[0] for word in words)]


def check(chosen):
    for name, _, file, text, _, first in chosen:
        found = open(file).read().count(text) if text else 0
        if found != 1:
            sys.exit(f"error: {name}: the text occurs {found} times in {file}")
        for hint in first.split():
            if hint.partition(":")[0] not in SUITES:
                sys.exit(f"error: {name}: there is no suite {hint}")


# Where the rules stand that proofs in certificates are made by, and what of it they do not use.
PROOFS = ("crates/gains-core/src/", "crates/gains-ode/src/", "crates/gains-verify/src/")
NO_PROOFS = re.compile(
    "import|description|series|affine_form|blend|forms/|attack|bisect|best_first|race|verifier|branch/(choose|draft|mod|search)"
    "|property/|problem|form\\.rs|tangent"
)


def breaks_proofs(file):
    return file.startswith(PROOFS) and not NO_PROOFS.search(file)


def checker(words, here):
    """For each sabotage of a rule that proofs are made by: whether the checker refuses what comes of it."""
    chosen = [s for s in named(words) if breaks_proofs(s[2])]
    check(chosen)
    healthy = here.view()
    if healthy is None or healthy[2] or healthy[3]:
        sys.exit(f"error: the checker must accept all before anything is broken: {healthy}")
    print(f"healthy: {healthy[0]}", file=sys.stderr, flush=True)
    print("| sabotage | what is broken | the checker |\n|---|---|---|", flush=True)
    false = 0
    for name, what, file, text, replacement, _ in chosen:
        started = time.monotonic()
        with here.broken(file, text, replacement):
            said = here.view()
        if said is None:
            shown = "does not compile"
        elif said[3]:
            false += 1
            shown = f"**ACCEPTS WHAT IS FALSE**: {said[3]}"
        elif said[2]:
            shown = f"refuses {said[0][1]} of {sum(said[0][:2])}, such as `{said[2][0]}`"
        elif said[1] == "no answer":
            shown = "not asked: the verifier does not come to an end"
        elif said[1] == healthy[1]:
            shown = "not reached"
        elif said[0][0] == 0:
            shown = "not asked: nothing is proved any more"
        else:
            shown = f"accepts {said[0][0]}, other ones than before: nothing false is claimed"
        print(f"| {name} | {what} | {shown} |", flush=True)
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    sys.exit(1 if false else 0)


def tree():
    """What the sources are now, in a few letters: all of the crates, and what is broken in them."""
    sources = sorted(path for path in pathlib.Path("crates").rglob("*") if path.is_file())
    whole = hashlib.sha256()
    for path in [*sources, pathlib.Path("Cargo.lock"), pathlib.Path("scripts/sabotage/rows.py")]:
        whole.update(f"{path}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:16]


class Record:
    """What came of the rows that were run on these very sources; a run that was interrupted goes on from there."""

    def __init__(self, file):
        self.file, self.tree = file, tree() if file else ""
        lines = open(file).read().splitlines() if file and os.path.exists(file) else []
        self.rows = dict(line.split("\t")[1:] for line in lines if line.startswith(self.tree + "\t"))

    def add(self, name, shown):
        self.rows[name] = shown
        if self.file:
            with open(self.file, "a") as file:
                file.write(f"{self.tree}\t{name}\t{shown}\n")


def shown(caught):
    if caught is None:
        return "**DOES NOT COMPILE**"
    return f"`{caught[0]}`" + (f" and {len(caught) - 1} more" if caught[1:] else "") if caught else "**MISSED**"


def main(words, record, here, workers):
    chosen = named(words)
    check(chosen)
    todo = [s for s in chosen if s[0] not in record.rows]
    clean = here.failing() if todo else []
    if clean is None or clean:
        sys.exit(f"error: the tests must pass before anything is broken: {clean}")
    print("| sabotage | what is broken | caught by |\n|---|---|---|", flush=True)
    # Rows are dealt out among copies of the tree: building for one leaves most cores idle.
    trees = queue.SimpleQueue()
    for number in range(1, workers + 1):
        trees.put(here if number == 1 else here.another(number))

    def caught_by(row):
        name, _, file, text, replacement, first = row
        started, tree = time.monotonic(), trees.get()
        try:
            with tree.broken(file, text, replacement):
                caught = tree.failing(first)
        finally:
            trees.put(tree)
        record.add(name, shown(caught))
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        answers = {row[0]: pool.submit(caught_by, row) for row in todo}
        for name, what, *_ in chosen:
            if name in answers:
                answers[name].result()
            print(f"| {name} | {what} | {record.rows[name]} |", flush=True)
    lost = sum(record.rows[row[0]].startswith("**") for row in chosen)
    print(f"\n{len(chosen) - lost} of {len(chosen)} caught", flush=True)
    sys.exit(1 if lost else 0)


asked = argparse.ArgumentParser()
asked.add_argument("--check", action="store_true")
asked.add_argument("--checker", action="store_true")
asked.add_argument("--record")
asked.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 1)))
asked.add_argument("--target", default="target")
asked.add_argument("words", nargs="*")
asked = asked.parse_args()
if asked.check:
    check(SABOTAGES)
    print(f"{len(SABOTAGES)} sabotages, every text occurs once")
elif asked.checker:
    checker(asked.words, Tree(".", asked.target))
else:
    main(asked.words, Record(asked.record), Tree(pathlib.Path.cwd(), asked.target), asked.workers)
