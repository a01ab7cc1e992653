// Command draw prints secure noise; a test runs it twice.
package main

import (
	"fmt"

	"github.com/privopt/privopt/internal/noise"
)

func main() {
	b := make([]float64, 4)
	noise.Normal(b, 1, noise.Secure())
	fmt.Println(b)
}
