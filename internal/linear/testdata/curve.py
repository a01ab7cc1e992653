# Reference values for the curves of package lop, 50 digits, mpmath 1.3.0:
#   python3 curve.py > curve.json
# Every value is computed from the definition (an integral over the density of
# chi_q), not from the closed forms and panels that the package uses.
import json
from mpmath import mp, mpf, quad, exp, log, sqrt, ncdf, gammainc, gamma, inf, findroot

mp.dps = 50


def surv(x, q):  # P(chi_q > x)
    return gammainc(mpf(q) / 2, x * x / 2, inf, regularized=True)


def dens(x, q):
    return 2 * (x / 2 if q == 2 else x ** (q - 1) * mpf(2) ** (-mpf(q) / 2)) * exp(-x * x / 2) / gamma(mpf(q) / 2)


def nodes(lo, q):
    mid = max(sqrt(mpf(q)), lo)
    return sorted({lo, lo + mpf(1) / 64, lo + mpf(1) / 16, lo + mpf(1) / 4, lo + mpf(1) / 2, lo + 1, lo + mpf(3) / 2, lo + 2, lo + mpf(5) / 2, lo + 3, mid, mid + 1, mid + 3, mid + 8, mid + 20, mid + 60})


def curve(e1, s, q):  # E (1 - exp(e1 - s^2/2 - s chi))_+
    r0 = e1 / s - s / 2
    lo = max(r0, mpf(0))
    up = exp(lo * lo / 2)  # quad's tolerance is absolute
    return quad(lambda x: up * (1 - exp(s * (r0 - x))) * dens(x, q), nodes(lo, q)) / up


def sigma(e1, delta, q):  # 1/s with curve = delta
    f = lambda ls: log(curve(e1, exp(ls), q)) - log(delta)
    r = sqrt(2 * log(1 / delta)) + sqrt(mpf(q))
    lo = log(2 * e1 / (r + sqrt(r * r + 2 * e1)))
    return exp(-findroot(f, (lo, lo + mpf(1) / 2), solver="anderson", tol=mpf(10) ** -30))


def mgf(t, q):
    m = (t + sqrt(t * t + 4 * (q - 1))) / 2
    pts = sorted({mpf(0), max(m - 20, mpf(0)), max(m - 6, mpf(0)), m, m + 6, m + 20, m + 60})
    return log(quad(lambda x: dens(x, q) * exp(t * x), pts))


def gauss(y, o):
    return ncdf(o / 2 - y / o) - exp(y) * ncdf(-o / 2 - y / o)


def joint(e1, s, q, o):
    r0 = e1 / s - s / 2
    w = o / s
    pts = {mpf(0)}
    for k in (-40, -20, -10, -5, -2, 0, 2, 5, 10, 20, 40):
        pts.add(max(r0 + k * w, mpf(0)))
    top = max(pts)
    pts |= {top + 1, top + 3, top + 8, top + 20, top + 60}
    up = exp(max(r0, mpf(0)) ** 2 / 2)
    return quad(lambda x: up * dens(x, q) * gauss(s * (r0 - x), o), sorted(pts)) / up


F = lambda v: mp.nstr(v, 20)
out = {"curve": [], "sigma": [], "mgf": [], "joint": []}
for q in (1, 2, 3, 4, 7, 20, 100):
    for e1, s in ((0.5, 0.05), (1, 0.16), (0.9, 0.3), (2, 0.9), (0.01, 0.02), (5, 2.5), (0.3, 1), (-0.2, 0.4), (30, 6), (0.02, 0.001), (3, 0.05)):
        e1, s = mpf(e1), mpf(s)
        out["curve"].append({"e1": float(e1), "s": float(s), "q": q, "log_delta": F(log(curve(e1, s, q)))})
    for e1, delta in ((0.01, 1e-3), (0.5, 1e-2), (0.5, 1e-6), (0.95, 1e-5), (4, 1e-9), (1, 1e-30), (1, 1e-250), (20, 1e-2), (100, 1e-5), (1e-4, 1e-8)):
        out["sigma"].append({"e1": e1, "delta": delta, "q": q, "sigma": F(sigma(mpf(e1), mpf(delta), q))})
    for t in (0.01, 0.5, 3, 40, -0.01, -0.5, -6):
        out["mgf"].append({"t": t, "q": q, "log": F(mgf(mpf(t), q))})
    for e1, s, o in ((0.6, 0.14, 0.01), (1.5, 0.3, 0.1), (0.2, 0.1, 0.5), (-0.1, 0.2, 0.02), (3, 0.2, 0.3), (0.7, 0.14, 0.0005)):
        out["joint"].append({"e1": e1, "s": s, "q": q, "o": o, "log_delta": F(log(joint(mpf(e1), mpf(s), q, mpf(o))))})
print(json.dumps(out, indent=0))
