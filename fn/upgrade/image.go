package upgrade

import (
	"fmt"

	"github.com/distribution/reference"
)

// A Catalog tells the version of images whose tag does not: image, exactly as it
// is named in the spec, to version.
type Catalog map[string]string

// tagOf is the tag of an image reference as the container runtimes read it
// (github.com/distribution/reference): `host:5000/x:3.1.0` and
// `repo:3.1.0@sha256:..` have the tag 3.1.0; a digest alone has none.
func tagOf(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("%q is not an image reference: %w", image, err)
	}
	if t, ok := named.(reference.Tagged); ok {
		return t.Tag(), nil
	}
	return "", nil
}

// ResolveTarget is what the spec asks for: the image, and the version in it. The
// version is "" where neither the spec nor the tag tells it. A version and an
// image that contradict each other, or an image whose version nobody vouches
// for, are refused (R25).
func ResolveTarget(image, version string, catalog Catalog) (Release, *Refusal) {
	target := Release{Image: image, Version: normalise(version)}
	if target.Version != "" {
		if _, err := ParseVersion(target.Version); err != nil {
			return target, &Refusal{Reason: ReasonInvalidVersion, Message: "spec.version: " + err.Error()}
		}
	}
	if known, ok := catalog[image]; ok {
		if _, err := ParseVersion(known); err != nil {
			return target, &Refusal{Reason: ReasonInvalidVersion, Message: fmt.Sprintf("the function's input, imageCatalog, for the image %q: %v", image, err)}
		}
		known = normalise(known)
		switch {
		case target.Version == "":
			target.Version = known
		case target.Version != known:
			return target, mismatch("the platform's image catalog says that spec.image %q contains version %s, and spec.version is %s: set both to the same version", image, known, target.Version)
		}
		return target, nil
	}

	t, err := tagOf(image)
	if err != nil {
		return target, &Refusal{Reason: ReasonInvalidImage, Message: "spec.image: " + err.Error()}
	}
	if target.Version == "" {
		if _, err := ParseVersion(t); err == nil {
			target.Version = normalise(t)
		}
		return target, nil
	}
	switch {
	case t == "":
		return target, mismatch("spec.image %q has no tag, so nothing says that it contains version %s: use the tag %s, or have the platform add the image to the function's imageCatalog", image, target.Version, target.Version)
	case normalise(t) != target.Version:
		return target, mismatch("spec.image %q has the tag %s, and spec.version is %s: set both to the same version, or have the platform add the image to the function's imageCatalog", image, t, target.Version)
	}
	return target, nil
}

func mismatch(format string, args ...any) *Refusal {
	return &Refusal{Reason: ReasonImageVersionMismatch, Message: fmt.Sprintf(format, args...)}
}
