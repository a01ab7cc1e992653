package objpert

import (
	"testing"

	"github.com/privopt/privopt/dp"
	sample "github.com/privopt/privopt/noise"
)

// One calibration, and one draw of all noise, at the size of the Adult data.
func BenchmarkMechanism(b *testing.B) {
	budget := dp.Budget{Epsilon: 1, Delta: 4e-9}
	lattice := Public{Space: Lattice(23), Dim: 23, Range: 1, Budget: budget}
	table := Public{Space: ternary(), Dim: 23, Range: 1, Budget: budget}
	for _, c := range []struct {
		name string
		m    interface{ Calibrate(Public) (*Plan, error) }
		q    Public
	}{
		{"law=radial", &OPDisc{}, lattice},
		{"law=gaussian", &OPDisc{Law: Gaussian}, lattice},
		{"law=paper-sigma", &OPDisc{Law: PaperSigma}, lattice},
		{"law=k-norm", &Product{}, table},
		{"law=one-sided", &Product{Law: OneSided}, table},
		{"law=rspm-laplace", &RSPM{}, table},
		{"law=rspm-gaussian", &RSPM{Law: Gaussian}, table},
	} {
		b.Run("step=calibrate/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.m.Calibrate(c.q); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("step=draw/"+c.name, func(b *testing.B) {
			plan, err := c.m.Calibrate(c.q)
			if err != nil {
				b.Fatal(err)
			}
			src := sample.Secure()
			b.ReportAllocs()
			for b.Loop() {
				plan.draw(nil, src)
			}
		})
	}
}
