//go:build race

package erm

// raceEnabled: under the race detector sync.Pool drops items at random.
const raceEnabled = true
