package audit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// objpertNames are the mechanisms over finite sets.
var objpertNames = []string{"opdisc", "product", "rspm", "aggregate", "opsamp"}

// Every case of the mechanisms over finite sets holds.
func TestObjpertHolds(t *testing.T) {
	list := Select(objpertNames, Quick)
	require.NoError(t, Run(context.Background(), list, Quick, 1, nil))
	for _, r := range list {
		require.NoError(t, r.Err)
		_, p := r.Worst()
		require.Equal(t, Holds, r.Verdict(), "%s: p = %v, ε ≥ %v, exact %v, power %v", r.Full(), p, r.Lower, r.Exact, r.Power)
		if testing.Verbose() {
			t.Logf("%-50s %.2f s  p = %.2g, ε ≥ %.3g, exact %.4g, claim %.4g", r.Full(), r.Seconds, p, r.Lower, r.Finding.Exact, r.Claim.Epsilon)
		}
	}
}

// Every sabotage of them is caught.
func TestObjpertControls(t *testing.T) {
	for _, name := range objpertNames {
		require.NotEmpty(t, mechanisms[name].Controls)
		for _, c := range mechanisms[name].Controls {
			r, err := c.Sabotage(context.Background(), 1)
			require.NoError(t, err, c.Name)
			require.Equal(t, Violated, r.Verdict(), c.Name)
		}
	}
}
