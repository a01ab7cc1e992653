package objpert

// climber improves points by changing one or two columns: it gives a search
// over dense rows an incumbent to begin with.
type climber struct {
	w     *genericWorker
	k     []int   // value index per column, in the order of fixing
	score []int64 // ⟨x, w⟩ per row
	left  int     // squared norm left
	noise fixed   // Σ T
	value fixed
}

// start offers what becomes of two points: the one that the noise prefers, and
// the one of least norm.
func (w *genericWorker) start() {
	m := w.m
	c := &climber{w: w, k: make([]int, len(m.order)), score: make([]int64, len(m.pos))}
	for _, noisy := range []bool{true, false} {
		b := m.top
		for t := range c.k {
			pick := -1
			for _, k := range w.free[t] {
				switch fits := m.sq[k] <= b && w.gain[t+1][b-m.sq[k]] > -feasible; {
				case !fits:
				case noisy && w.table[t][k]+w.gain[t+1][b-m.sq[k]] == w.gain[t][b],
					!noisy && (pick < 0 || abs(m.values[k]) < abs(m.values[pick])):
					pick = k
				}
			}
			if pick < 0 {
				return // no point at all
			}
			c.k[t] = pick
			b -= m.sq[pick]
		}
		c.climb(b)
	}
}

func abs(v int) int { return max(v, -v) }

// climb improves the point in c.k, which leaves squared norm b, and offers it.
func (c *climber) climb(b int) {
	m := c.w.m
	clear(c.score)
	c.left, c.noise = b, 0
	for t, k := range c.k {
		c.noise += c.w.table[t][k]
		c.shift(t, int64(m.values[k]))
	}
	c.value = c.objective(0, 0)
	for !c.w.run.step(0) && (c.single() || c.pair()) {
	}
	for t, k := range c.k {
		c.w.point[m.order[t]] = m.values[k]
	}
	c.w.inc.offer(c.value, c.w.point)
}

// shift adds step to the weight of column t in the scores.
func (c *climber) shift(t int, step int64) {
	for g, x := range c.w.m.x[t] {
		c.score[g] += step * x
	}
}

// objective is the value of the point whose weight of column t is step more
// than the scores say, everything else in c up to date.
func (c *climber) objective(t int, step int64) fixed {
	m := c.w.m
	loss := int64(0)
	x := m.x[t]
	for g, s := range c.score {
		wrong := m.pos[g]
		if s+step*x[g] > 0 {
			wrong = m.neg[g]
		}
		loss += int64(wrong)
	}
	return fixed(loss)<<c.w.n.shift - c.noise - c.w.gain[len(m.order)][c.left]
}

// set makes column t have value index k, but for the scores, and returns the step.
func (c *climber) set(t, k int) (step int64) {
	m := c.w.m
	was := c.k[t]
	c.k[t] = k
	c.left += m.sq[was] - m.sq[k]
	c.noise += c.w.table[t][k] - c.w.table[t][was]
	return int64(m.values[k] - m.values[was])
}

// single makes the best change of one column, if any helps.
func (c *climber) single() bool {
	best, at, to := c.value, -1, 0
	for t, was := range c.k {
		if c.w.run.stop.Load() {
			break
		}
		for _, k := range c.w.free[t] {
			if k == was {
				continue
			}
			step := c.set(t, k)
			if c.left >= 0 {
				if v := c.objective(t, step); v < best {
					best, at, to = v, t, k
				}
			}
			c.set(t, was)
		}
	}
	if at < 0 {
		return false
	}
	c.shift(at, c.set(at, to))
	c.value = best
	return true
}

// pair makes the first change of two columns by a step each that helps.
func (c *climber) pair() bool {
	for t, was := range c.k {
		if c.w.run.stop.Load() {
			break
		}
		for _, k := range c.w.free[t] {
			if abs(k-was) != 1 {
				continue
			}
			step := c.set(t, k)
			c.shift(t, step)
			for u, old := range c.k[:t] {
				for _, l := range c.w.free[u] {
					if abs(l-old) != 1 {
						continue
					}
					second := c.set(u, l)
					if c.left >= 0 {
						if v := c.objective(u, second); v < c.value {
							c.shift(u, second)
							c.value = v
							return true
						}
					}
					c.set(u, old)
				}
			}
			c.shift(t, -step)
			c.set(t, was)
		}
	}
	return false
}
