package fault

import (
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
)

// Steps of a calibration, from public quantities to the scale of the noise.
var (
	// Smoothness is β, the declared bound on the curvature of one record.
	Smoothness = NewCalibrationStep[float64]("smoothness")
	// Relation says what a neighbor is: it decides whether noise hides 2L or L.
	Relation = NewCalibrationStep[dp.Relation]("relation")
	// AnchorError is η, the declared distance of the anchor from the common
	// minimizer.
	AnchorError = NewCalibrationStep[float64]("anchor-error")
	// Objective is the budget that the output noise leaves for the rest.
	Objective = NewCalibrationStep[dp.Budget]("objective")
)

// Steps of a draw.
var (
	// Sampler is the function that draws Gaussian noise.
	Sampler = NewStep[Normal]("sampler")
	// Degrees is m of the Wishart matrix.
	Degrees = NewStep[float64]("degrees")
	// Wishart is the drawn matrix W.
	Wishart = NewStep[*mat.SymDense]("wishart")
	// Curvature is σ², which multiplies W.
	Curvature = NewStep[float64]("curvature")
	// OutputScale is the standard deviation of the output noise.
	OutputScale = NewStep[float64]("output-scale")
)

// Batch lists the records of a batch of stochastic gradients, or of a permutation, in order.
var Batch = NewStep[[]int]("batch")

// Normal fills dst with independent draws from N(0, sigma²), as noise.Normal does.
type Normal = func(dst []float64, sigma float64, src rand.Source)

// Steps of the objective and of its solution.
var (
	// Interpolated tells whether the records are made to interpolate.
	Interpolated = NewStep[bool]("interpolated")
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
