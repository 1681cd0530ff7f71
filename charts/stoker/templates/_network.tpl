{{/* Rules that several network policies share. An empty list of networks means everywhere. */}}

{{/* (list "10.0.0.0/8" …), as peers of a rule. */}}
{{- define "stoker.network.blocks" -}}
{{- range . }}
- ipBlock: {cidr: {{ . | quote }}}
{{- end }}
{{- end -}}

{{/* (dict "way" "from" or "to" "cidrs" … "ports" …): one rule. */}}
{{- define "stoker.network.rule" -}}
- ports:
    {{- range .ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- with .cidrs }}
  {{ $.way }}:
    {{- include "stoker.network.blocks" . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Names, and the API server: what every component asks. Servers of names may lie on the node itself, so anywhere. */}}
{{- define "stoker.network.basics" -}}
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{ include "stoker.network.rule" (dict "way" "to" "cidrs" .Values.networkPolicy.apiServer.cidrs "ports" .Values.networkPolicy.apiServer.ports) }}
{{- end -}}

{{/* The collector of traces, wherever it is; nothing where there is none. A network sees the ports of pods, also where
     a Service has another. */}}
{{- define "stoker.network.traces" -}}
{{- with .Values.tracing.endpoint }}
{{- $url := urlParse . }}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "443" "80" (eq $url.scheme "https")) }}
{{- $ports := list (int $port) }}
{{- range $.Values.networkPolicy.collector.ports }}
{{- $ports = append $ports (int .) }}
{{- end }}
{{ include "stoker.network.rule" (dict "way" "to" "ports" (uniq $ports)) }}
{{- end }}
{{- end -}}

{{/* Git servers: those in the cluster listen where they like, those outside where values say. */}}
{{- define "stoker.network.git" -}}
- to:
    - namespaceSelector: {}
{{ include "stoker.network.rule" (dict "way" "to" "cidrs" .Values.networkPolicy.git.cidrs "ports" .Values.networkPolicy.git.ports) }}
{{- with .Values.networkPolicy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* (dict "root" $ "name" … "component" … "egress" or "ingress" …): one policy; without a component for all of the release's pods. */}}
{{- define "stoker.network.policy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "stoker.labels" .root | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      app.kubernetes.io/name: {{ include "stoker.name" .root }}
      app.kubernetes.io/instance: {{ .root.Release.Name }}
      {{- with .component }}
      app.kubernetes.io/component: {{ . }}
      {{- end }}
  {{- if .egress }}
  policyTypes: [Egress]
  egress:
    {{- .egress | nindent 4 }}
  {{- else }}
  policyTypes: [Ingress]
  {{- with .ingress }}
  ingress:
    {{- . | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end -}}
