// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

// These declarations check at compile time that every operator implements its optional interfaces.
// If one were missing, certificates and solvers would do less, without an error.
type (
	exactFaces interface {
		Subdifferential
		checker
	}
	exactSet interface {
		exactFaces
		Set
	}
	roundedFaces interface {
		rounded
		checker
	}
	roundedSet interface {
		roundedFaces
		Set
	}
	slopes interface {
		exactFaces
		Coordinatewise
	}
)

var (
	_ = []checker{plainSet{}, ridge{}}
	_ = []exactFaces{GroupL2{}, Hinge{}, Huber{}, L2Norm{}, LInfNorm{}, LogBarrier{}, SortedL1{}, TotalVariation{},
		grouped{}, fused{}}
	_ = []slopes{L1{}, SquaredL2{}, ElasticNet{}, L1Box{}, Box{}, NonNegative{}, separable{}, coordwise{}, coordSet{}}
	_ = []exactSet{Box{}, NonNegative{}, coordSet{}}
	_ = []roundedFaces{NuclearNorm{}, certified{}, radial{}, absBall{}, weighted{}}
	_ = []roundedSet{HalfSpace{}, (*affine)(nil), SecondOrderCone{}, PSDCone{}, NuclearBall{}, SpectralBall{}, L1Ball{},
		L2Ball{}, Simplex{}, radialSet{}, absBallSet{}, certifiedSet{}}
)
