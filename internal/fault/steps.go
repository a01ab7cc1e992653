package fault

// Names of steps whose values have types of the packages that use them: the parameters of a plan.
// Each package makes its step of the name, and the audit another, which is the same.
const (
	LinearParams    = "linear parameters"
	QuadraticParams = "quadratic parameters"
	SGDParams       = "parameters of noisy SGD"
	PassParams      = "parameters of passes"
	DiscreteParams  = "parameters over a finite set"
	SampParams      = "parameters of OPSamp"
)

// DiscreteNoise are the integers that perturb the objective over a finite set.
var DiscreteNoise = NewStep[[]int64]("noise over a finite set")

// Steps of noise that is added on a grid, in its units.
var (
	// GridVector is the rounded sum of the gradients of a batch, or the rounded end of a phase.
	GridVector = NewStep[[]int64]("grid-vector")
	// GridNoise is the noise that it gets.
	GridNoise = NewStep[[]int64]("grid-noise")
)

// Batch lists the records of a batch of stochastic gradients, or of a permutation, in order.
var Batch = NewStep[[]int]("batch")

// Steps of the objective and of its solution.
var (
	// Iterations is the limit on the steps of one solve; 0 means the default.
	Iterations = NewStep[int]("iterations")
	// Certified tells whether the point is proved to lie within R of the
	// minimizer, so that it may be released.
	Certified = NewStep[bool]("certified")
)

// Steps of sums over the records that integer noise is added to.
var (
	// Counts are the counts of a histogram, times a public power of two.
	Counts = NewStep[[]int64]("counts")
	// Moments is a sum of rounded symmetric matrices.
	Moments = NewStep[[]int64]("moments")
)

// Stage is the first stage of the solver of a covered release that runs, counted from 0: the
// methods of package splitting, refinement, proved descent.
var Stage = NewStep[int]("stage")
