package fault

import (
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
)

// Steps of a calibration, from public quantities to the scale of the noise.
var (
	// Lipschitz is L, the declared bound on the gradient of one record.
	Lipschitz = NewCalibrationStep[float64]("lipschitz")
	// Smoothness is β, the declared bound on its curvature.
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
	// Scale is σ, the standard deviation of the Gaussian noise that is drawn.
	Scale = NewStep[float64]("scale")
	// Rate is a of the density ∝ exp(−a‖b‖).
	Rate = NewStep[float64]("rate")
	// Sampler is the function that draws it.
	Sampler = NewStep[Normal]("sampler")
	// Noise is the drawn vector.
	Noise = NewStep[[]float64]("noise")
	// Degrees is m of the Wishart matrix.
	Degrees = NewStep[float64]("degrees")
	// Wishart is the drawn matrix W.
	Wishart = NewStep[*mat.SymDense]("wishart")
	// Curvature is σ², which multiplies W.
	Curvature = NewStep[float64]("curvature")
	// OutputScale is the standard deviation of the output noise, OutputRate the
	// rate of the one that is not Gaussian.
	OutputScale = NewStep[float64]("output-scale")
	OutputRate  = NewStep[float64]("output-rate")
)

// Steps of stochastic gradients.
var (
	// Batch lists the records of a batch, or of a permutation, in order.
	Batch = NewStep[[]int]("batch")
	// Sum is the sum of the clipped gradients of a batch.
	Sum = NewStep[[]float64]("sum")
	// Divisor is what the noisy sum is divided by.
	Divisor = NewStep[float64]("divisor")
	// Advance is the number of records that a phase uses up.
	Advance = NewStep[int]("advance")
	// Sensitivity is what the noise of a released average has to hide.
	Sensitivity = NewCalibrationStep[float64]("sensitivity")
)

// Normal fills dst with independent draws from N(0, sigma²), as noise.Normal does.
type Normal = func(dst []float64, sigma float64, src rand.Source)

// Steps of the objective and of its solution.
var (
	// Ridge is Δ, the weight of (Δ/2)‖θ‖² in the objective.
	Ridge = NewStep[float64]("ridge")
	// Clip is the threshold that gradients are clipped at; 0 means no clipping.
	Clip = NewStep[float64]("clip")
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
