package main

import (
	"io"
	"os"
	"path/filepath"

	"github.com/crossplane/function-sdk-go/errors"
)

// install copies this program to where the server's container finds it: that container
// runs the server's image, which does not have it.
type install struct {
	To string `arg:"" help:"File to write."`
}

// Run writes the whole program or nothing.
func (c *install) Run() error {
	self, err := os.Executable()
	if err != nil {
		return errors.Wrap(err, "cannot find this program")
	}
	from, err := os.Open(self)
	if err != nil {
		return errors.Wrap(err, "cannot read this program")
	}
	defer func() { _ = from.Close() }()
	to, err := os.CreateTemp(filepath.Dir(c.To), ".install-*")
	if err != nil {
		return errors.Wrap(err, "cannot write the program")
	}
	defer func() { _ = os.Remove(to.Name()) }()
	if _, err := io.Copy(to, from); err != nil {
		return errors.Wrap(err, "cannot write the program")
	}
	if err := to.Chmod(0o755); err != nil {
		return errors.Wrap(err, "cannot make the program executable")
	}
	if err := to.Close(); err != nil {
		return errors.Wrap(err, "cannot write the program")
	}
	return errors.Wrap(os.Rename(to.Name(), c.To), "cannot put the program in its place")
}
