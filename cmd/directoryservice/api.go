package main

import (
	"time"

	"github.com/crossplane/function-sdk-go/errors"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// requestTimeout of one request to the API server.
const requestTimeout = 30 * time.Second

// apiClient reaches the API server as kubectl would, by $KUBECONFIG, or from within the
// cluster as the pod's ServiceAccount.
func apiClient() (*typedcorev1.CoreV1Client, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, errors.Wrap(err, "cannot find the API server")
	}
	config.Timeout = requestTimeout
	client, err := typedcorev1.NewForConfig(config)
	return client, errors.Wrap(err, "cannot make a client of the API server")
}
