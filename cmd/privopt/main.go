// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Command privopt goes from a table of private records to a private model:
//
//	privopt schema --example adult > adult.json
//	privopt fit --schema adult.json --data adult.data --epsilon 1 --out model.json
//	privopt predict --model model.json --data adult.test > predictions.csv
//
// Commands: demo, schema, plan, pack, fit, predict, score, summary, explain, ledger, version and
// completion; each explains itself with examples after -h. Flags may be written with one dash or
// two. Results go to standard output, all else to standard error.
//
// # Exit codes
//
//	0    done
//	1    failure: a file, a pipe, a full disk
//	2    usage: a bad flag, schema, table, model file or budget
//	3    refused: a privacy condition is not met, or the ledger does not allow it
//	4    withheld: nothing may be released
//	130  cancelled by Ctrl-C, SIGTERM or a terminal that was closed
package main

import (
	"os"
	"runtime/debug"

	"github.com/privopt/privopt/cmd/privopt/cli"
)

func main() {
	// Records in memory are few large objects without pointers, which a collection passes over, so a
	// small share of garbage costs no time and keeps a table from taking twice its memory.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(12)
	}
	cli.Main(cli.Run)
}
