package model

import "github.com/privopt/privopt/dp"

type discoveredFit struct{ words string }

func (d *discoveredFit) profile(t float64) dp.Profile { return dp.GaussianProfile(t) }
