// Package controlplane proves the function against the real thing: etcd, kube-apiserver with RBAC,
// kube-controller-manager, and Crossplane with the rights of its own chart and of our ClusterRole,
// nothing more. Only the kubelet is missing: a test marks pods Ready by itself, or asks for a stand-in
// (kubelet.go) that drives the pods of its namespace as a kubelet would, by rules for their images. In
// every pod that has an agent one is played (agents.go): there is no server, but what an agent reports
// goes to the API server over the pod's own token.
//
// Everything here needs the build tag "controlplane":
//
//	go test -tags controlplane -count=1 -timeout 30m ./test/controlplane/...
//
// The two flavours of the API exclude each other (two CRDs of one group cannot share a plural), so
// the suite runs once for each, on a control plane of its own, one after the other.
//
// The logs of every process are kept when a test fails; FDS_LOGS names a directory to keep them in
// always.
package controlplane
