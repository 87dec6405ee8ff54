#include "stages/weights/saved_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <future>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "runner/disk/digest.h"
#include "runner/stage/stage.h"
#include "runner/text/printable.h"
#include "runner/weights/hugging_face_cache.h"
#include "runner/weights/strict_json.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/torch_file.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;
using runner::StageError;
using WeightShards = std::map<std::string, std::set<std::string>>;

constexpr std::string_view kIndex = ".index.json";
constexpr const char* kWriteAgain = "fetch or write the file again";

[[noreturn]] void damaged_weights(const fs::path& path, const std::string& why, const std::string& help = kWriteAgain) {
  throw StageError(ErrorCode::kDamagedWeights, "'" + path.string() + "' " + why).with_help(help);
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string text_of(const fs::path& path) {
  constexpr std::uintmax_t kLongest = 64 << 20;
  std::error_code error;
  if (fs::file_size(path, error) > kLongest) damaged_weights(path, "is longer than 64 MiB");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw StageError(ErrorCode::kMissingWeights, "cannot read '" + path.string() + "'");
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_safetensors(const fs::path& path, std::string_view start) {
  // The length of a header, of below 4 GB, then the header.
  const bool begins_so = start.size() > 8 && start.substr(4, 5) == std::string_view("\0\0\0\0{", 5);
  return begins_so || path.extension() == ".safetensors";
}

/// Reads one file by the function for its format; what it is says its content, not its name.
template <typename ReadSafetensors, typename ReadTorchFile>
auto read_by_format(const fs::path& path, ReadSafetensors read_safetensors_file, ReadTorchFile read_file_of_torch) {
  constexpr std::size_t kStart = 512;
  std::ifstream file(path, std::ios::binary);
  std::string start(kStart, '\0');
  file.read(start.data(), kStart);
  start.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  if (start.starts_with("version https://git-lfs.github.com/spec/")) {
    damaged_weights(path, "is Git LFS's pointer to the weights, not the weights",
                    "fetch the file itself: git lfs pull");
  }
  if (is_safetensors(path, start)) return read_safetensors_file();
  if (is_torch_file(start)) return read_file_of_torch();
  damaged_weights(path, "is neither a safetensors file nor one that torch has written",
                  "name a file of weights, and compare its checksum with the one published");
}

TorchFile read_file(const fs::path& path, WeightContents contents) {
  return read_by_format(
      path,
      [&] {
        return TorchFile{read_safetensors(path, contents).tensors, ""};
      },
      [&] { return read_torch_file(path, contents); });
}

void check_names(const fs::path& index, const std::string& shard, const NamedTensors& tensors,
                 const std::set<std::string>& expected) {
  const auto misfit = [&](const std::string& tensor, const std::string& why) {
    damaged_weights(
        index, "does not fit its file '" + shard + "': the tensor '" + runner::printable_ascii(tensor) + "' " + why);
  };
  std::set<std::string> held;
  for (const auto& [name, tensor] : tensors) {
    if (!expected.contains(name)) misfit(name, "is in it, and the index has it elsewhere or not at all");
    held.insert(name);
  }
  for (const std::string& name : expected) {
    if (!held.contains(name)) misfit(name, "is not in it");
  }
}

/// The SHA-256 digest of a file's bytes, as 64 hexadecimal digits. Throws runner::StageError (kMissingWeights) where
/// the file cannot be read.
std::string file_sha256(const std::filesystem::path& path) {
  runner::Digest digest;
  if (const int error = digest.update_from(path)) {
    throw runner::StageError(runner::ErrorCode::kMissingWeights,
                             "cannot read '" + path.string() + "': " + std::strerror(error));
  }
  return digest.finish();
}

/// The digest of files, which does not depend on the folder that they lie in.
std::string sha256_of(const std::vector<fs::path>& files) {
  if (files.size() == 1) return file_sha256(files.front());
  std::string lines;
  for (const fs::path& file : files) lines += file.filename().string() + ' ' + file_sha256(file) + '\n';
  return runner::sha256(lines);
}

/// Which tensors each file of a model in shards holds, as its index (model.safetensors.index.json) has it: their names
/// by the file's. All the files lie beside the index.

/// Reads an index. Throws std::invalid_argument saying what is wrong with it, in half a sentence.
WeightShards parse_weight_shards(std::string_view text) {
  constexpr std::size_t kDepth = 32;
  const nlohmann::json index = runner::parse_strict_json(text, kDepth, "it");
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) throw std::invalid_argument("it has no weight_map");
  WeightShards shards;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.starts_with('.') || name.find('/') != name.npos || name.find('\0') != name.npos) {
      throw std::invalid_argument("it has the tensor '" + runner::printable_ascii(tensor) + "' in " +
                                  runner::printable_ascii(file.dump()) + ", which is not a file beside it");
    }
    shards[name].insert(tensor);
  }
  if (shards.empty()) throw std::invalid_argument("its weight_map is empty");
  return shards;
}

