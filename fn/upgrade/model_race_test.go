//go:build race

package upgrade_test

// raced says that the race detector slows the tests down.
const raced = true
