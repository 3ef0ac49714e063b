// Command xrdgen carries the CRD that controller-gen made of the Go types into
// the two XRDs, one for each flavour.
//
// Crossplane adds metadata, status.conditions and its own machinery to the CRDs
// that it makes of an XRD, so those are left out here; of the root, spec and
// status it carries over only descriptions, properties, required and CEL rules.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const header = "# Generated from apis/v1alpha1 by `make generate`. Do not edit.\n"

// crd is the part of a CustomResourceDefinition that an XRD can carry.
type crd struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind       string   `json:"kind"`
			Plural     string   `json:"plural"`
			Singular   string   `json:"singular"`
			ShortNames []string `json:"shortNames"`
		} `json:"names"`
		Versions []struct {
			Name                     string         `json:"name"`
			AdditionalPrinterColumns []any          `json:"additionalPrinterColumns"`
			Subresources             map[string]any `json:"subresources"`
			Schema                   struct {
				OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: xrdgen CRD.yaml APIS_DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "xrdgen:", err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	raw, err := os.ReadFile(filepath.Clean(in))
	if err != nil {
		return err
	}
	c := &crd{}
	if err := yaml.Unmarshal(raw, c); err != nil {
		return err
	}
	if len(c.Spec.Versions) != 1 {
		return errors.New("the CRD must have exactly one version")
	}
	version, err := xrdVersion(c)
	if err != nil {
		return err
	}

	names := map[string]any{
		"kind":       c.Spec.Names.Kind,
		"plural":     c.Spec.Names.Plural,
		"singular":   c.Spec.Names.Singular,
		"shortNames": c.Spec.Names.ShortNames,
	}
	namespaced := map[string]any{
		"apiVersion": "apiextensions.crossplane.io/v2",
		"kind":       "CompositeResourceDefinition",
		"metadata":   map[string]any{"name": c.Spec.Names.Plural + "." + c.Spec.Group},
		"spec": map[string]any{
			"group":                 c.Spec.Group,
			"scope":                 "Namespaced",
			"names":                 names,
			"defaultCompositionRef": map[string]any{"name": "directoryservices"},
			"versions":              []any{version},
		},
	}
	xplural := "x" + c.Spec.Names.Plural
	claim := map[string]any{
		"apiVersion": "apiextensions.crossplane.io/v1",
		"kind":       "CompositeResourceDefinition",
		"metadata":   map[string]any{"name": xplural + "." + c.Spec.Group},
		"spec": map[string]any{
			"group": c.Spec.Group,
			"scope": "LegacyCluster",
			"names": map[string]any{
				"kind":     "X" + c.Spec.Names.Kind,
				"plural":   xplural,
				"singular": "x" + c.Spec.Names.Singular,
			},
			"claimNames":            names,
			"defaultCompositionRef": map[string]any{"name": "xdirectoryservices"},
			"versions":              []any{version},
		},
	}
	for dir, xrd := range map[string]any{"namespaced": namespaced, "claim": claim} {
		b, err := yaml.Marshal(xrd)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, dir, "definition.yaml"), append([]byte(header), b...), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// xrdVersion is the CRD's version as an XRD's: its schema without what
// Crossplane adds itself.
func xrdVersion(c *crd) (map[string]any, error) {
	v := c.Spec.Versions[0]
	root := v.Schema.OpenAPIV3Schema
	props, ok := root["properties"].(map[string]any)
	if !ok {
		return nil, errors.New("the schema has no properties")
	}
	status, ok := props["status"].(map[string]any)
	if !ok {
		return nil, errors.New("the schema has no status")
	}
	statusProps, ok := status["properties"].(map[string]any)
	if !ok {
		return nil, errors.New("the status has no properties")
	}
	delete(statusProps, "conditions")
	// No field of the status is obligatory: the function returns it whole, and
	// older states of it must still be accepted.
	delete(status, "required")

	schema := map[string]any{
		"type":       "object",
		"properties": map[string]any{"spec": props["spec"], "status": status},
		"required":   []any{"spec"},
	}
	for _, k := range []string{"description", "x-kubernetes-validations"} {
		if x, ok := root[k]; ok {
			schema[k] = x
		}
	}
	scale, ok := v.Subresources["scale"]
	if !ok {
		return nil, errors.New("the CRD has no scale subresource")
	}
	return map[string]any{
		"name":                     v.Name,
		"served":                   true,
		"referenceable":            true,
		"additionalPrinterColumns": v.AdditionalPrinterColumns,
		"subresources":             map[string]any{"scale": scale},
		"schema":                   map[string]any{"openAPIV3Schema": schema},
	}, nil
}
