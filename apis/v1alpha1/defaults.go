package v1alpha1

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// The defaults of the schema. An XR that Crossplane sends has them already, but for
// those inside lists, which the schema leaves out (every client-side apply would
// see a difference); one that was rendered without its XRD has none.
const (
	DefaultReplicas              int32 = 1
	DefaultStorageSize                 = "1Gi"
	DefaultLDAPPort              int32 = 3389
	DefaultLDAPSPort             int32 = 3636
	DefaultDMPasswordKey               = "dm-password"
	DefaultStartupTimeoutSeconds int32 = 60
	DefaultProgressDeadline      int32 = 600
)

// Default fills in what is missing with the schema's defaults.
func (s *DirectoryServiceSpec) Default() {
	if s.Replicas == nil {
		s.Replicas = ptr.To(DefaultReplicas)
	}
	for i := range s.Suffixes {
		if s.Suffixes[i].CreateEntry == nil {
			s.Suffixes[i].CreateEntry = ptr.To(true)
		}
	}
	if s.Storage.Size == nil {
		s.Storage.Size = ptr.To(resource.MustParse(DefaultStorageSize))
	}
	if s.Ports.LDAP == 0 {
		s.Ports.LDAP = DefaultLDAPPort
	}
	if s.Ports.LDAPS == 0 {
		s.Ports.LDAPS = DefaultLDAPSPort
	}
	if s.DMPasswordSecretRef != nil && s.DMPasswordSecretRef.Key == "" {
		s.DMPasswordSecretRef.Key = DefaultDMPasswordKey
	}
	if s.DMPasswordMode == "" {
		s.DMPasswordMode = DMPasswordModeEnv
	}
	if s.TLS.Mode == "" {
		s.TLS.Mode = TLSModeSelfSigned
	}
	if i := s.TLS.IssuerRef; i != nil {
		i.Kind = cmp.Or(i.Kind, "Issuer")
		i.Group = cmp.Or(i.Group, "cert-manager.io")
	}
	if s.Startup.TimeoutSeconds == 0 {
		s.Startup.TimeoutSeconds = DefaultStartupTimeoutSeconds
	}
	if s.Upgrade.ProgressDeadlineSeconds == 0 {
		s.Upgrade.ProgressDeadlineSeconds = DefaultProgressDeadline
	}
	if s.Upgrade.AutomaticRollback == nil {
		s.Upgrade.AutomaticRollback = ptr.To(true)
	}
	if s.Upgrade.DatabaseMigration == "" {
		s.Upgrade.DatabaseMigration = DatabaseMigrationRefuse
	}
	if s.Upgrade.PodUpdates == "" {
		s.Upgrade.PodUpdates = PodUpdatesWithNextRollout
	}
	if s.Service.Type == "" {
		s.Service.Type = corev1.ServiceTypeClusterIP
	}
}
