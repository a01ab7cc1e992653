// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package testkit

import (
	"math/big"
)

// golden was computed by mpmath 1.3.0 at 70 digits: exp, log, erfc, gammainc.
var golden = []struct {
	text string
	f    func(n func(float64) *big.Float) *big.Float
}{
	{"1.0", func(n func(float64) *big.Float) *big.Float { return Exp(n(0.0)) }},
	{"2.718281828459045235360287471352662497757247093699959575",
		func(n func(float64) *big.Float) *big.Float { return Exp(n(1.0)) }},
	{"0.03019738342231850073978629236361984507166053224765700667",
		func(n func(float64) *big.Float) *big.Float { return Exp(n(-3.5)) }},
	{"1.302299736699178393533542238619216601349542238434113201e+304",
		func(n func(float64) *big.Float) *big.Float { return Exp(n(700.25)) }},
	{"1.916552306550914804827596278218669062986241628370598742e-300",
		func(n func(float64) *big.Float) *big.Float { return Exp(n(-690.125)) }},
	{"1.000000001000000000500000062448258186769781241159389457",
		func(n func(float64) *big.Float) *big.Float { return Exp(n(1e-09)) }},
	{"-690.7755278982137051803383445701005029086133415836413441",
		func(n func(float64) *big.Float) *big.Float { return Log(n(1e-300)) }},
	{"-1.2039728043259360296301803719337238685164245381839097",
		func(n func(float64) *big.Float) *big.Float { return Log(n(0.3)) }},
	{"0.00000009999999505838704517751609968345449123029879592147718875",
		func(n func(float64) *big.Float) *big.Float { return Log(n(1.0000001)) }},
	{"2.01490302054226475657877244869053677609759177773101192",
		func(n func(float64) *big.Float) *big.Float { return Log(n(7.5)) }},
	{"460.5170185988091367733314131493832027216528554997927771",
		func(n func(float64) *big.Float) *big.Float { return Log(n(1e+200)) }},
	{"225.3348962203491205793972827414729586228202512125598846",
		func(n func(float64) *big.Float) *big.Float { return Mills(n(-3.0)) }},
	{"1.253314137315500251207882642405522626503493370304969158",
		func(n func(float64) *big.Float) *big.Float { return Mills(n(0.0)) }},
	{"0.876364456453692346727853142639848860860109797534584071",
		func(n func(float64) *big.Float) *big.Float { return Mills(n(0.5)) }},
	{"0.1246444944850955720438453816256684589147058062069491078",
		func(n func(float64) *big.Float) *big.Float { return Mills(n(7.9)) }},
	{"0.1216552130764484768039336733964827373049689597660910927",
		func(n func(float64) *big.Float) *big.Float { return Mills(n(8.1)) }},
	{"0.02498440420572057114738839463311403614097368062392538469",
		func(n func(float64) *big.Float) *big.Float { return Mills(n(40.0)) }},
	{"0.000000999999999999000000000002999999999985000000000105",
		func(n func(float64) *big.Float) *big.Float { return Mills(n(1000000.0)) }},
	{"0.006829594983114575384235012879926872750026862984107233592",
		func(n func(float64) *big.Float) *big.Float { return GaussianDelta(n(1.0), n(0.5)) }},
	{"7.857692771036771788020156416211034036390366187855659136e-27",
		func(n func(float64) *big.Float) *big.Float { return GaussianDelta(n(0.1), n(0.01)) }},
	{"0.9997335674478640243621687794878381432330821172911523213",
		func(n func(float64) *big.Float) *big.Float { return GaussianDelta(n(3.0), n(8.0)) }},
	{"0.00000000008331547062934403886972979244451571519343136941418223992",
		func(n func(float64) *big.Float) *big.Float { return GaussianDelta(n(1e-09), n(1e-09)) }},
	{"0.08326451666355040185491932049909363593284105519832065486",
		func(n func(float64) *big.Float) *big.Float { return Chi2SF(n(3.0), 1) }},
	{"0.2231301601484298289332804707640125213421716293610793287",
		func(n func(float64) *big.Float) *big.Float { return Chi2SF(n(3.0), 2) }},
	{"0.00000001444485277921540541061449281416789652062750136855811329",
		func(n func(float64) *big.Float) *big.Float { return Chi2SF(n(50.0), 7) }},
	{"4.952733529003190601882284375548788509011017425674468417e-27",
		func(n func(float64) *big.Float) *big.Float { return Chi2SF(n(200.0), 30) }},
	{"0.9999999983185122810293724569504417075005015542868533262",
		func(n func(float64) *big.Float) *big.Float { return Chi2SF(n(0.001), 5) }},
}
