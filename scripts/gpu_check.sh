#!/usr/bin/env bash
# Checks and times the CUDA kernels, with PyTorch in the same call where it is installed.
#
#   scripts/gpu_check.sh build DIR     on a machine with Rust: puts the test and the benchmark into DIR
#   scripts/gpu_check.sh run DIR       on a machine with an NVIDIA device (Rust is not needed there)
#
# `run` compares every operation on CUDA with the CPU in float64, then times one dopri5 step of the paper's neural ODE
# (batch 512, forward and backward): ours on CUDA, PyTorch eager and as a CUDA graph; ours on one and two CPU threads, PyTorch
# on as many.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
action="${1:?build or run}" dir="${2:?a folder}"

case "$action" in
build)
  mkdir -p "$dir"
  cd "$root"
  built="$(cargo test --release -p gains-train --test cuda --bench block --no-run 2>&1 | sed -n 's/.*Executable .*(\(.*\))/\1/p')"
  for file in $built; do
    name="$(basename "$file")"
    cp "$file" "$dir/${name%-*}"
    strip "$dir/${name%-*}"
  done
  cp "$root/scripts/torch_block.py" "$dir/"
  ls -l "$dir"
  ;;
run)
  cd "$dir"
  # PyTorch brings its own NVRTC, in case the toolkit is not installed.
  nvrtc="$(python3 -c "import glob, os, site; print(':'.join({os.path.dirname(f) for s in site.getsitepackages() for f in glob.glob(s + '/nvidia/*/lib/libnvrtc.so*')}))" 2>/dev/null || true)"
  export LD_LIBRARY_PATH="${nvrtc:+$nvrtc:}${LD_LIBRARY_PATH:-}"
  nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,memory.total --format=csv,noheader
  GAINS_CUDA=1 ./cuda --test-threads 4
  ./block --device cuda --batch 512 --runs 100
  if python3 -c "import torch" 2>/dev/null; then
    python3 torch_block.py cuda 512 30 dopri5i eager,graph
    for threads in 1 2; do
      THREADS=$threads python3 torch_block.py cpu 512 5 dopri5i
      ./block --batch 512 --threads $threads
    done
  else
    echo "PyTorch is not installed: nothing to compare with"
  fi
  ;;
*)
  echo "usage: $0 build|run DIR" >&2
  exit 2
  ;;
esac
