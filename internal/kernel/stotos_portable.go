//go:build !goexperiment.simd || !amd64 || noasm || gccgo || safe || purego

package kernel

func shrinkDot(theta, x, a []float64, tau float64) float64 { return shrinkDotGo(theta, x, a, tau) }

func relax(x, theta, a, q []float64, alpha, c, omega, lo, hi, lambda float64) {
	relaxGo(x, theta, a, q, alpha, c, omega, lo, hi, lambda)
}

func symv(dst, q, x []float64) { symvGo(dst, q, x) }
