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

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/digest.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/weights/strict_json.h"
#include "runner/shared/weights/weights_file.h"
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

[[noreturn]] void damaged_weights(const fs::path& path, const std::string& why,
                                  const std::string& help = kWriteAgain) {
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
  std::ifstream file = runner::open_regular(path, std::ios::binary);
  if (!file) throw StageError(ErrorCode::kMissingWeights, "cannot read '" + path.string() + "'");
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_safetensors(const fs::path& path, std::string_view start) {
  // A header length below 4 GB, followed by the header.
  const bool begins_so = start.size() > 8 && start.substr(4, 5) == std::string_view("\0\0\0\0{", 5);
  return begins_so || path.extension() == ".safetensors";
}

/// Reads one file with the function for its format. The format is detected from the contents; files
/// named *.safetensors always count as safetensors.
template <typename ReadSafetensors, typename ReadTorchFile>
auto read_by_format(const fs::path& path, ReadSafetensors read_safetensors_file,
                    ReadTorchFile read_file_of_torch) {
  constexpr std::size_t kStart = 512;
  std::ifstream file = runner::open_regular(path, std::ios::binary);
  std::string start(kStart, '\0');
  file.read(start.data(), kStart);
  start.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  if (start.starts_with("version https://git-lfs.github.com/spec/")) {
    damaged_weights(path, "is a Git LFS pointer to the weights, not the weights",
                    "fetch the file itself: git lfs pull");
  }
  if (is_safetensors(path, start)) return read_safetensors_file();
  if (is_torch_file(start)) return read_file_of_torch();
  damaged_weights(path, "is neither a safetensors file nor one written by torch",
                  "give a weights file, and compare its checksum with the published one");
}

/// Returns the rest of `name` after the prefix `entry`; nullopt if it does not have that prefix.
std::optional<std::string> name_below(const std::string& entry, const std::string& name) {
  if (entry.empty()) return name;
  if (name.size() <= entry.size() || !name.starts_with(entry) || name[entry.size()] != '.')
    return std::nullopt;
  return name.substr(entry.size() + 1);
}

/// Reads the tensors with the prefix `entry`, since safetensors files have only names and no
/// dictionaries.
TorchFile read_safetensors_below(const fs::path& path, WeightContents contents,
                                 const std::string& entry) {
  TorchFile file{read_safetensors(path, contents).tensors, entry};
  if (entry.empty()) return file;
  std::vector<NamedTensors::Item> items;
  for (const auto& [name, tensor] : file.tensors) {
    if (const auto below = name_below(entry, name)) items.emplace_back(*below, tensor);
  }
  file.tensors = NamedTensors(std::move(items));
  return file;
}

TorchFile read_file(const fs::path& path, WeightContents contents, const std::string& entry) {
  return read_by_format(
      path, [&] { return read_safetensors_below(path, contents, entry); },
      [&] { return read_torch_file(path, contents, entry); });
}

/// Returns a sink that passes on the tensors with the prefix `entry`, under their names without it.
/// `entry` and `sink` are borrowed.
WeightSink sink_below(const std::string& entry, const WeightSink& sink) {
  return {
      .wants =
          [&](const std::string& name) {
            const auto below = name_below(entry, name);
            return below && sink.wants(*below);
          },
      .take =
          [&](const WeightPiece& piece) {
            sink.take({name_below(entry, piece.tensor).value_or(""), piece.begin, piece.numbers});
          }};
}

/// Returns a sink that passes tensors on under their plain_weight_name(). `sink` is borrowed.
WeightSink plain_sink(const WeightSink& sink) {
  return {.wants = [&](const std::string& name) { return sink.wants(plain_weight_name(name)); },
          .take =
              [&](const WeightPiece& piece) {
                sink.take({plain_weight_name(piece.tensor), piece.begin, piece.numbers});
              }};
}

/// The prefixes of torch.compile, FSDP and activation checkpointing, which can wrap any module.
constexpr std::array<std::string_view, 3> kModuleWrappers = {"_orig_mod.", "_fsdp_wrapped_module.",
                                                             "_checkpoint_wrapped_module."};

/// Returns a description of how plain_weight_name() changes a name.
std::string renaming(std::string_view name) {
  for (const std::string_view wrapper : kModuleWrappers)
    if (name.find(wrapper) != name.npos) return "without '" + std::string(wrapper) + "'";
  return "with names from before 2018 updated";
}

void check_names(const fs::path& index, const std::string& shard, const NamedTensors& tensors,
                 const std::set<std::string>& expected) {
  const auto misfit = [&](const std::string& tensor, const std::string& why) {
    damaged_weights(index, "does not match its file '" + shard + "': the tensor '" +
                               runner::printable_ascii(tensor) + "' " + why);
  };
  std::set<std::string> held;
  for (const auto& [name, tensor] : tensors) {
    if (!expected.contains(name))
      misfit(name, "is in that file, but the index lists it elsewhere or not at all");
    held.insert(name);
  }
  for (const std::string& name : expected) {
    if (!held.contains(name)) misfit(name, "is not in that file");
  }
}

/// Returns the SHA-256 of a file, as 64 hexadecimal digits. Throws runner::StageError
/// (kMissingWeights) if the file cannot be read.
std::string file_sha256(const std::filesystem::path& path) {
  runner::Digest digest;
  if (const int error = digest.update_from(path)) {
    throw runner::StageError(runner::ErrorCode::kMissingWeights,
                             "cannot read '" + path.string() + "': " + std::strerror(error));
  }
  return digest.finish();
}

/// Returns a digest of several files that does not depend on their folder.
std::string sha256_of(const std::vector<fs::path>& files) {
  if (files.size() == 1) return file_sha256(files.front());
  std::string lines;
  for (const fs::path& file : files)
    lines += file.filename().string() + ' ' + file_sha256(file) + '\n';
  return runner::sha256(lines);
}

/// Parses the index of a sharded model (model.safetensors.index.json), and returns the tensor names
/// by file name. All files are next to the index. Throws std::invalid_argument with a clause that
/// describes the error.
WeightShards parse_weight_shards(std::string_view text) {
  constexpr std::size_t kDepth = 32;
  const nlohmann::json index = runner::parse_strict_json(text, kDepth, "it");
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) throw std::invalid_argument("it has no weight_map");
  WeightShards shards;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.starts_with('.') || name.find('/') != name.npos ||
        name.find('\0') != name.npos) {
      throw std::invalid_argument("it has the tensor '" + runner::printable_ascii(tensor) +
                                  "' in " + runner::printable_ascii(file.dump()) +
                                  ", which is not a file in the same folder");
    }
    shards[name].insert(tensor);
  }
  if (shards.empty()) throw std::invalid_argument("its weight_map is empty");
  return shards;
}

