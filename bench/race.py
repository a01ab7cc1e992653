#!/usr/bin/env python3
"""The Python side of the accuracy races of cmd/research results.

usage: race.py PEERS WORK data
       race.py PEERS WORK squares SEED [runs] [eps,eps,…]
       race.py PEERS WORK accuracy SEED [runs] [eps,eps,…]

PEERS holds mkdata.py, peers.py and cls_peers.py. data writes the sets of the race into WORK/data, unless they are
there: NAME.X and NAME.y, little-endian float64, NAME.shape, "rows columns", and the same of the test split
under NAME-test. squares and accuracy write a table of results: R² of least squares, accuracy on Adult.
Relation add-remove, δ = 1/n², n public.
"""
import csv
import os
import subprocess
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

SETS = (
    "syn-1e3-5 syn-1e4-5 syn-1e4-20 syn-1e5-20 syn-1e4-100 syn-1e5-100 syn-1e4-20-skew syn-1e5-20-skew "
    "adult-hours adult-age adult-hours-small diabetes digits"
).split()


def data(peers, work):
    done = os.path.join(work, "data", "complete")
    if os.path.exists(done):
        return
    os.makedirs(work, exist_ok=True)
    subprocess.run([sys.executable, os.path.join(peers, "mkdata.py")], cwd=work, check=True, stdout=subprocess.DEVNULL)
    for name in SETS:
        z = np.load(os.path.join(work, "data", name + ".npz"))
        base = os.path.join(work, "data", name + "-test")
        z["Xte"].astype("<f8").tofile(base + ".X")
        z["yte"].astype("<f8").tofile(base + ".y")
        with open(base + ".shape", "w") as f:
            f.write("%d %d" % z["Xte"].shape)
    open(done, "w").close()


def report(values):
    """values: (part, method, ε) → outcomes"""
    out = csv.writer(sys.stdout)
    out.writerow("part sweep value method runs mean std stderr".split())
    for (part, method, eps), v in values.items():
        v = np.asarray(v, dtype=float)
        std = v.std(ddof=1) if len(v) > 1 else 0.0
        out.writerow([part, "eps", eps, method, len(v)] + ["%.6g" % x for x in (v.mean(), std, std / len(v) ** 0.5)])


def squares(peers, work, seed, runs, epsilons):
    import peers as p

    # Off the diagonal half the variance is enough: the Frobenius norm of aa' counts these entries twice.
    def symnoise(g, d, s):
        z = g.normal(size=(d, d)) * s
        return (z + z.T) / 2

    p.symnoise = symnoise
    grid = [(10, 1, 1.0), (10, 4, 1.0), (10, 16, 1.0), (10, 4, 0.3), (10, 16, 0.3), (10, 64, 0.1), (30, 4, 0.3), (30, 16, 0.1)]
    values = {}
    for name in SETS:
        z = np.load(os.path.join(work, "data", name + ".npz"))
        r, x, y = p.Reg(z["Xtr"], z["ytr"]), z["Xte"], z["yte"]
        total = ((y - r.y.mean()) ** 2).mean()
        if r.n * r.d > 3e6:  # float32 halves the time of gradient descent and leaves the statistics alone
            r.X = r.X.astype(np.float32)

        def r2(theta):
            return [1 - ((y - x @ t) ** 2).mean() / total for t in np.atleast_2d(theta)]

        for eps in epsilons:
            delta = 1.0 / r.n**2
            g = np.random.default_rng([seed, SETS.index(name), int(1000 * eps)])
            once = {
                "SSP": p.ssp_ridge,
                "AdaSSP, exact": p.adassp_gdp,
                "AdaSSP, published": p.adassp_pub,
            }
            for peer, f in once.items():
                values[peer, name, eps] = sum((r2(f(r, eps, delta, "ar", g)) for _ in range(runs)), [])
            values["boosted AdaSSP", name, eps] = r2(p.boosted(r, eps, delta, "ar", g, k=runs))
            for steps in (20, 100):
                values["DP-GD, T = %d" % steps, name, eps] = r2(p.dpgd(r, eps, delta, "ar", g, steps, 1.0, k=runs))
            tried = [r2(p.dpgd(r, eps, delta, "ar", g, t, eta, clip, k=min(runs, 5))) for t, eta, clip in grid]
            tried += [values["DP-GD, T = %d" % steps, name, eps] for steps in (20, 100)]
            values["DP-GD, best on the test set", name, eps] = max(tried, key=np.mean)
            values["0 for every record", name, eps] = r2(np.zeros(r.d))
    report(values)


def accuracy(peers, work, seed, runs, epsilons):
    import cls_peers as p

    z = np.load(os.path.join(work, "data", "adult-income.npz"))
    r = p.Reg(z["Xtr"], z["ytr"])
    delta = 1.0 / r.n**2
    peers = {
        "CMS11": lambda eps, g: p.cms11(r, eps, "ar", g, 1 / r.n),
        "AMP": lambda eps, g: p.amp(r, eps, delta, "ar", g),
        "DP-Newton": lambda eps, g: p.dp_newton(r, eps, delta, "ar", g, 5),
    }
    values = {}
    for eps in epsilons:
        for k, (peer, f) in enumerate(peers.items()):
            g = np.random.default_rng([seed, k, int(1000 * eps)])
            values["peer", peer, eps] = [p.acc(z, f(eps, g))[0] for _ in range(runs)]
    report(values)


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[3] not in ("data", "squares", "accuracy"):
        sys.exit(__doc__)
    peers, work, what = sys.argv[1:4]
    sys.path.insert(0, peers)
    sys.dont_write_bytecode = True
    if what == "data":
        data(peers, work)
    else:
        seed = int(sys.argv[4])
        runs = int(sys.argv[5]) if len(sys.argv) > 5 else 10
        default = "0.1,0.3,1,3" if what == "squares" else "0.05,0.1,0.2,0.5,1,2"
        epsilons = [float(e) for e in (sys.argv[6] if len(sys.argv) > 6 else default).split(",")]
        with np.errstate(all="ignore"):  # methods that diverge are counted as they are
            {"squares": squares, "accuracy": accuracy}[what](peers, work, seed, runs, epsilons)
