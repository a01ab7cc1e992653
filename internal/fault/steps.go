package fault

// Names of steps whose values are the parameters of a plan, of types that packages here cannot import.
const (
	QuadraticParams  = "quadratic parameters"
	StochasticParams = "parameters of stochastic gradients"
	DiscreteParams   = "parameters over a finite set"
	SampParams       = "parameters of OPSamp"
)

// Steps that several packages have in common. Integers are in units of a grid.
var (
	// DiscreteNoise perturbs the objective over a finite set.
	DiscreteNoise = NewStep[[]int64]("noise over a finite set")
	// GridVector is the rounded sum of the gradients of a batch, or the rounded end of a phase.
	GridVector = NewStep[[]int64]("grid-vector")
	// GridNoise is the noise that is added to a GridVector.
	GridNoise = NewStep[[]int64]("grid-noise")
	// Batch lists the records of a batch of stochastic gradients, or of a permutation, in order.
	Batch = NewStep[[]int]("batch")
	// Counts are the counts of a histogram, times a public power of two.
	Counts = NewStep[[]int64]("counts")
	// Moments is a sum of rounded symmetric matrices.
	Moments = NewStep[[]int64]("moments")

	// Stage is the first stage of the solver of a covered release that runs, counted from 0: the
	// methods of package splitting, refinement, proved descent.
	Stage = NewStep[int]("stage")
	// Iterations is the limit on the steps of one solve; 0 means the default.
	Iterations = NewStep[int]("iterations")
	// Certified reports whether the point is proved to lie within R of the minimizer, so that it may
	// be released.
	Certified = NewStep[bool]("certified")
)