/// Empty where `path` is no index.
WeightShards shards_of(const fs::path& path) {
  if (!path.string().ends_with(kIndex)) return {};
  try {
    return parse_weight_shards(text_of(path));
  } catch (const std::invalid_argument& error) {
    damaged_weights(path, std::string("is not a valid index of shards: ") + error.what());
  }
}

/// The files that hold the tensors, all of which are there.
std::vector<fs::path> files_of(const fs::path& path, const WeightShards& shards) {
  std::vector<fs::path> files;
  for (const auto& [name, tensors] : shards) files.push_back(path.parent_path() / name);
  if (shards.empty()) files.push_back(path);
  for (const fs::path& file : files) {
    if (is_file(file)) continue;
    throw StageError(ErrorCode::kMissingWeights,
                     "'" + path.string() + "' names '" + file.filename().string() + "', which is not beside it")
        .with_help("fetch the model again");
  }
  return files;
}

/// What is in a file, or in the shards of an index, and of numbers their digest, which is computed at the same time.
SavedWeights read(const fs::path& path, const WeightShards& shards, WeightContents contents) {
  const std::vector<fs::path> files = files_of(path, shards);
  std::future<std::string> sha256;
  if (contents == WeightContents::kNumbers) sha256 = std::async(std::launch::async, sha256_of, files);
  SavedWeights result;
  std::vector<NamedTensors::Item> items;
  for (const fs::path& file : files) {
    TorchFile part = read_file(file, contents);
    if (!shards.empty()) check_names(path, file.filename(), part.tensors, shards.at(file.filename()));
    else result.inside = std::move(part.inside);
    items.insert(items.end(), part.tensors.begin(), part.tensors.end());
  }
  std::ranges::sort(items, {}, &NamedTensors::Item::first);
  result.tensors = NamedTensors(std::move(items));
  if (sha256.valid()) result.sha256 = sha256.get();
  return result;
}

}  // namespace

std::optional<nlohmann::json> weights_config(const std::string& reference) {
  auto config = runner::config_beside(find_weights(reference));
  return config ? std::optional(std::move(config->json)) : std::nullopt;
}

std::string weights_sha256(const std::string& reference) {
  const fs::path path = find_weights(reference);
  return sha256_of(files_of(path, shards_of(path)));
}

SavedWeights read_saved_weights(const std::string& reference, WeightContents contents) {
  const fs::path path = find_weights(reference);
  auto config = runner::config_beside(path);
  SavedWeights result = read(path, shards_of(path), contents);
  if (config) result.config = std::move(config->json);
  result.where = path;
  return result;
}

void read_saved_weights(const std::string& reference, const std::string& sha256, const WeightSink& sink) {
  const fs::path path = find_weights(reference);
  const std::vector<fs::path> files = files_of(path, shards_of(path));
  std::future<std::string> now = std::async(std::launch::async, sha256_of, files);
  for (const fs::path& file : files)
    read_by_format(
        file, [&] { read_safetensors(file, sink); }, [&] { read_torch_file(file, sink); });
  if (now.get() != sha256) {
    damaged_weights(path, "has changed since the run began",
                    "leave weights as they are while a run uses them, and start it again");
  }
}

}  // namespace stages
