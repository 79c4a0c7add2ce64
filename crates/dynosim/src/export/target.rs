//! What a deployment is handed off to.

use super::dynamo_version::DynamoVersion;
use super::error::ExportError;

/// Longest name of a deployment: names of its pods and services are made from it, and must stay within 63 letters.
const MAX_NAME: usize = 40;
/// Longest name of a namespace of Kubernetes.
const MAX_NAMESPACE: usize = 63;

/// Version of the `DynamoGraphDeployment` schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiVersion {
    /// `nvidia.com/v1alpha1`, which operators of all versions know.
    V1alpha1,
    /// `nvidia.com/v1beta1`, since Dynamo 1.2.0.
    V1beta1,
}

/// A version of Dynamo, and names within the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    dynamo: DynamoVersion,
    api: ApiVersion,
    name: String,
    namespace: Option<String>,
    image: Option<String>,
}

impl Target {
    /// Name of a deployment that is given none.
    pub const DEFAULT_NAME: &'static str = "dynosim";

    /// A deployment under this version, with the newest schema that it knows unless `api` says otherwise.
    ///
    /// # Errors
    /// If the version does not know the schema.
    pub fn new(dynamo: DynamoVersion, api: Option<ApiVersion>) -> Result<Self, ExportError> {
        let has_beta = dynamo.since(1, 2);
        if api == Some(ApiVersion::V1beta1) && !has_beta {
            return Err(ExportError::ApiVersion {
                version: dynamo.to_string(),
            });
        }
        let newest = if has_beta {
            ApiVersion::V1beta1
        } else {
            ApiVersion::V1alpha1
        };
        Ok(Self {
            dynamo,
            api: api.unwrap_or(newest),
            name: Self::DEFAULT_NAME.to_owned(),
            namespace: None,
            image: None,
        })
    }

    /// The deployment under this name.
    ///
    /// # Errors
    /// If Kubernetes does not accept such names.
    pub fn named(self, name: &str) -> Result<Self, ExportError> {
        Ok(Self {
            name: label("--name", name, MAX_NAME)?,
            ..self
        })
    }

    /// The deployment in this namespace; without one, it goes where the current context of `kubectl` points.
    ///
    /// # Errors
    /// If Kubernetes does not accept such names.
    pub fn in_namespace(self, namespace: &str) -> Result<Self, ExportError> {
        Ok(Self {
            namespace: Some(label("--namespace", namespace, MAX_NAMESPACE)?),
            ..self
        })
    }

    /// Another container image than the released one.
    #[must_use]
    pub fn with_image(self, image: impl Into<String>) -> Self {
        Self {
            image: Some(image.into()),
            ..self
        }
    }

    pub(super) fn dynamo(&self) -> DynamoVersion {
        self.dynamo
    }

    pub(super) fn api(&self) -> ApiVersion {
        self.api
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(super) fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }
}

impl Default for Target {
    /// The newest version of Dynamo under the default name.
    fn default() -> Self {
        Self::new(DynamoVersion::NEWEST, None).expect("the newest version has a schema")
    }
}

/// A name that Kubernetes accepts as a label (RFC 1035), which services have to be.
fn label(option: &'static str, given: &str, most: usize) -> Result<String, ExportError> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fine = given.len() <= most
        && given.bytes().all(inner)
        && given.starts_with(|first: char| first.is_ascii_lowercase())
        && !given.ends_with('-');
    if fine {
        return Ok(given.to_owned());
    }
    Err(ExportError::Name {
        option,
        given: given.to_owned(),
        most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_follows_the_version() {
        let api = |text: &str| Target::new(text.parse().expect("known"), None).expect("possible").api;
        assert_eq!(api("1.6.1"), ApiVersion::V1beta1);
        assert_eq!(api("1.1.1"), ApiVersion::V1alpha1);
        let error = Target::new("1.1.1".parse().expect("known"), Some(ApiVersion::V1beta1));
        assert!(error.expect_err("too early").to_string().contains("choose v1alpha1"));
    }

    #[test]
    fn names_are_those_of_kubernetes() {
        let named = |name: &str| Target::default().named(name);
        assert_eq!(named("qwen-32b").expect("fine").name(), "qwen-32b");
        for name in ["", "Qwen", "1b", "a_b", "a-", &"a".repeat(41)] {
            let error = named(name).expect_err(name).to_string();
            assert!(error.starts_with("--name: must be lower-case"), "{error}");
        }
    }
}
