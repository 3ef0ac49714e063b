//go:build ldap

package ldap

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(runStages(m)) }
