//go:build race

package kernel

// raceEnabled: under the race detector sync.Pool drops items at random.
const raceEnabled = true
