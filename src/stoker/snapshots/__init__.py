"""A content-addressed repository of snapshots of live files: packer, index, retention, storage."""
