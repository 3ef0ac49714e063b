package render

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

const keyAnnotation = "crossplane.io/composition-resource-name"

// generated stands for a value that differs from run to run, and packed for what a
// name before it tells: other versions of Go pack otherwise.
const (
	generated = "GENERATED"
	packed    = "PACKED"
)

// packedTemplate is a pod template in an annotation, `<name>.<gzip, base64>`.
var packedTemplate = regexp.MustCompile(`\b([0-9a-f]{12}-[0-9a-f]{12})\.H4sI[A-Za-z0-9+/=]+`)

// unpacked is a text without packed templates.
func unpacked(s string) string { return packedTemplate.ReplaceAllString(s, "$1."+packed) }

// Normal is the output of a run without what Crossplane adds in its own name, so
// that it can be compared between the engine and an in-process run: the XR's
// status, then the composed objects by their key, then the function's events.
func (c Case) Normal(docs []Object) []Object {
	known := c.secretValues()
	var xr, results []Object
	composed := []Object{}
	for _, d := range docs {
		switch kind := text(d, "kind"); {
		case kind == text(c.XR, "kind"):
			xr = append(xr, normalXR(d))
		case kind == "Result":
			if r := normalResult(d); r != nil {
				results = append(results, r)
			}
		default:
			composed = append(composed, normalComposed(d, known))
		}
	}
	slices.SortFunc(composed, func(a, b Object) int {
		return cmp.Compare(text(a, "metadata", "annotations", keyAnnotation), text(b, "metadata", "annotations", keyAnnotation))
	})
	return append(append(xr, composed...), results...)
}

// crossplaneConditions are not the function's.
var crossplaneConditions = map[string]bool{"Synced": true, "Responsive": true}

func normalXR(xr Object) Object {
	status, _ := get(xr, "status").(Object)
	delete(status, "claimConditionTypes")
	list, _ := status["conditions"].([]any)
	var conditions []any
	for _, c := range list {
		c, _ := c.(Object)
		t := text(c, "type")
		if crossplaneConditions[t] {
			continue
		}
		delete(c, "lastTransitionTime")
		delete(c, "observedGeneration")
		if t == "Ready" {
			c = Object{"type": t, "status": c["status"]}
		}
		conditions = append(conditions, c)
	}
	slices.SortFunc(conditions, func(a, b any) int { return cmp.Compare(text(a, "type"), text(b, "type")) })
	status["conditions"] = conditions
	return Object{"apiVersion": xr["apiVersion"], "kind": xr["kind"], "metadata": Object{"name": text(xr, "metadata", "name")}, "status": status}
}

func normalComposed(o Object, known map[string]bool) Object {
	meta, _ := o["metadata"].(Object)
	delete(meta, "ownerReferences")
	if labels, ok := meta["labels"].(Object); ok {
		for l := range labels {
			if strings.HasPrefix(l, "crossplane.io/") {
				delete(labels, l)
			}
		}
	}
	annotations, _ := meta["annotations"].(Object)
	for k, v := range annotations {
		if s, ok := v.(string); ok {
			annotations[k] = unpacked(s)
		}
	}
	if o["kind"] == "Secret" {
		data, _ := o["data"].(Object)
		for k, v := range data {
			if s, _ := v.(string); !known[s] {
				data[k] = generated
			}
		}
	}
	return o
}

const step = `Pipeline step "compose": `

// normalResult is one of the function's own events; nil for Crossplane's.
func normalResult(r Object) Object {
	message, ours := strings.CutPrefix(text(r, "message"), step)
	if !ours {
		return nil
	}
	return Object{"kind": "Result", "severity": r["severity"], "reason": r["reason"], "message": message}
}

// secretValues that the case gives: those must come back as they are.
func (c Case) secretValues() map[string]bool {
	known := map[string]bool{}
	for _, list := range [][]Object{c.Observed, c.Required} {
		for _, o := range list {
			data, _ := o["data"].(Object)
			for _, v := range data {
				if s, ok := v.(string); ok {
					known[s] = true
				}
			}
		}
	}
	return known
}
