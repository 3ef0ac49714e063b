package compose

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/389ds/function-directoryservice/fn/config"
)

// configMap is what the servers read while they run (R14).
func configMap(in Inputs) (*corev1.ConfigMap, error) {
	doc, err := in.Config.String()
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: in.meta(in.Identity.Config()),
		Data:       map[string]string{config.Key: doc},
	}, nil
}
