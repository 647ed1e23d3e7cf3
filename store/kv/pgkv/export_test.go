package pgkv

// Patient returns o with n times the time limits, for tests on slow machines that are
// not about them.
func (o Options) Patient(n int) Options {
	o.patience = n
	return o
}
