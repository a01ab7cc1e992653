package dp

// Plan is a calibrated mechanism: what one release will cost, fixed from public
// quantities before any record is read. The plans of all families satisfy it.
// They have no exported field and no setter, so that what they certify is what
// they were calibrated for.
type Plan interface {
	// Certificate states what one release of the plan costs. A plan that no
	// calibration made returns the zero Certificate, which fails its Check.
	Certificate() Certificate
	// Profile returns δ(ε) of one release, that of the budget where nothing
	// sharper is proved.
	Profile() Profile
	// String describes the plan in prose that may be published.
	String() string
}
