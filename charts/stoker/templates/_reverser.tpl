{{/* Names and rights of the reverser. Nothing here but what it watches, says and locks. */}}

{{- define "stoker.reverser.secret" -}}
{{- printf "%s-reverser-tls" (include "stoker.fullname" .) -}}
{{- end -}}

{{- define "stoker.reverser.configuration" -}}
{{- printf "%s-reverser" (include "stoker.clustername" .) -}}
{{- end -}}

{{/* By what the preset's role belongs to this release alone; the value of a label has room for less than a name. */}}
{{- define "stoker.reverser.aggregate" -}}
{{- $name := include "stoker.clustername" . -}}
{{- if gt (len $name) 63 -}}
{{- $name = printf "%s-%s" (trunc 54 $name | trimSuffix "-") (sha256sum $name | trunc 8) -}}
{{- end -}}
{{- $name | quote -}}
{{- end -}}

{{/* The kinds that rules may select, as rules of a role: (list "plural.group" …), sorted by group. */}}
{{- define "stoker.reverser.kinds" -}}
{{- $groups := dict -}}
{{- range . -}}
{{- $parts := regexSplit "\\." . 2 -}}
{{- $group := "" -}}
{{- if gt (len $parts) 1 -}}{{- $group = index $parts 1 -}}{{- end -}}
{{- $_ := set $groups $group (append (get $groups $group | default list) (index $parts 0)) -}}
{{- end -}}
{{- range $group := keys $groups | sortAlpha }}
- apiGroups: [{{ $group | quote }}]
  resources: [{{ get $groups $group | uniq | sortAlpha | join ", " }}]
  verbs: [get, list, watch]
{{- end }}
{{- end -}}

{{/* What rules may select: kinds of the preset and those that are named. (dict "root" $ "namespaced" true: only what lives in namespaces.) */}}
{{- define "stoker.reverser.readrules" -}}
{{- $values := .root.Values.reverser -}}
{{- $kinds := list -}}
{{- if $values.preset -}}
{{- $kinds = list
  "deployments.apps" "statefulsets.apps" "daemonsets.apps" "services" "ingresses.networking.k8s.io"
  "networkpolicies.networking.k8s.io" "poddisruptionbudgets.policy" "roles.rbac.authorization.k8s.io"
  "rolebindings.rbac.authorization.k8s.io" "configmaps" "serviceaccounts" "resourcequotas" "limitranges" -}}
{{- if not .namespaced -}}
{{- $kinds = concat $kinds (list
  "clusterroles.rbac.authorization.k8s.io" "clusterrolebindings.rbac.authorization.k8s.io"
  "priorityclasses.scheduling.k8s.io" "customresourcedefinitions.apiextensions.k8s.io"
  "apiservices.apiregistration.k8s.io" "storageclasses.storage.k8s.io") -}}
{{- end -}}
{{- end -}}
{{- if $values.controller.includeSecrets -}}
{{- $kinds = append $kinds "secrets" -}}
{{- end -}}
{{- include "stoker.reverser.kinds" (concat $kinds $values.kinds) | trim -}}
{{- end -}}

{{/* Its own kinds, as far as they live in namespaces, and what it says about them. */}}
{{- define "stoker.reverser.rules" -}}
- apiGroups: [configbutler.ai]
  resources: [gitrepoconfigs, gitdestinations, watchrules]
  verbs: [list, watch]
- apiGroups: [configbutler.ai]
  resources: [gitrepoconfigs/status, gitdestinations/status, watchrules/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- if .Values.reverser.controller.includeSecrets }}
{{- /* Secrets that these name are not written, whatever a destination's secretPolicy says. */}}
- apiGroups: [stoker.io]
  resources: [stokers, syncprofiles]
  verbs: [list, watch]
- apiGroups: [sync.ignition.io]
  resources: [ignitionsyncs, ignitionsyncbases]
  verbs: [list, watch]
{{- end }}
{{- end -}}

{{/* What has no namespace: rules for the cluster, which kinds there are, namespaces, whose labels rules ask
     for and one of which tells clusters apart, and whom the API server asks. */}}
{{- define "stoker.reverser.clusterrules" -}}
- apiGroups: [configbutler.ai]
  resources: [clusterwatchrules]
  verbs: [list, watch]
- apiGroups: [configbutler.ai]
  resources: [clusterwatchrules/status]
  verbs: [patch]
{{- if or .Values.reverser.watchNamespaces (not .Values.reverser.preset) }}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list, watch]
- apiGroups: [apiregistration.k8s.io]
  resources: [apiservices]
  verbs: [list, watch]
{{- end }}
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch]
{{- if .Values.reverser.authors.enabled }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations]
  resourceNames: [{{ include "stoker.reverser.configuration" . }}]
  verbs: [list, watch, patch]
{{- end }}
{{- end -}}

{{/* In the release's own namespace: a Lease for each branch and each replica, and Secrets that the chart makes empty. */}}
{{- define "stoker.reverser.ownrules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, create, update, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [gitops-reverser-digests]
  verbs: [get, patch]
{{- if and .Values.reverser.authors.enabled (not .Values.certManager.enabled) }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "stoker.reverser.secret" . }}]
  verbs: [get, list, watch, patch]
{{- end }}
{{- end -}}
