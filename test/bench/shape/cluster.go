package shape

import (
	"encoding/json"
	"fmt"
	"maps"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

// A cluster does to the function's objects what the API server and its controllers
// do: mostly, it makes them larger.
type cluster struct {
	builtin, custom managedfields.TypeConverter
}

type object = map[string]any

const (
	now = "2026-01-01T00:00:00Z"
	uid = "0b0f4f0e-5d0c-4c39-9a0f-0d6d1c6c1f0a"

	crossplane = "apiextensions.crossplane.io/composed/6f1c2a1d3f"
	controller = "kube-controller-manager"
	kubelet    = "kubelet"
)

func newCluster() *cluster {
	return &cluster{
		builtin: applyconfigurations.NewTypeConverter(scheme.Scheme),
		custom:  managedfields.NewDeducedTypeConverter(),
	}
}

// apply returns the request that follows when everything was applied, every pod
// runs, and Crossplane has looked up what was required.
func (c *cluster) apply(req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) *fnv1.RunFunctionRequest {
	next := proto.CloneOf(req)
	next.Observed.Resources = make(map[string]*fnv1.Resource)
	next.RequiredResources = make(map[string]*fnv1.Resources)

	objects := make([]object, 0, len(rsp.GetDesired().GetResources()))
	for key, r := range rsp.GetDesired().GetResources() {
		o := r.GetResource().AsMap()
		composed(key, o)
		if kind(o) == "StatefulSet" {
			o["status"] = statefulSetStatus()
			for i := range replicas {
				claim := claim(o, i)
				pod := pod(o, claim, i)
				c.stored(pod, controller, kubelet)
				c.stored(claim, controller, controller)
				objects = append(objects, claim, pod)
			}
		}
		c.stored(o, crossplane, controller)
		objects = append(objects, o)
		next.Observed.Resources[key] = &fnv1.Resource{Resource: must(structpb.NewStruct(o))}
	}

	xr := req.GetObserved().GetComposite().GetResource().AsMap()
	xr["status"] = compositeStatus(rsp)
	c.stored(xr, "kubectl-client-side-apply", "crossplane")
	next.Observed.Composite = &fnv1.Resource{Resource: must(structpb.NewStruct(xr))}

	for name, selector := range rsp.GetRequirements().GetResources() {
		next.RequiredResources[name] = &fnv1.Resources{}
		for _, o := range objects {
			if selects(selector, o) {
				next.RequiredResources[name].Items = append(next.RequiredResources[name].Items, &fnv1.Resource{Resource: must(structpb.NewStruct(o))})
			}
		}
	}
	return next
}

func selects(s *fnv1.ResourceSelector, o object) bool {
	if s.GetKind() != kind(o) {
		return false
	}
	if name := s.GetMatchName(); name != "" {
		return name == meta(o)["name"]
	}
	labels, _ := meta(o)["labels"].(object)
	for k, v := range s.GetMatchLabels().GetLabels() {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func kind(o object) string { s, _ := o["kind"].(string); return s }

func meta(o object) object { m, _ := o["metadata"].(object); return m }

// composed is what Crossplane adds to the function's objects.
func composed(key string, o object) {
	m := meta(o)
	annotations := object{"crossplane.io/composition-resource-name": key}
	if a, ok := m["annotations"].(object); ok {
		maps.Copy(annotations, a)
	}
	m["annotations"] = annotations
	labels := object{"crossplane.io/composite": Name}
	if l, ok := m["labels"].(object); ok {
		maps.Copy(labels, l)
	}
	m["labels"] = labels
	owned(o, "dirsrv.operator.port389.org/v1alpha1", "DirectoryService", Name)
}

func owned(o object, apiVersion, kind, name string) {
	meta(o)["ownerReferences"] = []any{object{
		"apiVersion": apiVersion, "kind": kind, "name": name, "uid": uid,
		"controller": true, "blockOwnerDeletion": true,
	}}
}

// stored is what the API server adds. The managed fields are by far the most.
func (c *cluster) stored(o object, specManager, statusManager string) {
	m := meta(o)
	delete(m, "managedFields")
	whole := maps.Clone(o)
	delete(whole, "status")
	managed := []any{managedFields(specManager, o["apiVersion"], c.fields(whole))}
	if status, ok := o["status"]; ok {
		only := object{"apiVersion": o["apiVersion"], "kind": o["kind"], "status": status}
		entry := managedFields(statusManager, o["apiVersion"], c.fields(only))
		entry["subresource"] = "status"
		managed = append(managed, entry)
	}
	m["uid"], m["resourceVersion"], m["generation"], m["creationTimestamp"] = uid, "123456789", 1, now
	m["managedFields"] = managed
}

func managedFields(manager string, apiVersion any, fields object) object {
	return object{"manager": manager, "operation": "Apply", "apiVersion": apiVersion, "time": now, "fieldsType": "FieldsV1", "fieldsV1": fields}
}

// fields are the object's, in the form of metadata.managedFields.
func (c *cluster) fields(o object) object {
	u := &unstructured.Unstructured{Object: o}
	converter := c.custom
	if scheme.Scheme.Recognizes(u.GroupVersionKind()) {
		converter = c.builtin
	}
	set := must(must(converter.ObjectToTyped(u)).ToFieldSet())
	out := object{}
	if err := json.Unmarshal(must(set.ToJSON()), &out); err != nil {
		panic(err)
	}
	return out
}

func compositeStatus(rsp *fnv1.RunFunctionResponse) object {
	status, ok := rsp.GetDesired().GetComposite().GetResource().AsMap()["status"].(object)
	if !ok {
		status = object{}
	}
	list := []any{condition("Synced", "ReconcileSuccess", ""), condition("Ready", "Available", "")}
	for _, c := range rsp.GetConditions() {
		o := condition(c.GetType(), c.GetReason(), c.GetMessage())
		switch c.GetStatus() {
		case fnv1.Status_STATUS_CONDITION_FALSE:
			o["status"] = "False"
		case fnv1.Status_STATUS_CONDITION_UNKNOWN, fnv1.Status_STATUS_CONDITION_UNSPECIFIED:
			o["status"] = "Unknown"
		case fnv1.Status_STATUS_CONDITION_TRUE:
		}
		list = append(list, o)
	}
	status["conditions"] = list
	return status
}

func condition(kind, reason, message string) object {
	o := object{"type": kind, "status": "True", "lastTransitionTime": now}
	if reason != "" {
		o["reason"] = reason
	}
	if message != "" {
		o["message"] = message
	}
	return o
}

func statefulSetStatus() object {
	return object{
		"observedGeneration": 1, "collisionCount": 0,
		"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas, "updatedReplicas": replicas, "currentReplicas": replicas,
		"currentRevision": Name + "-5d8f7c9b6", "updateRevision": Name + "-5d8f7c9b6",
	}
}

// claim is the volume claim of one pod.
func claim(set object, ordinal int) object {
	u := unstructured.Unstructured{Object: set}
	templates, _, _ := unstructured.NestedSlice(u.Object, "spec", "volumeClaimTemplates")
	template, _ := templates[0].(object)
	labels, _, _ := unstructured.NestedMap(set, "spec", "selector", "matchLabels")
	spec, _ := template["spec"].(object)
	spec["volumeName"], spec["volumeMode"], spec["storageClassName"] = "pvc-"+uid, "Filesystem", "standard"
	return object{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"metadata": object{
			"name":      fmt.Sprintf("%s-%s-%d", meta(template)["name"], u.GetName(), ordinal),
			"namespace": u.GetNamespace(),
			"labels":    labels,
			"annotations": object{
				"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
				"volume.kubernetes.io/storage-provisioner": "example.com/provisioner",
			},
			"finalizers": []any{"kubernetes.io/pvc-protection"},
		},
		"spec":   spec,
		"status": object{"phase": "Bound", "accessModes": []any{"ReadWriteOnce"}, "capacity": object{"storage": "10Gi"}},
	}
}

// pod is one of the StatefulSet's, with its claim, scheduled and Ready.
func pod(set, claim object, ordinal int) object {
	u := unstructured.Unstructured{Object: set}
	template, _, _ := unstructured.NestedMap(set, "spec", "template")
	name := fmt.Sprintf("%s-%d", u.GetName(), ordinal)
	m := meta(template)
	m["name"], m["namespace"] = name, u.GetNamespace()
	labels, _ := m["labels"].(object)
	labels["controller-revision-hash"], labels["statefulset.kubernetes.io/pod-name"] = Name+"-5d8f7c9b6", name
	labels["apps.kubernetes.io/pod-index"] = fmt.Sprint(ordinal)

	spec, _ := template["spec"].(object)
	volumes, _ := spec["volumes"].([]any)
	spec["volumes"] = append(volumes, object{"name": "ds-data", "persistentVolumeClaim": object{"claimName": meta(claim)["name"]}})
	maps.Copy(spec, object{
		"nodeName": "node-1", "hostname": name, "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
		"schedulerName": "default-scheduler", "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
	})

	status := object{
		"phase": "Running", "podIP": "10.244.0.10", "podIPs": []any{object{"ip": "10.244.0.10"}}, "hostIP": "192.0.2.1",
		"startTime": now, "qosClass": "Burstable",
		"conditions": []any{
			condition("PodReadyToStartContainers", "", ""), condition("Initialized", "", ""), condition("Ready", "", ""),
			condition("ContainersReady", "", ""), condition("PodScheduled", "", ""),
		},
	}
	for list, statuses := range map[string]string{"containers": "containerStatuses", "initContainers": "initContainerStatuses"} {
		containers, _ := spec[list].([]any)
		var out []any
		for _, c := range containers {
			c, _ := c.(object)
			out = append(out, object{
				"name": c["name"], "image": c["image"], "imageID": "quay.io/389ds/dirsrv@sha256:" + digest, "containerID": "containerd://" + digest,
				"ready": true, "started": true, "restartCount": 0, "state": object{"running": object{"startedAt": now}}, "lastState": object{},
			})
		}
		if out != nil {
			status[statuses] = out
		}
	}
	o := object{"apiVersion": "v1", "kind": "Pod", "metadata": m, "spec": spec, "status": status}
	owned(o, "apps/v1", "StatefulSet", u.GetName())
	return o
}

const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
