#!/usr/bin/env bash
# Races this module against other programs for the same work, in one run on one
# core, and prints every goal with its ratio as measured:
#
#   PRIVOPT_PEERS=path/to/peers bash bench/peers.sh [rounds, default 9]
#
# PRIVOPT_PEERS holds stotos_numpy.py, stotos_c.c, gradpass.c and triad.c, PRIVOPT_DATA
# the folder adult/ for one of the goals; python3 with numpy, scipy and sklearn, and gcc
# are used where they are found. What is missing is named, and its goals are not
# judged.
#
# The whole experiments of goals 3 and 4 calibrate, solve, and write tables; they draw no pictures,
# as the other side draws none.
#
# A round runs both sides of every goal one after the other, so that they meet the
# same load; the ratio of a goal is the median over the rounds of the ratio within
# one round. Times are processor time, but where the other side is a program in C:
# that prints the least wall time of many repetitions, so that is taken on our side
# too (goals 6, 9, 10). Goal 10 and two threads mean something on an idle machine
# only. Goal 10 is run in a third of the rounds. A round
# takes a minute or two on idle cores. GOALS="3 4" restricts the run,
# CORE chooses the core, 0 if unset.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${PRIVOPT_PEERS:?name the folder that holds stotos_numpy.py}"
export PRIVOPT_PEERS
PRIVOPT_PEERS="$(cd "$PRIVOPT_PEERS" && pwd)"
python="${PYTHON:-/usr/bin/python3}"
rounds="${1:-9}"
goals=" ${GOALS:-1 2 3 4 5 6 7 8 9 10 11 12} "
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
results="$scratch/results"
: >"$results"
missing="$scratch/missing"
: >"$missing"
one=""
if command -v taskset >/dev/null; then one="taskset -c ${CORE:-0}"; fi
# Two threads need two cores, and goal 10 an idle machine; all else gets one.

want() { case "$goals" in *" $1 "*) return 0 ;; esac; return 1; }
lack() { echo "$1" >>"$missing"; }
put() { printf '%s\t%s\t%s\n' "$round" "$1" "$2" >>"$results"; } # key, nanoseconds

echo "building" >&2
build=default
go -C cmd/research test -c -o "$scratch/bench-$build" ./experiment
go build -o "$scratch/scaling-$build" ./cmd/scaling

have_c=""
if command -v gcc >/dev/null; then
	have_c=yes
	for name in stotos_c gradpass triad; do
		if [ -f "$PRIVOPT_PEERS/$name.c" ]; then
			gcc -O3 -march=native -ffast-math -pthread "$PRIVOPT_PEERS/$name.c" -o "$scratch/$name" -lm
		else
			lack "$name.c in $PRIVOPT_PEERS"
		fi
	done
else
	lack "gcc: no comparison with programs in C"
fi
have_numpy=""
if "$python" -c 'import numpy, scipy' 2>/dev/null && [ -f "$PRIVOPT_PEERS/stotos_numpy.py" ]; then
	have_numpy=yes
else
	lack "$python with numpy and scipy, or stotos_numpy.py"
fi
"$python" -c 'import copt' 2>/dev/null || lack "copt: the second half of goal 11 (overlapping group lasso) is not judged"
lack "diffprivlib and the AMP benchmark: the private half of goal 12 is not judged"

choices=""
if want 12; then
	if "$python" -c 'import sklearn' 2>/dev/null; then
		BENCH_WRITE="$scratch" "$scratch/bench-default" -test.run '^TestWrite$' >/dev/null
		[ -f "$scratch/adult.bin" ] || lack "the Adult data in PRIVOPT_DATA"
		choices="$("$python" bench/peers.py sklearn "$scratch")"
	else
		lack "$python with sklearn: goal 12"
	fi
fi

# ours BUILD KEY BENCHMARK TIME [PREFIX]: one benchmark, its processor time.
ours() {
	(cd bench && GOMAXPROCS=1 $one "$scratch/bench-$1" -test.run '^$' -test.bench "$3" -test.benchtime "$4" ) |
		awk '/cpu-ns\/op/ { for (i = 2; i <= NF; i++) if ($i == "cpu-ns/op") print $1, $(i-1) }' |
		while read -r name ns; do put "$2:$1${5:+:${name#Benchmark}}" "$ns"; done
}

