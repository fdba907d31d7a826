//! The present index of the folder, for all requests.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::index::{Folder, Index};

/// How long an index of the folder is valid.
const FRESH: Duration = Duration::from_secs(1);

/// The folder, and its index while that is valid.
pub(super) struct SharedIndex {
    folder: Arc<Mutex<Folder>>,
    index: Arc<tokio::sync::Mutex<Option<Arc<Index>>>>,
}

impl SharedIndex {
    /// Indexes `root`, whose path has no links.
    pub(super) fn new(root: PathBuf) -> Self {
        SharedIndex { folder: Arc::new(Mutex::new(Folder::new(root))), index: Arc::default() }
    }

    /// Returns the index of the folder, created at most once a second for all requests.
    pub(super) async fn index(&self) -> Arc<Index> {
        let mut latest = self.index.lock().await;
        if let Some(index) = &*latest {
            return index.clone();
        }
        let folder = self.folder.clone();
        let scanned = tokio::task::spawn_blocking(move || folder.lock().unwrap_or_else(PoisonError::into_inner).scan());
        let index = Arc::new(scanned.await.unwrap_or_default());
        *latest = Some(index.clone());
        let latest = self.index.clone();
        drop(tokio::spawn(async move {
            tokio::time::sleep(FRESH).await;
            *latest.lock().await = None;
        }));
        index
    }
}
