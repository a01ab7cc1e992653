// Package bench holds the benchmarks that bench/peers.sh runs beside other
// programs; see there.
package bench
