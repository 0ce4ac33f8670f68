//! Settings of the network, and those of the Hugging Face Hub from the environment.

use std::path::PathBuf;
use std::time::Duration;

use anamnesis::CancelToken;

/// Settings of the network.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// How long to wait for a connection, for an answer, and for more bytes of it.
    pub timeout: Duration,
    /// Requests at the same time.
    pub concurrency: usize,
    /// How often a request is repeated.
    pub retries: u32,
    /// The first pause before a request is repeated; each following one is twice as long.
    pub pause: Duration,
    /// Cancels requests that wait.
    pub cancel: CancelToken,
    /// The Hugging Face Hub.
    pub hub: HubOptions,
    /// A file with the certificates of authorities that are trusted, instead of the built-in ones.
    pub authorities: Option<PathBuf>,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            concurrency: 16,
            retries: 5,
            pause: Duration::from_millis(250),
            cancel: CancelToken::new(),
            hub: HubOptions::default(),
            authorities: None,
        }
    }
}

impl RemoteOptions {
    /// The defaults, with the settings of the environment: those of [`HubOptions::from_environment`], and
    /// `SSL_CERT_FILE`, `REQUESTS_CA_BUNDLE` or `CURL_CA_BUNDLE` for the authorities.
    #[must_use]
    pub fn from_environment() -> Self {
        let file = |key: &str| std::env::var_os(key).filter(|value| !value.is_empty()).map(PathBuf::from);
        let authorities = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"].into_iter().find_map(file);
        Self { hub: HubOptions::from_environment(), authorities, ..Self::default() }
    }
}

/// Settings of the Hugging Face Hub.
#[derive(Clone)]
#[non_exhaustive]
pub struct HubOptions {
    /// The address of the hub.
    pub endpoint: String,
    /// The access token, which is sent to the hub and nowhere else.
    pub token: Option<String>,
    /// Whether only the local cache is used.
    pub is_offline: bool,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self { endpoint: DEFAULT_ENDPOINT.to_owned(), token: None, is_offline: false }
    }
}

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
/// Maximum size of a token file.
const MAX_TOKEN_BYTES: u64 = 4096;

impl HubOptions {
    /// The settings of `huggingface_hub`: `HF_ENDPOINT`, `HF_TOKEN`, the token file that `hf auth login` writes,
    /// `HF_HUB_OFFLINE`.
    #[must_use]
    pub fn from_environment() -> Self {
        Self::from_variables(&|key| std::env::var(key).ok(), std::env::home_dir())
    }

    fn from_variables(variable: &dyn Fn(&str) -> Option<String>, home: Option<PathBuf>) -> Self {
        let set = |key: &str| variable(key).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let is_true = |key: &str| {
            set(key).is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"))
        };
        let in_home = |text: String| match (text.strip_prefix("~/"), &home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(text),
        };
        let token_file = set("HF_TOKEN_PATH").map(in_home).or_else(|| {
            let folder = set("HF_HOME")
                .map(in_home)
                .or_else(|| Some(in_home(set("XDG_CACHE_HOME")?).join("huggingface")))
                .or_else(|| Some(home.as_ref()?.join(".cache").join("huggingface")))?;
            Some(folder.join("token"))
        });
        let stored = || {
            let path = token_file.as_ref().filter(|_| !is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"))?;
            let size = std::fs::metadata(path).ok()?.len();
            let text = (size <= MAX_TOKEN_BYTES).then(|| std::fs::read_to_string(path).ok())??;
            Some(text.trim().to_owned()).filter(|token| !token.is_empty())
        };
        let token = set("HF_TOKEN").or_else(|| set("HUGGING_FACE_HUB_TOKEN")).or_else(stored);
        Self {
            endpoint: set("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned()),
            // A token with other characters would break the header apart.
            token: token.filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic())),
            is_offline: is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE"),
        }
    }
}

/// Without the token.
impl std::fmt::Debug for HubOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        f.debug_struct("HubOptions")
            .field("endpoint", &self.endpoint)
            .field("token", &token)
            .field("is_offline", &self.is_offline)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_huggingface_hub_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let read = |set: &[(&str, &str)]| {
            let variable = |key: &str| Some(set.iter().find(|(name, _)| *name == key)?.1.to_owned());
            HubOptions::from_variables(&variable, Some(home.path().to_path_buf()))
        };
        assert_eq!(read(&[]).token, None);
        std::fs::create_dir_all(home.path().join(".cache/huggingface")).unwrap();
        std::fs::write(home.path().join(".cache/huggingface/token"), "hf_file\n").unwrap();
        assert_eq!(read(&[]).token.as_deref(), Some("hf_file"));
        assert_eq!(read(&[("HF_TOKEN", "hf_variable")]).token.as_deref(), Some("hf_variable"));
        assert_eq!(read(&[("HF_TOKEN", "a\r\nX: b")]).token, None);
        assert_eq!(read(&[("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]).token, None);
        assert!(read(&[("HF_HUB_OFFLINE", "YES")]).is_offline && !read(&[("HF_HUB_OFFLINE", "0")]).is_offline);
        assert_eq!(read(&[("HF_ENDPOINT", "http://hub")]).endpoint, "http://hub");
        assert!(!format!("{:?}", read(&[])).contains("hf_file"));
    }
}
