{{- define "stoker.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "stoker.fullname" -}}
{{- $name := include "stoker.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What is cluster-wide is called after the namespace, too: two releases must not share it. */}}
{{- define "stoker.clustername" -}}
{{- if .Values.fullnameOverride -}}
{{- include "stoker.fullname" . -}}
{{- else if eq .Release.Namespace (include "stoker.fullname" .) (printf "%s-system" (include "stoker.fullname" .)) -}}
{{- include "stoker.fullname" . -}}
{{- else -}}
{{- printf "%s-%s" (include "stoker.fullname" .) .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{- define "stoker.labels" -}}
app.kubernetes.io/name: {{ include "stoker.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: stoker
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* (dict "root" $ "component" "controller") */}}
{{- define "stoker.selector" -}}
app.kubernetes.io/name: {{ include "stoker.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "stoker.serviceaccount" -}}
{{- $account := (index .root.Values .component).serviceAccount -}}
{{- if $account.create -}}
{{- default (printf "%s-%s" (include "stoker.fullname" .root) .component) $account.name -}}
{{- else -}}
{{- required (printf "%s.serviceAccount.name must be given when %s.serviceAccount.create is false" .component .component) $account.name -}}
{{- end -}}
{{- end -}}

{{/* (dict "root" $ "shard" 0): the first has no number, so that one alone is called as ever. */}}
{{- define "stoker.controller.name" -}}
{{- include "stoker.fullname" .root }}-controller-manager{{ if .shard }}-{{ .shard }}{{ end -}}
{{- end -}}

{{/* (dict "root" $ "component" …): the Service of the dashboard that a program serves. The controller's is called as ever. */}}
{{- define "stoker.dashboard.service" -}}
{{- include "stoker.fullname" .root }}{{ if eq .component "reverser" }}-reverser{{ end }}-dashboard
{{- end -}}

{{/* The Lease of each shard, as a JSON list. */}}
{{- define "stoker.controller.leases" -}}
{{- $names := list -}}
{{- range until (int .Values.controller.shards) -}}
{{- $names = append $names (printf "stoker-controller-%d" .) -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* The address of an image: what (dict "own" …) says, completed by the chart's image. A tag of its own leaves the common digest behind. */}}
{{- define "stoker.image" -}}
{{- $common := .root.Values.image -}}
{{- $own := .own | default dict -}}
{{- $repository := default $common.repository $own.repository -}}
{{- if not $repository -}}
{{- fail "image.repository is empty: install the chart of a release, which names its image, or add --set image.repository=REGISTRY/NAME with the image that you built (make image)" -}}
{{- end -}}
{{- $digest := default (ternary "" $common.digest (not (empty $own.tag))) $own.digest -}}
{{- $tag := default (default .root.Chart.AppVersion $common.tag) $own.tag -}}
{{- if $digest -}}
{{- printf "%s@%s" $repository $digest -}}
{{- else if .root.Values.airgap -}}
{{- fail (printf "airgap demands a digest, and image %s:%s has none: set image.digest or %s.image.digest" $repository $tag .what) -}}
{{- else -}}
{{- printf "%s:%s" $repository $tag -}}
{{- end -}}
{{- end -}}

{{- define "stoker.pullpolicy" -}}
{{- default .root.Values.image.pullPolicy (.own | default dict).pullPolicy -}}
{{- end -}}

{{- define "stoker.agentimage" -}}
{{- if .Values.agent.image -}}
{{- include "stoker.image" (dict "root" . "own" .Values.agent.image "what" "agent") -}}
{{- else -}}
{{- include "stoker.image" (dict "root" . "own" .Values.webhook.image "what" "webhook") -}}
{{- end -}}
{{- end -}}

{{- define "stoker.spread" -}}
{{- $own := .values.affinity -}}
affinity:
  {{- if $own }}
  {{- toYaml $own | nindent 2 }}
  {{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "stoker.selector" . | nindent 14 }}
  {{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- define "stoker.probes" -}}
{{/* A busy node may take a minute to start a program; without the first of these it would be killed for that, again and again. */}}
startupProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{- define "stoker.webhook.secret" -}}
{{- printf "%s-webhook-tls" (include "stoker.fullname" .) -}}
{{- end -}}

{{- define "stoker.webhook.configuration" -}}
{{- printf "%s-webhook" (include "stoker.clustername" .) -}}
{{- end -}}

{{- define "stoker.webhook.issuer" -}}
{{- default (printf "%s-selfsigned" (include "stoker.fullname" .)) .Values.certManager.issuerRef.name -}}
{{- end -}}

{{/* Lets cert-manager write caBundle; without it the webhook does that by itself. */}}
{{- define "stoker.trust" -}}
{{- if .Values.certManager.enabled -}}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "stoker.fullname" . }}-webhook
{{- end -}}
{{- end -}}

{{- define "stoker.crd.annotations" -}}
helm.sh/resource-policy: keep
{{- if and .Values.webhook.enabled .Values.crds.conversion .Values.certManager.enabled }}
{{ include "stoker.trust" . }}
{{- end }}
{{- end -}}

{{- define "stoker.crd.conversion" -}}
{{- if and .Values.webhook.enabled .Values.crds.conversion -}}
conversion:
  strategy: Webhook
  webhook:
    conversionReviewVersions: [v1]
    clientConfig:
      service:
        namespace: {{ .Release.Namespace }}
        name: {{ include "stoker.fullname" . }}-webhook
        port: 443
        path: /convert
{{- else -}}
{{- /* Said, not left out: helm takes over CRDs of an earlier release by what they are told alone, and one that
       names a webhook beside this strategy is refused. */ -}}
conversion:
  strategy: None
  webhook: null
{{- end -}}
{{- end -}}

{{/* Which namespaces admission is asked about. Its own and the cluster's are not: nothing there is a gateway. */}}
{{- define "stoker.webhook.namespaces" -}}
{{- $own := .Values.webhook.namespaceSelector | default dict -}}
{{- with $own.matchLabels }}
matchLabels:
  {{- toYaml . | nindent 2 }}
{{- end }}
matchExpressions:
  {{- if .Values.controller.watchNamespaces }}
  - key: kubernetes.io/metadata.name
    operator: In
    values:
      {{- toYaml .Values.controller.watchNamespaces | nindent 6 }}
  {{- else }}
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values:
      {{- list "kube-system" "kube-public" "kube-node-lease" .Release.Namespace | uniq | toYaml | nindent 6 }}
  {{- end }}
  {{- with $own.matchExpressions }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Selectors stand on these; given twice, the last one would win, or none. */}}
{{- define "stoker.checks.labels" -}}
{{- range $label, $_ := .labels -}}
{{- if regexMatch "^(app\\.kubernetes\\.io/(name|instance|version|managed-by|part-of|component)|helm\\.sh/chart|stoker\\.io/shard)$" $label -}}
{{- fail (printf "%s: the label %s is the chart's own and cannot be replaced" $.name $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "stoker.checks" -}}
{{- include "stoker.checks.labels" (dict "name" "commonLabels" "labels" .Values.commonLabels) -}}
{{- range $component := list "controller" "webhook" "reverser" -}}
{{- $values := index $.Values $component -}}
{{- include "stoker.checks.labels" (dict "name" (printf "%s.podLabels" $component) "labels" $values.podLabels) -}}
{{- $kept := int $values.podDisruptionBudget.minAvailable -}}
{{- if and $values.podDisruptionBudget.enabled (or (gt $kept (int $values.replicas)) (and (eq $kept (int $values.replicas)) (gt $kept 1))) -}}
{{- fail (printf "%s.podDisruptionBudget.minAvailable is not smaller than %s.replicas: no node could ever be drained" $component $component) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.receiver.ingress.enabled (not .Values.receiver.enabled) -}}
{{- fail "receiver.ingress.enabled has no effect while receiver.enabled is false: nobody would answer" -}}
{{- end -}}
{{- with .Values.dashboard -}}
{{- if and .ingress.enabled (not .enabled) (not (and .reverser.enabled .reverser.host)) -}}
{{- fail "dashboard.ingress.enabled has no effect while dashboard.enabled is false and no dashboard.reverser has a host: nobody would answer" -}}
{{- end -}}
{{- if and .reverser.enabled (not $.Values.reverser.enabled) -}}
{{- fail "dashboard.reverser.enabled has no effect while reverser.enabled is false: nobody would answer" -}}
{{- end -}}
{{- if and .reverser.host (not (and .reverser.enabled .ingress.enabled)) -}}
{{- fail "dashboard.reverser.host has no effect without dashboard.reverser.enabled and dashboard.ingress.enabled" -}}
{{- end -}}
{{- if and .enabled .ingress.enabled .reverser.host (eq .reverser.host .ingress.host) -}}
{{- fail "dashboard.reverser.host must not be dashboard.ingress.host: one name leads to one of the two" -}}
{{- end -}}
{{- if and (or .enabled .reverser.enabled) (not .tls.allowPlain) -}}
{{- if and (ne .service.type "ClusterIP") (not .tls.secretName) -}}
{{- fail (printf "dashboard.service.type %s without dashboard.tls.secretName: people's tokens would come in the clear; where something in front speaks TLS, or that is wanted, say dashboard.tls.allowPlain" .service.type) -}}
{{- end -}}
{{- if and .ingress.enabled (not .ingress.tlsSecretName) -}}
{{- fail "dashboard.ingress without dashboard.ingress.tlsSecretName: people's tokens would come in the clear; where the Ingress has a certificate of its own, or that is wanted, say dashboard.tls.allowPlain" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.reverser -}}
{{- if le (int .controller.leases.leaseSec) (int .controller.leases.renewSec) -}}
{{- fail "reverser.controller.leases.leaseSec must be larger than renewSec: otherwise every Lease ends before it is renewed" -}}
{{- end -}}
{{- if and .enabled .controller.includeSecrets .credentialSecrets -}}
{{- fail "reverser.credentialSecrets has no effect while reverser.controller.includeSecrets is true: all Secrets may be read" -}}
{{- end -}}
{{- end -}}
{{- end -}}