# least THREADS BUILD KEY BENCHMARK TIME COUNT: the least wall time, over COUNT
# measurements of the mean over TIME runs.
least() {
	local core=""
	[ "$1" = 1 ] && core="$one"
	(cd bench && GOMAXPROCS=$1 $core "$scratch/bench-$2" -test.run '^$' -test.bench "$4" -test.benchtime "$5" -test.count "$6") |
		awk '/ns\/op/ { for (i = 2; i <= NF; i++) if ($i == "ns/op" && (!t || $(i-1) < t)) t = $(i-1) } END { print t }' |
		while read -r ns; do put "$3:$2" "$ns"; done
}

# spent COMMAND…: the processor time of a command, in nanoseconds.
spent() {
	local TIMEFORMAT='%U %S'
	{ time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ printf "%.0f\n", 1e9*($1+$2) }'
}

c_stotos() {
	$one "$scratch/stotos_c" 1000 20 9 | awk -F'[:,"]+' '
		/"variant"/ { for (i = 1; i <= NF; i++) { if ($i == "variant") v = $(i+1); if ($i == "ns_per_iter_min") t[v] = $(i+1) } }
		END { print "lop", t["lop"]
			for (v in t) if (v ~ /^qop_(rowdot|rowdot4|colreg|sym8)$/ && (!best || t[v] < best)) best = t[v]
			print "qop", best }' | while read -r k ns; do put "c:$k" "$ns"; done
}

gradpass() { # n d mode
	$one "$scratch/gradpass" "$1" "$2" 1 "$4" "$3" | awk -F'[:,]' '{ for (i = 1; i <= NF; i++) if ($i == "\"ms_min\"") printf "%.0f\n", 1e6*$(i+1) }'
}

for round in $(seq "$rounds"); do
	echo "round $round of $rounds" >&2
	if [ -n "$have_numpy" ] && { want 1 || want 2 || want 3 || want 4; }; then
		$one "$python" "$PRIVOPT_PEERS/stotos_numpy.py" --reps 3 | "$python" -c '
import json, sys
j = json.load(sys.stdin)
for k in ("lop", "lop_clip", "qop", "qop_assoc"):
    print(k, 1e6 * j[k]["cpu_median"])' | while read -r k ns; do put "numpy:$k" "$ns"; done
	fi
	for build in default; do
		if want 1 || want 5; then ours $build lop 'Published/method=lop$/K=1000' 100x; fi
		if want 2 || want 5; then ours $build qop 'Published/method=qop/K=1000' 20x; fi
		if want 6; then
			least 1 $build lop1 'Published/method=lop$/K=1000' 3x 99
			least 1 $build lop3 'Published/method=lop$/K=3000' 3x 99
			least 1 $build qop1 'Published/method=qop/K=1000' 1x 49
			least 1 $build qop3 'Published/method=qop/K=3000' 1x 49
		fi
		if want 5 || want 4; then
			ours $build exact-lop 'Exact/method=lop' 400x
			ours $build exact-qop 'Exact/method=qop' 200x
		fi
		if want 4; then ours default wishart 'Wishart/by=randmat/d=100$' 100x; fi
		want 3 && put "figure-paper:$build" "$(GOMAXPROCS=1 spent $one "$scratch/scaling-$build" -mode paper -methods lop,lop-clip,qop -formats csv,json -quiet -force -out "$scratch/out")"
		want 4 && put "figure-certified:$build" "$(GOMAXPROCS=1 spent $one "$scratch/scaling-$build" -mode certified -methods lop,lop-clip,qop -formats csv,json -quiet -force -out "$scratch/out")"
	done
	if [ -x "$scratch/stotos_c" ] && want 6; then c_stotos; fi
	if want 7 || want 8; then
		[ -n "$have_numpy" ] && $one "$python" bench/peers.py numpy | while read -r k ns; do put "numpy:$k" "$ns"; done
		ours default eig100 'TopEigenvalue/d=100$' 100x
		ours default eig1000 'TopEigenvalue/d=1000$' 3x
		for d in 100 200 500 1000; do
			times=$((3000 / d))x
			ours default wishart$d "Wishart/by=randmat/d=$d\$" "$times"
			[ "$d" -le 500 ] || [ "$round" = 1 ] || continue
			ours default distmat$d "Wishart/by=distmat/d=$d\$" 1x
		done
	fi
	if [ -x "$scratch/gradpass" ] && want 9; then
		for shape in "15682 23" "1000 100" "4000 50"; do
			set -- $shape
			put "c:pass$1" "$(gradpass "$1" "$2" 4 99)"
			for build in default; do
				least 1 $build pass$1 "Gradient/n=$1\$/d=$2\$/threads=1" 3x 99
			done
			least 2 default two$1 "Gradient/n=$1\$/d=$2\$/threads=2" 3x 99
		done
	fi
	if want 10 && [ $((round % 3)) = 1 ] && [ -x "$scratch/triad" ]; then
		put triad "$($one "$scratch/triad" 1 256 7 | awk -F'[:,]' '{ for (i = 1; i <= NF; i++) if ($i == "\"read_GBps_best\"") print $(i+1) }')"
		for build in default; do
			least 2 $build two100000 'Gradient/n=100000$/d=100$/threads=2' 1x 9
			least 1 $build one100000 'Gradient/n=100000$/d=100$/threads=1' 1x 9
		done
	fi
	if want 11 && [ -x "$scratch/gradpass" ]; then
		put "c:pass-lasso" "$(gradpass 1000 500 4 99)"
		for build in default; do
			ours $build lassobox 'LassoBox/part=solve' 20x
			ours $build lassobox-copy 'LassoBox/part=.*solve' 20x name
		done
	fi
	if want 12 && [ -n "$choices" ]; then
		$one "$python" bench/peers.py sklearn "$scratch" $choices | while read -r k ns; do put "sklearn:$k" "$ns"; done
		for build in default; do
			ours $build logistic-zeroone 'Logistic/data=zeroone' 3x
			if [ -f "$scratch/adult.bin" ]; then
				ours $build logistic-adult 'Logistic/data=adult/rows=sparse/g=l2' 1x
				ours $build logistic-adult-dense 'Logistic/data=adult/rows=dense/g=l2' 1x
			fi
		done
	fi
