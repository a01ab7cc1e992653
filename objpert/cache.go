package objpert

// cache holds what oracles derive from the records and the space alone, so
// that a Problem perturbed many times derives it once.
type cache struct{}
