package compose

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// meta of a composed object: every one has its name, its namespace and the labels
// of R15.
func (in Inputs) meta(name string) metav1.ObjectMeta {
	version := ""
	if in.Decision.Run != nil {
		version = in.Decision.Run.Version
	}
	return metav1.ObjectMeta{
		Name:      name,
		Namespace: in.Identity.Namespace,
		Labels:    in.Identity.Labels(version),
	}
}
