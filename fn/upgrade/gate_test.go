package upgrade

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The most significant part that differs decides; precedence is that of semver.org
// 2.0.0, section 11.
func TestClassify(t *testing.T) {
	cases := map[string]struct {
		reason          string
		current, target string
		want            Class
	}{
		"Same":                  {reason: "Nothing differs: a rebuild, or a digest.", current: "3.1.0", target: "3.1.0", want: ClassSame},
		"LeadingV":              {reason: "A leading v does not count.", current: "3.1.0", target: "v3.1.0", want: ClassSame},
		"PatchUp":               {reason: "The third number rises.", current: "3.1.0", target: "3.1.1", want: ClassPatchUp},
		"PatchDown":             {reason: "The third number falls.", current: "3.1.10", target: "3.1.9", want: ClassPatchDown},
		"MinorUp":               {reason: "The second number rises; the third, which falls, does not count.", current: "3.1.9", target: "3.2.0", want: ClassMinorUp},
		"MinorDown":             {reason: "The second number falls.", current: "3.10.0", target: "3.9.5", want: ClassMinorDown},
		"MajorUp":               {reason: "The first number rises, whatever the others do.", current: "3.9.9", target: "4.0.0", want: ClassMajorUp},
		"MajorDown":             {reason: "The first number falls.", current: "10.0.0", target: "9.9.9", want: ClassMajorDown},
		"CandidateToFinal":      {reason: "A pre-release comes before its release, of the same core.", current: "3.1.0-rc.1", target: "3.1.0", want: ClassPatchUp},
		"FinalToCandidate":      {reason: "And the other way.", current: "3.1.0", target: "3.1.0-rc.1", want: ClassPatchDown},
		"CandidateToCandidate":  {reason: "Numbers compare as numbers.", current: "3.1.0-rc.9", target: "3.1.0-rc.10", want: ClassPatchUp},
		"CandidateDown":         {reason: "Letters compare in ASCII order.", current: "3.1.0-rc.1", target: "3.1.0-beta.2", want: ClassPatchDown},
		"LongerCandidate":       {reason: "More fields come after fewer.", current: "3.1.0-rc", target: "3.1.0-rc.1", want: ClassPatchUp},
		"MinorCandidate":        {reason: "A pre-release of another core is of that core's class.", current: "3.1.0", target: "3.2.0-rc.1", want: ClassMinorUp},
		"MinorCandidateDown":    {reason: "Also when it falls.", current: "3.2.0-rc.1", target: "3.1.9", want: ClassMinorDown},
		"MajorCandidate":        {reason: "Also across a major version.", current: "3.9.9", target: "4.0.0-alpha", want: ClassMajorUp},
		"MajorCandidateDown":    {reason: "4.0.0-rc.1 is a 4.", current: "4.0.0-rc.1", target: "3.9.9", want: ClassMajorDown},
		"CurrentUnknown":        {reason: "Nobody knows what runs.", target: "3.1.0", want: ClassUnknown},
		"TargetUnknown":         {reason: "Nobody knows what comes.", current: "3.1.0", want: ClassUnknown},
		"CurrentIsNoVersion":    {reason: "A word is no version.", current: "latest", target: "3.1.0", want: ClassUnknown},
		"TargetIsNoVersion":     {reason: "A word is no version.", current: "3.1.0", target: "latest", want: ClassUnknown},
		"NeitherIsAVersionYet":  {reason: "Nothing at all is known.", want: ClassUnknown},
		"CandidateWithinMinors": {reason: "A patch's pre-release.", current: "3.1.0", target: "3.1.1-rc.1", want: ClassPatchUp},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Classify(tc.current, tc.target); got != tc.want {
				t.Errorf("\n%s\nClassify(%q, %q): want %s, got %s", tc.reason, tc.current, tc.target, tc.want, got)
			}
		})
	}
}

