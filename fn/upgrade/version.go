// Package upgrade decides which image a service runs. It is pure: no protocol,
// no clock of its own, no Kubernetes objects.
package upgrade

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// normalise drops one leading v: `v3.1.0` and `3.1.0` are one version (R4).
func normalise(version string) string { return strings.TrimPrefix(version, "v") }

// ParseVersion reads a semantic version (semver.org 2.0.0) as R4 allows it: a
// leading v, a pre-release, no build metadata, all three numbers.
func ParseVersion(version string) (*semver.Version, error) {
	v, err := semver.StrictNewVersion(normalise(version))
	if err != nil {
		return nil, fmt.Errorf("%q is not a semantic version such as 3.1.0: %w", version, err)
	}
	if v.Metadata() != "" {
		return nil, fmt.Errorf("%q has build metadata (+%s), which no image tag can carry: leave it out", version, v.Metadata())
	}
	// It is the value of the label app.kubernetes.io/version.
	if problems := validation.IsValidLabelValue(normalise(version)); len(problems) > 0 {
		return nil, fmt.Errorf("%q cannot be a label's value: %s", version, strings.Join(problems, ", "))
	}
	return v, nil
}

// runs says whether a server that reports one version is of the other, the one that was
// decided on; whatever it reports where that is unknown. Pre-releases are not told apart:
// 389 DS calls 3.1.0-rc.1 either 3.1.0.rc1 or 3.1.0.
func runs(reported, version string) bool {
	if version == "" {
		return true
	}
	v, err := ParseVersion(version)
	if err != nil {
		return normalise(reported) == version
	}
	rest, ok := strings.CutPrefix(normalise(reported), fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch()))
	return ok && (rest == "" || rest[0] < '0' || rest[0] > '9')
}
