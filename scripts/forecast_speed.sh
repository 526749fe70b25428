#!/usr/bin/env bash
# An epoch of provable training of a latent ODE on PhysioNet 2012: `gains` against the same work in PyTorch, one after the
# other on this machine. Run it where nothing else runs.
#
# usage: scripts/forecast_speed.sh GAINS SERIES      GAINS: the program; SERIES: made by `gains data prepare physionet2012`
#   PYTHON   interpreter, with torch or without [python3]     THREADS  numbers of threads ["1 2"]
#   EPOCHS   of gains that are timed [5]                      BATCHES  of PyTorch that are timed [20]
#   COMPILE  1 to time PyTorch with a compiled cell too       KEEP     a folder for the runs, instead of a temporary one
#   RUN      the folder of a run of a physionet-24h-provable preset to go on from, instead of a short one
set -euo pipefail
if [ $# != 2 ]; then sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
here=$(cd "$(dirname "$0")" && pwd)
gains=$1 series=$(realpath "$2")
busy=$(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo 0)
python=${PYTHON:-python3} threads=${THREADS:-1 2} epochs=${EPOCHS:-5} batches=${BATCHES:-20}
if [ -n "${KEEP:-}" ]; then out=$KEEP; mkdir -p "$out"; else out=$(mktemp -d); trap 'rm -rf "$out"' EXIT; fi

# What is timed is the full work: all observations and statics perturbed, eps and q at their last values. A fresh network
# does not bear that, so it is led there first; how many threads do it changes no bit of it.
warm=${RUN:-$out/warm}
if [ -z "${RUN:-}" ]; then
    "$gains" train --preset physionet-24h-provable-0.1 --quiet --force --out "$warm" --set "dataset=$series" --set epochs=17 \
        --set eps.start=5 --set eps.length=12 --set q.first=0 --set q.last=16 --set loss.anneal_from=0 --set selection.from=17 \
        --set 'ratio=[{from=0,value=0.1},{from=8,value=0.2},{from=9,value=0.4},{from=10,value=0.6},{from=11,value=0.8},{from=12,value=1.0}]' \
        >/dev/null
fi
done_before=$(($(wc -l <"$warm/metrics.csv") - 1))

# The median of a column over the epochs that are timed.
median() { # FOLDER COLUMN
    awk -F, -v want="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == want) c = i; next } { print $c }' "$1/metrics.csv" |
        tail -n "$epochs" | sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

field() { sed -n "s/.*\"$2\": \([0-9.e+-]*\).*/\1/p" <<<"$1"; } # JSON NAME

torch=$("$python" -W ignore -c 'import torch; print(torch.__version__)' 2>/dev/null || true)
rows=()
for count in $threads; do
    run=$out/threads-$count
    rm -rf "$run"
    cp -r "$warm" "$run"
    rm -f "$run/model.safetensors" # which marks a run as finished
    "$gains" train --resume "$run" --quiet --threads "$count" --set "epochs=$((done_before + epochs))" >/dev/null
    ours=$(median "$run" seconds)
    rows+=("| gains | $count | $(printf %.2f "$ours") | $(median "$run" concrete_steps) | $(median "$run" abstract_steps) | 1 |")
    [ -n "$torch" ] || continue
    for mode in eager ${COMPILE:+compiled}; do
        flag=
        if [ $mode = compiled ]; then flag=--compile; fi
        found=$("$python" -W ignore "$here/torch_forecast.py" "$series" --model "$run/model.safetensors" \
            --eps "$(median "$run" eps)" --threads "$count" --batches "$batches" --json $flag)
        theirs=$(field "$found" seconds_per_epoch)
        ratio=$(awk -v a="$theirs" -v b="$ours" 'BEGIN { printf "%.2f", a / b }')
        rows+=("| PyTorch $torch, $mode | $count | $(printf %.2f "$theirs") | $(field "$found" concrete_steps) | $(field "$found" abstract_steps) | $ratio |")
    done
done

echo "An epoch of provable training (24 h ahead, eps $(median "$run" eps), batches of 128); solver steps of points and boxes per batch:"
echo
echo "| program | threads | seconds | point steps | box steps | times gains |"
echo "|---|---|---|---|---|---|"
printf '%s\n' "${rows[@]}"
echo
echo "gains: median of $epochs epochs after $done_before others, with the validation on 400 series (a few percent), which PyTorch is spared."
if [ -n "$torch" ]; then
    echo "PyTorch: median of $batches batches, from the network that gains has just trained, times the batches of an epoch."
else
    echo "PyTorch: not measured, \`$python\` cannot import torch."
fi
echo "Reading the data is not counted. $(nproc) processors; load before all this $busy."
if awk -v b="$busy" 'BEGIN { exit !(b > 0.5) }'; then
    echo "The machine was busy: with several threads PyTorch waits actively and suffers most, so its times are not to be trusted."
fi
