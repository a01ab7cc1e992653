package dp

import (
	"reflect"
	"strings"
)

// Plan is a calibrated mechanism. It fixes the cost of one release from public quantities, before
// any record is read. The plans of all families satisfy it. They have no exported field and no
// setter, so that a plan cannot be edited after its calibration.
type Plan interface {
	// Certificate states the cost of one release of the plan. A plan that no
	// calibration made returns the zero Certificate, which fails its Check.
	Certificate() Certificate
	// Profile returns δ(ε) of one release, that of the budget where nothing
	// sharper is proved.
	Profile() Profile
	// String describes the plan in prose that may be published.
	String() string
}

// DeclaredPlan is assumed where a plan whose type is not of this module is composed with others or
// charged to a ledger.
const DeclaredPlan Assumption = "the certificate and the profile that the caller's own plan states are true of its releases"

// Declared returns the assumptions that rest on p itself: DeclaredPlan unless the type of p is of
// this module, also where it is a struct that embeds a plan of this module.
func Declared(p Plan) []Assumption {
	t := reflect.TypeOf(p)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	module := strings.TrimSuffix(reflect.TypeFor[Budget]().PkgPath(), "dp")
	if t == nil || !strings.HasPrefix(t.PkgPath(), module) {
		return []Assumption{DeclaredPlan}
	}
	return nil
}
