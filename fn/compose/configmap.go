package compose

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/389ds/function-directoryservice/fn/config"
)

// configMap is what the servers read while they run (R14), and what clients need to
// trust them (R52): unlike a Secret, anybody in the namespace may mount it.
func configMap(in Inputs) (*corev1.ConfigMap, error) {
	doc, err := in.Config.String()
	if err != nil {
		return nil, err
	}
	cm := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: in.meta(in.Identity.Config()),
		Data:       map[string]string{config.Key: doc},
	}
	if in.TLS.Public != "" {
		cm.Data[KeyOfCA] = in.TLS.Public
	}
	return cm, nil
}
