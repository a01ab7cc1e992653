package adult

import (
	"fmt"
	"io"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Column is one feature: a 0/1 indicator of a level, or a number divided by its public maximum.
type Column struct {
	Attribute int // index into Attributes
	Level     int // index into Levels, -1 for a number
}

// String names the column as "marital-status=Divorced" or "capital-gain/99999".
func (c Column) String() string {
	a := Attributes[c.Attribute]
	if c.Level < 0 {
		return fmt.Sprintf("%s/%d", a.Name, a.Max)
	}
	return a.Name + "=" + a.Levels[c.Level]
}

// Features is a list of columns. All features are in [0, 1].
type Features []Column

// Numbers of columns that Experiment knows.
var Sizes = []int{23, 28, 43, 60, 104}

// Experiment returns one of the feature sets of the experiments.
//
//	23   marital-status, relationship, race, sex; capital-gain, capital-loss, hours-per-week   [NRVW20]
//	28   education, marital-status, sex; age, capital-gain, hours-per-week
//	43   the same and occupation
//	60   education, marital-status, relationship, race, sex, occupation, workclass
//	104  all categories without the missing ones; all numbers but fnlwgt
func Experiment(size int) (Features, error) {
	switch size {
	case 23:
		return Of("marital-status", "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week"), nil
	case 28:
		return Of("education", "marital-status", "sex", "age", "capital-gain", "hours-per-week"), nil
	case 43:
		return Of("education", "marital-status", "sex", "occupation", "age", "capital-gain", "hours-per-week"), nil
	case 60:
		return Of("education", "marital-status", "relationship", "race", "sex", "occupation", "workclass"), nil
	case 104:
		all := Of("workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country",
			"age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
		return slices.DeleteFunc(all, func(c Column) bool {
			return c.Level >= 0 && Attributes[c.Attribute].Levels[c.Level] == missing
		}), nil
	}
	return nil, fmt.Errorf("adult: no feature set of %d columns, want one of %v", size, Sizes)
}

// Of returns the columns of the named attributes: every level of a category, one
// column for a number. It panics on an unknown name.
func Of(names ...string) Features {
	var f Features
	for _, name := range names {
		i := slices.IndexFunc(Attributes, func(a Attribute) bool { return a.Name == name })
		if i < 0 {
			panic("adult: unknown attribute " + name)
		}
		if Attributes[i].Levels == nil {
			f = append(f, Column{i, -1})
		}
		for level := range Attributes[i].Levels {
			f = append(f, Column{i, level})
		}
	}
	return f
}

// Denominator is the least L such that every feature times L is an integer.
func (f Features) Denominator() int64 {
	l := int64(1)
	for _, c := range f {
		if c.Level < 0 {
			m := Attributes[c.Attribute].Max
			l = l / gcd(l, m) * m
		}
	}
	return l
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Integers encodes records as features times Denominator, and labels as ±1.
func (f Features) Integers(records []Record) (rows [][]int64, labels []int) {
	l := f.Denominator()
	rows = encode(f, records, l, func(v, most int64) int64 { return v * (l / most) })
	for _, r := range records {
		labels = append(labels, r.label())
	}
	return rows, labels
}

// Floats encodes records as features in [0, 1], and labels as ±1.
func (f Features) Floats(records []Record) (rows [][]float64, labels []float64) {
	rows = encode(f, records, 1, func(v, most int64) float64 { return float64(v) / float64(most) })
	for _, r := range records {
		labels = append(labels, float64(r.label()))
	}
	return rows, labels
}

// Sample is a set of encoded records.
type Sample struct {
	Rows   [][]float64
	Labels []float64 // ±1
}

// OneHot reads the records without a missing value of adult.data or adult.test, as the
// 104 features of Experiment.
func OneHot(r io.Reader) (s Sample, err error) {
	records, err := Read(r)
	if err != nil {
		return s, err
	}
	if records = Complete(records); len(records) == 0 {
		return s, fmt.Errorf("%w: no record without missing values", ErrFormat)
	}
	features, err := Experiment(104)
	if err != nil {
		return s, err
	}
	s.Rows, s.Labels = features.Floats(records)
	return s, nil
}

// Accuracy is the share of labels that the sign of ⟨row, theta⟩ is right about.
func (s Sample) Accuracy(theta []float64) float64 {
	right := 0
	for i, row := range s.Rows {
		if (floats.Dot(row, theta) > 0) == (s.Labels[i] > 0) {
			right++
		}
	}
	return float64(right) / float64(len(s.Rows))
}

// encode returns the rows of records: one where a category has the level of the column, and
// share(v, most) for a number v of at most most.
func encode[T int64 | float64](f Features, records []Record, one T, share func(v, most int64) T) [][]T {
	flat, rows := make([]T, len(records)*len(f)), make([][]T, len(records))
	for i, r := range records {
		rows[i] = flat[i*len(f) : (i+1)*len(f) : (i+1)*len(f)]
		for j, c := range f {
			switch v := r.Value[c.Attribute]; {
			case c.Level < 0:
				rows[i][j] = share(v, Attributes[c.Attribute].Max)
			case v == int64(c.Level):
				rows[i][j] = one
			}
		}
	}
	return rows
}

func (r *Record) label() int {
	if r.Positive {
		return 1
	}
	return -1
}
