package upgrade

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// R25: the tag is read as the container runtimes read it.
func TestTagOf(t *testing.T) {
	cases := map[string]struct {
		reason  string
		image   string
		want    string
		wantErr bool
	}{
		"Tag":            {reason: "The usual form.", image: "quay.io/389ds/dirsrv:3.1.0", want: "3.1.0"},
		"RegistryPort":   {reason: "The colon of a port is not that of a tag.", image: "host:5000/x:3.1.0", want: "3.1.0"},
		"PortWithoutTag": {reason: "A port alone is no tag.", image: "host:5000/x"},
		"TagAndDigest":   {reason: "A digest behind the tag does not hide it.", image: "repo:3.1.0@" + digest, want: "3.1.0"},
		"DigestAlone":    {reason: "A digest tells no version.", image: "quay.io/389ds/dirsrv@" + digest},
		"NoTag":          {reason: "Without a tag there is none, not even latest.", image: "quay.io/389ds/dirsrv"},
		"Latest":         {reason: "latest is a tag like any other.", image: "dirsrv:latest", want: "latest"},
		"Empty":          {reason: "Nothing is no image.", image: "", wantErr: true},
		"UpperCase":      {reason: "Repositories are in lower case.", image: "quay.io/389DS/dirsrv:3.1.0", wantErr: true},
		"BuildMetadata":  {reason: "A tag has no +.", image: "dirsrv:3.1.0+x", wantErr: true},
		"Spaces":         {reason: "A reference has no spaces.", image: "dirsrv :3.1.0", wantErr: true},
		"ShortDigest":    {reason: "A digest has its full length.", image: "dirsrv@sha256:abc", wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := tagOf(tc.image)
			if (err != nil) != tc.wantErr {
				t.Fatalf("\n%s\ntagOf(%q): want error %t, got %v", tc.reason, tc.image, tc.wantErr, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\ntagOf(%q): -want, +got:\n%s", tc.reason, tc.image, diff)
			}
		})
	}
}

