#!/usr/bin/env bash
# Wheels of the Python package for Linux, x86-64 and aarch64: one abi3 wheel each, for every Python from 3.10 on. The aarch64
# one is cross-compiled with zig, which also lets both run on old systems (glibc 2.17).
#
#   scripts/python_wheels.sh [x86_64|aarch64 ...]     # into target/python/wheels-release
set -euo pipefail
cd "$(dirname "$0")/.."

env=target/python/env-wheels
[ -x "$env/bin/maturin" ] || { python3 -m venv "$env" && "$env/bin/pip" install --quiet 'maturin[zig]>=1.9,<2'; }
for machine in "${@:-x86_64 aarch64}"; do
  for one in $machine; do
    target="$one-unknown-linux-gnu"
    rustup target add "$target" >/dev/null 2>&1 || { echo "skipped: rustup has no $target"; continue; }
    PATH="$PWD/$env/bin:$PATH" "$env/bin/maturin" build --release --zig --target "$target" --compatibility manylinux2014 \
      --out target/python/wheels-release
  done
done
