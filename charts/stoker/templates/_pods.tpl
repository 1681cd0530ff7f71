{{/* What the pods of all components share: (dict "root" $ "component" … "values" … ). */}}
{{- define "stoker.pod.metadata" -}}
labels:
  {{- include "stoker.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
  {{- with .shard }}
  stoker.io/shard: {{ . | quote }}
  {{- end }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  checksum/defaults: {{ toYaml .root.Values.defaults | sha256sum }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "stoker.pod.head" -}}
serviceAccountName: {{ include "stoker.serviceaccount" . }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .values.podSecurityContext | nindent 2 }}
{{ include "stoker.spread" . }}
{{- end -}}

{{- define "stoker.container.head" -}}
image: {{ include "stoker.image" (dict "root" .root "own" .values.image "what" .component) }}
imagePullPolicy: {{ include "stoker.pullpolicy" (dict "root" .root "own" .values.image) }}
securityContext:
  {{- toYaml .values.securityContext | nindent 2 }}
resources:
  {{- toYaml .values.resources | nindent 2 }}
terminationMessagePolicy: FallbackToLogsOnError
{{ include "stoker.probes" . }}
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  - name: POD_NAMESPACE
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
  - name: TMPDIR
    value: /tmp
  {{- range $name, $value := include "stoker.tracing" .root | fromYaml }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- with .values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The variables of traces, by name; none where there is no collector. */}}
{{- define "stoker.tracing" -}}
{{- if .Values.tracing.endpoint -}}
{{- merge (dict "OTEL_EXPORTER_OTLP_ENDPOINT" .Values.tracing.endpoint) .Values.tracing.env | toYaml -}}
{{- end -}}
{{- end -}}

{{/* Arguments of controller and reverser: which addresses resources may name. */}}
{{- define "stoker.egress.args" -}}
{{- range .Values.egress.allow }}
- {{ printf "--egress-allow=%s" . | quote }}
{{- end }}
{{- range .Values.egress.clusterRanges }}
- {{ printf "--egress-cluster-range=%s" . | quote }}
{{- end }}
{{- end -}}

{{/* Arguments for the variables of agents, the same for who injects them and who finds the outdated. */}}
{{- define "stoker.agent.env" -}}
{{- range $name, $value := include "stoker.tracing" . | fromYaml }}
- {{ printf "--agent-env=%s=%s" $name $value | quote }}
{{- end }}
{{- with .Values.egress.allow }}
- {{ printf "--agent-env=STOKER_EGRESS_ALLOW=%s" (join "," .) | quote }}
{{- end }}
{{- with .Values.egress.clusterRanges }}
- {{ printf "--agent-env=STOKER_EGRESS_CLUSTER_RANGES=%s" (join "," .) | quote }}
{{- end }}
{{- with .Values.audit.syslog }}
{{- if .address }}
- {{ printf "--agent-env=STOKER_AUDIT_SYSLOG=%s" .address | quote }}
- --agent-env=STOKER_AUDIT_SYSLOG_FACILITY={{ .facility }}
{{- with .ca }}
- {{ printf "--agent-env=STOKER_AUDIT_SYSLOG_CA=%s" . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The dashboard's part of a container and of its pod, for each program that serves it. */}}
{{- define "stoker.dashboard.args" -}}
- --dashboard-bind-address=:8090
{{- if .Values.dashboard.tls.secretName }}
- --dashboard-cert-dir=/etc/stoker/dashboard-tls
{{- end }}
{{- range .Values.dashboard.trustedProxies }}
- --dashboard-trusted-proxy={{ . }}
{{- end }}
{{- end -}}

{{- define "stoker.dashboard.mount" -}}
{{- if .Values.dashboard.tls.secretName -}}
- {name: dashboard-tls, mountPath: /etc/stoker/dashboard-tls, readOnly: true}
{{- end -}}
{{- end -}}

{{/* Optional: what the program is there for does not wait for a page. */}}
{{- define "stoker.dashboard.volume" -}}
{{- with .Values.dashboard.tls.secretName -}}
- name: dashboard-tls
  secret: {secretName: {{ . }}, optional: true}
{{- end -}}
{{- end -}}
