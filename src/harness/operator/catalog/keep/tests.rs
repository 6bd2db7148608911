//! Tests of backups.
