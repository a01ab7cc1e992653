package fault

import (
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

// Steps of a draw.
var (
	// Sampler is the function that draws Gaussian noise.
	Sampler = NewStep[Normal]("sampler")
	// Wishart is the drawn matrix W.
	Wishart = NewStep[*mat.SymDense]("wishart")
)

// Batch lists the records of a batch of stochastic gradients, or of a permutation, in order.
var Batch = NewStep[[]int]("batch")

// Normal fills dst with independent draws from N(0, sigma²), as noise.Normal does.
type Normal = func(dst []float64, sigma float64, src rand.Source)

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
