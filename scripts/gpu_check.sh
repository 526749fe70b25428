#!/usr/bin/env bash
# Checks and times the CUDA kernels, with PyTorch in the same call where it is installed.
#
#   scripts/gpu_check.sh compile DIR   on a machine with Rust, without a device: compiles all kernels for sm_90 by the NVRTC of
#                                      PyPI and lists their registers, spilled bytes and shared memory; files come into DIR
#   scripts/gpu_check.sh build DIR     on a machine with Rust: puts the test and the benchmark into DIR
#   scripts/gpu_check.sh run DIR       on a machine with an NVIDIA device (Rust is not needed there)
#
# `run` compares every operation on CUDA with the CPU in float64, of the fused kernels and of those for any program, trains and times a
# network that only the latter take, then times one dopri5 step of the paper's neural ODE
# (batch 512, forward and backward): ours on CUDA, PyTorch eager and as a CUDA graph; ours on one and two CPU threads, PyTorch
# on as many.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
action="${1:?compile, build or run}" dir="${2:?a folder}"

case "$action" in
compile)
  mkdir -p "$dir/ptx"
  dir="$(cd "$dir" && pwd)"
  [ -d "$dir/nvidia" ] || pip install --quiet --no-deps --target "$dir" nvidia-cuda-nvrtc-cu12 nvidia-cuda-nvcc-cu12
  cd "$root"
  LD_LIBRARY_PATH="$dir/nvidia/cuda_nvrtc/lib:${LD_LIBRARY_PATH:-}" GAINS_PTX="$dir/ptx" \
    cargo test -p gains-train --lib generated_kernels_compile -- --nocapture
  chmod +x "$dir"/nvidia/cuda_nvcc/bin/*
  for ptx in "$dir"/ptx/*.ptx; do
    "$dir/nvidia/cuda_nvcc/bin/ptxas" -v -arch=sm_90 "$ptx" -o "$dir/ptx/kernel.cubin" 2>&1 |
      sed -n "s/.*Compiling entry function '\([^']*\)'.*/\1/p; s/.*stack frame, \([0-9]*\) bytes spill stores.*/\1/p; s/.*Used \([0-9]*\) registers\(.*\)/\1 \2/p" |
      awk -v part="$(basename "$ptx" .ptx)" '
        /^[0-9]+$/ { if (spilled == "") spilled = $1; next }
        /^[0-9]+ / { registers = $1; match($0, /[0-9]+ bytes smem/); shared = RSTART ? substr($0, RSTART) + 0 : 0
                     printf "%-34s %-24s %3d registers, %d bytes spilled, %d bytes of static shared memory\n", part, name, registers, spilled, shared
                     spilled = ""; next }
        { name = $1; spilled = "" }'
  done
  ;;
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
  GAINS_CUDA=1 ./cuda --test-threads 4 --skip programs_train
  # Alone and aloud: it tells how long its batches take.
  GAINS_CUDA=1 ./cuda --nocapture programs_train
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
  echo "usage: $0 compile|build|run DIR" >&2
  exit 2
  ;;
esac
