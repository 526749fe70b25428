#!/usr/bin/env bash
# Draws networks from the grammar of what the loader accepts, bounds each in every way and attacks every row.
#
#   scripts/fuzz.sh 3600                an hour of random cases
#   scripts/fuzz.sh 3600 failures.txt   what fails is appended to that file (fuzz-failures.txt)
#
# A case that ends the process (a crash, 4 GB, ten minutes without a new case) is written down too, and the search goes
# on with other cases. Exit status 1 if anything failed.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?how many seconds to search}
file=$(realpath -m "${2:-fuzz-failures.txt}")
touch "$file"
before=$(wc -l < "$file")
program=$(cargo test --package gains-verify --test grammar --no-run --message-format=json 2>/dev/null |
    python3 -c 'import json, sys
for line in sys.stdin:
    found = json.loads(line)
    if found.get("target", {}).get("name") == "grammar" and found.get("executable"):
        print(found["executable"])')
end=$((SECONDS + seconds))
while ((SECONDS < end)); do
    GAINS_FUZZ_SECONDS=$((end - SECONDS)) GAINS_FUZZ_FILE=$file \
        bash -c 'ulimit -v 4194304; exec "$0" --ignored --nocapture fuzz' "$program" &
    search=$!
    while kill -0 "$search" 2>/dev/null; do
        sleep 5
        if [ -n "$(find "$file.now" -mmin +10 2>/dev/null)" ]; then
            kill -KILL "$search"
        fi
    done
    wait "$search" || true
    if [ -f "$file.now" ]; then
        echo "ended the process: $(cat "$file.now")" | tee -a "$file"
        rm "$file.now"
    fi
done
if (($(wc -l < "$file") > before)); then
    echo "failures in $file" >&2
    exit 1
fi
[ -s "$file" ] || rm "$file"
