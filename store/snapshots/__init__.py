"""Snapshots: the projection protocol, its tables frozen on disk, and manifests of them."""
