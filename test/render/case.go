// Package render holds the golden cases: for each kind of spec and each stage of a
// service, what the function makes of it. The same case runs in-process, in
// milliseconds, and through Crossplane's own engine.
package render

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// An Object is a YAML document.
type Object = map[string]any

// Now is what the function's clock shows in every case.
var Now = time.Date(2026, time.July, 1, 12, 0, 0, 0, time.UTC)

// AgentImage is the image of the function's own program in every case, as hack/render
// has it.
const AgentImage = "registry.example.com/function-directoryservice:v0.1.0"

// A Case is a folder with xr.yaml and, where they say something, observed.yaml,
// required.yaml and composition.yaml; want.yaml is what comes out.
type Case struct {
	Name string
	Dir  string

	XR       Object
	Observed []Object
	Required []Object
	// Input of the function, from composition.yaml.
	Input Object
	// Now is what the function's clock shows.
	Now time.Time
	// AgentImage that the function knows; "" where it knows none.
	AgentImage string

	// required by the function when it was called last.
	required *fnv1.Requirements
	// seed of all chance: another call makes another key.
	seed string
}

// withoutImage is the case of a function that does not know its own image.
const withoutImage = "no-agent-image"

// Cases reads all cases below a folder.
func Cases(root string) ([]Case, error) {
	dirs, err := filepath.Glob(filepath.Join(root, "*", "xr.yaml"))
	if err != nil {
		return nil, err
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("no cases below %s", root)
	}
	cases := make([]Case, 0, len(dirs))
	for _, d := range dirs {
		c, err := readCase(filepath.Dir(d))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func readCase(dir string) (Case, error) {
	c := Case{Name: filepath.Base(dir), Dir: dir, Now: Now, AgentImage: AgentImage}
	if c.Name == withoutImage {
		c.AgentImage = ""
	}
	xr, err := readDocuments(c.File("xr.yaml"))
	if err != nil {
		return c, err
	}
	if len(xr) != 1 {
		return c, errors.New("xr.yaml must hold one document")
	}
	c.XR = xr[0]
	if c.Observed, err = readDocuments(c.File("observed.yaml")); err != nil {
		return c, err
	}
	if c.Required, err = readDocuments(c.File("required.yaml")); err != nil {
		return c, err
	}
	composition, err := readDocuments(c.File("composition.yaml"))
	if err != nil {
		return c, err
	}
	if len(composition) == 1 {
		c.Input, _ = get(composition[0], "spec", "pipeline", 0, "input").(Object)
	}
	return c, nil
}

// File is the path of a file of the case.
func (c Case) File(name string) string { return filepath.Join(c.Dir, name) }

// Has says whether the case has that file.
func (c Case) Has(name string) bool {
	_, err := os.Stat(c.File(name))
	return err == nil
}

// readDocuments of a file; none where there is no file.
func readDocuments(file string) ([]Object, error) {
	raw, err := os.ReadFile(filepath.Clean(file))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(raw)
}

func parse(raw []byte) ([]Object, error) {
	var out []Object
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		o := Object{}
		if err := yaml.Unmarshal(doc, &o); err != nil {
			return nil, err
		}
		if len(o) > 0 {
			out = append(out, o)
		}
	}
}

// Marshal writes documents as want.yaml holds them.
func Marshal(docs []Object) ([]byte, error) {
	var out bytes.Buffer
	for _, d := range docs {
		b, err := yaml.Marshal(d)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(b)
	}
	return out.Bytes(), nil
}

// get walks into a document: strings are keys, integers are positions.
func get(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(Object)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func text(v any, path ...any) string {
	s, _ := get(v, path...).(string)
	return s
}
