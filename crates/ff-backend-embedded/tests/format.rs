//! A directory that another version wrote in another format.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::path::Path;
use std::sync::Arc;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::error::Code;
use ff_core::partition::PartitionConfig;
use ff_script::backend::ScriptBackend;
use ff_script::library::Library;

const DEPLOYMENT: &str = include_str!("../../../lua/verb/deployment.lua");

/// The library as if its stores had another format.
fn library_of_format(format: &str) -> Library {
    let source = DEPLOYMENT
        .replace("number.constant(limit.store_format)", &format!("'{format}'"))
        .replace("a.format ~= limit.store_format", "false");
    assert_ne!(source, DEPLOYMENT);
    Library::with_modules(&[("verb/deployment", &source)])
}

async fn open(dir: &Path, library: &Library) -> Result<(), ff_core::error::EngineError> {
    let host = Arc::new(EmbeddedHost::open(EmbeddedConfig::in_directory(dir), library).unwrap());
    let opened = ScriptBackend::open(Arc::clone(&host), PartitionConfig::default()).await;
    host.close().await;
    opened.map(drop)
}

#[tokio::test]
async fn a_directory_of_another_format_is_refused_with_what_to_do_and_left_alone() {
    for format in ["0", "7"] {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path(), &library_of_format(format)).await.unwrap();
        let error = open(dir.path(), &Library::current()).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::StoreFormatMismatch), "{error}");
        assert!(error.to_string().contains("use the version that wrote it"), "{error}");
        open(dir.path(), &library_of_format(format)).await.unwrap();
    }
}
