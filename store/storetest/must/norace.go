//go:build !race

package must

const raced = false
