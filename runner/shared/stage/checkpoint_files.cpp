#include "runner/shared/stage/checkpoint_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <functional>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/digest.h"
#include "runner/shared/error/stage_error.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::array kFiles = {kCheckpointModel, kCheckpointOptimizer, kCheckpointState};
constexpr std::uintmax_t kLargestManifest = 64 << 10;

/// Reads a file in chunks. Returns false if it cannot be read to the end.
bool read_pieces(const fs::path& path, const std::function<void(std::string_view)>& append) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    return false;  // reading a pipe or a device could block or never end
  std::ifstream file = open_regular(path, std::ios::binary);
  std::string piece(1 << 20, '\0');
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    append({piece.data(), static_cast<std::size_t>(file.gcount())});
  }
  return file.eof();
}

std::string read_text(const fs::path& folder, const char* name, std::uintmax_t limit) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(folder / name, error);
  if (error) damaged_checkpoint(folder, std::string("it has no ") + name);
  if (size > limit)
    damaged_checkpoint(folder, std::string(name) + " has " + std::to_string(size) + " bytes");
  std::string text;
  if (!read_pieces(folder / name, [&](std::string_view piece) { text += piece; })) {
    damaged_checkpoint(folder, std::string(name) + " cannot be read");
  }
  return text;
}

json read_manifest(const fs::path& folder) {
  const json manifest = parse_json<json>(read_text(folder, kCheckpointManifest, kLargestManifest));
  if (!manifest.is_object() || !manifest.contains("schema"))
    damaged_checkpoint(folder, "manifest.json was not written by Retort");
  if (manifest["schema"] != kCheckpointSchema) {
    damaged_checkpoint(folder, "manifest.json has version " + manifest["schema"].dump() +
                                   ", but this program reads version 1");
  }
  const auto files = manifest.find("files");
  if (manifest.size() != 2 || files == manifest.end() || !files->is_object() ||
      files->size() != kFiles.size()) {
    damaged_checkpoint(folder, "manifest.json was not written by Retort");
  }
  for (const char* name : kFiles) {
    if (!files->contains(name))
      damaged_checkpoint(folder, std::string("manifest.json does not list ") + name);
    const json& file = (*files)[name];
    if (!file.is_object() || file.size() != 2 || !file.contains("size") ||
        !file["size"].is_number_unsigned() || !file.contains("sha256") ||
        !file["sha256"].is_string()) {
      damaged_checkpoint(folder, std::string("manifest.json has an invalid ") + name + " entry");
    }
  }
  return *files;
}

void check_size(const fs::path& folder, const char* name, const json& files) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(folder / name, error);
  if (error) damaged_checkpoint(folder, std::string("it has no ") + name);
  const auto wanted = files[name]["size"].get<std::uint64_t>();
  if (size != wanted) {
    damaged_checkpoint(folder, std::string(name) + " has " + std::to_string(size) + " bytes, not " +
                                   std::to_string(wanted));
  }
}

void check_digest(const fs::path& folder, const char* name, const json& files) {
  Digest sha256;
  if (!read_pieces(folder / name, [&](std::string_view piece) { sha256.update(piece); })) {
    damaged_checkpoint(folder, std::string(name) + " cannot be read");
  }
  if (sha256.finish() != files[name]["sha256"]) {
    damaged_checkpoint(folder, std::string(name) + " does not match its recorded SHA-256");
  }
}

}  // namespace

void damaged_checkpoint(const fs::path& folder, const std::string& why) {
  throw StageError(ErrorCode::kDamagedWeights,
                   "the checkpoint '" + folder.string() + "' is damaged: " + why);
}

void check_checkpoint(const fs::path& folder, CheckedFiles checked) {
  const json files = read_manifest(folder);
  for (const char* name : kFiles) check_size(folder, name, files);
  check_digest(folder, kCheckpointState, files);
  if (checked == CheckedFiles::kState) return;
  for (const char* name : {kCheckpointModel, kCheckpointOptimizer})
    check_digest(folder, name, files);
}

std::vector<std::string> damaged_checkpoints(const fs::path& folder) {
  std::vector<std::string> damaged;
  std::optional<CheckpointName> checked;
  for (const char* pointer : {kLatestCheckpoint, kBestCheckpoint}) {
    std::error_code error;
    const auto name = pointed_to(folder / pointer);
    if (!name && (pointer == kLatestCheckpoint || fs::exists(folder / pointer, error))) {
      damaged.push_back(no_checkpoint_named(folder / pointer));
    }
    if (!name || name == checked) continue;
    checked = name;
    try {
      check_checkpoint(folder / to_text(*name));
    } catch (const StageError& wrong) {
      damaged.emplace_back(wrong.what());
    }
  }
  return damaged;
}

namespace fs = std::filesystem;

std::string to_text(const CheckpointName& name) {
  const std::string step = std::to_string(name.step);
  return "step-" + std::string(8 - std::min<std::size_t>(8, step.size()), '0') + step +
         (name.again > 0 ? "-" + std::to_string(name.again) : "");
}

std::optional<CheckpointName> checkpoint_name_from(std::string_view text) {
  constexpr std::string_view kStart = "step-";
  if (!text.starts_with(kStart)) return std::nullopt;
  const char* const end = text.data() + text.size();
  CheckpointName name;
  auto [at, error] = std::from_chars(text.data() + kStart.size(), end, name.step);
  if (error == std::errc() && at != end && *at == '-') {
    const auto again = std::from_chars(at + 1, end, name.again);
    at = again.ptr;
    error = again.ec;
  }
  // A number can be written in several ways; accept only the format of to_text().
  return error == std::errc() && at == end && to_text(name) == text ? std::optional(name)
                                                                    : std::nullopt;
}

std::vector<CheckpointName> list_checkpoints(const fs::path& folder) {
  std::vector<CheckpointName> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto name = checkpoint_name_from(entry->path().filename().string());
    std::error_code ignored;
    if (name && fs::is_directory(entry->symlink_status(ignored))) names.push_back(*name);
  }
  std::ranges::sort(names, std::greater());
  return names;
}

std::optional<CheckpointName> pointed_to(const fs::path& pointer) {
  constexpr std::size_t kLongest = 64;
  std::error_code error;
  if (!fs::is_regular_file(pointer, error)) return std::nullopt;
  std::ifstream file = open_regular(pointer, std::ios::binary);
  std::string text(kLongest, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (!text.ends_with('\n')) return std::nullopt;
  text.pop_back();
  return checkpoint_name_from(text);
}

std::string no_checkpoint_named(const fs::path& pointer) {
  return "'" + pointer.string() + "' does not point to a checkpoint";
}

}  // namespace runner
