// Pins the modules whose definitions of kinds the pages and the chart are held against. Nothing of them is built.
module stoker.io/testing/kinds

go 1.26.0

require (
	github.com/argoproj/argo-cd/v3 v3.5.6
	github.com/cert-manager/cert-manager v1.21.2
	github.com/external-secrets/external-secrets v1.3.2
	github.com/fluxcd/helm-controller v1.6.1
	github.com/fluxcd/kustomize-controller v1.9.6
	github.com/fluxcd/source-controller v1.9.6
	github.com/kyverno/kyverno v1.19.1
	github.com/open-policy-agent/gatekeeper/v3 v3.23.1
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
