package objpert

import "sync"

// cache holds what oracles derive from the records and the space alone, so
// that a Problem perturbed many times derives it once. A nil cache derives it
// every time.
type cache struct {
	mu     sync.Mutex
	models map[cellKey]*cellModel
}

type cellKey struct {
	norm   bool // the norm has a table
	memory int64
}

func (c *cache) cells(p *Problem, memory int64) (*cellModel, error) {
	if c == nil {
		return newCellModel(p, memory)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cellKey{p.weighsNorm(), memory}
	if m, ok := c.models[key]; ok {
		return m, nil
	}
	m, err := newCellModel(p, memory)
	if err != nil {
		return nil, err
	}
	if c.models == nil {
		c.models = make(map[cellKey]*cellModel)
	}
	c.models[key] = m
	return m, nil
}
