"""Breaks one line at a time and asks the tests; started by `scripts/sabotage.sh` in a copy of the tree."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

from rows import SABOTAGES
from weave import Weaver

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
    "hostile-files": ("gains-core", ["--test", "hostile_files"]),
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
# A build from nothing.
LONGEST_BUILD = 3600


class DoesNotCompile(Exception):
    """What a row makes of the sources is none."""


class Tests:
    """Test programs of a copy of the tree, which run with a number that chooses a sabotage, or none."""

    def __init__(self, folder, target):
        self.folder, self.target, self.programs = pathlib.Path(folder), target, {}

    def build(self, suites):
        """Builds what the suites need; messages of the compiler if that fails."""
        packages = {package for package, _ in map(SUITES.get, suites)}
        wanted = [["--lib"] if "--lib" in target else target for _, target in map(SUITES.get, suites)]
        command = ["cargo", "test", "--no-run", "--message-format", "json"]
        command += [word for package in sorted(packages) for word in ("-p", package)]
        command += [word for target in sorted(set(map(tuple, wanted))) for word in target]
        builds = {**os.environ, "CARGO_TARGET_DIR": str(self.target)}
        run = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=builds, timeout=LONGEST_BUILD)
        said = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        for made in said:
            if made.get("executable") and made["profile"]["test"]:
                folder = pathlib.Path(made["manifest_path"]).parent
                kind = "--lib" if "lib" in made["target"]["kind"] else made["target"]["name"]
                self.programs[folder.name, kind] = (made["executable"], folder)
        if run.returncode == 0:
            return []
        wrong = [m["message"] for m in said if m.get("reason") == "compiler-message" and m["message"]["level"] == "error"]
        return wrong or [{"message": run.stderr[-2000:], "spans": []}]

    def run(self, suite, *words, number=None):
        package, target = SUITES[suite]
        if (package, target[-1]) not in self.programs and self.build([suite]):
            raise DoesNotCompile
        program, folder = self.programs[package, target[-1]]
        chosen = {**os.environ, "CARGO_MANIFEST_DIR": str(folder)}
        chosen.pop("SABOTAGE", None)
        if number is not None:
            chosen["SABOTAGE"] = str(number)
        return subprocess.run(
            ["timeout", str(LONGEST), program, *words], capture_output=True, text=True, errors="replace", cwd=folder, env=chosen
        )

    def ask(self, suite, only=None, number=None):
        """Names of the tests of a suite that fail."""
        run = self.run(suite, *([only] if only else []), number=number)
        if run.returncode == 0:
            return []
        names = sorted(set(re.findall(r"^    ([\w:]+)$", run.stdout, re.M)))
        return [f"{suite} {name}" for name in names] or [f"{suite} ended by {run.returncode}"]

    def failing(self, first="", number=None):
        """Names of failing tests, stopping at the first suite that has any."""
        hints = [(suite, only) for suite, _, only in (hint.partition(":") for hint in first.split())]
        for suite, only in hints + [(suite, None) for suite in SUITES]:
            names = self.ask(suite, only, number)
            # What nobody expected to fail may do so because the machine is busy: then it does so without a sabotage, too.
            if names and ((suite, only) in hints or number is None or not self.ask(suite, only)):
                return names
        return []

    def view(self, number=None):
        """What the checker says of the proofs of a fixed list of networks: numbers, fingerprint, refusals, what is wrong."""
        run = self.run("certificates", "view", "--nocapture", number=number)
        found = re.search(r"checker: (\d+) accepted, (\d+) refused, (\d+) not written, print (\w+)", run.stdout)
        refusals = re.findall(r"^checker refuses: (.*)$", run.stdout, re.M)
        wrong = re.findall(r"^checker is wrong: (.*)$", run.stdout, re.M)
        if not found:
            return (0, 0, 0), "no answer", refusals, wrong
        return tuple(int(n) for n in found.groups()[:3]), found.group(4), refusals, wrong


class Broken:
    """A tree with many sabotages in it: those that one build can hold, and the others one after the other."""

    def __init__(self, tests, rows, suites, workers):
        self.tests, self.suites, self.workers = tests, suites, workers
        self.weaver, self.left = Weaver(tests.folder, rows), []
        started = time.monotonic()
        while wrong := self.weave():
            dropped = {n for message in wrong for n in self.weaver.blamed(message)}
            if not dropped:
                sys.exit(f"error: the sabotages do not build together: {wrong[0].get('rendered') or wrong[0]['message']}")
            self.weaver.drop(dropped)
        log(f"{len(self.weaver.lines)} in one build, {len(self.left)} by themselves: {time.monotonic() - started:.0f} s")

    def weave(self):
        self.left = self.weaver.write()
        return self.tests.build(self.suites)

    def each(self, todo, question):
        """Asks about the rows of some numbers, and gives number and answer in any order; None is what does not compile.

        The question is told of which row it is, and what to give the tests for it."""
        with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
            woven = {pool.submit(question, number, number): number for number in todo if number in self.weaver.lines}
            for done in concurrent.futures.as_completed(woven):
                yield woven[done], done.result()
        for number in (n for n in self.left if n in todo):
            self.weaver.restore(broken=number)
            # Only what is asked is built again.
            self.tests.programs.clear()
            try:
                yield number, question(number, None)
            except DoesNotCompile:
                yield number, None
        self.weaver.restore()


def log(text):
    print(text, file=sys.stderr, flush=True)


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
NO_PROOFS = re.compile("import|description|attack|bisect|best_first|race|verifier|branch/(choose|draft|mod|search)|property/|problem")


def breaks_proofs(file):
    return file.startswith(PROOFS) and not NO_PROOFS.search(file)


def checker(words, tests, workers):
    """For each sabotage of a rule that proofs are made by: whether the checker refuses what comes of it."""
    chosen = [s for s in named(words) if breaks_proofs(s[2])]
    check(chosen)
    broken = Broken(tests, chosen, ["certificates"], workers)
    healthy = tests.view()
    if healthy[2] or healthy[3] or healthy[1] == "no answer":
        sys.exit(f"error: the checker must accept all before anything is broken: {healthy}")
    log(f"healthy: {healthy[0]}")
    told, false = {}, 0
    for number, said in broken.each(range(len(chosen)), lambda _, given: tests.view(given)):
        if said is None:
            told[number] = "does not compile"
        elif said[3]:
            false += 1
            told[number] = f"**ACCEPTS WHAT IS FALSE**: {said[3]}"
        elif said[1] == "no answer":
            told[number] = "not asked: the verifier does not come to an end"
        elif said[2]:
            told[number] = f"refuses {said[0][1]} of {sum(said[0][:2])}, such as `{said[2][0]}`"
        elif said[1] == healthy[1]:
            told[number] = "not reached"
        elif said[0][0] == 0:
            told[number] = "not asked: nothing is proved any more"
        else:
            told[number] = f"accepts {said[0][0]}, other ones than before: nothing false is claimed"
        log(f"{chosen[number][0]}: {told[number]}")
    print("| sabotage | what is broken | the checker |\n|---|---|---|")
    for number, (name, what, *_) in enumerate(chosen):
        print(f"| {name} | {what} | {told[number]} |", flush=True)
    sys.exit(1 if false else 0)


def shown(caught):
    if caught is None:
        return "**DOES NOT COMPILE**"
    return f"`{caught[0]}`" + (f" and {len(caught) - 1} more" if caught[1:] else "") if caught else "**MISSED**"


def main(words, tests, workers):
    chosen = named(words)
    check(chosen)
    broken = Broken(tests, chosen, list(SUITES), workers)
    clean = tests.failing()
    if clean:
        sys.exit(f"error: the tests must pass before anything is broken: {clean}")
    log("the tests pass while nothing is broken")
    found = {}
    for number, caught in broken.each(range(len(chosen)), lambda number, given: tests.failing(chosen[number][5], given)):
        found[number] = shown(caught)
        log(f"{len(found)} of {len(chosen)}: {chosen[number][0]}: {found[number]}")
    print("| sabotage | what is broken | caught by |\n|---|---|---|")
    for number, (name, what, *_) in enumerate(chosen):
        print(f"| {name} | {what} | {found[number]} |")
    lost = sum(answer.startswith("**") for answer in found.values())
    print(f"\n{len(chosen) - lost} of {len(chosen)} caught", flush=True)
    sys.exit(1 if lost else 0)


asked = argparse.ArgumentParser()
asked.add_argument("--check", action="store_true")
asked.add_argument("--checker", action="store_true")
asked.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 1)))
asked.add_argument("--target", default="target")
asked.add_argument("words", nargs="*")
asked = asked.parse_args()
if asked.check:
    check(SABOTAGES)
    print(f"{len(SABOTAGES)} sabotages, every text occurs once")
elif asked.checker:
    checker(asked.words, Tests(pathlib.Path.cwd(), asked.target), asked.workers)
else:
    main(asked.words, Tests(pathlib.Path.cwd(), asked.target), asked.workers)
