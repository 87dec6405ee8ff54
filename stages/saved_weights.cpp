#include "stages/saved_weights.h"

#include <fstream>
#include <future>
#include <iterator>
#include <system_error>

#include "runner/stage.h"
#include "stages/file_sha256.h"
#include "stages/safetensors.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;
using runner::StageError;

constexpr std::size_t kLongestConfig = 16 << 20;

/// The object in a JSON file; nullopt where there is no such file.
std::optional<nlohmann::json> read_config(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  const auto refuse = [&](const std::string& why) {
    throw StageError(ErrorCode::kDamagedWeights, "", "'" + path.string() + "' " + why, "fetch or write the file again");
  };
  if (fs::file_size(path, error) > kLongestConfig) refuse("is longer than 16 MiB");
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  nlohmann::json config = nlohmann::json::parse(text, nullptr, false);
  if (!config.is_object()) refuse("is no JSON object");
  return config;
}

}  // namespace

fs::path find_weights(const std::string& reference) {
  std::error_code error;
  if (fs::is_regular_file(reference, error)) return reference;
  throw StageError(ErrorCode::kMissingWeights, "", "there is no file '" + reference + "'", "name a file of weights");
}

SavedWeights read_saved_weights(const std::string& reference) {
  const fs::path path = find_weights(reference);
  std::optional<nlohmann::json> config = read_config(path.parent_path() / "config.json");
  std::future<std::string> sha256 = std::async(std::launch::async, file_sha256, path);
  NamedTensors tensors = read_safetensors(path).tensors;
  return {std::move(tensors), std::move(config), path, sha256.get()};
}

}  // namespace stages
