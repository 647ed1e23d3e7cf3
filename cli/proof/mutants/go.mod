module tollhouse/cli/proof/mutants

go 1.26.0
