package experiment

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
)

// summary is the object "results" of summary.json.
type scalingSummary struct {
	Cells []cellDetail `json:"cells"`
	// Slopes are least-squares slopes of log risk against log κ over κ ≥ 10.
	Slopes map[string]float64 `json:"slopes,omitempty"`
	// RelativeGap is the largest of all cells.
	RelativeGap *float64 `json:"relative_gap,omitempty"`
	// AnchorError is ‖anchor − θ_true‖₂, known for generated data.
	AnchorError *float64 `json:"anchor_error,omitempty"`
	// AnchorClaimFalse says that the error exceeds what -eta declares.
	AnchorClaimFalse bool `json:"anchor_claim_false,omitempty"`
	// Composed is what all releases of a sweep over -data cost together.
	Composed *dp.Budget `json:"composed,omitempty"`
	Releases int        `json:"releases"`
	Notes    []string   `json:"notes"`
}

type cellDetail struct {
	Value  float64 `json:"value"`
	Method string  `json:"method"`
	Risk   float64 `json:"risk"`
	scalingDetail
}

// slopeFrom is the κ from which the slopes are taken.
const slopeFrom = 10

// summarize returns the function that words the end of the experiment.
func (c *scalingConfig) summarize(s *dataSource) func([]sweep.Result) (any, []string) {
	return func(results []sweep.Result) (any, []string) {
		sum := &scalingSummary{Slopes: map[string]float64{}, Notes: []string{}}
		var lines []string
		var certificates []dp.Certificate
		var private float64
		for _, m := range c.methods {
			var cells []cellDetail
			var x, y []float64
			for _, r := range results {
				if r.Method != m {
					continue
				}
				if kept, ok := sweep.DetailOf[scalingDetail](r); ok {
					d := cellDetail{r.Value, m, r.Mean, kept}
					sum.Releases += r.Runs
					private += r.Seconds
					if d.Certificate != nil {
						certificates = append(certificates, slices.Repeat([]dp.Certificate{*d.Certificate}, r.Runs)...)
					}
					if g := value(d.RelativeGap); d.Certificate != nil && (sum.RelativeGap == nil || g > *sum.RelativeGap) {
						sum.RelativeGap = finite(g)
					}
					cells = append(cells, d)
				}
				if c.sweep == "kappa" && r.Value >= slopeFrom && r.Mean > 0 {
					x, y = append(x, math.Log(r.Value)), append(y, math.Log(r.Mean))
				}
			}
			if len(x) > 1 {
				_, sum.Slopes[m] = stat.LinearRegression(x, y, nil, false)
			}
			sum.Cells = append(sum.Cells, cells...)
			lines = append(lines, c.describe(m, cells)...)
		}
		if len(sum.Slopes) > 0 {
			var parts []string
			for _, m := range c.methods {
				parts = append(parts, fmt.Sprintf("%s %.3f", m, sum.Slopes[m]))
			}
			lines = append(lines, fmt.Sprintf("log-log slope over kappa >= %d: %s", slopeFrom, strings.Join(parts, ", ")))
		}
		if sum.RelativeGap != nil {
			lines = append(lines, fmt.Sprintf("every solve certified to J - min J <= %.2g max(1, |J|)", *sum.RelativeGap))
		}
		if c.sweep == "n" {
			for _, other := range []string{"anchor", "lop"} {
				if slices.Contains(c.methods, "qop") && slices.Contains(c.methods, other) {
					lines = append(lines, overtakes(results, other))
				}
			}
		}
		c.anchorNote(s, sum)
		c.costNote(certificates, sum)
		if private > 0 {
			lines = append(lines, fmt.Sprintf("private methods: %d solves in %.3g s of work, %.4g solves/s on one core", sum.Releases, private,
				float64(sum.Releases)/private))
		}
		return sum, append(lines, sum.Notes...)
	}
}

