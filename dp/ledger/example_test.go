// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
)

// query stands for the plan of a mechanism.
type query struct{ dp.Budget }

func (q query) Certificate() dp.Certificate {
	return dp.Certificate{Budget: q.Budget, Relation: dp.Replace, Theorem: "query/1"}
}
func (q query) Profile() dp.Profile { return q.Budget.Profile() }
func (q query) String() string      { return "one query" }

// A total of ε = 1 pays for two releases at ε = 0.4, not for a third.
func Example() {
	folder, err := os.MkdirTemp("", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	l, err := ledger.Create(filepath.Join(folder, "people.ledger"),
		ledger.Terms{Total: dp.Budget{Epsilon: 1, Delta: 1e-6}})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		e, err := l.Spend(context.Background(), query{dp.Budget{Epsilon: 0.4}}, nil)
		if errors.Is(err, ledger.ErrOverspent) {
			fmt.Println(err)
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("entry", e.Number, "is on the disk: now noise may be drawn")
	}
	fmt.Println("spent", l.Spent())
	// Output:
	// entry 1 is on the disk: now noise may be drawn
	// entry 2 is on the disk: now noise may be drawn
	// ledger: the total would be exceeded: (ε = 0.4, δ = 0) of the plan and (ε = 0.8, δ = 0) spent add up to (ε = 1.2, δ = 0), want at most ε = 1 and δ = 1e-06, declared; plan with a smaller budget, at most ε = 0.2
	// spent (ε = 0.8, δ = 0)
}

// A published file is checked against its entry: another file, or another claim, is refused.
func ExampleLedger_VerifyFile() {
	folder, err := os.MkdirTemp("", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	l, err := ledger.Create(filepath.Join(folder, "people.ledger"), ledger.Terms{Total: dp.Budget{Epsilon: 1}})
	if err != nil {
		log.Fatal(err)
	}
	plan := query{dp.Budget{Epsilon: 0.5}}
	entry, err := l.Spend(context.Background(), plan, nil)
	if err != nil {
		log.Fatal(err)
	}
	release := []byte("count: 17\n") // with the noise that the entry paid for
	if err := l.Commit(context.Background(), entry.Hash, release); err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.VerifyFile(entry.Hash, plan.Certificate(), release))
	fmt.Println(errors.Is(l.VerifyFile(entry.Hash, plan.Certificate(), []byte("count: 18\n")), ledger.ErrMismatch))
	// Output:
	// <nil>
	// true
}

// A model keeps the head of its ledger. A ledger without that entry is behind.
func ExampleLedger_Verify() {
	folder, err := os.MkdirTemp("", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	l, err := ledger.Create(filepath.Join(folder, "people.ledger"), ledger.Terms{Total: dp.Budget{Epsilon: 1}})
	if err != nil {
		log.Fatal(err)
	}
	recorded := l.Head()
	fmt.Println(l.Verify(recorded))
	other, err := ledger.Create(filepath.Join(folder, "other.ledger"), l.Terms())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(other.Verify(recorded), ledger.ErrBehind))
	// Output:
	// <nil>
	// true
}
