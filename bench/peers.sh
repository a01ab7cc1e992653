#!/usr/bin/env bash
# Races cmd/scaling against the numpy program stotos_numpy.py found in the
# folder that PRIVOPT_PEERS names, in one run on one machine, and prints the
# ratios as measured:
#
#   PRIVOPT_PEERS=path/to/peers bash bench/peers.sh [repetitions]
#
# The peer's time for the experiment is 1000 × (lop + lop_clip + qop_assoc) of
# its median wall time per solve (100 radii × 10 runs per method); ours is the
# wall time of all private cells of the default experiment, compilation aside.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${PRIVOPT_PEERS:?name the folder that holds stotos_numpy.py}"
python="${PYTHON:-/usr/bin/python3}"
reps="${1:-5}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

go build -o "$scratch/scaling" ./cmd/scaling
peer="$(OPENBLAS_NUM_THREADS=1 "$python" "$PRIVOPT_PEERS/stotos_numpy.py" --reps 9)"
numpy="$(printf '%s' "$peer" | "$python" -c '
import json, sys
j = json.load(sys.stdin)
print(sum(j[k]["wall_median"] for k in ("lop", "lop_clip", "qop_assoc")))')"
echo "numpy peer: $numpy s for 1000 × (lop + lop_clip + qop), W@v association"

for mode in paper certified; do
	for i in $(seq "$reps"); do
		start="$(date +%s.%N)"
		"$scratch/scaling" -mode "$mode" -methods lop,lop-clip,qop -quiet -out "$scratch/out-$mode-$i" >/dev/null
		end="$(date +%s.%N)"
		echo "$mode $start $end"
	done
done | awk -v numpy="$numpy" '
	{ t = $3-$2; n[$1]++; s[$1] = s[$1] " " sprintf("%.2f", t); if (!($1 in best) || t < best[$1]) best[$1] = t; sum[$1] += t }
	END { for (m in n) printf "%s: %s s; mean %.2f s, numpy/ours = %.0f× (best run %.0f×)\n", m, s[m], sum[m]/n[m], numpy*n[m]/sum[m], numpy/best[m] }'
