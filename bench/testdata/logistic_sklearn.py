"""The other side of TestLogisticRace: logistic regression by scikit-learn, C = 1, no intercept.

usage: logistic_sklearn.py FILE RECORDS FEATURES

FILE holds the rows and then the labels, little-endian float64. For each line of the standard
input it fits once and prints the seconds, the seconds of processors, and the coefficients.
"""
import sys
import time

import numpy as np
from sklearn.linear_model import LogisticRegression

n, d = int(sys.argv[2]), int(sys.argv[3])
v = np.fromfile(sys.argv[1], dtype="<f8")
x, y = np.ascontiguousarray(v[: n * d].reshape(n, d)), v[n * d :].copy()
del v
for _ in sys.stdin:
    start, spent = time.perf_counter(), time.process_time()
    m = LogisticRegression(C=1, tol=1e-8, solver="lbfgs", max_iter=10000, fit_intercept=False).fit(x, y)
    print(time.perf_counter() - start, time.process_time() - spent, *m.coef_[0], flush=True)
