package main

// helper is the file that the rewritten package gets: every operator as a
// function that does something else while its mutant is the active one. In
// recording mode no mutant is active, and each one that is reached is written
// to a file as two bytes.
const helper = `package %s

import (
	"math"
	"os"
	"strconv"
	"sync"
)

var mutateActive, _ = strconv.Atoi(os.Getenv("MUTATE_ACTIVE"))

var mutateRecord = os.Getenv("MUTATE_RECORD")

var (
	mutateMutex sync.Mutex
	mutateSeen  [1 << 16]bool
	mutateFile  *os.File
)

func mutateReach(id int) {
	mutateMutex.Lock()
	defer mutateMutex.Unlock()
	if mutateRecord == "" || mutateSeen[id] {
		return
	}
	mutateSeen[id] = true
	if mutateFile == nil {
		mutateFile, _ = os.OpenFile(mutateRecord, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	mutateFile.Write([]byte{byte(id >> 8), byte(id)})
}

type mutateNumber interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

func mutateIs(id int) bool { %s; return mutateActive == id }

func mutateAdd[T mutateNumber](id int, x, y T) T { if mutateIs(id) { return x - y }; return x + y }
func mutateSub[T mutateNumber](id int, x, y T) T { if mutateIs(id) { return x + y }; return x - y }
func mutateMul[T mutateNumber](id int, x, y T) T { if mutateIs(id) { return x / y }; return x * y }
func mutateQuo[T mutateNumber](id int, x, y T) T { if mutateIs(id) { return x * y }; return x / y }
func mutateNeg[T mutateNumber](id int, x T) T    { if mutateIs(id) { return x }; return -x }
func mutateLss[T mutateNumber](id int, x, y T) bool { return (x < y) != mutateIs(id) }
func mutateLeq[T mutateNumber](id int, x, y T) bool { return (x <= y) != mutateIs(id) }
func mutateGtr[T mutateNumber](id int, x, y T) bool { return (x > y) != mutateIs(id) }
func mutateGeq[T mutateNumber](id int, x, y T) bool { return (x >= y) != mutateIs(id) }
func mutateEql[T mutateNumber](id int, x, y T) bool { return (x == y) != mutateIs(id) }
func mutateNeq[T mutateNumber](id int, x, y T) bool { return (x != y) != mutateIs(id) }

var mutateHalf = 0.5 // 0 as an integer

func mutateConst[T mutateNumber](id int, x T) T {
	switch {
	case !mutateIs(id):
		return x
	case x == 0:
		return 1
	case T(mutateHalf) != 0: // a float
		return x - x/T(16)
	}
	return x + 1
}

func mutateLeast[T mutateNumber](id int, x ...T) T { return mutateExtreme(!mutateIs(id), x) }
func mutateMost[T mutateNumber](id int, x ...T) T  { return mutateExtreme(mutateIs(id), x) }

func mutateExtreme[T mutateNumber](least bool, x []T) T {
	best := x[0]
	for _, v := range x[1:] {
		switch {
		case best != best: // NaN stays
		case v != v:
			best = v
		case least && v < best, !least && v > best:
			best = v
		case v == 0 && best == 0 && math.Signbit(float64(v)) == least:
			best = v
		}
	}
	return best
}
`