done

awk -F'\t' -v goals="$goals" '
	function asked(g) { return index(goals, " " g " ") }
	function sorted(s, v,    n, i, j, t) { n = split(s, v, " "); for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j]+0 < v[j-1]+0; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t } return n }
	function median(s,    v, n) { n = sorted(s, v); return n % 2 ? v[(n+1)/2] : (v[n/2] + v[n/2+1]) / 2 }
	# the median over the rounds of x(round)/y(round), or "" if a side is missing
	function ratio(a, b,    r, s) { s = ""; for (r = 1; r <= rounds; r++) if ((r, a) in t && (r, b) in t && t[r, b] > 0) s = s " " t[r, a] / t[r, b]; return s == "" ? "" : median(s) }
	function sum(key, parts,    r, v, n, i, x) { n = split(parts, v, ","); for (r = 1; r <= rounds; r++) { x = 0; for (i = 1; i <= n; i++) { if (!((r, v[i]) in t)) { x = -1; break } x += t[r, v[i]] } if (x >= 0) t[r, key] = x } }
	function least(key, pattern,    k, p, r) { for (k in t) { split(k, p, SUBSEP); if (p[2] ~ pattern && (!((p[1], key) in t) || t[k] < t[p[1], key])) t[p[1], key] = t[k] } }
	function per_step(key, a, b,    r) { for (r = 1; r <= rounds; r++) if ((r, a) in t && (r, b) in t) t[r, key] = (t[r, a] - t[r, b]) / 2000 }
	function verdict(g, what, x, op, bound) {
		if (!asked(g)) return
		if (x == "") { printf "%4s  %-68s %10s   goal %s %-6g  not judged: a side is missing\n", g, what, "", op, bound; return }
		printf "%4s  %-68s %10.3g   goal %s %-6g  %s\n", g, what, x, op, bound, (op == ">=" ? x >= bound : x <= bound) ? "met" : "NOT MET"
	}
	{ t[$1, $2] = $3; if ($1+0 > rounds) rounds = $1+0 }
	END {
		sum("numpy:all", "numpy:lop,numpy:lop_clip,numpy:qop_assoc")
		for (r = 1; r <= rounds; r++) if ((r, "numpy:all") in t) t[r, "numpy:all"] *= 1000
		nb = split("default", build, " ")
		for (i = 1; i <= nb; i++) {
			b = build[i]
			per_step("step-lop:" b, "lop3:" b, "lop1:" b); per_step("step-qop:" b, "qop3:" b, "qop1:" b)
			verdict(1, "stochastic LOP, 1000 steps, noise included: numpy / ours, " b, ratio("numpy:lop", "lop:" b), ">=", 60)
			verdict(2, "stochastic QOP, 1000 steps and set-up: numpy / ours, " b, ratio("numpy:qop_assoc", "qop:" b), ">=", 12)
			verdict(3, "whole experiment by stochastic steps: numpy / ours, " b, ratio("numpy:all", "figure-paper:" b), ">=", 40)
			verdict(4, "whole experiment, exact and certified: numpy / ours, " b, ratio("numpy:all", "figure-certified:" b), ">=", 60)
			for (r = 1; r <= rounds; r++) if ((r, "exact-lop:" b) in t && (r, "exact-qop:" b) in t && (r, "wishart:default") in t)
				t[r, "exact:" b] = 2000 * t[r, "exact-lop:" b] + 1000 * (t[r, "exact-qop:" b] + t[r, "wishart:default"])
			verdict(4, "  its 3000 solves, gap 1e-10, Wishart draws included, " b, ratio("numpy:all", "exact:" b), ">=", 140)
			verdict(5, "exact LOP / 1000 stochastic steps, " b, ratio("exact-lop:" b, "lop:" b), "<=", 0.5)
			verdict(5, "exact QOP / 1000 stochastic steps, " b, ratio("exact-qop:" b, "qop:" b), "<=", 0.5)
			verdict(6, "a step of LOP: ours / C, " b, ratio("step-lop:" b, "c:lop"), "<=", 1.5)
			verdict(6, "a step of QOP: ours / the best C in double precision, " b, ratio("step-qop:" b, "c:qop"), "<=", 1.6)
		}
		verdict(7, "largest eigenvalue, d = 100: ours / numpy norm(W, 2)", ratio("eig100:default", "numpy:norm100"), "<=", 0.35)
		verdict(7, "largest eigenvalue, d = 1000: ours / numpy norm(W, 2)", ratio("eig1000:default", "numpy:norm1000"), "<=", 0.1)
		for (d = 100; d <= 1000; d = d == 200 ? 500 : 2*d) verdict(8, "Wishart draw, d = " d ": ours / distmat.Wishart", ratio("wishart" d ":default", "distmat" d ":default"), "<=", 0.35)
		verdict(8, "Wishart draw, d = 100: ours / numpy", ratio("wishart100:default", "numpy:wishart100"), "<=", 0.9)
		for (i = 1; i <= nb; i++) {
			b = build[i]
			verdict(9, "gradient pass 15682x23: ours / C, " b, ratio("pass15682:" b, "c:pass15682"), "<=", 1.3)
			verdict(9, "gradient pass 1000x100: ours / C, " b, ratio("pass1000:" b, "c:pass1000"), "<=", 1.8)
			verdict(9, "gradient pass 4000x50: ours / C, " b, ratio("pass4000:" b, "c:pass4000"), "<=", 1.8)
		}
		verdict(9, "gradient pass 15682x23: one thread / two", ratio("pass15682:default", "two15682:default"), ">=", 1.6)
		for (i = 1; i <= nb; i++) {
			b = build[i]
			for (r = 1; r <= rounds; r++) if ((r, "triad") in t && (r, "one100000:" b) in t) t[r, "rate:" b] = 8e7 / t[r, "one100000:" b]
			verdict(10, "gradient pass 100000x100: share of the read rate of triad.c, " b, ratio("rate:" b, "triad"), ">=", 0.5)
			verdict(10, "gradient pass 100000x100: one thread / two, " b, ratio("one100000:" b, "two100000:" b), ">=", 1.6)
		}
		for (i = 1; i <= nb; i++) {
			b = build[i]
			verdict(11, "lasso in a box to a gap of 1e-6: ours / one pass of gradpass.c, " b, ratio("lassobox:" b, "c:pass-lasso"), "<=", 40)
			x = ratio("lassobox-copy:" b ":LassoBox/part=copy+solve", "c:pass-lasso")
			if (asked(11) && x != "") printf "%4s  %-68s %10.3g\n", "", "  the same with the copy of A by columns", x
		}
		least("sklearn:zeroone", "^sklearn:zeroone:"); least("sklearn:adult", "^sklearn:adult"); least("sklearn:adult-dense", "^sklearn:adult:")
		for (i = 1; i <= nb; i++) {
			b = build[i]
			verdict(12, "logistic 15682x23 to 1e-6: ours / the best of scikit-learn, " b, ratio("logistic-zeroone:" b, "sklearn:zeroone"), "<=", 1.5)
			verdict(12, "logistic Adult, sparse rows: ours / the best of scikit-learn, " b, ratio("logistic-adult:" b, "sklearn:adult"), "<=", 2)
			x = ratio("logistic-adult-dense:" b, "sklearn:adult-dense")
			if (asked(12) && x != "") printf "%4s  %-68s %10.3g\n", "", "  dense rows / the best of scikit-learn on dense rows, " b, x
		}
	}' "$results"
if [ -s "$missing" ]; then
	echo "missing:"
	sort -u "$missing" | sed 's/^/  /'
fi
if [ -n "${BENCH_KEEP:-}" ]; then cp "$results" "$BENCH_KEEP"; fi
