module example.com/ownmechanism

go 1.26.0

replace github.com/privopt/privopt => ../..

require github.com/privopt/privopt v0.0.0-00010101000000-000000000000

require gonum.org/v1/gonum v0.17.0 // indirect