/// Reads the index at `path`. Returns an empty map if `path` is not an index.
WeightShards shards_of(const fs::path& path) {
  if (!path.string().ends_with(kIndex)) return {};
  try {
    return parse_weight_shards(text_of(path));
  } catch (const std::invalid_argument& error) {
    damaged_weights(path, std::string("is not a valid index of shards: ") + error.what());
  }
}

/// Returns the files with the tensors. Throws if one does not exist.
std::vector<fs::path> files_of(const fs::path& path, const WeightShards& shards) {
  std::vector<fs::path> files;
  for (const auto& [name, tensors] : shards) files.push_back(path.parent_path() / name);
  if (shards.empty()) files.push_back(path);
  for (const fs::path& file : files) {
    if (is_file(file)) continue;
    throw StageError(ErrorCode::kMissingWeights, "'" + path.string() + "' names '" +
                                                     file.filename().string() +
                                                     "', which is not in the same folder")
        .with_help("fetch the model again");
  }
  return files;
}

/// Reads a file, or the shards of an index. If values are read, computes the digest at the same
/// time.
SavedWeights read(const fs::path& path, const WeightShards& shards, WeightContents contents,
                  const std::string& entry) {
  const std::vector<fs::path> files = files_of(path, shards);
  std::future<std::string> sha256;
  if (contents == WeightContents::kNumbers)
    sha256 = std::async(std::launch::async, sha256_of, files);
  SavedWeights result;
  std::vector<NamedTensors::Item> items;
  for (const fs::path& file : files) {
    TorchFile part = read_file(file, contents, entry);
    if (!shards.empty() && entry.empty())
      check_names(path, file.filename(), part.tensors, shards.at(file.filename()));
    result.inside = std::move(part.inside);
    result.others = std::move(part.others);
    items.insert(items.end(), part.tensors.begin(), part.tensors.end());
  }
  if (items.empty() && !entry.empty()) {
    throw StageError(ErrorCode::kOptionConflict, "'" + path.string() + "' has no tensors under '" +
                                                     runner::printable_ascii(entry) + "'")
        .with_help("leave weights_entry out, or set it to a prefix of the tensor names");
  }
  std::set<std::string> renamed;
  for (auto& [name, tensor] : items) {
    std::string plain = plain_weight_name(name);
    if (plain != name) renamed.insert(renaming(name));
    name = std::move(plain);
  }
  result.renamed.assign(renamed.begin(), renamed.end());
  std::ranges::sort(items, {}, &NamedTensors::Item::first);
  const auto twice = std::ranges::adjacent_find(items, {}, &NamedTensors::Item::first);
  if (twice != items.end())
    damaged_weights(path,
                    "contains the tensor '" + runner::printable_ascii(twice->first) + "' twice");
  result.tensors = NamedTensors(std::move(items));
  if (sha256.valid()) result.sha256 = sha256.get();
  return result;
}

}  // namespace

