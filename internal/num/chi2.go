package num

import "math"

// Chi2LogPDF returns the log density at x of the χ² law with ν = nu > 0
// degrees of freedom,
//
//	(ν/2-1) log(x/2) - x/2 - log Γ(ν/2) - log 2
func Chi2LogPDF(x, nu float64) float64 {
	switch {
	case !(nu > 0) || math.IsInf(nu, 1) || math.IsNaN(x):
		return math.NaN()
	case x < 0 || math.IsInf(x, 1):
		return math.Inf(-1)
	case x/2 == 0 && nu == 2: // x/2 may underflow
		return -math.Ln2
	case x/2 == 0:
		return math.Inf(int(math.Copysign(1, 2-nu)))
	}
	return logPoisson(nu/2, x/2) + Log(nu/2) - Log(x)
}

// Chi2LogCDF returns the log probability that a χ² variable is at most x.
func Chi2LogCDF(x, nu float64) float64 { return GammaLogP(nu/2, x/2) }

// Chi2LogSF returns the log probability that a χ² variable exceeds x.
func Chi2LogSF(x, nu float64) float64 { return GammaLogQ(nu/2, x/2) }

// Chi2CDF returns the probability that a χ² variable is at most x.
func Chi2CDF(x, nu float64) float64 { return math.Exp(Chi2LogCDF(x, nu)) }

// Chi2SF returns the probability that a χ² variable exceeds x.
func Chi2SF(x, nu float64) float64 { return math.Exp(Chi2LogSF(x, nu)) }

// Chi2Quantile returns the point below which a χ² variable falls with log
// probability logp ≤ 0.
func Chi2Quantile(logp, nu float64) float64 { return 2 * GammaInvLogP(nu/2, logp) }

// Chi2UpperQuantile returns the point that a χ² variable exceeds with log
// probability logp ≤ 0.
func Chi2UpperQuantile(logp, nu float64) float64 { return 2 * GammaInvLogQ(nu/2, logp) }
