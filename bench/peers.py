#!/usr/bin/env python3
"""The Python side of bench/peers.sh: prints "key nanoseconds" of processor time.

usage: peers.py numpy | sklearn FOLDER [choices]

numpy    norm(W, 2) at d = 100, 1000 and a Wishart draw randn(d, 2d) @ its transpose at d = 100
sklearn  logistic regression, C = 1 and no intercept, on FOLDER/zeroone.bin and FOLDER/adult.bin (see
         TestWrite), for each solver the loosest tolerance in decades that reaches a relative accuracy of
         1e-6. Without choices these are searched for and printed as "solver:data:tolerance".
"""
import sys
import time
import warnings

import numpy as np


def timed(f, repetitions):
    times = []
    for _ in range(repetitions):
        start = time.process_time()
        f()
        times.append(time.process_time() - start)
    return 1e9 * float(np.median(times))


def arrays():
    rng = np.random.RandomState(1)
    for d, repetitions in ((100, 30), (1000, 1)):
        g = rng.randn(d, 2 * d)
        w = g @ g.T
        print(f"norm{d}", timed(lambda: np.linalg.norm(w, 2), repetitions))

    def wishart():
        g = rng.randn(100, 200)
        return g @ g.T

    print("wishart100", timed(wishart, 100))


def load(path, sparse):
    v = np.fromfile(path, dtype="<f8")
    n, d = int(v[0]), int(v[1])
    x, y = v[2 : 2 + n * d].reshape(n, d), v[2 + n * d :]
    if sparse:
        from scipy.sparse import csr_matrix

        return csr_matrix(x), y
    return np.ascontiguousarray(x), y


def logistic(folder, choices):
    from sklearn.linear_model import LogisticRegression

    warnings.filterwarnings("ignore")

    def fit(solver, x, y, tol):
        return LogisticRegression(C=1, fit_intercept=False, solver=solver, tol=tol, max_iter=1000).fit(x, y).coef_[0]

    forms = {"zeroone": [False], "adult": [False, True]}
    for name in ("zeroone", "adult"):
        for sparse in forms[name]:
            try:
                x, y = load(f"{folder}/{name}.bin", sparse)
            except FileNotFoundError:
                continue
            key = name + ("-sparse" if sparse else "")

            def value(w):
                return np.logaddexp(0, -y * (x @ w)).sum() + 0.5 * w @ w

            if choices:
                for solver, data, tol in (c.split(":") for c in choices):
                    if data == key:
                        print(f"{key}:{solver}", timed(lambda: fit(solver, x, y, float(tol)), 1))
                continue
            solvers = ["lbfgs", "liblinear"] + ([] if sparse else ["newton-cholesky"])
            best = value(fit("lbfgs" if sparse else "newton-cholesky", x, y, 1e-12))
            for solver in solvers:
                for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8):
                    if value(fit(solver, x, y, tol)) - best <= 1e-6 * best:
                        print(f"{solver}:{key}:{tol:g}")
                        break


if __name__ == "__main__":
    if sys.argv[1:] == ["numpy"]:
        arrays()
    elif len(sys.argv) >= 3 and sys.argv[1] == "sklearn":
        logistic(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(__doc__)
