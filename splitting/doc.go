// Package splitting minimizes f(x) + g(x) + h(Kx), where f is smooth, g and h
// are known by their proximal maps and K is linear: constraints, norms and
// penalties that are not differentiable, sums over records, one or two such
// terms at a time. Every answer comes with a bound on how far it is from the
// minimizer, wherever mathematics has one. The package knows nothing of
// records or privacy.
//
//	f, _ := splitting.NewLeastSquares(a, b)
//	p := splitting.Problem{F: f, G: prox.L1{Weight: 0.1}, H: prox.Box{Lo: 0, Hi: 1}}
//	res, err := splitting.Minimize(ctx, p, x0, nil)
//
// # Choosing a method
//
// Minimize chooses, see there. By hand:
//
//	method                     takes                      a step costs              what it promises
//	CoordinateDescent          quadratic F, on Q or on    one sweep, or a round     exact up to rounding;
//	                           columns; G+H               over an active set        a duality gap
//	                           coordinatewise
//	ProxNewton                 F with a Hessian; G+H      Hessian, and sweeps or    superlinear
//	                           coordinatewise or a        Cholesky factors
//	                           ball, d ≤ 2000
//	LBFGS                      G+H nothing, or ‖x‖²        value and gradient        linear if strongly convex
//	ForwardBackward            G+H in closed form         one gradient, one prox    1/k², linear if strongly
//	                                                                                convex; searches for L_f
//	BackwardForward            G+H in closed form         one gradient, one prox    the same without momentum
//	DavisYin                   any G and H                one gradient, two proxes  1/k; searches for L_f
//	DouglasRachford            quadratic F, or none       a d×d solve, a prox       linear if strongly convex,
//	                                                                                at √(L_f/μ)
//	PrimalDual                 any G, H and K             one gradient, two proxes, 1/k, 1/k² if strongly convex
//	                                                      K and Kᵀ once each
//	FrankWolfe                 G or H a bounded           a gradient, a linear      1/k; on a simplex or ℓ1
//	                           prox.LinearMinimizer       minimization              ball linear if strongly
//	                                                                                convex; the gap
//	ProxSVRG, ProxSAGA         a FiniteSum; G+H in        one or two terms, a prox  linear, n + L/μ terms
//	                           closed form                                          a digit
//	VarianceReducedTOS         a FiniteSum; any G and H   one or two terms, two     converges
//	                                                      proxes
//	StochasticBackwardForward  a FiniteSum; G+H in        one or two terms, a prox  as its Estimator
//	                           closed form
//	StochasticTOS              a FiniteSum; any G and H   one term, two proxes      biased, or 1/k; proves
//	                                                                                nothing
//
// G+H in closed form means that prox.Sum(G, H) knows its proximal map, as for
// an ℓ1 norm with a box, a ball or total variation. Some advice:
//
//   - Two functions without a closed-form sum: DavisYin; if its steps are short,
//     with Rule: LineSearch, which may be worth a factor of ten (below).
//   - Logistic regression, robust regression: NewLogistic, NewHuber, which have a Hessian.
//   - A nuclear ball of large matrices, or iterates of few vertices: FrankWolfe with Settings.Gap.
//   - No Lipschitz constant: ForwardBackward and DavisYin search by themselves
//     where Smoothness is +Inf.
//   - Overlapping groups, where each meets its neighbors only: prox.SplitGroups
//     gives the G and the H. With more overlap: a Selection as K.
//   - Total variation along a line: prox.TotalVariation, also with an ℓ1 norm (the
//     fused lasso). On a graph or an image: Differences as K.
//   - Many records, moderate accuracy: ProxSAGA if n·d numbers fit, else ProxSVRG.
//   - A sequence of weights or of boxes: Path.
//   - To watch: Settings.Recorder = LogSpaced(10, &Trace{Func: p.Func}).
//
// How they converge is drawn by
//
//	go run ./cmd/research convergence
//
// in docs/results/convergence-deterministic.png (a lasso in a box), -adaptive.png
// (overlapping groups: the search needs 500 iterations where fixed steps need
// more than 3000) and -bias.png (stochastic three-operator splitting stays
// away from the minimizer, variance reduction reaches it, in fewer passes over
// the data than DavisYin).
//
// # Certificates
//
// Location.Residual is at least the norm of an element of ∂J(X), or plays its part:
// a μ-strongly convex J has
//
//	‖X − x*‖ ≤ Residual/μ,   J(X) − J* ≤ Residual²/(2μ).
//
// From a step y = prox_{γg}(z), p = 2y − z − γ∇f(y), x = prox_{γh}(p) the methods that
// know no more than that prove, in this order,
//
//	h = 0      at X = y: δ = (x−y)/γ = −(∇f(y) + (z−y)/γ) is in −∂J(y)
//	g+h known  at X = prox_{cψ}(y − c∇f(y)), ψ = g+h, c = min{γ, 1/L_f}: the element
//	           e = ∇f(X) − ∇f(y) + (y−X)/c of ∂J(X) has ‖e‖ ≤ ‖y−X‖/c, because I − c∇f is
//	           nonexpansive; if L_f is unknown ∇f(X) is computed
//	else       at X = x or y, the better so far: the gap Γ below, which is a difference of
//	           objective values and so stays above some 1e-14·|J|. The residual is √(2μΓ) for a
//	           strongly convex J, and +Inf for another: Settings.Gap ends the solve then, or
//	           rounding, as Stalled. Γ is +Inf if no minimizer is known to be bounded
//
// The gap: u = (z−y)/γ ∈ ∂g(y), v = (p−x)/γ ∈ ∂h(x) and δ = (x−y)/γ = −∇f(y)−u−v give, by
// μ-strong convexity of f at y and convexity of g at y and of h at x, for every w
//
//	J(w) ≥ f(y) + g(y) + h(x) + ⟨v,y−x⟩ − ⟨δ,w−y⟩ + (μ/2)‖w−y‖²
//	     ≥ f(y) + g(y) + h(x) + ⟨v,y−x⟩ − ‖δ‖²/(2μ) =: J_low,   Γ = J(X) − J_low.
//
// If g is strongly convex its modulus adds to that of f; that of h adds (μ_h/2)‖w−x‖². Without strong
// convexity w = x* will do: ⟨δ,x*−y⟩ ≤ ‖δ‖(‖x*‖+‖y‖) takes the place of ‖δ‖²/(2μ), and in the first two
// rows J(X) − J* ≤ Residual·(‖X‖+‖x*‖), where
//
//	‖x*‖ ≤ the radius of G or H, if it is a prox.Set
//	     ≤ √(Σ_{i∉U} max(lo_i²,hi_i²) + (J(X)/w)²) if f, g, h ≥ 0 and G + H ≥ w‖x_U‖, U the coordinates
//	       without bounds: ℓ1, ℓ2, ℓ∞, sorted, group and nuclear norms are seen to grow so.
//
// # The inequality
//
// One inequality is behind every three-operator method here. For any v in
// place of the gradient let
//
//	y = prox_{γg}(z),   x = prox_{γh}(2y − z − γv),   z⁺ = z + x − y,   u = (z−y)/γ,
//
// x* a minimizer, u* ∈ ∂g(x*) with −∇f(x*) − u* ∈ ∂h(x*), z* = x* + γu* and e = v − ∇f(x*).
// Then
//
//	‖z⁺−z*‖² ≤ ‖y−x*‖² + γ²‖u−u*‖² − ‖x−y‖² − 2γ⟨x−x*, e⟩
//	         ≤ ‖z−z*‖² − 2γ⟨y−x*, e⟩ + γ²‖e‖².
//
// Proof. With a = z−z*, b = y−x*, c = x−x*: monotonicity of ∂h says
// ⟨c, 2b − a − γe − c⟩ ≥ 0, so ‖a+c−b‖² = ‖a‖² + 2⟨a,c−b⟩ + ‖c−b‖² ≤
// ‖a‖² − ‖c−b‖² − 2⟨b,a−b⟩ − 2γ⟨c,e⟩, and a−b = γ(u−u*), ‖a‖² = ‖b‖² + 2⟨b,a−b⟩ + ‖a−b‖²;
// the second line is −2γ⟨c−b,e⟩ ≤ ‖c−b‖² + γ²‖e‖² and monotonicity of ∂g,
// ⟨b,u−u*⟩ ≥ 0.
//
// With v = ∇f(y) it is the convergence of DavisYin for γ < 2/L_f, by cocoercivity,
// and of its variable steps; with v unbiased that of StochasticTOS up to the
// noise at the minimizer, and of VarianceReducedTOS, whose noise vanishes there.
//
// # Notation
//
//	f, g, h, K  Problem.F, Problem.G, Problem.H, Problem.K
//	J           f + g + h∘K
//	x*, u*      the minimizer, and a dual solution as in The inequality
//	γ, τ, σ     step sizes, gamma, tau, sigma or StepSize, Tau, Sigma
//	L_f, μ      Smooth.Smoothness, Convex.Convexity
//	fᵢ, n, L    the terms of a FiniteSum, Len, and n·maxᵢ L_fᵢ, TermSmoother
//	λ_k         relaxation at iteration k
//	z, y, x     the governing sequence and the two shadow sequences
//	Q, lin      the coefficients of a quadratic f, Quadratizer
//	‖e‖         the norm of an element of ∂J(X), Location.Residual
//
// # Lengths
//
// Functions that compute with vectors panic where lengths do not match, as those of gonum do: that is
// a mistake in the program. Constructors, and functions that return an error, report it.
//
// # References
//
//	[DY17]   Davis, Yin. A Three-Operator Splitting Scheme and its
//	         Optimization Applications. Set-Valued Var. Anal. 2017.
//	[PG18]   Pedregosa, Gidel. Adaptive Three Operator Splitting. ICML 2018.
//	[BCG11]  Becker, Candès, Grant. Templates for convex cone problems with
//	         applications to sparse signal recovery. Math. Prog. Comp. 2011.
//	[YVC16]  Yurtsever, Vũ, Cevher. Stochastic Three-Composite Convex
//	         Minimization. NIPS 2016.
//	[YGS21]  Yurtsever, Gu, Sra. Three Operator Splitting with Subgradients,
//	         Stochastic Gradients, and Adaptive Learning Rates. NeurIPS 2021.
//	[CC26]   Cortild, Cartis. Quadratic Objective Perturbation:
//	         Curvature-Based Differential Privacy. 2026. Algorithm G.2.
//	[CC26b]  Cortild, Cartis. Stochastic Krasnoselskii-Mann Iterations:
//	         Convergence without Uniformly Bounded Variance. 2026.
//	[PFC19]  Pedregosa, Fatras, Casotto. Proximal Splitting Meets Variance
//	         Reduction. AISTATS 2019.
//	[SCMR22] Salim, Condat, Mishchenko, Richtárik. Dualize, Split, Randomize:
//	         Toward Fast Nonsmooth Optimization Algorithms. J. Optim. Theory
//	         Appl. 2022.
//	[JZ13]   Johnson, Zhang. Accelerating Stochastic Gradient Descent using
//	         Predictive Variance Reduction. NIPS 2013.
//	[XZ14]   Xiao, Zhang. A Proximal Stochastic Gradient Method with
//	         Progressive Variance Reduction. SIAM J. Optim. 2014.
//	[DBL14]  Defazio, Bach, Lacoste-Julien. SAGA: A Fast Incremental Gradient
//	         Method With Support for Non-Strongly Convex Composite Objectives.
//	         NIPS 2014.
//	[KHR20]  Kovalev, Horváth, Richtárik. Don't Jump Through Hoops and Remove
//	         Those Loops: SVRG and Katyusha are Better Without the Outer Loop.
//	         ALT 2020.
//	[Con13]  Condat. A Primal–Dual Splitting Method for Convex Optimization
//	         Involving Lipschitzian, Proximable and Linear Composite Terms.
//	         J. Optim. Theory Appl. 2013.
//	[Vu13]   Vũ. A splitting algorithm for dual monotone inclusions involving
//	         cocoercive operators. Adv. Comput. Math. 2013.
//	[CP11]   Chambolle, Pock. A First-Order Primal-Dual Algorithm for Convex
//	         Problems with Applications to Imaging. J. Math. Imaging Vis. 2011.
//	[CP16a]  Chambolle, Pock. An introduction to continuous optimization for
//	         imaging. Acta Numerica 2016.
//	[CP16]   Chambolle, Pock. On the ergodic convergence rates of a first-order
//	         primal–dual algorithm. Math. Program. 2016.
//	[LM79]   Lions, Mercier. Splitting Algorithms for the Sum of Two Nonlinear
//	         Operators. SIAM J. Numer. Anal. 1979.
//	[GB17]   Giselsson, Boyd. Linear Convergence and Metric Selection for
//	         Douglas-Rachford Splitting and ADMM. IEEE Trans. Autom. Control 2017.
//	[FW56]   Frank, Wolfe. An algorithm for quadratic programming. Naval Res.
//	         Logist. Quart. 1956.
//	[Jag13]  Jaggi. Revisiting Frank-Wolfe: Projection-Free Sparse Convex
//	         Optimization. ICML 2013.
//	[LJ15]   Lacoste-Julien, Jaggi. On the Global Linear Convergence of
//	         Frank-Wolfe Optimization Variants. NIPS 2015.
//	[PNAJ20] Pedregosa, Négiar, Askari, Jaggi. Linearly Convergent Frank-Wolfe
//	         with Backtracking Line-Search. AISTATS 2020.
//	[Hig02]  Higham. Accuracy and Stability of Numerical Algorithms, 2nd ed. 2002.
//	[APR18]  Attouch, Peypouquet, Redont. Backward–forward algorithms for
//	         structured monotone inclusions in Hilbert spaces. JMAA 2018.
//	[BT09]   Beck, Teboulle. A Fast Iterative Shrinkage-Thresholding Algorithm
//	         for Linear Inverse Problems. SIAM J. Imaging Sci. 2009.
//	[OC15]   O'Donoghue, Candès. Adaptive Restart for Accelerated Gradient
//	         Schemes. Found. Comput. Math. 2015.
//	[W15]    Wright. Coordinate descent algorithms. Math. Program. 2015.
//	[MS83]   Moré, Sorensen. Computing a Trust Region Step. SIAM J. Sci. Stat.
//	         Comput. 1983.
//	[LSS14]  Lee, Sun, Saunders. Proximal Newton-type methods for minimizing
//	         composite functions. SIAM J. Optim. 2014.
//	[Nes04]  Nesterov. Introductory Lectures on Convex Optimization. 2004.
//	[BC17]   Bauschke, Combettes. Convex Analysis and Monotone Operator Theory
//	         in Hilbert Spaces, 2nd ed. 2017.
//	[AM85]   Anderson, Morley. Eigenvalues of the Laplacian of a graph. Linear
//	         Multilinear Algebra 1985.
package splitting