std::string SavedWeights::choice() const {
  constexpr std::size_t kShown = 8;
  std::string text;
  if (!inside.empty()) {
    text = "'" + runner::printable_ascii(inside) + "' of it";
    if (!others.empty()) text += " (it also has " + runner::listed(others, kShown, "'") + ")";
    text += ", ";
  }
  for (const std::string& how : renamed) text += how + ", ";
  return text;
}

std::string plain_weight_name(std::string name) {
  for (const std::string_view wrapper : kModuleWrappers) {
    for (std::size_t at = name.find(wrapper); at != name.npos; at = name.find(wrapper, at)) {
      if (at > 0 && name[at - 1] != '.') ++at;
      else name.erase(at, wrapper.size());
    }
  }
  // Update the names of torchvision's DenseNets from before 2018.
  const std::size_t layer = name.find(".denselayer");
  if (layer == name.npos) return name;
  for (const std::string_view old : {".norm.1.", ".norm.2.", ".conv.1.", ".conv.2."}) {
    const std::size_t at = name.find(old, layer);
    if (at != name.npos) name.erase(at + old.size() - 3, 1);
  }
  return name;
}

std::optional<nlohmann::json> weights_config(const std::string& reference) {
  auto config = runner::config_next_to(find_weights(reference));
  return config ? std::optional(std::move(config->json)) : std::nullopt;
}

std::string weights_sha256(const std::string& reference) {
  const fs::path path = find_weights(reference);
  return sha256_of(files_of(path, shards_of(path)));
}

SavedWeights read_saved_weights(const std::string& reference, WeightContents contents,
                                const std::optional<std::string>& entry) {
  const fs::path path = find_weights(reference);
  auto config = runner::config_next_to(path);
  SavedWeights result = read(path, shards_of(path), contents, entry.value_or(""));
  if (config) result.config = std::move(config->json);
  result.where = path;
  return result;
}

void read_saved_weights(const std::string& reference, const std::string& sha256,
                        const WeightSink& sink, const std::optional<std::string>& entry) {
  const fs::path path = find_weights(reference);
  const std::vector<fs::path> files = files_of(path, shards_of(path));
  const std::string below = entry.value_or("");
  const WeightSink plain = plain_sink(sink);
  std::future<std::string> now = std::async(std::launch::async, sha256_of, files);
  for (const fs::path& file : files)
    read_by_format(
        file, [&] { read_safetensors(file, sink_below(below, plain)); },
        [&] { read_torch_file(file, plain, below); });
  if (now.get() != sha256) {
    damaged_weights(path, "has changed since the run started",
                    "do not change weights while a run uses them; start the run again");
  }
}

}  // namespace stages
