{{/*
The rules of each component, once: they stand in a ClusterRole, or, where namespaces are named, in a Role
of each of them. No wildcard, no writing of Secrets. tests/integration/golden holds what comes out.
*/}}

{{/*
What the controller needs wherever resources live. Some clusters (OwnerReferencesPermissionEnforcement) let
only those name an owner who may delete the object and set finalizers on the owner.
*/}}
{{- define "stoker.controller.rules" -}}
- apiGroups: [sync.ignition.io]
  resources: [ignitionsyncs]
  verbs: [get, list, watch, patch]
- apiGroups: [stoker.io]
  resources: [stokers]
  verbs: [get, list, watch, patch]
- apiGroups: [sync.ignition.io]
  resources: [ignitionsyncs/status]
  verbs: [update]
- apiGroups: [stoker.io]
  resources: [stokers/status, syncprofiles/status]
  verbs: [update]
- apiGroups: [sync.ignition.io]
  resources: [ignitionsyncs/finalizers]
  verbs: [update]
- apiGroups: [stoker.io]
  resources: [stokers/finalizers]
  verbs: [update]
- apiGroups: [sync.ignition.io]
  resources: [ignitionsyncbases]
  verbs: [get, list, watch]
- apiGroups: [stoker.io]
  resources: [syncprofiles]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update, patch, delete]
{{- if .Values.controller.sharedVolumes }}
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, create, patch, delete]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [create, patch, delete]
{{- end }}
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* In the release's own namespace: who leads, and whether all is paused. The lease is the chart's, so that it goes with the release. */}}
{{- define "stoker.controller.ownrules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [stoker-controller-0]
  verbs: [get, update]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [ignition-sync-global-pause]
  verbs: [get, list, watch]
{{- end -}}

{{/* What admission needs wherever resources and pods live. */}}
{{- define "stoker.webhook.rules" -}}
- apiGroups: [sync.ignition.io]
  resources: [ignitionsyncs, ignitionsyncbases]
  verbs: [get, list]
- apiGroups: [stoker.io]
  resources: [stokers, syncprofiles]
  verbs: [get, list]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* What it needs of the cluster itself: whom the API server trusts, and who else writes to a repository. */}}
{{- define "stoker.webhook.clusterrules" -}}
- apiGroups: [configbutler.ai]
  resources: [gitdestinations, gitrepoconfigs]
  verbs: [get, list]
{{- if not .Values.certManager.enabled }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [{{ include "stoker.webhook.configuration" . }}]
  verbs: [get, list, watch, patch]
{{- if .Values.crds.conversion }}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames:
    - clusterwatchrules.configbutler.ai
    - gitdestinations.configbutler.ai
    - gitrepoconfigs.configbutler.ai
    - ignitionsyncbases.sync.ignition.io
    - ignitionsyncs.sync.ignition.io
    - stokers.stoker.io
    - syncprofiles.stoker.io
    - watchrules.configbutler.ai
  verbs: [get, list, watch, patch]
{{- end }}
{{- end }}
{{- end -}}

{{/* In the release's own namespace: its certificate, which the chart makes empty. */}}
{{- define "stoker.webhook.ownrules" -}}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "stoker.webhook.secret" . }}]
  verbs: [get, list, watch, patch]
{{- end -}}
