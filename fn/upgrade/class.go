package upgrade

import "github.com/Masterminds/semver/v3"

// A Class says what kind of change a step from one version to another is.
type Class string

// The classes. The most significant part that differs decides; a pre-release of
// the same core is patch class.
const (
	ClassSame      Class = "SameVersion"
	ClassPatchUp   Class = "PatchUpgrade"
	ClassPatchDown Class = "PatchDowngrade"
	ClassMinorUp   Class = "MinorUpgrade"
	ClassMinorDown Class = "MinorDowngrade"
	ClassMajorUp   Class = "MajorUpgrade"
	ClassMajorDown Class = "MajorDowngrade"
	ClassUnknown   Class = "Unversioned"
	ClassPodUpdate Class = "PodUpdate"
)

// Classify compares two versions by semantic-version precedence (semver.org 2.0.0,
// section 11). A version that nobody knows makes the class unknown.
func Classify(current, target string) Class {
	from, err := semver.NewVersion(current)
	if err != nil {
		return ClassUnknown
	}
	to, err := semver.NewVersion(target)
	if err != nil {
		return ClassUnknown
	}
	up := to.GreaterThan(from)
	choose := func(ifUp, ifDown Class) Class {
		if up {
			return ifUp
		}
		return ifDown
	}
	switch {
	case from.Equal(to):
		return ClassSame
	case from.Major() != to.Major():
		return choose(ClassMajorUp, ClassMajorDown)
	case from.Minor() != to.Minor():
		return choose(ClassMinorUp, ClassMinorDown)
	default:
		return choose(ClassPatchUp, ClassPatchDown)
	}
}

// NeedsApproval is the gating table: what cannot be undone without a backup, or
// may change what clients see, waits for a person.
func (c Class) NeedsApproval() bool {
	switch c {
	case ClassMinorDown, ClassMajorUp, ClassMajorDown:
		return true
	case ClassSame, ClassPatchUp, ClassPatchDown, ClassMinorUp, ClassUnknown, ClassPodUpdate:
	}
	return false
}
