#!/usr/bin/env bash
# Breaks the verifier on purpose, one small edit at a time, and demands that the tests notice.
#
#   scripts/sabotage.sh            all sabotages, a table on stdout; exit 1 if any is missed
#   scripts/sabotage.sh curls hull only those whose name contains one of the words
#   scripts/sabotage.sh --workers N [words]
#                                  so many rows at once (as many as there are cores)
#   scripts/sabotage.sh --check    only looks whether every text to break occurs exactly once
#   scripts/sabotage.sh --checker  what `gains-check` says of proofs that the broken verifier writes, for sabotages of
#                                  rules that proofs are made by; words choose among them
#
# What is broken stands in scripts/sabotage/rows.py. Works on a copy of the tree in a temporary folder. A text that
# no longer matches the sources is an error, and so is an edit that does not compile: the list has to follow the code.
# All rows are woven into one build, in which an environment variable chooses (scripts/sabotage/weave.py); the few that
# cannot be are built one after the other.
# SABOTAGE_TARGET names a folder to keep between runs; files are copied with new times, so that nothing stale in it
# is taken for fresh.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --check ]; then
    exec python3 -B scripts/sabotage/run.py --check
fi
if [ -n "${SABOTAGE_TARGET:-}" ]; then
    work=$(realpath -m "$SABOTAGE_TARGET")
    rm -rf "$work/tree"
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work/tree"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    [ ! -f "$file" ] || printf '%s\0' "$file"
done | tar --null --files-from=- --create | tar --extract --touch --directory "$work/tree"
# Without debug information builds are smaller; the rows that are built by themselves want incremental ones.
export RUST_BACKTRACE=0 CARGO_INCREMENTAL=1 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0
# A case that fails need not be made smaller.
export GAINS_FUZZ_ATTEMPTS=0
cd "$work/tree"
python3 -B scripts/sabotage/run.py --target "$work/target" "$@"
