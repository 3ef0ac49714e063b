package upgrade_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// What a platform has: images, the versions in them, and the pod templates that can
// be made of them. Everything has a number, and its names are made once.

// An image of the platform.
type image struct {
	name string
	// version as the spec and the tag tell it; "" where they do not.
	version string
	// inside is the version that the server in it reports.
	inside semantic
}

// A semantic version, as far as the gating table needs it.
type semantic struct {
	major, minor, patch int
	pre                 string
}

func (v semantic) String() string {
	s := fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch)
	if v.pre != "" {
		s += "-" + v.pre
	}
	return s
}

var images = [...]image{
	{name: "dirsrv:3.1.0", version: "3.1.0", inside: semantic{3, 1, 0, ""}},
	{name: "dirsrv:3.1.1", version: "3.1.1", inside: semantic{3, 1, 1, ""}},
	{name: "dirsrv:v3.2.0", version: "3.2.0", inside: semantic{3, 2, 0, ""}},
	{name: "dirsrv:4.0.0", version: "4.0.0", inside: semantic{4, 0, 0, ""}},
	{name: "dirsrv:2.9.1", version: "2.9.1", inside: semantic{2, 9, 1, ""}},
	{name: "host:5000/dirsrv:3.1.0", version: "3.1.0", inside: semantic{3, 1, 0, ""}},
	{name: "dirsrv:3.1.1-rc.1", version: "3.1.1-rc.1", inside: semantic{3, 1, 1, "rc.1"}},
	{name: "dirsrv:nightly", inside: semantic{3, 3, 0, ""}},
}

const (
	imageCount     = len(images)
	inputCount     = 3
	renderingCount = 3
	handCount      = 3
	contentCount   = imageCount * inputCount * renderingCount * handCount
	nightly        = uint8(imageCount - 1)
)

// A content is what a pod template holds: made of an image, the fields of the spec
// that a pod is restarted for and a function's version; or changed by hand.
type content uint16

const none content = 0xffff

func contentOf(image, inputs, rendering, hand uint8) content {
	return content(((int(hand)*renderingCount+int(rendering))*inputCount+int(inputs))*imageCount + int(image))
}

func (c content) image() uint8  { return uint8(int(c) % imageCount) }
func (c content) inputs() uint8 { return uint8(int(c) / imageCount % inputCount) }
func (c content) rendering() uint8 {
	return uint8(int(c) / imageCount / inputCount % renderingCount)
}
func (c content) hand() uint8 { return uint8(int(c) / imageCount / inputCount / renderingCount) }

// withImage is the template after `kubectl set image`.
func (c content) withImage(image, hand uint8) content {
	return contentOf(image, c.inputs(), c.rendering(), hand)
}

// agent: templates of the first function have none.
func (c content) agent() bool { return c.rendering() > 0 }

func (c content) String() string {
	if c == none {
		return "none"
	}
	s := fmt.Sprintf("%s/i%d/r%d", images[c.image()].name, c.inputs(), c.rendering())
	if c.hand() > 0 {
		s += fmt.Sprintf("/hand%d", c.hand())
	}
	return s
}

type names struct {
	templates [contentCount]string
	contents  map[string]content
	revisions [contentCount]string
	pods      [maxPods]string
	uids      [1024]string
	// What ResolveTarget answers to an image and an index of specVersions.
	targets  [imageCount][len(specVersions)]upgrade.Release
	refusals [imageCount][len(specVersions)]*upgrade.Refusal
}

// specVersions are what a person writes to spec.version.
var specVersions = [...]string{"", "3.1.0", "3.1.1", "v3.2.0", "4.0.0", "2.9.1", "3.1.0", "3.1.1-rc.1"}

// versionFor is the index of the spec.version that agrees with an image.
func versionFor(image uint8) uint8 {
	if image == nightly {
		return 0
	}
	return image + 1
}

var named = newNames()

func newNames() *names {
	n := &names{contents: make(map[string]content, contentCount)}
	for c := range content(contentCount) {
		inputs := fmt.Sprintf("%d %d", c.image(), c.inputs())
		rendering := fmt.Sprintf("%s %d", inputs, c.rendering())
		n.templates[c] = upgrade.TemplateID([]byte(inputs), []byte(rendering))
		if c.hand() == 0 {
			n.contents[n.templates[c]] = c
		}
		n.revisions[c] = fmt.Sprintf("ds-%d", c)
	}
	for i := range n.pods {
		n.pods[i] = "ds-" + strconv.Itoa(i)
	}
	for i := range n.uids {
		n.uids[i] = strconv.Itoa(i)
	}
	for i, m := range images {
		for j, v := range specVersions {
			n.targets[i][j], n.refusals[i][j] = upgrade.ResolveTarget(m.name, v, nil)
		}
	}
	return n
}

func uidOf(n int32) string {
	if int(n) < len(named.uids) {
		return named.uids[n]
	}
	return strconv.Itoa(int(n))
}

func revisionOf(c content) string {
	if c == none {
		return ""
	}
	return named.revisions[c]
}

func imageNamed(name string) (uint8, bool) {
	for i := range images {
		if images[i].name == name {
			return uint8(i), true
		}
	}
	return 0, false
}

// sameInputs says that two templates were made of the same fields of the spec.
func sameInputs(a, b string) bool {
	x, _, _ := strings.Cut(a, "-")
	y, _, _ := strings.Cut(b, "-")
	return x == y
}

// The gating table of requirements.md, read a second time.

// semanticOf a version that the model knows.
func semanticOf(version string) (semantic, bool) {
	for i := range images {
		if images[i].version == version && version != "" {
			return images[i].inside, true
		}
	}
	return semantic{}, false
}

// needsApproval: minor down, major up and major down do; nobody can tell of a version
// that is not known.
func needsApproval(from, to string) bool {
	a, ok := semanticOf(from)
	b, known := semanticOf(to)
	switch {
	case !ok || !known:
		return false
	case a.major != b.major:
		return true
	default:
		return b.minor < a.minor
	}
}

func nameOf(r upgrade.Release) string {
	if r.Version == "" {
		return r.Image
	}
	return r.Version
}

func pairOf(from, to upgrade.Release) string { return nameOf(from) + "->" + nameOf(to) }

// namesPair says whether an annotation is exactly this pair, but for spaces and a leading v
// on each side.
func namesPair(annotation string, from, to upgrade.Release) bool {
	if annotation == "" {
		return false
	}
	sides := strings.Split(annotation, "->")
	if len(sides) != 2 {
		return false
	}
	for i := range sides {
		sides[i] = strings.TrimPrefix(strings.TrimSpace(sides[i]), "v")
	}
	return sides[0] == nameOf(from) && sides[1] == nameOf(to)
}

func allowed(from, to upgrade.Release, r upgrade.Requests) bool {
	if !needsApproval(from.Version, to.Version) {
		return true
	}
	return namesPair(r.ApprovedTransition, from, to) && namesPair(r.BackupConfirmed, from, to)
}

func samePair(a, b upgrade.Release) bool { return a.Image == b.Image && a.Version == b.Version }
