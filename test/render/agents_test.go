package render

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/389ds/function-directoryservice/fn/agent/directory"
	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/report"
)

// This file is what the agents in the pods do in a life (fn/agent).

// A volume is what a server's agent finds on it.
type volume struct {
	// suffixes that have their root entry.
	suffixes map[string]bool
	// lived says that it has held a server that was Ready.
	lived bool
}

// An agent runs in one pod.
type agent struct {
	report report.Report
	// boots of the server.
	boots int
	// installed is the hash of the certificate that the server was started with.
	installed string
}

func hasAgent(p *corev1.Pod) bool { return len(p.Spec.InitContainers) > 0 }

// boot the server of a pod; bootIDs are by chance otherwise.
func (l *life) boot(p *corev1.Pod) *agent {
	a := l.agents[p.UID]
	if a == nil {
		a = &agent{}
		l.agents[p.UID] = a
	}
	a.boots++
	a.report = report.Report{
		PodUID: string(p.UID), BootID: strings.ReplaceAll(uid(fmt.Sprint(p.UID, "/", a.boots)), "-", "")[:16],
		Applied: report.Applied{Restart: a.report.Applied.Restart},
	}
	return a
}

// look once over a server that runs, and report; it returns whether it is Ready.
func (l *life) look(ordinal int32, p *corev1.Pod) bool {
	a := l.agents[p.UID]
	if a == nil || a.report.Version == "" {
		a = l.boot(p)
		_, a.report.Version, _ = strings.Cut(p.Spec.Containers[0].Image, ":")
		a.installed = l.mounted(p)
	}
	doc := text(l.named("ConfigMap", serviceName+"-config"), "data", config.Key)
	c, err := config.Parse(doc)
	l.must(err)
	r := &a.report
	r.Config, r.DMPassword = config.Hash(doc), report.Part{State: report.StateApplied}

	mounted := l.mounted(p)
	if permit := c.Restart; mounted != a.installed && permit != nil && permit.Ordinal == ordinal && permit.Hash == mounted {
		version := r.Version
		a = l.boot(p)
		r = &a.report
		r.Version, r.Applied.Restart, r.Config = version, mounted, config.Hash(doc)
		r.DMPassword, a.installed = report.Part{State: report.StateApplied}, mounted
	}
	r.Applied.TLS, r.TLS, r.Restart = a.installed, report.Part{State: report.StateApplied}, ""
	if mounted != a.installed {
		r.TLS = report.Part{State: report.StatePending, Message: "a new certificate is served after a restart, which waits for its turn"}
		r.Restart = mounted
	}

	v := l.volumes[ordinal]
	known := make(map[string]bool, len(v.suffixes))
	for name, has := range v.suffixes {
		known[name] = has
	}
	var because []string
	r.Suffixes = map[string]report.Suffix{}
	for _, s := range c.Suffixes {
		f := l.suffix(ordinal, v, s)
		r.Suffixes[s.Name] = f
		switch {
		case s.Orphaned, f.State == report.SuffixReady:
		case v.lived && !known[s.Name] && !s.Founded:
		case f.State == report.SuffixWaiting && !c.Replicated && ordinal > 0 && !known[s.Name]:
		default:
			because = append(because, fmt.Sprintf("suffix %s (%s): %s", s.Name, s.DN, f.Message))
		}
	}
	r.Message = strings.Join(because, "; ")
	r.Ready = len(because) == 0
	v.lived = v.lived || r.Ready
	l.report(p, r)
	return r.Ready
}

// suffix of one server. The first one makes what was never made; nothing replicates to
// the others.
func (l *life) suffix(ordinal int32, v *volume, s config.Suffix) report.Suffix {
	switch failure := l.suffixFails[s.Name]; {
	case v.suffixes[s.Name]:
	case failure != "":
		return report.Suffix{State: report.SuffixFailed, Message: failure}
	case s.Founded && ordinal == 0:
		return report.Suffix{
			State:   report.SuffixWaiting,
			Message: directory.Lost,
		}
	case !s.Founded && !s.CreateEntry:
		return report.Suffix{State: report.SuffixReady, Initialized: true}
	case ordinal > 0:
		return report.Suffix{State: report.SuffixWaiting, Message: "waits for a peer's data"}
	}
	v.suffixes[s.Name] = true
	return report.Suffix{State: report.SuffixReady, Founded: true, Initialized: true}
}

// failed is what the agent of a pod that ends leaves behind: its report, and the message
// that it ends with.
func (l *life) failed(p *corev1.Pod, f fate) (message string) {
	a := l.boot(p)
	message = "the server ended by itself (exit status 1)"
	a.report.Message = message
	if why := refusals[f]; why != "" {
		a.report.BootID, a.report.Refusal = "", &report.Refusal{Reason: string(f), Message: why}
		a.report.Message = fmt.Sprintf("cannot prepare the volume: %s: %s", f, why)
		b, err := json.Marshal(a.report.Refusal)
		l.must(err)
		message = string(b)
	}
	l.report(p, &a.report)
	return message
}

// refusals as package prepare words them.
var refusals = map[fate]string{
	otherVersion: "the image contains 389 Directory Server 3.1.0, and the pod is for 3.1.1. Set spec.version to 3.1.0, or spec.image to an image of 3.1.1",
	losesWrites: "3.1.0 opens the Berkeley DB of before the migration: what was written since 2026-07-01 would be lost on this server. Go on with 3.1.1. " +
		"Or, if you have a backup or can do without: kubectl annotate dirsrv example-ds dirsrv.operator.port389.org/backup-confirmed='3.1.1->3.1.0' --overwrite",
}

// report of a pod, in its key of the ConfigMap, as soon as that may be written.
func (l *life) report(p *corev1.Pod, r *report.Report) {
	state := l.composed[naming.KeyState]
	if state == nil || l.composed[naming.KeyRoleBinding] == nil {
		return
	}
	doc, err := r.String()
	l.must(err)
	data, _ := state["data"].(Object)
	if data == nil {
		data = Object{}
		state["data"] = data
	}
	if data[p.Name] != doc {
		data[p.Name] = doc
		state["metadata"].(Object)["resourceVersion"] = l.resourceVersion("ConfigMap/" + text(state, "metadata", "name"))
	}
}

// mounted is the hash of the certificate in a pod.
func (l *life) mounted(p *corev1.Pod) string {
	for _, v := range l.templates[p.Labels[appsv1.StatefulSetRevisionLabel]].Spec.Volumes {
		if v.Name == compose.VolumeTLS {
			s := l.named("Secret", v.Secret.SecretName)
			return config.TLSHash(l.decoded(s, corev1.TLSCertKey), l.decoded(s, compose.KeyOfCA))
		}
	}
	l.t.Fatalf("pod %s mounts no certificate", p.Name)
	return ""
}

func (l *life) decoded(secret Object, key string) []byte {
	b, err := base64.StdEncoding.DecodeString(text(secret, "data", key))
	l.must(err)
	return b
}

// named is an object of that kind and name; nil where there is none.
func (l *life) named(kind, name string) Object {
	for _, o := range l.composed {
		if text(o, "kind") == kind && text(o, "metadata", "name") == name {
			return o
		}
	}
	for _, o := range l.others {
		if text(o, "kind") == kind && text(o, "metadata", "name") == name {
			return o
		}
	}
	return nil
}
