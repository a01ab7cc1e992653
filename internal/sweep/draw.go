package sweep

// PNG draws the results of methods, which need not come from an experiment, as
// a picture: mean against value, with bands of one standard deviation.
func (p Plot) PNG(methods []string, results []Result) ([]byte, error) {
	return p.render("png", &Experiment{Methods: methods}, "", results)
}
