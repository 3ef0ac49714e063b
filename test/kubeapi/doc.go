// Package kubeapi runs a real etcd and kube-apiserver for tests: RBAC is on, tokens of service accounts are
// real ones, and there is no controller, scheduler or kubelet.
//
// Everything but this file needs the build tag "controlplane" or "ldap".
package kubeapi
