#!/usr/bin/env bash
# Tests of the page that `gains report` makes, in headless Chromium. Installs what is missing: Chromium from Debian's
# packages, playwright-core and axe-core from npm. Says so and skips where they cannot be had.
#
#   scripts/browser_tests.sh [TEST.test.js ...]      # GAINS=PROGRAM, CHROMIUM=BROWSER
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "browser tests skipped: $1"; exit 0; }

export CHROMIUM="${CHROMIUM:-/usr/bin/chromium}"
packages=()
[ -x "$CHROMIUM" ] || packages+=(chromium fonts-dejavu-core)
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)
if [ "${#packages[@]}" -gt 0 ]; then
  run=()
  if [ "$(id -u)" -ne 0 ]; then run=(sudo -n); fi
  command -v apt-get >/dev/null || skip "there is no apt-get to install ${packages[*]}"
  { "${run[@]}" apt-get update -qq && "${run[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}"; } >/dev/null 2>&1 \
    || skip "cannot install ${packages[*]}"
fi

if [ -z "${GAINS:-}" ]; then
  cargo build --quiet -p gains
  export GAINS="$PWD/target/debug/gains"
fi
cargo build --quiet -p gains-report --example thousand

cd tests/browser
# A browser that does not start at all (no shared memory, no namespaces) says nothing about the page.
timeout 120 "$CHROMIUM" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --dump-dom about:blank >/dev/null 2>&1 \
  || skip "$CHROMIUM does not start here"
[ -d node_modules/playwright-core ] || npm ci --ignore-scripts --no-audit --no-fund >/dev/null 2>&1 || skip "cannot install playwright-core and axe-core from npm"
node --test --test-concurrency=1 --test-timeout=1200000 "$@"
