//! Models whose facts are part of the crate.

/// File stem and text of every bundled model.
#[cfg(feature = "bundled")]
const FILES: &[(&str, &str)] = {
    macro_rules! files {
        ($($stem:literal),* $(,)?) => {
            &[$((
                $stem,
                include_str!(concat!("../../../../perfdata/models/", $stem, ".json")),
            )),*]
        };
    }
    files![
        "Qwen__Qwen3-0.6B",
        "Qwen__Qwen3-1.7B",
        "Qwen__Qwen3-235B-A22B",
        "Qwen__Qwen3-235B-A22B-FP8",
        "Qwen__Qwen3-30B-A3B",
        "Qwen__Qwen3-30B-A3B-FP8",
        "Qwen__Qwen3-32B",
        "Qwen__Qwen3-32B-FP8",
        "Qwen__Qwen3-8B",
        "meta-llama__Meta-Llama-3.1-405B",
        "meta-llama__Meta-Llama-3.1-70B",
        "meta-llama__Meta-Llama-3.1-8B",
        "nvidia__Llama-3.3-70B-Instruct-FP8",
        "openai__gpt-oss-120b",
    ]
};

/// Nothing is embedded without the feature `bundled`.
#[cfg(not(feature = "bundled"))]
const FILES: &[(&str, &str)] = &[];

/// Names of all bundled models.
pub(super) fn names() -> Vec<String> {
    FILES.iter().map(|(stem, _)| name(stem)).collect()
}

/// The text of a bundled model's file.
pub(super) fn text(model: &str) -> Option<&'static str> {
    FILES
        .iter()
        .find(|(stem, _)| name(stem) == model)
        .map(|(_, text)| *text)
}

fn name(stem: &str) -> String {
    stem.replace("__", "/")
}

#[cfg(all(test, feature = "bundled"))]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::{FILES, names};
    use crate::model::ModelSpec;

    #[test]
    fn every_file_of_the_folder_is_bundled() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../perfdata/models");
        let there: BTreeSet<String> = fs::read_dir(folder)
            .expect("the folder is part of the repository")
            .map(|entry| entry.expect("the entry is readable").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect();
        let bundled: BTreeSet<String> = FILES.iter().map(|(stem, _)| (*stem).to_owned()).collect();
        assert_eq!(bundled, there);
    }

    #[test]
    fn every_bundled_model_is_supported() {
        for name in names() {
            let model = ModelSpec::find(&name).expect("bundled models are supported");
            assert_eq!(model.name, name);
        }
    }
}