// The gating table: an approval is exactly the pair, after trimming spaces and one
// leading v on each side.
func TestNamed(t *testing.T) {
	versions := Transition{From: "3.1.0", To: "4.0.0"}
	cases := map[string]struct {
		reason     string
		transition Transition
		annotation string
		want       bool
	}{
		"Exact":         {reason: "The pair.", transition: versions, annotation: "3.1.0->4.0.0", want: true},
		"Spaces":        {reason: "Spaces are trimmed on each side.", transition: versions, annotation: " 3.1.0 -> 4.0.0\n", want: true},
		"LeadingV":      {reason: "One v is trimmed on each side.", transition: versions, annotation: "v3.1.0->v4.0.0", want: true},
		"OneV":          {reason: "Each side for itself.", transition: versions, annotation: "3.1.0-> v4.0.0", want: true},
		"TwoV":          {reason: "One v, not two.", transition: versions, annotation: "vv3.1.0->4.0.0"},
		"TwoVOfTarget":  {reason: "One v, not two.", transition: versions, annotation: "3.1.0->vv4.0.0"},
		"CapitalV":      {reason: "A capital V is no v.", transition: versions, annotation: "V3.1.0->V4.0.0"},
		"Empty":         {reason: "Nothing is approved.", transition: versions},
		"TargetAlone":   {reason: "A target is no pair.", transition: versions, annotation: "4.0.0"},
		"NoFrom":        {reason: "Half a pair.", transition: versions, annotation: "->4.0.0"},
		"NoTo":          {reason: "The other half.", transition: versions, annotation: "3.1.0->"},
		"Swapped":       {reason: "The way back is another pair.", transition: versions, annotation: "4.0.0->3.1.0"},
		"OtherFrom":     {reason: "R26: another current version.", transition: versions, annotation: "3.1.1->4.0.0"},
		"OtherTo":       {reason: "R26: another target.", transition: versions, annotation: "3.1.0->4.0.1"},
		"Shorter":       {reason: "No prefix will do.", transition: versions, annotation: "3.1->4.0"},
		"OtherArrow":    {reason: "The arrow is ->.", transition: versions, annotation: "3.1.0=>4.0.0"},
		"SpaceInArrow":  {reason: "And nothing in between.", transition: versions, annotation: "3.1.0- >4.0.0"},
		"Chain":         {reason: "A chain of versions is no pair.", transition: versions, annotation: "3.1.0->3.2.0->4.0.0"},
		"Wildcard":      {reason: "There are no patterns.", transition: versions, annotation: "*->*"},
		"PreRelease":    {reason: "A pre-release is part of the version.", transition: Transition{From: "3.1.0-rc.1", To: "4.0.0-rc.2"}, annotation: "3.1.0-rc.1->4.0.0-rc.2", want: true},
		"LacksRelease":  {reason: "Also where it is left out.", transition: Transition{From: "3.1.0-rc.1", To: "4.0.0"}, annotation: "3.1.0->4.0.0"},
		"Images":        {reason: "R4: where the version is unknown, the image stands for it.", transition: Transition{From: "dirsrv:old", To: "dirsrv:new"}, annotation: "dirsrv:old->dirsrv:new", want: true},
		"ImageWithAV":   {reason: "R29: an image that begins with a v can be named as the condition names it.", transition: Transition{From: "vendor/dirsrv:old", To: "vendor/dirsrv:new"}, annotation: "vendor/dirsrv:old->vendor/dirsrv:new", want: true},
		"ImageToAV":     {reason: "Each side for itself.", transition: Transition{From: "3.1.0", To: "vendor/dirsrv:new"}, annotation: "v3.1.0->vendor/dirsrv:new", want: true},
		"ImageByDigest": {reason: "A digest is part of the image.", transition: Transition{From: "dirsrv@sha256:aa", To: "dirsrv@sha256:bb"}, annotation: "dirsrv@sha256:aa->dirsrv@sha256:bb", want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.transition.named(tc.annotation); got != tc.want {
				t.Errorf("\n%s\n%s named %q: want %t, got %t", tc.reason, tc.transition, tc.annotation, tc.want, got)
			}
		})
	}
}

// The gating table is law: which changes ask for both annotations, and that each must
// be there.
func TestGatingTable(t *testing.T) {
	same := func(image string) Release { return Release{Version: "3.1.0", Image: image} }
	cases := map[string]struct {
		reason   string
		from, to Release
		gated    bool
	}{
		"Rebuild":          {reason: "The same version, another image.", from: same("dirsrv:3.1.0"), to: same("mirror/dirsrv:3.1.0")},
		"PatchUp":          {reason: "Patch up.", from: release("3.1.0"), to: release("3.1.1")},
		"PatchDown":        {reason: "Patch down.", from: release("3.1.1"), to: release("3.1.0")},
		"MinorUp":          {reason: "Minor up.", from: release("3.1.9"), to: release("3.2.0")},
		"MinorDown":        {reason: "Minor down.", from: release("3.2.0"), to: release("3.1.9"), gated: true},
		"MajorUp":          {reason: "Major up.", from: release("3.1.0"), to: release("4.0.0"), gated: true},
		"MajorDown":        {reason: "Major down.", from: release("4.0.0"), to: release("3.1.0"), gated: true},
		"CandidateToFinal": {reason: "A pre-release of the same core is patch class.", from: release("4.0.0-rc.1"), to: release("4.0.0")},
		"FinalToCandidate": {reason: "Both ways.", from: release("4.0.0"), to: release("4.0.0-rc.1")},
		"MajorCandidate":   {reason: "A candidate of the next major version is that version.", from: release("3.1.0"), to: release("4.0.0-rc.1"), gated: true},
		"FromUnknown":      {reason: "R4: what has no version is not gated.", from: Release{Image: "dirsrv:stable"}, to: release("1.0.0")},
		"ToUnknown":        {reason: "R4: nor the way there.", from: release("3.1.0"), to: Release{Image: "dirsrv:stable"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pair, back := TransitionOf(tc.from, tc.to), TransitionOf(tc.to, tc.from)
			both := []Annotation{{Name: ApprovedTransition, Value: pair}, {Name: BackupConfirmed, Value: pair}}
			given := map[string]struct {
				requests Requests
				missing  []Annotation
			}{
				"Neither":     {Requests{}, both},
				"Approved":    {Requests{ApprovedTransition: pair}, both[1:]},
				"BackedUp":    {Requests{BackupConfirmed: pair}, both[:1]},
				"Both":        {Requests{ApprovedTransition: " v" + pair + " ", BackupConfirmed: pair}, nil},
				"Swapped":     {Requests{ApprovedTransition: back, BackupConfirmed: back}, both},
				"OneSwapped":  {Requests{ApprovedTransition: pair, BackupConfirmed: back}, both[1:]},
				"OtherThings": {Requests{AllowDegraded: pair, RollbackTo: tc.to.Version, ApplyPodUpdate: pair}, both},
			}
			for name, g := range given {
				var missing []Annotation
				r := gate(tc.from, tc.to, g.requests)
				if r != nil {
					missing = r.Annotate
				}
				want := g.missing
				if !tc.gated {
					want = nil
				}
				if diff := cmp.Diff(want, missing); diff != "" {
					t.Errorf("\n%s\n%s, %s: annotations that are missing: -want, +got:\n%s", tc.reason, pair, name, diff)
				}
				if r != nil && r.Reason != ReasonApprovalRequired {
					t.Errorf("\n%s\n%s, %s: the reason is %s", tc.reason, pair, name, r.Reason)
				}
			}
		})
	}
}
