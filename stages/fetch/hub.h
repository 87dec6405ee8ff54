#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "stages/fetch/download.h"

namespace stages {

/// A model to fetch from the Hugging Face Hub or a compatible server.
struct HubRequest {
  std::string repository;         ///< "openai/clip-vit-base-patch32", or "gpt2"
  std::string revision = "main";  ///< a branch, tag or commit
  /// Empty: the weights and the files that describe them (wanted_files()).
  std::vector<std::string> files = {};
  std::filesystem::path cache = {};  ///< empty: runner::hub_cache()
  std::string endpoint = {};  ///< empty: HF_ENDPOINT or, if that is not set, https://huggingface.co
};

struct HubFile {
  std::string name;  ///< relative to the snapshot
  std::int64_t bytes = 0;
  bool was_there = false;
};

/// The files of a model in the cache.
struct HubSnapshot {
  std::string commit;
  std::filesystem::path folder;  ///< <cache>/models--ORG--NAME/snapshots/<commit>
  std::vector<HubFile> files;
  std::int64_t received = 0;  ///< number of bytes downloaded
};

/// Fetches a model into huggingface_hub's cache, in its layout: blobs/<etag>, relative links to
/// them in snapshots/<commit>/, and refs/<revision>, which is written last. Verifies the SHA-256 or
/// git checksum of every file. HF_TOKEN is sent only to the host and port of the endpoint. Throws
/// runner::StageError like download(), kNotPublished if the model has no such files,
/// kDownloadFailed if the server's response is malformed, and runner::Canceled.
HubSnapshot fetch_hub(const HubRequest& request, const FetchCallbacks& callbacks,
                      const Patience& patience = {}, runner::Storage& storage = runner::disk());

/// Returns the files of a model that Retort uses: config.json, preprocessor_config.json, a
/// tokenizer's merges.txt and vocab.json, an adapter's files, and the safetensors files or, if
/// there are none, the .bin files.
std::vector<std::string> wanted_files(const std::vector<std::string>& all);

}  // namespace stages
