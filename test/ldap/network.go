//go:build ldap

package ldap

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
)

// The pods' network is a bridge in the tests' network namespace, and a veth pair for each pod. The tests have an
// address of it, so that they reach the pods, and the pods the API server.
const (
	bridge         = "pods"
	bridgeAddress  = "10.244.0.1"
	networkPrefix  = "/16"
	addressPattern = "10.244.%d.%d"
)

// interfaces counts the pods' interfaces, and addresses the addresses given.
var interfaces, addresses atomic.Int32

func makeNetwork() error {
	return ip("link set lo up", "link add "+bridge+" type bridge", "addr add "+bridgeAddress+networkPrefix+" dev "+bridge, "link set "+bridge+" up")
}

// newAddress is one that no pod of this run had.
func newAddress() string {
	n := addresses.Add(1)
	return fmt.Sprintf(addressPattern, 1+n/200, 1+n%200)
}

// connect gives the network namespace of a process the interface eth0. It goes with that namespace.
func connect(pid int) error {
	name := fmt.Sprintf("pod%d", interfaces.Add(1))
	return ip(fmt.Sprintf("link add %s type veth peer name eth0 netns %d", name, pid), "link set "+name+" master "+bridge+" up")
}

// ip runs commands of ip(8).
func ip(commands ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %q: %w: %s", commands, err, bytes.TrimSpace(out))
	}
	return nil
}
