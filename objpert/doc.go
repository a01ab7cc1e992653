// Package objpert is private optimization without convexity: it minimizes a
// perturbed risk over a finite set, exactly, and releases the minimizer,
//
//	w = argmin over v ∈ W of  L(v) − ⟨η, φ(v)⟩,   L a sum over the records
//
// The search for the minimizer is an Oracle, which brackets the optimum and says
// whether it proved it. The loss is the 0/1 loss of halfspaces, or any bounded
// loss that a caller's oracle knows.
//
// # When to use it
//
// OPDisc on Lattice(Q) with a small Q, say 2 or 4: its noise grows with Q. Product
// for a box of values without a ball, such as {−1,0,1}ᵈ. RSPM to compare with the
// literature. SampleAndAggregate where no search can be expected to end. OPSamp,
// for a continuous set and gaps that are certified but not zero, is a reference:
// its bound on the excess risk is vacuous unless the loss is convex and
// d < √(nε)/8.
//
// # Why a release is private
//
// Every w has a shift s_w of the noise that makes up for one record: if noise h makes w the minimizer
// on D, then h + s_w makes it the minimizer on D′. So a law with p(h) ≤ e^ε p(h + s_w) is ε-private. The
// proofs, laws and events of the noise are docs/theory/discrete.md, by the identifiers below.
//
// The argument needs the exact minimizer for every value of the noise: a point within a gap of the
// minimum has no guarantee whatever, and is withheld. What is drawn is an integer with exactly the law
// of a rounded real one; the searches compare in integers, so that no rounding takes part in a
// guarantee. If the noise exceeds 2⁵⁹ steps, which a search cannot hold, the mechanism releases a random
// point that does not depend on the records; pure mechanisms do the same with probability 2⁻⁶⁴. What
// records hold never makes a fit end in an error, but that a search may not complete.
//
// # Cost
//
// The searches are exponential in the worst case. BenchmarkExperiment measures
// the data they were made for; BenchmarkAdult one-hot data of 23 to 60
// columns and BenchmarkDense dense rows, with the gap where a minute is not enough:
//
//	PRIVOPT_DATA=… go test ./objpert -run xxx -bench Experiment -benchtime 75x
//	PRIVOPT_DATA=… go test ./objpert -run xxx -bench 'Adult|Dense' -benchtime 1x
//
// # Theorems
//
//	identifier                statement                                             needs
//	objpert.radial/2          density ∝ exp(−ε‖η‖₂/Δ): ε-private                    Lattice or {−1,+1}ᵈ
//	objpert.gaussian/2        E(1 − exp(ε − ΔR/σ − Δ²/2σ²))₊ ≤ δ, R ~ χ_m           the same, δ > 0
//	objpert.sigma/2           the same at the least ε for a given σ                 the same, δ > 0
//	objpert.knorm/2           P ∝ e^{−gauge/t} on integers: ε-private [HT10]        any W
//	objpert.onesided/2        geometric, t = ms/ε: ε-private                        any W
//	objpert.rspm-laplace/2    discrete Laplace, t = ms/ε: ε-private [NRW19]         a separator of size m
//	objpert.rspm-gaussian/2   (2Φ(t)e^{t²/2})ᵐ e^{−t x₀} a/(a+t) ≤ δ                the same, δ > 0
//	objpert.rspm-sigma/2      the same at the least ε for a given σ                 the same, δ > 0
//	objpert.opsamp/2          E‖w(D) − w(D′)‖₁ ≤ S, Chernoff, Laplace               ℓ₁-Lipschitz losses, certified gap
//	objpert.aggregate/2       objpert.knorm/2 or onesided/1 on votes of blocks      nothing
//	objpert.failure/2(…)      withheld releases cost (1 + e^ε)β of δ                P(failure) ≤ β asserted
//
// # Notation
//
//	n, d         records; parameters, Dim
//	W, V_j       Space: the set, the values that coordinate j admits
//	Q, D, τ      Space.NormSq = D²/τ²: in units of the lattice τ = 1
//	L, R, G      the loss; Range and Lipschitz constant of one record's
//	η, φ         noise; features: π for OPDisc, indicators for Product, −b for RSPM
//	π(w)         (w, √(Q − ‖w‖²))/√Q, a unit vector
//	Δ, s         Params.Shift
//	m            Params.Noises
//	T, z         table and norm of Problem.Noise
//	g, b         2^Params.Exponent, Params.FeatureBits
//	t            Params.Time, scale of integer noise in steps of g
//	S, λ         SampParams.Stability, SampParams.Lambda
//
// # References
//
//	[BW18]    Balle, Wang. Improving the Gaussian Mechanism for Differential
//	          Privacy. ICML 2018.
//	[HT10]    Hardt, Talwar. On the Geometry of Differential Privacy. STOC 2010.
//	[NRVW20]  Neel, Roth, Vietri, Wu. Oracle Efficient Private Non-Convex
//	          Optimization. ICML 2020.
//	[NRW19]   Neel, Roth, Wu. How to Use Heuristics for Differential Privacy.
//	          FOCS 2019.
//	[SN20]    Suggala, Netrapalli. Online Non-Convex Learning: Following the
//	          Perturbed Leader is Optimal. ALT 2020.
package objpert
