// Package objpert minimizes perturbed objectives over finite sets, without
// convexity and to proven optimality.
package objpert
