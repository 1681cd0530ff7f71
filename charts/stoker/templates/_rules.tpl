{{/*
The rules of each component, once: they stand in a ClusterRole, or, where namespaces are named, in a Role
of each of them. No wildcard, no writing of Secrets. tests/data/chart/roles.yaml holds what comes out.
*/}}

{{/*
What the controller needs wherever resources live. Of maps and profiles it holds what it hands on to agents:
nobody may grant more than he has. It deletes only what belongs to a shared volume; the rest goes with its resource.
*/}}
{{- define "stoker.controller.rules" -}}
{{- $volumes := .Values.controller.sharedVolumes -}}
- apiGroups: [sync.ignition.io]
  resources: [ignitionsyncs]
  verbs: [list, watch, patch]
- apiGroups: [stoker.io]
  resources: [stokers]
  verbs: [list, watch, patch]
- apiGroups: [sync.ignition.io]
  resources: [ignitionsyncs/status]
  verbs: [update]
- apiGroups: [stoker.io]
  resources: [stokers/status, syncprofiles/status]
  verbs: [update]
- apiGroups: [sync.ignition.io]
  resources: [ignitionsyncbases]
  verbs: [list, watch]
- apiGroups: [stoker.io]
  resources: [syncprofiles]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, update{{ if $volumes }}, patch, delete{{ end }}]
{{- if $volumes }}
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, create, patch, delete]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [create, patch, delete]
{{- end }}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* Where tokens of GitHub Apps may be written. */}}
{{- define "stoker.controller.tokenrules" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, update]
{{- end -}}

{{/* In the release's own namespace: who leads, and whether all is paused, unless all maps are read anyway. The leases are the
     chart's, so that they go with the release. */}}
{{- define "stoker.controller.ownrules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "stoker.controller.leases" . | fromJsonArray | join ", " }}]
  verbs: [get, update]
{{- /* Whoever leads looks for shards of another count, whose names it cannot know. A lease that somebody deletes, to have
       another leader, is made anew: without that nobody would lead until the next upgrade. */}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list, create]
{{- $watched := .Values.controller.watchNamespaces }}
{{- if and $watched (not (has .Release.Namespace $watched)) }}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [ignition-sync-global-pause]
  verbs: [list, watch]
{{- end }}
{{- end -}}

{{/* What admission needs wherever resources and pods live. */}}
{{- define "stoker.webhook.rules" -}}
- apiGroups: [sync.ignition.io]
  resources: [ignitionsyncs]
  verbs: [get, list]
- apiGroups: [sync.ignition.io]
  resources: [ignitionsyncbases]
  verbs: [get]
- apiGroups: [stoker.io]
  resources: [stokers]
  verbs: [get, list]
- apiGroups: [stoker.io]
  resources: [syncprofiles]
  verbs: [list]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* What it needs of the cluster itself: whom the API server trusts, and who else writes to a repository. */}}
{{- define "stoker.webhook.clusterrules" -}}
- apiGroups: [configbutler.ai]
  resources: [gitdestinations]
  verbs: [get, list]
- apiGroups: [configbutler.ai]
  resources: [gitrepoconfigs]
  verbs: [list]
{{- if not .Values.certManager.enabled }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [{{ include "stoker.webhook.configuration" . }}]
  verbs: [list, watch, patch]
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
  verbs: [list, watch, patch]
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


{{/* Of the dashboard: who a visitor is and what they may. Nothing else is done with its account but reading. */}}
{{- define "stoker.dashboard.rules" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{/* What it shows besides what the controller reads anyway. */}}
{{- define "stoker.dashboard.readrules" -}}
{{- if .Values.reverser.enabled -}}
- apiGroups: [configbutler.ai]
  resources: [gitdestinations, gitrepoconfigs]
  verbs: [list, watch]
{{- end -}}
{{- end -}}

{{/* The same for the reverser, which reads its own kinds anyway. */}}
{{- define "stoker.dashboard.resourcerules" -}}
- apiGroups: [stoker.io]
  resources: [stokers]
  verbs: [list, watch]
- apiGroups: [sync.ignition.io]
  resources: [ignitionsyncs]
  verbs: [list, watch]
{{- end -}}

{{/* Whether everything is stopped, for who does not read all maps anyway. */}}
{{- define "stoker.dashboard.stoprules" -}}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [ignition-sync-global-pause]
  verbs: [list, watch]
{{- end -}}

{{/* What a person needs to see something on it; the API server is asked about each kind by itself. */}}
{{- define "stoker.dashboard.viewrules" -}}
- apiGroups: [stoker.io]
  resources: [stokers]
  verbs: [get, list, watch]
- apiGroups: [sync.ignition.io]
  resources: [ignitionsyncs]
  verbs: [get, list, watch]
- apiGroups: [configbutler.ai]
  resources: [gitdestinations, gitrepoconfigs, watchrules, clusterwatchrules]
  verbs: [get, list, watch]
{{- end -}}
