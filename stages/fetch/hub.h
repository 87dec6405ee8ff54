#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "stages/fetch/download.h"

namespace stages {

/// A model on the Hugging Face Hub, or on a server that answers as it does.
struct HubWish {
  std::string repository;               ///< "openai/clip-vit-base-patch32", or "gpt2"
  std::string revision = "main";        ///< a branch, tag or commit
  std::vector<std::string> files = {};  ///< empty: weights and what describes them (wanted_files)
  std::filesystem::path cache = {};     ///< empty: runner::hub_cache()
  std::string endpoint = {};            ///< empty: HF_ENDPOINT, else https://huggingface.co
};

struct HubFile {
  std::string name;  ///< below the snapshot
  std::int64_t bytes = 0;
  bool was_there = false;
};

/// What the cache holds of it now.
struct HubSnapshot {
  std::string commit;
  std::filesystem::path folder;  ///< <cache>/models--ORG--NAME/snapshots/<commit>
  std::vector<HubFile> files;
  std::int64_t received = 0;  ///< bytes that came over the net
};

/// Fills the Hub's cache as the library of the Hub does, so that it finds the files: blobs/<etag>,
/// relative links to them in snapshots/<commit>/, and refs/<revision>, which is written last.
/// SHA-256 or git's sum of every file is checked. HF_TOKEN is sent to the endpoint's own host and
/// port alone. Throws runner::StageError: what download() does, kNotPublished where the model has
/// no such files, kDownloadFailed where the server says what cannot be understood; and
/// runner::Cancelled.
HubSnapshot fetch_hub(const HubWish& wish, const FetchCallbacks& callbacks,
                      const Patience& patience = {}, runner::Storage& storage = runner::disk());

/// Of a model's files those that hold its weights and say how it is built and fed: config.json,
/// preprocessor_config.json, merges.txt and vocab.json of a tokenizer, an adapter's files, and the
/// safetensors, or where there are none the .bin.
std::vector<std::string> wanted_files(const std::vector<std::string>& all);

}  // namespace stages
