package losstest_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/loss/losstest"
)

// Each twin's envelope is wrong in one way: too small at points, too small over an
// interval though right at its ends, too small for short rows only, above β.
func TestEnvelopeBites(t *testing.T) {
	for name, c := range map[string]struct {
		l    loss.Loss
		want string
	}{
		"half":            {half{}, "beats Envelope"},
		"kink forgotten":  {kinkless{loss.Huber{Delta: 0.8}}, "beats Envelope"},
		"value at the lo": {lower{loss.RootHinge{Width: 1}}, "is below"},
		"short rows":      {short{}, "beats Envelope"},
		"above β":         {above{}, "is above β"},
	} {
		t.Run(name, func(t *testing.T) {
			var r recorder
			losstest.Check(&r, c.l)
			require.NotEmpty(t, r.reports)
			for _, text := range r.reports { // and nothing else is wrong with it
				require.True(t, strings.Contains(text, c.want) || strings.Contains(text, "Envelope("), text)
			}
			require.Contains(t, strings.Join(r.reports, "\n"), c.want)
		})
	}
}

type half struct{ loss.Logistic }

func (l half) Envelope(b loss.Bounds, lo, hi float64) float64 {
	return l.Logistic.Envelope(b, lo, hi) * 0.999
}

// kinkless takes the curvature 0 beyond the threshold for that at it.
type kinkless struct{ loss.Huber }

func (l kinkless) Envelope(b loss.Bounds, lo, hi float64) float64 {
	p := lo / (b.Row * l.Delta)
	return b.Row * b.Row * max(0, 1-p)
}

// lower takes the envelope at the lower end of an interval for its supremum.
type lower struct{ loss.RootHinge }

func (l lower) Envelope(b loss.Bounds, lo, hi float64) float64 {
	return l.RootHinge.Envelope(b, lo, lo)
}

// short forgets that a short row reaches a small gradient with a steep slope.
type short struct{ loss.Logistic }

func (l short) Envelope(b loss.Bounds, lo, hi float64) float64 {
	if lo < b.Row/4 {
		return l.Logistic.Envelope(b, lo, hi) / 2
	}
	return l.Logistic.Envelope(b, lo, hi)
}

type above struct{ loss.Logistic }

func (l above) Envelope(b loss.Bounds, lo, hi float64) float64 {
	return max(l.Logistic.Envelope(b, lo, hi), math.Nextafter(l.Constants(b, 1).Smoothness, 9e9))
}
