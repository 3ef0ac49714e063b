// Package pki makes the certificates that tests need.
//
// Everything but this file needs the build tag "controlplane" or "ldap".
package pki
