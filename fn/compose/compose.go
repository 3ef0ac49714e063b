// Package compose builds the desired objects from the spec and what was decided.
// It is pure: one file for each kind of object, typed Kubernetes structs in and
// out, and the only source of chance is the reader it is given.
package compose

import (
	"io"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// Desired are the objects to compose, by composition resource name.
type Desired map[string]Object

// An Object to compose.
type Object struct {
	// Object is a pointer to a typed Kubernetes object with apiVersion and kind;
	// nil means: leave the observed object as it is.
	Object any
	// Fields are all that changes of an observed object, by path; empty where Object is
	// the whole of it.
	Fields [][2]string
	// NotReady says that the object does not work yet.
	NotReady bool
}

// Held returns an observed object as it is.
func Held() Object { return Object{} }

// Inputs of the composition.
type Inputs struct {
	Identity naming.Identity
	// Owner is the UID of the XR.
	Owner types.UID
	// Spec with defaults, the platform's and the schema's.
	Spec *v1alpha1.DirectoryServiceSpec
	// Decision on the image.
	Decision upgrade.Decision
	// Templates of the pods.
	Templates *Templates
	// Operating says that an operation runs, begins or ends with this decision.
	Operating bool
	// Config for the servers.
	Config config.Config
	// DMPassword is the Directory Manager's password: what exists of it.
	DMPassword DMPassword
	// TLS is the servers' certificate: what exists of it.
	TLS TLS
	// FirstServerOnly sends clients to the first server alone.
	FirstServerOnly bool
	// Available says that a client can use the service.
	Available bool

	// Observed names every composed object that exists.
	Observed map[string]struct{}
	// StatefulSet that exists; nil where there is none.
	StatefulSet *appsv1.StatefulSet
	// Reported says that the ConfigMap which the agents report in exists, and is one.
	Reported bool
	// Unstick are the pods that a Job each must delete. PodsUnknown says that it is
	// not known yet which there are.
	Unstick     []upgrade.Condemned
	PodsUnknown bool
	// Grow is what a Job must do to the volume claims; nil where there is nothing to
	// do. ClaimsUnknown says that it is not known yet which there are.
	Grow          *Growth
	ClaimsUnknown bool
	// EndedJobs are the keys of Jobs that have ended and that work is left for. They are
	// left out for a call, and made anew in the next.
	EndedJobs map[string]struct{}
	// AgentImage is the image of the function's own program, which those Jobs run;
	// empty where nobody knows it.
	AgentImage string
	// WaitToCreate says that no StatefulSet may be created yet: it is not known that
	// there is none, or what could not be changed later, its volumes, is wrong.
	WaitToCreate bool

	// Random is the source of generated passwords.
	Random io.Reader
}

// DMPassword is what exists of the Directory Manager's password.
type DMPassword struct {
	// Ref is the Secret and key that the pods refer to.
	Ref v1alpha1.SecretKeyRef
	// Usable says that Ref has a password in it, or is what running pods refer to.
	Usable bool
	// Generate says that there is none yet and that one may be made.
	Generate bool
	// Keep is the generated Secret that exists; nil where there is none, or where
	// it is not ours.
	Keep *corev1.Secret
}

// TLS is what exists of the servers' certificate.
type TLS struct {
	// Secret that the pods refer to.
	Secret string
	// Usable says that Secret has a certificate and its key in it, or is what running
	// pods refer to.
	Usable bool
	// InUse is the Secret that the StatefulSet's pods refer to as it was observed; "" where
	// they refer to none.
	InUse string
	// MakeCA says that there is no CA yet and that one may be made.
	MakeCA bool
	// Issue says that a certificate is to be made, by CA: one that was observed.
	Issue bool
	CA    *KeyPair
	// Now is the time of the call, from which a new certificate is valid.
	Now time.Time
	// KeepCA and Keep are the generated Secrets that exist; nil where there is none, or
	// where it is not ours.
	KeepCA, Keep *corev1.Secret
	// Public are the certificates of the CA, in PEM, for clients; "" where there are none.
	Public string
}

// Ready says that pods may refer to the Secret: a certificate is in it, or comes with
// this very call.
func (t TLS) Ready() bool { return t.Usable || t.Issue }

// Service composes the objects of a valid service. What is observed and has no
// place any more because the spec says so, or because a Job's work is done, goes; all
// else that is observed stays.
func Service(in Inputs) (Desired, error) {
	d := Desired{
		naming.KeyService:         {Object: clientService(in)},
		naming.KeyServiceInternal: {Object: internalService(in)},
	}
	reporting(in, d)

	cm, err := configMap(in)
	if err != nil {
		return nil, err
	}
	d[naming.KeyConfig] = Object{Object: cm}

	secret, err := dmPassword(in)
	if err != nil {
		return nil, err
	}
	if secret != nil {
		d[naming.KeyDMPassword] = Object{Object: secret}
	}

	if err := tls(in, d); err != nil {
		return nil, err
	}

	sts, err := statefulSet(in)
	if err != nil {
		return nil, err
	}
	if sts != nil {
		d[naming.KeyStatefulSet] = Object{Object: sts, NotReady: !in.Available}
	}

	if *in.Spec.Replicas > 1 {
		d[naming.KeyPodDisruptionBudget] = Object{Object: podDisruptionBudget(in)}
	}
	if in.Spec.NetworkPolicy.Enabled {
		d[naming.KeyNetworkPolicy] = Object{Object: networkPolicy(in)}
	}
	if in.Spec.DeletionProtection {
		d[naming.KeyUsage] = Object{Object: usage(in)}
	}

	removable := map[string]bool{
		naming.KeyPodDisruptionBudget: true,
		naming.KeyNetworkPolicy:       true,
		naming.KeyUsage:               true,
		naming.KeyCertificate:         !in.needsCertificate(),
	}
	for key := range in.Observed {
		if _, ok := d[key]; !ok && !removable[key] {
			d[key] = Held()
		}
	}
	if err := unstick(in, d); err != nil {
		return nil, err
	}
	if err := resize(in, d); err != nil {
		return nil, err
	}
	return d, nil
}

// Hold returns every observed object as it is and creates nothing.
func Hold(observed map[string]struct{}) Desired {
	d := make(Desired, len(observed))
	for key := range observed {
		d[key] = Held()
	}
	return d
}
