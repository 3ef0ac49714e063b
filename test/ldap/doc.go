// Package ldap runs the pods of a service as a kubelet would, with real 389 Directory Servers of three versions and
// no cluster: read-only root, uid 389 without any capability, the agent as PID 1 above dscontainer, mounted
// Secrets and ConfigMaps that change live, a network of the pods' own, and a real kube-apiserver for
// what the agent reports.
//
// Everything here needs the build tag "ldap", and root, for it makes namespaces and mounts:
//
//	hack/trees/build.sh trixie # and bookworm, sid: the servers' root trees, once, some minutes each
//	go test -tags ldap -count=1 -timeout 45m ./test/ldap/...
//
// The test binary runs itself again in namespaces of its own (stages.go). Processes, mounts and the network of a run
// are in there, and the kernel removes them with it, however the run ends. Addresses are private ones of
// that network: the host has no route to it.
//
// harness.go and pod.go are what tests use. FDS_LOGS names a directory to keep all logs in; without it they are
// kept when a test fails.
package ldap
