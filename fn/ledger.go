package fn

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/observed"
	"github.com/389ds/function-directoryservice/fn/status"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// ledgerOf a service: the one on the StatefulSet, else its projection, which comes
// along.
func ledgerOf(state *observed.State) (ledger, projected upgrade.Ledger) {
	projected = status.LedgerOf(&state.Service.Status)
	return upgrade.Recover(annotationsOf(state.StatefulSet)[naming.AnnotationLedger], projected), projected
}

func annotationsOf(sts *appsv1.StatefulSet) map[string]string {
	if sts == nil {
		return nil
	}
	return sts.GetAnnotations()
}

// targetOf a status.
func targetOf(st *v1alpha1.DirectoryServiceStatus) upgrade.Release {
	return upgrade.Release{Version: st.TargetVersion, Image: st.TargetImage}
}
