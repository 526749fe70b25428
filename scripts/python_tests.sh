#!/usr/bin/env bash
# Tests of the Python package: builds the wheel, installs it into a fresh environment with CPU torch, torchdiffeq, pandas,
# ray and others, and runs ruff, mypy and pytest. What cannot be had is said, and its tests are skipped.
#
#   scripts/python_tests.sh [PYTEST ARGUMENTS]        # PYTHON=python3, PROFILE=release, GAINS_PY_MODULES=1000
#
# Packages are downloaded once, into target/python/wheels; environments below target/python go by the versions in them.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "Python tests skipped: $1"; exit 0; }

python="${PYTHON:-python3}"
command -v "$python" >/dev/null || skip "there is no $python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "$("$python" --version) is older than 3.10"
"$python" -m venv --help >/dev/null 2>&1 || skip "$python has no venv"

base=target/python
mkdir -p "$base/wheels"
export PIP_DISABLE_PIP_VERSION_CHECK=1

# The tools and packages that tests need, by version: a change makes a new environment. The index has torch for Linux on
# x86-64 with CUDA only, and it does not load without those libraries, although no GPU is used: 3 GB, once.
core=("maturin>=1.9,<2" numpy pytest)
tools=(ruff mypy)
tables=(pandas polars tqdm matplotlib nbclient nbformat ipykernel typing_extensions)
torch=(torch torchdiffeq)
torch_needs=(safetensors scikit-learn scipy)
ray=("ray[tune]")
jax=(jax)
want="$("$python" --version) ${core[*]} ${tools[*]} ${tables[*]} ${torch[*]} ${torch_needs[*]} ${ray[*]} ${jax[*]}"
versions="$PWD/scripts/python_constraints.txt"
want="$want $(grep -v '^#' "$versions")"
env="$base/env-$(printf '%s' "$want" | sha256sum | cut -c1-12)"

skipped=()
install() { # install NAME PIP-ARGUMENTS...
  local name="$1"; shift
  if [ -e "$env/.has-$name" ]; then return; fi
  local log="$base/install-$name.log"
  # With the versions that are known to work; else, where these cannot be had here, with any.
  if timeout 600 "$env/bin/pip" install --quiet --timeout 60 -c "$versions" "$@" >"$log" 2>&1 \
    || timeout 600 "$env/bin/pip" install --quiet --timeout 60 "$@" >>"$log" 2>&1; then
    touch "$env/.has-$name"
  else
    skipped+=("$name (see $base/install-$name.log)")
  fi
}

[ -x "$env/bin/python" ] || "$python" -m venv "$env" || skip "$python cannot make an environment"
install core "${core[@]}"
[ -e "$env/.has-core" ] || skip "pip cannot install ${core[*]}: $(tail -1 "$base/install-core.log")"
install tools "${tools[@]}"
install tables "${tables[@]}"
install torch "${torch[@]}"
[ -e "$env/.has-torch" ] && install torch-needs "${torch_needs[@]}"
install ray "${ray[@]}"
install jax "${jax[@]}"
for one in "${skipped[@]+"${skipped[@]}"}"; do echo "skipped: $one cannot be installed"; done

# The wheel, into an environment that has nothing of ours.
profile="${PROFILE:-dev}"
PATH="$PWD/$env/bin:$PATH" "$env/bin/maturin" build --quiet --profile "$profile" --out "$base/dist" --interpreter "$env/bin/python"
wheel="$(ls -t "$base"/dist/gains_ode-*.whl | head -1)"
"$env/bin/pip" install --quiet --force-reinstall --no-deps "$wheel"
echo "built $wheel ($(du -h "$wheel" | cut -f1))"

if [ -e "$env/.has-tools" ]; then
  "$env/bin/ruff" check --quiet crates/gains-py
  "$env/bin/ruff" format --check --quiet crates/gains-py
  "$env/bin/mypy"
fi
# From another folder, so that the installed package is what is tested.
root="$PWD"
cd "$base"
"$root/$env/bin/python" -m pytest -q -p no:cacheprovider -c "$root/pyproject.toml" --rootdir "$root" \
  -rs --durations=8 "$root/crates/gains-py/tests" "$@"