// R4, R25: what the spec asks for, and why an image is refused. A message names
// the field and the remedy.
func TestResolveTarget(t *testing.T) {
	const repo = "quay.io/389ds/dirsrv"
	catalog := Catalog{
		repo + "@" + digest: "v3.1.0",
		repo + ":latest":    "3.2.0",
		repo + ":nightly":   "nightly",
	}
	type want struct {
		target   Release
		reason   string
		messages []string
	}
	cases := map[string]struct {
		reason  string
		image   string
		version string
		want    want
	}{
		"Equal": {
			reason: "Tag and version say the same.",
			image:  repo + ":3.1.0", version: "3.1.0",
			want: want{target: Release{Version: "3.1.0", Image: repo + ":3.1.0"}},
		},
		"LeadingVOfTheVersion": {
			reason: "A leading v of the version does not count.",
			image:  repo + ":3.1.0", version: "v3.1.0",
			want: want{target: Release{Version: "3.1.0", Image: repo + ":3.1.0"}},
		},
		"LeadingVOfTheTag": {
			reason: "A leading v of the tag does not count.",
			image:  repo + ":v3.1.0", version: "3.1.0",
			want: want{target: Release{Version: "3.1.0", Image: repo + ":v3.1.0"}},
		},
		"RegistryPort": {
			reason: "A registry's port is understood.",
			image:  "host:5000/x:3.1.0", version: "3.1.0",
			want: want{target: Release{Version: "3.1.0", Image: "host:5000/x:3.1.0"}},
		},
		"TagAndDigest": {
			reason: "A digest may pin the tag.",
			image:  repo + ":3.1.0@" + digest, version: "3.1.0",
			want: want{target: Release{Version: "3.1.0", Image: repo + ":3.1.0@" + digest}},
		},
		"VersionFromTheTag": {
			reason: "Without a version the tag is it.",
			image:  repo + ":v3.1.0",
			want:   want{target: Release{Version: "3.1.0", Image: repo + ":v3.1.0"}},
		},
		"Unversioned": {
			reason: "A tag that is no version is none, and nothing is refused.",
			image:  repo + ":stable",
			want:   want{target: Release{Image: repo + ":stable"}},
		},
		"UnversionedWithoutTag": {
			reason: "No tag and no version refuse nothing either.",
			image:  repo,
			want:   want{target: Release{Image: repo}},
		},
		"CatalogTellsTheVersion": {
			reason: "The catalog knows the version of a digest.",
			image:  repo + "@" + digest,
			want:   want{target: Release{Version: "3.1.0", Image: repo + "@" + digest}},
		},
		"CatalogConfirmsTheVersion": {
			reason: "A listed image needs no tag.",
			image:  repo + "@" + digest, version: "3.1.0",
			want: want{target: Release{Version: "3.1.0", Image: repo + "@" + digest}},
		},
		"CatalogOverTheTag": {
			reason: "The catalog is asked before the tag.",
			image:  repo + ":latest", version: "3.2.0",
			want: want{target: Release{Version: "3.2.0", Image: repo + ":latest"}},
		},
		"CatalogContradicts": {
			reason: "The catalog vouches for one version only.",
			image:  repo + "@" + digest, version: "3.1.1",
			want: want{
				target:   Release{Version: "3.1.1", Image: repo + "@" + digest},
				reason:   ReasonImageVersionMismatch,
				messages: []string{"spec.image", "spec.version", "catalog", "set both to the same version"},
			},
		},
		"CatalogVersionInvalid": {
			reason: "The input's schema is enforced by nobody: its version is checked here.",
			image:  repo + ":nightly",
			want: want{
				target:   Release{Image: repo + ":nightly"},
				reason:   ReasonInvalidVersion,
				messages: []string{"imageCatalog", "nightly", "such as 3.1.0"},
			},
		},
		"Mismatch": {
			reason: "Tag and version contradict each other.",
			image:  repo + ":3.1.1", version: "3.1.0",
			want: want{
				target:   Release{Version: "3.1.0", Image: repo + ":3.1.1"},
				reason:   ReasonImageVersionMismatch,
				messages: []string{"spec.image", "spec.version is 3.1.0", "tag 3.1.1", "set both to the same version"},
			},
		},
		"Latest": {
			reason: "Nobody knows what latest is tomorrow.",
			image:  "other:latest", version: "3.1.0",
			want: want{
				target:   Release{Version: "3.1.0", Image: "other:latest"},
				reason:   ReasonImageVersionMismatch,
				messages: []string{"spec.image", "tag latest", "imageCatalog"},
			},
		},
		"NoTag": {
			reason: "A missing tag is not the version.",
			image:  repo, version: "3.1.0",
			want: want{
				target:   Release{Version: "3.1.0", Image: repo},
				reason:   ReasonImageVersionMismatch,
				messages: []string{"spec.image", "has no tag", "use the tag 3.1.0", "imageCatalog"},
			},
		},
		"UnlistedDigest": {
			reason: "A digest that the catalog does not list tells no version.",
			image:  "other@" + digest, version: "3.1.0",
			want: want{
				target:   Release{Version: "3.1.0", Image: "other@" + digest},
				reason:   ReasonImageVersionMismatch,
				messages: []string{"spec.image", "has no tag"},
			},
		},
		"InvalidVersion": {
			reason: "What the schema would have refused is refused here too.",
			image:  repo + ":3.1.0", version: "3.1",
			want: want{
				target:   Release{Version: "3.1", Image: repo + ":3.1.0"},
				reason:   ReasonInvalidVersion,
				messages: []string{"spec.version", "such as 3.1.0"},
			},
		},
		"InvalidImage": {
			reason: "What is no image reference runs nowhere.",
			image:  "UPPER:3.1.0", version: "3.1.0",
			want: want{
				target:   Release{Version: "3.1.0", Image: "UPPER:3.1.0"},
				reason:   ReasonInvalidImage,
				messages: []string{"spec.image"},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target, refusal := ResolveTarget(tc.image, tc.version, catalog)
			if diff := cmp.Diff(tc.want.target, target); diff != "" {
				t.Errorf("\n%s\nResolveTarget(%q, %q): -want target, +got:\n%s", tc.reason, tc.image, tc.version, diff)
			}
			if refusal == nil {
				refusal = &Refusal{}
			}
			if diff := cmp.Diff(tc.want.reason, refusal.Reason); diff != "" {
				t.Errorf("\n%s\nResolveTarget(%q, %q): -want reason, +got:\n%s\n%s", tc.reason, tc.image, tc.version, diff, refusal.Message)
			}
			for _, m := range tc.want.messages {
				if !strings.Contains(refusal.Message, m) {
					t.Errorf("\n%s\nResolveTarget(%q, %q): the message lacks %q: %s", tc.reason, tc.image, tc.version, m, refusal.Message)
				}
			}
		})
	}
}
