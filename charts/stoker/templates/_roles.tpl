{{/* A role with its binding to one of our accounts: (dict "root" $ "component" … "name" … "namespace" … "rules" …); no namespace: a ClusterRole;
     "aggregate" in place of rules: the sum of the ClusterRoles with the reverser's label. */}}
{{- define "stoker.role" -}}
{{- $kind := ternary "ClusterRole" "Role" (empty .namespace) -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "stoker.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
{{- if .aggregate }}
aggregationRule:
  clusterRoleSelectors:
    - matchLabels: {stoker.io/aggregate-to-reverser: "true"}
    - matchLabels: {stoker.io/aggregate-to-reverser: {{ include "stoker.reverser.aggregate" .root }}}
{{- else }}
rules:
  {{- .rules | nindent 2 }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "stoker.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "stoker.serviceaccount" (dict "root" .root "component" .component) }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}
