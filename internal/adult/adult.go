// Package adult reads the Adult (Census Income) data set and encodes it as
// integers, as halfspaces over a lattice need it.
//
// The attributes, their levels and their ranges are constants of this package, taken from the
// published description of the file: nothing is measured on the records.
//
// # Notation
//
//	x = Σ_j row_j / Denominator   a feature vector; rows are integers
//	y ∈ {-1, +1}                  income at most, above 50K
//
// # References
//
//	[BK96]    Becker, Kohavi. Adult. UCI Machine Learning Repository,
//	          doi:10.24432/C5XW20. Licence: CC BY 4.0.
//	[NRVW20]  Neel, Roth, Vietri, Wu. Oracle Efficient Private Non-Convex
//	          Optimization. ICML 2020.
package adult

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// ErrFormat reports a file that is not adult.data or adult.test.
var ErrFormat = errors.New("adult: invalid file")

// Schema is a schema of package table for the file, with public bins: round
// numbers within the published ranges, written by hand. Education is there as
// its number of years, fnlwgt, a weight of the census, is ignored.
//
//go:embed adult.schema.json
var Schema string

// Attribute is a field of the file: categorical with Levels, or a number in
// [0, Max]. "?", the missing value, is the last level where it occurs.
type Attribute struct {
	Name   string
	Levels []string
	Max    int64
}

// Attributes lists the fields of the file in order, without the label.
var Attributes = []Attribute{
	{Name: "age", Max: 90},
	{Name: "workclass", Levels: words("Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay ?")},
	{Name: "fnlwgt", Max: 1490400},
	{Name: "education", Levels: words("10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate HS-grad Masters " +
		"Preschool Prof-school Some-college")},
	{Name: "education-num", Max: 16},
	{Name: "marital-status", Levels: words("Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated " +
		"Widowed")},
	{Name: "occupation", Levels: words("Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners " +
		"Machine-op-inspct Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support Transport-moving ?")},
	{Name: "relationship", Levels: words("Husband Not-in-family Other-relative Own-child Unmarried Wife")},
	{Name: "race", Levels: words("Amer-Indian-Eskimo Asian-Pac-Islander Black Other White")},
	{Name: "sex", Levels: words("Female Male")},
	{Name: "capital-gain", Max: 99999},
	{Name: "capital-loss", Max: 4356},
	{Name: "hours-per-week", Max: 99},
	{Name: "native-country", Levels: words("Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France " +
		"Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica Japan Laos Mexico Nicaragua " +
		"Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico Scotland South Taiwan Thailand Trinadad&Tobago United-States " +
		"Vietnam Yugoslavia ?")},
}

const missing = "?"

func words(s string) []string { return strings.Fields(s) }

// Record is one person: a level or a number per attribute.
type Record struct {
	Value    [14]int64
	Positive bool // income above 50K
}

// Read reads adult.data or adult.test. Numbers outside [0, Max] are brought
// into it. Errors wrap ErrFormat and show the line, not its content.
func Read(r io.Reader) ([]Record, error) {
	var records []Record
	lines := bufio.NewScanner(r)
	for line := 1; lines.Scan(); line++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "|") {
			continue
		}
		rec, err := parse(strings.Split(text, ","))
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrFormat, line, err)
		}
		records = append(records, rec)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("%w: no records", ErrFormat)
	}
	return records, nil
}

func parse(fields []string) (rec Record, err error) {
	if len(fields) != len(Attributes)+1 {
		return rec, fmt.Errorf("%d fields, want %d separated by commas", len(fields), len(Attributes)+1)
	}
	for i, a := range Attributes {
		field := strings.TrimSpace(fields[i])
		if a.Levels == nil {
			v, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return rec, fmt.Errorf("field %q is not an integer", a.Name)
			}
			rec.Value[i] = min(max(v, 0), a.Max)
			continue
		}
		level := slices.Index(a.Levels, field)
		if level < 0 {
			return rec, fmt.Errorf("field %q is not one of its %d levels", a.Name, len(a.Levels))
		}
		rec.Value[i] = int64(level)
	}
	switch strings.TrimSuffix(strings.TrimSpace(fields[len(Attributes)]), ".") {
	case ">50K":
		rec.Positive = true
	case "<=50K":
	default:
		return rec, errors.New(`the label is neither "<=50K" nor ">50K"`)
	}
	return rec, nil
}

// Complete returns the records without a missing value.
func Complete(records []Record) []Record {
	whole := make([]Record, 0, len(records))
next:
	for _, r := range records {
		for i, a := range Attributes {
			if a.Levels != nil && a.Levels[r.Value[i]] == missing {
				continue next
			}
		}
		whole = append(whole, r)
	}
	return whole
}

// Balanced returns all positive records and as many negative ones: the first of
// them for a nil src, else a random choice; in the order of records. Not
// private: which records there are depends on the number of positive ones.
func Balanced(records []Record, src rand.Source) []Record {
	positive := 0
	var negative []int
	for i, r := range records {
		if r.Positive {
			positive++
		} else {
			negative = append(negative, i)
		}
	}
	if src != nil {
		rand.New(src).Shuffle(len(negative), func(i, j int) { negative[i], negative[j] = negative[j], negative[i] })
	}
	negative = negative[:min(positive, len(negative))]
	slices.Sort(negative)
	out := make([]Record, 0, positive+len(negative))
	for i, r := range records {
		_, chosen := slices.BinarySearch(negative, i)
		if r.Positive || chosen {
			out = append(out, r)
		}
	}
	return out
}
