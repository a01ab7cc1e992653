package experiment

import "github.com/privopt/privopt/cmd/internal/sweep"

// experiment describes the sweep that the flags ask for.
func (c *scalingConfig) experiment() (*sweep.Experiment, error) {
	if c.Figure == "bound" {
		return c.figure(), nil
	}
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	e := &sweep.Experiment{
		Name:      "scaling",
		Files:     "risk",
		Sweep:     c.sweep,
		Values:    c.values,
		Methods:   c.methods,
		Params:    c.scalingParams,
		Prepare:   s.prepare,
		Summarize: c.summarize(s),
		Plot: sweep.Plot{
			Title: c.title(),
			X: map[string]string{"kappa": "kappa, half-width of the box", "n": "n, number of records",
				"d": "d, number of parameters", "eps": "epsilon of one release"}[c.sweep],
			Y:      "empirical risk, mean ± one standard deviation",
			Legend: c.legend(),
			Dashed: []string{"anchor", "nonprivate"},
		},
	}
	if c.Mode == paper {
		e.Prepare = (&publishedCells{dataSource: s}).prepare
		e.NotPrivate = "published procedure, no guarantee holds as run"
	}
	if c.data != "" {
		if e.NotPrivate != "" {
			e.NotPrivate += "; "
		}
		e.NotPrivate += "risks are measured on the records of -data"
	}
	return e, nil
}

// legend words the methods for the plot. What a curve rests on stands there.
func (c *scalingConfig) legend() map[string]string {
	l := map[string]string{
		"lop":        "LOP",
		"lop-clip":   "LOP-Clip",
		"qop":        "QOP, anchor taken as exact",
		"anchor":     "anchor (no record used)",
		"nonprivate": "no noise (not private)",
	}
	switch {
	case c.Mode == paper:
		l["lop"], l["lop-clip"], l["qop"] = "LOP as published", "LOP-Clip as published", "QOP as published"
	case c.Eta > 0:
		l["qop"] = "QOP, anchor within eta = " + digits(c.Eta)
	case c.data == "" && c.AnchorNoise > 0:
		l["qop"] = "QOP, anchor taken as exact, which is false here"
	}
	return l
}
