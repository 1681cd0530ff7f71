"""The custom resources as typed models, and the CRDs and reference pages generated from them."""
