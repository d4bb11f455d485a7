"""The builds of the OpenAPI document, the page of GET /docs, and its picture."""
