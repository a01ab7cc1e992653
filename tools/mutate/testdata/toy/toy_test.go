package toy

import "testing"

func TestMix(t *testing.T) {
	for _, c := range []struct {
		x, y float64
		n    int
		want float64
	}{
		{1, 2, 3, -5./3 - 2.5}, {3, 2, 1, -1 - 1.5}, {1, 2, 0, -1./3 - 0.5}, {-9, -2, 4, 2./3 - 6.5},
		{-4, 8, 1, -4 - 1.5}, {-5, 2, 0, 2.5}, {2, 2, 1, -2./3 - 1}, {-5, 2, 1, -1./3 + 0.5},
	} {
		if got := Mix(c.x, c.y, c.n); got-c.want > 1e-12 || c.want-got > 1e-12 {
			t.Errorf("Mix(%v, %v, %d) = %v, want %v", c.x, c.y, c.n, got, c.want)
		}
	}
}

func TestEndless(t *testing.T) {
	if Endless(1) != 4 || Endless(397) != 100 || Endless(400) != 50.375 {
		t.Error("wrong", Endless(1), Endless(397), Endless(400))
	}
}