// describe words the constants of one method at both ends of the sweep.
func (c *scalingConfig) describe(method string, cells []cellDetail) (lines []string) {
	if len(cells) == 0 {
		return nil
	}
	ends := cells
	if len(cells) > 1 {
		ends = []cellDetail{cells[0], cells[len(cells)-1]}
	}
	if cert := cells[0].Certificate; cert != nil {
		name := method
		if c.sweep == "eps" {
			name += " at eps = " + digits(cells[0].Value)
		}
		lines = append(lines, fmt.Sprintf("%s: %v, %v neighbors, by %s", name, cert.Budget, cert.Relation, cert.Theorem))
		for _, a := range cert.Assumptions {
			lines = append(lines, fmt.Sprintf("%s: assumes that %s", method, a))
		}
	}
	for _, d := range ends {
		var parts []string
		add := func(name string, x *float64) {
			if x != nil {
				parts = append(parts, name+" = "+digits(*x))
			}
		}
		add("σ", d.Sigma)
		add("rate", d.Rate)
		add("Δ", d.Ridge)
		add("clip", positive(d.Clip))
		add("σ²m", d.Curvature)
		add("m", d.M)
		add("σ²", d.Sigma2)
		if p := d.Published; p != nil {
			add("Δ", p.Delta)
			add("ζ", p.Zeta)
			add("s", p.S)
			add("ω", p.Omega)
			add("α", p.Alpha)
			add("α₁", p.Alpha1)
			add("f₂", p.F2)
			add("σ²", p.Sigma2)
			add("ω at λ_max = (√m+√d)²", p.OmegaEdge)
		}
		line := fmt.Sprintf("%s at %s = %s: %s; risk %s", method, c.sweep, digits(d.Value), strings.Join(parts, ", "), digits(d.Risk))
		if d.PredictedExcess != nil && d.MeasuredExcess != nil {
			line += fmt.Sprintf("; excess per record over %s: predicted <= %s, measured %s", d.Comparator, digits(*d.PredictedExcess),
				digits(*d.MeasuredExcess))
		}
		lines = append(lines, line)
	}
	outside := 0
	for _, d := range cells {
		outside += d.Outside
	}
	if outside > 0 {
		lines = append(lines, fmt.Sprintf("%s: %d runs report a point outside the box", method, outside))
	}
	return lines
}

// anchorNote reports whether the declared error of the anchor, on which qop rests, is true.
func (c *scalingConfig) anchorNote(s *dataSource, sum *scalingSummary) {
	if c.Mode == paper || c.data != "" || !slices.Contains(c.methods, "qop") {
		return
	}
	worst, declared := 0.0, 0.0
	for _, v := range c.values {
		at := c.at(v)
		rec, err := s.at(at)
		if err != nil {
			return
		}
		worst, declared = max(worst, rec.error), max(declared, at.Eta)
		sum.AnchorClaimFalse = sum.AnchorClaimFalse || rec.error > at.Eta
	}
	sum.AnchorError = finite(worst)
	note := ""
	switch {
	case !sum.AnchorClaimFalse && declared > 0:
		note = fmt.Sprintf("qop declares the anchor to be within %s, which is true here: its error is up to %s. "+
			"The published setting takes it as exact: -eta 0", digits(declared), digits(worst))
	case sum.AnchorClaimFalse && declared > 0:
		note = fmt.Sprintf("qop declares the anchor to be within %s, an assumption known to be false here: the anchor's "+
			"error is up to %s (without -eta a true bound is taken)", digits(declared), digits(worst))
	case sum.AnchorClaimFalse:
		note = fmt.Sprintf("qop takes the anchor as exact, an assumption known to be false here: the anchor's error is up "+
			"to %s (-anchor-noise 0 makes it exact, without -eta a true bound is declared)", digits(worst))
	}
	if note != "" {
		sum.Notes = append(sum.Notes, note)
	}
}

// costNote adds up what the releases of a sweep over records cost together.
func (c *scalingConfig) costNote(certificates []dp.Certificate, sum *scalingSummary) {
	if c.data == "" || len(certificates) == 0 {
		return
	}
	sum.Notes = append(sum.Notes, "the risks are computed from the records and no noise hides them: keep them where the records are")
	var cost string
	sum.Composed, cost = sweep.Cost(certificates)
	sum.Notes = append(sum.Notes, cost)
}

// overtakes says from which n on qop has less risk than the other method.
func overtakes(results []sweep.Result, other string) string {
	risk := map[string]map[float64]float64{"qop": {}, other: {}}
	var values []float64
	for _, r := range results {
		if m, ok := risk[r.Method]; ok {
			m[r.Value] = r.Mean
			if r.Method == "qop" {
				values = append(values, r.Value)
			}
		}
	}
	slices.Sort(values)
	from := math.NaN()
	for _, v := range slices.Backward(values) {
		if !(risk["qop"][v] < risk[other][v]) {
			break
		}
		from = v
	}
	if math.IsNaN(from) {
		return fmt.Sprintf("qop does not stay below %s at these n", other)
	}
	return fmt.Sprintf("qop stays below %s from n = %v on", other, int(from))
}

func digits(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
