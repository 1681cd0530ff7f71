"""The custom resources: typed models, their translation to intents, and the CRDs generated from them."""
